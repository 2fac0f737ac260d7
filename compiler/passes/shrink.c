/* shrink: only what is read is computed.
 *
 * In and out: a verified graph that means the same. From the results backwards, the part of each value that anybody reads is found: for each
 * dimension a span of indices, read off the loops of its users. Then, from the top, whatever is read in part only is computed in part only. A
 * pooling 11 -> 5 never reads row and column 10 of the convolution before it, so 10 x 10 of that are made, 12 x 12 of the pooling before, 24 x 24 of
 * the convolution before that. B is always whole. What cannot be narrowed (arguments, variables, random numbers, whose bits depend on their index) is
 * made whole and sliced where it is used; slices of these are addresses, not copies, once they are fused.
 *
 * It runs twice. Once before autodiff: the gradient of a value that is narrow already is narrow, while in the gradient of the whole one zeros would
 * be summed that no loop tells from data. And once after simplify, for what the gradients read in part: of a padding, a concatenation. */
#include "compiler/passes/shrink.h"
#include "compiler/passes/passes.h"

typedef struct shrink {
    dt_arena *arena;
    dt_function *function;
    int n;                /* ids below this one are the function's own, not ours */
    dt_range **read;      /* [n] the hull of what users read, or NULL: nothing */
    dt_narrowing *chosen; /* [n] what is computed */
    dt_value **now;       /* [n] where it is computed: the value itself, or the new one */
} shrink;

/* ---- backwards: what is read ---- */

static void add_read(shrink *s, const dt_value *value, const dt_range *part) {
    dt_range **read = &s->read[value->id];
    size_t rank = (size_t)value->shape.rank;
    if (*read == NULL) {
        *read = dt_arena_copy(s->arena, part, rank * sizeof *part);
        return;
    }
    for (size_t d = 0; d < rank; d++) {
        if (part[d].low < (*read)[d].low) (*read)[d].low = part[d].low;
        if (part[d].high > (*read)[d].high) (*read)[d].high = part[d].high;
    }
}

static dt_narrowing unchanged(shrink *s, const dt_value *value) {
    dt_narrowing narrowing = {dt_whole_range(s->arena, value->shape), DT_NEW_ARRAY(s->arena, dt_range *, value->n_operands), value->attributes};
    for (int k = 0; k < value->n_operands; k++) narrowing.operands[k] = dt_whole_range(s->arena, value->operands[k]->shape);
    return narrowing;
}

/* Nobody reads it and it has no effect: nothing of it matters, not even to its operands. */
static bool is_dead(const shrink *s, const dt_value *value) { return s->read[value->id] == NULL && !dt_value_has_effect(value); }

static void choose(shrink *s, dt_value *value) {
    dt_narrowing *chosen = &s->chosen[value->id];
    const dt_module *module = s->function->module;
    const dt_range *whole = dt_whole_range(s->arena, value->shape), *read = s->read[value->id] ? s->read[value->id] : whole;
    if (is_dead(s, value)) return;
    bool is_whole_source = value->n_operands == 0 && dt_range_is_whole(read, value->shape);
    if (is_whole_source || (!dt_narrow(s->arena, module, value, read, NULL, chosen) && !dt_narrow(s->arena, module, value, whole, NULL, chosen)))
        *chosen = unchanged(s, value);
    for (int k = 0; k < value->n_operands; k++)
        if (chosen->operands[k] != NULL) add_read(s, value->operands[k], chosen->operands[k]);
}

/* ---- forwards: what is computed ---- */

static bool is_equal(const dt_range *a, const dt_range *b, int rank) {
    for (int d = 0; d < rank; d++)
        if (a[d].low != b[d].low || a[d].high != b[d].high) return false;
    return true;
}

/* `wanted` of a value of which `there` is computed. */
static dt_status *part_of(dt_builder *builder, dt_value *value, const dt_range *there, const dt_range *wanted, dt_value **part) {
    int rank = value->shape.rank;
    *part = value;
    if (is_equal(there, wanted, rank)) return NULL;
    const dt_op *slice = dt_op_find("slice");
    dt_arena *arena = builder->function->module->arena;
    int64_t *starts = DT_NEW_ARRAY(arena, int64_t, rank), *limits = DT_NEW_ARRAY(arena, int64_t, rank);
    for (int d = 0; d < rank; d++) {
        starts[d] = wanted[d].low - there[d].low;
        limits[d] = starts[d] + dt_range_extent(wanted[d]);
    }
    dt_attribute attributes[] = {{.i = rank, .ints = starts}, {.i = rank, .ints = limits}, {.i = 0}};
    return dt_build(builder, slice, &value, 1, attributes, part);
}

