/* reader: see reader.h. */
#include "ir/reader.h"

#include "ir/graph.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void find_place(const dt_reader *reader, int *line, int *column) {
    *line = 1;
    const char *start = reader->source;
    for (const char *at = reader->source; at < reader->at; at++)
        if (*at == '\n') {
            ++*line;
            start = at + 1;
        }
    *column = (int)(reader->at - start) + 1;
}

dt_status *dt_reader_annotate(const dt_reader *reader, dt_status *status) {
    if (status == NULL || reader->name == NULL) return status;
    int line, column;
    find_place(reader, &line, &column);
    return dt_status_at(dt_status_annotate(status, "%s:%d:%d", reader->name, line, column), reader->name, line, column);
}

dt_status *dt_reader_error(const dt_reader *reader, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char message[256];
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (reader->name == NULL) return dt_error(DT_INVALID_ARGUMENT, "%s at \"%.30s\"", message, reader->at);
    return dt_reader_annotate(reader, dt_error(DT_INVALID_ARGUMENT, "%s", message));
}

static const char *behind_spaces(const dt_reader *reader) {
    const char *at = reader->at;
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (*at != '#') return at;
        at += strcspn(at, "\n");
    }
}

bool dt_read_end(dt_reader *reader) {
    reader->at = behind_spaces(reader);
    return *reader->at == '\0';
}

bool dt_read_symbol(dt_reader *reader, const char *symbol) {
    const char *at = behind_spaces(reader);
    if (strncmp(at, symbol, strlen(symbol)) != 0) return false;
    reader->at = at + strlen(symbol);
    return true;
}

static size_t word_length(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || (at[n] != '\0' && strchr("_/.-", at[n]) != NULL)) n++;
    return n;
}

bool dt_read_keyword(dt_reader *reader, const char *word) {
    const char *at = behind_spaces(reader);
    size_t n = word_length(at);
    if (n != strlen(word) || memcmp(at, word, n) != 0) return false;
    reader->at = at + n;
    return true;
}

bool dt_read_word(dt_reader *reader, const char **word) {
    const char *at = behind_spaces(reader);
    size_t n = word_length(at);
    if (n == 0) return false;
    *word = dt_arena_substring(reader->arena, at, n);
    reader->at = at + n;
    return true;
}

bool dt_read_name(dt_reader *reader, const char **name) { return dt_read_string(reader, name) || dt_read_word(reader, name); }

static int hex_digit(char c) { return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

/* One character of a string, after a backslash; its bytes go to *out. False when there is no such escape. */
static bool read_escape(const char **at, char *out) {
    switch (*(*at)++) {
    case '"': *out = '"'; return true;
    case '\\': *out = '\\'; return true;
    case 'n': *out = '\n'; return true;
    case 't': *out = '\t'; return true;
    case 'x': {
        int high = hex_digit((*at)[0]), low = high >= 0 ? hex_digit((*at)[1]) : -1;
        if (low < 0 || high * 16 + low == 0) return false;
        *out = (char)(high * 16 + low);
        *at += 2;
        return true;
    }
    default: return false;
    }
}

bool dt_read_string(dt_reader *reader, const char **string) {
    const char *at = behind_spaces(reader), *end;
    if (*at != '"') return false;
    for (end = ++at; *end != '"' && *end != '\0' && *end != '\n'; end++)
        if (*end == '\\' && end[1] != '\0') end++;
    if (*end != '"') return false;
    char *copy = dt_arena_new(reader->arena, (size_t)(end - at) + 1), *out = copy;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        at++;
        if (!read_escape(&at, out++)) return false;
    }
    reader->at = end + 1;
    *string = copy;
    return true;
}

bool dt_read_int(dt_reader *reader, int64_t *value) {
    const char *at = behind_spaces(reader);
    if (!isdigit((unsigned char)at[*at == '-'])) return false;
    char *end;
    errno = 0;
    long long number = strtoll(at, &end, 10);
    if (errno != 0) return false;
    *value = number;
    reader->at = end;
    return true;
}

