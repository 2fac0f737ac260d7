/* pipeline: what pipelines of data are made of, a row each. The front end holds programs against it, the runtime has a function for each row. */
#ifndef DT_ABI_PIPELINE_H
#define DT_ABI_PIPELINE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* X(name in programs, most files, components of an example with n names of files: the fewest, the most; options and files decide). One without files
 * is given its first option, which it needs, without a name. */
#define DT_SOURCES(X)                                                                                                                                \
    X(idx, INT_MAX, n, n)                 /* MNIST's format, gzipped or not; several files side by side */                                           \
    X(npy, INT_MAX, n, n)                 /* NumPy arrays, side by side */                                                                           \
    X(csv, 1, 1, 2)                       /* a header line, then numbers */                                                                          \
    X(lines, INT_MAX, 1, 1)               /* a line of text an example, of files one after the other */                                              \
    X(bytes, INT_MAX, 1, 1)               /* a byte an example, of files one after the other */                                                      \
    X(safetensors, INT_MAX, n - 1, n - 1) /* a file, then names of tensors in it, side by side */                                                    \
    X(images, 1, 1, 2)                    /* a folder of PNG and JPEG files, in a folder for each class */                                           \
    X(range, 0, 1, 1)                     /* the numbers from 0 to n - 1 */

/* What a source may be given besides files, by name. X(source, name, choices, least whole number, most, other option): "" for a whole number, else
 * names; the other option is one without which this one says nothing, or "". */
#define DT_SOURCE_OPTIONS(X)                                                                                                                         \
    X(csv, target, "", INT64_MIN, INT64_MAX, "")                                                                                                     \
    X(csv, header, "yes no", 0, 0, "")                                                                                                               \
    X(images, height, "", 1, 65535, "width")                                                                                                         \
    X(images, width, "", 1, 65535, "height")                                                                                                         \
    X(images, channels, "", 1, 3, "")                                                                                                                \
    X(images, fit, "stretch crop pad", 0, 0, "height")                                                                                               \
    X(range, n, "", 1, INT64_MAX, "")

/* X(enumerator, name in programs) */
#define DT_STAGES(X)                                                                                                                                 \
    X(MAP, "map")                                                                                                                                    \
    X(FILTER, "filter")                                                                                                                              \
    X(SHUFFLE, "shuffle")                                                                                                                            \
    X(CACHE, "cache")                                                                                                                                \
    X(TAKE, "take")                                                                                                                                  \
    X(SKIP, "skip")                                                                                                                                  \
    X(REPEAT, "repeat")                                                                                                                              \
    X(ENUMERATE, "enumerate")                                                                                                                        \
    X(PAD, "pad")                                                                                                                                    \
    X(WORDPIECE, "wordpiece")                                                                                                                        \
    X(BPE, "bpe")                                                                                                                                    \
    X(INTERLEAVE, "interleave")                                                                                                                      \
    X(WINDOWS, "windows")                                                                                                                            \
    X(BATCH, "batch")                                                                                                                                \
    X(PREFETCH, "prefetch")

/* X(stage, argument, kind: INT, BOOL, FILE or FUNCTION; of an INT: least, most; default). A program gives arguments in this order or by name. What it
 * leaves out the front end writes down, so that the runtime finds them all, in this order. */
#define DT_STAGE_ARGUMENTS(X)                                                                                                                        \
    X(MAP, "function", FUNCTION, 0, 0, DT_REQUIRED)                                                                                                  \
    X(FILTER, "function", FUNCTION, 0, 0, DT_REQUIRED)                                                                                               \
    X(SHUFFLE, "n", INT, 1, INT64_MAX, DT_REQUIRED)                                                                                                  \
    X(TAKE, "n", INT, 1, INT64_MAX, DT_REQUIRED)                                                                                                     \
    X(SKIP, "n", INT, 0, INT64_MAX, DT_REQUIRED)                                                                                                     \
    X(REPEAT, "n", INT, 1, INT64_MAX, DT_REQUIRED)                                                                                                   \
    X(INTERLEAVE, "cycle", INT, 1, INT32_MAX, DT_REQUIRED)                                                                                           \
    X(INTERLEAVE, "block", INT, 1, INT32_MAX, 1)                                                                                                     \
    X(WINDOWS, "n", INT, 1, INT32_MAX, DT_REQUIRED)                                                                                                  \
    X(WINDOWS, "shift", INT, 1, INT32_MAX, DT_AS_FIRST)                                                                                              \
    X(PAD, "n", INT, 1, INT32_MAX, DT_REQUIRED)                                                                                                      \
    X(PAD, "value", INT, INT32_MIN, INT32_MAX, 0)                                                                                                    \
    X(PAD, "truncate", BOOL, 0, 1, 0)                                                                                                                \
    X(WORDPIECE, "vocab", FILE, 0, 0, DT_REQUIRED)                                                                                                   \
    X(WORDPIECE, "length", INT, 3, INT32_MAX, DT_REQUIRED)                                                                                           \
    X(WORDPIECE, "lowercase", BOOL, 0, 1, 1)                                                                                                         \
    X(BPE, "vocab", FILE, 0, 0, DT_REQUIRED)                                                                                                         \
    X(BPE, "merges", FILE, 0, 0, DT_REQUIRED)                                                                                                        \
    X(BPE, "length", INT, 1, INT32_MAX, DT_REQUIRED)                                                                                                 \
    X(BPE, "pad", INT, 0, INT32_MAX, 0)                                                                                                              \
    X(BATCH, "n", INT, 1, INT32_MAX, DT_REQUIRED)                                                                                                    \
    X(PREFETCH, "n", INT, 1, INT64_MAX, DT_REQUIRED)

