/* library_convolution: nests that are convolutions in two or three directions, or gradients of one.
 *
 * All three walk the same loops, those of the result first; how an operand's dimension is read tells which loop is which. A position of x is position
 * of y * stride + tap * dilation - padding: read so where y or the kernel is the result, and solved for the position of y, with the stride as a
 * divisor, where x is. Groups are a dimension of all three tensors, before the innermost one. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/library.h"
#include "compiler/kernel/view.h"

/* Which loop of a class goes through what, and which operand the moving one is read against. Of positions and taps it is the first direction's, after
 * which those of the others come. */
typedef struct roles {
    dt_library_class class;
    int n_directions, n_loops, rank; /* rank: of all three tensors */
    int image, position, tap;        /* `position` of what is read against the taps' */
    int channel, group, filter;      /* group: -1 where there are none */
} roles;

/* Of the loops of `rank` results, and those that are reduced: one for each direction and another one. False: there are no such convolutions. */
static bool find_roles(dt_library_class class, const dt_loops *loops, roles *r) {
    int rank = loops->n_outer, n = loops->n_loops - rank - 1;
    bool grouped = rank == n + 3;
    if (n < DT_LIBRARY_LEAST_DIRECTIONS || n > DT_LIBRARY_MOST_DIRECTIONS || (rank != n + 2 && !grouped)) return false;
    *r = (roles){.class = class, .n_directions = n, .n_loops = loops->n_loops, .rank = rank, .group = grouped ? n + 1 : -1};
    bool of_kernel = class == DT_LIBRARY_KERNEL_GRADIENT, of_x = class == DT_LIBRARY_INPUT_GRADIENT;
    r->image = of_kernel ? rank : 0;
    r->position = r->image + 1;
    r->tap = of_kernel ? 0 : rank;
    r->channel = of_kernel ? n : of_x ? rank - 1 : rank + n;
    r->filter = of_x ? rank + n : rank - 1;
    return true;
}

/* The index is loop l and nothing else. */
static bool is_loop(const roles *r, const dt_index *index, int l) {
    if (index->offset != 0 || index->divisor != 1 || index->indirect >= 0) return false;
    for (int i = 0; i < r->n_loops; i++)
        if (index->coefficients[i] != (i == l)) return false;
    return true;
}

/* The index moves with loops position and tap alone. */
static bool is_window(const roles *r, const dt_index *index, int position, int tap) {
    for (int i = 0; i < r->n_loops; i++)
        if ((index->coefficients[i] != 0) != (i == position || i == tap)) return false;
    return index->indirect < 0;
}

/* Along direction i: what the window's index says of stride, dilation and padding. */
static bool read_window(const roles *r, const dt_index *index, int i, dt_library_convolution *c) {
    if (!is_window(r, index, r->position + i, r->tap + i)) return false;
    int64_t by_position = index->coefficients[r->position + i], by_tap = index->coefficients[r->tap + i];
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
    int n = r->n_directions, last = r->rank - 1, first = of_kernel ? 1 : 0; /* of the other's directions */
    if (!is_loop(r, &moving[0], r->image) || !is_loop(r, &moving[last], solved ? r->filter : r->channel)) return false;
    for (int i = 0; i < n; i++) {
        if (!read_window(r, &moving[1 + i], i, c)) return false;
        if (!is_loop(r, &other[first + i], (of_kernel ? r->position : r->tap) + i)) return false;
    }
    if (r->group >= 0 && (!is_loop(r, &moving[r->group], r->group) || !is_loop(r, &other[r->group], r->group))) return false;
    return is_loop(r, &other[of_kernel ? 0 : n], of_kernel ? r->image : r->channel) && is_loop(r, &other[last], r->filter);
}

