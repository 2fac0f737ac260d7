/* kernel_case: one matrix product or convolution, as our compiler and as the libraries beside it are asked for it. */
#ifndef DT_BENCH_KERNEL_CASE_H
#define DT_BENCH_KERNEL_CASE_H

#include <stdbool.h>

typedef enum case_kind {
    CASE_MATMUL,      /* c[batch, m, n] = a[batch, m, k] b[batch, k, n] */
    CASE_CONV,        /* images, kernel -> result */
    CASE_CONV_INPUT,  /* gradient of the result, kernel -> gradient of the images */
    CASE_CONV_KERNEL, /* images, gradient of the result -> gradient of the kernel */
    CASE_OTHER        /* an op in the text form, with no peer */
} case_kind;

typedef struct kernel_case {
    case_kind kind;
    const char *name;
    struct {
        int batch, m, k, n; /* batch 1: plain matrices */
        bool transpose_a, transpose_b;
        char rows; /* which of m and k is the number of rows, known at launch only; 0: neither */
    } matmul;
    struct {
        int images, size, channels, filters; /* the images are square, [images, size, size, channels]; their number is known at launch only */
        int kernel, stride, before, after;   /* padding */
    } conv;
    struct {
        const char *inputs, *result, *call; /* B: KERNEL_CASE_ROWS */
        double operations;
    } other;
} kernel_case;

enum {
    KERNEL_CASE_ROWS = 64 /* of CASE_OTHER */
};

/* Height and width of a convolution's result. */
static inline int kernel_case_out(const kernel_case *test) {
    return (test->conv.size + test->conv.before + test->conv.after - test->conv.kernel) / test->conv.stride + 1;
}

/* The shortest time of run(context), in seconds, over at least five calls and a fifth of a second. */
double kernel_case_time(void (*run)(void *context), void *context);

#endif
