/* words: see the header. */
#include "compiler/kernel/words.h"
#include "compiler/kernel/nest.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dt_wrong(dt_words *w, const char *format, ...) {
    if (w->in == NULL || w->wrong != NULL) return;
    va_list arguments;
    va_start(arguments, format);
    w->wrong = dt_reader_error(w->in, "%s", dt_arena_vformat(w->arena, format, arguments));
    va_end(arguments);
}

/* ---- numbers ---- */

void dt_int64(dt_words *w, int64_t least, int64_t most, int64_t *number) {
    if (w->out != NULL)
        dt_text_format(w->out, "%" PRId64, *number);
    else if (w->wrong != NULL || !dt_read_int(w->in, number) || *number < least || *number > most) {
        dt_wrong(w, "expected a number of %" PRId64 " to %" PRId64, least, most);
        *number = least;
    }
}

void dt_int(dt_words *w, int least, int most, int *count) {
    int64_t wide = *count;
    dt_int64(w, least, most, &wide);
    *count = (int)wide;
}

/* "426,240" */
static void size(dt_words *w, int64_t *size) {
    char commas[32];
    if (w->out != NULL) return dt_text_append(w->out, dt_text_with_commas(*size, commas));
    dt_int64(w, 0, DT_MOST_NUMBER, size);
    while (w->wrong == NULL && w->in->at[0] == ',' && strspn(w->in->at + 1, "0123456789") == 3) {
        w->in->at++;
        int64_t thousands = 0;
        dt_int64(w, 0, 999, &thousands);
        *size = 1000 * *size + thousands;
        if (*size > DT_MOST_NUMBER) dt_wrong(w, "a size of more than %" PRId64 " bytes", DT_MOST_NUMBER);
    }
}

void dt_nth(dt_words *w, int n) { dt_int(w, n, n, &n); }

/* ---- buffers ---- */

const char *dt_buffer_name(dt_words *w, int number, const char **name) {
    if (w->out != NULL) return dt_text_append(w->out, w->names[number]), w->names[number];
    if (w->wrong != NULL) return NULL;
    const char *start = w->in->at;
    int64_t copy = 0;
    bool is_value = dt_read_symbol(w->in, "%"), is_there = dt_read_name(w->in, name);
    bool is_copy = is_there && *w->in->at == '~' && dt_read_symbol(w->in, "~");
    if (!is_there || (is_copy && !dt_read_int(w->in, &copy))) {
        w->in->at = start;
        return dt_wrong(w, "expected the name of a buffer"), NULL;
    }
    dt_text token = {.arena = w->arena}; /* as it is printed */
    if (is_value) dt_text_append(&token, "%");
    dt_print_name(&token, *name);
    if (is_copy) dt_text_format(&token, "~%" PRId64, copy);
    if (is_value) *name = dt_arena_format(w->arena, "%%%s", *name);
    return token.data;
}

static void buffer(dt_words *w, int *buffer) {
    const char *name, *token = dt_buffer_name(w, *buffer, &name);
    if (w->out != NULL) return;
    *buffer = token != NULL ? dt_names_find(&w->buffers, token) : -1;
    if (*buffer >= 0) return;
    *buffer = 0;
    dt_wrong(w, "there is no buffer %s", token);
}

/* ---- words ---- */

bool dt_has_word(dt_words *w, bool is_there, const char *before, const char *word) {
    if (w->out != NULL) {
        if (is_there) dt_text_format(w->out, "%s%s", before, word);
        return is_there;
    }
    const bool is_word = isalpha((unsigned char)*word) && strchr(word, ' ') == NULL;
    return w->wrong == NULL && (is_word ? dt_read_keyword : dt_read_symbol)(w->in, word);
}

/* A number of a pattern, from behind its %; returns the pattern's rest. */
static const char *number(dt_words *w, const char *at, va_list *numbers) {
    const int least = isdigit((unsigned char)*at) ? *at++ - '0' : 0;
    if (*at == 'n')
        buffer(w, va_arg(*numbers, int *));
    else if (*at != 'l')
        dt_int(w, least, INT_MAX, va_arg(*numbers, int *));
    else if (*++at == 'i')
        size(w, va_arg(*numbers, int64_t *));
    else
        dt_int64(w, least, DT_MOST_NUMBER, va_arg(*numbers, int64_t *));
    return at + 1;
}

