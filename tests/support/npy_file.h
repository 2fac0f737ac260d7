/* npy_file: what a .npy file of version 1 holds. */
#ifndef DT_TESTS_NPY_FILE_H
#define DT_TESTS_NPY_FILE_H

#include <string.h>

enum {
    NPY_FILE_HEADER = 118, /* bytes, after the ten that say what it is */
    NPY_FILE_START = 10 + NPY_FILE_HEADER
};

/* Writes n_bytes of `data` behind a header, "{'descr': …}" of at most 117 characters; returns how many bytes of `file` that are. */
static inline size_t npy_file_make(char *file, const char *header, const void *data, size_t n_bytes) {
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = NPY_FILE_HEADER;
    file[9] = 0;
    memset(file + 10, ' ', NPY_FILE_HEADER);
    memcpy(file + 10, header, strlen(header));
    file[NPY_FILE_START - 1] = '\n';
    memcpy(file + NPY_FILE_START, data, n_bytes);
    return NPY_FILE_START + n_bytes;
}

#endif
