/* elaborate_arithmetic: operators. Numbers are computed here and now; with a tensor on one side the operator becomes an op, the other side is
 * broadcast, and a literal takes its neighbour's type. Nothing else is converted silently, but integers that are only compared. */
#include "frontends/dsl/elaborator.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

static bool compare_numbers(dt_token_kind operator, double a, double b) {
    switch (operator) {
    case DT_TOKEN_LESS: return a < b;
    case DT_TOKEN_LESS_EQUAL: return a <= b;
    case DT_TOKEN_GREATER: return a > b;
    default: return a >= b;
    }
}

static int64_t floor_quotient(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static bool power_of_ints(int64_t base, int64_t exponent, int64_t *result) {
    *result = 1;
    if (base == 0 || base == 1 || base == -1) {
        *result = base == 0 ? exponent == 0 : exponent % 2 == 0 ? 1 : base;
        return true;
    }
    for (int64_t i = 0; i < exponent; i++)
        if (__builtin_mul_overflow(*result, base, result)) return false;
    return true;
}

static dt_object binary_ints(dt_elaborator *e, dt_token_kind operator, int64_t a, int64_t b) {
    int64_t r = 0;
    bool fits = true;
    bool divides = operator== DT_TOKEN_SLASH || operator== DT_TOKEN_DOUBLE_SLASH || operator== DT_TOKEN_PERCENT;
    if (divides && b == 0) return dt_elaborator_fail(e, "division by 0");
    switch (operator) {
    case DT_TOKEN_PLUS: fits = !__builtin_add_overflow(a, b, &r); break;
    case DT_TOKEN_MINUS: fits = !__builtin_sub_overflow(a, b, &r); break;
    case DT_TOKEN_STAR: fits = !__builtin_mul_overflow(a, b, &r); break;
    case DT_TOKEN_SLASH: return dt_object_float((double)a / (double)b);
    case DT_TOKEN_DOUBLE_SLASH:
        fits = !(a == INT64_MIN && b == -1);
        if (fits) r = floor_quotient(a, b);
        break;
    case DT_TOKEN_PERCENT:
        if (b != -1) r = a - floor_quotient(a, b) * b;
        break;
    case DT_TOKEN_DOUBLE_STAR:
        if (b < 0) return dt_object_float(pow((double)a, (double)b));
        fits = power_of_ints(a, b, &r);
        break;
    case DT_TOKEN_LESS: return dt_object_bool(a < b);
    case DT_TOKEN_LESS_EQUAL: return dt_object_bool(a <= b);
    case DT_TOKEN_GREATER: return dt_object_bool(a > b);
    case DT_TOKEN_GREATER_EQUAL: return dt_object_bool(a >= b);
    default: return dt_elaborator_fail(e, "%s works on tensors", dt_token_spelling(operator));
    }
    if (!fits) return dt_elaborator_fail(e, "%lld %s %lld does not fit in 64 bits", (long long)a, dt_token_spelling(operator), (long long)b);
    return dt_object_int(r);
}

static dt_object binary_floats(dt_elaborator *e, dt_token_kind operator, double a, double b) {
    bool divides = operator== DT_TOKEN_SLASH || operator== DT_TOKEN_DOUBLE_SLASH || operator== DT_TOKEN_PERCENT;
    if (divides && b == 0) return dt_elaborator_fail(e, "division by 0");
    switch (operator) {
    case DT_TOKEN_PLUS: return dt_object_float(a + b);
    case DT_TOKEN_MINUS: return dt_object_float(a - b);
    case DT_TOKEN_STAR: return dt_object_float(a * b);
    case DT_TOKEN_SLASH: return dt_object_float(a / b);
    case DT_TOKEN_DOUBLE_SLASH: return dt_object_float(floor(a / b));
    case DT_TOKEN_PERCENT: return dt_object_float(a - floor(a / b) * b);
    case DT_TOKEN_DOUBLE_STAR: return dt_object_float(pow(a, b));
    case DT_TOKEN_AT: return dt_elaborator_fail(e, "@ works on tensors");
    default: return dt_object_bool(compare_numbers(operator, a, b));
    }
}

static dt_object no_operator(dt_elaborator *e, dt_token_kind operator, dt_object a, dt_object b) {
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s does not work on %s and %s", dt_token_spelling(operator),
                                               dt_object_describe(e->arena, a), dt_object_describe(e->arena, b));
    if (a.kind == DT_OBJECT_BATCH || b.kind == DT_OBJECT_BATCH)
        dt_diagnostic_help(error, "B is a dimension, not a number: count(x) counts the valid elements of a tensor");
    if (a.kind == DT_OBJECT_FUNCTION || b.kind == DT_OBJECT_FUNCTION) dt_diagnostic_help(error, "call the function first");
    return dt_poison();
}

