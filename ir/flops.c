/* flops: see the header. Loops over B give the part per row; everything is asked of the loops, nothing of the op. */
#include "ir/flops.h"

#include "ir/body.h"

static bool is_work(const dt_formula *node) {
    if (node->kind == DT_FORMULA_SCALAR) return dt_scalar_precision(node->scalar) == DT_PRECISION_F32; /* rounding is a conversion, as it were */
    return node->kind == DT_FORMULA_FUNCTION;
}

/* Formulas are small: a shared subtree that is counted twice changes a count by one or two. */
static double work_of_formula(const dt_formula *node) {
    double work = is_work(node) ? 1 : 0;
    for (int i = 0; i < node->n_arguments; i++) work += work_of_formula(node->arguments[i]);
    return work;
}

/* How many points of a sum there are for each that adds to it: where an index is divided, all others leave a remainder and read the zeros outside. */
static double points_for_one(const dt_value *value, const dt_loops *loops) {
    double most = 1;
    for (int k = 0; k < value->n_operands && loops->combiner == DT_COMBINE_SUM; k++) {
        double points = 1;
        for (int d = 0; d < value->operands[k]->shape.rank; d++) points *= (double)loops->operands[k].dims[d].divisor;
        if (loops->operands[k].outside.i == 0 && points > most) most = points;
    }
    return most;
}

dt_flops dt_flops_of_value(dt_arena *arena, const dt_value *value) {
    dt_flops flops = {0};
    if (value->op->class == DT_CLASS_RANDOM || value->op->class == DT_CLASS_SOURCE) return flops;
    const dt_loops *loops = dt_value_loops(arena, value);
    if (loops == NULL) return flops;
    double points = 1 / points_for_one(value, loops);
    int n_symbols = 0;
    for (int l = 0; l < loops->n_loops; l++) {
        if (dt_dim_is_symbol(loops->extents[l]))
            n_symbols++;
        else
            points *= (double)loops->extents[l];
    }
    double work = points * (work_of_formula(loops->body) + (loops->combiner != DT_COMBINE_NONE || loops->result ? 1 : 0));
    *(n_symbols == 0 ? &flops.fixed : n_symbols == 1 ? &flops.per_row : &flops.per_pair) = work;
    return flops;
}

dt_flops dt_flops_of_function(dt_arena *arena, const dt_function *function) {
    dt_flops total = {0};
    dt_value **bodies = DT_NEW_ARRAY(arena, dt_value *, function->next_id);
    dt_function_find_bodies(function, bodies);
    for (const dt_value *value = function->first; value; value = value->next) {
        dt_flops flops = dt_flops_of_value(arena, value);
        double times = 1;
        for (const dt_value *loop = bodies[value->id]; loop != NULL; loop = bodies[loop->id]) times *= (double)dt_loop_trips(loop);
        total.per_row += times * flops.per_row;
        total.per_pair += times * flops.per_pair;
        total.fixed += times * flops.fixed;
    }
    return total;
}

static void print_number(dt_text *text, double flops) {
    if (flops >= 1e9)
        dt_text_format(text, "%.2f GFLOP", flops / 1e9);
    else if (flops >= 1e6)
        dt_text_format(text, "%.2f MFLOP", flops / 1e6);
    else
        dt_text_format(text, "%.0f FLOP", flops);
}

void dt_flops_print(dt_text *text, dt_flops flops) {
    print_number(text, flops.per_row);
    dt_text_append(text, " an example");
    if (flops.per_pair > 0) {
        dt_text_append(text, flops.fixed > 0 ? ", " : " and ");
        print_number(text, flops.per_pair);
        dt_text_append(text, " a pair of examples");
    }
    if (flops.fixed == 0) return;
    dt_text_append(text, " and ");
    print_number(text, flops.fixed);
    dt_text_append(text, " a step");
}
