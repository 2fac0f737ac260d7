/* kernel_case: one kernel alone, as our compiler and as the libraries beside it are asked for it. */
#ifndef DT_BENCH_KERNEL_CASE_H
#define DT_BENCH_KERNEL_CASE_H

#include "base/text.h"

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
        int images, channels, filters;                          /* the number of images is known at launch only */
        int groups;                                             /* that channels and filters fall into; 0 is 1 */
        int size[2], kernel[2], stride[2], before[2], after[2]; /* height and width; before and after: padding */
    } conv;
    struct {
        const char *inputs, *result, *call; /* B: KERNEL_CASE_ROWS */
        double operations;
    } other;
} kernel_case;

/* The last one has no name. */
extern const kernel_case kernel_cases_of_examples[], kernel_cases_of_others[];

enum {
    KERNEL_CASE_ROWS = 64 /* of CASE_OTHER */
};

int kernel_case_rows(const kernel_case *test);                      /* of the launch */
int kernel_case_groups(const kernel_case *test);                    /* of a convolution, 1 or more */
int kernel_case_out(const kernel_case *test, int axis);             /* height (0) or width (1) of a convolution's result */
double kernel_case_operations(const kernel_case *test);             /* two for each multiplication of the definition, those with padding too */
void kernel_case_append_module(dt_text *text, const kernel_case *); /* as a step `f` in the text form (ir/text_form.h) */

/* The shortest time of run(context), in seconds, over at least five calls and a fifth of a second. */
double kernel_case_time(void (*run)(void *context), void *context);

#endif
