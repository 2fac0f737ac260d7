/* library: what a vendor's library is asked to do in place of a generated function.
 *
 * dtc finds the nests of a program that are exactly a matrix product or a convolution, and says so in the manifest beside the generated function
 * that computes the same from the same buffers; whoever runs the plan chooses. Where a long sum is generated as parts and their sum, a call stands
 * for both functions. Which class of nest goes to which library is the table below; what is not in it (attention as a whole, reductions, poolings,
 * all that is elementwise) is always generated.
 *
 * Sizes are those at capacity. Rows of the batch beyond the valid ones are computed along, for nobody reads them; where a sum runs over rows, the
 * factors' rows beyond the valid ones are cleared first (`clears`). So each replica's part of an input has room for the rows of a full one, too. */
#ifndef DT_ABI_LIBRARY_H
#define DT_ABI_LIBRARY_H

#include "abi/precision.h"

#include <stdbool.h>
#include <stdint.h>

/* X(enumerator, name in the manifest, library, what it is) */
#define DT_LIBRARY_CLASSES(X)                                                                                                                        \
    X(PRODUCT, "product", "cuBLASLt", "matrix products, one or many, and what may follow them")                                                      \
    X(CONVOLUTION, "convolution", "cuDNN", "convolutions of images and volumes with a border of zeros, strides, dilation and groups")                \
    X(INPUT_GRADIENT, "input_gradient", "cuDNN", "their gradients by the images")                                                                    \
    X(KERNEL_GRADIENT, "kernel_gradient", "cuDNN", "their gradients by the kernel")

/* What may be done to a sum of products once its factor and its bias are there. gelu is the one by tanh,
 *
 *     gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))),
 *
 * for that is cuBLASLt's (https://github.com/NVIDIA/TensorRT-LLM/pull/17693). `kept` is a second matrix, which lies as the result does.
 * X(enumerator, name in the manifest, the result of a sum x) */
#define DT_LIBRARY_ACTIVATIONS(X)                                                                                                                    \
    X(NONE, "none", "x")                                                                                                                             \
    X(RELU, "relu", "max(x, 0)")                                                                                                                     \
    X(GELU, "gelu", "gelu(x); where there is a kept matrix, it becomes x")                                                                           \
    X(RELU_GRADIENT, "relu_gradient", "x where kept, the result of a relu, is greater than 0; 0 elsewhere")                                          \
    X(GELU_GRADIENT, "gelu_gradient", "x * gelu'(kept)")

typedef enum dt_library_class {
#define X(enumerator, name, library, what) DT_LIBRARY_##enumerator,
    DT_LIBRARY_CLASSES(X)
#undef X
    DT_N_LIBRARY_CLASSES
} dt_library_class;

/* [DT_N_LIBRARY_CLASSES] "product" */
static inline const char *const *dt_library_class_names(void) {
    static const char *const names[] = {
#define X(enumerator, name, library, what) name,
        DT_LIBRARY_CLASSES(X)
#undef X
    };
    return names;
}

/* "cuBLASLt" */
static inline const char *dt_library_of_class(dt_library_class class) {
    static const char *const libraries[] = {
#define X(enumerator, name, library, what) library,
        DT_LIBRARY_CLASSES(X)
#undef X
    };
    return libraries[class];
}

typedef enum dt_library_activation {
#define X(enumerator, name, result) DT_LIBRARY_ACTIVATION_##enumerator,
    DT_LIBRARY_ACTIVATIONS(X)
#undef X
    DT_N_LIBRARY_ACTIVATIONS
} dt_library_activation;

/* [DT_N_LIBRARY_ACTIVATIONS] "relu" */
static inline const char *const *dt_library_activation_names(void) {
    static const char *const names[] = {
#define X(enumerator, name, result) name,
        DT_LIBRARY_ACTIVATIONS(X)
#undef X
    };
    return names;
}

static inline bool dt_library_is_gradient(dt_library_activation activation) {
    return activation == DT_LIBRARY_ACTIVATION_RELU_GRADIENT || activation == DT_LIBRARY_ACTIVATION_GELU_GRADIENT;
}

enum {
    DT_LIBRARY_KEPT_STEP = 8, /* rows of a matrix that gelu keeps, or is given back, begin at a multiple of so many elements */
    DT_LIBRARY_MOST_BATCHES = 3,
    DT_LIBRARY_MOST_CALLS = 64 /* that one product may take: all batches but the last, which a library walks itself */
};

