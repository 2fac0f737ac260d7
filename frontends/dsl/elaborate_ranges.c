/* elaborate_ranges: between which numbers a value lies, whatever the data, and whether it is a linear function's result: what logits are.
 *
 * A range follows from the formulas of the op table: 1 / (1 + exp(-x)) lies between 0 and 1. What a head calls a `probability` does, too, and so does
 * the share x / sum(x) of what is not negative. Where nothing is known a value may be any number. */
#include "frontends/dsl/elaborator.h"

#include <math.h>
#include <string.h>

enum {
    DEEPEST = 300 /* of values that depend on each other: further back, nothing is known */
};

static dt_value_range any(void) { return (dt_value_range){.low = -INFINITY, .high = INFINITY, .kind = DT_RANGE_OTHER}; }
static dt_value_range between(double low, double high) { return (dt_value_range){.low = low, .high = high, .kind = DT_RANGE_OTHER}; }

static bool is_bounded(dt_value_range x) { return isfinite(x.low) && isfinite(x.high); }
static bool is_number(dt_value_range x) { return x.low == x.high; }

static dt_value_range join(dt_value_range x, dt_value_range y) {
    dt_value_range both = between(fmin(x.low, y.low), fmax(x.high, y.high));
    both.kind = x.kind == y.kind ? x.kind : x.kind == DT_RANGE_NEUTRAL ? y.kind : y.kind == DT_RANGE_NEUTRAL ? x.kind : DT_RANGE_OTHER;
    return both;
}

/* ---- formulas ---- */

/* Products and quotients of ends; 0 times infinity is 0, since an end that is infinite is not reached. */
static dt_value_range of_corners(dt_value_range x, dt_value_range y, bool divides) {
    double a[] = {x.low, x.high}, b[] = {y.low, y.high}, low = INFINITY, high = -INFINITY;
    for (int i = 0; i < 4; i++) {
        double corner = divides ? a[i & 1] / b[i >> 1] : a[i & 1] * b[i >> 1];
        if (isnan(corner)) corner = 0;
        low = fmin(low, corner);
        high = fmax(high, corner);
    }
    return between(low, high);
}

static dt_value_range of_scalar(dt_scalar_op scalar, const dt_value_range *x) {
    switch (scalar) {
    case DT_SCALAR_ADD: return between(x[0].low + x[1].low, x[0].high + x[1].high);
    case DT_SCALAR_SUBTRACT: return between(x[0].low - x[1].high, x[0].high - x[1].low);
    case DT_SCALAR_MULTIPLY: return of_corners(x[0], x[1], false);
    case DT_SCALAR_DIVIDE: return x[1].low > 0 || x[1].high < 0 ? of_corners(x[0], x[1], true) : any();
    case DT_SCALAR_NEGATE: return between(-x[0].high, -x[0].low);
    case DT_SCALAR_MINIMUM: return between(fmin(x[0].low, x[1].low), fmin(x[0].high, x[1].high));
    case DT_SCALAR_MAXIMUM: return between(fmax(x[0].low, x[1].low), fmax(x[0].high, x[1].high));
    case DT_SCALAR_ABSOLUTE: return between(x[0].low > 0 ? x[0].low : 0, fmax(fabs(x[0].low), fabs(x[0].high)));
    case DT_SCALAR_SELECT: return join(x[1], x[2]);
    default: return any();
    }
}

/* Of those that grow with their argument. */
static dt_value_range of_function(int index, dt_value_range x) {
    static const char *const growing[] = {"exp", "expm1", "log", "log1p", "tanh", "erf"};
    const dt_scalar_function *function = dt_scalar_function_at((size_t)index);
    for (size_t i = 0; i < sizeof growing / sizeof *growing; i++) {
        if (strcmp(function->name, growing[i]) != 0) continue;
        double low = function->oracle(x.low, 0), high = function->oracle(x.high, 0);
        return between(isnan(low) ? -INFINITY : low, isnan(high) ? INFINITY : high);
    }
    return any();
}

