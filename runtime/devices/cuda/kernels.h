/* kernels: what an artifact holds for GPUs, loaded on one, and how a kernel of a plan is put on its stream.
 *
 * Of the artifact's architectures the first of these that the driver takes is loaded: code of this very GPU; code of an older one of the same major
 * version, which it runs; PTX, which the driver compiles. All of it happens when a session is created: in a step functions are only called. */
#ifndef DT_RUNTIME_DEVICES_CUDA_KERNELS_H
#define DT_RUNTIME_DEVICES_CUDA_KERNELS_H

#include "base/arena.h"
#include "runtime/artifact/artifact.h"
#include "runtime/devices/cuda/context.h"
#include "runtime/devices/cuda/library.h"
#include "runtime/devices/operation.h"

/* A launch has at most so many times the blocks that a GPU runs at once: enough to even out what they have to do, few enough that starting them is
 * cheap. */
enum {
    DT_CUDA_WAVES = 4
};

/* A function of the artifact, ready to be launched, or what a library does in its place. */
typedef struct dt_cuda_entry {
    void *handle;
    int64_t most_blocks;                /* that a launch has: DT_CUDA_WAVES */
    dt_cuda_library_operation *library; /* NULL: none */
    bool is_warm;                       /* the library has run once */
} dt_cuda_entry;

typedef struct dt_cuda_kernels {
    const dt_cuda *cuda;
    const dt_artifact *artifact; /* that opened; the plans are those of artifact->cuda->program */
    const char *architecture;    /* in use: "sm_90", "compute_90" */
    int n_modules;
    void **modules;             /* [n_units] */
    dt_cuda_entry ***functions; /* [function][kernel][launch] of functions that sessions run; else NULL */
    dt_cuda_entry reduction;
    dt_cuda_libraries *libraries; /* NULL: nothing is left to libraries */
    uint64_t workspace;           /* of libraries; set by whoever allocates it, and owned by them */
    uint64_t *addresses;          /* [most buffers of a kernel] of the call in progress */
    void **values;                /* of the arguments of a launch, and where each is: as the driver wants them */
    void **arguments;
} dt_cuda_kernels;

/* use_libraries: leave to vendors' libraries what they can do (library.h). DT_FAILED_PRECONDITION: no code of the artifact runs on this GPU, or with
 * this driver; the message says what would. What it loads is released by dt_cuda_kernels_free, after an error too. */
dt_status *dt_cuda_kernels_load(const dt_cuda *cuda, const dt_artifact *artifact, bool use_libraries, dt_arena *arena, dt_cuda_kernels *kernels);
void dt_cuda_kernels_free(dt_cuda_kernels *kernels); /* one of zeros is allowed */

/* What libraries need beside all buffers, before anything is put on the stream, for calls in so many places. */
size_t dt_cuda_kernels_workspace_bytes(const dt_cuda_kernels *kernels, int n_places);

/* Puts a kernel of artifact->cuda->program on the stream, which may be captured: the seam between plans and what computes them. An error names the
 * kernel and its lines of the program. */
dt_status *dt_cuda_launch(dt_cuda_kernels *kernels, const dt_operation_launch *call);
/* The same for the function of abi/reduction.h, whose work, at this address, has so many elements; on a stream of the caller's. */
dt_status *dt_cuda_launch_reduction(dt_cuda_kernels *kernels, uint64_t work, int64_t n_elements, void *stream);
/* Runs once what libraries do of a kernel, before anything is captured (dt_cuda_library_warm). */
dt_status *dt_cuda_warm(dt_cuda_kernels *kernels, const dt_operation_launch *call);
/* "conv2d_1 (fashion_cnn.dt:13)": for messages. */
const dt_artifact_kernel *dt_cuda_kernel_of(const dt_cuda_kernels *kernels, const dt_operation_launch *call);

#endif
