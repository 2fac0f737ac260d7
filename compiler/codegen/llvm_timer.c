/* llvm_timer: where a kernel reads the clock (compiler/passes/add_timers.c says which nests have a timer). Each reading ends what was measured before
 * it and begins what comes next: the cycles between two of them are added to a counter of the launch. */
#include "compiler/codegen/llvm.h"

#include <stddef.h>

static LLVMValueRef now(dt_llvm_emitter *e) { return dt_llvm_intrinsic(e, "llvm.readcyclecounter", NULL, 0, NULL, 0); }

void dt_llvm_timers_begin(dt_llvm_emitter *e) {
    const dt_kernel_function *kernel = e->at_work.kernel;
    bool is_timed = false;
    for (int n = 0; n < kernel->n_nests; n++) is_timed |= kernel->nests[n].timer > 0;
    if (!is_timed) return;
    e->timers = dt_llvm_launch_field(e, e->pointer, offsetof(dt_launch, timers));
    e->clock = LLVMBuildAlloca(e->builder, e->i64, "clock");
    LLVMBuildStore(e->builder, now(e), e->clock);
}

static void add(dt_llvm_emitter *e, int64_t counter, LLVMValueRef amount) {
    LLVMValueRef index = dt_llvm_i64(e, counter), place = LLVMBuildInBoundsGEP2(e->builder, e->i64, e->timers, &index, 1, "");
    LLVMBuildStore(e->builder, LLVMBuildAdd(e->builder, LLVMBuildLoad2(e->builder, e->i64, place, ""), amount, ""), place);
}

void dt_llvm_read_timer(dt_llvm_emitter *e, int end, bool rows_are_done) {
    const int timer = dt_timer_before(e->at_work.kernel, end, rows_are_done);
    if (timer == 0) return;
    LLVMValueRef read = now(e), before = LLVMBuildLoad2(e->builder, e->i64, e->clock, "");
    add(e, 2 * (timer - 1), LLVMBuildSub(e->builder, read, before, ""));
    add(e, 2 * (timer - 1) + 1, dt_llvm_i64(e, 1));
    LLVMBuildStore(e->builder, read, e->clock);
}
