/* piece_file: a file of known length that is written piece by piece, at any place, by one process or by several that each write other bytes of it.
 * What is written is summed up on the way, and synced often enough that no sync takes long. */
#ifndef DT_RUNTIME_DATA_PIECE_FILE_H
#define DT_RUNTIME_DATA_PIECE_FILE_H

#include "base/status.h"
#include "runtime/threads/progress.h"

#include <nettle/sha2.h>
#include <stdint.h>

#define DT_SHA256_BYTES 32

enum {
    DT_FILE_PIECE_BYTES = 4 << 20 /* read or written at once: so many, and what is left at an end */
};

typedef struct dt_piece_file {
    const char *path; /* the caller's */
    int fd;
    struct sha256_ctx sum;
    size_t n_unsynced;
    dt_progress *progress; /* counts pieces; may be NULL */
} dt_piece_file;

/* Makes the file where it is missing, of n_bytes. Not atomic: the caller writes in a folder of its own. DT_IO, DT_RESOURCE_EXHAUSTED: the disk is
 * full. */
dt_status *dt_piece_file_open(const char *path, int64_t n_bytes, dt_progress *progress, dt_piece_file *file);
dt_status *dt_piece_file_put(dt_piece_file *file, int64_t offset, const void *bytes, size_t n_bytes);
/* The sum of what was put since the last time, in that order. */
void dt_piece_file_sum(dt_piece_file *file, unsigned char sum[DT_SHA256_BYTES]);
/* Syncs it, where `status` is NULL; else that is returned. */
dt_status *dt_piece_file_close(dt_piece_file *file, dt_status *status);

#endif
