/* evaluate: see evaluate.h. A formula becomes a list of steps, each writing one slot; a shared node is one step. */
#include "ir/evaluate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct step {
    dt_formula_kind kind;
    dt_scalar_op scalar;
    dt_dtype dtype;    /* of the result */
    dt_dtype argument; /* of the arguments; of the last two for `where` */
    int arguments[3];  /* slots */
    int index;
    dt_scalar constant;
} step;

struct dt_evaluation {
    dt_arithmetic arithmetic;
    DT_LIST(step) steps; /* step i writes slot i */
    dt_scalar *slots;
    dt_dtype dtype;
};

/* ---- making ready ---- */

/* A formula on its way into the list: the whole, or the expansion of a function in it. */
typedef struct frame {
    dt_arena *arena;
    dt_evaluation *evaluation;
    const dt_dtype *types; /* by number */
    const int *operands;   /* slots that stand for the operands of an expansion; NULL for the whole */
    int *slots;            /* by number: slot + 1, 0 before it has one */
} frame;

static dt_status *emit(const frame *frame, const dt_formula *node, int *slot);

static int add_step(const frame *frame, step step) {
    dt_list_push(frame->arena, &frame->evaluation->steps, step);
    return (int)frame->evaluation->steps.n - 1;
}

static dt_status *emit_whole(dt_arena *arena, dt_evaluation *evaluation, const dt_formula *formula, const dt_dtype *operands, dt_dtype result,
                             const int *operand_slots, int *slot) {
    dt_dtype *types;
    DT_TRY(dt_formula_types(arena, formula, operands, result, &types));
    frame whole = {arena, evaluation, types, operand_slots, DT_NEW_ARRAY(arena, int, formula->number + 1)};
    evaluation->dtype = types[formula->number];
    return emit(&whole, formula, slot);
}

/* A function as kernels compute it; half precision is computed in f32. */
static dt_status *emit_expansion(const frame *frame, const step *call, int n_arguments, int *slot) {
    dt_dtype dtype = call->dtype == DT_F64 ? DT_F64 : DT_F32;
    dt_dtype operands[2] = {dtype, dtype};
    dt_formula *expansion;
    DT_TRY(dt_scalar_function_expansion(frame->arena, (size_t)call->index, dtype, &expansion));
    assert(n_arguments <= 2);
    (void)n_arguments;
    return emit_whole(frame->arena, frame->evaluation, expansion, operands, dtype, call->arguments, slot);
}

static dt_scalar literal_of(const dt_formula *node, dt_dtype dtype) {
    if (dt_dtype_is_float(dtype)) return (dt_scalar){.f = node->literal_is_integer ? (double)node->integer : node->literal};
    return node->literal_is_integer ? dt_scalar_round((dt_scalar){.i = node->integer}, dtype)
                                    : dt_scalar_convert((dt_scalar){.f = node->literal}, DT_F64, dtype);
}

static dt_status *emit(const frame *frame, const dt_formula *node, int *slot) {
    *slot = frame->slots[node->number] - 1;
    if (*slot >= 0) return NULL;
    step next = {.kind = node->kind, .scalar = node->scalar, .dtype = frame->types[node->number], .index = node->index};
    for (int i = 0; i < node->n_arguments; i++) DT_TRY(emit(frame, node->arguments[i], &next.arguments[i]));
    if (node->n_arguments > 0) next.argument = frame->types[node->arguments[node->n_arguments - 1]->number];
    assert(node->kind != DT_FORMULA_ATTRIBUTE);
    if (node->kind == DT_FORMULA_LITERAL) {
        next.constant = literal_of(node, next.dtype);
        if (frame->evaluation->arithmetic == DT_ARITHMETIC_KERNEL) next.constant = dt_scalar_round(next.constant, next.dtype);
    }
    if (node->kind == DT_FORMULA_OPERAND && frame->operands != NULL)
        *slot = frame->operands[node->index];
    else if (node->kind == DT_FORMULA_FUNCTION && frame->evaluation->arithmetic == DT_ARITHMETIC_KERNEL)
        DT_TRY(emit_expansion(frame, &next, node->n_arguments, slot));
    else
        *slot = add_step(frame, next);
    frame->slots[node->number] = *slot + 1;
    return NULL;
}

