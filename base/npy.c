/* npy: see npy.h. The header is a Python dictionary of three keys; the little of Python's grammar that NumPy writes there is read here. */
#include "base/npy.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_HEADER_BYTES = 1 << 16
};

/* The text after 'key': in the dictionary, or NULL. */
static const char *value_of(const char *dictionary, const char *key) {
    const char *found = strstr(dictionary, key);
    if (found == NULL) return NULL;
    found += strlen(key);
    while (*found == ' ') found++;
    if (*found != ':') return NULL;
    do found++;
    while (*found == ' ');
    return found;
}

size_t dt_npy_element_bytes(const char *type) { return (size_t)(type[1] - '0'); }

static dt_status *refuse_type(const char *path, const char *descr, size_t n) {
    return dt_error_in(DT_DATA_LOSS, path, 0, "elements of type %.*s cannot be read; convert the array with .astype()", (int)n, descr);
}

dt_status *dt_npy_refuse_type(const char *path, const dt_npy_header *header) {
    char descr[4] = {dt_npy_element_bytes(header->type) == 1 ? '|' : header->big_endian ? '>' : '<', header->type[0], header->type[1]};
    return refuse_type(path, descr, 3);
}

static dt_status *parse_descr(const char *path, const char *dictionary, dt_npy_header *header) {
    const char *descr = value_of(dictionary, "'descr'");
    if (descr == NULL || descr[0] != '\'' || descr[1] == 0)
        return dt_error_in(DT_DATA_LOSS, path, 0, "is not a .npy file of numbers: its header has no simple 'descr'");
    size_t n = strcspn(descr + 1, "'");
    char order = descr[1];
    if (n != 3 || descr[3] < '1' || descr[3] > '8' || (descr[3] != '1' && order != '<' && order != '>')) return refuse_type(path, descr + 1, n);
    snprintf(header->type, sizeof header->type, "%.2s", descr + 2);
    header->big_endian = descr[3] != '1' && order == '>';
    return NULL;
}

