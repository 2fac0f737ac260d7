/* dtc_cuda: what `dtc compile` does for GPUs: a second plan of the same program, its text, its code, and the account of both. */
#ifndef DT_COMPILER_DTC_CUDA_H
#define DT_COMPILER_DTC_CUDA_H

#include "compiler/artifact.h"
#include "compiler/codegen/codegen.h"
#include "compiler/dtc.h"

enum {
    DTC_MOST_ARCHITECTURES = 16
};

typedef struct dtc_cuda {
    char names[16 * DTC_MOST_ARCHITECTURES]; /* of those that were asked for */
    const char *architectures[DTC_MOST_ARCHITECTURES];
    int n_architectures; /* 0: those of dt_cuda_default_architectures, which are filled in when code is made */
    dt_cuda_program program;
    dt_cuda_code code;
} dtc_cuda;

/* "cuda", or "cuda:sm_80,compute_90": sets the architectures, each once; the error says what they look like. */
dt_status *dtc_cuda_parse_target(const char *target, dtc_cuda *cuda);

/* Renders the plans; and compiles them, with what the compiler warns of on standard error. dt_cuda_code_free(&cuda->code) when done. */
dt_status *dtc_cuda_render(const dt_compilation *compilation, dtc_cuda *cuda);
dt_status *dtc_cuda_compile(dtc_cuda *cuda);

/* For --emit=plan: a line for each function, with what it takes on the last architecture that has a cubin. Without NVRTC it says so. */
void dtc_cuda_print_functions(dt_text *text, dtc_cuda *cuda);

#endif