/* A slice or padding of which nothing is left to do. */
static bool does_nothing(const dt_value *value, dt_value *const *operands, int n_operands, const dt_range *part) {
    if (value->op->variadic) return n_operands == 1; /* beside each other: one */
    if (!dt_value_is(value, "slice") && !dt_value_is(value, "pad")) return false;
    for (int d = 0; d < value->shape.rank; d++)
        if (operands[0]->shape.dims[d] != dt_range_extent(part[d])) return false;
    return true;
}

static dt_status *build(shrink *s, dt_value *value, const dt_narrowing *narrowing) {
    dt_builder builder = {.function = s->function, .before = value, .locations = value->locations, .n_locations = value->n_locations};
    dt_value **operands = DT_NEW_ARRAY(s->arena, dt_value *, value->n_operands), **now = &s->now[value->id];
    int n_operands = 0;
    for (int k = 0; k < value->n_operands; k++) {
        int id = value->operands[k]->id;
        if (narrowing->operands[k] == NULL) continue;
        DT_TRY(part_of(&builder, s->now[id], s->chosen[id].part, narrowing->operands[k], &operands[n_operands++]));
    }
    if (does_nothing(value, operands, n_operands, narrowing->part)) {
        *now = operands[0];
        return NULL;
    }
    DT_TRY(dt_build(&builder, value->op, operands, n_operands, narrowing->attributes, now));
    (*now)->name = value->name;
    return NULL;
}

/* Operands as they are there will often do: a pooling does not mind a last row that it does not read. Else they are sliced to what is read. */
static dt_status *compute(shrink *s, dt_value *value) {
    const dt_narrowing *chosen = &s->chosen[value->id];
    s->now[value->id] = value;
    if (is_dead(s, value)) return NULL;
    dt_range **there = DT_NEW_ARRAY(s->arena, dt_range *, value->n_operands);
    bool whole = dt_range_is_whole(chosen->part, value->shape);
    for (int k = 0; k < value->n_operands; k++) {
        there[k] = s->chosen[value->operands[k]->id].part;
        whole = whole && there[k] != NULL && dt_range_is_whole(there[k], value->operands[k]->shape);
    }
    if (whole) {
        for (int k = 0; k < value->n_operands; k++) value->operands[k] = s->now[value->operands[k]->id];
        return NULL;
    }
    dt_narrowing as_there;
    bool fits = true;
    for (int k = 0; k < value->n_operands; k++) fits = fits && there[k] != NULL;
    fits = fits && dt_narrow(s->arena, s->function->module, value, chosen->part, there, &as_there);
    return build(s, value, fits ? &as_there : chosen);
}

static dt_status *shrink_function(dt_arena *arena, dt_function *function) {
    dt_function_sweep(function);
    dt_function_renumber(function);
    int n = function->next_id;
    shrink s = {.arena = arena,
                .function = function,
                .n = n,
                .read = DT_NEW_ARRAY(arena, dt_range *, n),
                .chosen = DT_NEW_ARRAY(arena, dt_narrowing, n),
                .now = DT_NEW_ARRAY(arena, dt_value *, n)};
    for (size_t r = 0; r < function->results.n; r++) {
        const dt_value *value = function->results.items[r].value;
        add_read(&s, value, dt_whole_range(arena, value->shape));
    }
    for (dt_value *value = function->last; value; value = value->previous) choose(&s, value);
    for (dt_value *value = function->first, *next; value; value = next) {
        next = value->next;
        DT_TRY(compute(&s, value));
    }
    for (size_t r = 0; r < function->results.n; r++) function->results.items[r].value = s.now[function->results.items[r].value->id];
    dt_function_sweep(function);
    dt_function_renumber(function);
    return NULL;
}

dt_status *dt_pass_shrink(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        DT_TRY(dt_slice_known_gathers(function));
        DT_TRY(shrink_function(compilation->arena, function));
    }
    return NULL;
}
