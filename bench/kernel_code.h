/* kernel_code: what the compiler makes of a case: compared with the interpreter, then timed. */
#ifndef DT_BENCH_KERNEL_CODE_H
#define DT_BENCH_KERNEL_CODE_H

#include "base/status.h"
#include "bench/kernel_case.h"

typedef struct kernel_measured {
    double seconds;   /* of all the kernels that the case became together, each the best of many runs on the same buffers */
    int checked_rows; /* that were computed by the interpreter too, from 1 to all: as many as it does in about a second */
    double flops;     /* kernel_case_operations, or of CASE_ELEMENTWISE, what the kernels do (compiler/kernel/count.h) */
    double bytes;     /* that must cross the kernels' borders */
} kernel_measured;

/* Compiles for `level` (compiler/codegen/codegen.h) and one core, all rows in one call as the libraries have them.
 * DT_INVALID_ARGUMENT: a formula with mistakes in it; they are printed to standard error.
 * DT_INTERNAL: the code does not compute what the interpreter does, up to rounding. */
dt_status *kernel_code_measure(const kernel_case *test, const char *level, kernel_measured *measured);

#endif
