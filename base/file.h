/* file: whole files in, whole files out, the second atomically. Every error names the path and the system's reason. */
#ifndef DT_BASE_FILE_H
#define DT_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The status of a system call that just failed on `path`: "PATH: cannot DOING: why; what to do". DT_RESOURCE_EXHAUSTED for a full disk, DT_NOT_FOUND
 * for what is not there, else DT_IO. */
dt_status *dt_file_error(const char *doing, const char *path);

/* Reads all of `path`. *data has one byte more than *n_bytes, a 0, so that text can be used as a string. The caller frees it. A pipe is read to its
 * end, but not waited for where nobody writes into it; a device is refused. */
dt_status *dt_file_read(const char *path, char **data, size_t *n_bytes);

/* Opens a plain file of *n_bytes, for dt_file_read_at; the caller closes it. Anything else is an error, which is returned at once: a pipe without a
 * writer too. *file is -1 after an error. Files are read and not mapped: one that shrinks would end the process with SIGBUS. */
dt_status *dt_file_open(const char *path, int *file, uint64_t *n_bytes);
/* Up to `n_bytes` bytes from `offset` on; *n_read is less only at the end of the file. Any thread; `path` is for messages. */
dt_status *dt_file_read_at(int file, const char *path, uint64_t offset, void *buffer, size_t n_bytes, size_t *n_read);

/* Goes on with *hash (dt_hash_bytes) over the length and the bytes of `path`. */
dt_status *dt_file_hash(const char *path, uint64_t *hash);

/* Where a file of the name `path` comes to lie: *place, which the caller releases, is `path`, or what its links lead to. *is_plain: there is a plain
 * file, or nothing. Where not, it is a pipe or a device, of which renaming would leave a plain file. A folder is an error. */
dt_status *dt_file_find_place(const char *path, char **place, bool *is_plain);

/* Writes to `path` through a temporary name in the same folder, fsync, rename, fsync of the folder: after a crash the file is old or new. A link
 * stays, and what it leads to is written. Into a pipe or a device, as /dev/stdout may be, the bytes are written as they are. */
dt_status *dt_file_write_atomic(const char *path, const void *data, size_t n_bytes);

dt_status *dt_file_make_folders(const char *path); /* as mkdir -p; existing is fine */
dt_status *dt_file_remove_tree(const char *path);  /* a folder with all in it; missing is fine */
dt_status *dt_file_sync_folder(const char *path);  /* fsync of the folder itself */
dt_status *dt_file_sync_parent(const char *path);  /* and of the one that `path` is in: a new file's name is on the disk too */
bool dt_file_exists(const char *path);

#endif
