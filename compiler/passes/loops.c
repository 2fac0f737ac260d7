/* loops: what of a loop is more than a carry and parts of tensors in memory becomes that.
 *
 * In:  a partitioned graph whose loops are to stay (unroll).      Out: the same, whose bodies hold kernels and addresses alone:
 *
 *     the iteration's number     scanned from 0, 1, 2, …: kernels do not know which iteration they are in
 *     accumulate(x)              a carry of zeros to which x is added */
#include "compiler/passes/passes.h"
#include "ir/body.h"

static dt_builder builder_for(const dt_value *value, dt_value *before) {
    return (dt_builder){.function = before->function, .before = before, .n_locations = value->n_locations, .locations = value->locations};
}

static bool is_numbered(const dt_value *loop) {
    const dt_value *end = dt_loop_end(loop);
    for (const dt_value *value = loop->next; value != end; value = value->next)
        for (int k = 0; k < value->n_operands; k++)
            if (value->operands[k] == loop) return true;
    return false;
}

static dt_status *scan_numbers(dt_value *loop) {
    dt_value *end = dt_loop_end(loop), *numbers, *number;
    dt_builder before = builder_for(loop, loop), inside = builder_for(loop, loop->next);
    if (!is_numbered(loop)) return NULL;
    DT_TRY(dt_build_text(&before, &numbers, "iota", NULL, 0, "shape=[%lld], axis=0", (long long)dt_loop_trips(loop)));
    DT_TRY(dt_build_text(&inside, &number, "scanned", &numbers, 1, "axis=0"));
    numbers->distribution = number->distribution = loop->distribution;
    for (dt_value *value = number->next; value != end; value = value->next)
        for (int k = 0; k < value->n_operands; k++)
            if (value->operands[k] == loop) value->operands[k] = number;
    return NULL;
}

static dt_status *carry_sum(dt_value *accumulate) {
    dt_value *x = accumulate->operands[0], *loop = accumulate->operands[1], *zero, *carry, *sum, *advance, *final;
    dt_builder before = builder_for(accumulate, loop), first = builder_for(accumulate, loop->next);
    dt_builder last = builder_for(accumulate, dt_loop_end(loop)), after = builder_for(accumulate, accumulate);
    DT_TRY(dt_build_constant(&before, &zero, x->dtype, 0, x->shape));
    DT_TRY(dt_build_unary(&first, &carry, "carry", zero));
    DT_TRY(dt_build_binary(&last, &sum, "add", carry, x));
    DT_TRY(dt_build_binary(&last, &advance, "advance", carry, sum));
    DT_TRY(dt_build_unary(&after, &final, "final", carry));
    zero->distribution = carry->distribution = sum->distribution = final->distribution = accumulate->distribution;
    dt_value_replace(accumulate, final);
    dt_value_remove(accumulate);
    return NULL;
}

dt_status *dt_pass_loops(dt_compilation *compilation) {
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        if (!dt_function_has_loops(function)) continue;
        for (dt_value *value = function->first, *next; value != NULL; value = next) {
            next = value->next;
            if (dt_value_is_loop(value)) DT_TRY(scan_numbers(value));
            if (dt_value_is(value, "accumulate")) DT_TRY(carry_sum(value));
        }
        dt_function_renumber(function);
    }
    return NULL;
}
