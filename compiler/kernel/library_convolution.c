/* library_convolution: nests that are convolutions, or gradients of one.
 *
 * All three walk the same seven loops, of which four are the result's; how an operand's dimension is read tells which loop is which. A position of x
 * is position of y * stride + tap * dilation - padding: read so where y or the kernel is the result, and solved for the position of y, with the
 * stride as a divisor, where x is. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/library.h"
#include "compiler/kernel/view.h"

enum {
    RANK = 4,   /* of all three tensors */
    N_LOOPS = 7 /* images, two positions, channels, filters, two taps */
};

/* Which loop of a class goes through what, and which operand the moving one is read against. */
typedef struct roles {
    dt_library_class class;
    int image, positions[2], taps[2], channel, filter; /* `positions` of what is read against the taps' */
} roles;

static const roles known[] = {
    {DT_LIBRARY_CONVOLUTION, 0, {1, 2}, {4, 5}, 6, 3},
    {DT_LIBRARY_INPUT_GRADIENT, 0, {1, 2}, {4, 5}, 3, 6},
    {DT_LIBRARY_KERNEL_GRADIENT, 4, {5, 6}, {0, 1}, 2, 3},
};

/* The index is loop l and nothing else. */
static bool is_loop(const dt_index *index, int l) {
    if (index->offset != 0 || index->divisor != 1 || index->indirect >= 0) return false;
    for (int i = 0; i < N_LOOPS; i++)
        if (index->coefficients[i] != (i == l)) return false;
    return true;
}

/* The index moves with loops position and tap alone. */
static bool is_window(const dt_index *index, int position, int tap) {
    for (int i = 0; i < N_LOOPS; i++)
        if ((index->coefficients[i] != 0) != (i == position || i == tap)) return false;
    return index->indirect < 0;
}

/* Along height (0) or width (1): what the window's index says of stride, dilation and padding. */
static bool read_window(const roles *r, const dt_index *index, int i, dt_library_convolution *c) {
    if (!is_window(index, r->positions[i], r->taps[i])) return false;
    int64_t by_position = index->coefficients[r->positions[i]], by_tap = index->coefficients[r->taps[i]];
    bool solved = r->class == DT_LIBRARY_INPUT_GRADIENT;
    c->stride[i] = solved ? index->divisor : by_position;
    c->dilation[i] = solved ? -by_tap : by_tap;
    c->padding[i] = solved ? index->offset : -index->offset;
    return (solved ? by_position : index->divisor) == 1 && c->stride[i] >= 1 && c->dilation[i] >= 1 && c->padding[i] >= 0;
}

static int64_t positions_of(const dt_library_convolution *c, int i, int64_t padding_after) {
    int64_t room = c->input[i] + c->padding[i] + padding_after - c->dilation[i] * (c->taps[i] - 1) - 1;
    return room < 0 ? 0 : room / c->stride[i] + 1;
}

/* Libraries compute the size of y from all other sizes: the padding after is one that gives this size, the padding before where that does. */
static bool find_padding_after(dt_library_convolution *c, int i) {
    int64_t least = (c->output[i] - 1) * c->stride[i] + c->dilation[i] * (c->taps[i] - 1) + 1 - c->input[i] - c->padding[i];
    c->padding_after[i] = positions_of(c, i, c->padding[i]) == c->output[i] ? c->padding[i] : least > 0 ? least : 0;
    return positions_of(c, i, c->padding_after[i]) == c->output[i];
}

/* The first operand is read against the taps: x, or y where x is the result. The second is the kernel, or y where the kernel is the result. */
static bool read_roles(const roles *r, const dt_loops *loops, dt_library_convolution *c) {
    const dt_index *moving = loops->operands[0].dims, *other = loops->operands[1].dims;
    bool solved = r->class == DT_LIBRARY_INPUT_GRADIENT, of_kernel = r->class == DT_LIBRARY_KERNEL_GRADIENT;
    if (!is_loop(&moving[0], r->image) || !is_loop(&moving[3], solved ? r->filter : r->channel)) return false;
    for (int i = 0; i < 2; i++) {
        if (!read_window(r, &moving[1 + i], i, c)) return false;
        if (!is_loop(&other[of_kernel ? 1 + i : i], of_kernel ? r->positions[i] : r->taps[i])) return false;
    }
    if (of_kernel) return is_loop(&other[0], r->image) && is_loop(&other[3], r->filter);
    return is_loop(&other[2], r->channel) && is_loop(&other[3], r->filter);
}