static dt_status *parse_shape(const char *path, const char *dictionary, dt_npy_header *header) {
    const char *shape = value_of(dictionary, "'shape'");
    const char *end = shape != NULL && *shape == '(' ? strchr(shape, ')') : NULL;
    if (end == NULL) return dt_error_in(DT_DATA_LOSS, path, 0, "is not a .npy file: its header has no 'shape'");
    size_t n_commas = 0;
    for (const char *c = shape; c < end; c++) n_commas += *c == ',';
    header->dims = dt_allocate_zeroed(n_commas + 1, sizeof *header->dims);
    if (header->dims == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    const char *c = shape + 1;
    for (;;) {
        c += strspn(c, " ");
        if (c >= end) return NULL;
        char *after;
        long long extent = strtoll(c, &after, 10);
        after += strspn(after, " ");
        if (after == c || extent < 0 || (*after != ',' && after != end) || header->n_dims > (int)n_commas)
            return dt_error_in(DT_DATA_LOSS, path, 0, "the shape in its header is not one: %.*s", (int)(end - shape + 1), shape);
        header->dims[header->n_dims++] = extent;
        c = after + (*after == ',');
    }
}

dt_status *dt_npy_parse_start(const char *path, const unsigned char start[8], size_t *n_length) {
    if (memcmp(start, "\x93NUMPY", 6) != 0) return dt_error_in(DT_DATA_LOSS, path, 0, "is not a .npy file");
    if (start[6] < 1 || start[6] > 3) return dt_error_in(DT_DATA_LOSS, path, 0, "is a .npy file of version %d; 1 to 3 can be read", start[6]);
    *n_length = start[6] == 1 ? 2 : 4;
    return NULL;
}

dt_status *dt_npy_parse_length(const char *path, const unsigned char *bytes, size_t n_read, size_t n_length, size_t *n_header) {
    *n_header = 0;
    for (size_t i = 0; i < n_read; i++) *n_header |= (size_t)bytes[i] << 8 * i;
    if (n_read < n_length || *n_header > MOST_HEADER_BYTES)
        return dt_error_in(DT_DATA_LOSS, path, 0, "the header of the .npy file is truncated or altered");
    return NULL;
}

dt_status *dt_npy_parse_dictionary(const char *path, const char *dictionary, size_t n_read, size_t n_header, dt_npy_header *header) {
    if (n_read < n_header || strlen(dictionary) != n_header)
        return dt_error_in(DT_DATA_LOSS, path, 0, "the header of the .npy file is truncated or altered");
    DT_TRY(parse_descr(path, dictionary, header));
    const char *fortran = value_of(dictionary, "'fortran_order'");
    if (fortran == NULL || strncmp(fortran, "False", 5) != 0)
        return dt_error_in(DT_DATA_LOSS, path, 0, "is not in C order; save numpy.ascontiguousarray(array)");
    return parse_shape(path, dictionary, header);
}

/* Of bytes in memory, `*at` of which stand before the elements. */
static dt_status *parse_header(const char *path, const char *bytes, size_t n_bytes, size_t *at, dt_npy_header *header) {
    size_t n_length, n_header;
    const unsigned char *start = (const unsigned char *)bytes;
    if (n_bytes < 8) return dt_error_in(DT_DATA_LOSS, path, 0, "is not a .npy file");
    DT_TRY(dt_npy_parse_start(path, start, &n_length));
    size_t n_there = n_bytes - 8 < n_length ? n_bytes - 8 : n_length;
    DT_TRY(dt_npy_parse_length(path, start + 8, n_there, n_length, &n_header));
    *at = 8 + n_length + n_header;
    size_t n_dictionary = n_bytes - 8 - n_length < n_header ? n_bytes - 8 - n_length : n_header;
    char *dictionary = dt_allocate(n_dictionary + 1);
    if (dictionary == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "out of memory");
    memcpy(dictionary, bytes + 8 + n_length, n_dictionary);
    dictionary[n_dictionary] = 0;
    dt_status *status = dt_npy_parse_dictionary(path, dictionary, n_dictionary, n_header, header);
    dt_release(dictionary);
    return status;
}

/* Whether so many bytes follow the header, and no more. */
static dt_status *check_size(const char *path, const dt_npy_header *header, size_t n_rest) {
    uint64_t n = dt_npy_element_bytes(header->type);
    bool overflows = false;
    for (int d = 0; d < header->n_dims; d++) overflows |= __builtin_mul_overflow(n, (uint64_t)header->dims[d], &n);
    if (overflows || n != n_rest) return dt_error_in(DT_DATA_LOSS, path, 0, "the file is truncated or altered: its header promises another length");
    return header->big_endian ? dt_error_in(DT_DATA_LOSS, path, 0, "is big endian; save array.astype(array.dtype.newbyteorder('<'))") : NULL;
}

dt_status *dt_npy_read(const char *path, dt_npy *array) {
    size_t n_bytes, at = 0;
    *array = (dt_npy){0};
    DT_TRY(dt_file_read(path, &array->file, &n_bytes));
    dt_status *status = parse_header(path, array->file, n_bytes, &at, &array->header);
    if (status == NULL) status = check_size(path, &array->header, n_bytes - at);
    array->elements = array->file + at;
    if (status != NULL) dt_npy_free(array);
    return status;
}

void dt_npy_free(dt_npy *array) {
    dt_release(array->file);
    dt_release(array->header.dims);
    *array = (dt_npy){0};
}

dt_status *dt_npy_write(const char *path, const char *type, int n_dims, const int64_t *dims, const void *elements) {
    dt_text dictionary = {0}, text = {0};
    size_t element_bytes = dt_npy_element_bytes(type);
    dt_text_format(&dictionary, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", element_bytes == 1 ? '|' : '<', type);
    size_t n = 1;
    for (int i = 0; i < n_dims; i++) {
        dt_text_format(&dictionary, i + 1 < n_dims ? "%lld, " : n_dims == 1 ? "%lld," : "%lld", (long long)dims[i]);
        n *= (size_t)dims[i];
    }
    dt_text_append(&dictionary, "), }");
    while ((10 + dictionary.n + 1) % 64 != 0 && !dictionary.failed) dt_text_append(&dictionary, " ");
    dt_text_append(&dictionary, "\n");

    unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)dictionary.n, (unsigned char)(dictionary.n >> 8)};
    dt_text_append_bytes(&text, (const char *)start, sizeof start);
    if (!dictionary.failed) dt_text_append_bytes(&text, dictionary.data, dictionary.n);
    dt_text_append_bytes(&text, elements, n * element_bytes);
    dt_status *status = dictionary.failed || text.failed ? dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "no memory for its content")
                                                         : dt_file_write_atomic(path, text.data, text.n);
    dt_text_free(&dictionary);
    dt_text_free(&text);
    return status;
}
