/* npy: a source of NumPy's files, which are read piece by piece (base/npy.h). */
#include "base/memory.h"
#include "runtime/data/arrays.h"

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
    if (status == NULL) status = dt_npy_parse_dictionary(path, dictionary, n_read, n_header, header);
    dt_release(dictionary);
    return status;
}

dt_status *dt_source_open_npy(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    return dt_arrays_open(stage, folder, by_row, dt_npy_parse, source);
}
