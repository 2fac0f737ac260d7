/* text: the functions of text, a row each. Text itself never enters a compiled function: in the functions of map and filter the front end makes
 * inputs of what these functions give, and writes down which they are; the runtime computes them from the text, and has a C function for each row.
 *
 * A stage says so after its function, by arguments with a name, each followed by the functions applied, in order, each with its own arguments:
 *     input: c, "lower", "n_chars"      the next input of the compiled function, from component c of the example
 *     result: r                         the next component of what a map gives is result r of the compiled function
 *     text: c, "strip"                  … is a text
 * Without any of these, inputs are the components and components the results, in their order; without a text result a map has them all the same. */
#ifndef DT_ABI_TEXT_H
#define DT_ABI_TEXT_H

#include <stddef.h>
#include <string.h>

/* X(name in programs; what it gives: TEXT, COUNT (i64) or TRUTH (bool); its arguments after the text, s for a string, i for a whole number; its head)
 */
#define DT_TEXT_FUNCTIONS(X)                                                                                                                         \
    X(n_chars, COUNT, "", "(text)")                                                                                                                  \
    X(n_bytes, COUNT, "", "(text)")                                                                                                                  \
    X(n_words, COUNT, "", "(text)")                                                                                                                  \
    X(starts_with, TRUTH, "s", "(text, prefix: string)")                                                                                             \
    X(ends_with, TRUTH, "s", "(text, suffix: string)")                                                                                               \
    X(contains, TRUTH, "s", "(text, part: string)")                                                                                                  \
    X(lower, TEXT, "", "(text)")                                                                                                                     \
    X(strip, TEXT, "", "(text)")                                                                                                                     \
    X(nfc, TEXT, "", "(text)")                                                                                                                       \
    X(nfd, TEXT, "", "(text)")                                                                                                                       \
    X(nfkc, TEXT, "", "(text)")                                                                                                                      \
    X(remove_prefix, TEXT, "s", "(text, prefix: string)")                                                                                            \
    X(remove_suffix, TEXT, "s", "(text, suffix: string)")                                                                                            \
    X(replace, TEXT, "ss", "(text, old: string, new: string)")                                                                                       \
    X(substring, TEXT, "ii", "(text, start: int, limit: int)")

enum {
    DT_TEXT_MOST_ARGUMENTS = 2
};

typedef enum dt_text_kind {
#define X(name, gives, arguments, head) DT_TEXT_##name,
    DT_TEXT_FUNCTIONS(X)
#undef X
    DT_N_TEXT_FUNCTIONS
} dt_text_kind;

typedef struct dt_text_row {
    const char *name;
    enum {
        DT_TEXT_GIVES_TEXT,
        DT_TEXT_GIVES_COUNT,
        DT_TEXT_GIVES_TRUTH
    } gives;
    const char *arguments, *head;
} dt_text_row;

static inline const dt_text_row *dt_text_row_of(dt_text_kind kind) {
    static const dt_text_row rows[] = {
#define X(name, gives, arguments, head) {#name, DT_TEXT_GIVES_##gives, arguments, head},
        DT_TEXT_FUNCTIONS(X)
#undef X
    };
    return &rows[kind];
}

/* DT_N_TEXT_FUNCTIONS when there is no such function. */
static inline dt_text_kind dt_text_kind_from_name(const char *name) {
    int kind = 0;
    while (kind < DT_N_TEXT_FUNCTIONS && strcmp(dt_text_row_of((dt_text_kind)kind)->name, name) != 0) kind++;
    return (dt_text_kind)kind;
}

#endif