/* "l3" or "s3", of the nest at work. */
static bool of_nest(dt_words *w, bool may_lack, char letter, int *i) {
    if (w->out != NULL) return dt_text_format(w->out, "%c%d", letter, *i), true;
    const char *word, *start = w->in->at, *digits = "0123456789";
    if (dt_read_word(w->in, &word) && *word++ == letter && *word != '\0' && strspn(word, digits) == strlen(word)) {
        const long number = strtol(word, NULL, 10);
        if (number < (letter == 'l' ? w->n_loops : w->n_instructions)) return *i = (int)number, true;
    }
    w->in->at = start;
    if (!may_lack) dt_wrong(w, letter == 'l' ? "expected a loop of the nest, as l0" : "expected an instruction before this one, as s0");
    return false;
}

/* What a pattern says up to its next number. */
static size_t text_length(const char *pattern) {
    size_t n = strcspn(pattern, "%\n");
    n -= pattern[n] == '%' && pattern[n + 1] == 'i';
    while (n > 1 && pattern[n - 1] == ' ') n--;
    return n;
}

/* False: something is wrong, or it lacks where it may, and nothing is taken. */
static bool follow(dt_words *w, bool may_lack, const char *at, va_list *numbers) {
    static const char others[] = " \n%0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", *const in_words = others + 3;
    char piece[32];
    const char *start = w->in != NULL ? w->in->at : NULL;
    while (w->wrong == NULL) {
        size_t n = strspn(at, " \n");
        if (w->out != NULL) dt_text_append_bytes(w->out, at, n);
        at += n;
        if (*at == '\0') return true;
        bool is_number = *at == '%' && at[1] != '%', is_there = true, decides = is_number || isalpha((unsigned char)*at);
        if (is_number) {
            at = number(w, at + 1, numbers);
        } else if (at[1] == '%' && at[2] == 'i') {
            is_there = of_nest(w, may_lack, *at, va_arg(*numbers, int *));
            at += 3;
        } else {
            at += *at == '%';
            n = isalpha((unsigned char)*at) ? strspn(at, in_words) : strcspn(at + 1, others) + 1;
            snprintf(piece, sizeof piece, "%.*s", (int)n, at);
            is_there = dt_has_word(w, true, "", piece);
            if (!is_there && !may_lack) dt_wrong(w, "expected %.*s", (int)text_length(at), at);
            at += n;
        }
        if (!is_there && may_lack) return w->in->at = start, false;
        may_lack &= !decides;
    }
    return false;
}

bool dt_has(dt_words *w, bool is_there, const char *pattern, ...) {
    if (w->out != NULL && !is_there) return false;
    va_list numbers;
    va_start(numbers, pattern);
    bool has = follow(w, true, pattern, &numbers);
    va_end(numbers);
    return has;
}

void dt_expect(dt_words *w, const char *pattern, ...) {
    va_list numbers;
    va_start(numbers, pattern);
    follow(w, false, pattern, &numbers);
    va_end(numbers);
}

int dt_one_of(dt_words *w, const char *before, const char *const *names, int n, int chosen, const char *expected) {
    for (int i = 0; i < n; i++)
        if (dt_has_word(w, i == chosen, before, names[i])) return i;
    if (expected == NULL) return -1;
    dt_wrong(w, "expected %s", expected);
    return 0;
}

/* ---- others ---- */

void dt_string(dt_words *w, bool quoted, const char **string, const char *expected) {
    if (w->out != NULL) return (quoted ? dt_print_string : dt_print_name)(w->out, *string);
    if (w->wrong == NULL && !(quoted ? dt_read_string : dt_read_name)(w->in, string)) dt_wrong(w, "expected %s", expected);
}

void dt_comment(dt_words *w, const char *format, ...) {
    if (w->out == NULL) return;
    va_list arguments;
    va_start(arguments, format);
    dt_text_append(w->out, "   # ");
    dt_text_vformat(w->out, format, arguments);
    va_end(arguments);
}

void *dt_words_item(dt_words *w, void *list, int *n, int i, size_t bytes) {
    if (w->out != NULL) return list;
    list = dt_grown(w->arena, list, i, bytes);
    *n = i + 1;
    return list;
}
