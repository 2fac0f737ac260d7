/* text_functions: see text_functions.h. Unicode is utf8proc's. A row of abi/text.h is a function here. */
#include "runtime/data/text_functions.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct view {
    const char *bytes;
    size_t n;
} view;

/* What a function is given, and gives: a text that it appends, or a number that it returns. false: out of memory, where not `into` says so. */
typedef struct call {
    view text;
    const dt_artifact_argument *arguments;
    dt_text *into;
    int64_t number;
} call;

static view string_of(const call *c, int i) { return (view){c->arguments[i].string, strlen(c->arguments[i].string)}; }
static void give(call *c, const char *bytes, size_t n) { dt_text_append_bytes(c->into, bytes, n); }

static bool begins(view text, view prefix) { return text.n >= prefix.n && memcmp(text.bytes, prefix.bytes, prefix.n) == 0; }
static bool ends(view text, view suffix) { return text.n >= suffix.n && memcmp(text.bytes + text.n - suffix.n, suffix.bytes, suffix.n) == 0; }

static bool continues(char byte) { return ((unsigned char)byte & 0xc0) == 0x80; }

/* The code point at `at`, and how many bytes it has. */
static size_t decode(view text, size_t at, utf8proc_int32_t *code_point) {
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text.bytes + at, (utf8proc_ssize_t)(text.n - at), code_point);
    return n > 0 ? (size_t)n : 1;
}

static bool is_space(utf8proc_int32_t c) {
    utf8proc_category_t category = c < 0x80 ? UTF8PROC_CATEGORY_CN : utf8proc_category(c);
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f) || c == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

static void text_n_bytes(call *c) { c->number = (int64_t)c->text.n; }

static void text_n_chars(call *c) {
    for (size_t i = 0; i < c->text.n; i++) c->number += !continues(c->text.bytes[i]);
}

static void text_n_words(call *c) {
    bool within = false;
    utf8proc_int32_t code_point;
    for (size_t i = 0; i < c->text.n; i += decode(c->text, i, &code_point)) {
        decode(c->text, i, &code_point);
        c->number += !is_space(code_point) && !within;
        within = !is_space(code_point);
    }
}

static void text_starts_with(call *c) { c->number = begins(c->text, string_of(c, 0)); }
static void text_ends_with(call *c) { c->number = ends(c->text, string_of(c, 0)); }
static void text_contains(call *c) { c->number = memmem(c->text.bytes, c->text.n, c->arguments[0].string, strlen(c->arguments[0].string)) != NULL; }

static void text_lower(call *c) {
    utf8proc_int32_t code_point;
    for (size_t i = 0, n; i < c->text.n; i += n) {
        utf8proc_uint8_t bytes[4];
        n = decode(c->text, i, &code_point);
        give(c, (const char *)bytes, (size_t)utf8proc_encode_char(utf8proc_tolower(code_point), bytes));
    }
}

static void text_strip(call *c) {
    size_t first = 0, end = 0;
    utf8proc_int32_t code_point;
    for (size_t i = 0, n; i < c->text.n; i += n) {
        n = decode(c->text, i, &code_point);
        if (!is_space(code_point)) end = i + n;
        if (end == 0) first = i + n;
    }
    if (end > 0) give(c, c->text.bytes + first, end - first);
}

static void normalize(call *c, utf8proc_option_t options) {
    utf8proc_uint8_t *normal = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)c->text.bytes, (utf8proc_ssize_t)c->text.n, &normal, options | UTF8PROC_STABLE);
    if (n >= 0) give(c, (const char *)normal, (size_t)n);
    c->into->failed |= n < 0; /* valid UTF-8 can fail for memory alone */
    free(normal);
}
static void text_nfc(call *c) { normalize(c, UTF8PROC_COMPOSE); }
static void text_nfd(call *c) { normalize(c, UTF8PROC_DECOMPOSE); }
static void text_nfkc(call *c) { normalize(c, UTF8PROC_COMPOSE | UTF8PROC_COMPAT); }