static dt_value_range of_formula(const dt_formula *formula, const dt_value_range *operands) {
    dt_value_range arguments[3];
    for (int i = 0; i < formula->n_arguments; i++) arguments[i] = of_formula(formula->arguments[i], operands);
    switch (formula->kind) {
    case DT_FORMULA_LITERAL: return between(formula->literal, formula->literal);
    case DT_FORMULA_OPERAND: return operands[formula->index];
    case DT_FORMULA_SCALAR: return of_scalar(formula->scalar, arguments);
    case DT_FORMULA_CONVERT: return arguments[0];
    case DT_FORMULA_FUNCTION: return formula->n_arguments == 1 ? of_function(formula->index, arguments[0]) : any();
    default: return any();
    }
}

/* Sums, differences and multiples of linear values are linear. */
static dt_range_kind kind_of(const dt_value *value, const dt_value_range *x) {
    bool is_linear = (value->op->algebra & DT_OP_LINEAR) != 0, is_divisor = strcmp(value->op->formula, "x / y") == 0;
    bool is_product = strcmp(value->op->formula, "x * y") == 0;
    int n_linear = 0, n_neutral = 0;
    for (int i = 0; i < value->n_operands; i++) n_linear += x[i].kind == DT_RANGE_LINEAR, n_neutral += x[i].kind == DT_RANGE_NEUTRAL;
    if (!is_linear || n_linear + n_neutral < value->n_operands) return DT_RANGE_OTHER;
    if (n_linear == 0) return DT_RANGE_NEUTRAL;
    bool is_scaled = !is_product || n_linear == 1;
    return is_scaled && (!is_divisor || x[1].kind == DT_RANGE_NEUTRAL) ? DT_RANGE_LINEAR : DT_RANGE_OTHER;
}

/* ---- values ---- */

typedef struct walk {
    dt_elaborator *e;
    dt_value_range *found; /* [ids] */
    bool *is_found;
} walk;

static dt_value_range find(walk *w, const dt_value *value, int depth);

static bool is_sum(const dt_value *value) { return value->op->class == DT_CLASS_REDUCE && strcmp(value->op->formula, "sum") == 0; }

/* The same value, or the same function of the same values: a text may say exp(x) twice. */
static bool is_same(const dt_value *a, const dt_value *b) {
    bool same = a->op == b->op && a->op->class == DT_CLASS_MAP && a->op->n_attributes == 0;
    for (int i = 0; same && i < a->n_operands; i++) same = a->operands[i] == b->operands[i];
    return same || a == b;
}

static const dt_value *before_moves(const dt_value *value) {
    while (value->op->class == DT_CLASS_MOVE) value = value->operands[0];
    return value;
}

/* x / sum(x), of what is not negative: written by hand, a softmax is that. */
static bool is_share(walk *w, const dt_value *value, int depth) {
    if (strcmp(value->op->formula, "x / y") != 0) return false;
    const dt_value *sum = before_moves(value->operands[1]);
    return is_sum(sum) && is_same(sum->operands[0], value->operands[0]) && find(w, value->operands[0], depth).low >= 0;
}

/* x - log(sum(exp(x))), the logarithm of a share. */
static bool is_logarithm_of_share(const dt_value *value) {
    if (strcmp(value->op->formula, "x - y") != 0) return false;
    const dt_value *log = before_moves(value->operands[1]);
    const dt_value *sum = strcmp(log->op->formula, "log(x)") == 0 ? before_moves(log->operands[0]) : NULL;
    const dt_value *exp = sum != NULL && is_sum(sum) ? sum->operands[0] : NULL;
    return exp != NULL && strcmp(exp->op->formula, "exp(x)") == 0 && is_same(exp->operands[0], value->operands[0]);
}

static dt_value_range of_map(walk *w, const dt_value *value, int depth) {
    const char *names[DT_MOST_ATTRIBUTES];
    dt_value_range operands[3];
    dt_formula *formula;
    if (value->n_operands == 0 || value->n_operands > 3) return any();
    for (int i = 0; i < value->n_operands; i++) {
        names[i] = value->op->operands[i].name;
        operands[i] = find(w, value->operands[i], depth);
    }
    if (is_share(w, value, depth)) return between(0, 1);
    if (is_logarithm_of_share(value)) return between(-INFINITY, 0);
    dt_value_range range = operands[0];
    if (value->op->n_attributes == 0) {
        dt_status *status = dt_formula_parse(w->e->arena, value->op->formula, names, value->n_operands, NULL, 0, &formula);
        range = status == NULL ? of_formula(formula, operands) : any();
        dt_status_free(status);
    } else if (value->op->n_attributes > 1 || dt_op_attribute_index(value->op, "to") < 0) {
        range = any();
    }
    range.kind = kind_of(value, operands);
    return range;
}

