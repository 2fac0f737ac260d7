/* ops_contract: matrix products. dot_general is the general one; matmul is what people write. */
#include "ir/ops.h"

#include <inttypes.h>
#include <string.h>

dt_status *dt_infer_matmul(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                           dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    dt_shape a = operands[0]->shape, b = operands[1]->shape;
    bool transpose_a = dt_op_attribute(op, attributes, "transpose_a")->i != 0, transpose_b = dt_op_attribute(op, attributes, "transpose_b")->i != 0;
    bool fits = a.rank >= 2 && (b.rank == a.rank || b.rank == 2);
    for (int d = 0; fits && b.rank == a.rank && d < a.rank - 2; d++) fits = a.dims[d] == b.dims[d];
    if (!fits)
        return dt_error(DT_INVALID_ARGUMENT, "matmul expects a: [..., M, K] and b: [..., K, N] or [K, N], got %s and %s",
                        dt_type_text(arena, operands[0]), dt_type_text(arena, operands[1]));
    int row_a = a.rank - 2 + transpose_a, sum_a = a.rank - 1 - transpose_a;
    int sum_b = b.rank - 2 + transpose_b, column_b = b.rank - 1 - transpose_b;
    if (a.dims[sum_a] != b.dims[sum_b])
        return dt_error(DT_INVALID_ARGUMENT, "matmul sums over dimension %d of a: %s and dimension %d of b: %s, which differ", sum_a,
                        dt_type_text(arena, operands[0]), sum_b, dt_type_text(arena, operands[1]));
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, a.rank);
    memcpy(dims, a.dims, (size_t)a.rank * sizeof *dims);
    dims[a.rank - 2] = a.dims[row_a];
    dims[a.rank - 1] = b.dims[column_b];
    *shape = (dt_shape){a.rank, dims};
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return dt_check_precision(op, operands, attributes);
}

const char *dt_product_body(dt_arena *arena, const dt_value *value) {
    const char *x = value->op->operands[0].name, *y = value->op->operands[1].name, *precision = dt_value_string(value, "precision");
    if (dt_precision_from_name(precision) == DT_PRECISION_F32) return dt_arena_format(arena, "%s * %s", x, y);
    return dt_arena_format(arena, "round_%s(%s) * round_%s(%s)", precision, x, precision, y);
}

dt_loops *dt_loops_matmul(dt_arena *arena, const dt_value *value) {
    int rank = value->shape.rank, rank_b = value->operands[1]->shape.rank;
    int transpose_a = dt_value_bool(value, "transpose_a"), transpose_b = dt_value_bool(value, "transpose_b");
    int sum_a = rank - 1 - transpose_a, sum = rank;
    dt_loops *loops =
        dt_loops_new(arena, value, value->shape, 1, &value->operands[0]->shape.dims[sum_a], DT_COMBINE_SUM, dt_product_body(arena, value));
    dt_index *a = loops->operands[0].dims, *b = loops->operands[1].dims;
    for (int d = 0; d < rank - 2; d++) {
        a[d].coefficients[d] = 1;
        if (rank_b == rank) b[d].coefficients[d] = 1;
    }
    a[rank - 2 + transpose_a].coefficients[rank - 2] = 1;
    a[sum_a].coefficients[sum] = 1;
    b[rank_b - 2 + transpose_b].coefficients[sum] = 1;
    b[rank_b - 1 - transpose_b].coefficients[rank - 1] = 1;
    return loops;
}

/* Of `like` the precision goes along, here and below. */
static dt_status *build_matmul(dt_builder *builder, const dt_value *like, dt_value **result, dt_value *a, dt_value *b, bool transpose_a,
                               bool transpose_b) {
    return dt_build_like(builder, result, "matmul", (dt_value *[]){a, b}, 2, like,
                         (dt_setting[]){dt_set_int("transpose_a", transpose_a), dt_set_int("transpose_b", transpose_b)}, 2);
}

/* Dimensions of both factors that go together. */
typedef struct pairs {
    int n;
    const int64_t *a, *b;
} pairs;

static dt_status *build_dot_general(dt_builder *builder, const dt_value *like, dt_value **result, dt_value *a, dt_value *b, pairs batch,
                                    pairs contract) {
    return dt_build_like(builder, result, "dot_general", (dt_value *[]){a, b}, 2, like,
                         (dt_setting[]){dt_set_ints(builder, "a_batch", batch.n, batch.a), dt_set_ints(builder, "b_batch", batch.n, batch.b),
                                        dt_set_ints(builder, "a_contract", contract.n, contract.a),
                                        dt_set_ints(builder, "b_contract", contract.n, contract.b)},
                         4);
}

