/* verify, as a pass: the front end's promise before the first rewrite. The rules are the IR's own (ir/verify.h). */
#include "ir/verify.h"
#include "compiler/passes/passes.h"

dt_status *dt_pass_verify(dt_compilation *compilation) { return dt_verify(compilation->module); }
