/* llvm_routine: nests that are written once (kernel/repeats.h), as functions that kernels call.
 *
 *     void routine(void *const *buffers, const dt_launch *launch, const int32_t *table, int64_t row)
 *
 * buffers and launch are those of the kernel that calls; its table, a constant, says which of the buffers the nests use, and has the numbers that are
 * parameters, two items each. row is the iteration of the loop over rows that the call stands in.
 *
 * A kernel has thousands of calls where a program has hundreds of equal layers, so calls that follow one another are data: a list that one function
 * goes through. It has the number of calls; of each how far its routine is from the list, in bytes, and which item its table begins with; the
 * tables. */
#include "compiler/codegen/llvm.h"

#include <stdio.h>

static LLVMTypeRef type_of_routine(dt_llvm_emitter *e) {
    return LLVMFunctionType(e->void_type, (LLVMTypeRef[]){e->pointer, e->pointer, e->pointer, e->i64}, 4, false);
}

/* ---- the function ---- */

static void load_buffers(dt_llvm_emitter *e, LLVMValueRef table) {
    const dt_routine *routine = e->routine;
    e->buffers = DT_NEW_ARRAY(e->arena, LLVMValueRef, routine->kernel->n_buffers);
    for (int b = 0; b < routine->n_buffers; b++) {
        LLVMValueRef index = LLVMBuildZExt(e->builder, dt_llvm_item(e, e->i32, table, dt_llvm_i64(e, b)), e->i64, "");
        e->buffers[routine->buffers[b]] = dt_llvm_item(e, e->pointer, LLVMGetParam(e->function, 0), index);
    }
}

static void load_parameters(dt_llvm_emitter *e, LLVMValueRef table) {
    LLVMValueRef start = dt_llvm_i64(e, e->routine->n_buffers);
    LLVMValueRef numbers = LLVMBuildInBoundsGEP2(e->builder, e->i32, table, &start, 1, "");
    e->parameters = DT_NEW_ARRAY(e->arena, LLVMValueRef, e->routine->n_parameters);
    for (int p = 0; p < e->routine->n_parameters; p++) {
        e->parameters[p] = dt_llvm_item(e, e->i64, numbers, dt_llvm_i64(e, p));
        LLVMSetAlignment(e->parameters[p], 4);
    }
}

static void write_routine(dt_llvm_emitter *e, int index) {
    const dt_routine *routine = &e->repeats->routines[index];
    const dt_nest *nests = &routine->kernel->nests[routine->first];
    char name[256];
    snprintf(name, sizeof name, "%.200s.%d", routine->kernel->name, routine->first);
    dt_llvm_begin_kernel(e, routine->plan, routine->kernel);
    e->routine = routine;
    e->streams = false;
    dt_llvm_function_begin(e, name, type_of_routine(e));
    LLVMSetLinkage(e->function, LLVMInternalLinkage);
    e->routines[index] = e->function;
    dt_llvm_load_launch(e);
    load_buffers(e, LLVMGetParam(e->function, 2));
    load_parameters(e, LLVMGetParam(e->function, 2));
    dt_llvm_piece(e, nests, routine->n_nests, nests->in_rows ? LLVMGetParam(e->function, 3) : NULL);
    LLVMBuildRetVoid(e->builder);
    e->routine = NULL;
}

const LLVMValueRef *dt_llvm_numbers(const dt_llvm_emitter *e, const dt_nest *nest) {
    LLVMValueRef *numbers = DT_NEW_ARRAY(e->arena, LLVMValueRef, dt_nest_n_numbers(nest));
    if (e->routine == NULL) return numbers;
    const int *parameters = e->routine->parameters;
    for (const dt_nest *before = &e->routine->kernel->nests[e->routine->first]; before != nest; before++) parameters += dt_nest_n_numbers(before);
    for (int i = 0; i < dt_nest_n_numbers(nest); i++)
        if (parameters[i] >= 0) numbers[i] = e->parameters[parameters[i]];
    return numbers;
}

/* ---- calls ---- */

/* Items of the table of a call. */
static int n_items_of(const dt_routine *routine) { return routine->n_buffers + 2 * routine->n_parameters; }

static void fill_table(dt_llvm_emitter *e, const dt_routine *routine, const dt_routine_use *use, LLVMValueRef *items) {
    for (int b = 0; b < routine->n_buffers; b++) items[b] = LLVMConstInt(e->i32, (uint64_t)use->buffers[b], false);
    for (int i = 0; i < 2 * routine->n_parameters; i++) {
        uint64_t number = (uint64_t)use->numbers[i / 2];
        items[routine->n_buffers + i] = LLVMConstInt(e->i32, i % 2 == 0 ? number & 0xffffffff : number >> 32, false);
    }
}