/* Element (i, j) of batch (b0, …) lies at offset + i * strides[0] + j * strides[1] + sum of b * batch_strides; of f32, counted in elements. One of
 * the two strides is 1, the other at least as long as that side. */
typedef struct dt_library_matrix {
    int64_t argument; /* of the kernel */
    int64_t offset;
    int64_t strides[2];
    int64_t batch_strides[DT_LIBRARY_MOST_BATCHES];
} dt_library_matrix;

/* Beside a product without bias, factor and activation: sums over its terms of one of its factors, side by side: of second[term, column] for each
 * column, or of first[row, term] for each row. Generated code does that in launches of its own, right before the product's. */
typedef struct dt_library_bias_gradient {
    int64_t argument, offset; /* -1: none */
    bool of_first;
    int64_t n_launches;
} dt_library_bias_gradient;

/* result[row, column] = activation(scale * sum of first[row, term] * second[term, column] + bias[column]), for each batch. The result's columns lie
 * side by side, and so does the bias. A product with a kept matrix, or with a gradient of a bias, is of one batch. */
typedef struct dt_library_product {
    int64_t rows, columns, terms;
    int64_t n_batches, batches[DT_LIBRARY_MOST_BATCHES];
    dt_library_matrix first, second, result;
    double scale;
    int64_t bias, bias_offset; /* argument; -1: none */
    dt_library_activation activation;
    int64_t kept; /* argument; -1: none */
    dt_library_bias_gradient bias_gradient;
} dt_library_product;

/* Whether what is kept, or that nothing is, goes with the rest of the product: the gradients read it and take no bias besides, gelu may write it. */
static inline bool dt_library_can_keep(const dt_library_product *p) {
    bool gradient = dt_library_is_gradient(p->activation), is_gelu = p->activation == DT_LIBRARY_ACTIVATION_GELU;
    if (gradient && p->bias >= 0) return false;
    if (p->kept < 0) return !gradient;
    bool even = p->result.strides[0] % DT_LIBRARY_KEPT_STEP == 0 && p->result.offset % DT_LIBRARY_KEPT_STEP == 0;
    return (gradient || is_gelu) && p->n_batches == 0 && (even || p->activation == DT_LIBRARY_ACTIVATION_RELU_GRADIENT);
}

enum {
    DT_LIBRARY_LEAST_DIRECTIONS = 2, /* height and width */
    DT_LIBRARY_MOST_DIRECTIONS = 3   /* depth before them */
};

/* The relation of three tensors, each of which may be the result; of two directions
 *
 *     y[n, p, q, filter] <- x[n, p * stride + r * dilation - padding, …, channel] * kernel[r, s, channel, filter]
 *
 * x [images, input, channels], y [images, output, filters], kernel [taps, channels / groups, filters], all whole and row-major. Each group has as
 * many channels and as many filters, side by side; the filters of one see its channels alone, whose numbers in the kernel begin at 0. */
typedef struct dt_library_convolution {
    int64_t n_directions, images, channels, filters, groups;
    int64_t input[DT_LIBRARY_MOST_DIRECTIONS], taps[DT_LIBRARY_MOST_DIRECTIONS], output[DT_LIBRARY_MOST_DIRECTIONS];
    int64_t stride[DT_LIBRARY_MOST_DIRECTIONS], dilation[DT_LIBRARY_MOST_DIRECTIONS];
    int64_t padding[DT_LIBRARY_MOST_DIRECTIONS], padding_after[DT_LIBRARY_MOST_DIRECTIONS];
    int64_t x, kernel, y; /* arguments */
} dt_library_convolution;

/* Positions in all directions together: of c->input, c->taps or c->output. */
static inline int64_t dt_library_positions(const dt_library_convolution *c, const int64_t *sizes) {
    int64_t n = 1;
    for (int64_t i = 0; i < c->n_directions; i++) n *= sizes[i];
    return n;
}

/* Bytes rows * row_bytes to capacity * row_bytes of an argument are to be zero before the call. */
typedef struct dt_library_clear {
    int64_t argument, row_bytes;
} dt_library_clear;

typedef struct dt_library_call {
    dt_library_class class;
    int64_t n_launches;                 /* of consecutive generated functions, whose work it does; the last one stores the result */
    dt_precision precision;             /* to which both factors are rounded before they are multiplied; sums are of f32 */
    dt_library_product product;         /* of that class */
    dt_library_convolution convolution; /* of the others */
    int64_t n_clears;
    dt_library_clear clears[2];
} dt_library_call;

#endif
