/* nest: building of nests without repetition, and the growth of kernels and plans. */
#include "compiler/kernel/nest.h"

#include <math.h>
#include <string.h>

dt_dtype dt_nest_dtype(const dt_nest_builder *nest, int x) { return nest->instructions.items[x].dtype; }

static bool addresses_equal(int n_loops, const dt_address *x, const dt_address *y) {
    dt_affine a = {x->coefficients, x->offset, x->n_terms, x->terms, x->term_coefficients};
    dt_affine b = {y->coefficients, y->offset, y->n_terms, y->terms, y->term_coefficients};
    return x->buffer == y->buffer && dt_affine_equal(n_loops, &a, &b);
}

static bool equal(int n_loops, const dt_instruction *x, const dt_instruction *y) {
    if (x->kind != y->kind || x->dtype != y->dtype || x->scalar != y->scalar || x->index != y->index || x->integer != y->integer) return false;
    if (memcmp(&x->number, &y->number, sizeof x->number) != 0 || x->n_operands != y->n_operands) return false;
    for (int i = 0; i < x->n_operands; i++)
        if (x->operands[i] != y->operands[i]) return false;
    if (x->kind != DT_INSTRUCTION_LOAD) return true;
    return x->guard == y->guard && x->otherwise == y->otherwise && addresses_equal(n_loops, &x->address, &y->address);
}

int dt_nest_add(dt_nest_builder *nest, dt_instruction instruction) {
    for (size_t i = nest->instructions.n; i-- > 0;)
        if (equal(nest->n_loops, &nest->instructions.items[i], &instruction)) return (int)i;
    dt_list_push(nest->arena, &nest->instructions, instruction);
    return (int)nest->instructions.n - 1;
}

static int64_t wrapped(dt_dtype dtype, int64_t integer) {
    switch (dtype) {
    case DT_I8: return (int8_t)(uint8_t)integer;
    case DT_U8: return (uint8_t)integer;
    case DT_I32: return (int32_t)(uint32_t)integer;
    case DT_BOOL: return integer != 0;
    default: return integer;
    }
}

int dt_nest_integer(dt_nest_builder *nest, dt_dtype dtype, int64_t integer) {
    if (dt_dtype_is_float(dtype)) return dt_nest_constant(nest, dtype, (double)integer);
    dt_instruction constant = {.kind = DT_INSTRUCTION_CONSTANT, .dtype = dtype, .integer = wrapped(dtype, integer), .guard = -1, .otherwise = -1};
    constant.number = (double)constant.integer;
    return dt_nest_add(nest, constant);
}

/* The nearest value of an integer type: infinities mean its ends. */
static int64_t nearest_integer(dt_dtype dtype, double number) {
    static const struct {
        dt_dtype dtype;
        int64_t least, greatest;
    } ranges[] = {{DT_I8, INT8_MIN, INT8_MAX}, {DT_U8, 0, UINT8_MAX}, {DT_I32, INT32_MIN, UINT32_MAX}, {DT_I64, INT64_MIN, INT64_MAX}};
    if (isnan(number)) return 0;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].dtype != dtype) continue;
        if (isinf(number) && dtype == DT_I32) return number < 0 ? INT32_MIN : INT32_MAX;
        if (number <= (double)ranges[i].least) return ranges[i].least;
        if (number >= (double)ranges[i].greatest) return ranges[i].greatest;
    }
    return dtype == DT_BOOL ? number != 0 : (int64_t)number;
}

int dt_nest_constant(dt_nest_builder *nest, dt_dtype dtype, double number) {
    if (!dt_dtype_is_float(dtype)) return dt_nest_integer(nest, dtype, nearest_integer(dtype, number));
    if (dtype != DT_F64) number = (double)(float)number; /* what it is computed in */
    dt_instruction constant = {.kind = DT_INSTRUCTION_CONSTANT, .dtype = dtype, .number = number, .guard = -1, .otherwise = -1};
    return dt_nest_add(nest, constant);
}

