/* fold: see fold.h. Walks the tree once for each block of elements, so that partial sums stay in the first-level cache. Leaves are read
 * where they are and the root is written where it belongs, unless elements are converted on the way: with two leaves nothing is copied. */
#include "runtime/comm/fold.h"

#include "base/half.h"

#include <assert.h>
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
#define DEFINE_FOLD(name, type, expression)                                                                                                          \
    static void name(void *result, const void *left, const void *right, size_t n) {                                                                  \
        type *z = result;                                                                                                                            \
        const type *x = left, *y = right;                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                                             \
            type a = x[i], b = y[i];                                                                                                                 \
            z[i] = (type)(expression);                                                                                                               \
        }                                                                                                                                            \
    }

#define DEFINE_FLOAT_FOLDS(name, type)                                                                                                               \
    DEFINE_FOLD(name##_sum, type, a + b)                                                                                                             \
    DEFINE_FOLD(name##_max, type, b > a || b != b ? b : a)                                                                                           \
    DEFINE_FOLD(name##_min, type, b < a || b != b ? b : a)

#define DEFINE_INTEGER_FOLDS(name, type, unsigned_type)                                                                                              \
    DEFINE_FOLD(name##_sum, type, (unsigned_type)((unsigned_type)a + (unsigned_type)b))                                                              \
    DEFINE_FOLD(name##_max, type, b > a ? b : a)                                                                                                     \
    DEFINE_FOLD(name##_min, type, b < a ? b : a)

DEFINE_FLOAT_FOLDS(f32, float)
DEFINE_FLOAT_FOLDS(f64, double)
DEFINE_INTEGER_FOLDS(i8, int8_t, uint8_t)
DEFINE_INTEGER_FOLDS(u8, uint8_t, uint8_t)
DEFINE_INTEGER_FOLDS(i32, int32_t, uint32_t)
DEFINE_INTEGER_FOLDS(i64, int64_t, uint64_t)

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

#define FOLDS(name)                                                                                                                                  \
    { name##_sum, name##_max, name##_min }

/* Without load and store the elements are accumulators themselves. */
static const struct arithmetic {
    void (*load)(void *accumulators, const void *elements, size_t n);
    void (*store)(void *elements, const void *accumulators, size_t n);
    void (*fold[3])(void *result, const void *left, const void *right, size_t n); /* by dt_fold */
} arithmetics[DT_N_DTYPES] = {
    [DT_F32] = {.fold = FOLDS(f32)},
    [DT_F16] = {load_f16, store_f16, FOLDS(f32)},
    [DT_BF16] = {load_bf16, store_bf16, FOLDS(f32)},
    [DT_F64] = {.fold = FOLDS(f64)},
    [DT_I8] = {.fold = FOLDS(i8)},
    [DT_U8] = {.fold = FOLDS(u8)},
    [DT_I32] = {.fold = FOLDS(i32)},
    [DT_I64] = {.fold = FOLDS(i64)},
    [DT_BOOL] = {.fold = FOLDS(u8)},
};

/* ---- the tree ---- */

typedef struct walk {
    const struct arithmetic *arithmetic;
    dt_fold fold;
    const char *const *leaves;
    const int *spans;
    size_t element_bytes, first, n; /* this block's elements */
} walk;

static const char *elements(const walk *in, int leaf) { return in->leaves[leaf] + in->first * in->element_bytes; }

static void fold_tree(const walk *in, int leaf, int n, char *result, char *scratch);

/* Whether leaves [leaf, leaf + n) lie folded where the first one does. */
static bool is_folded(const walk *in, int leaf, int n) { return in->spans != NULL ? in->spans[leaf] == n : n == 1; }

/* Leaves [leaf, leaf + n) as accumulators: in `block`, or where they lie folded, if they need no conversion. */
static const void *subtree(const walk *in, int leaf, int n, char *block, char *scratch) {
    if (!is_folded(in, leaf, n))
        fold_tree(in, leaf, n, block, scratch);
    else if (in->arithmetic->load != NULL)
        in->arithmetic->load(block, elements(in, leaf), in->n);
    else
        return elements(in, leaf);
    return block;
}

/* Leaves [leaf, leaf + n), which do not lie folded, into `result`; the blocks of `scratch` are for what is on the way. */
static void fold_tree(const walk *in, int leaf, int n, char *result, char *scratch) {
    int n_left = 1;
    while (n_left < n - n_left) n_left *= 2; /* the largest power of two below n */
    const void *left = subtree(in, leaf, n_left, result, scratch);
    const void *right = subtree(in, leaf + n_left, n - n_left, scratch, scratch + BLOCK_BYTES);
    in->arithmetic->fold[in->fold](result, left, right, in->n);
}

size_t dt_fold_scratch_bytes(int n_leaves) {
    size_t depth = 1;
    for (int covered = 1; covered < n_leaves && covered > 0; covered *= 2) depth++;
    return depth * BLOCK_BYTES;
}

void dt_fold_leaves(dt_fold fold, dt_dtype dtype, const void *const *leaves, const int *spans, int n_leaves, size_t first, size_t n, void *scratch,
                    void *const *targets, int n_targets) {
    walk in = {&arithmetics[dtype], fold, (const char *const *)leaves, spans, dt_dtype_bytes(dtype), first, 0};
    if (is_folded(&in, 0, n_leaves)) {
        for (int t = 0; t < n_targets; t++) memcpy(targets[t], elements(&in, 0), n * in.element_bytes);
        return;
    }
    for (size_t done = 0; done < n; done += in.n) {
        size_t at = done * in.element_bytes;
        in.first = first + done;
        in.n = n - done < BLOCK ? n - done : BLOCK;
        char *root = in.arithmetic->store != NULL ? scratch : (char *)targets[0] + at;
        fold_tree(&in, 0, n_leaves, root, (char *)scratch + BLOCK_BYTES);
        for (int t = in.arithmetic->store != NULL ? 0 : 1; t < n_targets; t++) {
            if (in.arithmetic->store != NULL)
                in.arithmetic->store((char *)targets[t] + at, root, in.n);
            else
                memcpy((char *)targets[t] + at, root, in.n * in.element_bytes);
        }
    }
}

void dt_fold_pair(dt_fold fold, dt_dtype dtype, void *left, const void *right, size_t n) {
    assert(arithmetics[dtype].load == NULL);
    arithmetics[dtype].fold[fold](left, left, right, n);
}
