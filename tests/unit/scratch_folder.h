/* scratch_folder: a folder of the test's own, files in it, and assertions on statuses. Included by tests that read and write files. */
#ifndef DT_TESTS_UNIT_SCRATCH_FOLDER_H
#define DT_TESTS_UNIT_SCRATCH_FOLDER_H

#include "base/file.h"
#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

static char scratch[128];

static inline int scratch_make(void **state) {
    (void)state;
    const char *parent = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%.90s/dt-test-XXXXXX", parent != NULL ? parent : "/tmp");
    return mkdtemp(scratch) != NULL ? 0 : -1;
}

static inline int scratch_remove(void **state) {
    (void)state;
    dt_status *status = dt_file_remove_tree(scratch);
    int failed = status != NULL;
    dt_status_free(status);
    return failed;
}

/* The path of `name` in the folder; the last 32 may be in use at a time. Any thread. */
static inline const char *scratch_path(const char *name) {
    static char paths[32][256];
    static _Atomic unsigned turn;
    char *path = paths[turn++ % 32];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

static inline void assert_ok(dt_status *status) {
    assert_string_equal(dt_status_message(status), "");
    assert_null(status);
}

static inline void assert_fails(dt_status *status, dt_code code, const char *part) {
    if (dt_status_code(status) != code || strstr(dt_status_message(status), part) == NULL)
        fail_msg("wanted %s: '%s', got %s: '%s'", dt_code_name(code), part, dt_code_name(dt_status_code(status)), dt_status_message(status));
    dt_status_free(status);
}

static inline void scratch_write(const char *name, const void *data, size_t n_bytes) {
    assert_ok(dt_file_write_atomic(scratch_path(name), data, n_bytes));
}

/* Gzipped; gzip's own checksum and length follow. */
static inline size_t scratch_gzip(const void *data, size_t n_bytes, unsigned char *packed, size_t capacity) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)n_bytes;
    stream.next_out = packed;
    stream.avail_out = (uInt)capacity;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t n = stream.total_out;
    deflateEnd(&stream);
    return n;
}

static inline void scratch_write_gzip(const char *name, const void *data, size_t n_bytes) {
    size_t capacity = n_bytes + n_bytes / 100 + 1000;
    unsigned char *packed = malloc(capacity);
    scratch_write(name, packed, scratch_gzip(data, n_bytes, packed, capacity));
    free(packed);
}

#endif