/* The value of an integer sum or product that is constant, or one of the operands when the other changes nothing; -1 otherwise. */
static int folded_constant(dt_nest_builder *nest, dt_scalar_op scalar, dt_dtype dtype, const int *operands) {
    if (dtype != DT_I64 || (scalar != DT_SCALAR_ADD && scalar != DT_SCALAR_MULTIPLY)) return -1;
    const dt_instruction *x = &nest->instructions.items[operands[0]], *y = &nest->instructions.items[operands[1]];
    int64_t neutral = scalar == DT_SCALAR_MULTIPLY;
    bool x_constant = x->kind == DT_INSTRUCTION_CONSTANT, y_constant = y->kind == DT_INSTRUCTION_CONSTANT;
    if (x_constant && x->integer == neutral) return operands[1];
    if (y_constant && y->integer == neutral) return operands[0];
    if (!x_constant || !y_constant) return -1;
    uint64_t a = (uint64_t)x->integer, b = (uint64_t)y->integer;
    return dt_nest_integer(nest, DT_I64, (int64_t)(neutral ? a * b : a + b));
}

/* Whether x is what rounding leaves already. */
static bool is_rounded(const dt_nest_builder *nest, dt_scalar_op scalar, int x) {
    const dt_instruction *value = &nest->instructions.items[x];
    if (value->kind == DT_INSTRUCTION_SCALAR && value->scalar == scalar) return true;
    if (value->kind != DT_INSTRUCTION_LOAD) return false;
    return nest->plan->buffers[nest->kernel->buffers[value->address.buffer]].precision == dt_scalar_precision(scalar);
}

int dt_nest_scalar(dt_nest_builder *nest, dt_scalar_op scalar, dt_dtype dtype, int n_operands, const int *operands) {
    dt_instruction instruction = {
        .kind = DT_INSTRUCTION_SCALAR, .dtype = dtype, .scalar = scalar, .n_operands = n_operands, .guard = -1, .otherwise = -1};
    if (dt_scalar_precision(scalar) != DT_PRECISION_F32 && is_rounded(nest, scalar, operands[0])) return operands[0];
    int constant = n_operands == 2 ? folded_constant(nest, scalar, dtype, operands) : -1;
    if (constant >= 0) return constant;
    memcpy(instruction.operands, operands, (size_t)n_operands * sizeof *operands);
    return dt_nest_add(nest, instruction);
}

int dt_nest_binary(dt_nest_builder *nest, dt_scalar_op scalar, dt_dtype dtype, int x, int y) {
    return dt_nest_scalar(nest, scalar, dtype, 2, (int[]){x, y});
}

int dt_nest_convert(dt_nest_builder *nest, int x, dt_dtype dtype) {
    const dt_instruction *from = &nest->instructions.items[x];
    if (from->dtype == dtype) return x;
    if (from->kind == DT_INSTRUCTION_CONSTANT && dt_dtype_is_float(dtype) && (dtype == DT_F64 || from->dtype != DT_F64))
        return dt_nest_constant(nest, dtype, dtype == DT_F32 ? (double)(float)from->number : from->number);
    dt_instruction convert = {.kind = DT_INSTRUCTION_CONVERT, .dtype = dtype, .n_operands = 1, .operands = {x}, .guard = -1, .otherwise = -1};
    return dt_nest_add(nest, convert);
}

int dt_nest_and(dt_nest_builder *nest, int x, int y) {
    if (x < 0 || x == y) return y;
    if (y < 0) return x;
    return dt_nest_binary(nest, DT_SCALAR_AND, DT_BOOL, x, y);
}

