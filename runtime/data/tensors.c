/* tensors: the source safetensors(), tensors of one file, side by side: example i is row i of each. Only the header is read when it is opened; a row
 * is read where it lies when it is wanted, so nothing is kept, and a process reads its own rows alone. */
#include "runtime/data/input_file.h"
#include "runtime/data/safetensors.h"
#include "runtime/data/source.h"

#include "base/memory.h"
#include "base/text.h"

#include <string.h>

typedef struct tensors {
    dt_source source;
    dt_input_file *file;
    dt_safetensors *header;
    const dt_safetensor **chosen; /* [n_columns] */
    dt_column *columns;
} tensors;

static dt_status *tensors_read(const dt_source *base, int column, int64_t row, int64_t n_rows, void *bytes) {
    const tensors *source = (const tensors *)base;
    size_t row_bytes = (size_t)source->columns[column].tensor.row_bytes, n_bytes = (size_t)n_rows * row_bytes, n_read;
    uint64_t offset = (uint64_t)source->chosen[column]->offset + (uint64_t)row * row_bytes;
    DT_TRY(dt_input_file_read_at(source->file, offset, bytes, n_bytes, &n_read));
    if (n_read == n_bytes) return NULL;
    return dt_error_in(DT_DATA_LOSS, dt_input_file_path(source->file), 0,
                       "the file was truncated while it was in use: it ends before the end of row %lld (from 0) of %s",
                       (long long)(row + (int64_t)(n_read / row_bytes)), source->chosen[column]->name);
}

static void tensors_close(dt_source *base) {
    tensors *source = (tensors *)base;
    dt_safetensors_free(source->header);
    dt_input_file_close(source->file);
    dt_release(source->chosen);
    dt_release(source->columns);
    dt_release(source);
}

static dt_status *read_header(tensors *source) {
    const char *path = dt_input_file_path(source->file);
    unsigned char start[8];
    size_t n_read, n_more;
    if (!dt_input_file_is_plain(source->file)) return dt_error_in(DT_INVALID_ARGUMENT, path, 0, "is read where it lies: unpack it with gunzip");
    DT_TRY(dt_input_file_read(source->file, start, sizeof start, &n_read));
    uint64_t n_file = dt_input_file_most_bytes(source->file), n_head = n_read == sizeof start ? dt_safetensors_head_bytes(start) : n_read;
    if (n_head > n_file) n_head = n_read; /* too few: the parser says so */
    unsigned char *head = dt_allocate((size_t)n_head);
    if (head == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory for its header");
    memcpy(head, start, n_read);
    dt_status *status = dt_input_file_read(source->file, head + n_read, (size_t)n_head - n_read, &n_more);
    if (status == NULL) status = dt_safetensors_parse_header(path, head, n_read + n_more, n_file, &source->header);
    dt_release(head);
    return status;
}

static dt_status *no_such(const tensors *source, const char *name) {
    dt_text names = {0};
    for (int i = 0; i < source->header->n && i < 20; i++) dt_text_format(&names, "%s%s", i > 0 ? ", " : "", source->header->tensors[i].name);
    if (source->header->n > 20) dt_text_append(&names, ", …");
    const char *list = names.data != NULL ? names.data : "none", *path = dt_input_file_path(source->file);
    dt_status *status = name != NULL
                            ? dt_error_in(DT_NOT_FOUND, path, 0, "has no tensor %s; it has: %s", name, list)
                            : dt_error_in(DT_INVALID_ARGUMENT, path, 0, "safetensors() takes the file, then names of its tensors; it has: %s", list);
    dt_text_free(&names);
    return status;
}

static dt_status *choose(tensors *source, int i, const char *name) {
    const char *path = dt_input_file_path(source->file);
    const dt_safetensor *tensor = source->chosen[i] = dt_safetensors_find(source->header, name);
    if (tensor == NULL) return no_such(source, name);
    if (tensor->dtype == DT_N_DTYPES) return dt_error_in(DT_DATA_LOSS, path, 0, "%s is of a type that cannot be read; convert it", name);
    if (tensor->n_dims == 0) return dt_error_in(DT_DATA_LOSS, path, 0, "%s is a single number, not rows of examples", name);
    if (tensor->n_bytes == 0) return dt_error_in(DT_DATA_LOSS, path, 0, "%s holds no elements", name);
    if (tensor->dims[0] != source->chosen[0]->dims[0])
        return dt_error_in(DT_DATA_LOSS, path, 0, "the tensors disagree: %s holds %lld examples, %s %lld", source->chosen[0]->name,
                           (long long)source->chosen[0]->dims[0], name, (long long)tensor->dims[0]);
    source->columns[i] = (dt_column){.path = path,
                                     .tensor = {.name = "",
                                                .dtype = tensor->dtype,
                                                .n_dims = tensor->n_dims - 1,
                                                .dims = tensor->dims + 1,
                                                .row_bytes = tensor->n_bytes / tensor->dims[0]}};
    return NULL;
}

static dt_status *open_tensors(tensors *source, const dt_artifact_stage *stage, const char *folder) {
    DT_TRY(dt_input_file_open(folder, stage->arguments[0].string, &source->file));
    DT_TRY(read_header(source));
    int n = stage->n_arguments - 1;
    if (n == 0) return no_such(source, NULL);
    source->chosen = dt_allocate_zeroed((size_t)n, sizeof *source->chosen);
    source->columns = dt_allocate_zeroed((size_t)n, sizeof *source->columns);
    if (source->chosen == NULL || source->columns == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int i = 0; i < n; i++) DT_TRY(choose(source, i, stage->arguments[1 + i].string));
    source->source.n_examples = source->chosen[0]->dims[0];
    source->source.n_columns = n;
    source->source.columns = source->columns;
    return NULL;
}

dt_status *dt_source_open_safetensors(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    (void)by_row; /* always */
    *source = NULL;
    tensors *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    opened->source.read = tensors_read;
    opened->source.close = tensors_close;
    dt_status *status = open_tensors(opened, stage, folder);
    if (status != NULL) {
        tensors_close(&opened->source);
        return status;
    }
    *source = &opened->source;
    return NULL;
}
