/* reduce: see reduce.h. Walks the tree once for each block of elements, so that partial sums stay in the first-level cache. Sources are read where
 * they are and the root is written where it belongs, unless elements are converted on the way or a later source lies there: with two sources nothing
 * is copied. */
#include "runtime/devices/reduce.h"

#include "base/half.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    BLOCK = 512, /* elements */
    BLOCK_BYTES = BLOCK * 8
};

/* ---- one row a type ---- */

/* result[i] = expression of a and b, which are those of left and right. The result may be `left` itself. The build compiles this file with -O3, which
 * makes vector code of it. */
#define DEFINE_COMBINE(name, type, expression)                                                                                                       \
    static void name(void *result, const void *left, const void *right, size_t n) {                                                                  \
        type *z = result;                                                                                                                            \
        const type *x = left, *y = right;                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                                             \
            type a = x[i], b = y[i];                                                                                                                 \
            z[i] = (type)(expression);                                                                                                               \
        }                                                                                                                                            \
    }

#define DEFINE_FLOAT_COMBINES(name, type)                                                                                                            \
    DEFINE_COMBINE(name##_sum, type, a + b)                                                                                                          \
    DEFINE_COMBINE(name##_max, type, b > a || b != b ? b : a)                                                                                        \
    DEFINE_COMBINE(name##_min, type, b < a || b != b ? b : a)

#define DEFINE_INTEGER_COMBINES(name, type, unsigned_type)                                                                                           \
    DEFINE_COMBINE(name##_sum, type, (unsigned_type)((unsigned_type)a + (unsigned_type)b))                                                           \
    DEFINE_COMBINE(name##_max, type, b > a ? b : a)                                                                                                  \
    DEFINE_COMBINE(name##_min, type, b < a ? b : a)

DEFINE_FLOAT_COMBINES(f32, float)
DEFINE_FLOAT_COMBINES(f64, double)
DEFINE_INTEGER_COMBINES(i8, int8_t, uint8_t)
DEFINE_INTEGER_COMBINES(u8, uint8_t, uint8_t)
DEFINE_INTEGER_COMBINES(i32, int32_t, uint32_t)
DEFINE_INTEGER_COMBINES(i64, int64_t, uint64_t)

static void load_f16(void *accumulators, const void *elements, size_t n) {
    for (size_t i = 0; i < n; i++) ((float *)accumulators)[i] = dt_f32_from_f16(((const uint16_t *)elements)[i]);
}

static void store_f16(void *elements, const void *accumulators, size_t n) {
    for (size_t i = 0; i < n; i++) ((uint16_t *)elements)[i] = dt_f16_from_f32(((const float *)accumulators)[i]);
}

static void load_bf16(void *accumulators, const void *elements, size_t n) {
    for (size_t i = 0; i < n; i++) ((float *)accumulators)[i] = dt_f32_from_bf16(((const uint16_t *)elements)[i]);
}

static void store_bf16(void *elements, const void *accumulators, size_t n) {
    for (size_t i = 0; i < n; i++) ((uint16_t *)elements)[i] = dt_bf16_from_f32(((const float *)accumulators)[i]);
}

#define COMBINES(name)                                                                                                                               \
    { name##_sum, name##_max, name##_min }

/* Without load and store the elements are accumulators themselves. */
static const struct arithmetic {
    void (*load)(void *accumulators, const void *elements, size_t n);
    void (*store)(void *elements, const void *accumulators, size_t n);
    void (*combine[3])(void *result, const void *left, const void *right, size_t n); /* by dt_reduction_op */
} arithmetics[DT_N_DTYPES] = {
    [DT_F32] = {.combine = COMBINES(f32)},
    [DT_F16] = {load_f16, store_f16, COMBINES(f32)},
    [DT_BF16] = {load_bf16, store_bf16, COMBINES(f32)},
    [DT_F64] = {.combine = COMBINES(f64)},
    [DT_I8] = {.combine = COMBINES(i8)},
    [DT_U8] = {.combine = COMBINES(u8)},
    [DT_I32] = {.combine = COMBINES(i32)},
    [DT_I64] = {.combine = COMBINES(i64)},
    [DT_BOOL] = {.combine = COMBINES(u8)},
};

/* ---- the tree ---- */

typedef struct walk {
    void (*load)(void *accumulators, const void *elements, size_t n); /* NULL: sources are accumulators */
    void (*combine)(void *result, const void *left, const void *right, size_t n);
    const dt_tree_source *source;  /* the next one: they are met in their order */
    size_t source_bytes, first, n; /* this block's elements */
} walk;

/* The next `n` leaves of the tree as accumulators: in `block`, or where they lie reduced, if they need no conversion. The blocks of `scratch` are for
 * what is on the way. */
static const void *subtree(walk *in, int64_t n, char *block, char *scratch) {
    if (in->source->span == n) {
        const char *values = (const char *)(in->source++)->values + in->first * in->source_bytes;
        if (in->load == NULL) return values;
        in->load(block, values, in->n);
        return block;
    }
    int64_t n_left = 1;
    while (n_left < n - n_left) n_left *= 2; /* the largest power of two below n */
    const void *left = subtree(in, n_left, block, scratch);
    const void *right = subtree(in, n - n_left, scratch, scratch + BLOCK_BYTES);
    in->combine(block, left, right, in->n);
    return block;
}

size_t dt_reduce_scratch_bytes(int64_t n_leaves) {
    size_t depth = 1;
    for (int64_t covered = 1; covered < n_leaves; covered *= 2) depth++;
    return depth * BLOCK_BYTES;
}

/* Whether a target is a source that is still to be read when the first additions are made. */
static bool is_read_later(const dt_tree_reduction *reduction) {
    for (int t = 0; t < reduction->n_targets; t++)
        for (int s = 1; s < reduction->n_sources; s++)
            if (reduction->sources[s].values == reduction->targets[t]) return true;
    return false;
}

/* Copies as they are, unless the sums are narrowed or widened. */
static bool is_copy(const dt_tree_reduction *reduction) {
    bool converts = arithmetics[reduction->dtype].load != NULL && reduction->wide_sources != reduction->wide_targets;
    return reduction->n_sources == 1 && !converts;
}

void dt_reduce(const dt_tree_reduction *reduction, void *scratch) {
    const struct arithmetic *arithmetic = &arithmetics[reduction->dtype];
    size_t bytes = dt_dtype_bytes(reduction->dtype), n = reduction->n_elements;
    size_t source_bytes = reduction->wide_sources && arithmetic->load != NULL ? sizeof(float) : bytes;
    size_t target_bytes = reduction->wide_targets && arithmetic->load != NULL ? sizeof(float) : bytes;
    if (is_copy(reduction)) {
        for (int t = 0; t < reduction->n_targets; t++) memcpy(reduction->targets[t], reduction->sources[0].values, n * source_bytes);
        return;
    }
    bool converts = arithmetic->store != NULL && !reduction->wide_targets, apart = converts || is_read_later(reduction);
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t at = first * target_bytes;
        walk in = {reduction->wide_sources ? NULL : arithmetic->load,
                   arithmetic->combine[reduction->combine],
                   reduction->sources,
                   source_bytes,
                   first,
                   n - first < BLOCK ? n - first : BLOCK};
        char *root = apart ? scratch : (char *)reduction->targets[0] + at;
        const void *sum = subtree(&in, reduction->n_leaves, root, (char *)scratch + BLOCK_BYTES);
        for (int t = apart ? 0 : 1; t < reduction->n_targets; t++) {
            if (converts)
                arithmetic->store((char *)reduction->targets[t] + at, sum, in.n);
            else
                memcpy((char *)reduction->targets[t] + at, root, in.n * target_bytes);
        }
    }
}
