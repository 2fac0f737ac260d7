/* lines: a source of text, a line an example, of files one after the other. Lines end with \n or \r\n, which are no part of them; the last one may
 * lack its end. Where lines lie is known once all have been read, so all are kept, whoever asks. */
#include "base/memory.h"
#include "runtime/data/byte_files.h"
#include "runtime/data/source.h"

#include <string.h>
#include <utf8proc.h>

typedef struct lines {
    dt_source source;
    dt_byte_files files;
    uint64_t *offsets; /* [n_examples + 1], within the bytes of the files, once line ends are taken out */
    uint64_t capacity;
    int64_t *file_ends; /* [files.n] */
    dt_column column;
} lines;

static void lines_close(dt_source *base) {
    lines *source = (lines *)base;
    dt_byte_files_close(&source->files);
    dt_release(source->offsets);
    dt_release(source->file_ends);
    dt_release(source);
}

static dt_status *check_utf8(const char *path, int64_t line, const unsigned char *text, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes;) {
        uint64_t eight;
        if (i + sizeof eight <= n_bytes && (memcpy(&eight, text + i, sizeof eight), (eight & 0x8080808080808080u) == 0)) {
            i += sizeof eight;
            continue;
        }
        utf8proc_int32_t code_point;
        utf8proc_ssize_t n = utf8proc_iterate(text + i, (utf8proc_ssize_t)(n_bytes - i), &code_point);
        if (n <= 0)
            return dt_error_in(DT_DATA_LOSS, path, line, "is not UTF-8: byte %zu of the line is 0x%02x; convert the file with iconv", i + 1, text[i]);
        i += (size_t)n;
    }
    return NULL;
}

static dt_status *add_line(lines *source, uint64_t end) {
    if (source->source.n_examples + 2 > (int64_t)source->capacity) {
        source->capacity = source->capacity != 0 ? source->capacity * 2 : 1024;
        uint64_t *grown = dt_reallocate(source->offsets, source->capacity * sizeof *grown);
        if (grown == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, source->column.path, 0, "no memory for its lines");
        source->offsets = grown;
    }
    source->offsets[0] = 0;
    source->offsets[++source->source.n_examples] = end;
    return NULL;
}

/* The lines of one file, moved together to where those before end. */
static dt_status *split(lines *source, const dt_byte_file *file, uint64_t *end) {
    unsigned char *bytes = source->files.bytes, *at = bytes + file->start, *stop = at + file->n_bytes;
    for (int64_t line = 1; at < stop; line++) {
        unsigned char *newline = memchr(at, '\n', (size_t)(stop - at)), *next = newline != NULL ? newline + 1 : stop;
        size_t n = (size_t)((newline != NULL ? newline : stop) - at);
        if (newline != NULL && n > 0 && at[n - 1] == '\r') n--;
        DT_TRY(check_utf8(dt_input_file_path(file->file), line, at, n));
        memmove(bytes + *end, at, n);
        *end += n;
        DT_TRY(add_line(source, *end));
        at = next;
    }
    return NULL;
}

static dt_status *read_lines(lines *source, const dt_artifact_stage *stage, const char *folder) {
    DT_TRY(dt_byte_files_open(stage, folder, false, &source->files));
    uint64_t end = 0;
    source->column.path = dt_input_file_path(source->files.files[0].file);
    source->file_ends = dt_allocate((size_t)source->files.n * sizeof *source->file_ends);
    if (source->file_ends == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, source->column.path, 0, "out of memory");
    for (int i = 0; i < source->files.n; i++) {
        DT_TRY(split(source, &source->files.files[i], &end));
        source->file_ends[i] = source->source.n_examples;
    }
    source->source.n_files = source->files.n;
    source->source.file_ends = source->file_ends;
    source->column.is_text = true;
    source->column.bytes = source->files.bytes;
    source->column.offsets = source->offsets;
    return NULL;
}

static void lines_name_row(const dt_source *base, int64_t row, dt_text *text) {
    const lines *source = (const lines *)base;
    int file = 0;
    while (source->file_ends[file] <= row) file++;
    int64_t start = file > 0 ? source->file_ends[file - 1] : 0;
    dt_text_format(text, "%s:%lld", dt_input_file_path(source->files.files[file].file), (long long)(row - start + 1));
}

dt_status *dt_source_open_lines(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    (void)by_row;
    *source = NULL;
    lines *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    opened->source = (dt_source){.n_columns = 1, .columns = &opened->column, .name_row = lines_name_row, .close = lines_close};
    dt_status *status = read_lines(opened, stage, folder);
    if (status != NULL) {
        lines_close(&opened->source);
        return status;
    }
    *source = &opened->source;
    return NULL;
}