static dt_value_range of_read(walk *w, const dt_value *value) {
    dt_value_range range = any();
    const dt_variable *variable = dt_value_is(value, "read") ? dt_module_find_variable(w->e->module, dt_value_string(value, "variable")) : NULL;
    if (variable != NULL && variable->kind == DT_VARIABLE_PARAMETER) range.kind = DT_RANGE_NEUTRAL;
    return range;
}

/* What a parameter's product with anything gives may be any number. */
static dt_value_range of_product(walk *w, const dt_value *value, int depth) {
    dt_value_range range = any();
    for (int i = 0; i < value->n_operands; i++)
        if (find(w, value->operands[i], depth).kind == DT_RANGE_NEUTRAL) range.kind = DT_RANGE_LINEAR;
    return range;
}

/* Of a sum over dimensions that are known: as many times as there are terms. */
static dt_value_range of_sum(walk *w, const dt_value *value, int depth) {
    const dt_shape from = value->operands[0]->shape, to = value->shape;
    double n = (double)dt_shape_elements_per_row(from) / (double)dt_shape_elements_per_row(to);
    if (dt_shape_count(from, DT_BATCH) != dt_shape_count(to, DT_BATCH) || !(n >= 1)) return any();
    dt_value_range term = find(w, value->operands[0], depth), range = between(n * term.low, n * term.high);
    range.kind = term.kind;
    return range;
}

static dt_value_range of_value(walk *w, const dt_value *value, int depth) {
    if (depth > DEEPEST) return any();
    if (value->dtype == DT_BOOL) return between(0, 1);
    dt_value_range range;
    switch (value->op->class) {
    case DT_CLASS_MAP: return of_map(w, value, depth + 1);
    case DT_CLASS_CONTRACT: return of_product(w, value, depth + 1);
    case DT_CLASS_STATE: return of_read(w, value);
    case DT_CLASS_SOURCE:
        if (dt_op_attribute_index(value->op, "value") < 0) return any();
        range = between(dt_value_number(value, "value"), dt_value_number(value, "value"));
        range.kind = DT_RANGE_NEUTRAL;
        return range;
    case DT_CLASS_MOVE:
        range = find(w, value->operands[0], depth + 1);
        for (int i = 1; i < value->n_operands; i++) range = join(range, find(w, value->operands[i], depth + 1));
        return range;
    case DT_CLASS_INDEX: return value->op->infer != NULL && value->op->operands[0].like == 0 ? find(w, value->operands[0], depth + 1) : any();
    case DT_CLASS_REDUCE:
        if (is_sum(value)) return of_sum(w, value, depth + 1);
        /* fall through */
    case DT_CLASS_WINDOW:
        if (strcmp(value->op->formula, "max") != 0 && strcmp(value->op->formula, "min") != 0) return any();
        return find(w, value->operands[0], depth + 1);
    default: return any();
    }
}

static dt_value_range find(walk *w, const dt_value *value, int depth) {
    if (w->is_found[value->id]) return w->found[value->id];
    bool is_declared = false;
    for (size_t i = 0; i < w->e->step->probabilities.n; i++) is_declared |= w->e->step->probabilities.items[i] == value;
    dt_value_range range = is_declared ? between(0, 1) : of_value(w, value, depth);
    w->is_found[value->id] = true;
    return w->found[value->id] = range;
}

dt_value_range dt_find_range(dt_elaborator *e, const dt_value *value) {
    size_t n = (size_t)value->function->next_id;
    if (e->step == NULL) return any();
    walk w = {e, DT_NEW_ARRAY(e->arena, dt_value_range, n), DT_NEW_ARRAY(e->arena, bool, n)};
    return find(&w, value, 0);
}

bool dt_is_probability(dt_value_range range) { return is_bounded(range) && !is_number(range) && range.low >= 0 && range.high <= 1; }
