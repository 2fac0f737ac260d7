/* library: vendors' libraries on a GPU: what a plan's launches can leave to them (abi/library.h).
 *
 * A library is loaded when a plan has something for it, and one that is missing is an error that names the flag which does without: falling back in
 * silence would make bits depend on what a machine has installed. For each call the library's heuristics are asked once, when the session is created,
 * for a way that always adds in one order; where there is none the generated function does it, and the choices say so. That is for what the library
 * says of the call alone: where it fails, for want of memory say, it might not fail the next time, and is an error. Nothing of a session but this
 * knows a library: cublaslt.c and cudnn.c are the only files that do.
 *
 * Memory: a call may need some of its own. Calls run one after another on one stream, so that one piece, as large as the largest, serves all. Behind
 * it lie the masks: what of a relu was greater than 0, one bit an element, which cuBLASLt wants for its gradient where generated code reads the
 * relu's result. Both calls have to be the library's, then, and run one after the other for the same rows. */
#ifndef DT_RUNTIME_DEVICES_CUDA_LIBRARY_H
#define DT_RUNTIME_DEVICES_CUDA_LIBRARY_H

#include "abi/library.h"
#include "base/arena.h"
#include "runtime/devices/cuda/driver.h"

typedef struct dt_cuda_libraries dt_cuda_libraries;
typedef struct dt_cuda_library_operation dt_cuda_library_operation;

/* Functions of the artifact that calls need: handles of the driver, and the threads of a block. NULL: the artifact has none. */
typedef struct dt_cuda_library_functions {
    void *clear_rows, *transpose;
    unsigned threads;
} dt_cuda_library_functions;

/* No library is loaded yet. `capacity`: rows of a replica. `driver` and `arena` must outlive it. The primary context must be current whenever it is
 * used. */
dt_cuda_libraries *dt_cuda_libraries_create(const dt_cuda_driver *driver, const dt_cuda_library_functions *functions, int64_t capacity,
                                            dt_arena *arena);
void dt_cuda_libraries_destroy(dt_cuda_libraries *libraries); /* NULL is allowed; nothing of it may be running */

/* Makes a call ready; `name`, for people, is that of the generated function. *operation is NULL where the library has no way that we take: then the
 * generated function does it, and the choices say why.
 *
 * relu        of a relu's gradient: the operation that stores to the buffer whose relu it reads, each time before it in the same place; NULL: there
 *             is none, and no way. If it computes just that relu, it notes its mask from now on, if the library has a way for both.
 *
 * DT_NOT_FOUND: the library is not installed. DT_INTERNAL: it failed; the message has its call, name and text, and the flag that does without. */
dt_status *dt_cuda_libraries_prepare(dt_cuda_libraries *libraries, const char *name, const dt_library_call *call, dt_cuda_library_operation *relu,
                                     dt_cuda_library_operation **operation);

/* Whether the sums beside a product are computed with it: then nobody else has to. Known for good once the operation is warm. */
bool dt_cuda_library_does_bias_gradient(const dt_cuda_library_operation *operation);

/* Where a call is put on a stream. */
typedef struct dt_cuda_library_place {
    uint64_t workspace;
    int number; /* of the place, from 0: what is kept from a relu to its gradient is there for each */
    void *stream;
} dt_cuda_library_place;

/* Bytes that operations need beside their arguments, aligned to 256, for so many places. */
size_t dt_cuda_libraries_workspace_bytes(const dt_cuda_libraries *libraries, int n_places);

/* Puts the call on a stream, which may be captured. `buffers`: addresses of the kernel's buffers; `launch`: of a dt_launch. */
dt_status *dt_cuda_library_run(dt_cuda_library_operation *operation, const uint64_t *buffers, uint64_t launch, const dt_cuda_library_place *place);

/* Runs the library's part of it once, on whatever its buffers hold: it then has loaded and allocated all that a capture would forbid. Where it turns
 * out that the library cannot do the call, *operation becomes NULL, as above; where it can without the mask or the sums beside it, it does without.
 */
dt_status *dt_cuda_library_warm(dt_cuda_library_operation **operation, const uint64_t *buffers, const dt_cuda_library_place *place);

/* A line for each library in use: "cuBLASLt 13.0.2: 8 calls, 1 of them generated as a fallback"; with `each`, one for each choice:
 * "train_1_matmul product algorithm 66, tile 18, stages 5, 1024 bytes". */
void dt_cuda_libraries_print(const dt_cuda_libraries *libraries, bool each, dt_text *text);

#endif
