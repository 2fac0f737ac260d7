/* fuse_epilogue: gelu, and gradients of gelu and relu, after products that a library may compute.
 *
 * They are recognised by what they compute, not by how they are written: a program may spell gelu as it likes, and autodiff and simplify make of its
 * gradient what they like. What follows a product is taken as a function of at most two leaves, the sum (or what becomes of it before) and a second
 * value, and compared with the function that the library has, in double, at some points. Points prove nothing of any function, but of these they do:
 *
 *   gelu, its gradient   the tree adds, multiplies, divides and calls functions of ir/functions.def, which are analytic: two such functions that are
 *                        one at points without any pattern are one, but by a coincidence that would have to be contrived; what is 0 at 0
 *                        must be so exactly, for a constant may be added against just that
 *   gradient of a relu   the tree compares its leaves with one another and with 0, and chooses among them: all that it can tell of a relu's result is
 *                        whether it is 0 or greater, and both are tried. What a library's mask says of NaN is not known
 *
 * The gradient reads what gelu was taken of, and nothing that gelu computed on its way. So of that nothing is stored for it. */
#include "compiler/passes/fuse.h"
#include "ir/evaluate.h"

#include <math.h>

enum {
    MOST_VALUES = 64, /* that follow a sum */
    SUM = 0,          /* the leaves */
    SECOND = 1
};

static const double sqrt_2_over_pi = 0.79788456080286536, cubic = 0.044715;

/* ---- trees ---- */

/* Values of equal shape, read element by element: operands stand before their users. */
typedef struct tree {
    const dt_fusion *fusion;
    const dt_value *leaves[2]; /* not looked into; the second one may be NULL */
    bool (*allows)(const dt_formula *body);
    int n;
    const dt_value *values[MOST_VALUES];
    dt_evaluation *evaluations[MOST_VALUES];
} tree;

static const dt_value *base_of(const tree *t, const dt_value *value) { return dt_placement_of(t->fusion, value)->base; }

static bool is_constant(const dt_loops *loops) { return loops->n_outer == loops->n_loops && loops->body->kind == DT_FORMULA_LITERAL; }

static bool is_elementwise(const dt_value *value, const dt_loops *loops) {
    if (loops == NULL || loops->combiner != DT_COMBINE_NONE || loops->result != NULL) return false;
    if (value->n_operands == 0) return is_constant(loops);
    for (int k = 0; k < value->n_operands; k++)
        if (!dt_access_is_in_place(loops, &loops->operands[k], value->operands[k]->shape)) return false;
    return true;
}

static int index_in(const tree *t, const dt_value *value) {
    for (int i = 0; i < t->n; i++)
        if (t->values[i] == value) return i;
    return -1;
}

/* Adds the value with all that it is made of, down to the leaves; false: there is something else at the bottom. */
static bool add_value(tree *t, const dt_value *value) {
    value = base_of(t, value);
    if (value == t->leaves[SUM] || value == t->leaves[SECOND] || index_in(t, value) >= 0) return true;
    const dt_loops *loops = dt_lowering_loops(t->fusion->lowering, value);
    if (!is_elementwise(value, loops) || !t->allows(loops->body)) return false;
    for (int k = 0; k < value->n_operands; k++)
        if (!add_value(t, value->operands[k])) return false;
    if (t->n == MOST_VALUES) return false;
    t->values[t->n++] = value;
    return true;
}

static bool prepare(tree *t) {
    for (int i = 0; i < t->n; i++) {
        const dt_value *value = t->values[i];
        dt_dtype operands[3] = {DT_F32, DT_F32, DT_F32};
        if (value->n_operands > 3) return false;
        for (int k = 0; k < value->n_operands; k++) operands[k] = value->operands[k]->dtype;
        dt_status *status = dt_evaluation_prepare(t->fusion->arena, dt_lowering_loops(t->fusion->lowering, value)->body, operands, value->dtype,
                                                  DT_ARITHMETIC_ORACLE, &t->evaluations[i]);
        if (status != NULL) {
            dt_status_free(status);
            return false;
        }
    }
    return t->n > 0;
}

static dt_scalar element_of(const tree *t, const dt_scalar *elements, const dt_scalar leaves[2], const dt_value *value) {
    value = base_of(t, value);
    return value == t->leaves[SUM] ? leaves[SUM] : value == t->leaves[SECOND] ? leaves[SECOND] : elements[index_in(t, value)];
}

