/* formula: elementwise ops, from the formulas of their rows: a node for each of a formula's. Where ONNX has an operator for a whole formula, it is
 * that. */
#include "compiler/onnx/model.h"
#include "ir/ops.h"

#include <assert.h>
#include <string.h>

/* Formulas of floats or bool that are one operator. */
static const struct {
    const char *formula, *type;
} whole_formulas[] = {{"max(x, 0)", "Relu"}, {"1 / (1 + exp(-x))", "Sigmoid"}, {"x == false", "Not"}};

/* Functions of ir/functions.def: an operator, or a formula over functions that have one. expm1 and log1p are Kahan's: what exp and log lose by
 * rounding their argument, the quotient puts right. */
static const struct {
    const char *function, *type, *formula;
} functions[] = {
    {"exp", "Exp", NULL},
    {"log", "Log", NULL},
    {"tanh", "Tanh", NULL},
    {"erf", "Erf", NULL},
    {"sin", "Sin", NULL},
    {"cos", "Cos", NULL},
    {"pow", "Pow", NULL},
    {"log1p", NULL, "u = 1 + x; where(u == x, log(u), where(u == 1, x, log(u) * x / (u - 1)))"},
    {"expm1", NULL, "u = exp(x); where(u == 1, x, where((u - 1 == -1) | (u - 1 == u), u - 1, (u - 1) * x / log(u)))"},
};

/* Of scalars that are one operator, whatever the type. */
static const char *const operators[DT_N_SCALARS] = {
    [DT_SCALAR_ADD] = "Add",     [DT_SCALAR_SUBTRACT] = "Sub", [DT_SCALAR_MULTIPLY] = "Mul",          [DT_SCALAR_NEGATE] = "Neg",
    [DT_SCALAR_MINIMUM] = "Min", [DT_SCALAR_MAXIMUM] = "Max",  [DT_SCALAR_ABSOLUTE] = "Abs",          [DT_SCALAR_SQUARE_ROOT] = "Sqrt",
    [DT_SCALAR_EQUAL] = "Equal", [DT_SCALAR_LESS] = "Less",    [DT_SCALAR_LESS_EQUAL] = "LessOrEqual"};

/* A formula on its way into nodes. */
typedef struct frame {
    dt_onnx *onnx;
    const char *const *operands;
    const dt_dtype *types; /* by number */
    const char **names;    /* by number; NULL: it has none yet */
    const char *missing;   /* what ONNX does not have */
} frame;

static const char *emit(frame *frame, const dt_formula *node);

/* A formula over operands of types, with a result of that type unless all is literal. */
static const char *emit_formula(frame *outer, const dt_formula *formula, const char *const *operands, const dt_dtype *types, dt_dtype result) {
    dt_dtype *of_nodes;
    dt_status *status = dt_formula_types(outer->onnx->arena, formula, types, result, &of_nodes);
    assert(status == NULL && "the rows of the tables are checked by their tests");
    dt_status_free(status);
    frame frame = {outer->onnx, operands, of_nodes, DT_NEW_ARRAY(outer->onnx->arena, const char *, formula->number + 1), NULL};
    const char *name = emit(&frame, formula);
    if (frame.missing != NULL) outer->missing = frame.missing;
    return name;
}

static const char *emit_function(frame *frame, const dt_formula *node, const char *const *arguments) {
    static const char *const names[] = {"x", "y"};
    const dt_scalar_function *function = dt_scalar_function_at((size_t)node->index);
    dt_dtype dtype = dt_onnx_kept(frame->types[node->number]);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        if (strcmp(functions[f].function, function->name) != 0) continue;
        if (functions[f].type != NULL)
            return function->n_arguments == 1 ? dt_onnx_add_unary(frame->onnx, functions[f].type, arguments[0])
                                              : dt_onnx_add_binary(frame->onnx, functions[f].type, arguments[0], arguments[1]);
        dt_formula *formula;
        dt_status *status = dt_formula_parse(frame->onnx->arena, functions[f].formula, names, function->n_arguments, NULL, 0, &formula);
        assert(status == NULL);
        dt_status_free(status);
        return emit_formula(frame, formula, arguments, (dt_dtype[]){dtype, dtype}, dtype);
    }
    frame->missing = function->name;
    return arguments[0];
}

