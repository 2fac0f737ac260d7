/* pipeline: what pipelines of data are made of, a row each. The front end holds programs against it, the runtime has a function for each row. */
#ifndef DT_ABI_PIPELINE_H
#define DT_ABI_PIPELINE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* X(name in programs, most files, name of the whole number that it may be given besides, "" for none) */
#define DT_SOURCES(X)                                                                                                                                \
    X(idx, INT_MAX, "") /* MNIST's format, gzipped or not; several files side by side */                                                             \
    X(npy, INT_MAX, "") /* NumPy arrays, side by side */                                                                                             \
    X(csv, 1, "target") /* a header line, then numbers */

/* X(enumerator, name in programs, argument: NOTHING, COUNT or FUNCTION, least count, most) */
#define DT_STAGES(X)                                                                                                                                 \
    X(MAP, "map", FUNCTION, 0, 0)                                                                                                                    \
    X(FILTER, "filter", FUNCTION, 0, 0)                                                                                                              \
    X(SHUFFLE, "shuffle", COUNT, 1, INT64_MAX)                                                                                                       \
    X(CACHE, "cache", NOTHING, 0, 0)                                                                                                                 \
    X(TAKE, "take", COUNT, 1, INT64_MAX)                                                                                                             \
    X(SKIP, "skip", COUNT, 0, INT64_MAX)                                                                                                             \
    X(REPEAT, "repeat", COUNT, 1, INT64_MAX)                                                                                                         \
    X(BATCH, "batch", COUNT, 1, INT32_MAX)                                                                                                           \
    X(PREFETCH, "prefetch", COUNT, 1, INT64_MAX)

/* What programs may name and the runtime does not have yet. X(name in programs) */
#define DT_SOURCES_TO_COME(X) X(lines) X(bytes) X(safetensors) X(images)
#define DT_STAGES_TO_COME(X) X(interleave) X(windows) X(pad) X(wordpiece)

typedef struct dt_source_row {
    const char *name;
    int most_files;
    const char *option;
} dt_source_row;

typedef enum dt_stage_kind {
#define X(enumerator, name, argument, least, most) DT_STAGE_##enumerator,
    DT_STAGES(X)
#undef X
    DT_N_STAGE_KINDS
} dt_stage_kind;

typedef struct dt_stage_row {
    const char *name;
    enum {
        DT_STAGE_TAKES_NOTHING,
        DT_STAGE_TAKES_COUNT,
        DT_STAGE_TAKES_FUNCTION
    } takes;
    int64_t least, most; /* of a count */
} dt_stage_row;

/* NULL when there is no such source. */
static inline const dt_source_row *dt_source_row_find(const char *name) {
    static const dt_source_row rows[] = {
#define X(name, most_files, option) {#name, most_files, option},
        DT_SOURCES(X)
#undef X
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

static inline const dt_stage_row *dt_stage_row_of(dt_stage_kind kind) {
    static const dt_stage_row rows[] = {
#define X(enumerator, name, argument, least, most) {name, DT_STAGE_TAKES_##argument, least, most},
        DT_STAGES(X)
#undef X
    };
    return &rows[kind];
}

/* DT_N_STAGE_KINDS when there is no such stage. */
static inline dt_stage_kind dt_stage_kind_from_name(const char *name) {
    int kind = 0;
    while (kind < DT_N_STAGE_KINDS && strcmp(dt_stage_row_of((dt_stage_kind)kind)->name, name) != 0) kind++;
    return (dt_stage_kind)kind;
}

#endif
