/* fail_files: a library to be loaded before all others (LD_PRELOAD), in whose processes one call about a file fails, as on a disk that is broken.
 *
 *   FAIL_CALL=fsync FAIL_AT=2 FAIL_BELOW=/ck/ FAIL_LOG=FILE     the second fsync of a file whose path has /ck/ in it fails with EIO, and FILE is made
 *
 * FAIL_CALL is write, which pwrite is too, ftruncate, fsync or rename. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether this call, about this file, is the one. */
static bool fails(const char *call, const char *path) {
    static atomic_int n_calls;
    const char *which = getenv("FAIL_CALL"), *at = getenv("FAIL_AT"), *below = getenv("FAIL_BELOW"), *log = getenv("FAIL_LOG");
    if (which == NULL || at == NULL || below == NULL || log == NULL || strcmp(which, call) != 0 || strstr(path, below) == NULL) return false;
    if (atomic_fetch_add(&n_calls, 1) + 1 != atoi(at)) return false;
    close(open(log, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    errno = EIO;
    return true;
}

static bool fails_of(const char *call, int file) {
    char link[40], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return fails(call, path);
}

ssize_t write(int file, const void *data, size_t n_bytes) {
    static ssize_t (*real)(int, const void *, size_t);
    if (real == NULL) real = dlsym(RTLD_NEXT, "write");
    return fails_of("write", file) ? -1 : real(file, data, n_bytes);
}

ssize_t pwrite(int file, const void *data, size_t n_bytes, off_t at) {
    static ssize_t (*real)(int, const void *, size_t, off_t);
    if (real == NULL) real = dlsym(RTLD_NEXT, "pwrite");
    return fails_of("write", file) ? -1 : real(file, data, n_bytes, at);
}

int ftruncate(int file, off_t n_bytes) {
    static int (*real)(int, off_t);
    if (real == NULL) real = dlsym(RTLD_NEXT, "ftruncate");
    return fails_of("ftruncate", file) ? -1 : real(file, n_bytes);
}

int fsync(int file) {
    static int (*real)(int);
    if (real == NULL) real = dlsym(RTLD_NEXT, "fsync");
    return fails_of("fsync", file) ? -1 : real(file);
}

int rename(const char *from, const char *to) {
    static int (*real)(const char *, const char *);
    if (real == NULL) real = dlsym(RTLD_NEXT, "rename");
    return fails("rename", to) ? -1 : real(from, to);
}