static dt_object join_items(dt_elaborator *e, dt_object a, dt_object b) {
    size_t n = a.items->n + b.items->n;
    if (n > DT_MOST_ITEMS) return dt_elaborator_fail(e, "the list is longer than %d", DT_MOST_ITEMS);
    dt_elaborator_charge(e, n);
    dt_object *items = DT_NEW_ARRAY(e->arena, dt_object, n);
    for (size_t i = 0; i < n; i++) items[i] = i < a.items->n ? a.items->items[i] : b.items->items[i - a.items->n];
    return dt_object_items(e->arena, DT_OBJECT_LIST, items, n);
}

static dt_object join_strings(dt_elaborator *e, const char *a, const char *b) {
    if (strlen(a) + strlen(b) > DT_MOST_ITEMS) return dt_elaborator_fail(e, "the string is longer than %d", DT_MOST_ITEMS);
    dt_elaborator_charge(e, strlen(a) + strlen(b));
    return dt_object_string(dt_arena_format(e->arena, "%s%s", a, b));
}

static dt_object binary_known(dt_elaborator *e, dt_token_kind operator, dt_object a, dt_object b) {
    if (operator== DT_TOKEN_EQUAL_EQUAL || operator== DT_TOKEN_NOT_EQUAL)
        return dt_object_bool(dt_object_equal(a, b) == (operator== DT_TOKEN_EQUAL_EQUAL));
    if (a.kind == DT_OBJECT_INT && b.kind == DT_OBJECT_INT) return binary_ints(e, operator, a.i, b.i);
    if (dt_is_number(a) && dt_is_number(b)) return binary_floats(e, operator, dt_object_number(a), dt_object_number(b));
    if (operator== DT_TOKEN_PLUS && a.kind == DT_OBJECT_LIST && b.kind == DT_OBJECT_LIST) return join_items(e, a, b);
    if (operator== DT_TOKEN_PLUS && a.kind == DT_OBJECT_STRING && b.kind == DT_OBJECT_STRING) return join_strings(e, a.text, b.text);
    return no_operator(e, operator, a, b);
}

/* ---- tensors: elementwise ---- */

static bool is_comparison(const dt_op *op) {
    static const char *const names[] = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return false;
}

/* The type that the operands sharing a word of the signature get. DT_N_DTYPES: they do not agree, reported. */
static dt_dtype agree(dt_elaborator *e, const dt_op *op, const char *what, const dt_object *operands, size_t n, const char *word) {
    dt_object fixed = dt_poison();
    bool has_float = false, has_bool = false, has_flexible = false;
    dt_dtype flexible_type = DT_I64;
    for (size_t k = 0; k < n; k++) {
        if (strcmp(op->operands[k].type, word) != 0) continue;
        has_float |= operands[k].kind == DT_OBJECT_FLOAT;
        has_bool |= operands[k].kind == DT_OBJECT_BOOL;
        if (operands[k].kind != DT_OBJECT_TENSOR) continue;
        if (operands[k].flexible && operands[k].value->dtype != DT_BOOL) {
            has_flexible = true;
            if (dt_dtype_is_float(operands[k].value->dtype)) flexible_type = operands[k].value->dtype;
            continue;
        }
        if (dt_is_poison(fixed)) fixed = operands[k];
        dt_dtype a = fixed.value->dtype, b = operands[k].value->dtype;
        if (a == b) continue;
        if (is_comparison(op) && dt_dtype_kind(a) == 'i' && dt_dtype_kind(b) == 'i') return DT_I64;
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s: %s and %s are of different types", what, dt_object_describe(e->arena, fixed),
                                                   dt_object_describe(e->arena, operands[k]));
        dt_diagnostic_help(error, "convert one of them: %s(x)", dt_dtype_name(dt_dtype_is_float(b) ? b : a));
        return DT_N_DTYPES;
    }
    if (!dt_is_poison(fixed)) return fixed.value->dtype;
    if (has_bool) return DT_BOOL;
    if (has_flexible && flexible_type != DT_I64) return flexible_type;
    return has_float || strcmp(word, "float") == 0 ? DT_F32 : DT_I64;
}

