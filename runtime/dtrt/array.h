/* array: arrays of a caller, of any strides, as dense ones. */
#ifndef DT_RUNTIME_DTRT_ARRAY_H
#define DT_RUNTIME_DTRT_ARRAY_H

#include "include/dtrt.h"
#include "runtime/artifact/artifact.h"

enum {
    DT_MOST_CALLERS_DIMS = 64 /* a caller who says that an array has more has not set it */
};

/* Whether the array is one of `tensor`: its type and shape, any number of rows where it has rows, which are *rows then. `of`: what it belongs to, for
 * the message. */
dt_status *dt_array_check(const dtrt_array *array, const dt_artifact_tensor *tensor, const char *of, const char *name, int64_t *rows);

/* Whether a kernel can read it where it is: dense, aligned to its elements, and with DT_SLACK_BYTES after it that are certainly mapped. */
bool dt_array_can_stay(const dtrt_array *array);

/* Its elements, dense, to where there is room for them. */
void dt_array_copy(void *to, const dtrt_array *array);

#endif
