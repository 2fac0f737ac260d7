/* input_file: see input_file.h. zlib does the gzip; here are the sentences for what can be wrong with it. */
#include "runtime/data/input_file.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    CHUNK_BYTES = 1 << 18,
    MOST_DEFLATED = 1032 /* deflate makes at most so many bytes of one */
};

struct dt_input_file {
    char *path;
    int fd;                       /* -1: of a file that was suspended */
    uint64_t n_bytes, n_consumed; /* on the disk; of them, those that dt_input_file_read has taken */
    bool is_gzip;
    bool ended; /* gzip: the last member is complete */
    z_stream stream;
    unsigned char *chunk; /* [CHUNK_BYTES] of a gzip file that has been read from */
};

static bool ends_in_gz(const char *name) {
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".gz") == 0;
}

/* folder/name, its last `n_dropped` characters left out, then `suffix`. */
static char *join(const char *folder, const char *name, size_t n_dropped, const char *suffix) {
    dt_text text = {0};
    if (name[0] != '/' && folder != NULL) dt_text_format(&text, "%s/", folder);
    dt_text_append_bytes(&text, name, strlen(name) - n_dropped);
    dt_text_append(&text, suffix);
    return dt_text_take(&text);
}

static dt_status *not_found(const char *folder, const char *name) {
    struct stat about;
    if (name[0] == '/' || folder == NULL) return dt_error_in(DT_NOT_FOUND, name, 0, "no such file, with .gz or without");
    if (stat(folder, &about) != 0)
        return dt_error_in(DT_NOT_FOUND, folder, 0, "cannot open the data folder: %s; name the folder that holds %s with --data", strerror(errno),
                           name);
    if (!S_ISDIR(about.st_mode)) return dt_error_in(DT_NOT_FOUND, folder, 0, "is not a folder; name the one that holds %s with --data", name);
    return dt_error(DT_NOT_FOUND, "%s/%s: no such file, with .gz or without; name the folder that holds it with --data", folder, name);
}

/* Opens the file under either of its names. */
static dt_status *open_either(dt_input_file *file, const char *folder, const char *name) {
    bool named_gz = ends_in_gz(name);
    for (int attempt = 0; attempt < 2 && file->fd < 0; attempt++) {
        dt_release(file->path);
        file->path = attempt == 0 ? join(folder, name, 0, "") : join(folder, name, named_gz ? 3 : 0, named_gz ? "" : ".gz");
        if (file->path == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, name, 0, "out of memory");
        dt_status *status = dt_file_open(file->path, &file->fd, &file->n_bytes);
        if (status != NULL && dt_status_code(status) != DT_NOT_FOUND) return status;
        dt_status_free(status);
    }
    if (file->fd < 0) return not_found(folder, name);
    file->is_gzip = ends_in_gz(file->path);
    return NULL;
}

dt_status *dt_input_file_open(const char *folder, const char *name, dt_input_file **file) {
    *file = NULL;
    dt_input_file *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, name, 0, "out of memory");
    opened->fd = -1;
    dt_status *status = open_either(opened, folder, name);
    if (status != NULL) {
        dt_input_file_close(opened);
        return status;
    }
    *file = opened;
    return NULL;
}

void dt_input_file_suspend(dt_input_file *file) {
    if (file->chunk != NULL) inflateEnd(&file->stream);
    if (file->fd >= 0) close(file->fd);
    dt_release(file->chunk);
    file->chunk = NULL;
    file->fd = -1;
}

void dt_input_file_close(dt_input_file *file) {
    if (file == NULL) return;
    dt_input_file_suspend(file);
    dt_release(file->path);
    dt_release(file);
}

const char *dt_input_file_path(const dt_input_file *file) { return file->path; }

uint64_t dt_input_file_most_bytes(const dt_input_file *file) {
    if (!file->is_gzip) return file->n_bytes;
    return file->n_bytes > UINT64_MAX / MOST_DEFLATED ? UINT64_MAX : file->n_bytes * MOST_DEFLATED;
}

dt_status *dt_input_file_read_at(const dt_input_file *file, uint64_t offset, void *buffer, size_t n_bytes, size_t *n_read) {
    int fd = file->fd;
    uint64_t n_file;
    *n_read = 0;
    if (fd < 0) DT_TRY(dt_file_open(file->path, &fd, &n_file));
    dt_status *status = dt_file_read_at(fd, file->path, offset, buffer, n_bytes, n_read);
    if (fd != file->fd) close(fd);
    return status;
}

static dt_status *read_on(dt_input_file *file, void *buffer, size_t n_bytes, size_t *n_read) {
    dt_status *status = dt_input_file_read_at(file, file->n_consumed, buffer, n_bytes, n_read);
    file->n_consumed += *n_read;
    return status;
}

