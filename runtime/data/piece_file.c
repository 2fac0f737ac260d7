/* piece_file: see piece_file.h. */
#include "runtime/data/piece_file.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
    UNSYNCED_BYTES = 256 << 20 /* at most */
};

dt_status *dt_piece_file_open(const char *path, int64_t n_bytes, dt_progress *progress, dt_piece_file *file) {
    *file = (dt_piece_file){.path = path, .fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666), .progress = progress};
    if (file->fd < 0) return dt_file_error("create", path);
    sha256_init(&file->sum);
    return ftruncate(file->fd, n_bytes) == 0 ? NULL : dt_piece_file_close(file, dt_file_error("write", path));
}

static dt_status *sync_file(dt_piece_file *file) {
    if (fsync(file->fd) != 0) return dt_file_error("sync", file->path);
    file->n_unsynced = 0;
    dt_progress_count(file->progress);
    return NULL;
}

static dt_status *put_piece(dt_piece_file *file, int64_t offset, const char *bytes, size_t n_bytes) {
    sha256_update(&file->sum, n_bytes, (const unsigned char *)bytes);
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n = pwrite(file->fd, bytes + done, n_bytes - done, (off_t)(offset + (int64_t)done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return dt_file_error("write", file->path);
        done += (size_t)n;
    }
    dt_progress_count(file->progress);
    file->n_unsynced += n_bytes;
    return file->n_unsynced < UNSYNCED_BYTES ? NULL : sync_file(file);
}

dt_status *dt_piece_file_put(dt_piece_file *file, int64_t offset, const void *bytes, size_t n_bytes) {
    for (size_t done = 0; done < n_bytes; done += DT_FILE_PIECE_BYTES) {
        size_t n = n_bytes - done < DT_FILE_PIECE_BYTES ? n_bytes - done : DT_FILE_PIECE_BYTES;
        DT_TRY(put_piece(file, offset + (int64_t)done, (const char *)bytes + done, n));
    }
    return NULL;
}

void dt_piece_file_sum(dt_piece_file *file, unsigned char sum[DT_SHA256_BYTES]) { sha256_digest(&file->sum, DT_SHA256_BYTES, sum); }

dt_status *dt_piece_file_close(dt_piece_file *file, dt_status *status) {
    if (status == NULL) status = sync_file(file);
    if (close(file->fd) != 0 && status == NULL) status = dt_file_error("write", file->path);
    return status;
}
