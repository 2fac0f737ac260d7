/* cuda_nvrtc: NVIDIA's compiler of CUDA C++, loaded when it is needed: dtc neither links it nor needs it for anything else.
 *
 * It makes code for every architecture on a machine that has none of them. */
#ifndef DT_CODEGEN_CUDA_NVRTC_H
#define DT_CODEGEN_CUDA_NVRTC_H

#include "base/status.h"
#include "base/text.h"

typedef struct _nvrtcProgram *dt_nvrtc_program;

/* X(returns, symbol, arguments): all of them are needed. The same in versions 12 and 13. */
#define DT_NVRTC_SYMBOLS(X)                                                                                                                          \
    X(const char *, nvrtcGetErrorString, (int))                                                                                                      \
    X(int, nvrtcVersion, (int *, int *))                                                                                                             \
    X(int, nvrtcGetNumSupportedArchs, (int *))                                                                                                       \
    X(int, nvrtcGetSupportedArchs, (int *))                                                                                                          \
    X(int, nvrtcCreateProgram, (dt_nvrtc_program *, const char *, const char *, int, const char *const *, const char *const *))                      \
    X(int, nvrtcDestroyProgram, (dt_nvrtc_program *))                                                                                                \
    X(int, nvrtcCompileProgram, (dt_nvrtc_program, int, const char *const *))                                                                        \
    X(int, nvrtcGetProgramLogSize, (dt_nvrtc_program, size_t *))                                                                                     \
    X(int, nvrtcGetProgramLog, (dt_nvrtc_program, char *))                                                                                           \
    X(int, nvrtcGetCUBINSize, (dt_nvrtc_program, size_t *))                                                                                          \
    X(int, nvrtcGetCUBIN, (dt_nvrtc_program, char *))                                                                                                \
    X(int, nvrtcGetPTXSize, (dt_nvrtc_program, size_t *))                                                                                            \
    X(int, nvrtcGetPTX, (dt_nvrtc_program, char *))

typedef struct dt_nvrtc {
    void *library;
    int major, minor;
#define X(returns, symbol, arguments) returns(*symbol) arguments;
    DT_NVRTC_SYMBOLS(X)
#undef X
} dt_nvrtc;

/* Loads the library: what the environment variable DT_NVRTC names, else libnvrtc.so.13 or .12 where the system or a toolkit in /usr/local/cuda has
 * it. DT_NOT_FOUND: there is none; the message says how to get one. It stays loaded until dt_nvrtc_close. Usable by several threads. */
dt_status *dt_nvrtc_open(dt_nvrtc *nvrtc);
void dt_nvrtc_close(dt_nvrtc *nvrtc); /* a zeroed one is allowed */

/* DT_INVALID_ARGUMENT when it makes no code for `architecture` ("sm_90", or "compute_90" for PTX), with the list of those that it knows; or when it
 * knows the architecture without its suffix ("sm_80a") alone. */
dt_status *dt_nvrtc_check_architecture(const dt_nvrtc *nvrtc, const char *architecture);

/* Compiles `source` for `architecture`: a cubin for sm_, PTX for compute_. *bytes is released by the caller. What the compiler remarks, warnings of
 * its assembler among it, is appended to `log`. */
dt_status *dt_nvrtc_compile(const dt_nvrtc *nvrtc, const char *source, const char *architecture, char **bytes, size_t *n_bytes, dt_text *log);

/* The options, as one line: what a cache must know of them. */
extern const char dt_nvrtc_options[];

#endif
