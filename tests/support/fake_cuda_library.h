/* fake_cuda_library: what fakes of NVIDIA's libraries need of the fake driver: their work is queued, captured, replayed, logged and made to fail like
 * the driver's own. Such a fake finds these functions in the driver's library by name. */
#ifndef DT_TESTS_SUPPORT_FAKE_CUDA_LIBRARY_H
#define DT_TESTS_SUPPORT_FAKE_CUDA_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_EXPORT __attribute__((visibility("default")))

/* Memory on the device that the work touches. */
typedef struct fake_cuda_range {
    uint64_t address;
    size_t bytes;
} fake_cuda_range;

/* Puts work into a stream: `run` gets a copy of `data`, when its turn has come, and may touch device memory then. `call` is the library's function:
 * it is counted and logged as a call, and may be made to fail by its name. Returns an error of the driver's, or 0. */
FAKE_EXPORT int fake_cuda_submit(void *stream, const char *call, const fake_cuda_range *ranges, size_t n_ranges, void (*run)(const void *data),
                                 const void *data, size_t bytes);
/* Work that others have a part in: it is begun when its turn has come, asked from then on, and ended once it says that it is done; what follows in
 * the stream waits. What `begin` returns is the others' argument. Device memory may be touched in begin and end. */
typedef struct fake_cuda_shared_work {
    void *(*begin)(const void *data);
    int (*is_done)(void *work);
    void (*end)(void *work);
} fake_cuda_shared_work;
FAKE_EXPORT int fake_cuda_submit_shared(void *stream, const char *call, const fake_cuda_range *ranges, size_t n_ranges,
                                        const fake_cuda_shared_work *how, const void *data, size_t bytes);
typedef int fake_cuda_shared_submitter(void *stream, const char *call, const fake_cuda_range *ranges, size_t n_ranges,
                                       const fake_cuda_shared_work *how, const void *data, size_t bytes);
typedef int fake_cuda_submitter(void *stream, const char *call, const fake_cuda_range *ranges, size_t n_ranges, void (*run)(const void *data),
                                const void *data, size_t bytes);

#endif
