/* partition: gives every value a distribution and inserts the collectives.
 *
 * In:  a verified graph over the global batch.      Out: the same program as one replica runs it.
 *
 * Distribution is a type, not a strategy: split(d), replicated or partial(op). It is read off the loops of each value (ir/loops.h): one loop over B
 * is shared out among the replicas. An outer one makes the result split at that dimension, a reduced one makes it partial. An operand is needed
 * split where that loop walks it, and whole where none does; what it is not yet it is made (partition_convert.c). Of several loops over B the one
 * is shared out for which that is cheapest. Inputs are split(0), variables replicated; data parallelism, the scaling of the loss and batch
 * normalisation over all replicas are what comes out. There is no code for them.
 *
 * After it DT_BATCH means the valid rows of one replica, and stands in a shape once; DT_GATHERED means the valid rows of all. */
#include "compiler/passes/partition.h"
#include "ir/body.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const dt_distribution replicated = {.kind = DT_REPLICATED};
static const dt_distribution unknown = {.kind = DT_UNKNOWN};

static dt_distribution partial(dt_combiner combiner) { return (dt_distribution){.kind = DT_PARTIAL, .combiner = combiner}; }

/* ---- partial sums that go on ---- */

static bool is_partial_sum(const dt_partition *p, const dt_value *value) {
    bool shared = dt_origin_of(p, value)->n_uses > 1 && p->bodies[value->id] == NULL; /* another user may need the whole: then one all_reduce serves
                                                                                          both; not within a loop, where none may be */
    return value->distribution.kind == DT_PARTIAL && value->distribution.combiner == DT_COMBINE_SUM && !shared;
}

/* May parts be converted before they are added? Where no bits are lost: parts that are cut to integers may not, nor integers, since where the whole
 * wraps around its parts need not; but i64 has room. */
static bool widens(dt_dtype from, dt_dtype to) {
    if (dt_dtype_is_float(from)) return dt_dtype_is_float(to) && dt_dtype_bytes(to) > dt_dtype_bytes(from); /* f16 and bf16 lose either way */
    return from == DT_I64 && to == DT_F64;
}

static bool is_linear(const dt_value *value) {
    return (value->op->algebra & DT_OP_LINEAR) || (dt_value_is(value, "pad") && dt_value_number(value, "value") == 0);
}

static double size_of(const dt_value *constant) {
    return dt_dtype_is_float(constant->dtype) ? fabs(dt_value_scalar(constant, "value").f) : fabs((double)dt_value_scalar(constant, "value").i);
}

static const dt_value *repeated(const dt_value *value) {
    while (dt_value_is(value, "broadcast") || dt_value_is(value, "reshape")) value = value->operands[0];
    return value;
}

/* Whether it is finite and at least 1: numbers of rows, and what is made of them. */
static bool is_count(const dt_value *value) {
    value = repeated(value);
    if (dt_value_is(value, "constant")) return size_of(value) >= 1 && isfinite(size_of(value));
    if (dt_value_is(value, "launch"))
        return strcmp(dt_value_string(value, "name"), "valid") == 0 || strcmp(dt_value_string(value, "name"), "global_batch") == 0;
    if (dt_value_is(value, "convert")) return value->dtype != DT_F16 && is_count(value->operands[0]);
    return dt_value_is(value, "multiply") && value->dtype == DT_I64 && is_count(value->operands[0]) && is_count(value->operands[1]);
}

static bool is_fraction(const dt_value *value) {
    value = repeated(value);
    return dt_value_is(value, "constant") && size_of(value) > 0 && size_of(value) <= 1;
}

/* Does this linear value keep the partial sums of its operands? A sum keeps them when all its terms are partial; a product by a number that makes
 * parts no larger, and a quotient, when the dividend is: parts that infinity, or 0, is multiplied or divided by may be NaN where their sum is not, as
 * those of a replica without rows are, and parts that grow may overflow. Of integers all products do. Whatever has one operand and is linear does.
 * Not where rows appear or the value grows: a sum must be whole before rows use it, and is best combined while it is small. In a loop, where none may
 * be combined, all of these do. */
