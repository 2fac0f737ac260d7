/* words: one description of a text that is both printed and read. A function describes a line or a part of one by calls of those below; whether it
 * prints what it is given or fills it from a text is up to dt_words. So what is printed reads back, and a change is made in one place.
 *
 *     void share(dt_words *w, dt_share *s) { dt_has(w, s->unit > 0, " in units of %1ld, turn %ld", &s->unit, &s->turn); }
 *
 * The spaces and ends of lines of a pattern are for printing: a reader takes any between words, and comments from # on. A word of a pattern begins
 * with a letter, a symbol is a run of other characters, %% is a percent sign. A number is
 *
 *     %d         an int; with a digit, as %1d, that is the least that it may be, else 0
 *     %ld, %li   an int64_t of at most DT_MOST_NUMBER; the second one is printed as 426,240
 *     %n         an int: a buffer of the plan
 *     l%i, s%i   an int: the number of a loop, or of an instruction, of the nest at work
 *
 * Once something is wrong with what is read, nothing comes next any more: loops end by themselves, and what is read so far is left to nobody. */
#ifndef DT_KERNEL_WORDS_H
#define DT_KERNEL_WORDS_H

#include "base/names.h"
#include "compiler/kernel/choices.h"
#include "ir/reader.h"

typedef struct dt_words {
    dt_arena *arena;
    dt_text *out;     /* it is printed; NULL: it is read, */
    dt_reader *in;    /* from here, */
    dt_status *wrong; /* up to the first mistake */
    dt_plan *plan;
    const char **names;          /* printed: [n_buffers] what stands for each; NULL: nothing names it */
    dt_names buffers;            /* the same, the other way round */
    const dt_cpu_target *target; /* NULL: nothing is chosen for one, */
    dt_nest_choices **chosen;    /* or for each kernel of the plan */
    int n_chosen;
    dt_kernel_function *kernel;  /* at work */
    int n_loops, n_instructions; /* of the nest at work: what l%i and s%i may name where they are read */
} dt_words;

#define DT_MOST_NUMBER ((int64_t)1 << 40)

/* The first mistake, of what is read: "name:line:column: …". */
void dt_wrong(dt_words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Printing: the pattern, where it is there. Reading: whether it is what comes next: what stands up to its first word decides, or up to a number. */
bool dt_has(dt_words *w, bool is_there, const char *pattern, ...) __attribute__((format(scanf, 3, 4)));
void dt_expect(dt_words *w, const char *pattern, ...) __attribute__((format(scanf, 2, 3)));
/* The same of a name, which is one word, several with a space between them, or a symbol; `before`: spaces. */
bool dt_has_word(dt_words *w, bool is_there, const char *before, const char *word);
/* One of n names, by its number. expected: what to say where it is none; NULL: then it is -1. */
int dt_one_of(dt_words *w, const char *before, const char *const *names, int n, int chosen, const char *expected);

void dt_int64(dt_words *w, int64_t least, int64_t most, int64_t *number);
void dt_int(dt_words *w, int least, int most, int *count);
void dt_nth(dt_words *w, int n);                                                             /* the number of an item in its list */
void dt_string(dt_words *w, bool quoted, const char **string, const char *expected);         /* not quoted: only what is no word is in quotes */
void dt_comment(dt_words *w, const char *format, ...) __attribute__((format(printf, 2, 3))); /* "   # …": printed, for people alone */

/* Item i of a list of n, the next one where it is read: the list grows, and counts it. */
#define DT_ITEM(w, list, n, i) ((list) = dt_words_item(w, list, &(n), i, sizeof *(list)), &(list)[i])
void *dt_words_item(dt_words *w, void *list, int *n, int i, size_t bytes);

/* What stands for a buffer; reading: the name in it, too; NULL: something is wrong. */
const char *dt_buffer_name(dt_words *w, int number, const char **name);

/* ---- nest_text.c ---- */

/* All nests of the kernel at work, with what is chosen for each. */
void dt_nests_text(dt_words *w, dt_nest_choices **choices);
/* " sum" */
void dt_combiner_text(dt_words *w, dt_combiner *combiner);

#endif