static void read_sizes(const roles *r, const dt_plan *plan, const dt_value *root, const dt_loops *loops, dt_library_convolution *c) {
    bool solved = r->class == DT_LIBRARY_INPUT_GRADIENT;
    c->images = dt_trip_count(plan, loops->extents[r->image]);
    c->channels = loops->extents[r->channel];
    c->filters = loops->extents[r->filter];
    for (int i = 0; i < 2; i++) {
        int64_t positions = loops->extents[r->positions[i]], read = root->operands[0]->shape.dims[1 + i];
        c->input[i] = solved ? positions : read;
        c->output[i] = solved ? read : positions;
        c->taps[i] = loops->extents[r->taps[i]];
    }
}

/* The argument that holds a value as it is; -1: none does. */
static int64_t argument_of(const dt_plan *plan, const dt_kernel_function *kernel, int buffer) {
    if (buffer < 0 || plan->buffers[buffer].dtype != DT_F32) return -1;
    for (int a = 0; a < kernel->n_buffers; a++)
        if (kernel->buffers[a] == buffer) return a;
    return -1;
}

/* The nest computes the root's sums, stores them and does nothing else. */
static bool is_plain(const dt_nest *nest) {
    if (nest->cluster == NULL || nest->cluster->roots.n != 1 || nest->cluster->outputs.n != 1 || nest->n_stores != 1) return false;
    if (nest->cluster->outputs.items[0].value != nest->cluster->roots.items[0]) return false;
    if (nest->layout->row_loop >= 0 || nest->layout->packings != NULL || nest->layout->n_spreads > 0 || nest->layout->n_polyphases > 0) return false;
    return !nest->stores[0].accumulate && nest->instructions[nest->stores[0].operand].kind == DT_INSTRUCTION_REDUCED;
}

static bool find_arguments(const roles *r, const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, dt_library_convolution *c) {
    const dt_value *root = nest->cluster->roots.items[0];
    const int *buffers = plan->lowering->buffers;
    int64_t first = argument_of(plan, kernel, buffers[root->operands[0]->id]), second = argument_of(plan, kernel, buffers[root->operands[1]->id]);
    int64_t result = argument_of(plan, kernel, nest->cluster->outputs.items[0].buffer);
    if (first < 0 || second < 0 || result < 0 || !dt_library_may_write(plan, kernel, (int)result)) return false;
    c->x = r->class == DT_LIBRARY_INPUT_GRADIENT ? result : first;
    c->kernel = r->class == DT_LIBRARY_KERNEL_GRADIENT ? result : second;
    c->y = r->class == DT_LIBRARY_CONVOLUTION ? result : r->class == DT_LIBRARY_INPUT_GRADIENT ? first : second;
    return true;
}

/* A sum over images: neither factor may hold anything in rows that are not valid. */
static bool find_clears(const dt_plan *plan, const dt_kernel_function *kernel, dt_library_call *call) {
    const dt_library_convolution *c = &call->convolution;
    if (call->class != DT_LIBRARY_KERNEL_GRADIENT) return true;
    return dt_library_add_clear(plan, kernel, (int)c->x, c->input[0] * c->input[1] * c->channels, call) &&
           dt_library_add_clear(plan, kernel, (int)c->y, c->output[0] * c->output[1] * c->filters, call);
}

bool dt_nest_library_convolution(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, dt_library_call *call) {
    enum {
        LEAST_CHANNELS = 8 /* of x and of y */
    };
    if (dt_nest_has_views(plan, kernel, nest) || !is_plain(nest)) return false;
    const dt_value *root = nest->cluster->roots.items[0];
    const dt_loops *loops = dt_lowering_loops(plan->lowering, root);
    if (loops->combiner != DT_COMBINE_SUM || loops->result != NULL || loops->n_loops != N_LOOPS || loops->n_outer != RANK || root->dtype != DT_F32)
        return false;
    int factors[2];
    dt_precision precision;
    if (!dt_formula_is_product(loops->body, factors, &precision) || factors[0] != 0 || factors[1] != 1) return false;
    if (root->operands[0]->shape.rank != RANK || root->operands[1]->shape.rank != RANK || loops->operands[0].outside.i != 0) return false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        const roles *r = &known[k];
        dt_library_convolution *c = &call->convolution;
        *call = (dt_library_call){.class = r->class, .n_launches = 1, .precision = precision};
        if (!read_roles(r, loops, c) || loops->extents[r->image] != DT_BATCH) continue;
        read_sizes(r, plan, root, loops, c);
        if (c->channels < LEAST_CHANNELS || c->filters < LEAST_CHANNELS) return false;
        return find_padding_after(c, 0) && find_padding_after(c, 1) && find_arguments(r, plan, kernel, nest, c) && find_clears(plan, kernel, call);
    }
    return false;
}