/* b [K, N] serves all of a [..., M, K]: its gradient sums over everything but K and N. */
static dt_status *gradient_of_shared(dt_builder *builder, const dt_value *value, dt_value *g, dt_value **gradient) {
    dt_value *a = value->operands[0];
    int rank = a->shape.rank;
    int64_t *a_contract = DT_NEW_ARRAY(builder->function->module->arena, int64_t, rank),
            *g_contract = DT_NEW_ARRAY(builder->function->module->arena, int64_t, rank);
    for (int d = 0; d < rank - 1; d++) a_contract[d] = g_contract[d] = d;
    if (dt_value_bool(value, "transpose_a")) a_contract[rank - 2] = rank - 1;
    if (dt_value_bool(value, "transpose_b"))
        return build_dot_general(builder, value, gradient, g, a, (pairs){0}, (pairs){rank - 1, g_contract, a_contract});
    return build_dot_general(builder, value, gradient, a, g, (pairs){0}, (pairs){rank - 1, a_contract, g_contract});
}

static dt_status *swap_last_two(dt_builder *builder, dt_value *x, dt_value **result) {
    int rank = x->shape.rank;
    int64_t *permutation = DT_NEW_ARRAY(builder->function->module->arena, int64_t, rank);
    for (int d = 0; d < rank; d++) permutation[d] = d;
    permutation[rank - 2] = rank - 1;
    permutation[rank - 1] = rank - 2;
    dt_setting setting = dt_set_ints(builder, "permutation", rank, permutation);
    return dt_build_like(builder, result, "transpose", &x, 1, NULL, &setting, 1);
}

dt_status *dt_gradient_matmul(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    dt_value *a = value->operands[0], *b = value->operands[1];
    bool transpose_a = dt_value_bool(value, "transpose_a"), transpose_b = dt_value_bool(value, "transpose_b");
    bool shared = b->shape.rank < a->shape.rank;
    if (wanted[0]) {
        if (!transpose_a) {
            DT_TRY(build_matmul(builder, value, &gradients[0], g, b, false, !transpose_b));
        } else if (!shared) {
            DT_TRY(build_matmul(builder, value, &gradients[0], b, g, transpose_b, true));
        } else {
            DT_TRY(build_matmul(builder, value, &gradients[0], g, b, false, !transpose_b));
            DT_TRY(swap_last_two(builder, gradients[0], &gradients[0]));
        }
    }
    if (!wanted[1]) return NULL;
    if (shared) return gradient_of_shared(builder, value, g, &gradients[1]);
    return transpose_b ? build_matmul(builder, value, &gradients[1], g, a, true, transpose_a)
                       : build_matmul(builder, value, &gradients[1], a, g, !transpose_a, false);
}

/* ---- dot_general ---- */

/* How one operand's dimensions are used: in `batch`, in `contract`, or free. */
typedef struct side {
    const dt_value *value;
    int n_batch, n_contract, n_free;
    const int64_t *batch, *contract;
    int64_t *free; /* ascending */
} side;

static bool is_in(const int64_t *list, int n, int64_t item) {
    for (int i = 0; i < n; i++)
        if (list[i] == item) return true;
    return false;
}

static side make_side(dt_arena *arena, const dt_value *value, const dt_attribute *batch, const dt_attribute *contract) {
    side s = {.value = value, .n_batch = (int)batch->i, .n_contract = (int)contract->i, .batch = batch->ints, .contract = contract->ints};
    s.free = DT_NEW_ARRAY(arena, int64_t, value->shape.rank);
    for (int d = 0; d < value->shape.rank; d++)
        if (!is_in(s.batch, s.n_batch, d) && !is_in(s.contract, s.n_contract, d)) s.free[s.n_free++] = d;
    return s;
}

static void make_sides(dt_arena *arena, const dt_op *op, dt_value *const *operands, const dt_attribute *attributes, side sides[2]) {
    sides[0] = make_side(arena, operands[0], dt_op_attribute(op, attributes, "a_batch"), dt_op_attribute(op, attributes, "a_contract"));
    sides[1] = make_side(arena, operands[1], dt_op_attribute(op, attributes, "b_batch"), dt_op_attribute(op, attributes, "b_contract"));
}

/* Every dimension is in range and used once. */
static bool is_partition(const side *s) {
    int rank = s->value->shape.rank;
    for (int i = 0; i < s->n_batch; i++)
        if (s->batch[i] < 0 || s->batch[i] >= rank || is_in(s->batch, i, s->batch[i])) return false;
    for (int i = 0; i < s->n_contract; i++)
        if (s->contract[i] < 0 || s->contract[i] >= rank || is_in(s->contract, i, s->contract[i]) || is_in(s->batch, s->n_batch, s->contract[i]))
            return false;
    return true;
}

