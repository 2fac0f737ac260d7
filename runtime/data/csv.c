/* csv: numbers separated by commas, as f32, under a line with the names of the columns, or with `header: no` without one. With `target: i` the column
 * i, from the end where negative, is a second component, a scalar, and the others are the first.
 *
 * Cells may be quoted, as RFC 4180 says; blanks around them, blank lines, \r and a missing end of the last line mean nothing. Everything else that is
 * no number is an error, which names line and column: a row that is read wrong would train wrong. */
#include "base/memory.h"
#include "runtime/data/input_file.h"
#include "runtime/data/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct csv {
    dt_source source;
    dt_column columns[2];
    int64_t n_features;
    float *features, *targets; /* [n_examples, n_features], [n_examples]; targets NULL without a target */
    char *path;
} csv;

/* What stands between two commas, in the text. */
typedef struct cell {
    const char *at;
    size_t n;
} cell;

typedef struct csv_reader {
    const char *path;
    const char *at;               /* terminated text */
    int64_t line, n_lines_within; /* from 1; line ends within the quotes of this line */
    int64_t n_fields, target;     /* target: -1 for none */
    bool has_header, names_are_numbers;
    cell *names; /* [n_fields]; NULL without a header */
} csv_reader;

static void csv_close(dt_source *base) {
    csv *source = (csv *)base;
    dt_release(source->features);
    dt_release(source->targets);
    dt_release(source->path);
    dt_release(source);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static bool ends_line(char c) { return c == '\n' || c == 0; }

/* The cell at reader->at, without blanks and quotes around it; *at is left at the comma or the end of the line after it. */
static dt_status *read_cell(csv_reader *reader, cell *read) {
    const char *c = reader->at;
    while (is_blank(*c)) c++;
    bool is_quoted = *c == '"';
    read->at = c += is_quoted;
    if (is_quoted) {
        for (; *c != 0 && (*c != '"' || c[1] == '"'); c++) {
            c += *c == '"'; /* two stand for one */
            reader->n_lines_within += *c == '\n';
        }
        if (*c == 0) return dt_error_in(DT_DATA_LOSS, reader->path, reader->line, "a quote is not closed");
        read->n = (size_t)(c++ - read->at);
        while (is_blank(*c)) c++;
        if (*c != ',' && !ends_line(*c))
            return dt_error_in(DT_DATA_LOSS, reader->path, reader->line, "something follows the quote that closes a cell: %.*s",
                               (int)strcspn(c, ",\r\n"), c);
    } else {
        while (*c != ',' && !ends_line(*c)) c++;
        read->n = (size_t)(c - read->at);
    }
    while (read->n > 0 && is_blank(read->at[read->n - 1])) read->n--;
    reader->at = c;
    return NULL;
}

/* Goes to the next line that is not blank; at the end of the text, false. */
static bool find_line(csv_reader *reader) {
    for (;;) {
        const char *c = reader->at;
        while (is_blank(*c)) c++;
        if (*c == 0) return false;
        if (*c != '\n') return true;
        reader->at = c + 1;
        reader->line++;
    }
}

static void end_line(csv_reader *reader) {
    reader->line += reader->n_lines_within;
    reader->n_lines_within = 0;
}

/* Whether the cell is a number, as programs write them: no 0x, and nothing around it. */
static bool to_number(cell read, float *value) {
    char *end;
    *value = strtof(read.at, &end);
    return read.n > 0 && (unsigned char)*read.at > ' ' && end == read.at + read.n && memchr(read.at, 'x', read.n) == NULL &&
           memchr(read.at, 'X', read.n) == NULL;
}

/* "numbers.csv:3: column 2 (age)", and what is wrong with it. Columns are counted from 1 for people. */
static dt_status *wrong_cell(const csv_reader *reader, int64_t column, const char *what) {
    cell name = reader->names != NULL ? reader->names[column] : (cell){"", 0};
    const char *open = name.n > 0 ? " (" : "", *close = name.n > 0 ? ")" : "";
    return dt_error_in(DT_DATA_LOSS, reader->path, reader->line, "column %lld%s%.*s%s %s", (long long)column + 1, open, (int)name.n, name.at, close,
                       what);
}

static dt_status *read_number(const csv_reader *reader, int64_t column, cell read, float *value) {
    if (read.n == 0) return wrong_cell(reader, column, "is empty: write a number, or leave out the line");
    bool is_number = to_number(read, value);
    bool says_infinity = memchr(read.at, 'i', read.n) != NULL || memchr(read.at, 'I', read.n) != NULL;
    if (is_number && (!isinf(*value) || says_infinity)) return NULL;
    char what[100];
    snprintf(what, sizeof what, is_number ? "is too large for f32: %.*s" : "is not a number: %.*s", (int)(read.n < 60 ? read.n : 60), read.at);
    return wrong_cell(reader, column, what);
}

/* A line of as many numbers as there are columns. */
static dt_status *read_line(csv_reader *reader, float *features, float *target) {
    for (int64_t column = 0;; column++) {
        cell read;
        float value = 0;
        DT_TRY(read_cell(reader, &read));
        if (column == reader->n_fields)
            return dt_error_in(DT_DATA_LOSS, reader->path, reader->line, "more cells than the %lld columns", (long long)reader->n_fields);
        DT_TRY(read_number(reader, column, read, &value));
        if (column == reader->target)
            *target = value;
        else
            *features++ = value;
        if (*reader->at == ',') {
            reader->at++;
            continue;
        }
        if (column + 1 < reader->n_fields) return wrong_cell(reader, column + 1, "is missing: the line has fewer cells than there are columns");
        end_line(reader);
        return NULL;
    }
}

/* The first line: how many columns there are, and how they are called. */
static dt_status *read_header(csv_reader *reader) {
    csv_reader first = *reader;
    int64_t capacity = 0;
    bool more = true;
    while (more) {
        if (reader->n_fields == capacity) {
            capacity = capacity != 0 ? capacity * 2 : 16;
            cell *grown = dt_reallocate(reader->names, (size_t)capacity * sizeof *grown);
            if (grown == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, reader->path, 0, "no memory for its header");
            reader->names = grown;
        }
        DT_TRY(read_cell(reader, &reader->names[reader->n_fields++]));
        more = *reader->at == ',';
        reader->at += more;
    }
    end_line(reader);
    float unused;
    reader->names_are_numbers = true;
    for (int64_t i = 0; i < reader->n_fields; i++) reader->names_are_numbers &= to_number(reader->names[i], &unused);
    if (reader->has_header) return NULL;
    dt_release(reader->names);
    int64_t n_fields = reader->n_fields;
    *reader = first;
    reader->n_fields = n_fields;
    return NULL;
}

/* Counts the rows, makes room, reads them. */
static dt_status *read_rows(csv *source, csv_reader *reader) {
    int64_t n_rows = 0;
    for (csv_reader count = *reader; find_line(&count); n_rows++) count.at += strcspn(count.at, "\n");
    if (n_rows == 0) return dt_error_in(DT_DATA_LOSS, reader->path, 0, "holds no examples: a first line at most, with the names of the columns");
    size_t n_elements;
    if (__builtin_mul_overflow((size_t)n_rows, (size_t)source->n_features, &n_elements)) n_elements = SIZE_MAX / sizeof(float) / 2;
    source->source.n_examples = n_rows;
    source->features = dt_allocate(n_elements * sizeof(float) + DT_SLACK_BYTES);
    source->targets = dt_allocate_zeroed((size_t)n_rows + DT_SLACK_BYTES / sizeof(float), sizeof(float));
    if (source->features == NULL || source->targets == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, reader->path, 0, "no memory for its numbers");
    memset(source->features + n_elements, 0, DT_SLACK_BYTES);

    int64_t row = 0;
    for (; find_line(reader); row++) DT_TRY(read_line(reader, source->features + row * source->n_features, source->targets + row));
    return row == n_rows ? NULL : dt_error_in(DT_DATA_LOSS, reader->path, 0, "a line ends within a cell");
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
    if (reader->has_header && reader->names_are_numbers)
        source->source.about = "the first line holds numbers alone and is taken for the names of the columns; with header: no it is an example";
    return NULL;
}

static dt_status *parse(csv *source, const dt_artifact_stage *stage, csv_reader *reader) {
    if (find_line(reader)) DT_TRY(read_header(reader));
    int64_t given = dt_source_option_int(stage, "target", INT64_MAX);
    if (given != INT64_MAX) {
        reader->target = given < 0 ? given + reader->n_fields : given;
        if (reader->target < 0 || reader->target >= reader->n_fields || reader->n_fields == 1)
            return dt_error_in(DT_INVALID_ARGUMENT, source->path, 0, "has %lld columns: column %lld cannot be the target",
                               (long long)reader->n_fields, (long long)given);
    }
    source->n_features = reader->n_fields - (reader->target >= 0);
    DT_TRY(read_rows(source, reader));
    return describe(source, reader);
}

/* Three bytes that some programs begin a text in UTF-8 with. */
static const char *after_byte_order_mark(const char *text) { return strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text; }

static dt_status *read_csv(csv *source, const dt_artifact_stage *stage, const char *folder) {
    dt_input_file *file;
    char *text = NULL;
    size_t n_bytes;
    DT_TRY(dt_input_file_open(folder, stage->arguments[0].string, &file));
    dt_status *status = dt_input_file_read_all(file, SIZE_MAX / 4, &text, &n_bytes);
    const char *path = dt_input_file_path(file);
    source->path = dt_allocate(strlen(path) + 1);
    if (source->path != NULL) memcpy(source->path, path, strlen(path) + 1);
    if (status == NULL && source->path == NULL) status = dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    if (status == NULL && strlen(text) != n_bytes) status = dt_error_in(DT_DATA_LOSS, path, 0, "is not a text file");
    dt_input_file_close(file);
    csv_reader reader = {.path = source->path, .line = 1, .target = -1};
    reader.has_header = strcmp(dt_source_option_choice(stage, "header", "yes"), "yes") == 0;
    if (status == NULL) reader.at = after_byte_order_mark(text);
    if (status == NULL) status = parse(source, stage, &reader);
    dt_release(reader.names);
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
