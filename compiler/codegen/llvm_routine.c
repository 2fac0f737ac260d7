/* llvm_routine: nests that are written once (kernel/repeats.h), as functions that kernels call.
 *
 *     void routine(void *const *buffers, const dt_launch *launch, const int32_t *table, int64_t row)
 *
 * buffers and launch are those of the kernel that calls; its table, a constant, says which of the buffers the nests use, and has the numbers that are
 * parameters, two items each. row is the iteration of the loop over rows that the call stands in. */
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

void dt_llvm_write_routines(dt_llvm_emitter *e, const dt_kernel_function *kernel, const dt_kernel_repeats *repeats) {
    for (int n = 0; n < kernel->n_nests; n++)
        if (repeats->uses[n] != NULL && e->routines[repeats->uses[n]->routine] == NULL) write_routine(e, repeats->uses[n]->routine);
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

static LLVMValueRef make_table(dt_llvm_emitter *e, const dt_routine *routine, const dt_routine_use *use) {
    int n_items = routine->n_buffers + 2 * routine->n_parameters;
    LLVMValueRef *items = DT_NEW_ARRAY(e->arena, LLVMValueRef, n_items);
    for (int b = 0; b < routine->n_buffers; b++) items[b] = LLVMConstInt(e->i32, (uint64_t)use->buffers[b], false);
    for (int i = 0; i < 2 * routine->n_parameters; i++) {
        uint64_t number = (uint64_t)use->numbers[i / 2];
        items[routine->n_buffers + i] = LLVMConstInt(e->i32, i % 2 == 0 ? number & 0xffffffff : number >> 32, false);
    }
    LLVMValueRef table = LLVMAddGlobal(e->module, LLVMArrayType2(e->i32, (uint64_t)n_items), "");
    LLVMSetInitializer(table, LLVMConstArray2(e->i32, items, (uint64_t)n_items));
    LLVMSetGlobalConstant(table, true);
    LLVMSetLinkage(table, LLVMPrivateLinkage);
    LLVMSetUnnamedAddress(table, LLVMGlobalUnnamedAddr);
    return table;
}

void dt_llvm_call_routine(dt_llvm_emitter *e, const dt_routine_use *use, LLVMValueRef row) {
    LLVMValueRef table = make_table(e, &e->repeats->routines[use->routine], use);
    LLVMValueRef arguments[] = {LLVMGetParam(e->function, 0), e->launch, table, row != NULL ? row : dt_llvm_i64(e, 0)};
    LLVMBuildCall2(e->builder, type_of_routine(e), e->routines[use->routine], arguments, 4, "");
}
