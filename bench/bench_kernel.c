/* dtc-bench-kernel: one kernel alone, compiled, compared with the interpreter, timed: for who works on the compiler. It is no command of dtc, for it
 * calls what was compiled, which is the runtime's work, and the compiler holds none of the runtime. */
#include "bench/bench_kernel.h"

#include <stdio.h>

static int finish(dt_status *status) {
    if (status == NULL) return 0;
    fprintf(stderr, "dtc-bench-kernel: %s\n", dt_status_message(status));
    int code = dt_status_code(status) == DT_INVALID_ARGUMENT ? 2 : 1;
    dt_status_free(status);
    return code;
}

static dt_status *run(const bench_kernel_call *call) {
    kernel_measured ours;
    DT_TRY(kernel_code_measure(&call->test, call->level, &ours));
    return bench_kernel_print(call, &ours);
}

int main(int argc, char **argv) {
    bench_kernel_call call = {.arena = dt_arena_create()};
    jmp_buf guard;
    if (call.arena == NULL || setjmp(guard)) return finish(dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"));
    dt_arena_guard(call.arena, &guard);
    bench_kernel_read(&call, argc, argv);
    int code = finish(run(&call));
    dt_arena_destroy(call.arena);
    return code;
}