int dt_nest_affine(dt_nest_builder *nest, const dt_affine *x) {
    int sum = -1;
    for (int i = 0; i < nest->n_loops + x->n_terms; i++) {
        bool loop = i < nest->n_loops;
        int64_t coefficient = loop ? x->coefficients[i] : x->term_coefficients[i - nest->n_loops];
        if (coefficient == 0) continue;
        int part = loop ? dt_nest_add(nest, (dt_instruction){.kind = DT_INSTRUCTION_LOOP, .dtype = DT_I64, .index = i, .guard = -1, .otherwise = -1})
                        : x->terms[i - nest->n_loops];
        if (coefficient != 1) part = dt_nest_binary(nest, DT_SCALAR_MULTIPLY, DT_I64, part, dt_nest_integer(nest, DT_I64, coefficient));
        sum = sum < 0 ? part : dt_nest_binary(nest, DT_SCALAR_ADD, DT_I64, sum, part);
    }
    if (sum < 0) return dt_nest_integer(nest, DT_I64, x->offset);
    return x->offset == 0 ? sum : dt_nest_binary(nest, DT_SCALAR_ADD, DT_I64, sum, dt_nest_integer(nest, DT_I64, x->offset));
}

static dt_address address_of(dt_nest_builder *nest, int plan_buffer, const dt_affine *index) {
    return (dt_address){dt_kernel_argument(nest->arena, nest->kernel, plan_buffer),
                        index->coefficients,
                        index->offset,
                        index->n_terms,
                        index->terms,
                        index->term_coefficients};
}

int dt_nest_load(dt_nest_builder *nest, int plan_buffer, const dt_affine *index, int guard, int otherwise) {
    dt_instruction load = {.kind = DT_INSTRUCTION_LOAD, .dtype = nest->plan->buffers[plan_buffer].dtype, .guard = guard, .otherwise = otherwise};
    load.address = address_of(nest, plan_buffer, index);
    return dt_nest_add(nest, load);
}

void dt_nest_store(dt_nest_builder *nest, int plan_buffer, const dt_affine *index, int operand, bool accumulate, int guard) {
    dt_store store = {address_of(nest, plan_buffer, index), operand, accumulate, guard};
    dt_list_push(nest->arena, &nest->stores, store);
}

int dt_nest_reduce(dt_nest_builder *nest, dt_combiner combiner, int operand, dt_dtype dtype) {
    for (size_t r = 0; r < nest->reductions.n; r++) {
        const dt_reduction *old = &nest->reductions.items[r];
        if (old->combiner == combiner && old->operand == operand && old->dtype == dtype) return (int)r;
    }
    dt_reduction reduction = {combiner, operand, dtype};
    dt_list_push(nest->arena, &nest->reductions, reduction);
    return (int)nest->reductions.n - 1;
}

/* ---- finishing ---- */

static void need(bool *needed, int x) {
    if (x >= 0) needed[x] = true;
}

static void need_address(bool *needed, const dt_address *address) {
    for (int i = 0; i < address->n_terms; i++) needed[address->terms[i]] = true;
}

/* Marks what stores need. Operands stand before their users, so one walk backwards reaches everything. */
static void mark(const dt_nest_builder *nest, bool *needed) {
    for (size_t s = 0; s < nest->stores.n; s++) {
        need(needed, nest->stores.items[s].operand);
        need(needed, nest->stores.items[s].guard);
        need_address(needed, &nest->stores.items[s].address);
    }
    for (size_t r = 0; r < nest->reductions.n; r++) need(needed, nest->reductions.items[r].operand);
    for (size_t i = nest->instructions.n; i-- > 0;) {
        const dt_instruction *instruction = &nest->instructions.items[i];
        if (!needed[i]) continue;
        for (int k = 0; k < instruction->n_operands; k++) need(needed, instruction->operands[k]);
        if (instruction->kind != DT_INSTRUCTION_LOAD) continue;
        need(needed, instruction->guard);
        need(needed, instruction->otherwise);
        need_address(needed, &instruction->address);
    }
}

static int renamed(const int *names, int x) { return x < 0 ? x : names[x]; }

static void rename_address(dt_arena *arena, const int *names, dt_address *address) {
    int *terms = DT_NEW_ARRAY(arena, int, address->n_terms);
    for (int i = 0; i < address->n_terms; i++) terms[i] = names[address->terms[i]];
    address->terms = terms;
}