bool dt_read_float(dt_reader *reader, double *value) {
    const char *at = behind_spaces(reader);
    const char *digits = at + (*at == '-');
    if (!isdigit((unsigned char)*digits) && strncmp(digits, "inf", 3) != 0 && strncmp(digits, "nan", 3) != 0) return false;
    char *end;
    *value = strtod(at, &end);
    reader->at = end;
    return true;
}

bool dt_read_number(dt_reader *reader, dt_attribute *number) {
    const char *at = reader->at;
    int64_t i;
    if (dt_read_int(reader, &i) && strchr(".eE", *reader->at) == NULL) return *number = dt_number_of_int(i), true;
    reader->at = at;
    *number = dt_number(0);
    return dt_read_float(reader, &number->f);
}

bool dt_read_dim(dt_reader *reader, int64_t *dim) {
    if (dt_read_keyword(reader, "B"))
        *dim = DT_BATCH;
    else if (dt_read_keyword(reader, "G"))
        *dim = DT_GATHERED;
    else
        return dt_read_int(reader, dim);
    return true;
}

bool dt_read_dtype(dt_reader *reader, dt_dtype *dtype) {
    for (*dtype = 0; *dtype < DT_N_DTYPES; ++*dtype)
        if (dt_read_keyword(reader, dt_dtype_name(*dtype))) return true;
    return false;
}

/* "[1, B, 3]"; the numbers live in the arena. */
static bool read_dims(dt_reader *reader, int64_t *n, const int64_t **dims) {
    DT_LIST(int64_t) list = {0};
    if (!dt_read_symbol(reader, "[")) return false;
    while (!dt_read_symbol(reader, "]")) {
        int64_t dim;
        if (list.n > 0 && !dt_read_symbol(reader, ",")) return false;
        if (!dt_read_dim(reader, &dim)) return false;
        dt_list_push(reader->arena, &list, dim);
    }
    *n = (int64_t)list.n;
    *dims = list.n > 0 ? list.items : dt_shape_scalar().dims;
    return true;
}

bool dt_read_type(dt_reader *reader, dt_dtype *dtype, dt_shape *shape) {
    if (!dt_read_dtype(reader, dtype)) return false;
    *shape = dt_shape_scalar();
    int64_t rank;
    if (*reader->at != '[') return true;
    if (!read_dims(reader, &rank, &shape->dims)) return false;
    shape->rank = (int)rank;
    for (int d = 0; d < shape->rank; d++)
        if (shape->dims[d] < DT_GATHERED) return false;
    return rank > 0;
}

/* ---- attributes ---- */

static bool read_attribute(dt_reader *reader, dt_attribute_kind kind, dt_attribute *attribute) {
    switch (kind) {
    case DT_ATTR_INT: return dt_read_int(reader, &attribute->i);
    case DT_ATTR_NUMBER: return dt_read_number(reader, attribute);
    case DT_ATTR_BOOL: attribute->i = dt_read_keyword(reader, "true"); return attribute->i != 0 || dt_read_keyword(reader, "false");
    case DT_ATTR_STRING: return dt_read_string(reader, &attribute->s);
    case DT_ATTR_INTS: return read_dims(reader, &attribute->i, &attribute->ints);
    case DT_ATTR_DTYPE: {
        dt_dtype dtype;
        if (!dt_read_dtype(reader, &dtype)) return false;
        attribute->i = dtype;
        return true;
    }
    }
    return false;
}

dt_status *dt_read_attributes(dt_reader *reader, const dt_op *op, dt_attribute *attributes) {
    static const char *const kinds[] = {[DT_ATTR_INT] = "an integer",      [DT_ATTR_NUMBER] = "a number", [DT_ATTR_BOOL] = "true or false",
                                        [DT_ATTR_STRING] = "\"a string\"", [DT_ATTR_INTS] = "[integers]", [DT_ATTR_DTYPE] = "a dtype"};
    bool *given = DT_NEW_ARRAY(reader->arena, bool, op->n_attributes);
    const char *name;
    while (dt_read_word(reader, &name)) {
        int i = dt_op_attribute_index(op, name);
        if (i < 0) return dt_reader_error(reader, "%s has no attribute %s", op->name, name);
        if (given[i]) return dt_reader_error(reader, "%s: %s is given twice", op->name, name);
        given[i] = true;
        if (!dt_read_symbol(reader, "=") || !read_attribute(reader, op->attributes[i].kind, &attributes[i]))
            return dt_reader_error(reader, "%s: %s must be %s", op->name, name, kinds[op->attributes[i].kind]);
        if (!dt_read_symbol(reader, ",")) break;
    }
    for (int i = 0; i < op->n_attributes; i++) {
        if (given[i]) continue;
        if (!op->attributes[i].has_default) return dt_reader_error(reader, "%s: %s is missing", op->name, op->attributes[i].name);
        attributes[i] = op->attributes[i].standard;
    }
    return NULL;
}