dt_status *dt_evaluation_prepare(dt_arena *arena, const dt_formula *formula, const dt_dtype *operands, dt_dtype result, dt_arithmetic arithmetic,
                                 dt_evaluation **evaluation) {
    dt_evaluation *made = DT_NEW(arena, dt_evaluation);
    made->arithmetic = arithmetic;
    int slot;
    DT_TRY(emit_whole(arena, made, formula, operands, result, NULL, &slot));
    frame whole = {.arena = arena, .evaluation = made};
    if (slot != (int)made->steps.n - 1) /* the result is an operand of an expansion: repeat it behind the rest */
        slot = add_step(&whole, (step){.kind = DT_FORMULA_CONVERT, .dtype = made->dtype, .argument = made->dtype, .arguments = {slot}});
    made->dtype = made->steps.items[slot].dtype;
    made->slots = DT_NEW_ARRAY(arena, dt_scalar, made->steps.n);
    *evaluation = made;
    return NULL;
}

dt_dtype dt_evaluation_dtype(const dt_evaluation *evaluation) { return evaluation->dtype; }

/* ---- evaluation ---- */

static double float_scalar(dt_scalar_op op, bool single, double a, double b, double c) {
    switch (op) {
    case DT_SCALAR_ADD: return a + b;
    case DT_SCALAR_SUBTRACT: return a - b;
    case DT_SCALAR_MULTIPLY: return a * b;
    case DT_SCALAR_DIVIDE: return a / b;
    case DT_SCALAR_REMAINDER: return fmod(a, b);
    case DT_SCALAR_NEGATE: return -a;
    case DT_SCALAR_MINIMUM: return a < b || isnan(a) ? a : b;
    case DT_SCALAR_MAXIMUM: return a > b || isnan(a) ? a : b;
    case DT_SCALAR_ABSOLUTE: return fabs(a);
    case DT_SCALAR_FLOOR: return floor(a);
    case DT_SCALAR_ROUND: return rint(a);
    case DT_SCALAR_ROUND_TF32: return dt_factor_round(a, DT_PRECISION_TF32);
    case DT_SCALAR_ROUND_BF16: return dt_factor_round(a, DT_PRECISION_BF16);
    case DT_SCALAR_SQUARE_ROOT: return sqrt(a);
    case DT_SCALAR_FUSED: return single ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c);
    default: assert(!"no operation on floats"); return NAN;
    }
}

static bool float_compares(dt_scalar_op op, double a, double b) {
    switch (op) {
    case DT_SCALAR_EQUAL: return a == b;
    case DT_SCALAR_NOT_EQUAL: return a != b;
    case DT_SCALAR_LESS: return a < b;
    default: return a <= b;
    }
}

static bool integer_compares(dt_scalar_op op, int64_t a, int64_t b) {
    switch (op) {
    case DT_SCALAR_EQUAL: return a == b;
    case DT_SCALAR_NOT_EQUAL: return a != b;
    case DT_SCALAR_LESS: return a < b;
    default: return a <= b;
    }
}

/* `bits` of the dtype: arithmetic wraps around when the result is rounded to it. Division by 0 gives 0, and so do shifts by too much. */
static int64_t integer_scalar(dt_scalar_op op, int bits, int64_t a, int64_t b, int64_t c) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b, mask = UINT64_MAX >> (64 - bits);
    switch (op) {
    case DT_SCALAR_ADD: return (int64_t)(x + y);
    case DT_SCALAR_SUBTRACT: return (int64_t)(x - y);
    case DT_SCALAR_MULTIPLY: return (int64_t)(x * y);
    case DT_SCALAR_DIVIDE: return b == 0 ? 0 : b == -1 ? (int64_t)(0 - x) : a / b;
    case DT_SCALAR_REMAINDER: return b == 0 || b == -1 ? 0 : a % b;
    case DT_SCALAR_NEGATE: return (int64_t)(0 - x);
    case DT_SCALAR_MINIMUM: return a < b ? a : b;
    case DT_SCALAR_MAXIMUM: return a > b ? a : b;
    case DT_SCALAR_ABSOLUTE: return a < 0 ? (int64_t)(0 - x) : a;
    case DT_SCALAR_FLOOR:
    case DT_SCALAR_ROUND: return a;
    case DT_SCALAR_FUSED: return (int64_t)(x * y + (uint64_t)c);
    case DT_SCALAR_AND: return (int64_t)(x & y);
    case DT_SCALAR_OR: return (int64_t)(x | y);
    case DT_SCALAR_XOR: return (int64_t)(x ^ y);
    case DT_SCALAR_SHIFT_LEFT: return y < (uint64_t)bits ? (int64_t)(x << y) : 0;
    case DT_SCALAR_SHIFT_RIGHT: return y < (uint64_t)bits ? (int64_t)((x & mask) >> y) : 0;
    case DT_SCALAR_HIGH_PRODUCT: return (int64_t)((uint64_t)(uint32_t)x * (uint32_t)y >> 32);
    default: assert(!"no operation on integers"); return 0;
    }
}