dt_nest dt_nest_finish(dt_nest_builder *nest) {
    size_t n = nest->instructions.n;
    bool *needed = DT_NEW_ARRAY(nest->arena, bool, n);
    int *names = DT_NEW_ARRAY(nest->arena, int, n);
    dt_instruction *kept = DT_NEW_ARRAY(nest->arena, dt_instruction, n);
    int n_kept = 0;
    mark(nest, needed);
    for (size_t i = 0; i < n; i++) {
        if (!needed[i]) continue;
        dt_instruction *instruction = &kept[n_kept];
        *instruction = nest->instructions.items[i];
        names[i] = n_kept++;
        for (int k = 0; k < instruction->n_operands; k++) instruction->operands[k] = names[instruction->operands[k]];
        if (instruction->kind != DT_INSTRUCTION_LOAD) continue;
        instruction->guard = renamed(names, instruction->guard);
        instruction->otherwise = renamed(names, instruction->otherwise);
        rename_address(nest->arena, names, &instruction->address);
    }
    for (size_t s = 0; s < nest->stores.n; s++) {
        dt_store *store = &nest->stores.items[s];
        store->operand = names[store->operand];
        store->guard = renamed(names, store->guard);
        rename_address(nest->arena, names, &store->address);
    }
    for (size_t r = 0; r < nest->reductions.n; r++) nest->reductions.items[r].operand = names[nest->reductions.items[r].operand];
    return (dt_nest){.n_loops = nest->n_loops,
                     .loops = nest->loops,
                     .n_instructions = n_kept,
                     .instructions = kept,
                     .n_reductions = (int)nest->reductions.n,
                     .reductions = nest->reductions.items,
                     .n_stores = (int)nest->stores.n,
                     .stores = nest->stores.items,
                     .vector_loop = -1,
                     .tiling = {.row_loop = -1, .vector_loop = -1, .a = -1, .b = -1}};
}

/* ---- growing ---- */

void *dt_grown(dt_arena *arena, void *items, int n, size_t item_bytes) {
    if (n > 0 && (n & (n - 1)) != 0) return items;
    void *larger = dt_arena_new_array(arena, n > 0 ? 2 * (size_t)n : 1, item_bytes);
    if (n > 0) memcpy(larger, items, (size_t)n * item_bytes);
    return larger;
}

int dt_kernel_argument(dt_arena *arena, dt_kernel_function *kernel, int plan_buffer) {
    for (int i = 0; i < kernel->n_buffers; i++)
        if (kernel->buffers[i] == plan_buffer) return i;
    kernel->buffers = dt_grown(arena, kernel->buffers, kernel->n_buffers, sizeof *kernel->buffers);
    kernel->buffers[kernel->n_buffers] = plan_buffer;
    return kernel->n_buffers++;
}

int dt_plan_add_buffer(dt_arena *arena, dt_plan *plan, dt_buffer buffer) {
    plan->buffers = dt_grown(arena, plan->buffers, plan->n_buffers, sizeof *plan->buffers);
    plan->buffers[plan->n_buffers] = buffer;
    return plan->n_buffers++;
}

int dt_plan_add_kernel(dt_arena *arena, dt_plan *plan, dt_kernel_function kernel) {
    plan->kernels = dt_grown(arena, plan->kernels, plan->n_kernels, sizeof *plan->kernels);
    plan->kernels[plan->n_kernels] = kernel;
    return plan->n_kernels++;
}

void dt_kernel_insert_nest(dt_arena *arena, dt_kernel_function *kernel, int at, dt_nest nest) {
    kernel->nests = dt_grown(arena, kernel->nests, kernel->n_nests, sizeof *kernel->nests);
    memmove(&kernel->nests[at + 1], &kernel->nests[at], (size_t)(kernel->n_nests - at) * sizeof *kernel->nests);
    kernel->nests[at] = nest;
    kernel->n_nests++;
}
