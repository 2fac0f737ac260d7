/* random_products: matrix products and convolutions of random shapes, as text: from a function's inputs to its last value. */
#ifndef DT_TESTS_SUPPORT_RANDOM_PRODUCTS_H
#define DT_TESTS_SUPPORT_RANDOM_PRODUCTS_H

#include "tests/support/random_graph.h"

/* The module of one such function. */
static inline const char *product_module(dt_arena *arena, const char *body, int capacity) {
    return dt_arena_format(arena, "module m capacity %d\nfile 0 \"m\"\nfunction f step (%s\n  return y=%%9\n}\n", capacity, body);
}

static inline int pick(random_source *source, int n, const int *of) { return of[random_below(source, (uint32_t)n)]; }

static inline const char *random_product(dt_arena *arena, random_source *source) {
    int m = 1 + (int)random_below(source, 40), k = 1 + (int)random_below(source, 70), n = 1 + (int)random_below(source, 90);
    bool ta = random_below(source, 2), tb = random_below(source, 2);
    return dt_arena_format(
        arena, "%%0 a: f32[B, %d, %d], %%1 b: f32[B, %d, %d]) {\n  %%9: f32[B, %d, %d] = matmul(%%0, %%1, transpose_a=%s, transpose_b=%s)",
        ta ? k : m, ta ? m : k, tb ? n : k, tb ? k : n, m, n, ta ? "true" : "false", tb ? "true" : "false");
}

static inline const char *random_convolution(dt_arena *arena, random_source *source) {
    static const int channels[] = {1, 3, 8, 16, 33, 48}, taps[] = {1, 3, 3, 5, 7}, groups[] = {0, 0, 0, 2, 5};
    int in = pick(source, 6, channels), out = pick(source, 6, channels), kernel = pick(source, 5, taps), group = pick(source, 5, groups);
    int stride = 1 + (int)random_below(source, 3), low = (int)random_below(source, (uint32_t)kernel),
        high = (int)random_below(source, (uint32_t)kernel);
    int size = kernel + (int)random_below(source, 8), places = (size + low + high - kernel) / stride + 1;
    const char *groups_text = group > 0 ? dt_arena_format(arena, "%d, ", group) : "";
    const char *x = dt_arena_format(arena, "f32[B, %d, %d, %s%d]", size, size, groups_text, in);
    const char *w = dt_arena_format(arena, "f32[%d, %d, %d, %s%d]", kernel, kernel, in, groups_text, out);
    const char *y = dt_arena_format(arena, "f32[B, %d, %d, %s%d]", places, places, groups_text, out);
    const char *how = dt_arena_format(arena, "strides=[%d, %d], padding=[%d, %d, %d, %d]", stride, stride, low, high, low, high);
    switch (random_below(source, 3)) {
    case 0: return dt_arena_format(arena, "%%0 x: %s, %%1 w: %s) {\n  %%9: %s = conv2d(%%0, %%1, %s)", x, w, y, how);
    case 1:
        return dt_arena_format(arena, "%%0 g: %s, %%1 w: %s) {\n  %%9: %s = conv2d_input_gradient(%%0, %%1, size=[%d, %d], %s)", y, w, x, size, size,
                               how);
    default:
        return dt_arena_format(arena, "%%0 x: %s, %%1 g: %s) {\n  %%9: %s = conv2d_kernel_gradient(%%0, %%1, size=[%d, %d], %s)", x, y, w, kernel,
                               kernel, how);
    }
}

#endif
