/* formula: see the header. Shared nodes of a formula are lowered once: the memo is by node. */
#include "compiler/kernel/formula.h"

#include "compiler/kernel/lower.h"

#include <assert.h>

enum {
    untyped = -1
};

typedef struct dt_formula_memo {
    const dt_formula *node;
    bool has_type;
    int type;        /* untyped or a dt_dtype */
    int instruction; /* -1: not lowered yet */
    int lowered_as;  /* the dtype that an untyped node was lowered to */
} dt_formula_memo;

static size_t memo_of(dt_scope *scope, const dt_formula *node) {
    for (size_t i = scope->memo.n; i-- > 0;)
        if (scope->memo.items[i].node == node) return i;
    dt_formula_memo memo = {.node = node, .instruction = -1};
    dt_list_push(scope->nest->arena, &scope->memo, memo);
    return scope->memo.n - 1;
}

static int operand_of(dt_scope *scope, int index) {
    int x = scope->operand(scope, index);
    return dt_nest_convert(scope->nest, x, dt_dtype_of_sums(dt_nest_dtype(scope->nest, x)));
}

static int type_of(dt_scope *scope, const dt_formula *node);

/* The type of the first argument from `first` on that has one. */
static int type_of_arguments(dt_scope *scope, const dt_formula *node, int first) {
    for (int i = first; i < node->n_arguments; i++) {
        int type = type_of(scope, node->arguments[i]);
        if (type != untyped) return type;
    }
    return untyped;
}

static int find_type(dt_scope *scope, const dt_formula *node) {
    switch (node->kind) {
    case DT_FORMULA_LITERAL:
    case DT_FORMULA_ATTRIBUTE: return untyped;
    case DT_FORMULA_OPERAND: return dt_nest_dtype(scope->nest, operand_of(scope, node->index));
    case DT_FORMULA_INSIDE: return DT_BOOL;
    case DT_FORMULA_LOOP:
    case DT_FORMULA_LAUNCH: return DT_I64;
    case DT_FORMULA_CONVERT:
    case DT_FORMULA_BITS: return node->dtype;
    case DT_FORMULA_FUNCTION: return type_of_arguments(scope, node, 0);
    case DT_FORMULA_SCALAR:
        if (dt_scalar_result(node->scalar) == 'b') return DT_BOOL;
        return type_of_arguments(scope, node, dt_scalar_result(node->scalar) == 'c' ? 1 : 0);
    }
    return untyped;
}

static int type_of(dt_scope *scope, const dt_formula *node) {
    size_t memo = memo_of(scope, node);
    if (!scope->memo.items[memo].has_type) {
        int type = find_type(scope, node);
        scope->memo.items[memo].type = type;
        scope->memo.items[memo].has_type = true;
    }
    return scope->memo.items[memo].type;
}

/* `node` as an instruction of type `dtype`. */
static int lower_as(dt_scope *scope, const dt_formula *node, dt_dtype dtype) {
    return dt_nest_convert(scope->nest, dt_lower_formula(scope, node, dtype), dtype);
}

static int lower_scalar(dt_scope *scope, const dt_formula *node, dt_dtype wanted) {
    bool select = dt_scalar_result(node->scalar) == 'c';
    int type = type_of_arguments(scope, node, select ? 1 : 0);
    if (type == untyped) type = (int)wanted;
    if (dt_scalar_result(node->scalar) == 'b' && type_of_arguments(scope, node, 0) == untyped) type = DT_F64;
    int operands[3];
    for (int i = 0; i < node->n_arguments; i++) operands[i] = lower_as(scope, node->arguments[i], select && i == 0 ? DT_BOOL : (dt_dtype)type);
    return dt_nest_scalar(scope->nest, node->scalar, dt_scalar_result(node->scalar) == 'b' ? DT_BOOL : (dt_dtype)type, node->n_arguments, operands);
}

