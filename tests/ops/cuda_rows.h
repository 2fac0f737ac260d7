/* cuda_rows: rows of the op table as CUDA text, run by emulation in every order of threads, with equal bits; see rows.h. */
#ifndef DT_TESTS_OPS_CUDA_ROWS_H
#define DT_TESTS_OPS_CUDA_ROWS_H

#include "base/cpu.h"
#include "tests/ops/rows.h"
#include "tests/support/emulated.h"

static bool has_nvrtc; /* then the text goes through it too */

static dt_status *pass_through_nvrtc(const dt_cuda_program *program) {
    static const char *const ptx[] = {"compute_80"};
    dt_text warnings = {0};
    dt_cuda_code code;
    DT_TRY(dt_cuda_compile(program, ptx, 1, NULL, &warnings, &code));
    dt_status *status = warnings.data != NULL ? dt_error(DT_INTERNAL, "%s", warnings.data) : NULL;
    dt_text_free(&warnings);
    dt_cuda_code_free(&code);
    return status;
}

static dt_status *make_with(const dt_compilation *compilation, bool wide, void *context, way *ways, int *n_ways) {
    static const char *const names[EMULATED_WAYS] = {"threads forward", "threads in reverse", "threads at random"};
    emulated_code *codes = context; /* [EMULATED_WAYS] of one library */
    DT_TRY(emulated_make_with(compilation, &codes[0], wide, NULL));
    if (has_nvrtc && compilation->target == DT_TARGET_CUDA) DT_TRY(pass_through_nvrtc(&codes[0].program));
    for (int i = 0; i < EMULATED_WAYS; i++) {
        codes[i] = codes[0];
        codes[i].how = i;
        codes[i].seed = 1;
        ways[i] = (way){names[i], emulated_run, &codes[i], i > 0};
    }
    *n_ways = EMULATED_WAYS;
    return NULL;
}

static dt_status *make(const dt_compilation *compilation, void *context, way *ways, int *n_ways) {
    return make_with(compilation, false, context, ways, n_ways);
}

static dt_status *make_wide(const dt_compilation *compilation, void *context, way *ways, int *n_ways) {
    bool is_wide = false;
    const emulated_code *code = context;
    DT_TRY(make_with(compilation, true, context, ways, n_ways));
    for (int i = 0; i < code->program.n_sources; i++) is_wide |= strstr(code->program.sources[i].body, "for (i64 ") != NULL;
    return is_wide ? NULL : dt_error(DT_INTERNAL, "no index has 64 bits");
}

static void release(void *context) { emulated_free(context); }

static const char *wrong(void *context) {
    emulated_code *code = context;
    return code->message[0] != 0 ? code->message : NULL;
}

static const generator cuda = {DT_TARGET_CUDA, EMULATED_WAYS * sizeof(emulated_code), make, release, wrong};
static const generator cuda_of_64_bits = {DT_TARGET_CUDA, EMULATED_WAYS * sizeof(emulated_code), make_wide, release, wrong};

#endif
