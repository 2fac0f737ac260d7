/* input_file: the plain bytes of a data file, whether it lies there plain or gzipped.
 *
 * A program names the file that its data set publishes; what lies on the disk may have been unpacked since, or packed. So a name that ends in
 * .gz also finds the file without it, and the other way round. Gzip is read to its end: its checksum is part of what "read" means. */
#ifndef DT_RUNTIME_DATA_INPUT_FILE_H
#define DT_RUNTIME_DATA_INPUT_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct dt_input_file dt_input_file;

/* Opens `name` in `folder` (an absolute name stands for itself, and any where `folder` is NULL). DT_NOT_FOUND names the folder, the file, and what to
 * do. */
dt_status *dt_input_file_open(const char *folder, const char *name, dt_input_file **file);
void dt_input_file_close(dt_input_file *file); /* NULL is allowed */

/* The next `n_bytes` plain bytes. *n_read is less only at the end of the file; a gzip stream has then proved to be whole. DT_DATA_LOSS for one
 * that is truncated, altered or none at all. */
dt_status *dt_input_file_read(dt_input_file *file, void *buffer, size_t n_bytes, size_t *n_read);

/* Whether it is not gzipped, so that bytes can be read from anywhere in it: */
bool dt_input_file_is_plain(const dt_input_file *file);
/* Up to `n_bytes` bytes from `offset` on; where dt_input_file_read goes on stays as it is. *n_read is less only at the end of the file. Any thread.
 */
dt_status *dt_input_file_read_at(const dt_input_file *file, uint64_t offset, void *buffer, size_t n_bytes, size_t *n_read);
uint64_t dt_input_file_position(const dt_input_file *file); /* offset of what dt_input_file_read would read next */

/* All that is left, terminated by a 0 that *n_bytes does not count. The caller frees it. At most `limit` bytes. */
dt_status *dt_input_file_read_all(dt_input_file *file, size_t limit, char **data, size_t *n_bytes);

/* Gives the file's descriptor and buffers back; a read from now on opens the file for itself. For who has more files than a process may have open. A
 * gzip file is not read any further. */
void dt_input_file_suspend(dt_input_file *file);

const char *dt_input_file_path(const dt_input_file *file); /* of the file that was found */

/* No more plain bytes than this were in the file when it was opened, and exactly as many in a plain one: what a header promises beyond it is not
 * believed. */
uint64_t dt_input_file_most_bytes(const dt_input_file *file);

#endif