/* The last value of the tree, for these leaves. */
static double evaluate(const tree *t, double sum, double second) {
    dt_scalar elements[MOST_VALUES], operands[3];
    const dt_scalar leaves[] = {{.f = sum}, {.f = second}};
    for (int i = 0; i < t->n; i++) {
        for (int k = 0; k < t->values[i]->n_operands; k++) operands[k] = element_of(t, elements, leaves, t->values[i]->operands[k]);
        elements[i] = dt_evaluate(t->evaluations[i], &(dt_evaluation_context){.operands = operands});
    }
    return elements[t->n - 1].f;
}

/* ---- what they are compared with ---- */

static double gelu(double x) { return 0.5 * x * (1 + tanh(sqrt_2_over_pi * (x + cubic * x * x * x))); }

static double gelu_slope(double x) {
    double t = tanh(sqrt_2_over_pi * (x + cubic * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt_2_over_pi * (1 + 3 * cubic * x * x);
}

static bool is_analytic(const dt_formula *node) {
    bool known = node->kind == DT_FORMULA_LITERAL || node->kind == DT_FORMULA_OPERAND || node->kind == DT_FORMULA_FUNCTION;
    if (node->kind == DT_FORMULA_SCALAR)
        known = node->scalar == DT_SCALAR_ADD || node->scalar == DT_SCALAR_SUBTRACT || node->scalar == DT_SCALAR_MULTIPLY ||
                node->scalar == DT_SCALAR_DIVIDE || node->scalar == DT_SCALAR_NEGATE || node->scalar == DT_SCALAR_FUSED;
    for (int k = 0; k < node->n_arguments; k++) known = known && is_analytic(node->arguments[k]);
    return known;
}

static bool only_compares(const dt_formula *node) {
    bool known = node->kind == DT_FORMULA_OPERAND;
    if (node->kind == DT_FORMULA_LITERAL) known = node->literal_is_integer ? node->integer == 0 : node->literal == 0;
    if (node->kind == DT_FORMULA_SCALAR)
        known = node->scalar == DT_SCALAR_SELECT || node->scalar == DT_SCALAR_LESS || node->scalar == DT_SCALAR_LESS_EQUAL ||
                node->scalar == DT_SCALAR_EQUAL || node->scalar == DT_SCALAR_NOT_EQUAL;
    for (int k = 0; k < node->n_arguments; k++) known = known && only_compares(node->arguments[k]);
    return known;
}

/* A program may give its constants as f32 holds them. The gelu by erf is a hundred times farther away, and of a small constant, added so that nothing
 * becomes 0, little is allowed: 1 + tanh alone is so inexact. */
static bool agree(double found, double wanted) { return fabs(found - wanted) <= 1e-5 * fabs(wanted) + 1e-13; }

/* Points without a pattern, within the bend of tanh and beyond it. */
static double point(int i) { return (i < 30 ? 0.37 : 1.9) * (i % 30 - 14.6180339887) + 0.0123 * i * i / 30; }

static bool is_gelu(const tree *t) {
    for (int i = 0; i < 40; i++)
        if (!agree(evaluate(t, point(i), NAN), gelu(point(i)))) return false;
    return evaluate(t, 0, NAN) == 0;
}

static bool is_gelu_gradient(const tree *t) {
    for (int i = 0; i < 40; i++) {
        double sum = 0.71 * ((i * 7) % 11 - 4.9);
        if (!agree(evaluate(t, sum, point(i)), sum * gelu_slope(point(i))) || evaluate(t, 0, point(i)) != 0) return false;
    }
    return true;
}

static bool is_relu_gradient(const tree *t) {
    static const double sums[] = {-2.5, 0, 1.25, 4}, results[] = {0, 1.25, 3};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            if (evaluate(t, sums[i], results[k]) != (results[k] > 0 ? sums[i] : 0)) return false;
    return true;
}

/* ---- finding them ---- */

static const struct {
    dt_library_activation activation;
    bool (*allows)(const dt_formula *body);
    bool (*is)(const tree *t);
} kinds[] = {
    {DT_LIBRARY_ACTIVATION_GELU, is_analytic, is_gelu},
    {DT_LIBRARY_ACTIVATION_GELU_GRADIENT, is_analytic, is_gelu_gradient},
    {DT_LIBRARY_ACTIVATION_RELU_GRADIENT, only_compares, is_relu_gradient},
};

/* All that the value is made of, element by element, and the first that is made in another way: what may be a leaf. */
static void add_candidates(tree *t, const dt_value *value) {
    value = base_of(t, value);
    if (index_in(t, value) >= 0 || t->n == MOST_VALUES) return;
    const dt_loops *loops = dt_lowering_loops(t->fusion->lowering, value);
    bool inside = is_elementwise(value, loops);
    for (int k = 0; k < value->n_operands && inside; k++) add_candidates(t, value->operands[k]);
    if (value->dtype == DT_F32 && value->n_operands > 0 && t->n < MOST_VALUES) t->values[t->n++] = value;
}

static bool is_kind(const dt_fusion *f, int kind, const dt_value *result, const dt_value *root, const dt_value *leaf, tree *t) {
    bool gradient = dt_library_is_gradient(kinds[kind].activation);
    *t = (tree){.fusion = f, .leaves = {gradient ? root : leaf, gradient ? leaf : NULL}, .allows = kinds[kind].allows};
    return leaf != result && !(gradient && leaf == root) && add_value(t, result) && prepare(t) && kinds[kind].is(t);
}

/* What library function makes `result` of the sum `root`, or of what becomes of it before; false: none. */
static bool find(const dt_fusion *f, const dt_value *result, const dt_value *root, dt_epilogue *found, tree *t) {
    tree candidates = {.fusion = f};
    if (result->dtype != DT_F32) return false;
    add_candidates(&candidates, result);
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof *kinds); kind++)
        for (int i = 0; i < candidates.n; i++) {
            const dt_value *leaf = candidates.values[i];
            if (!dt_shape_equal(leaf->shape, result->shape) || !is_kind(f, kind, result, root, leaf, t)) continue;
            bool gradient = dt_library_is_gradient(kinds[kind].activation);
            *found = (dt_epilogue){kinds[kind].activation, gradient ? root : leaf, gradient ? leaf : NULL, -1, -1};
            return true;
        }
    return false;
}