static dt_scalar scalar_step(const dt_evaluation *evaluation, const step *s, dt_scalar a, dt_scalar b, dt_scalar c) {
    if (s->scalar == DT_SCALAR_SELECT) return a.i != 0 ? b : c;
    bool is_float = dt_dtype_is_float(s->argument);
    if (s->scalar >= DT_SCALAR_EQUAL && s->scalar <= DT_SCALAR_LESS_EQUAL)
        return (dt_scalar){.i = is_float ? float_compares(s->scalar, a.f, b.f) : integer_compares(s->scalar, a.i, b.i)};
    if (!is_float) return dt_scalar_round((dt_scalar){.i = integer_scalar(s->scalar, 8 * (int)dt_dtype_bytes(s->dtype), a.i, b.i, c.i)}, s->dtype);
    bool single = evaluation->arithmetic == DT_ARITHMETIC_KERNEL && s->dtype != DT_F64;
    double value = float_scalar(s->scalar, single, a.f, b.f, c.f);
    return (dt_scalar){.f = single ? (double)(float)value : value};
}

static dt_scalar launch_field(const dt_launch *launch, int index) {
    int64_t value;
    memcpy(&value, (const char *)launch + (size_t)index * sizeof value, sizeof value); /* 8 bytes a field, see abi/launch.h */
    return (dt_scalar){.i = value};
}

/* The bits of a value in memory, read as another dtype of that size. */
static dt_scalar same_bits(dt_scalar value, dt_dtype from, dt_dtype to) {
    unsigned char memory[8] = {0};
    dt_scalar_store(memory, from, value);
    return dt_scalar_load(memory, to);
}

static dt_scalar run_step(const dt_evaluation *evaluation, const step *s, const dt_evaluation_context *context) {
    const dt_scalar *slots = evaluation->slots;
    dt_scalar a = slots[s->arguments[0]], b = slots[s->arguments[1]], c = slots[s->arguments[2]];
    switch (s->kind) {
    case DT_FORMULA_OPERAND: return context->operands[s->index];
    case DT_FORMULA_INSIDE: return (dt_scalar){.i = context->inside == NULL || context->inside[s->index]};
    case DT_FORMULA_LOOP: return (dt_scalar){.i = context->loops[s->index]};
    case DT_FORMULA_LAUNCH: return launch_field(context->launch, s->index);
    case DT_FORMULA_SCALAR: return scalar_step(evaluation, s, a, b, c);
    case DT_FORMULA_CONVERT: return dt_scalar_convert(a, s->argument, s->dtype);
    case DT_FORMULA_BITS: return same_bits(a, s->argument, s->dtype);
    case DT_FORMULA_FUNCTION: return (dt_scalar){.f = dt_scalar_function_at((size_t)s->index)->oracle(a.f, b.f)};
    default: return s->constant;
    }
}

dt_scalar dt_evaluate(const dt_evaluation *evaluation, const dt_evaluation_context *context) {
    size_t n = evaluation->steps.n;
    for (size_t i = 0; i < n; i++) evaluation->slots[i] = run_step(evaluation, &evaluation->steps.items[i], context);
    return evaluation->slots[n - 1];
}