static void read_sizes(const roles *r, const dt_plan *plan, const dt_value *root, const dt_loops *loops, dt_library_convolution *c) {
    bool solved = r->class == DT_LIBRARY_INPUT_GRADIENT;
    c->n_directions = r->n_directions;
    c->images = dt_trip_count(plan, loops->extents[r->image]);
    c->groups = r->group < 0 ? 1 : loops->extents[r->group];
    c->channels = loops->extents[r->channel] * c->groups;
    c->filters = loops->extents[r->filter] * c->groups;
    for (int i = 0; i < r->n_directions; i++) {
        int64_t positions = loops->extents[r->position + i], read = root->operands[0]->shape.dims[1 + i];
        c->input[i] = solved ? positions : read;
        c->output[i] = solved ? read : positions;
        c->taps[i] = loops->extents[r->tap + i];
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
static bool is_plain(const dt_nest *nest, dt_origin of) {
    if (of.cluster == NULL || of.cluster->roots.n != 1 || of.cluster->outputs.n != 1 || nest->n_stores != 1) return false;
    if (of.cluster->outputs.items[0].value != of.cluster->roots.items[0]) return false;
    if (of.layout->row_loop >= 0 || of.layout->packings != NULL || of.layout->n_spreads > 0 || of.layout->n_polyphases > 0) return false;
    return !nest->stores[0].accumulate && nest->instructions[nest->stores[0].operand].kind == DT_INSTRUCTION_REDUCED;
}

static bool find_arguments(const roles *r, const dt_lowering *lowering, const dt_kernel_function *kernel, const dt_cluster *cluster,
                           dt_library_convolution *c) {
    const dt_plan *plan = lowering->plan;
    const dt_value *root = cluster->roots.items[0];
    const int *buffers = lowering->buffers;
    int64_t first = argument_of(plan, kernel, buffers[root->operands[0]->id]), second = argument_of(plan, kernel, buffers[root->operands[1]->id]);
    int64_t result = argument_of(plan, kernel, cluster->outputs.items[0].buffer);
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
    return dt_library_add_clear(plan, kernel, (int)c->x, dt_library_positions(c, c->input) * c->channels, call) &&
           dt_library_add_clear(plan, kernel, (int)c->y, dt_library_positions(c, c->output) * c->filters, call);
}

bool dt_nest_library_convolution(dt_lowering *lowering, const dt_kernel_function *kernel, const dt_nest *nest, dt_library_call *call) {
    enum {
        LEAST_CHANNELS = 8 /* of x and of y, in each group */
    };
    const dt_plan *plan = lowering->plan;
    const dt_origin of = dt_lowering_origin(lowering, nest);
    if (dt_nest_has_views(plan, kernel, nest) || !is_plain(nest, of)) return false;
    const dt_value *root = of.cluster->roots.items[0];
    const dt_loops *loops = dt_lowering_loops(lowering, root);
    if (loops->combiner != DT_COMBINE_SUM || loops->result != NULL || root->dtype != DT_F32) return false;
    int factors[2];
    dt_precision precision;
    if (!dt_formula_is_product(loops->body, factors, &precision) || factors[0] != 0 || factors[1] != 1) return false;
    if (loops->operands[0].outside.i != 0) return false;
    for (int class = DT_LIBRARY_CONVOLUTION; class <= DT_LIBRARY_KERNEL_GRADIENT; class ++) {
        roles r;
        dt_library_convolution *c = &call->convolution;
        *call = (dt_library_call){.class = (dt_library_class) class, .n_launches = 1, .precision = precision};
        if (!find_roles(call->class, loops, &r) || root->operands[0]->shape.rank != r.rank || root->operands[1]->shape.rank != r.rank) return false;
        if (loops->extents[r.image] != DT_BATCH || !read_roles(&r, loops, c)) continue;
        read_sizes(&r, plan, root, loops, c);
        if (loops->extents[r.channel] < LEAST_CHANNELS || loops->extents[r.filter] < LEAST_CHANNELS) return false;
        for (int i = 0; i < r.n_directions; i++)
            if (!find_padding_after(c, i)) return false;
        return find_arguments(&r, lowering, kernel, of.cluster, c) && find_clears(plan, kernel, call);
    }
    return false;
}