/* x / y of integers, cut, where dividing by 0 gives 0; by -1 it is done without the quotient, which the least integer does not have. */
static const char *divide_integers(dt_onnx *onnx, dt_dtype dtype, const char *x, const char *y) {
    const char *zero = dt_onnx_number(onnx, dtype, 0);
    const char *by_zero = dt_onnx_add_binary(onnx, "Equal", y, zero),
               *by_minus = dt_onnx_add_binary(onnx, "Equal", y, dt_onnx_number(onnx, dtype, -1));
    const char *safe = dt_onnx_where(onnx, dt_onnx_add_binary(onnx, "Or", by_zero, by_minus), dt_onnx_number(onnx, dtype, 1), y);
    const char *negative = dt_onnx_add_binary(onnx, "Sub", zero, x), *quotient = dt_onnx_add_binary(onnx, "Div", x, safe);
    return dt_onnx_where(onnx, by_zero, zero, dt_onnx_where(onnx, by_minus, negative, quotient));
}

/* With the sign of the dividend; of integers by 0 it is 0. */
static const char *remainder_of(dt_onnx *onnx, dt_dtype dtype, const char *x, const char *y) {
    if (dt_dtype_is_float(dtype)) return dt_onnx_add(onnx, "Mod", DT_ONNX_INPUTS(x, y), DT_ONNX_ATTRIBUTES(dt_onnx_int(onnx, "fmod", 1)));
    const char *by_zero = dt_onnx_add_binary(onnx, "Equal", y, dt_onnx_number(onnx, dtype, 0));
    const char *rest = dt_onnx_add_binary(onnx, "Sub", x, dt_onnx_add_binary(onnx, "Mul", divide_integers(onnx, dtype, x, y), y));
    return dt_onnx_where(onnx, by_zero, dt_onnx_number(onnx, dtype, 0), rest);
}

/* `Where` of bool is in few runtimes. */
static const char *select(dt_onnx *onnx, dt_dtype dtype, const char *condition, const char *x, const char *y) {
    if (dtype != DT_BOOL) return dt_onnx_where(onnx, condition, x, y);
    const char *first = dt_onnx_add_binary(onnx, "And", condition, x);
    const char *second = dt_onnx_add_binary(onnx, "And", dt_onnx_add_unary(onnx, "Not", condition), y);
    return dt_onnx_add_binary(onnx, "Or", first, second);
}

static const char *emit_scalar(frame *frame, const dt_formula *node, const char *const *a) {
    dt_onnx *onnx = frame->onnx;
    dt_dtype dtype = frame->types[node->arguments[node->n_arguments - 1]->number], kept = dt_onnx_kept(dtype);
    bool is_float = dt_dtype_is_float(dtype), is_bool = dtype == DT_BOOL;
    switch (node->scalar) {
    case DT_SCALAR_DIVIDE: return is_float ? dt_onnx_add_binary(onnx, "Div", a[0], a[1]) : divide_integers(onnx, kept, a[0], a[1]);
    case DT_SCALAR_REMAINDER: return remainder_of(onnx, kept, a[0], a[1]);
    case DT_SCALAR_FLOOR: return is_float ? dt_onnx_add_unary(onnx, "Floor", a[0]) : a[0];
    case DT_SCALAR_ROUND: return is_float ? dt_onnx_add_unary(onnx, "Round", a[0]) : a[0];
    case DT_SCALAR_FUSED: return dt_onnx_add_binary(onnx, "Add", dt_onnx_add_binary(onnx, "Mul", a[0], a[1]), a[2]);
    case DT_SCALAR_NOT_EQUAL: return dt_onnx_add_unary(onnx, "Not", dt_onnx_add_binary(onnx, "Equal", a[0], a[1]));
    case DT_SCALAR_AND: return dt_onnx_add_binary(onnx, is_bool ? "And" : "BitwiseAnd", a[0], a[1]);
    case DT_SCALAR_OR: return dt_onnx_add_binary(onnx, is_bool ? "Or" : "BitwiseOr", a[0], a[1]);
    case DT_SCALAR_XOR: return dt_onnx_add_binary(onnx, is_bool ? "Xor" : "BitwiseXor", a[0], a[1]);
    case DT_SCALAR_SELECT: return select(onnx, dtype, a[0], a[1], a[2]);
    default: break;
    }
    const char *type = operators[node->scalar];
    if (type == NULL) return frame->missing = dt_scalar_text(node->scalar), a[0];
    return node->n_arguments == 1 ? dt_onnx_add_unary(onnx, type, a[0]) : dt_onnx_add_binary(onnx, type, a[0], a[1]);
}

