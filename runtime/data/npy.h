/* npy: one array a file, as NumPy saves it. Versions 1 to 3 are read, in C order and little endian; version 1 is written. */
#ifndef DT_RUNTIME_DATA_NPY_H
#define DT_RUNTIME_DATA_NPY_H

#include "abi/dtype.h"
#include "base/status.h"

/* Writes `n_elements` = the product of dims. bf16, which NumPy does not have, is written as f32. Atomic, as dt_file_write_atomic. */
dt_status *dt_npy_write(const char *path, dt_dtype dtype, int n_dims, const int64_t *dims, const void *elements);

#endif
