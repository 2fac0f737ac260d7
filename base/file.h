/* file: whole files in, whole files out, the second atomically. Every error names the path and the system's reason. */
#ifndef DT_BASE_FILE_H
#define DT_BASE_FILE_H

#include "base/status.h"

#include <stdint.h>

/* Reads all of `path`. *data has one byte more than *n_bytes, a 0, so that text can be used as a string. The caller frees it. */
dt_status *dt_file_read(const char *path, char **data, size_t *n_bytes);

/* Writes to `path` through a temporary name in the same folder, fsync, rename, fsync of the folder: after a crash the file is old or new. */
dt_status *dt_file_write_atomic(const char *path, const void *data, size_t n_bytes);

dt_status *dt_file_make_folders(const char *path); /* as mkdir -p; existing is fine */
dt_status *dt_file_remove_tree(const char *path);  /* a folder with all in it; missing is fine */
dt_status *dt_file_sync_folder(const char *path);  /* fsync of the folder itself */
bool dt_file_exists(const char *path);

#endif
