/* fuse_zeros: how many of a value's elements are zero, as far as the graph knows.
 *
 * The gradient of a maximum over windows is zero but for one element of each, that of a relu where the relu is, that of a dropout where elements are
 * dropped: so of what goes back into a convolution with all three, one element in sixteen is something. Which ones, only the run knows; where that
 * many are zero, sums of products leave them out (choose_zeros.c). It is an estimate, and decides nothing but how fast a kernel is. */
#include "compiler/passes/fuse.h"

enum {
    MOST_STEPS = 16 /* back from a value */
};

static const dt_value *behind_shapes(const dt_value *value) {
    while (dt_value_is_alias(value) || dt_value_is(value, "broadcast")) value = value->operands[0];
    return value;
}

static bool is_zero(const dt_value *value) {
    value = behind_shapes(value);
    return dt_value_is(value, "constant") && dt_value_number(value, "value") == 0;
}

/* How many elements of a condition are true; -1: it is not known. Of what a relu or a maximum was, half was positive, as far as anybody knows. */
static double true_share(const dt_value *condition) {
    condition = behind_shapes(condition);
    if (!dt_value_is(condition, "less")) return -1;
    const dt_value *x = behind_shapes(condition->operands[0]), *y = behind_shapes(condition->operands[1]);
    if (is_zero(x)) return 0.5;
    if (!dt_value_is(x, "random_uniform") || !dt_value_is(y, "constant")) return -1;
    const double below = dt_value_number(y, "value");
    return below < 0 ? 0 : below > 1 ? 1 : below;
}

static double elements(const dt_value *value) { return (double)dt_shape_elements(value->shape, 1, 1); }

/* The share of elements that are something. */
static double density(const dt_value *value, int n_steps) {
    double share;
    if (n_steps == MOST_STEPS) return 1;
    if (dt_value_is_alias(value) || dt_value_is(value, "negate")) return density(value->operands[0], n_steps + 1);
    if (dt_value_is(value, "divide")) return density(value->operands[0], n_steps + 1);
    if (dt_value_is(value, "multiply")) return density(value->operands[dt_value_is(behind_shapes(value->operands[0]), "constant")], n_steps + 1);
    if (dt_value_is(value, "window_scatter")) return density(value->operands[0], n_steps + 1) * elements(value->operands[0]) / elements(value);
    if (!dt_value_is(value, "where") || (share = true_share(value->operands[0])) < 0) return 1;
    if (is_zero(value->operands[2])) return share * density(value->operands[1], n_steps + 1);
    return is_zero(value->operands[1]) ? (1 - share) * density(value->operands[2], n_steps + 1) : 1;
}

int dt_fusion_zeros(const dt_fusion *f, const dt_value *value) {
    return dt_switch_is_on(f->compilation->off, DT_SWITCH_ZEROS) ? (int)(100 * (1 - density(value, 0))) : 0;
}
