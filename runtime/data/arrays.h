/* arrays: a source of files that are each one array, side by side: example i is row i of every file. What idx and npy have in common. */
#ifndef DT_RUNTIME_DATA_ARRAYS_H
#define DT_RUNTIME_DATA_ARRAYS_H

#include "runtime/data/input_file.h"
#include "runtime/data/source.h"

typedef struct dt_array_header {
    dt_dtype dtype;
    bool big_endian;
    int n_dims;
    int64_t *dims; /* [n_dims], each >= 0; dt_allocate, owned by the caller of the parser, also after an error */
} dt_array_header;

/* Reads from `file` all that stands before the elements. */
typedef dt_status *dt_array_parser(dt_input_file *file, dt_array_header *header);

dt_array_parser dt_idx_parse, dt_npy_parse;

/* A .npy file of as many elements as the product of dims. bf16, which NumPy does not have, is written as f32. Errors as dt_npy_write has them. */
dt_status *dt_array_write(const char *path, dt_dtype dtype, int n_dims, const int64_t *dims, const void *elements);

/* The source of the files that the arguments of `stage` name. `parse` NULL: each as its name says, .npy or else idx. Files of different length are an
 * error that names the lengths. */
dt_status *dt_arrays_open(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_array_parser *parse, dt_source **source);

#endif