/* An operand in the type that was agreed on; literals in the shape of the result at once. */
static dt_object prepare(dt_elaborator *e, const char *what, dt_object operand, dt_dtype dtype, dt_shape shape) {
    if (operand.kind == DT_OBJECT_TENSOR) {
        dt_object converted = operand;
        if (operand.flexible || dt_dtype_kind(operand.value->dtype) == 'i') converted = dt_emit_convert(e, operand.value, dtype);
        return dt_is_poison(converted) ? converted : dt_emit_broadcast(e, converted.value, shape);
    }
    if (dt_literal_fits(operand, dtype)) return dt_emit_constant(e, dtype, operand, shape);
    if (operand.kind != DT_OBJECT_FLOAT && operand.kind != DT_OBJECT_INT && operand.kind != DT_OBJECT_BOOL)
        return dt_elaborator_fail(e, "%s works on tensors and numbers, not on %s", what, dt_object_describe(e->arena, operand));
    if (operand.kind == DT_OBJECT_INT && dt_dtype_kind(dtype) == 'i') {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s: %s", what, dt_literal_misfit(e, operand, dtype));
        dt_diagnostic_help(error, "a literal takes its neighbour's type: convert the tensor first, %s(x)",
                           dt_dtype_name(dt_literal_fits(operand, DT_I32) ? DT_I32 : DT_I64));
        return dt_poison();
    }
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s: the literal %s beside elements of type %s", what, dt_object_describe(e->arena, operand),
                                               dt_dtype_name(dtype));
    if (dtype != DT_BOOL) dt_diagnostic_help(error, "a literal takes its neighbour's type: convert the tensor first, f32(x)");
    if (dtype == DT_BOOL) dt_diagnostic_help(error, "convert the bool first: f32(x), i32(x)");
    return dt_poison();
}

/* The operands of a word of the signature agreed on a type that it does not take. */
static dt_object refuse_type(dt_elaborator *e, const char *what, const char *word, dt_dtype dtype) {
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s works on %ss, not on %s", what, word, dt_dtype_name(dtype));
    if (strcmp(word, "float") == 0) dt_diagnostic_help(error, "convert it first: f32(x)");
    if (strcmp(word, "number") == 0) dt_diagnostic_help(error, "convert it first: f32(x), i32(x)");
    if (strcmp(word, "bool") == 0) dt_diagnostic_help(error, "compare it: x != 0");
    return dt_poison();
}

/* The operands, those that are tensors in one type where mixed precision has two. */
static const dt_object *mixed_operands(dt_elaborator *e, const dt_op *op, const dt_object *operands, size_t n) {
    if (!dt_is_mixed(e)) return operands;
    dt_object *mixed = dt_arena_copy(e->arena, operands, n * sizeof *mixed);
    dt_value **values = DT_NEW_ARRAY(e->arena, dt_value *, n);
    for (size_t k = 0; k < n; k++) values[k] = mixed[k].kind == DT_OBJECT_TENSOR && !mixed[k].flexible ? mixed[k].value : NULL;
    bool fits = dt_mix(e, op, values, (int)n);
    for (size_t k = 0; k < n; k++)
        if (values[k] != NULL) mixed[k] = fits ? dt_object_tensor(values[k]) : dt_poison();
    return mixed;
}

static dt_object elementwise(dt_elaborator *e, const dt_op *op, const char *what, const dt_object *operands, size_t n) {
    dt_shape shape = dt_shape_scalar();
    bool flexible = true;
    if (!dt_report_meets(e, operands, n)) return dt_poison();
    operands = mixed_operands(e, op, operands, n);
    for (size_t k = 0; k < n; k++) {
        if (dt_is_poison(operands[k])) return dt_poison();
        if (operands[k].kind != DT_OBJECT_TENSOR) continue;
        flexible &= operands[k].flexible;
        if (!dt_broadcast_shapes(e, shape, operands[k].value->shape, &shape, what)) return dt_poison();
    }
    dt_value **values = DT_NEW_ARRAY(e->arena, dt_value *, n);
    for (size_t k = 0; k < n; k++) {
        dt_dtype dtype = agree(e, op, what, operands, n, op->operands[k].type);
        if (dtype == DT_N_DTYPES) return dt_poison();
        if (!dt_type_word_holds(op->operands[k].type, dtype)) return refuse_type(e, what, op->operands[k].type, dtype);
        dt_object prepared = prepare(e, what, operands[k], dtype, shape);
        if (dt_is_poison(prepared)) return prepared;
        values[k] = prepared.value;
    }
    dt_object result = dt_emit(e, op->name, values, (int)n, NULL, 0);
    result.flexible = result.kind == DT_OBJECT_TENSOR && flexible;
    return result;
}