dt_status *dt_infer_dot_general(dt_arena *arena, const dt_op *op, dt_value *const *operands, int n_operands, const dt_attribute *attributes,
                                dt_shape *shape, dt_dtype *dtype) {
    (void)n_operands;
    side s[2];
    make_sides(arena, op, operands, attributes, s);
    bool fits = is_partition(&s[0]) && is_partition(&s[1]) && s[0].n_batch == s[1].n_batch && s[0].n_contract == s[1].n_contract;
    for (int i = 0; fits && i < s[0].n_batch; i++) fits = operands[0]->shape.dims[s[0].batch[i]] == operands[1]->shape.dims[s[1].batch[i]];
    for (int i = 0; fits && i < s[0].n_contract; i++) fits = operands[0]->shape.dims[s[0].contract[i]] == operands[1]->shape.dims[s[1].contract[i]];
    if (!fits)
        return dt_error(DT_INVALID_ARGUMENT, "dot_general pairs dimensions of a: %s with dimensions of b: %s that differ",
                        dt_type_text(arena, operands[0]), dt_type_text(arena, operands[1]));
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, s[0].n_batch + s[0].n_free + s[1].n_free);
    int rank = 0;
    for (int i = 0; i < s[0].n_batch; i++) dims[rank++] = operands[0]->shape.dims[s[0].batch[i]];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < s[k].n_free; i++) dims[rank++] = operands[k]->shape.dims[s[k].free[i]];
    *shape = (dt_shape){rank, dims};
    *dtype = dt_op_result_dtype(op, operands, attributes);
    return dt_check_precision(op, operands, attributes);
}

dt_loops *dt_loops_dot_general(dt_arena *arena, const dt_value *value) {
    side s[2];
    make_sides(arena, value->op, value->operands, value->attributes, s);
    int64_t *reduced = DT_NEW_ARRAY(arena, int64_t, s[0].n_contract);
    for (int i = 0; i < s[0].n_contract; i++) reduced[i] = s[0].value->shape.dims[s[0].contract[i]];
    dt_loops *loops = dt_loops_new(arena, value, value->shape, s[0].n_contract, reduced, s[0].n_contract > 0 ? DT_COMBINE_SUM : DT_COMBINE_NONE,
                                   dt_product_body(arena, value));
    int first_free = s[0].n_batch;
    for (int k = 0; k < 2; k++) {
        dt_index *dims = loops->operands[k].dims;
        for (int i = 0; i < s[k].n_batch; i++) dims[s[k].batch[i]].coefficients[i] = 1;
        for (int i = 0; i < s[k].n_contract; i++) dims[s[k].contract[i]].coefficients[loops->n_outer + i] = 1;
        for (int i = 0; i < s[k].n_free; i++) dims[s[k].free[i]].coefficients[first_free + i] = 1;
        first_free += s[k].n_free;
    }
    return loops;
}

/* Gradient of operand k: g's free dimensions of the other operand are summed away. What comes out, [batch, k's free, k's contract], is put into k's
 * order. */
static dt_status *gradient_of_side(dt_builder *builder, const dt_value *value, const side s[2], int k, dt_value *g, dt_value **gradient) {
    dt_arena *arena = builder->function->module->arena;
    const side *own = &s[k], *other = &s[1 - k];
    int rank = own->value->shape.rank, first_other = own->n_batch + (k == 0 ? own->n_free : 0);
    int64_t *g_batch = DT_NEW_ARRAY(arena, int64_t, own->n_batch), *g_contract = DT_NEW_ARRAY(arena, int64_t, other->n_free);
    for (int i = 0; i < own->n_batch; i++) g_batch[i] = i;
    for (int i = 0; i < other->n_free; i++) g_contract[i] = first_other + i;
    DT_TRY(build_dot_general(builder, value, gradient, g, (dt_value *)other->value, (pairs){own->n_batch, g_batch, other->batch},
                             (pairs){other->n_free, g_contract, other->free}));
    /* The other's contracted dimensions come out in ascending order. */
    int64_t *permutation = DT_NEW_ARRAY(arena, int64_t, rank);
    bool moves = false;
    for (int i = 0; i < own->n_batch; i++) permutation[own->batch[i]] = i;
    for (int i = 0; i < own->n_free; i++) permutation[own->free[i]] = own->n_batch + i;
    for (int i = 0; i < own->n_contract; i++) {
        int at = 0;
        for (int j = 0; j < own->n_contract; j++) at += other->contract[j] < other->contract[i];
        permutation[own->contract[i]] = own->n_batch + own->n_free + at;
    }
    for (int d = 0; d < rank; d++) moves |= permutation[d] != d;
    if (!moves) return NULL;
    dt_setting setting = dt_set_ints(builder, "permutation", rank, permutation);
    return dt_build_like(builder, gradient, "transpose", gradient, 1, NULL, &setting, 1);
}

dt_status *dt_gradient_dot_general(dt_builder *builder, const dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    side s[2];
    make_sides(builder->function->module->arena, value->op, value->operands, value->attributes, s);
    for (int k = 0; k < 2; k++)
        if (wanted[k]) DT_TRY(gradient_of_side(builder, value, s, k, g, &gradients[k]));
    return NULL;
}
