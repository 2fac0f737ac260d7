/* bench_kernel: what the files of `dtc-bench-kernel` share. */
#ifndef DT_BENCH_BENCH_KERNEL_H
#define DT_BENCH_BENCH_KERNEL_H

#include "base/arena.h"
#include "bench/kernel_case.h"
#include "bench/kernel_code.h"

typedef struct bench_kernel_call {
    dt_arena *arena;
    kernel_case test;
    const char *level; /* of compiler/codegen/codegen.h */
    int level_number;  /* of base/cpu.h: 3 or 4 */
    bool json;
} bench_kernel_call;

/* Reads the command line; on mistakes it prints what is wrong and ends the process with 2. */
void bench_kernel_read(bench_kernel_call *call, int argc, char **argv);

/* Prints our time, and what the libraries that are installed take for the same. */
dt_status *bench_kernel_print(const bench_kernel_call *call, const kernel_measured *ours);

#endif