static void text_remove_prefix(call *c) {
    size_t n = begins(c->text, string_of(c, 0)) ? string_of(c, 0).n : 0;
    give(c, c->text.bytes + n, c->text.n - n);
}

static void text_remove_suffix(call *c) { give(c, c->text.bytes, c->text.n - (ends(c->text, string_of(c, 0)) ? string_of(c, 0).n : 0)); }

static void text_replace(call *c) {
    view old = string_of(c, 0), new = string_of(c, 1);
    const char *at = c->text.bytes, *end = at + c->text.n, *found;
    while (old.n > 0 && (found = memmem(at, (size_t)(end - at), old.bytes, old.n)) != NULL) {
        give(c, at, (size_t)(found - at));
        give(c, new.bytes, new.n);
        at = found + old.n;
    }
    give(c, at, (size_t)(end - at));
}

/* Code points start to limit - 1; as slices of Python, negative ones count from the end. */
static void text_substring(call *c) {
    int64_t n_chars = 0, position = 0, start = c->arguments[0].integer, limit = c->arguments[1].integer;
    for (size_t i = 0; i < c->text.n; i++) n_chars += !continues(c->text.bytes[i]);
    if (start < 0) start = start + n_chars;
    if (limit < 0) limit = limit + n_chars;
    for (size_t i = 0; i < c->text.n; i++) {
        position += !continues(c->text.bytes[i]);
        if (position - 1 >= start && position - 1 < limit) give(c, c->text.bytes + i, 1);
    }
}

static void (*const functions[])(call *) = {
#define X(name, gives, arguments, head) text_##name,
    DT_TEXT_FUNCTIONS(X)
#undef X
};

dt_status *dt_text_chain_check(const dt_text_chain *chain, dt_dtype *dtype, bool *gives_text) {
    *dtype = DT_U8;
    *gives_text = true;
    for (int i = 0; i < chain->n;) {
        const dt_artifact_argument *name = &chain->arguments[i++];
        dt_text_kind kind = name->kind == DT_ARGUMENT_STRING ? dt_text_kind_from_name(name->string) : DT_N_TEXT_FUNCTIONS;
        if (kind == DT_N_TEXT_FUNCTIONS)
            return dt_error(DT_UNIMPLEMENTED, "this dtrun has no function of text %s", name->kind == DT_ARGUMENT_STRING ? name->string : "");
        const dt_text_row *row = dt_text_row_of(kind);
        if (!*gives_text) return dt_error(DT_INVALID_ARGUMENT, "%s takes a text", row->name);
        for (const char *wanted = row->arguments; *wanted != 0; wanted++, i++)
            if (i >= chain->n || chain->arguments[i].kind != (*wanted == 's' ? DT_ARGUMENT_STRING : DT_ARGUMENT_INT))
                return dt_error(DT_INVALID_ARGUMENT, "%s lacks an argument", row->name);
        *gives_text = row->gives == DT_TEXT_GIVES_TEXT;
        *dtype = row->gives == DT_TEXT_GIVES_COUNT ? DT_I64 : DT_BOOL;
    }
    return NULL;
}

dt_status *dt_text_chain_run(const dt_text_chain *chain, dt_component text, dt_text scratch[2], dt_component *result, int64_t *number) {
    *result = text;
    for (int i = 0, turn = 0; i < chain->n; turn ^= 1) {
        dt_text_kind kind = dt_text_kind_from_name(chain->arguments[i].string);
        const dt_text_row *row = dt_text_row_of(kind);
        call c = {.text = {result->bytes, result->n_bytes}, .arguments = chain->arguments + i + 1, .into = &scratch[turn]};
        scratch[turn].n = 0;
        functions[kind](&c);
        if (scratch[turn].failed) return dt_error(DT_RESOURCE_EXHAUSTED, "%s: out of memory", row->name);
        *number = c.number;
        if (row->gives == DT_TEXT_GIVES_TEXT) *result = (dt_component){scratch[turn].n > 0 ? scratch[turn].data : "", scratch[turn].n};
        i += 1 + (int)strlen(row->arguments);
    }
    return NULL;
}
