/* library_naive: what a library is asked to do (abi/library.h), done one element at a time, from the description alone: what calls of libraries, and
 * the descriptions themselves, are held against. */
#ifndef DT_TESTS_SUPPORT_LIBRARY_NAIVE_H
#define DT_TESTS_SUPPORT_LIBRARY_NAIVE_H

#include "abi/library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline float library_factor(float x, dt_precision precision) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (precision == DT_PRECISION_F32 || (bits >> 23 & 255) == 255) return x;
    bits = precision == DT_PRECISION_TF32 ? (bits + (1u << 12)) & ~((1u << 13) - 1) : (bits + 0x7fff + (bits >> 16 & 1)) & ~0xffffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline const float *library_place(const dt_library_matrix *m, void *const *arguments, const int64_t *batch, int64_t n_batches) {
    const float *place = (const float *)arguments[m->argument] + m->offset;
    for (int64_t b = 0; b < n_batches; b++) place += batch[b] * m->batch_strides[b];
    return place;
}

static inline double library_gelu(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

static inline double library_gelu_slope(double x) {
    double t = tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

/* What becomes of a sum; *kept is a place of the kept matrix, if there is one. */
static inline float library_activate(dt_library_activation activation, float sum, float *kept) {
    if (activation == DT_LIBRARY_ACTIVATION_GELU && kept != NULL) *kept = sum;
    switch (activation) {
    case DT_LIBRARY_ACTIVATION_RELU: return sum > 0 ? sum : 0;
    case DT_LIBRARY_ACTIVATION_GELU: return (float)library_gelu(sum);
    case DT_LIBRARY_ACTIVATION_RELU_GRADIENT: return *kept > 0 ? sum : 0;
    case DT_LIBRARY_ACTIVATION_GELU_GRADIENT: return (float)(sum * library_gelu_slope(*kept));
    default: return sum;
    }
}

static inline void library_multiply(const dt_library_product *p, dt_precision precision, void *const *arguments, const int64_t *batch) {
    const float *a = library_place(&p->first, arguments, batch, p->n_batches), *b = library_place(&p->second, arguments, batch, p->n_batches);
    float *result = (float *)(uintptr_t)library_place(&p->result, arguments, batch, p->n_batches);
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < p->terms; k++)
                sum += (double)library_factor(a[i * p->first.strides[0] + k * p->first.strides[1]], precision) *
                       library_factor(b[k * p->second.strides[0] + j * p->second.strides[1]], precision);
            float value = (float)(p->scale * sum);
            if (p->bias >= 0) value += ((const float *)arguments[p->bias])[p->bias_offset + j];
            int64_t place = i * p->result.strides[0] + j * p->result.strides[1];
            float *kept = p->kept >= 0 ? (float *)arguments[p->kept] + p->result.offset + place : NULL;
            result[place] = library_activate(p->activation, value, kept);
        }
}

/* The sums beside a product. */
static inline void library_bias_gradient(const dt_library_product *p, void *const *arguments) {
    const dt_library_bias_gradient *gradient = &p->bias_gradient;
    const dt_library_matrix *m = gradient->of_first ? &p->first : &p->second;
    const float *factor = (const float *)arguments[m->argument] + m->offset;
    int64_t term = m->strides[gradient->of_first ? 1 : 0], other = m->strides[gradient->of_first ? 0 : 1];
    for (int64_t i = 0; i < (gradient->of_first ? p->rows : p->columns); i++) {
        double sum = 0;
        for (int64_t k = 0; k < p->terms; k++) sum += factor[i * other + k * term];
        ((float *)arguments[gradient->argument])[gradient->offset + i] = (float)sum;
    }
}

static inline void library_product(const dt_library_product *p, dt_precision precision, void *const *arguments) {
    int64_t n = 1, batch[DT_LIBRARY_MOST_BATCHES] = {0};
    for (int64_t b = 0; b < p->n_batches; b++) n *= p->batches[b];
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        for (int64_t b = p->n_batches; b-- > 0; rest /= p->batches[b]) batch[b] = rest % p->batches[b];
        library_multiply(p, precision, arguments, batch);
    }
    if (p->bias_gradient.argument >= 0) library_bias_gradient(p, arguments);
}

/* The position of x that belongs to one of y and a tap; -1: it is outside. */
static inline int64_t library_read(const dt_library_convolution *c, int64_t output, int64_t tap) {
    int64_t read = 0, step = 1;
    for (int64_t i = c->n_directions; i-- > 0; step *= c->input[i], output /= c->output[i], tap /= c->taps[i]) {
        int64_t at = output % c->output[i] * c->stride[i] + tap % c->taps[i] * c->dilation[i] - c->padding[i];
        if (at < 0 || at >= c->input[i]) return -1;
        read += at * step;
    }
    return read;
}

/* A place of x, one of y and one of the kernel that belong together: two are factors, the third is the sum's. */
static inline void library_convolution(dt_library_class class, const dt_library_convolution *c, dt_precision precision, void *const *arguments) {
    const float *values[] = {arguments[c->x], arguments[c->kernel], arguments[c->y]};
    int64_t of_group[] = {c->channels / c->groups, c->filters / c->groups}, n_taps = dt_library_positions(c, c->taps);
    int64_t n_outputs = dt_library_positions(c, c->output), n_inputs = dt_library_positions(c, c->input);
    int64_t sizes[] = {c->images * n_inputs * c->channels, n_taps * of_group[0] * c->filters, c->images * n_outputs * c->filters};
    int result = class == DT_LIBRARY_CONVOLUTION ? 2 : class == DT_LIBRARY_INPUT_GRADIENT ? 0 : 1, first = result == 0, second = result == 2 ? 1 : 2;
    double *sums = calloc((size_t)sizes[result] + 1, sizeof *sums);
    if (sums == NULL) abort();
    for (int64_t place = 0; place < c->images * n_outputs; place++)
        for (int64_t tap = 0; tap < n_taps; tap++) {
            int64_t read = library_read(c, place % n_outputs, tap);
            if (read < 0) continue;
            for (int64_t i = 0; i < of_group[0] * c->filters; i++) {
                int64_t channel = i / c->filters, filter = i % c->filters, of_all = filter / of_group[1] * of_group[0] + channel;
                int64_t at[] = {(place / n_outputs * n_inputs + read) * c->channels + of_all, (tap * of_group[0] + channel) * c->filters + filter,
                                place * c->filters + filter};
                sums[at[result]] +=
                    (double)library_factor(values[first][at[first]], precision) * library_factor(values[second][at[second]], precision);
            }
        }
    for (int64_t i = 0; i < sizes[result]; i++) ((float *)(uintptr_t)values[result])[i] = (float)sums[i];
    free(sums);
}

/* The call. `rows` of `capacity` are valid. */
static inline void library_run_naively(const dt_library_call *call, void *const *arguments, int64_t rows, int64_t capacity) {
    for (int64_t i = 0; i < call->n_clears; i++) {
        const dt_library_clear *clear = &call->clears[i];
        memset((char *)arguments[clear->argument] + rows * clear->row_bytes, 0, (size_t)((capacity - rows) * clear->row_bytes));
    }
    if (call->class == DT_LIBRARY_PRODUCT)
        library_product(&call->product, call->precision, arguments);
    else
        library_convolution(call->class, &call->convolution, call->precision, arguments);
}

#endif