/* Defaults that are no number: there is none, or it is what the first argument is. */
#define DT_REQUIRED INT64_MIN
#define DT_AS_FIRST (INT64_MIN + 1)

/* Stages of this kind follow the source in a pipeline whose program says zip(a, b): b, the source that stands beside it. Its arguments are the kind
 * of b, called "source", then those of b. */
#define DT_STAGE_ZIP "zip"

typedef struct dt_source_row {
    const char *name;
    int most_files;
} dt_source_row;

typedef struct dt_source_option {
    const char *source, *name;
    const char *choices; /* separated by a blank; "": a whole number, within: */
    int64_t least, most;
    const char *other; /* option that it needs beside it; "": none */
} dt_source_option;

typedef enum dt_stage_kind {
#define X(enumerator, name) DT_STAGE_##enumerator,
    DT_STAGES(X)
#undef X
    DT_N_STAGE_KINDS
} dt_stage_kind;

typedef struct dt_stage_argument_row {
    dt_stage_kind stage;
    const char *name;
    enum {
        DT_STAGE_TAKES_INT,
        DT_STAGE_TAKES_BOOL,
        DT_STAGE_TAKES_FILE,
        DT_STAGE_TAKES_FUNCTION
    } takes;
    int64_t least, most, standard;
} dt_stage_argument_row;

/* NULL when there is no such source. */
static inline const dt_source_row *dt_source_row_find(const char *name) {
    static const dt_source_row rows[] = {
#define X(name, most_files, fewest, most) {#name, most_files},
        DT_SOURCES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

/* How many components an example of source `name` has at least and at most, where it is given `n` names of files. */
static inline void dt_source_components(const char *name, int n, int *least, int *most) {
    (void)n; /* where no source asked for it */
    *least = *most = 0;
#define X(source, most_files, fewest, highest)                                                                                                       \
    if (strcmp(name, #source) == 0) {                                                                                                                \
        *least = fewest;                                                                                                                             \
        *most = highest;                                                                                                                             \
    }
    DT_SOURCES(X)
#undef X
}

/* The options of source `source` are those of the list that name it. *n: length of the list. */
static inline const dt_source_option *dt_source_options(int *n) {
    static const dt_source_option options[] = {
#define X(source, name, choices, least, most, other) {#source, #name, choices, least, most, other},
        DT_SOURCE_OPTIONS(X)
#undef X
    };
    *n = (int)(sizeof options / sizeof *options);
    return options;
}

/* NULL when the source has no such option. */
static inline const dt_source_option *dt_source_option_find(const char *source, const char *name) {
    int n;
    const dt_source_option *options = dt_source_options(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(options[i].source, source) == 0 && strcmp(options[i].name, name) == 0) return &options[i];
    return NULL;
}

/* Whether `word` is one of the option's choices. */
static inline int dt_source_option_allows(const dt_source_option *option, const char *word) {
    size_t n = strlen(word);
    for (const char *choice = option->choices; *choice != 0; choice += strcspn(choice, " "), choice += *choice == ' ')
        if (strcspn(choice, " ") == n && strncmp(choice, word, n) == 0) return 1;
    return 0;
}

static inline const char *dt_stage_name(dt_stage_kind kind) {
    static const char *const names[] = {
#define X(enumerator, name) name,
        DT_STAGES(X)
#undef X
    };
    return names[kind];
}

/* DT_N_STAGE_KINDS when there is no such stage. */
static inline dt_stage_kind dt_stage_kind_from_name(const char *name) {
    int kind = 0;
    while (kind < DT_N_STAGE_KINDS && strcmp(dt_stage_name((dt_stage_kind)kind), name) != 0) kind++;
    return (dt_stage_kind)kind;
}

/* The arguments of a stage, in their order; *n may be 0. */
static inline const dt_stage_argument_row *dt_stage_argument_rows(dt_stage_kind kind, int *n) {
    static const dt_stage_argument_row rows[] = {
#define X(stage, name, takes, least, most, standard) {DT_STAGE_##stage, name, DT_STAGE_TAKES_##takes, least, most, standard},
        DT_STAGE_ARGUMENTS(X)
#undef X
    };
    const dt_stage_argument_row *first = rows, *end = rows + sizeof rows / sizeof *rows;
    while (first < end && first->stage != kind) first++;
    *n = 0;
    while (first + *n < end && first[*n].stage == kind) ++*n;
    return first;
}

#endif
