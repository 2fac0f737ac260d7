/* scratch: a folder in memory for targets whose input is a file, or that write some; gone when the process ends. */
#ifndef DT_TESTS_FUZZ_SCRATCH_H
#define DT_TESTS_FUZZ_SCRATCH_H

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>

static char scratch[64]; /* once scratch_make has been called */

static inline void scratch_remove(void) { dt_status_free(dt_file_remove_tree(scratch)); }

static inline void scratch_make(void) {
    if (scratch[0] != 0) return;
    snprintf(scratch, sizeof scratch, "/dev/shm/dt-fuzz-XXXXXX");
    if (mkdtemp(scratch) == NULL) abort();
    atexit(scratch_remove);
}

/* The path of `name` in the folder; the last 8 may be in use. */
static inline const char *scratch_path(const char *name) {
    static char paths[8][128];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", scratch, name);
    return path;
}

/* The path of a file of these bytes. */
static inline const char *scratch_write(const char *name, const void *bytes, size_t n) {
    const char *path = scratch_path(name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, n, file) != n || fclose(file) != 0) abort();
    return path;
}

#endif
