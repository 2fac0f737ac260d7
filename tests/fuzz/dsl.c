/* Any bytes as a program: refused with diagnostics, or a module that the verifier accepts. It may use no file but its own. */
#include "frontends/dsl/dsl.h"
#include "ir/verify.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    dt_arena *arena = dt_arena_create();
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_module *module;
    dt_status *status = dt_dsl_compile(arena, "no/folder/fuzz.dt", dt_arena_substring(arena, (const char *)data, n), NULL, diagnostics, &module);
    if (status != NULL || (module == NULL) != (dt_diagnostics_n_errors(diagnostics) > 0)) abort();
    if (module != NULL && dt_verify(module) != NULL) abort();
    dt_text text = {0};
    dt_diagnostics_print(&text, diagnostics);
    if (module == NULL && text.n == 0) abort();
    dt_text_free(&text);
    dt_arena_destroy(arena);
    return 0;
}
