/* file: see file.h. Plain POSIX; a short read or write is continued, an interrupted one repeated. */
#include "base/file.h"

#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATIENCE = 5 /* seconds for somebody to begin to write into a pipe */
};

dt_status *dt_file_error(const char *doing, const char *path) {
    int reason = errno;
    dt_code code = DT_IO;
    const char *advice = "";
    if (reason == ENOENT || reason == ENOTDIR) code = DT_NOT_FOUND;
    if (reason == ENOSPC || reason == EDQUOT || reason == EMFILE || reason == ENFILE || reason == ENOMEM) code = DT_RESOURCE_EXHAUSTED;
    if (reason == ENOSPC || reason == EDQUOT) advice = "; make room there, or name another place";
    if (reason == EROFS) advice = "; name another place";
    return dt_error_in(code, path, 0, "cannot %s: %s%s", doing, strerror(reason), advice);
}

/* Opens without waiting, which a pipe makes its readers do until a writer comes. A device is refused: it may have no end. */
static dt_status *open_to_read(const char *path, int *file, struct stat *about) {
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*file < 0) return dt_file_error("open", path);
    dt_status *status = NULL;
    if (fstat(*file, about) != 0)
        status = dt_file_error("read", path);
    else if (S_ISCHR(about->st_mode) || S_ISBLK(about->st_mode))
        status = dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is a device, not a file");
    if (status == NULL) return NULL;
    close(*file);
    *file = -1;
    return status;
}

dt_status *dt_file_open(const char *path, int *file, uint64_t *n_bytes) {
    struct stat about;
    DT_TRY(open_to_read(path, file, &about));
    *n_bytes = (uint64_t)about.st_size;
    if (S_ISREG(about.st_mode)) return NULL;
    close(*file);
    *file = -1;
    if (S_ISDIR(about.st_mode)) return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is a folder, not a file");
    return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is a pipe, not a file: write what comes out of it to a file, and name that");
}

dt_status *dt_file_read_at(int file, const char *path, uint64_t offset, void *buffer, size_t n_bytes, size_t *n_read) {
    *n_read = 0;
    while (*n_read < n_bytes) {
        ssize_t n = pread(file, (char *)buffer + *n_read, n_bytes - *n_read, (off_t)(offset + *n_read));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return dt_file_error("read", path);
        if (n == 0) break;
        *n_read += (size_t)n;
    }
    return NULL;
}

/* What comes next, however long whoever writes into a pipe takes. */
static ssize_t read_next(int file, char *buffer, size_t n_bytes) {
    for (;;) {
        ssize_t n = read(file, buffer, n_bytes);
        if (n >= 0 || (errno != EINTR && errno != EAGAIN)) return n;
        if (errno == EAGAIN) poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1, -1);
    }
}

/* Before a writer comes a pipe reads as one that has ended: waits for the first bytes, or an end. False: neither came. */
static bool await_writer(int file) {
    int n;
    do n = poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1, PATIENCE * 1000);
    while (n < 0 && errno == EINTR);
    return n != 0;
}

/* Reads to the end of `file` into a buffer that starts at `capacity` bytes; the size a file reports may be 0 (pipes, /proc). */
static dt_status *read_all(int file, const char *path, size_t capacity, char **data, size_t *n_bytes) {
    char *buffer = dt_allocate(capacity);
    size_t n = 0;
    while (buffer != NULL) {
        if (n + 1 == capacity) {
            char *larger = capacity <= SIZE_MAX / 2 ? dt_reallocate(buffer, capacity * 2) : NULL;
            if (larger == NULL) break;
            buffer = larger;
            capacity *= 2;
        }
        ssize_t n_read = read_next(file, buffer + n, capacity - 1 - n);
        if (n_read < 0) {
            dt_status *status = dt_file_error("read", path);
            dt_release(buffer);
            return status;
        }
        if (n_read == 0) {
            buffer[n] = '\0';
            *data = buffer;
            *n_bytes = n;
            return NULL;
        }
        n += (size_t)n_read;
    }
    dt_release(buffer);
    return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory to read it");
}

dt_status *dt_file_read(const char *path, char **data, size_t *n_bytes) {
    struct stat about;
    int file;
    *data = NULL;
    *n_bytes = 0;
    DT_TRY(open_to_read(path, &file, &about));
    bool is_silent = S_ISFIFO(about.st_mode) && !await_writer(file);
    /* Two bytes more than the file: the terminator, and one that lets the read after the last see the end without growing. */
    dt_status *status = read_all(file, path, (size_t)about.st_size + 2, data, n_bytes);
    close(file);
    if (status != NULL || !is_silent || *n_bytes != 0) return status;
    dt_release(*data);
    *data = NULL;
    return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is a pipe that nobody writes into: start the writer before, or name a file");
}

dt_status *dt_file_hash(const char *path, uint64_t *hash) {
    char *data;
    size_t n;
    DT_TRY(dt_file_read(path, &data, &n));
    *hash = dt_hash_bytes(data, n, dt_hash_bytes(&n, sizeof n, *hash));
    dt_release(data);
    return NULL;
}

