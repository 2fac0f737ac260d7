/* ops_loops: what the loops functions of all classes are made of; see ops.h. */
#include "ir/ops.h"

#include <assert.h>
#include <string.h>

static dt_formula *parse_body(dt_arena *arena, const dt_value *value, const char *text) {
    const char **names = DT_NEW_ARRAY(arena, const char *, value->n_operands);
    for (int i = 0; i < value->n_operands; i++)
        names[i] = value->op->variadic ? dt_arena_format(arena, "%s%d", value->op->operands[0].name, i) : value->op->operands[i].name;
    dt_formula *formula = NULL;
    dt_status *status = dt_formula_parse(arena, text, names, value->n_operands, NULL, 0, &formula);
    assert(status == NULL && "a loops function wrote a formula that does not parse");
    dt_status_free(status);
    return formula;
}

dt_access dt_access_new(dt_arena *arena, int rank, int n_loops) {
    dt_access access = {.dims = DT_NEW_ARRAY(arena, dt_index, rank)};
    for (int d = 0; d < rank; d++) access.dims[d] = (dt_index){.coefficients = DT_NEW_ARRAY(arena, int64_t, n_loops), .divisor = 1, .indirect = -1};
    return access;
}

dt_loops *dt_loops_new(dt_arena *arena, const dt_value *value, dt_shape outer, int n_reduced, const int64_t *reduced, dt_combiner combiner,
                       const char *body) {
    dt_loops *loops = DT_NEW(arena, dt_loops);
    loops->n_loops = outer.rank + n_reduced;
    loops->n_outer = outer.rank;
    loops->extents = DT_NEW_ARRAY(arena, int64_t, loops->n_loops);
    for (int l = 0; l < loops->n_loops; l++) loops->extents[l] = l < outer.rank ? outer.dims[l] : reduced[l - outer.rank];
    loops->operands = DT_NEW_ARRAY(arena, dt_access, value->n_operands);
    for (int i = 0; i < value->n_operands; i++) loops->operands[i] = dt_access_new(arena, value->operands[i]->shape.rank, loops->n_loops);
    loops->combiner = combiner;
    loops->body = body != NULL ? parse_body(arena, value, body) : dt_op_body(arena, value);
    return loops;
}

static bool may_be_outside(const dt_loops *loops, const dt_index *index, int64_t dim) {
    if (index->divisor != 1 || index->indirect >= 0) return true;
    int64_t lowest = index->offset, highest = index->offset;
    for (int l = 0; l < loops->n_loops; l++) {
        int64_t coefficient = index->coefficients[l], extent = loops->extents[l];
        if (coefficient == 0) continue;
        if (dt_dim_is_symbol(extent) || dt_dim_is_symbol(dim)) return !(coefficient == 1 && index->offset == 0 && extent == dim);
        if (extent == 0) return false; /* nothing is read at all */
        *(coefficient > 0 ? &highest : &lowest) += coefficient * (extent - 1);
    }
    return lowest < 0 || (dt_dim_is_symbol(dim) ? highest > 0 : highest >= dim);
}

static void guard(const dt_loops *loops, dt_access *access, dt_shape shape) {
    for (int d = 0; d < shape.rank; d++)
        if (may_be_outside(loops, &access->dims[d], shape.dims[d])) access->guarded = true;
}

dt_loops *dt_loops_guard(dt_loops *loops, const dt_value *value) {
    for (int i = 0; i < value->n_operands; i++) guard(loops, &loops->operands[i], value->operands[i]->shape);
    if (loops->result != NULL) guard(loops, loops->result, value->shape);
    return loops;
}
