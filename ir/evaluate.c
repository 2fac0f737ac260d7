/* evaluate: see evaluate.h. A formula becomes a list of steps, each writing one slot; a shared node is one step. A step is done for CHUNK elements
 * before the next, so that choosing what to do costs nothing beside doing it. */
#include "ir/evaluate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    CHUNK = 64
};

typedef struct step {
    dt_formula_kind kind;
    dt_scalar_op scalar;
    dt_dtype dtype;    /* of the result */
    dt_dtype argument; /* of the arguments; of the last two for `where` */
    int n_arguments;
    int arguments[3]; /* slots */
    int index;
    dt_scalar constant;
    bool is_uniform; /* the same for all elements of a run: it names none of what differs */
} step;

struct dt_evaluation {
    dt_arithmetic arithmetic;
    DT_LIST(step) steps;
    dt_scalar (*slots)[CHUNK];  /* [n_steps] what each step computes; a literal's from the start */
    const dt_scalar **elements; /* [n_steps] where that is now: the slot, or an operand in memory */
    int n_operands;             /* greater than the index of any */
    dt_elements *single;        /* [n_operands] for dt_evaluate */
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

static bool has_uniform_arguments(const dt_evaluation *evaluation, const step *step) {
    bool is_uniform = step->n_arguments > 0;
    for (int i = 0; i < step->n_arguments; i++) is_uniform &= evaluation->steps.items[step->arguments[i]].is_uniform;
    return is_uniform;
}

static int add_step(const frame *frame, step step) {
    bool of_operand = step.kind == DT_FORMULA_OPERAND || step.kind == DT_FORMULA_INSIDE;
    if (of_operand && step.index >= frame->evaluation->n_operands) frame->evaluation->n_operands = step.index + 1;
    step.is_uniform = step.kind == DT_FORMULA_LITERAL || step.kind == DT_FORMULA_LAUNCH || has_uniform_arguments(frame->evaluation, &step);
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
    step next = {
        .kind = node->kind, .scalar = node->scalar, .dtype = frame->types[node->number], .index = node->index, .n_arguments = node->n_arguments};
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

static void prepare_slots(dt_arena *arena, dt_evaluation *evaluation) {
    size_t n = evaluation->steps.n;
    evaluation->slots = dt_arena_new_array(arena, n, sizeof *evaluation->slots);
    evaluation->elements = DT_NEW_ARRAY(arena, const dt_scalar *, n);
    evaluation->single = DT_NEW_ARRAY(arena, dt_elements, evaluation->n_operands);
    for (size_t i = 0; i < n; i++) {
        evaluation->elements[i] = evaluation->slots[i];
        for (int k = 0; k < CHUNK; k++) evaluation->slots[i][k] = evaluation->steps.items[i].constant;
    }
}

dt_status *dt_evaluation_prepare(dt_arena *arena, const dt_formula *formula, const dt_dtype *operands, dt_dtype result, dt_arithmetic arithmetic,
                                 dt_evaluation **evaluation) {
    dt_evaluation *made = DT_NEW(arena, dt_evaluation);
    made->arithmetic = arithmetic;
    int slot;
    DT_TRY(emit_whole(arena, made, formula, operands, result, NULL, &slot));
    frame whole = {.arena = arena, .evaluation = made};
    if (slot != (int)made->steps.n - 1) /* the result is an operand of an expansion: repeat it after the rest */
        slot = add_step(&whole,
                        (step){.kind = DT_FORMULA_CONVERT, .dtype = made->dtype, .argument = made->dtype, .n_arguments = 1, .arguments = {slot}});
    made->dtype = made->steps.items[slot].dtype;
    prepare_slots(arena, made);
    *evaluation = made;
    return NULL;
}

dt_dtype dt_evaluation_dtype(const dt_evaluation *evaluation) { return evaluation->dtype; }

/* ---- evaluation ---- */

/* to[i] = `value` for n elements, where A, B and C are those of the arguments. */
#define EACH(member, value)                                                                                                                          \
    for (int i = 0; i < n; i++) to[i].member = (value);                                                                                              \
    return

#define A a[i].f
#define B b[i].f
#define C c[i].f
static inline __attribute__((always_inline)) void compute_floats(dt_scalar_op op, bool single, int n, const dt_scalar *a, const dt_scalar *b,
                                                                 const dt_scalar *c, dt_scalar *to) {
    switch (op) {
    case DT_SCALAR_ADD: EACH(f, A + B);
    case DT_SCALAR_SUBTRACT: EACH(f, A - B);
    case DT_SCALAR_MULTIPLY: EACH(f, A * B);
    case DT_SCALAR_DIVIDE: EACH(f, A / B);
    case DT_SCALAR_REMAINDER: EACH(f, fmod(A, B));
    case DT_SCALAR_NEGATE: EACH(f, -A);
    case DT_SCALAR_MINIMUM: EACH(f, A < B || isnan(A) ? A : B);
    case DT_SCALAR_MAXIMUM: EACH(f, A > B || isnan(A) ? A : B);
    case DT_SCALAR_ABSOLUTE: EACH(f, fabs(A));
    case DT_SCALAR_FLOOR: EACH(f, floor(A));
    case DT_SCALAR_ROUND: EACH(f, rint(A));
    case DT_SCALAR_ROUND_TF32: EACH(f, dt_factor_round(A, DT_PRECISION_TF32));
    case DT_SCALAR_ROUND_BF16: EACH(f, dt_factor_round(A, DT_PRECISION_BF16));
    case DT_SCALAR_SQUARE_ROOT: EACH(f, sqrt(A));
    case DT_SCALAR_FUSED: EACH(f, single ? (double)fmaf((float)A, (float)B, (float)C) : fma(A, B, C));
    default: assert(!"no operation on floats");
    }
}

static inline __attribute__((always_inline)) void compare_floats(dt_scalar_op op, int n, const dt_scalar *a, const dt_scalar *b, dt_scalar *to) {
    switch (op) {
    case DT_SCALAR_EQUAL: EACH(i, A == B);
    case DT_SCALAR_NOT_EQUAL: EACH(i, A != B);
    case DT_SCALAR_LESS: EACH(i, A < B);
    default: EACH(i, A <= B);
    }
}
#undef A
#undef B
#undef C

#define A a[i].i
#define B b[i].i
#define C c[i].i
#define X ((uint64_t)A)
#define Y ((uint64_t)B)
#define WORD(value) EACH(i, wraps_at_32 ? (int32_t)(value) : (value))
/* `bits` of the dtype. Division by 0 gives 0, and so do shifts by too much. */
static inline __attribute__((always_inline)) void compute_words(dt_scalar_op op, int bits, bool wraps_at_32, int n, const dt_scalar *a,
                                                                const dt_scalar *b, const dt_scalar *c, dt_scalar *to) {
    uint64_t mask = UINT64_MAX >> (64 - bits);
    switch (op) {
    case DT_SCALAR_ADD: WORD((int64_t)(X + Y));
    case DT_SCALAR_SUBTRACT: WORD((int64_t)(X - Y));
    case DT_SCALAR_MULTIPLY:
        WORD((int64_t)(wraps_at_32 ? (uint64_t)(uint32_t)X * (uint32_t)Y : X * Y)); /* the same low half, at a third of the cost */
    case DT_SCALAR_DIVIDE: WORD(B == 0 ? 0 : B == -1 ? (int64_t)(0 - X) : A / B);
    case DT_SCALAR_REMAINDER: WORD(B == 0 || B == -1 ? 0 : A % B);
    case DT_SCALAR_NEGATE: WORD((int64_t)(0 - X));
    case DT_SCALAR_MINIMUM: WORD(A < B ? A : B);
    case DT_SCALAR_MAXIMUM: WORD(A > B ? A : B);
    case DT_SCALAR_ABSOLUTE: WORD(A < 0 ? (int64_t)(0 - X) : A);
    case DT_SCALAR_FLOOR:
    case DT_SCALAR_ROUND: WORD(A);
    case DT_SCALAR_FUSED: WORD((int64_t)(X * Y + (uint64_t)C));
    case DT_SCALAR_AND: WORD((int64_t)(X & Y));
    case DT_SCALAR_OR: WORD((int64_t)(X | Y));
    case DT_SCALAR_XOR: WORD((int64_t)(X ^ Y));
    case DT_SCALAR_SHIFT_LEFT: WORD(Y < (uint64_t)bits ? (int64_t)(X << Y) : 0);
    case DT_SCALAR_SHIFT_RIGHT: WORD(Y < (uint64_t)bits ? (int64_t)((X & mask) >> Y) : 0);
    case DT_SCALAR_HIGH_PRODUCT: WORD((int64_t)((uint64_t)(uint32_t)X * (uint32_t)Y >> 32));
    default: assert(!"no operation on integers");
    }
}
#undef WORD

/* Arithmetic wraps around; i32, which random numbers are made of, as it goes. */
static inline __attribute__((always_inline)) void compute_integers(dt_scalar_op op, dt_dtype dtype, int n, const dt_scalar *a, const dt_scalar *b,
                                                                   const dt_scalar *c, dt_scalar *to) {
    if (dtype == DT_I32) {
        compute_words(op, 32, true, n, a, b, c, to);
        return;
    }
    compute_words(op, 8 * (int)dt_dtype_bytes(dtype), false, n, a, b, c, to);
    dt_scalars_round(to, (size_t)n, dtype);
}

static inline __attribute__((always_inline)) void compare_integers(dt_scalar_op op, int n, const dt_scalar *a, const dt_scalar *b, dt_scalar *to) {
    switch (op) {
    case DT_SCALAR_EQUAL: EACH(i, A == B);
    case DT_SCALAR_NOT_EQUAL: EACH(i, A != B);
    case DT_SCALAR_LESS: EACH(i, A < B);
    default: EACH(i, A <= B);
    }
}
#undef A
#undef B
#undef C
#undef X
#undef Y
#undef EACH

static inline __attribute__((always_inline)) void compute_scalar(const dt_evaluation *evaluation, const step *s, int n, dt_scalar *to) {
    const dt_scalar *a = evaluation->elements[s->arguments[0]], *b = evaluation->elements[s->arguments[1]],
                    *c = evaluation->elements[s->arguments[2]];
    bool is_float = dt_dtype_is_float(s->argument), is_comparison = s->scalar >= DT_SCALAR_EQUAL && s->scalar <= DT_SCALAR_LESS_EQUAL;
    if (s->scalar == DT_SCALAR_SELECT) {
        for (int i = 0; i < n; i++) to[i] = a[i].i != 0 ? b[i] : c[i];
    } else if (is_comparison) {
        (is_float ? compare_floats : compare_integers)(s->scalar, n, a, b, to);
    } else if (is_float) {
        bool single = evaluation->arithmetic == DT_ARITHMETIC_KERNEL && s->dtype != DT_F64;
        compute_floats(s->scalar, single, n, a, b, c, to);
        if (single) dt_scalars_round(to, (size_t)n, DT_F32);
    } else {
        compute_integers(s->scalar, s->dtype, n, a, b, c, to);
    }
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

/* The elements of an operand from `at` on: where they lie, if they lie side by side, else in `slot`. */
static inline __attribute__((always_inline)) const dt_scalar *take_operand(const dt_elements *operand, int64_t at, int n, dt_scalar *slot) {
    if (operand->step == 1) return operand->data + at;
    for (int i = 0; i < n; i++) slot[i] = operand->data[(at + i) * operand->step];
    return slot;
}

/* Elements at .. at + n - 1 of a run: where they are, which is `to` where they had to be computed. */
static inline __attribute__((always_inline)) const dt_scalar *run_step(const dt_evaluation *evaluation, size_t number, const dt_evaluation_run *run,
                                                                       int64_t at, int n, dt_scalar *to) {
    const step *s = &evaluation->steps.items[number];
    const dt_scalar *a = evaluation->elements[s->arguments[0]], *b = evaluation->elements[s->arguments[1]];
    switch (s->kind) {
    case DT_FORMULA_LITERAL: return evaluation->slots[number];
    case DT_FORMULA_OPERAND: return take_operand(&run->operands[s->index], at, n, to);
    case DT_FORMULA_INSIDE: {
        const dt_elements *operand = &run->operands[s->index];
        for (int i = 0; i < n; i++) to[i].i = operand->insides != NULL ? operand->insides[at + i] : !operand->outside;
        break;
    }
    case DT_FORMULA_LOOP:
        for (int i = 0; i < n; i++) to[i].i = run->loops[s->index] + (s->index == run->run_loop ? at + i : 0);
        break;
    case DT_FORMULA_LAUNCH:
        for (int i = 0; i < n; i++) to[i] = launch_field(run->launch, s->index);
        break;
    case DT_FORMULA_SCALAR: compute_scalar(evaluation, s, n, to); break;
    case DT_FORMULA_CONVERT:
        for (int i = 0; i < n; i++) to[i] = dt_scalar_convert(a[i], s->argument, s->dtype);
        break;
    case DT_FORMULA_BITS:
        for (int i = 0; i < n; i++) to[i] = same_bits(a[i], s->argument, s->dtype);
        break;
    case DT_FORMULA_FUNCTION: {
        double (*oracle)(double x, double y) = dt_scalar_function_at((size_t)s->index)->oracle;
        for (int i = 0; i < n; i++) to[i].f = oracle(a[i].f, b[i].f);
        break;
    }
    case DT_FORMULA_ATTRIBUTE: break; /* is bound */
    }
    return to;
}

/* A chunk: n elements from `at` on. What is uniform is there for the whole run after the first, which is the longest. */
static inline __attribute__((always_inline)) void run_chunk(const dt_evaluation *evaluation, const dt_evaluation_run *run, int64_t at, int n,
                                                            dt_scalar *values) {
    size_t last = evaluation->steps.n - 1;
    for (size_t i = 0; i < last; i++)
        if (at == 0 || !evaluation->steps.items[i].is_uniform) evaluation->elements[i] = run_step(evaluation, i, run, at, n, evaluation->slots[i]);
    const dt_scalar *found = run_step(evaluation, last, run, at, n, values);
    if (found != values) memcpy(values, found, (size_t)n * sizeof *values);
}

/* The same twice: processors with AVX2 do four elements at once. */
__attribute__((target("avx2"))) static void run_chunk_avx2(const dt_evaluation *evaluation, const dt_evaluation_run *run, int64_t at, int n,
                                                           dt_scalar *values) {
    run_chunk(evaluation, run, at, n, values);
}
static void run_chunk_anywhere(const dt_evaluation *evaluation, const dt_evaluation_run *run, int64_t at, int n, dt_scalar *values) {
    run_chunk(evaluation, run, at, n, values);
}

void dt_evaluate_run(const dt_evaluation *evaluation, const dt_evaluation_run *run, int64_t n, dt_scalar *values) {
    bool wide = __builtin_cpu_supports("avx2");
    for (int64_t at = 0; at < n; at += CHUNK)
        (wide ? run_chunk_avx2 : run_chunk_anywhere)(evaluation, run, at, (int)(n - at < CHUNK ? n - at : CHUNK), values + at);
}

dt_scalar dt_evaluate(const dt_evaluation *evaluation, const dt_evaluation_context *context) {
    dt_scalar value;
    for (int k = 0; k < evaluation->n_operands; k++) evaluation->single[k] = (dt_elements){.data = &context->operands[k]};
    dt_evaluate_run(evaluation, &(dt_evaluation_run){evaluation->single, context->loops, -1, context->launch}, 1, &value);
    return value;
}