void dt_print_string(dt_text *text, const char *string) {
    dt_text_append(text, "\"");
    for (const char *at = string; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            dt_text_format(text, "\\%c", *at);
        else if (*at == '\n')
            dt_text_append(text, "\\n");
        else if (*at == '\t')
            dt_text_append(text, "\\t");
        else if ((unsigned char)*at < 0x20 || *at == 0x7f)
            dt_text_format(text, "\\x%02x", (unsigned)(unsigned char)*at);
        else
            dt_text_append_bytes(text, at, 1);
    }
    dt_text_append(text, "\"");
}

void dt_print_name(dt_text *text, const char *name) {
    if (name[0] != '\0' && word_length(name) == strlen(name))
        dt_text_append(text, name);
    else
        dt_print_string(text, name);
}

static void print_ints(dt_text *text, const int64_t *ints, int64_t n) {
    dt_text_append(text, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) dt_text_append(text, ", ");
        if (ints[i] == DT_BATCH)
            dt_text_append(text, "B");
        else if (ints[i] == DT_GATHERED)
            dt_text_append(text, "G");
        else
            dt_text_format(text, "%" PRId64, ints[i]);
    }
    dt_text_append(text, "]");
}

static bool is_standard(const dt_attribute_row *row, const dt_attribute *attribute) {
    if (!row->has_default) return false;
    const dt_attribute *standard = &row->standard;
    switch (row->kind) {
    case DT_ATTR_NUMBER: return attribute->i == standard->i && memcmp(&attribute->f, &standard->f, sizeof standard->f) == 0;
    case DT_ATTR_STRING: return strcmp(attribute->s, standard->s) == 0;
    case DT_ATTR_INTS:
        return attribute->i == standard->i &&
               (standard->i == 0 || memcmp(attribute->ints, standard->ints, (size_t)standard->i * sizeof(int64_t)) == 0);
    default: return attribute->i == standard->i;
    }
}

void dt_print_number(dt_text *text, dt_dtype dtype, const dt_attribute *number) {
    char buffer[32];
    if (!dt_dtype_is_float(dtype))
        dt_text_format(text, "%" PRId64, number->i);
    else
        dt_text_append(text, dtype == DT_F64 ? dt_text_from_f64(number->f, buffer) : dt_text_from_f32((float)number->f, buffer));
}

void dt_print_attributes(dt_text *text, const dt_value *value, bool comma) {
    const dt_op *op = value->op;
    for (int i = 0; i < op->n_attributes; i++) {
        const dt_attribute *attribute = &value->attributes[i];
        if (is_standard(&op->attributes[i], attribute)) continue;
        dt_text_format(text, "%s%s=", comma ? ", " : "", op->attributes[i].name);
        comma = true;
        switch (op->attributes[i].kind) {
        case DT_ATTR_INT: dt_text_format(text, "%" PRId64, attribute->i); break;
        case DT_ATTR_NUMBER: dt_print_number(text, value->dtype, attribute); break;
        case DT_ATTR_BOOL: dt_text_append(text, attribute->i != 0 ? "true" : "false"); break;
        case DT_ATTR_STRING: dt_print_string(text, attribute->s); break;
        case DT_ATTR_INTS: print_ints(text, attribute->ints, attribute->i); break;
        case DT_ATTR_DTYPE: dt_text_append(text, dt_dtype_name((dt_dtype)attribute->i)); break;
        }
    }
}
