/* event_file: a file of events that TensorBoard reads.
 *
 * Records as TFRecord frames them, each a message of runtime/tensorboard.proto. Each is written at once, so that a reader sees it and a file that a
 * killed run leaves behind ends with a whole record, or with one that readers know to be cut off. Threads: one at a time. */
#ifndef DT_RUNTIME_EVENT_FILE_H
#define DT_RUNTIME_EVENT_FILE_H

#include "abi/dtype.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct dt_event_file dt_event_file;

/* Makes `path`, which must not exist. What readers have of `first_step` and later from earlier files of the folder they are told to forget: it is
 * about to be done again. wall_time: here and below, seconds since 1970. */
dt_status *dt_event_file_create(const char *path, double wall_time, int64_t first_step, dt_event_file **file);
void dt_event_file_close(dt_event_file *file); /* NULL is allowed */

/* Each fails with DT_IO where the record could not be written; from then on the file is as it is. */
dt_status *dt_event_file_add_scalar(dt_event_file *file, double wall_time, int64_t step, const char *tag, double value);
/* Counts `n` numbers in buckets of equal width from the least to the greatest; what is not finite is left out. Numbers of types that are no floats,
 * and none at all, are no histogram: nothing is written. */
dt_status *dt_event_file_add_histogram(dt_event_file *file, double wall_time, int64_t step, const char *tag, dt_dtype dtype, int64_t n,
                                       const void *values);
dt_status *dt_event_file_add_png(dt_event_file *file, double wall_time, int64_t step, const char *tag, int64_t width, int64_t height, int channels,
                                 const void *png, size_t n_bytes);

/* CRC-32C (Castagnoli), as RFC 3720 has it. */
uint32_t dt_crc32c(const void *bytes, size_t n);

#endif