dt_object dt_elementwise(dt_elaborator *e, const dt_op *op, const dt_object *operands, size_t n) {
    dt_object *settled = DT_NEW_ARRAY(e->arena, dt_object, n);
    for (size_t k = 0; k < n; k++) settled[k] = dt_settle(e, operands[k]);
    if ((int)n != op->n_operands || op->n_attributes > 0)
        return dt_elaborator_fail(e, "%s takes %d argument%s, here are %zu", op->name, op->n_operands, dt_plural(op->n_operands), n);
    for (size_t k = 0; k < n; k++)
        if (dt_is_poison(settled[k])) return settled[k];
    bool known;
    dt_object number = dt_number_function(e, op, settled, n, &known);
    if (known) return number;
    if (n == 1 && settled[0].kind == DT_OBJECT_TREE)
        return dt_tree_map(e, (dt_object){.kind = DT_OBJECT_FUNCTION, .callee = &(dt_callee){.name = op->name, .op = op}}, settled, 1);
    return elementwise(e, op, op->name, settled, n);
}

/* ---- tensors: matrix product ---- */

/* a [.., M, K] @ b [K, N] or [.., K, N]; leading dimensions broadcast. */
static dt_object matrix_product(dt_elaborator *e, dt_object a, dt_object b) {
    if (a.kind != DT_OBJECT_TENSOR || b.kind != DT_OBJECT_TENSOR) return no_operator(e, DT_TOKEN_AT, a, b);
    dt_value *x = a.value, *y = b.value;
    if (x->shape.rank < 2 || y->shape.rank < 2) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "@ multiplies matrices, here are %s and %s", dt_object_describe(e->arena, a),
                                                   dt_object_describe(e->arena, b));
        dt_diagnostic_help(error, "make a vector a matrix: x[newaxis, :]; the product of two vectors is sum(x * y)");
        return dt_poison();
    }
    bool transposed = strcmp(y->op->name, "transpose") == 0 && y->shape.rank == 2; /* x @ w.T reads w in place */
    if (transposed) y = y->operands[0];
    int64_t inner = x->shape.dims[x->shape.rank - 1], other = y->shape.dims[transposed ? 1 : y->shape.rank - 2];
    if (inner != other) {
        dt_diagnostic *error =
            dt_elaborator_error(e, e->at, "@: %s and %s do not fit", dt_object_describe(e->arena, a), dt_object_describe(e->arena, b));
        dt_diagnostic_note(error, "the last dimension of the left side must equal the last but one of the right side");
        int64_t outer = y->shape.dims[transposed ? y->shape.rank - 2 : y->shape.rank - 1];
        if (outer == inner)
            dt_diagnostic_help(error, "transpose the right side: x @ w.T");
        else
            dt_diagnostic_help(error, "reshape(x, [B, …]) or another size of the right side makes them equal");
        return dt_poison();
    }
    if (y->shape.rank > 2) {
        dt_shape lead_x = {x->shape.rank - 2, x->shape.dims}, lead_y = {y->shape.rank - 2, y->shape.dims}, lead;
        if (!dt_broadcast_shapes(e, lead_x, lead_y, &lead, "@")) return dt_poison();
        dt_value **sides[] = {&x, &y};
        for (int i = 0; i < 2; i++) {
            dt_shape own = (*sides[i])->shape;
            int64_t *dims = DT_NEW_ARRAY(e->arena, int64_t, lead.rank + 2);
            if (lead.rank > 0) memcpy(dims, lead.dims, (size_t)lead.rank * sizeof *dims);
            memcpy(dims + lead.rank, own.dims + own.rank - 2, 2 * sizeof *dims);
            dt_object side = dt_emit_broadcast(e, *sides[i], (dt_shape){lead.rank + 2, dims});
            if (dt_is_poison(side)) return side;
            *sides[i] = side.value;
        }
    }
    dt_named_attribute setting = {"transpose_b", {.i = transposed}};
    return dt_emit(e, "matmul", (dt_value *[]){x, y}, 2, &setting, 1);
}

