/* precision: what `option precision` of a program says.
 *
 * One of DT_PRECISIONS: to what the two factors of a product of f32 are rounded before they are multiplied. Products are summed, and everything else
 * is computed and kept, in f32. Or one of DT_MIXED_PRECISIONS: the type of what lies between layers; parameters, statistics and losses are f32. */
#ifndef DT_ABI_PRECISION_H
#define DT_ABI_PRECISION_H

#include <stdbool.h>
#include <string.h>

/* X(enumerator, name in programs and files, what is left of a factor) */
#define DT_PRECISIONS(X)                                                                                                                             \
    X(F32, "f32", "all of it")                                                                                                                       \
    X(TF32, "tf32", "10 bits after the point, to nearest, ties away from 0, as cvt.rna.tf32 rounds")                                                 \
    X(BF16, "bf16", "7 bits after the point, to nearest, ties to even")

typedef enum dt_precision {
#define X(enumerator, name, meaning) DT_PRECISION_##enumerator,
    DT_PRECISIONS(X)
#undef X
    DT_N_PRECISIONS
} dt_precision;

/* [DT_N_PRECISIONS] */
static inline const char *const *dt_precision_names(void) {
    static const char *const names[] = {
#define X(enumerator, name, meaning) name,
        DT_PRECISIONS(X)
#undef X
    };
    return names;
}

static inline const char *dt_precision_name(dt_precision precision) { return dt_precision_names()[precision]; }

/* DT_N_PRECISIONS when there is none of that name. */
static inline dt_precision dt_precision_from_name(const char *name) {
    for (int p = 0; p < DT_N_PRECISIONS; p++)
        if (strcmp(dt_precision_name((dt_precision)p), name) == 0) return (dt_precision)p;
    return DT_N_PRECISIONS;
}

/* X(what the option says, the type between layers) */
#define DT_MIXED_PRECISIONS(X)                                                                                                                       \
    X("mixed_bf16", "bf16")                                                                                                                          \
    X("mixed_f16", "f16")

#define DT_PRECISION_CHOICES "f32, tf32, bf16, mixed_bf16 or mixed_f16"

/* The name of the type between layers; NULL: it is f32. */
static inline const char *dt_mixed_type_name(const char *precision) {
#define X(name, type)                                                                                                                                \
    if (strcmp(precision, name) == 0) return type;
    DT_MIXED_PRECISIONS(X)
#undef X
    return NULL;
}

/* Whether the option may say so. */
static inline bool dt_is_precision_option(const char *name) {
    return dt_precision_from_name(name) != DT_N_PRECISIONS || dt_mixed_type_name(name) != NULL;
}

#endif
