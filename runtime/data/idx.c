/* idx: the format of MNIST and its successors. Two zero bytes, a type, the number of dimensions; the dimensions and the elements, big endian. */
#include "base/memory.h"
#include "runtime/data/arrays.h"

static dt_dtype dtype_of(unsigned char code) {
    switch (code) {
    case 0x08: return DT_U8;
    case 0x09: return DT_I8;
    case 0x0c: return DT_I32;
    case 0x0d: return DT_F32;
    case 0x0e: return DT_F64;
    default: return DT_N_DTYPES;
    }
}

dt_status *dt_idx_parse(dt_input_file *file, dt_array_header *header) {
    const char *path = dt_input_file_path(file);
    unsigned char start[4], extent[4];
    size_t n_read;
    DT_TRY(dt_input_file_read(file, start, sizeof start, &n_read));
    if (n_read < sizeof start || start[0] != 0 || start[1] != 0) {
        bool gzip = n_read >= 2 && start[0] == 0x1f && start[1] == 0x8b;
        return dt_error_in(DT_DATA_LOSS, path, 0, "is not an IDX file%s",
                           gzip ? ", but a gzip file: its name must end in .gz" : ": it does not begin with two zero bytes");
    }
    header->dtype = dtype_of(start[2]);
    if (header->dtype == DT_N_DTYPES)
        return dt_error_in(DT_DATA_LOSS, path, 0, "is not an IDX file that can be read: its type of elements is 0x%02x", start[2]);
    header->big_endian = true;
    header->n_dims = start[3];
    header->dims = dt_allocate_zeroed(start[3], sizeof *header->dims);
    if (header->dims == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    for (int i = 0; i < header->n_dims; i++) {
        DT_TRY(dt_input_file_read(file, extent, sizeof extent, &n_read));
        if (n_read < sizeof extent) return dt_error_in(DT_DATA_LOSS, path, 0, "the file is truncated: it ends within the header");
        header->dims[i] = (int64_t)extent[0] << 24 | extent[1] << 16 | extent[2] << 8 | extent[3];
    }
    return NULL;
}

dt_status *dt_source_open_idx(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    return dt_arrays_open(stage, folder, by_row, dt_idx_parse, source);
}