static dt_status *refill(dt_input_file *file) {
    size_t n;
    DT_TRY(read_on(file, file->chunk, CHUNK_BYTES, &n));
    file->stream.next_in = file->chunk;
    file->stream.avail_in = (uInt)n;
    return NULL;
}

/* A member has ended: another may follow, nothing else. */
static dt_status *next_member(dt_input_file *file) {
    z_stream *stream = &file->stream;
    if (stream->avail_in == 0) DT_TRY(refill(file));
    if (stream->avail_in == 0) {
        file->ended = true;
        return NULL;
    }
    if (stream->next_in[0] != 0x1f) return dt_error_in(DT_DATA_LOSS, file->path, 0, "the file was altered: something follows the gzip data");
    inflateReset(stream);
    return NULL;
}

static dt_status *inflate_failure(const dt_input_file *file, int result) {
    const z_stream *stream = &file->stream;
    if (result == Z_MEM_ERROR) return dt_error_in(DT_RESOURCE_EXHAUSTED, file->path, 0, "out of memory");
    const char *reason = stream->msg != NULL ? stream->msg : "invalid data";
    if (stream->total_out == 0 && strcmp(reason, "incorrect header check") == 0)
        return dt_error_in(DT_DATA_LOSS, file->path, 0, "is not a gzip file, as its name says");
    return dt_error_in(DT_DATA_LOSS, file->path, 0, "the gzip data was altered or is damaged after %lu plain bytes: %s", stream->total_out, reason);
}

/* A file that nobody reads takes no memory. */
static dt_status *begin_gzip(dt_input_file *file) {
    file->chunk = dt_allocate(CHUNK_BYTES);
    if (file->chunk != NULL && inflateInit2(&file->stream, 16 + MAX_WBITS) == Z_OK) return NULL;
    dt_release(file->chunk);
    file->chunk = NULL;
    return dt_error_in(DT_RESOURCE_EXHAUSTED, file->path, 0, "out of memory");
}

static dt_status *read_gzip(dt_input_file *file, void *buffer, size_t n_bytes, size_t *n_read) {
    z_stream *stream = &file->stream;
    *n_read = 0;
    if (file->chunk == NULL) DT_TRY(begin_gzip(file));
    while (*n_read < n_bytes && !file->ended) {
        if (stream->avail_in == 0) {
            DT_TRY(refill(file));
            if (stream->avail_in == 0)
                return dt_error_in(DT_DATA_LOSS, file->path, 0, "the file is truncated: the gzip data ends early, after %lu plain bytes",
                                   stream->total_out);
        }
        size_t n_wanted = n_bytes - *n_read;
        uInt n_room = n_wanted > (1u << 30) ? 1u << 30 : (uInt)n_wanted;
        stream->next_out = (Bytef *)buffer + *n_read;
        stream->avail_out = n_room;
        int result = inflate(stream, Z_NO_FLUSH);
        *n_read += n_room - stream->avail_out;
        if (result == Z_STREAM_END)
            DT_TRY(next_member(file));
        else if (result != Z_OK && result != Z_BUF_ERROR)
            return inflate_failure(file, result);
    }
    return NULL;
}

dt_status *dt_input_file_read(dt_input_file *file, void *buffer, size_t n_bytes, size_t *n_read) {
    return file->is_gzip ? read_gzip(file, buffer, n_bytes, n_read) : read_on(file, buffer, n_bytes, n_read);
}

bool dt_input_file_is_plain(const dt_input_file *file) { return !file->is_gzip; }
uint64_t dt_input_file_position(const dt_input_file *file) { return file->n_consumed; }

dt_status *dt_input_file_read_all(dt_input_file *file, size_t limit, char **data, size_t *n_bytes) {
    char *bytes = NULL;
    size_t n = 0, capacity = CHUNK_BYTES;
    dt_status *status = NULL;
    *data = NULL;
    *n_bytes = 0;
    for (;;) {
        char *grown = dt_reallocate(bytes, capacity + 1);
        if (grown == NULL) {
            status = dt_error_in(DT_RESOURCE_EXHAUSTED, file->path, 0, "out of memory for its content");
            break;
        }
        bytes = grown;
        size_t n_read;
        status = dt_input_file_read(file, bytes + n, capacity - n, &n_read);
        if (status != NULL) break;
        n += n_read;
        if (n < capacity) break;
        if (n >= limit) {
            status = dt_error_in(DT_INVALID_ARGUMENT, file->path, 0, "is larger than %zu bytes", limit);
            break;
        }
        capacity *= 2;
    }
    if (status != NULL) {
        dt_release(bytes);
        return status;
    }
    bytes[n] = 0;
    *data = bytes;
    *n_bytes = n;
    return NULL;
}