static bool write_all(int file, const char *data, size_t n_bytes) {
    while (n_bytes != 0) {
        ssize_t n = write(file, data, n_bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        n_bytes -= (size_t)n;
    }
    return true;
}

/* A heap copy of the folder that `path` is in: "." for a bare name, "/" for a child of the root. NULL when memory is out. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    char *folder = dt_allocate(n + 1);
    if (folder == NULL) return NULL;
    memcpy(folder, slash == NULL ? "." : path, n);
    folder[n] = '\0';
    return folder;
}

/* Creates a file of a name nobody has, beside `path`; writes the name to `temporary`, whose size is `bytes`. -1 with errno on failure. */
static int create_beside(const char *path, char *temporary, size_t bytes) {
    enum {
        MOST_ATTEMPTS = 1000
    }; /* names are only taken by what killed processes of the same id left */
    int file = -1;
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        snprintf(temporary, bytes, "%s.%ld-%d.tmp", path, (long)getpid(), attempt);
        file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST) break;
    }
    return file;
}

dt_status *dt_file_find_place(const char *path, char **place, bool *is_plain) {
    struct stat about;
    bool is_there = stat(path, &about) == 0;
    *place = NULL;
    *is_plain = !is_there || S_ISREG(about.st_mode);
    if (is_there && S_ISDIR(about.st_mode)) return dt_error_in(DT_IO, path, 0, "cannot be written: it is a folder");
    char *real = is_there ? realpath(path, NULL) : NULL;
    const char *found = real != NULL ? real : path;
    size_t n = strlen(found) + 1;
    *place = dt_allocate(n);
    if (*place != NULL) memcpy(*place, found, n);
    free(real);
    return *place != NULL ? NULL : dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory to write it");
}

static dt_status *write_directly(const char *path, const void *data, size_t n_bytes) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return dt_file_error("open", path);
    dt_status *status = write_all(file, data, n_bytes) ? NULL : dt_file_error("write", path);
    if (close(file) != 0 && status == NULL) status = dt_file_error("write", path);
    return status;
}

/* To a plain file, or one that is not there yet. */
static dt_status *write_renamed(const char *path, const void *data, size_t n_bytes) {
    size_t temporary_bytes = strlen(path) + 48;
    char *folder = folder_of(path);
    char *temporary = dt_allocate(temporary_bytes);
    dt_status *status = NULL;
    int file = -1;
    if (folder == NULL || temporary == NULL) {
        status = dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory to write it");
    } else {
        file = create_beside(path, temporary, temporary_bytes);
        if (file < 0) status = dt_file_error("create", path);
        struct stat old;
        if (file >= 0 && stat(path, &old) == 0) (void)!fchmod(file, old.st_mode & 07777); /* whoever may read it still may */
    }
    if (file >= 0) {
        if (!write_all(file, data, n_bytes))
            status = dt_file_error("write", path);
        else if (fsync(file) != 0)
            status = dt_file_error("sync", path);
        if (close(file) != 0 && status == NULL) status = dt_file_error("write", path);
        if (status == NULL && rename(temporary, path) != 0) status = dt_file_error("rename the finished file", path);
        if (status != NULL)
            unlink(temporary);
        else
            status = dt_file_sync_folder(folder);
    }
    dt_release(temporary);
    dt_release(folder);
    return status;
}

dt_status *dt_file_write_atomic(const char *path, const void *data, size_t n_bytes) {
    char *place;
    bool is_plain;
    DT_TRY(dt_file_find_place(path, &place, &is_plain));
    dt_status *status = is_plain ? write_renamed(place, data, n_bytes) : write_directly(path, data, n_bytes);
    dt_release(place);
    return status;
}

dt_status *dt_file_make_folders(const char *path) {
    size_t n = strlen(path);
    char *part = dt_allocate(n + 1);
    if (part == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory to create it");
    memcpy(part, path, n + 1);
    dt_status *status = NULL;
    for (size_t i = 1; i <= n && status == NULL; i++) {
        if (part[i] != '/' && part[i] != '\0') continue;
        char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, 0777) != 0) {
            int reason = errno;
            struct stat about;
            bool is_there = stat(part, &about) == 0 && S_ISDIR(about.st_mode);
            errno = reason == EEXIST ? ENOTDIR : reason;
            if (!is_there) status = dt_file_error("create the folder", part);
        }
        part[i] = kept;
    }
    dt_release(part);
    return status;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *position) {
    (void)about, (void)kind, (void)position;
    return remove(path);
}

dt_status *dt_file_remove_tree(const char *path) {
    enum {
        OPEN_FOLDERS = 16
    };
    if (nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT) return NULL;
    return dt_file_error("remove", path);
}

dt_status *dt_file_sync_folder(const char *path) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return dt_file_error("open the folder", path);
    dt_status *status = fsync(folder) != 0 ? dt_file_error("sync", path) : NULL;
    close(folder);
    return status;
}

dt_status *dt_file_sync_parent(const char *path) {
    char *folder = folder_of(path);
    dt_status *status = folder != NULL ? dt_file_sync_folder(folder) : dt_error(DT_RESOURCE_EXHAUSTED, "%s: no memory", path);
    dt_release(folder);
    return status;
}

bool dt_file_exists(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
}
