/* kernel_case: see the header. */
#include "bench/kernel_case.h"

#include "bench/kernel_formula.h"
#include "runtime/threads/clock.h"

#include <math.h>
#include <stdio.h>

int kernel_case_groups(const kernel_case *test) { return test->conv.groups > 1 ? test->conv.groups : 1; }

int kernel_case_out(const kernel_case *test, int axis) {
    return (test->conv.size[axis] + test->conv.before[axis] + test->conv.after[axis] - test->conv.kernel[axis]) / test->conv.stride[axis] + 1;
}

double kernel_case_operations(const kernel_case *test) {
    if (test->kind == CASE_OTHER) return test->other.operations;
    if (test->kind == CASE_ELEMENTWISE) return 0;
    if (test->kind == CASE_MATMUL) return 2.0 * test->matmul.batch * test->matmul.m * test->matmul.k * test->matmul.n;
    double results = 1.0 * test->conv.images * kernel_case_out(test, 0) * kernel_case_out(test, 1) * test->conv.filters;
    return 2 * results * test->conv.kernel[0] * test->conv.kernel[1] * test->conv.channels / kernel_case_groups(test);
}

int kernel_case_rows(const kernel_case *test) {
    if (test->kind == CASE_OTHER) return KERNEL_CASE_ROWS;
    if (test->kind == CASE_ELEMENTWISE) return test->elementwise.shape.dims[0];
    if (test->kind != CASE_MATMUL) return test->conv.images;
    switch (test->matmul.rows) {
    case 'm': return test->matmul.m;
    case 'k': return test->matmul.k;
    case 'b': return test->matmul.batch;
    default: return 1;
    }
}

/* A length of period that is no multiple of what kernels work by. */
double kernel_case_element(const kernel_case *test, size_t i) {
    bool elementwise = test->kind == CASE_ELEMENTWISE;
    double low = elementwise ? test->elementwise.low : -0.7, high = elementwise ? test->elementwise.high : 0.7;
    return low + (high - low) * (double)(i * 7 % 1009) / 1009;
}

/* ---- the text form ---- */

/* "f32[128, B, 32]", of a matrix in memory: `rows_is_b` and `columns_is_b` say which is the number of rows of the launch. */
static void append_matrix(dt_text *text, const kernel_case *t, int rows, int columns, bool rows_is_b, bool columns_is_b) {
    dt_text_append(text, "f32[");
    if (t->matmul.rows == 'b')
        dt_text_append(text, "B, ");
    else if (t->matmul.batch > 1)
        dt_text_format(text, "%d, ", t->matmul.batch);
    rows_is_b ? dt_text_append(text, "B, ") : dt_text_format(text, "%d, ", rows);
    columns_is_b ? dt_text_append(text, "B]") : dt_text_format(text, "%d]", columns);
}

static void append_matmul(dt_text *text, const kernel_case *t) {
    int m = t->matmul.m, k = t->matmul.k, n = t->matmul.n;
    bool ta = t->matmul.transpose_a, tb = t->matmul.transpose_b, m_is_b = t->matmul.rows == 'm', k_is_b = t->matmul.rows == 'k';
    dt_text_append(text, "%0 a: ");
    append_matrix(text, t, ta ? k : m, ta ? m : k, ta ? k_is_b : m_is_b, ta ? m_is_b : k_is_b);
    dt_text_append(text, ", %1 b: ");
    append_matrix(text, t, tb ? n : k, tb ? k : n, !tb && k_is_b, tb && k_is_b);
    dt_text_append(text, ") {\n  %9: ");
    append_matrix(text, t, m, n, m_is_b, false);
    dt_text_format(text, " = matmul(%%0, %%1%s%s)\n", ta ? ", transpose_a=true" : "", tb ? ", transpose_b=true" : "");
}

/* "28, 28, 32" of an image, "28, 28, 4, 8" of one in groups. */
static void format_image(char text[64], int height, int width, int groups, int channels) {
    if (groups > 1)
        snprintf(text, 64, "%d, %d, %d, %d", height, width, groups, channels / groups);
    else
        snprintf(text, 64, "%d, %d, %d", height, width, channels);
}

static void append_conv(dt_text *text, const kernel_case *t) {
    const int *size = t->conv.size, *kernel = t->conv.kernel, *before = t->conv.before, *after = t->conv.after;
    int groups = kernel_case_groups(t), channels = t->conv.channels / groups;
    char x[64], y[64], w[64];
    format_image(x, size[0], size[1], groups, t->conv.channels);
    format_image(y, kernel_case_out(t, 0), kernel_case_out(t, 1), groups, t->conv.filters);
    if (groups > 1)
        snprintf(w, sizeof w, "%d, %d, %d, %d, %d", kernel[0], kernel[1], channels, groups, t->conv.filters / groups);
    else
        snprintf(w, sizeof w, "%d, %d, %d, %d", kernel[0], kernel[1], channels, t->conv.filters);
    if (t->kind == CASE_CONV)
        dt_text_format(text, "%%0 x: f32[B, %s], %%1 w: f32[%s]) {\n  %%9: f32[B, %s] = conv2d(%%0, %%1", x, w, y);
    else if (t->kind == CASE_CONV_INPUT)
        dt_text_format(text, "%%0 g: f32[B, %s], %%1 w: f32[%s]) {\n  %%9: f32[B, %s] = conv2d_input_gradient(%%0, %%1, size=[%d, %d]", y, w, x,
                       size[0], size[1]);
    else
        dt_text_format(text, "%%0 x: f32[B, %s], %%1 g: f32[B, %s]) {\n  %%9: f32[%s] = conv2d_kernel_gradient(%%0, %%1, size=[%d, %d]", x, y, w,
                       kernel[0], kernel[1]);
    dt_text_format(text, ", strides=[%d, %d], padding=[%d, %d, %d, %d])\n", t->conv.stride[0], t->conv.stride[1], before[0], after[0], before[1],
                   after[1]);
}

void kernel_case_append_module(dt_text *text, const kernel_case *test) {
    if (test->kind == CASE_ELEMENTWISE) {
        kernel_formula_append_program(text, test);
        return;
    }
    dt_text_format(text, "module m capacity %d\nfile 0 \"m\"\nfunction f step (", kernel_case_rows(test));
    if (test->kind == CASE_MATMUL)
        append_matmul(text, test);
    else if (test->kind == CASE_OTHER)
        dt_text_format(text, "%s) {\n  %%9: %s = %s\n", test->other.inputs, test->other.result, test->other.call);
    else
        append_conv(text, test);
    dt_text_append(text, "  return y=%9\n}\n");
}

/* ---- time ---- */

double kernel_case_time(void (*run)(void *context), void *context) {
    enum {
        LEAST_RUNS = 5
    };
    double best = INFINITY, start = dt_seconds_now();
    for (int i = 0; i < LEAST_RUNS || dt_seconds_now() - start < 0.2; i++) {
        double before = dt_seconds_now();
        run(context);
        best = fmin(best, dt_seconds_now() - before);
    }
    return best;
}
