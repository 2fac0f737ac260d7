/* npy: one array a file, as NumPy saves it. Versions 1 to 3 are read, in C order; version 1 is written, little endian. */
#ifndef DT_BASE_NPY_H
#define DT_BASE_NPY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dt_npy_header {
    char type[3]; /* NumPy's kind and size: "f4" */
    bool big_endian;
    int n_dims;
    int64_t *dims; /* [n_dims], each >= 0; dt_allocate, owned by the caller of the parser, also after an error */
} dt_npy_header;

/* A file in memory. */
typedef struct dt_npy {
    dt_npy_header header;
    const char *elements; /* with any alignment */
    char *file;
} dt_npy;

/* Reads all of a file, of little endian numbers. DT_DATA_LOSS: it is no such file, or not whole; errors of dt_file_read. */
dt_status *dt_npy_read(const char *path, dt_npy *array);
void dt_npy_free(dt_npy *array);

size_t dt_npy_element_bytes(const char *type);
/* What is said of a type that the caller does not have. */
dt_status *dt_npy_refuse_type(const char *path, const dt_npy_header *header);

/* Writes as many elements as the product of dims. Atomic, as dt_file_write_atomic. */
dt_status *dt_npy_write(const char *path, const char *type, int n_dims, const int64_t *dims, const void *elements);

/* ---- for who reads a file piece by piece: its first eight bytes, the length of the header behind them, the header ---- */

dt_status *dt_npy_parse_start(const char *path, const unsigned char start[8], size_t *n_length);
dt_status *dt_npy_parse_length(const char *path, const unsigned char *bytes, size_t n_read, size_t n_length, size_t *n_header);
dt_status *dt_npy_parse_dictionary(const char *path, const char *dictionary, size_t n_read, size_t n_header, dt_npy_header *header);

#endif