static bool keeps_partial(const dt_partition *p, const dt_value *value) {
    if (!is_linear(value) || value->n_operands == 0 || dt_shape_batch_axis(value->shape) >= 0) return false;
    int n_partial = 0, n_replicated = 0;
    for (int k = 0; k < value->n_operands; k++) {
        n_partial += is_partial_sum(p, value->operands[k]);
        n_replicated += value->operands[k]->distribution.kind == DT_REPLICATED;
    }
    if (n_partial == 0) return false;
    if (value->dtype != value->operands[0]->dtype && !widens(value->operands[0]->dtype, value->dtype)) return false;
    if (value->n_operands == 1)
        return p->bodies[value->id] != NULL || dt_shape_elements_per_row(value->shape) <= dt_shape_elements_per_row(value->operands[0]->shape);
    if (value->op->class != DT_CLASS_MAP) return false;
    const dt_formula *body = dt_origin_of(p, value)->loops->body;
    if (body->kind != DT_FORMULA_SCALAR) return false;
    bool is_product = body->scalar == DT_SCALAR_MULTIPLY, is_first = is_partial_sum(p, value->operands[0]);
    if (!is_product && body->scalar != DT_SCALAR_DIVIDE) return n_partial == value->n_operands;
    if (n_partial != 1 || n_replicated != value->n_operands - 1 || !(is_product || is_first)) return false;
    const dt_value *other = dt_origin_of(p, value)->operands[is_first];
    return p->bodies[value->id] != NULL || !dt_dtype_is_float(value->dtype) || (is_product ? is_fraction(other) : is_count(other));
}

/* ---- the loop that is shared out ---- */

static bool can_be_partial(dt_combiner combiner) { return combiner == DT_COMBINE_SUM || combiner == DT_COMBINE_MAX || combiner == DT_COMBINE_MIN; }

/* Parts of pairs of rows would have to be whole before they are split: then an outer loop does it. */
static bool can_be_shared(const dt_origin *origin, int loop) {
    const dt_loops *loops = origin->loops;
    if (loops->extents[loop] != DT_BATCH) return false;
    return loops->result != NULL || loop < loops->n_outer || (can_be_partial(loops->combiner) && dt_shape_count(origin->shape, DT_BATCH) < 2);
}

/* A scatter walks updates, not its result: over B it adds into a result that every replica holds a part of. */
static dt_distribution distribution_of(const dt_origin *origin, int shared) {
    const dt_loops *loops = origin->loops;
    if (shared < 0) return replicated;
    if (loops->result == NULL) return shared < loops->n_outer ? dt_distribution_at(shared) : partial(loops->combiner);
    for (int d = 0; d < origin->shape.rank; d++)
        if (dt_loop_of_dimension(loops, loops->result, d) == shared) return dt_distribution_at(d);
    return partial(DT_COMBINE_SUM);
}

static int64_t cost_of_sharing(dt_partition *p, const dt_origin *origin, int loop) {
    int64_t cost = 0;
    for (int k = 0; k < origin->value->n_operands; k++)
        cost += dt_partition_cost(p, dt_origin_of(p, origin->operands[k]), dt_operand_axis(p, origin, k, loop));
    if (distribution_of(origin, loop).kind == DT_PARTIAL && dt_shape_count(origin->shape, DT_BATCH) > 0)
        cost += dt_shape_elements_per_row(origin->shape) * (int64_t)dt_dtype_bytes(origin->value->dtype);
    return cost;
}

/* The cheapest loop over B, the first of equals; -1: none walks B, or none can be shared out. */
static int loop_to_share(dt_partition *p, const dt_origin *origin) {
    int best = -1;
    int64_t least = INT64_MAX;
    for (int l = 0; l < origin->loops->n_loops; l++) {
        if (!can_be_shared(origin, l)) continue;
        int64_t cost = cost_of_sharing(p, origin, l);
        if (cost < least) best = l, least = cost;
    }
    return best;
}