static bool is_on(const dt_fusion *f) { return dt_switch_is_on(f->compilation->off, DT_SWITCH_EPILOGUES); }

/* Not in a loop: what is kept for the gradient is another matrix in each iteration. */
bool dt_fusion_epilogue(const dt_fusion *f, const dt_fusion_group *group, dt_epilogue *epilogue) {
    const dt_output *outputs = group->cluster.outputs.items;
    size_t n = group->loop == NULL ? group->cluster.outputs.n : 0;
    tree t;
    for (size_t o = 0; o < n && n <= 2 && is_on(f); o++) {
        if (!find(f, outputs[o].value, group->cluster.roots.items[0], epilogue, &t)) continue;
        epilogue->result = outputs[o].buffer;
        if (epilogue->second != NULL) {
            epilogue->kept = f->lowering->buffers[epilogue->second->id];
            if (!dt_placement_of(f, epilogue->second)->stored || epilogue->kept < 0) return false;
        } else if (n == 2 && outputs[1 - o].value == epilogue->of) {
            epilogue->kept = outputs[1 - o].buffer;
        }
        return n == 1 || (epilogue->second == NULL && epilogue->kept >= 0);
    }
    return false;
}

bool dt_fuse_epilogues(const dt_fusion *f, bool *keep, bool *recompute) {
    bool any = false;
    for (const dt_value *value = f->lowering->function->first; value != NULL && is_on(f); value = value->next) {
        const dt_placement *placement = dt_placement_of(f, value);
        dt_epilogue epilogue;
        tree t;
        if (placement->base != value || !placement->stored || placement->group < 0) continue;
        const dt_fusion_group *group = &f->groups.items[placement->group];
        if (group->loop != NULL || !dt_fusion_wants_library(f, group)) continue;
        const dt_value *root = group->cluster.roots.items[0];
        if (value == root || !find(f, value, root, &epilogue, &t) || epilogue.activation != DT_LIBRARY_ACTIVATION_GELU_GRADIENT) continue;
        keep[epilogue.second->id] = true;
        for (int i = 0; i < t.n; i++)
            if (t.values[i] != value && !recompute[t.values[i]->id]) any = recompute[t.values[i]->id] = true;
    }
    return any;
}
