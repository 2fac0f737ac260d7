/* cuda_rows: rows of the op table as CUDA text, run by emulation in every order of threads, with equal bits; see rows.h. */
#ifndef DT_TESTS_OPS_CUDA_ROWS_H
#define DT_TESTS_OPS_CUDA_ROWS_H

#include "base/cpu.h"
#include "tests/ops/rows.h"
#include "tests/support/emulated.h"

static dt_status *make(const dt_compilation *compilation, void *context, way *ways, int *n_ways) {
    static const char *const names[EMULATED_WAYS] = {"threads forward", "threads in reverse", "threads at random"};
    emulated_code *codes = context; /* [EMULATED_WAYS] of one library */
    DT_TRY(emulated_make(compilation, &codes[0]));
    for (int i = 0; i < EMULATED_WAYS; i++) {
        codes[i] = codes[0];
        codes[i].how = i;
        codes[i].seed = 1;
        ways[i] = (way){names[i], emulated_run, &codes[i], i > 0};
    }
    *n_ways = EMULATED_WAYS;
    return NULL;
}

static void release(void *context) { emulated_free(context); }

static const char *wrong(void *context) {
    emulated_code *code = context;
    return code->message[0] != 0 ? code->message : NULL;
}

static const generator cuda = {DT_TARGET_CUDA, EMULATED_WAYS * sizeof(emulated_code), make, release, wrong};

#endif
