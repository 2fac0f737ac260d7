/* rows_zero: what an update does to a row without a gradient. Followed through the forms are: what an element is at that row, where that is known. */
#include "compiler/passes/rows.h"

#include "ir/interpret.h"

#include <math.h>
#include <string.h>

/* What an element is known to be. */
typedef struct element {
    enum {
        UNKNOWN,
        KNOWN,  /* this number, signs of zeros included */
        BEFORE, /* the element of input `input`, to the bit */
        NUMBER  /* finite and not negative */
    } kind;
    double number;
    int input;
} element;

static const element unknown = {.kind = UNKNOWN};

static bool is_zero(element x, bool negative) { return x.kind == KNOWN && x.number == 0 && (signbit(x.number) != 0) == negative; }

/* Whether times it a number that is finite and not negative stays one. */
static bool shrinks(element x) { return x.kind == KNOWN && x.number >= 0 && x.number <= 1; }

/* By the row's own loops, of operands that are known. */
static dt_status *compute(dt_arena *arena, const dt_value *value, const element *operands, element *result) {
    dt_tensor *tensors = DT_NEW_ARRAY(arena, dt_tensor, value->n_operands), computed;
    dt_launch launch = {.rows = 1, .valid = 1, .global_batch = 1, .replicas = 1};
    for (int k = 0; k < value->n_operands; k++) {
        dt_shape shape = value->operands[k]->shape;
        int64_t *dims = DT_NEW_ARRAY(arena, int64_t, shape.rank);
        for (int d = 0; d < shape.rank; d++) dims[d] = dt_dim_is_symbol(shape.dims[d]) ? 1 : shape.dims[d];
        tensors[k] = dt_tensor_make(arena, value->operands[k]->dtype, (dt_shape){shape.rank, dims});
        for (size_t i = 0; i < dt_tensor_elements(&tensors[k]); i++) dt_tensor_set(&tensors[k], i, operands[k].number);
    }
    DT_TRY(dt_interpret_value(arena, value, &launch, tensors, &computed));
    *result = (element){.kind = KNOWN, .number = dt_tensor_get(&computed, 0)};
    return NULL;
}

/* Rules that hold to the bit for every element that is not known. */
static element of_two(const dt_value *value, element x, element y) {
    if (dt_value_is(value, "subtract") && x.kind == BEFORE && is_zero(y, false)) return x;
    if (dt_value_is(value, "add") && x.kind == BEFORE && is_zero(y, true)) return x;
    if (dt_value_is(value, "add") && y.kind == BEFORE && is_zero(x, true)) return y;
    if (dt_value_is(value, "multiply") && x.kind == KNOWN && x.number == 0 && y.kind == NUMBER) return x;
    if (dt_value_is(value, "multiply") && y.kind == KNOWN && y.number == 0 && x.kind == NUMBER) return y;
    if (dt_value_is(value, "multiply") && x.kind == NUMBER && shrinks(y)) return x;
    if (dt_value_is(value, "multiply") && y.kind == NUMBER && shrinks(x)) return y;
    return unknown;
}

/* Of an op whose result is exact whatever computes it. */
static dt_status *follow_value(dt_arena *arena, const dt_value *value, const element *elements, element *result) {
    element *operands = DT_NEW_ARRAY(arena, element, value->n_operands);
    bool all_known = true;
    *result = unknown;
    for (int k = 0; k < value->n_operands; k++) {
        operands[k] = elements[value->operands[k]->id];
        all_known &= operands[k].kind == KNOWN;
    }
    if (dt_value_is(value, "constant")) *result = (element){.kind = KNOWN, .number = dt_value_number(value, "value")};
    if (dt_value_is(value, "broadcast")) *result = operands[0];
    if (value->op->class != DT_CLASS_MAP) return NULL;
    if (all_known) return value->op->tolerance_ulp == 0 ? compute(arena, value, operands, result) : NULL;
    if (value->n_operands == 2) *result = of_two(value, operands[0], operands[1]);
    if (dt_value_is(value, "where") && operands[0].kind == KNOWN) *result = operands[operands[0].number != 0 ? 1 : 2];
    return NULL;
}

/* [next_id] of each value, whose inputs before the numbers are rows of variables, and the gradient's. */
static dt_status *follow(dt_arena *arena, const dt_function *function, int n_variables, double gradient, element **elements) {
    *elements = DT_NEW_ARRAY(arena, element, function->next_id);
    for (int i = 0; i < (int)function->inputs.n; i++) {
        element *input = &(*elements)[function->inputs.items[i]->id];
        if (i < n_variables) *input = (element){.kind = BEFORE, .input = i};
        if (i == n_variables) *input = (element){.kind = KNOWN, .number = gradient};
        if (i > n_variables) *input = (element){.kind = NUMBER};
    }
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (!dt_value_is(value, "input")) DT_TRY(follow_value(arena, value, *elements, &(*elements)[value->id]));
    return NULL;
}

dt_status *dt_rows_find_moves(dt_arena *arena, const dt_row_form *form, const char **moves) {
    element *elements, crossing = {.kind = KNOWN};
    *moves = NULL;
    if (form->sum != NULL) {
        DT_TRY(follow(arena, form->sum, 0, 0, &elements));
        crossing = elements[form->sum->results.items[0].value->id];
    }
    if (!is_zero(crossing, false)) {
        *moves = "makes something else of a gradient of zeros";
        return NULL;
    }
    int n_variables = 1 + (int)form->slots.n;
    DT_TRY(follow(arena, form->update, n_variables, 0, &elements));
    for (int i = 1; i <= n_variables && *moves == NULL; i++) { /* slots first: they are why the table changes */
        int r = i % n_variables;
        element becomes = elements[form->update->results.items[r].value->id];
        if (becomes.kind == BEFORE && becomes.input == r) continue;
        *moves = dt_arena_format(arena, "changes %s", r > 0 ? form->slots.items[r - 1] : "the table itself");
    }
    return NULL;
}