static dt_scalar literal_of(const dt_formula *node, dt_dtype dtype) {
    if (dt_dtype_is_float(dtype)) return (dt_scalar){.f = node->literal_is_integer ? (double)node->integer : node->literal};
    return node->literal_is_integer ? (dt_scalar){.i = node->integer} : dt_scalar_convert((dt_scalar){.f = node->literal}, DT_F64, dtype);
}

static const char *emit_new(frame *frame, const dt_formula *node) {
    dt_onnx *onnx = frame->onnx;
    const char *arguments[3] = {NULL};
    dt_dtype dtype = frame->types[node->number];
    for (int i = 0; i < node->n_arguments; i++) arguments[i] = emit(frame, node->arguments[i]);
    switch (node->kind) {
    case DT_FORMULA_LITERAL: return dt_onnx_scalar(onnx, dtype, literal_of(node, dtype));
    case DT_FORMULA_OPERAND: return frame->operands[node->index];
    case DT_FORMULA_CONVERT: return dt_onnx_convert(onnx, arguments[0], frame->types[node->arguments[0]->number], dtype);
    case DT_FORMULA_FUNCTION: return emit_function(frame, node, arguments);
    case DT_FORMULA_SCALAR: { /* integers wrap around at each step, halves are rounded at the end */
        const char *name = emit_scalar(frame, node, arguments);
        return dt_dtype_kind(dtype) == 'i' && dt_scalar_result(node->scalar) == 's' ? dt_onnx_round(onnx, name, dtype) : name;
    }
    default: frame->missing = "its formula"; return NULL;
    }
}

static const char *emit(frame *frame, const dt_formula *node) {
    const char **name = &frame->names[node->number];
    if (*name == NULL) *name = emit_new(frame, node);
    return *name;
}

static const char *whole_formula(const dt_value *value) {
    for (size_t i = 0; i < sizeof whole_formulas / sizeof *whole_formulas; i++)
        if (strcmp(whole_formulas[i].formula, value->op->formula) == 0) return whole_formulas[i].type;
    return NULL;
}

/* Of the operands' own dimensions, the longest. */
static const int64_t *dims_of(const dt_onnx *onnx, const dt_value *value) {
    int64_t *dims = DT_NEW_ARRAY(onnx->arena, int64_t, value->shape.rank);
    for (int d = 0; d < value->shape.rank; d++) {
        dims[d] = 1;
        for (int k = 0; k < value->n_operands; k++)
            if (dt_onnx_tensor_of(onnx, value->operands[k])->dims[d] != 1) dims[d] = value->shape.dims[d];
    }
    return dims;
}

dt_status *dt_onnx_render_formula(dt_onnx *onnx, const dt_value *value) {
    const char **operands = DT_NEW_ARRAY(onnx->arena, const char *, value->n_operands);
    dt_dtype *types = DT_NEW_ARRAY(onnx->arena, dt_dtype, value->n_operands);
    for (int k = 0; k < value->n_operands; k++) {
        operands[k] = dt_onnx_tensor_of(onnx, value->operands[k])->name;
        types[k] = value->operands[k]->dtype;
    }
    frame frame = {.onnx = onnx};
    const dt_formula *body = dt_op_body(onnx->arena, value);
    const char *whole = whole_formula(value);
    const char *name = whole != NULL ? dt_onnx_add_unary(onnx, whole, operands[0]) : emit_formula(&frame, body, operands, types, value->dtype);
    if (frame.missing != NULL) return dt_onnx_unimplemented(value, frame.missing);
    if (dt_dtype_is_half(value->dtype) && body->kind != DT_FORMULA_CONVERT) name = dt_onnx_round(onnx, name, value->dtype);
    dt_onnx_give(onnx, value, name, dims_of(onnx, value));
    return NULL;
}