/* ---- one value ---- */

/* The value as one replica computes it, loop `shared` being shared out. */
static dt_status *rewrite(dt_partition *p, dt_origin *origin, int shared, dt_distribution distribution) {
    dt_value *value = origin->value;
    dt_module *module = p->function->module;
    int axis = distribution.kind == DT_SPLIT ? distribution.axis : DT_WHOLE;
    DT_TRY(dt_partition_operands(p, origin, shared, value, value->operands));
    value->attributes = dt_partition_attributes(p, origin, axis);
    DT_TRY(dt_op_infer(module->arena, module, value->op, value->operands, value->n_operands, value->attributes, &value->shape, &value->dtype));
    value->distribution = distribution;
    if (distribution.kind != DT_PARTIAL) dt_origin_add_version(p, origin, axis, value);
    return NULL;
}

/* What a loop adds up or stacks of partial sums is partial: it crosses once, after the loop. */
static bool leaves_partial(const dt_value *value) {
    const dt_value *x = value->operands[0];
    return dt_value_leaves(value) && (value->op->algebra & DT_OP_LINEAR) && x->distribution.kind == DT_PARTIAL &&
           x->distribution.combiner == DT_COMBINE_SUM;
}

/* reshape moves nothing: it is split where its operand is. So is what enters a body and what leaves it: a carry where it begins. */
static dt_status *distribute_alias(dt_partition *p, dt_origin *origin) {
    dt_origin *operand = dt_origin_of(p, origin->operands[0]);
    int n_before = 0, axis = DT_WHOLE;
    if (keeps_partial(p, origin->value) || leaves_partial(origin->value)) {
        origin->value->distribution = operand->value->distribution;
        return NULL;
    }
    /* of an operand that is partial, where it will be complete */
    int of_operand = operand->value->distribution.kind == DT_SPLIT ? operand->value->distribution.axis : dt_shape_batch_axis(operand->shape);
    for (int d = 0; d < of_operand; d++) n_before += operand->shape.dims[d] == DT_BATCH;
    for (int d = 0; d < origin->shape.rank && of_operand >= 0; d++)
        if (origin->shape.dims[d] == DT_BATCH && n_before-- == 0) axis = d;
    return rewrite(p, origin, axis, dt_distribution_at(axis));
}

static dt_status *distribute_by_loops(dt_partition *p, dt_origin *origin) {
    if (keeps_partial(p, origin->value)) {
        origin->value->distribution = partial(DT_COMBINE_SUM);
        return NULL;
    }
    int shared = loop_to_share(p, origin);
    return rewrite(p, origin, shared, distribution_of(origin, shared));
}

/* A carry is everywhere in the body as it is at first: what it advances to is made so. */
static dt_status *distribute_in_loop(dt_partition *p, dt_origin *origin) {
    dt_value *value = origin->value;
    if (dt_value_is(value, "advance")) {
        const dt_distribution *carry = &value->operands[0]->distribution;
        int axis = carry->kind == DT_SPLIT ? carry->axis : DT_WHOLE;
        return dt_partition_convert(p, dt_origin_of(p, origin->operands[1]), axis, value, &value->operands[1]);
    }
    value->distribution = replicated;
    dt_origin_add_version(p, origin, DT_WHOLE, value);
    return NULL;
}

