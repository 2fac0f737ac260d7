/* bytes: a source of one byte an example. */
#include "base/memory.h"
#include "runtime/data/byte_files.h"
#include "runtime/data/source.h"

typedef struct bytes {
    dt_source source;
    dt_byte_files files;
    dt_column column;
    int64_t *file_ends; /* [files.n] */
} bytes;

static dt_status *bytes_read(const dt_source *base, int column, int64_t row, int64_t n_rows, void *into) {
    (void)column;
    return dt_byte_files_read(&((const bytes *)base)->files, (uint64_t)row, (size_t)n_rows, into);
}

static void bytes_name_row(const dt_source *base, int64_t row, dt_text *text) {
    const dt_byte_file *file = dt_byte_files_at(&((const bytes *)base)->files, (uint64_t)row);
    dt_text_format(text, "byte %lld of %s", (long long)row - (long long)file->start, dt_input_file_path(file->file));
}

static void bytes_close(dt_source *base) {
    bytes *source = (bytes *)base;
    dt_byte_files_close(&source->files);
    dt_release(source->file_ends);
    dt_release(source);
}

dt_status *dt_source_open_bytes(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    *source = NULL;
    bytes *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    opened->source = (dt_source){.n_columns = 1, .columns = &opened->column, .read = bytes_read, .name_row = bytes_name_row, .close = bytes_close};
    dt_status *status = dt_byte_files_open(stage, folder, by_row, &opened->files);
    if (status == NULL) opened->file_ends = dt_allocate((size_t)opened->files.n * sizeof *opened->file_ends);
    if (status == NULL && opened->file_ends == NULL) status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (status != NULL) {
        bytes_close(&opened->source);
        return status;
    }
    for (int i = 0; i < opened->files.n; i++) opened->file_ends[i] = (int64_t)(opened->files.files[i].start + opened->files.files[i].n_bytes);
    opened->source.n_files = opened->files.n;
    opened->source.file_ends = opened->file_ends;
    opened->source.n_examples = (int64_t)opened->files.n_bytes;
    opened->column = (dt_column){.path = dt_input_file_path(opened->files.files[0].file),
                                 .tensor = {.name = "", .dtype = DT_U8, .row_bytes = 1},
                                 .bytes = opened->files.bytes,
                                 .stride = 1};
    *source = &opened->source;
    return NULL;
}
