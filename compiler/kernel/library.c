/* library: see the header. What products and convolutions have in common. */
#include "compiler/kernel/library.h"
#include "compiler/kernel/analysis.h"

#include <inttypes.h>

/* Heuristics, in products and iterations at capacity. None of them has been measured on a GPU. */
enum {
    LEAST_PRODUCTS = 1 << 20, /* that are worth a call */
    LEAST_SIDE = 8,           /* of either factor, and terms */
    LEAST_TERMS = 32          /* that are worth reading the sum once more */
};

bool dt_nest_library(dt_lowering *lowering, const dt_kernel_function *kernel, const dt_nest *nest, dt_library_call *call) {
    return dt_nest_library_product(lowering->plan, kernel, nest, call) || dt_nest_library_convolution(lowering, kernel, nest, call);
}

/* ---- sizes ---- */

/* Iterations of the loops with which both operands differ, only the first, only the second; and of those that are reduced. */
typedef struct sides {
    double both, first, second, terms;
} sides;

static bool measure(const dt_plan *plan, const dt_value *root, const dt_loops *loops, sides *s) {
    *s = (sides){1, 1, 1, 1};
    for (int l = 0; l < loops->n_loops; l++) {
        int64_t iterations = dt_trip_count(plan, loops->extents[l]);
        bool first = dt_access_walks(&loops->operands[0], root->operands[0]->shape.rank, l),
             second = dt_access_walks(&loops->operands[1], root->operands[1]->shape.rank, l);
        if (iterations < 0) return false;
        if (l >= loops->n_outer)
            s->terms *= (double)iterations;
        else if (first || second)
            *(first && second ? &s->both : first ? &s->first : &s->second) *= (double)iterations;
        else if (iterations != 1)
            return false;
    }
    return true;
}

static bool are_f32(const dt_value *root) {
    return root->dtype == DT_F32 && root->operands[0]->dtype == DT_F32 && root->operands[1]->dtype == DT_F32;
}

/* What lies side by side, such as an image's channels, is no less than a side: libraries read it in vectors. */
static bool is_wide(const dt_plan *plan, const dt_value *value) {
    return value->shape.rank > 0 && dt_trip_count(plan, value->shape.dims[value->shape.rank - 1]) >= LEAST_SIDE;
}

bool dt_loops_want_library(const dt_plan *plan, const dt_value *root, const dt_loops *loops) {
    sides s;
    if (!dt_loops_are_product(loops) || !are_f32(root) || !measure(plan, root, loops, &s)) return false;
    if (!is_wide(plan, root) || !is_wide(plan, root->operands[0]) || !is_wide(plan, root->operands[1])) return false;
    return s.first >= LEAST_SIDE && s.second >= LEAST_SIDE && s.terms >= LEAST_SIDE && s.both * s.first * s.second * s.terms >= LEAST_PRODUCTS;
}

bool dt_loops_want_split(const dt_plan *plan, const dt_loops *loops) {
    double terms = 1;
    for (int l = loops->n_outer; l < loops->n_loops; l++) terms *= (double)dt_trip_count(plan, loops->extents[l]);
    return terms >= LEAST_TERMS;
}

/* ---- rows ---- */

bool dt_library_may_write(const dt_plan *plan, const dt_kernel_function *kernel, int argument) {
    dt_memory_space space = plan->buffers[kernel->buffers[argument]].space;
    return space != DT_MEMORY_INPUT && space != DT_MEMORY_CONSTANT && space != DT_MEMORY_VARIABLE;
}

bool dt_library_add_clear(const dt_plan *plan, const dt_kernel_function *kernel, int argument, int64_t row_stride, dt_library_call *call) {
    const dt_buffer *buffer = &plan->buffers[kernel->buffers[argument]];
    if (buffer->space == DT_MEMORY_CONSTANT || buffer->shape.rank == 0 || buffer->shape.dims[0] != DT_BATCH || buffer->one_row) return false;
    for (int d = 1; d < buffer->shape.rank; d++)
        if (dt_dim_is_symbol(buffer->shape.dims[d])) return false;
    if (row_stride != dt_shape_elements_per_row(buffer->shape)) return false;
    for (int64_t i = 0; i < call->n_clears; i++)
        if (call->clears[i].argument == argument) return true;
    call->clears[call->n_clears++] = (dt_library_clear){argument, row_stride * (int64_t)sizeof(float)};
    return true;
}

/* ---- activations ---- */

bool dt_library_add_activation(const dt_plan *plan, const dt_kernel_function *kernel, dt_library_activation activation, int kept,
                               dt_library_call *call) {
    dt_library_product *p = &call->product;
    if (call->class != DT_LIBRARY_PRODUCT || p->activation != DT_LIBRARY_ACTIVATION_NONE) return false;
    p->activation = activation;
    p->kept = kept;
    bool writable = kept < 0 || dt_library_is_gradient(activation) || dt_library_may_write(plan, kernel, kept);
    bool own = kept < 0 || (kept != p->first.argument && kept != p->second.argument && kept != p->result.argument && kept != p->bias);
    return dt_library_can_keep(p) && own && writable;
}

/* ---- for people ---- */

void dt_library_print(dt_text *text, const dt_library_call *call) {
    dt_text_format(text, "%s", dt_library_class_names()[call->class]);
    if (call->class == DT_LIBRARY_PRODUCT) {
        const dt_library_product *p = &call->product;
        for (int64_t b = 0; b < p->n_batches; b++) dt_text_format(text, "%s%" PRId64, b == 0 ? " " : " x ", p->batches[b]);
        dt_text_format(text, "%s%" PRId64 " x %" PRId64 " over %" PRId64, p->n_batches > 0 ? " of " : " ", p->rows, p->columns, p->terms);
        if (p->scale != 1) dt_text_append(text, ", scale");
        if (p->bias >= 0) dt_text_append(text, ", bias");
        if (p->activation != DT_LIBRARY_ACTIVATION_NONE) dt_text_format(text, ", %s", dt_library_activation_names()[p->activation]);
        if (p->activation == DT_LIBRARY_ACTIVATION_GELU && p->kept >= 0) dt_text_append(text, ", its argument kept");
        if (p->bias_gradient.argument >= 0) dt_text_append(text, ", bias gradient");
        if (call->precision != DT_PRECISION_F32) dt_text_format(text, ", %s", dt_precision_name(call->precision));
        return;
    }
    const dt_library_convolution *c = &call->convolution;
    dt_text_format(text, " %" PRId64, c->images);
    for (int64_t i = 0; i < c->n_directions; i++) dt_text_format(text, " x %" PRId64, c->input[i]);
    dt_text_format(text, " x %" PRId64 ", %" PRId64 " filters of", c->channels, c->filters);
    for (int64_t i = 0; i < c->n_directions; i++) dt_text_format(text, "%s%" PRId64, i == 0 ? " " : " x ", c->taps[i]);
    if (c->groups > 1) dt_text_format(text, ", %" PRId64 " groups", c->groups);
    if (call->precision != DT_PRECISION_F32) dt_text_format(text, ", %s", dt_precision_name(call->precision));
}