/* ---- functions: their expansion, with the arguments as operands ---- */

static int argument_operand(dt_scope *scope, int index) { return ((const int *)scope->context)[index]; }

static int lower_function(dt_scope *scope, const dt_formula *node, dt_dtype wanted) {
    int type = type_of(scope, node), arguments[3];
    dt_dtype dtype = type == untyped ? wanted : (dt_dtype)type;
    if (dtype != DT_F64) dtype = DT_F32;
    for (int i = 0; i < node->n_arguments; i++) arguments[i] = lower_as(scope, node->arguments[i], dtype);
    dt_scope inner = {.nest = scope->nest, .operand = argument_operand, .context = arguments};
    dt_lowering *lowering = scope->nest->lowering;
    dt_formula **expansion = &lowering->expansions[2 * node->index + (dtype == DT_F64)];
    if (*expansion == NULL) inner.status = dt_scalar_function_expansion(lowering->compilation->arena, (size_t)node->index, dtype, expansion);
    int result = inner.status ? dt_nest_constant(scope->nest, dtype, 0) : lower_as(&inner, *expansion, dtype);
    scope->status = dt_status_first(scope->status, inner.status);
    return result;
}

static int lower(dt_scope *scope, const dt_formula *node, dt_dtype wanted) {
    dt_nest_builder *nest = scope->nest;
    switch (node->kind) {
    case DT_FORMULA_LITERAL:
        return node->literal_is_integer ? dt_nest_integer(nest, wanted, node->integer) : dt_nest_constant(nest, wanted, node->literal);
    case DT_FORMULA_ATTRIBUTE: break; /* dt_formula_bind has put them in */
    case DT_FORMULA_OPERAND: return operand_of(scope, node->index);
    case DT_FORMULA_INSIDE: {
        int inside = scope->inside(scope, node->index);
        return inside >= 0 ? inside : dt_nest_integer(nest, DT_BOOL, 1);
    }
    case DT_FORMULA_LOOP: return scope->loop(scope, node->index);
    case DT_FORMULA_LAUNCH:
        return dt_nest_add(nest,
                           (dt_instruction){.kind = DT_INSTRUCTION_LAUNCH, .dtype = DT_I64, .index = node->index, .guard = -1, .otherwise = -1});
    case DT_FORMULA_CONVERT: return lower_as(scope, node->arguments[0], node->dtype);
    case DT_FORMULA_BITS: {
        dt_dtype same_size = dt_dtype_bytes(node->dtype) == 4 ? DT_F32 : DT_F64;
        int x = dt_lower_formula(scope, node->arguments[0], dt_dtype_is_float(node->dtype) ? (same_size == DT_F32 ? DT_I32 : DT_I64) : same_size);
        dt_instruction bits = {.kind = DT_INSTRUCTION_BITS, .dtype = node->dtype, .n_operands = 1, .operands = {x}, .guard = -1, .otherwise = -1};
        assert(dt_dtype_bytes(dt_nest_dtype(nest, x)) == dt_dtype_bytes(node->dtype));
        return dt_nest_add(nest, bits);
    }
    case DT_FORMULA_SCALAR: return lower_scalar(scope, node, wanted);
    case DT_FORMULA_FUNCTION: return lower_function(scope, node, wanted);
    }
    return 0;
}

int dt_lower_formula(dt_scope *scope, const dt_formula *node, dt_dtype wanted) {
    bool literal = type_of(scope, node) == untyped;
    size_t memo = memo_of(scope, node);
    if (scope->memo.items[memo].instruction >= 0 && (!literal || scope->memo.items[memo].lowered_as == (int)wanted))
        return scope->memo.items[memo].instruction;
    int instruction = lower(scope, node, wanted);
    scope->memo.items[memo].instruction = instruction; /* by index: the list may have grown meanwhile */
    scope->memo.items[memo].lowered_as = (int)wanted;
    return instruction;
}
