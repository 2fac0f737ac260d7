/* widen: what is added up in memory, term by term, is added up in f32 and rounded once, as sums in registers are.
 *
 *     scatter_add(x, index)      x: bf16         convert(scatter_add(convert(x, to f32), index), to bf16)
 *     accumulate(x, loop)        x: f16          convert(accumulate(convert(x, to f32), loop), to f16)
 *
 * A sum of f16 or bf16 that is rounded at each addition stops growing: of ones at 2,048, of bf16 at 256. Other sums are complete before they are
 * stored, and collectives add up in f32 by themselves. Values of other types stay as they are. */
#include "compiler/passes/passes.h"
#include "ir/body.h"
#include "ir/loops.h"

static bool adds_in_memory(dt_arena *arena, const dt_value *value) {
    if (dt_value_is(value, "accumulate")) return true;
    const dt_loops *loops = value->op->loops != NULL ? dt_value_loops(arena, value) : NULL;
    return loops != NULL && loops->result != NULL;
}

static dt_status *widen(dt_arena *arena, dt_value *value) {
    bool of_loop = value->op->class == DT_CLASS_LOOP; /* whose body has what is added up */
    dt_builder builder = {.function = value->function, .before = value, .n_locations = value->n_locations, .locations = value->locations};
    dt_builder inside = builder;
    if (of_loop) inside.before = dt_loop_end(value->operands[1]);
    dt_value **operands = dt_arena_copy(arena, value->operands, (size_t)value->n_operands * sizeof *operands), *sum;
    for (int k = 0; k < value->n_operands; k++)
        if (dt_dtype_is_half(operands[k]->dtype)) DT_TRY(dt_build_convert(&inside, &operands[k], operands[k], DT_F32));
    DT_TRY(dt_build(&builder, value->op, operands, value->n_operands, value->attributes, &sum));
    DT_TRY(dt_build_convert(&builder, &sum, sum, value->dtype));
    dt_value_replace(value, sum);
    dt_value_remove(value);
    return NULL;
}

dt_status *dt_pass_widen(dt_compilation *compilation) {
    dt_arena *arena = compilation->arena;
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        for (dt_value *value = function->first, *next; value != NULL; value = next) {
            next = value->next;
            if (dt_dtype_is_half(value->dtype) && adds_in_memory(arena, value)) DT_TRY(widen(arena, value));
        }
        dt_function_renumber(function);
    }
    return NULL;
}
