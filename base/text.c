/* text: see text.h. */
#include "base/text.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The data with room for `capacity` bytes; NULL when memory is out. */
static char *resize(const dt_text *text, size_t capacity) {
    if (text->arena == NULL) return dt_reallocate(text->data, capacity);
    char *data = dt_arena_new(text->arena, capacity);
    if (text->n != 0) memcpy(data, text->data, text->n);
    return data;
}

/* Room for `n` more bytes and the terminator. */
static bool reserve(dt_text *text, size_t n) {
    if (text->failed) return false;
    if (n < text->capacity - text->n) return true;
    size_t capacity = text->capacity != 0 ? text->capacity : 64;
    while (capacity - text->n <= n && capacity <= SIZE_MAX / 2) capacity *= 2;
    char *data = capacity - text->n > n ? resize(text, capacity) : NULL;
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void dt_text_append(dt_text *text, const char *string) { dt_text_append_bytes(text, string, strlen(string)); }

void dt_text_append_bytes(dt_text *text, const char *bytes, size_t n) {
    if (!reserve(text, n)) return;
    if (n != 0) memcpy(text->data + text->n, bytes, n);
    text->n += n;
    text->data[text->n] = '\0';
}

void dt_text_format(dt_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dt_text_vformat(text, format, arguments);
    va_end(arguments);
}

void dt_text_vformat(dt_text *text, const char *format, va_list arguments) {
    va_list again;
    size_t room = text->failed ? 0 : text->capacity - text->n;
    va_copy(again, arguments);
    int n = vsnprintf(room > 0 ? text->data + text->n : NULL, room, format, again);
    va_end(again);
    if (n >= 0 && (size_t)n < room) {
        text->n += (size_t)n;
        return;
    }
    if (room > 0) text->data[text->n] = '\0';
    if (n < 0 || !reserve(text, (size_t)n)) return;
    vsnprintf(text->data + text->n, (size_t)n + 1, format, arguments);
    text->n += (size_t)n;
}

char *dt_text_take(dt_text *text) {
    if (text->data == NULL) dt_text_append_bytes(text, "", 0);
    char *data = text->failed ? NULL : text->data;
    if (data != NULL) text->data = NULL;
    dt_text_free(text);
    return data;
}

void dt_text_free(dt_text *text) {
    if (text->arena == NULL) dt_release(text->data);
    *text = (dt_text){.arena = text->arena};
}

/* Makes a decimal that looks like an integer look like a float: 3 becomes 3.0. */
static const char *with_point(char buffer[32]) {
    if (strpbrk(buffer, ".en") == NULL) strcat(buffer, ".0"); /* "inf" and "nan" hold an n */
    return buffer;
}

const char *dt_text_from_f64(double value, char buffer[32]) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buffer, 32, "%.*g", digits, value);
        if (isnan(value) || strtod(buffer, NULL) == value) break;
    }
    return with_point(buffer);
}

const char *dt_text_from_f32(float value, char buffer[32]) {
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(buffer, 32, "%.*g", digits, (double)value);
        if (isnan(value) || strtof(buffer, NULL) == value) break;
    }
    return with_point(buffer);
}

const char *dt_text_with_commas(int64_t value, char buffer[32]) {
    char digits[24];
    int n = snprintf(digits, sizeof digits, "%" PRIu64, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    char *out = buffer;
    if (value < 0) *out++ = '-';
    for (int i = 0; i < n; i++) {
        if (i != 0 && (n - i) % 3 == 0) *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return buffer;
}

enum {
    LONGEST_NAME = 63
};

/* Edit distance where two neighbours in the wrong order count once (Damerau, optimal string alignment). Both names at most LONGEST_NAME long. */
static size_t edit_distance(const char *a, size_t n_a, const char *b, size_t n_b) {
    size_t rows[3][LONGEST_NAME + 1];
    for (size_t j = 0; j <= n_b; j++) rows[0][j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < best) best = two_above[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[n_a % 3][n_b];
}

const char *dt_plural(int64_t n) { return n == 1 ? "" : "s"; }

const char *dt_text_nearest(const char *name, const char *const *names, size_t n) {
    size_t n_name = strlen(name);
    if (n_name > LONGEST_NAME) return NULL;
    const char *nearest = NULL;
    size_t limit = n_name <= 2 ? 1 : n_name / 3 + 1; /* more changes than this and it is another word */
    for (size_t i = 0; i < n; i++) {
        size_t n_other = strlen(names[i]);
        if (n_other > LONGEST_NAME) continue;
        size_t distance = edit_distance(name, n_name, names[i], n_other);
        if (distance > limit || distance >= n_name) continue;
        if (nearest != NULL && distance == limit) continue;
        limit = distance;
        nearest = names[i];
    }
    return nearest;
}

uint64_t dt_hash_bytes(const void *bytes, size_t n, uint64_t seed) {
    const unsigned char *byte = bytes;
    uint64_t hash = seed;
    for (size_t i = 0; i < n; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
    return hash;
}

size_t dt_text_character_bytes(const char *string) {
    const unsigned char *c = (const unsigned char *)string;
    size_t n = c[0] < 0x80 ? 1 : c[0] < 0xc2 ? 0 : c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : c[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90)) return 0; /* longer than it need be */
    if ((c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f)) return 0; /* half of a pair; beyond the last */
    return n;
}

/* Of n bytes: a control character, or one that parts lines or turns the direction of writing. */
static bool is_order(const unsigned char *c, size_t n) {
    if (n == 1) return c[0] < 0x20 || c[0] == 0x7f;
    if (n == 2) return c[0] == 0xc2 && c[1] < 0xa0;
    if (n != 3 || c[0] != 0xe2) return false;
    return (c[1] == 0x80 && (c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xa8 && c[2] <= 0xae))) || (c[1] == 0x81 && c[2] >= 0xa6 && c[2] <= 0xa9);
}

void dt_text_make_printable(char *text) {
    char *to = text;
    while (*text != 0) {
        size_t n = dt_text_character_bytes(text);
        if (n == 0 || is_order((unsigned char *)text, n)) {
            *to++ = '?';
            text += n > 0 ? n : 1;
        } else {
            memmove(to, text, n);
            to += n;
            text += n;
        }
    }
    *to = 0;
}