static LLVMValueRef distance(dt_llvm_emitter *e, LLVMValueRef from, LLVMValueRef to) {
    return LLVMConstTrunc(LLVMConstSub(LLVMConstPtrToInt(to, e->i64), LLVMConstPtrToInt(from, e->i64)), e->i32);
}

void dt_llvm_call_routines(dt_llvm_emitter *e, const dt_routine_use *const *uses, int n_uses, LLVMValueRef row) {
    int n_items = 1 + 2 * n_uses, at = n_items;
    for (int u = 0; u < n_uses; u++) n_items += n_items_of(&e->repeats->routines[uses[u]->routine]);
    LLVMTypeRef type = LLVMArrayType2(e->i32, (uint64_t)n_items);
    LLVMValueRef list = LLVMAddGlobal(e->module, type, ""), *items = DT_NEW_ARRAY(e->arena, LLVMValueRef, n_items);
    items[0] = LLVMConstInt(e->i32, (uint64_t)n_uses, false);
    for (int u = 0; u < n_uses; u++) {
        const dt_routine *routine = &e->repeats->routines[uses[u]->routine];
        items[1 + 2 * u] = distance(e, list, e->routines[uses[u]->routine]);
        items[2 + 2 * u] = LLVMConstInt(e->i32, (uint64_t)at, false);
        fill_table(e, routine, uses[u], &items[at]);
        at += n_items_of(routine);
    }
    LLVMSetInitializer(list, LLVMConstArray2(e->i32, items, (uint64_t)n_items));
    LLVMSetGlobalConstant(list, true);
    LLVMSetLinkage(list, LLVMPrivateLinkage);
    LLVMSetUnnamedAddress(list, LLVMGlobalUnnamedAddr);
    LLVMValueRef arguments[] = {LLVMGetParam(e->function, 0), e->launch, list, row != NULL ? row : dt_llvm_i64(e, 0)};
    LLVMBuildCall2(e->builder, type_of_routine(e), e->call_all, arguments, 4, "");
}

/* The function that calls the routines of a list, one after the other. */
static void write_call_all(dt_llvm_emitter *e) {
    dt_llvm_function_begin(e, "call_all", type_of_routine(e));
    LLVMSetLinkage(e->function, LLVMInternalLinkage);
    e->call_all = e->function;
    LLVMValueRef list = LLVMGetParam(e->function, 2),
                 n_calls = LLVMBuildZExt(e->builder, dt_llvm_item(e, e->i32, list, dt_llvm_i64(e, 0)), e->i64, "");
    dt_llvm_loop calls = dt_llvm_loop_begin(e, dt_llvm_i64(e, 0), n_calls, 1, false);
    LLVMValueRef twice = LLVMBuildMul(e->builder, calls.index, dt_llvm_i64(e, 2), "");
    LLVMValueRef away = dt_llvm_item(e, e->i32, list, LLVMBuildAdd(e->builder, twice, dt_llvm_i64(e, 1), ""));
    LLVMValueRef at = dt_llvm_item(e, e->i32, list, LLVMBuildAdd(e->builder, twice, dt_llvm_i64(e, 2), ""));
    LLVMValueRef address = LLVMBuildAdd(e->builder, LLVMBuildPtrToInt(e->builder, list, e->i64, ""), LLVMBuildSExt(e->builder, away, e->i64, ""), "");
    LLVMValueRef index = LLVMBuildZExt(e->builder, at, e->i64, ""), table = LLVMBuildInBoundsGEP2(e->builder, e->i32, list, &index, 1, "");
    LLVMValueRef arguments[] = {LLVMGetParam(e->function, 0), LLVMGetParam(e->function, 1), table, LLVMGetParam(e->function, 3)};
    LLVMBuildCall2(e->builder, type_of_routine(e), LLVMBuildIntToPtr(e->builder, address, e->pointer, ""), arguments, 4, "");
    dt_llvm_loop_end(e, &calls);
    LLVMBuildRetVoid(e->builder);
}

void dt_llvm_write_routines(dt_llvm_emitter *e, const dt_kernel_function *kernel, const dt_kernel_repeats *repeats) {
    for (int n = 0; n < kernel->n_nests; n++) {
        if (repeats->uses[n] == NULL || e->routines[repeats->uses[n]->routine] != NULL) continue;
        if (e->call_all == NULL) write_call_all(e);
        write_routine(e, repeats->uses[n]->routine);
    }
}