static dt_status *distribute(dt_partition *p, dt_origin *origin) {
    dt_value *value = origin->value;
    switch (value->op->class) {
    case DT_CLASS_LOOP:
        if (value->n_operands > 0 && !dt_value_has_effect(value)) break;
        return distribute_in_loop(p, origin);
    case DT_CLASS_COLLECTIVE: return NULL;
    case DT_CLASS_CONTROL: return dt_error(DT_INTERNAL, "%s must be resolved before partition", value->op->name);
    case DT_CLASS_STATE: return rewrite(p, origin, -1, replicated);
    case DT_CLASS_SOURCE:
        if (!dt_value_is(value, "input")) break;
        value->distribution = dt_distribution_at(dt_shape_batch_axis(origin->shape));
        dt_origin_add_version(p, origin, dt_shape_batch_axis(origin->shape), value);
        return NULL;
    default: break;
    }
    return origin->loops == NULL ? distribute_alias(p, origin) : distribute_by_loops(p, origin);
}

/* What leaves a step is whole: 0-d totals and anything without rows on every replica, the rest split by rows. */
static dt_status *distribute_results(dt_partition *p) {
    for (size_t r = 0; r < p->function->results.n; r++) {
        dt_value **value = &p->function->results.items[r].value;
        dt_origin *origin = dt_origin_of(p, *value);
        bool rows = origin->shape.rank > 0 && origin->shape.dims[0] == DT_BATCH;
        DT_TRY(dt_partition_convert(p, origin, rows ? 0 : DT_WHOLE, *value, value));
    }
    return NULL;
}

/* Iterations would cross replicas one by one, and for all microbatches at once. */
static dt_status *refuse_crossing(const dt_function *function) {
    const dt_value *loop = NULL;
    int depth = 0;
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        depth += dt_value_is_loop(value) - dt_value_is_end_loop(value);
        if (depth == 1 && dt_value_is_loop(value)) loop = value;
        if (depth == 0 || value->op->class != DT_CLASS_COLLECTIVE) continue;
        return dt_value_error(value, DT_INVALID_ARGUMENT,
                              "in the body of scan a value is made of all rows of the batch, as a batch statistic is: it would cross replicas in "
                              "each of %lld iterations; compute it before the scan or after it",
                              (long long)dt_loop_trips(loop));
    }
    return NULL;
}

/* What the program says of the value: the pass changes it. */
static dt_origin origin_of(dt_arena *arena, dt_value *value) {
    return (dt_origin){.value = value,
                       .shape = value->shape,
                       .operands = dt_arena_copy(arena, value->operands, (size_t)value->n_operands * sizeof(dt_value *)),
                       .attributes = value->attributes,
                       .loops = dt_value_loops(arena, value),
                       .versions = DT_NEW_ARRAY(arena, dt_value *, value->shape.rank + 1),
                       .costs = DT_NEW_ARRAY(arena, int64_t, value->shape.rank + 1),
                       .known_at = DT_NEW_ARRAY(arena, int, value->shape.rank + 1)};
}

static dt_status *partition_function(dt_compilation *compilation, dt_function *function) {
    dt_arena *arena = function->module->arena;
    dt_function_renumber(function);
    dt_partition p = {.compilation = compilation, .function = function, .n = function->next_id, .n_made = 1};
    p.origins = DT_NEW_ARRAY(arena, dt_origin, p.n);
    p.bodies = DT_NEW_ARRAY(arena, dt_value *, p.n);
    dt_function_find_bodies(function, p.bodies);
    for (dt_value *value = function->first; value; value = value->next) {
        p.origins[value->id] = origin_of(arena, value);
        value->distribution = unknown;
        for (int k = 0; k < value->n_operands; k++) p.origins[value->operands[k]->id].n_uses++;
    }
    for (size_t r = 0; r < function->results.n; r++) p.origins[function->results.items[r].value->id].n_uses++;
    for (int id = 0; id < p.n; id++) DT_TRY(distribute(&p, &p.origins[id]));
    DT_TRY(distribute_results(&p));
    dt_function_sweep(function);
    DT_TRY(refuse_crossing(function));
    dt_function_renumber(function);
    return NULL;
}

dt_status *dt_pass_partition(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) DT_TRY(partition_function(compilation, compilation->module->functions.items[f]));
    return NULL;
}
