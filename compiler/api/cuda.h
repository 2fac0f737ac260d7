/* cuda: what a compilation does for GPUs: a second plan of the same program, its text, its code, and the account of both. */
#ifndef DT_API_CUDA_H
#define DT_API_CUDA_H

#include "compiler/artifact.h"
#include "compiler/codegen/codegen.h"

enum {
    DT_API_MOST_ARCHITECTURES = 16
};

typedef struct dt_api_cuda {
    char names[16 * DT_API_MOST_ARCHITECTURES]; /* of those that were asked for */
    const char *architectures[DT_API_MOST_ARCHITECTURES];
    int n_architectures; /* 0: those of dt_cuda_default_architectures, which are filled in when code is made */
    dt_cuda_program program;
    dt_cuda_code code;
} dt_api_cuda;

/* "cuda", or "cuda:sm_80,compute_90": sets the architectures, each once; the error says what they look like. */
dt_status *dt_api_cuda_parse_target(const char *target, dt_api_cuda *cuda);

/* Compiles the program: what the compiler warns of is appended to `warnings`, a text on the heap. dt_cuda_code_free(&cuda->code) when done. */
dt_status *dt_api_cuda_compile(dt_api_cuda *cuda, dt_text *warnings);

/* For --emit=plan: a line for each function, with what it takes on the last architecture that has a cubin. Without NVRTC it says so. */
void dt_api_cuda_print_functions(dt_text *text, dt_api_cuda *cuda);

#endif
