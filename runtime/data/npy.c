/* npy: NumPy's files (base/npy.h) as a source, which reads them piece by piece, and as what results are written to. */
#include "base/npy.h"
#include "base/memory.h"
#include "runtime/data/arrays.h"

/* A header that was read becomes one of an array; whoever asked owns its dims either way. */
static dt_status *take_header(const char *path, const dt_npy_header *read, dt_array_header *header) {
    *header = (dt_array_header){dt_dtype_from_numpy_name(read->type), read->big_endian, read->n_dims, read->dims};
    return header->dtype != DT_N_DTYPES ? NULL : dt_npy_refuse_type(path, read);
}

dt_status *dt_npy_parse(dt_input_file *file, dt_array_header *header) {
    const char *path = dt_input_file_path(file);
    unsigned char start[12];
    size_t n_read, n_length, n_header;
    DT_TRY(dt_input_file_read(file, start, 8, &n_read));
    if (n_read < 8) return dt_error_in(DT_DATA_LOSS, path, 0, "is not a .npy file");
    DT_TRY(dt_npy_parse_start(path, start, &n_length));
    DT_TRY(dt_input_file_read(file, start + 8, n_length, &n_read));
    DT_TRY(dt_npy_parse_length(path, start + 8, n_read, n_length, &n_header));
    char *dictionary = dt_allocate(n_header + 1);
    if (dictionary == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    dt_status *status = dt_input_file_read(file, dictionary, n_header, &n_read);
    dictionary[status == NULL ? n_read : 0] = 0;
    dt_npy_header read = {0};
    if (status == NULL) status = dt_npy_parse_dictionary(path, dictionary, n_read, n_header, &read);
    dt_status *taken = take_header(path, &read, header);
    dt_release(dictionary);
    return dt_status_first(status, taken);
}

dt_status *dt_array_write(const char *path, dt_dtype dtype, int n_dims, const int64_t *dims, const void *elements) {
    if (dtype != DT_BF16) return dt_npy_write(path, dt_dtype_numpy_name(dtype), n_dims, dims, elements);
    size_t n = 1;
    for (int d = 0; d < n_dims; d++) n *= (size_t)dims[d];
    uint32_t *widened = dt_allocate_zeroed(n + 1, sizeof *widened);
    if (widened == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory for its content");
    for (size_t i = 0; i < n; i++) widened[i] = (uint32_t)((const uint16_t *)elements)[i] << 16;
    dt_status *status = dt_npy_write(path, dt_dtype_numpy_name(DT_F32), n_dims, dims, widened);
    dt_release(widened);
    return status;
}

dt_status *dt_source_open_npy(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    return dt_arrays_open(stage, folder, by_row, dt_npy_parse, source);
}
