/* csv: numbers separated by commas under a header line, as f32. With target: i the column i (from the end where negative) is a second component,
 * a scalar, and the others the first. */
#include "base/memory.h"
#include "runtime/data/input_file.h"
#include "runtime/data/source.h"

#include <stdlib.h>
#include <string.h>

typedef struct csv {
    dt_source source;
    dt_column columns[2];
    int64_t n_features;
    float *features, *targets; /* [n_examples, n_features], [n_examples]; targets NULL without a target */
    char *path;
} csv;

typedef struct csv_reader {
    const char *path;
    const char *at;                 /* terminated text */
    int64_t line, n_fields, target; /* target: -1 for none */
} csv_reader;

static void csv_close(dt_source *base) {
    csv *source = (csv *)base;
    dt_release(source->features);
    dt_release(source->targets);
    dt_release(source->path);
    dt_release(source);
}

static int64_t count_fields(const char *line) {
    int64_t n = 1;
    for (const char *c = line; *c != 0 && *c != '\n'; c++) n += *c == ',';
    return n;
}

static const char *line_end(const char *line) {
    const char *end = strchr(line, '\n');
    return end != NULL ? end : line + strlen(line);
}

static bool is_blank(const char *line, const char *end) {
    while (line < end && (*line == ' ' || *line == '\r' || *line == '\t')) line++;
    return line == end;
}

static dt_status *read_line(csv_reader *reader, float *features, float *target) {
    const char *end = line_end(reader->at), *c = reader->at;
    for (int64_t field = 0; field < reader->n_fields; field++) {
        char *after;
        float value = strtof(c, &after);
        const char *stop = after;
        while (stop < end && (*stop == ' ' || *stop == '\r' || *stop == '\t')) stop++;
        bool last = field + 1 == reader->n_fields, blank = after == c || after > end;
        if (blank || (last ? stop != end : *stop != ',')) {
            if (!blank && (stop == end || *stop == ','))
                return dt_error(DT_DATA_LOSS, "%s:%lld: %s fields than the %lld of the header", reader->path, (long long)reader->line,
                                last ? "more" : "fewer", (long long)reader->n_fields);
            return dt_error(DT_DATA_LOSS, "%s:%lld: field %lld is not a number: %.*s", reader->path, (long long)reader->line, (long long)field + 1,
                            (int)strcspn(c, ",\r\n"), c);
        }
        if (field == reader->target)
            *target = value;
        else
            *features++ = value;
        c = stop + !last;
    }
    reader->at = end;
    return NULL;
}

/* Counts the rows, makes room, reads them. */
static dt_status *read_rows(csv *source, csv_reader *reader) {
    int64_t n_rows = 0;
    for (const char *line = reader->at; *line != 0; line = line_end(line) + (*line_end(line) != 0)) n_rows += !is_blank(line, line_end(line));
    if (n_rows == 0) return dt_error(DT_DATA_LOSS, "%s: holds a header line at most, and no examples", reader->path);
    size_t n_elements;
    if (__builtin_mul_overflow((size_t)n_rows, (size_t)source->n_features, &n_elements)) n_elements = SIZE_MAX / sizeof(float) / 2;
    source->source.n_examples = n_rows;
    source->features = dt_allocate(n_elements * sizeof(float) + DT_SLACK_BYTES);
    source->targets = dt_allocate_zeroed((size_t)n_rows + DT_SLACK_BYTES / sizeof(float), sizeof(float));
    if (source->features == NULL || source->targets == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "%s: no memory for its numbers", reader->path);
    memset(source->features + n_elements, 0, DT_SLACK_BYTES);

    for (int64_t row = 0; row < n_rows;) {
        if (is_blank(reader->at, line_end(reader->at)))
            reader->at = line_end(reader->at);
        else {
            DT_TRY(read_line(reader, source->features + row * source->n_features, source->targets + row));
            row++;
        }
        reader->at += *reader->at != 0;
        reader->line++;
    }
    return NULL;
}

static dt_status *describe(csv *source, const csv_reader *reader) {
    source->columns[0] = (dt_column){
        .path = source->path,
        .tensor = {.name = "", .dtype = DT_F32, .n_dims = 1, .dims = &source->n_features, .row_bytes = source->n_features * (int64_t)sizeof(float)},
        .bytes = (const unsigned char *)source->features,
        .stride = source->n_features * (int64_t)sizeof(float),
    };
    source->columns[1] = (dt_column){
        .path = source->path,
        .tensor = {.name = "", .dtype = DT_F32, .row_bytes = sizeof(float)},
        .bytes = (const unsigned char *)source->targets,
        .stride = sizeof(float),
    };
    source->source.n_columns = reader->target >= 0 ? 2 : 1;
    source->source.columns = source->columns;
    return NULL;
}

static dt_status *parse(csv *source, const dt_artifact_stage *stage, const char *text) {
    csv_reader reader = {.path = source->path, .at = line_end(text), .line = 2, .n_fields = count_fields(text), .target = -1};
    reader.at += *reader.at != 0;
    int64_t given = dt_source_option_int(stage, "target", INT64_MAX);
    if (given != INT64_MAX) {
        reader.target = given < 0 ? given + reader.n_fields : given;
        if (reader.target < 0 || reader.target >= reader.n_fields || reader.n_fields == 1)
            return dt_error(DT_INVALID_ARGUMENT, "%s: has %lld columns: column %lld cannot be the target", source->path, (long long)reader.n_fields,
                            (long long)given);
    }
    source->n_features = reader.n_fields - (reader.target >= 0);
    DT_TRY(read_rows(source, &reader));
    return describe(source, &reader);
}

static dt_status *read_csv(csv *source, const dt_artifact_stage *stage, const char *folder) {
    dt_input_file *file;
    char *text = NULL;
    size_t n_bytes;
    DT_TRY(dt_input_file_open(folder, stage->arguments[0].string, &file));
    dt_status *status = dt_input_file_read_all(file, SIZE_MAX / 4, &text, &n_bytes);
    const char *path = dt_input_file_path(file);
    source->path = dt_allocate(strlen(path) + 1);
    if (source->path != NULL) memcpy(source->path, path, strlen(path) + 1);
    if (status == NULL && source->path == NULL) status = dt_error(DT_RESOURCE_EXHAUSTED, "%s: out of memory", path);
    if (status == NULL && strlen(text) != n_bytes) status = dt_error(DT_DATA_LOSS, "%s: is not a text file", path);
    dt_input_file_close(file);
    if (status == NULL) status = parse(source, stage, text);
    dt_release(text);
    return status;
}

/* A line has no fixed place: all are read, whoever asks. */
dt_status *dt_source_open_csv(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    (void)by_row;
    *source = NULL;
    csv *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    opened->source.close = csv_close;
    dt_status *status = read_csv(opened, stage, folder);
    if (status != NULL) {
        csv_close(&opened->source);
        return status;
    }
    *source = &opened->source;
    return NULL;
}
