/* codegen: kernels in, object code or text out. Nothing in this folder knows an op: it renders the loop nests of kernel/kernel.h. */
#ifndef DT_CODEGEN_CODEGEN_H
#define DT_CODEGEN_CODEGEN_H

#include "compiler/kernel/kernel.h"

/* The instruction sets that code is generated for, by the names that artifacts use. "native" is the machine that dtc runs on. */
#define DT_LEVEL_V3 "x86-64-v3"
#define DT_LEVEL_V4 "x86-64-v4"
#define DT_LEVEL_NATIVE "native"

typedef struct dt_codegen_options {
    bool check; /* let LLVM verify what was generated: for tests, it costs a tenth of the time */
} dt_codegen_options;

/* Relocatable code of one level. */
typedef struct dt_codegen_object {
    const char *level; /* set by the caller */
    char *bytes;       /* an ELF relocatable object: one global function a kernel, named as the kernel; it imports nothing. free() it */
    size_t n_bytes;
    double seconds; /* what it took */
} dt_codegen_object;

/* Compiles the kernels of all plans, once for each of the objects' levels, each level in a thread of its own. On error no object holds bytes.
 * The plans must be of good form (dt_plan_verify); their kernels' names must differ. `options` may be NULL.
 * DT_INVALID_ARGUMENT: a level that is not known, or a "native" machine below x86-64-v3. */
dt_status *dt_codegen_llvm(const dt_plan *const *plans, int n_plans, const dt_codegen_options *options, dt_codegen_object *objects, int n_objects);

/* The same code for people: what goes into LLVM's own passes, or the assembly that comes out. */
typedef enum dt_codegen_text {
    DT_CODEGEN_TEXT_LLVM,
    DT_CODEGEN_TEXT_ASSEMBLY
} dt_codegen_text;
dt_status *dt_codegen_llvm_text(const dt_plan *const *plans, int n_plans, const char *level, dt_codegen_text kind, dt_text *text);

/* "19.1.7": the version of LLVM in use. buffer: 32 bytes. */
const char *dt_codegen_llvm_version(char buffer[32]);

#endif