/* ---- all ---- */

static const struct {
    dt_token_kind operator;
    const char *op;
} ops_of_operators[] = {
    {DT_TOKEN_PLUS, "add"},
    {DT_TOKEN_MINUS, "subtract"},
    {DT_TOKEN_STAR, "multiply"},
    {DT_TOKEN_SLASH, "divide"},
    {DT_TOKEN_DOUBLE_SLASH, "floor_divide"},
    {DT_TOKEN_PERCENT, "remainder"},
    {DT_TOKEN_DOUBLE_STAR, "power"},
    {DT_TOKEN_EQUAL_EQUAL, "equal"},
    {DT_TOKEN_NOT_EQUAL, "not_equal"},
    {DT_TOKEN_LESS, "less"},
    {DT_TOKEN_LESS_EQUAL, "less_equal"},
    {DT_TOKEN_GREATER, "greater"},
    {DT_TOKEN_GREATER_EQUAL, "greater_equal"},
};

dt_object dt_binary(dt_elaborator *e, dt_token_kind operator, dt_object a, dt_object b) {
    if (dt_is_poison(a) || dt_is_poison(b)) return dt_poison();
    bool equality = operator== DT_TOKEN_EQUAL_EQUAL || operator== DT_TOKEN_NOT_EQUAL;
    if (equality && (a.kind == DT_OBJECT_NONE || b.kind == DT_OBJECT_NONE)) return binary_known(e, operator, a, b);
    if (a.kind == DT_OBJECT_TREE || b.kind == DT_OBJECT_TREE) return dt_tree_binary(e, operator, a, b);
    if (a.kind != DT_OBJECT_TENSOR && b.kind != DT_OBJECT_TENSOR) return binary_known(e, operator, a, b);
    if (operator== DT_TOKEN_AT) return matrix_product(e, a, b);
    dt_object other = a.kind == DT_OBJECT_TENSOR ? b : a;
    if (other.kind != DT_OBJECT_TENSOR && !dt_is_number(other) && other.kind != DT_OBJECT_BOOL) return no_operator(e, operator, a, b);
    if (operator== DT_TOKEN_DOUBLE_STAR && dt_is_number(b)) { /* the powers that take no logarithm */
        double power = dt_object_number(b);
        if (power == 0.5 && dt_dtype_is_float(a.value->dtype)) return dt_emit_unary(e, "sqrt", a.value);
        dt_object square = power == 2 || power == 3 || power == 4 ? dt_emit_unary(e, "square", a.value) : a;
        if (power == 2 || dt_is_poison(square)) return square;
        if (power == 3) return dt_binary(e, DT_TOKEN_STAR, square, a);
        if (power == 4) return dt_emit_unary(e, "square", square.value);
    }
    for (size_t i = 0; i < sizeof ops_of_operators / sizeof *ops_of_operators; i++)
        if (ops_of_operators[i].operator== operator)
            return elementwise(e, dt_op_find(ops_of_operators[i].op), dt_token_spelling(operator), (dt_object[]){a, b}, 2);
    return no_operator(e, operator, a, b);
}

dt_object dt_negate(dt_elaborator *e, dt_object a) {
    if (a.kind == DT_OBJECT_INT && a.i != INT64_MIN) return dt_object_int(-a.i);
    if (a.kind == DT_OBJECT_FLOAT) return dt_object_float(-a.f);
    if (a.kind == DT_OBJECT_TREE) return dt_tree_binary(e, DT_TOKEN_MINUS, dt_object_int(0), a);
    if (dt_is_poison(a)) return a;
    if (a.kind != DT_OBJECT_TENSOR) return dt_elaborator_fail(e, "- does not work on %s", dt_object_describe(e->arena, a));
    dt_object result = dt_emit_unary(e, "negate", a.value);
    result.flexible = a.flexible && !dt_is_poison(result);
    return result;
}

dt_object dt_not(dt_elaborator *e, dt_object a) {
    if (a.kind == DT_OBJECT_BOOL) return dt_object_bool(!a.b);
    if (a.kind == DT_OBJECT_TENSOR && a.value->dtype == DT_BOOL) return dt_emit_unary(e, "logical_not", a.value);
    if (dt_is_poison(a)) return a;
    return dt_elaborator_fail(e, "not needs a bool, this is %s", dt_object_describe(e->arena, a));
}
