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
    CASE_ELEMENTWISE, /* a formula over arrays */
    CASE_OTHER        /* an op in the text form, with no peer */
} case_kind;

enum {
    KERNEL_CASE_ROWS = 64, /* of CASE_OTHER */
    KERNEL_CASE_MOST_DIMS = 4,
    KERNEL_CASE_MOST_INPUTS = 8
};

typedef struct case_shape {
    int rank, dims[KERNEL_CASE_MOST_DIMS];
} case_shape;

typedef struct case_input {
    const char *name;
    case_shape shape; /* rank 0: that of the result */
} case_input;

typedef struct kernel_case {
    case_kind kind;
    const char *name;
    struct {
        int batch, m, k, n; /* batch 1: plain matrices */
        bool transpose_a, transpose_b;
        char rows; /* which is the number of rows, known at launch only: 'm', 'k', 'b' (the batch); 0: none */
    } matmul;
    struct {
        int images, channels, filters;                          /* the number of images is known at launch only */
        int groups;                                             /* that channels and filters fall into; 0 is 1 */
        int size[2], kernel[2], stride[2], before[2], after[2]; /* height and width; before and after: padding */
    } conv;
    struct {
        const char *formula; /* an expression of the language (bench/kernel_formula.h) */
        case_shape shape;    /* of the result; the first dimension is known at launch only */
        int n_inputs;
        case_input inputs[KERNEL_CASE_MOST_INPUTS];
        double low, high; /* what the inputs' elements are spread over */
    } elementwise;
    struct {
        const char *inputs, *result, *call; /* B: KERNEL_CASE_ROWS */
        double operations;
    } other;
} kernel_case;

/* The last one has no name. */
extern const kernel_case kernel_cases_of_examples[], kernel_cases_of_others[];

int kernel_case_rows(const kernel_case *test);          /* of the launch */
int kernel_case_groups(const kernel_case *test);        /* of a convolution, 1 or more */
int kernel_case_out(const kernel_case *test, int axis); /* height (0) or width (1) of a convolution's result */

/* Two for each multiplication of the definition of a product or a convolution, those with padding too; 0 of CASE_ELEMENTWISE, whose formula only the
 * compiler counts. */
double kernel_case_operations(const kernel_case *test);

/* Element i of each operand, the same for all who compute the case. */
double kernel_case_element(const kernel_case *test, size_t i);

/* The case as a step `f`: in the text form of graphs (ir/text_form.h), or of CASE_ELEMENTWISE, as a program. */
void kernel_case_append_module(dt_text *text, const kernel_case *test);

/* The shortest time of run(context), in seconds, over at least five calls and a fifth of a second. */
double kernel_case_time(void (*run)(void *context), void *context);

#endif
