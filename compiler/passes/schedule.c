/* schedule: decides how each nest runs: which loop is vectorised, which products are computed in register tiles, and what has to be laid out
 * in another way for that.
 *
 * A tile of a sum of products holds some iterations of a row loop times some of the vector loop in registers over all reduced loops. One operand is
 * read contiguously along the vector loop, the other is broadcast; both must be plain loads. An operand that is anything else (computed on the
 * way, with a border of zeros, in another order) is laid out first, in a nest of the same kernel: within the row loop when it depends on the row,
 * before it when it does not. How many rows and vectors make a tile is the renderer's choice: it knows the registers. */
#include "compiler/passes/schedule.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/nest.h"

#include <string.h>

/* ---- plain nests ---- */

/* Of each instruction the loops that it, or what it is computed of, walks: a bit each. [n_instructions] */
static const uint64_t *find_walks(dt_arena *arena, const dt_nest *nest) {
    uint64_t *walks = DT_NEW_ARRAY(arena, uint64_t, nest->n_instructions);
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        if (x->kind == DT_INSTRUCTION_LOOP) walks[i] = (uint64_t)1 << x->index;
        for (int l = 0; l < nest->n_loops && x->kind == DT_INSTRUCTION_LOAD; l++) walks[i] |= (uint64_t)(x->address.coefficients[l] != 0) << l;
        for (int k = 0; k < x->n_operands; k++) walks[i] |= walks[x->operands[k]];
    }
    return walks;
}

/* Whether a load is repeated in each iteration of the reduced loops; in a nest without, all are. */
static bool is_innermost(const dt_nest *nest, const uint64_t *walks, int load) {
    bool innermost = nest->n_reductions == 0;
    for (int l = 0; l < nest->n_loops && !innermost; l++) innermost = nest->loops[l].reduced && (walks[load] >> l & 1);
    return innermost;
}

/* Loads that are contiguous along a loop, less those that jump; -1: the loop cannot be vectorised. */
static int vector_worth(const dt_nest *nest, const uint64_t *walks, int loop) {
    bool reduced = nest->loops[loop].reduced;
    int worth = 1;
    if ((nest->in_rows && loop == 0) || dt_nest_checks(nest, walks, (uint64_t)1 << loop)) return -1; /* checks are counted one by one */
    for (int s = 0; s < nest->n_stores; s++)
        if (!reduced && nest->stores[s].address.coefficients[loop] != 1) return -1;
    for (int i = 0; i < nest->n_instructions; i++) {
        if (nest->instructions[i].kind != DT_INSTRUCTION_LOAD || !is_innermost(nest, walks, i)) continue;
        int64_t coefficient = nest->instructions[i].address.coefficients[loop];
        if (coefficient == 1)
            worth += 2;
        else if (coefficient != 0)
            worth -= 1;
    }
    return worth < 0 ? 0 : worth;
}

/* The innermost loop that walks memory best; a reduced one only where no outer one will do. */
static int vector_loop_of(dt_arena *arena, const dt_nest *nest) {
    enum {
        shortest = 4
    };
    const uint64_t *walks = find_walks(arena, nest);
    int best = -1, most = 0;
    for (int l = nest->n_loops - 1; l >= 0; l--) {
        bool shorter = !dt_dim_is_symbol(nest->loops[l].extent) && nest->loops[l].extent < shortest;
        int worth = vector_worth(nest, walks, l);
        if (shorter || worth < 0) continue;
        if (!nest->loops[l].reduced) worth += 1;
        if (worth > most) best = l, most = worth;
    }
    return best;
}

/* ---- sums of products ---- */

typedef struct dt_product {
    dt_lowering *lowering;
    dt_plan *plan;
    dt_kernel_function *kernel;
    int n;       /* its first nest */
    int n_parts; /* nests that share the work: one for each combination of phases */
    const dt_value *root;
    const dt_loops *loops;
    int row;         /* loop over the batch that is the nest's outermost, or -1 */
    int vector_loop; /* of loops */
    int row_loop;
    int factors[2];         /* operands of the root in the order in which they are multiplied */
    dt_precision precision; /* that they are rounded to */
    int operands[2];        /* which operand is broadcast, which contiguous */
    dt_packing packings[2]; /* by operand of the root */
    int64_t n_blocks;       /* of the vector loop, in which its nests and those that lay out for them go through a row; 0: they do not */
} dt_product;

static bool walks(const dt_product *p, int operand, int loop) {
    return dt_access_walks(&p->loops->operands[operand], p->root->operands[operand]->shape.rank, loop);
}

static int64_t assumed_extent(const dt_product *p, int loop) {
    enum {
        assumed_rows = 64
    };
    return dt_dim_is_symbol(p->loops->extents[loop]) ? assumed_rows : p->loops->extents[loop];
}

static const dt_layout *layout_of(const dt_product *p, int n) { return dt_lowering_origin(p->lowering, &p->kernel->nests[n]).layout; }

static bool is_in_phases(const dt_product *p) { return layout_of(p, p->n)->n_polyphases > 0; }

/* Whether each nest walks only some iterations of a loop over the result. */
static bool is_thinned_out(const dt_product *p, int loop) {
    const dt_layout *layout = layout_of(p, p->n);
    for (int i = 0; i < layout->n_polyphases; i++)
        if (layout->polyphases[i].outer == loop) return true;
    return false;
}

/* Turns of a loop at most; of the rows of all replicas what is assumed. */
static int64_t trip_count(const dt_product *p, int loop) {
    return p->loops->extents[loop] == DT_BATCH ? p->plan->microbatch_rows : assumed_extent(p, loop);
}

/* The loop to hold in vectors is the one whose elements lie side by side in the result: the last one that is longer than 1, but for the rows of all
 * replicas, which are outermost in memory. It must walk one operand and not the other. */
static bool choose_loops(dt_product *p) {
    enum {
        shortest = 4
    };
    p->vector_loop = p->loops->n_outer - 1;
    while (p->vector_loop >= 0 && (p->loops->extents[p->vector_loop] == 1 || p->loops->extents[p->vector_loop] == DT_GATHERED)) p->vector_loop--;
    if (p->vector_loop < 0 || is_thinned_out(p, p->vector_loop) || p->vector_loop == p->row || trip_count(p, p->vector_loop) < shortest) return false;
    int contiguous = walks(p, 1, p->vector_loop) ? 1 : 0;
    p->operands[0] = 1 - contiguous;
    p->operands[1] = contiguous;
    if (!walks(p, contiguous, p->vector_loop) || walks(p, 1 - contiguous, p->vector_loop)) return false;
    p->row_loop = -1;
    for (int l = p->loops->n_outer - 1; l >= 0; l--) {
        if (l == p->vector_loop || l == p->row || walks(p, p->operands[1], l) || !walks(p, p->operands[0], l)) continue;
        if (p->row_loop < 0 || trip_count(p, l) > trip_count(p, p->row_loop)) p->row_loop = l;
    }
    return true;
}

static int loop_in_nest(const dt_product *p, int loop) { return loop < 0 ? -1 : dt_layout_loop(layout_of(p, p->n), p->loops, loop); }

/* Whether stores walk the vector loop element by element; into what a loop over tensors stacks along a later axis they do not. */
static bool stores_are_contiguous(const dt_product *p) {
    for (int n = p->n; n < p->n + p->n_parts; n++) {
        const dt_nest *nest = &p->kernel->nests[n];
        for (int s = 0; s < nest->n_stores && !dt_layout_is_empty(layout_of(p, n)); s++)
            if (nest->stores[s].address.coefficients[loop_in_nest(p, p->vector_loop)] != 1) return false;
    }
    return true;
}

/* The instruction of each factor before it is rounded, when a nest folds their product itself; -1 where it does not. */
static int factor(const dt_product *p, const dt_nest *nest, int operand) {
    if (nest->n_reductions != 1) return -1;
    const dt_instruction *product = &nest->instructions[nest->reductions[0].operand];
    if (product->kind != DT_INSTRUCTION_SCALAR || product->scalar != DT_SCALAR_MULTIPLY) return -1;
    dt_precision precision;
    return dt_factor_unrounded(nest, product->operands[p->factors[0] == operand ? 0 : 1], &precision);
}

static bool is_product(const dt_product *p, const dt_nest *nest) { return factor(p, nest, 0) >= 0 && factor(p, nest, 0) != factor(p, nest, 1); }

/* Whether all parts but those that sum nothing satisfy this. */
static bool all_are_products(const dt_product *p) {
    for (int n = p->n; n < p->n + p->n_parts; n++)
        if (!dt_layout_is_empty(layout_of(p, n)) && !is_product(p, &p->kernel->nests[n])) return false;
    return true;
}

static bool is_plain_in(const dt_product *p, const dt_nest *nest, int operand, bool contiguous) {
    const dt_instruction *load = &nest->instructions[factor(p, nest, operand)];
    if (load->kind != DT_INSTRUCTION_LOAD || load->guard >= 0 || load->address.n_terms > 0) return false;
    return !contiguous || load->address.coefficients[loop_in_nest(p, p->vector_loop)] == 1;
}

static bool is_plain(const dt_product *p, int operand, bool contiguous) {
    for (int n = p->n; n < p->n + p->n_parts; n++)
        if (!dt_layout_is_empty(layout_of(p, n)) && !is_plain_in(p, &p->kernel->nests[n], operand, contiguous)) return false;
    return true;
}

/* ---- laying an operand out ---- */

/* The range of an index before its division, over all loops, in steps of *step; false when a symbol is in it other than as the dimension itself. */
static bool range_of(const dt_product *p, const dt_index *index, int64_t dim, int64_t *low, int64_t *step, int64_t *extent) {
    int64_t high = *low = index->offset;
    *step = is_in_phases(p) ? index->divisor : 1;
    if (index->indirect >= 0) return false;
    for (int l = 0; l < p->loops->n_loops; l++) {
        int64_t coefficient = index->coefficients[l], last = p->loops->extents[l] - 1;
        if (coefficient == 0) continue;
        if (dt_dim_is_symbol(p->loops->extents[l])) {
            *extent = p->loops->extents[l];
            return coefficient == 1 && index->offset == 0 && dim == p->loops->extents[l];
        }
        if (coefficient > 0)
            high += coefficient * last;
        else
            *low += coefficient * last;
    }
    int64_t rest = *low % *step;
    *low += rest > 0 ? *step - rest : -rest;
    *extent = high < *low ? 0 : (high - *low) / *step + 1;
    return true;
}

/* Whether the dimension is that of the row at hand, which the loop that its nests share walks. */
static bool is_of_the_row(const dt_product *p, const dt_access *access, const dt_packing *packing, int d) {
    return packing->extents[d] == DT_BATCH && p->row >= 0 && access->dims[d].coefficients[p->row] != 0;
}

/* Dimensions in their order, but for the one that the vector loop walks, which comes last, and the row at hand and the rows of all replicas, which
 * come first. */
static bool order_dimensions(const dt_product *p, int operand, bool contiguous, dt_packing *packing) {
    const dt_access *access = &p->loops->operands[operand];
    int n = 0, last = -1;
    for (int d = 0; d < packing->rank; d++)
        if (is_of_the_row(p, access, packing, d)) packing->order[n++] = d;
    for (int d = 0; d < packing->rank; d++)
        if (packing->extents[d] == DT_GATHERED) packing->order[n++] = d;
    for (int d = 0; d < packing->rank; d++) {
        if (packing->extents[d] == DT_GATHERED || is_of_the_row(p, access, packing, d)) continue;
        if (contiguous && access->dims[d].coefficients[p->vector_loop] != 0) {
            if (last >= 0 || access->dims[d].coefficients[p->vector_loop] != 1) return false;
            last = d;
        } else {
            packing->order[n++] = d;
        }
    }
    if (last >= 0) packing->order[n++] = last;
    return true;
}

/* Describes how `operand` is laid out; *by_row: once for each row. */
static bool describe_packing(dt_arena *arena, const dt_product *p, int operand, bool contiguous, dt_packing *packing, bool *by_row) {
    const dt_value *value = p->root->operands[operand];
    *packing = (dt_packing){.buffer = -1, .rank = value->shape.rank};
    packing->lows = DT_NEW_ARRAY(arena, int64_t, packing->rank);
    packing->steps = DT_NEW_ARRAY(arena, int64_t, packing->rank);
    packing->extents = DT_NEW_ARRAY(arena, int64_t, packing->rank);
    packing->strides = DT_NEW_ARRAY(arena, int64_t, packing->rank);
    packing->order = DT_NEW_ARRAY(arena, int, packing->rank);
    *by_row = false;
    const dt_access *access = &p->loops->operands[operand];
    for (int d = 0; d < packing->rank; d++)
        if (!range_of(p, &access->dims[d], value->shape.dims[d], &packing->lows[d], &packing->steps[d], &packing->extents[d])) return false;
    if (!order_dimensions(p, operand, contiguous, packing)) return false;
    int64_t stride = 1;
    for (int i = packing->rank - 1; i >= 0; i--) {
        int d = packing->order[i];
        bool rows = packing->extents[d] == DT_BATCH, all_rows = packing->extents[d] == DT_GATHERED;
        if (all_rows && i > 0) return false; /* they need a stride */
        bool this_row = is_of_the_row(p, access, packing, d);
        *by_row |= this_row;
        packing->strides[d] = this_row ? 0 : stride;
        if (!all_rows && !this_row) stride *= rows ? p->plan->microbatch_rows : packing->extents[d];
    }
    return true;
}

/* Positions that lie a multiple of a kilobyte apart, those of 512 channels, are moved a line further apart: else all that a window reads would share
 * a few sets of the first cache. */
static void spread_over_sets(dt_packing *packing) {
    enum {
        LINE = 16,     /* elements of f32 */
        KILOBYTE = 256 /* the same */
    };
    for (int i = packing->rank - 2; i >= 0; i--) {
        int64_t stride = packing->strides[packing->order[i]];
        if (stride == 0 || stride % KILOBYTE != 0) continue;
        int64_t wider = stride + LINE;
        for (int k = i; k >= 0; k--) packing->strides[packing->order[k]] = packing->strides[packing->order[k]] / stride * wider;
        return;
    }
}

static int packing_buffer(dt_arena *arena, dt_product *p, int operand, const dt_packing *packing, bool by_row) {
    int64_t *dims = DT_NEW_ARRAY(arena, int64_t, packing->rank);
    int rank = 0;
    int64_t around = 0; /* stride of the dimension before */
    for (int i = 0; i < packing->rank; i++) {
        int64_t stride = packing->strides[packing->order[i]], extent = packing->extents[packing->order[i]];
        if (stride == 0) continue;
        dims[rank++] = around == 0 || dt_dim_is_symbol(extent) ? extent : (around + stride - 1) / stride;
        around = stride;
    }
    const char *name = dt_arena_format(arena, "%%%d/packed", p->root->operands[operand]->id);
    dt_dtype dtype = p->root->operands[operand]->dtype == DT_F64 ? DT_F64 : DT_F32;
    dt_memory_space space = p->kernel->once ? DT_MEMORY_DEVICE : DT_MEMORY_SCRATCH;
    dt_buffer buffer = {.name = name, .space = space, .dtype = dtype, .shape = {rank, dims}, .variable = -1, .input = -1};
    buffer.precision = p->precision;
    buffer.one_row = by_row;
    return dt_plan_add_buffer(arena, p->plan, buffer);
}

/* How often an element that is laid out is read: what makes it worth while. */
static int64_t reuse(const dt_product *p, int operand, bool by_row) {
    int64_t n = 1;
    for (int l = 0; l < p->loops->n_outer; l++)
        if (!walks(p, operand, l) && !(by_row && l == p->row)) n *= assumed_extent(p, l);
    return n;
}

/* Whether the operand can be read as tiles need it: as it is, or *laid_out, which is described and has no buffer yet. */
static bool can_read(dt_arena *arena, dt_product *p, int operand, bool contiguous, bool *laid_out, bool *by_row) {
    enum {
        least_reuse = 4
    };
    bool plain = is_plain(p, operand, contiguous);
    if (plain && p->precision == DT_PRECISION_F32) return true; /* else a copy is worth while that holds it rounded */
    *laid_out = describe_packing(arena, p, operand, contiguous, &p->packings[operand], by_row) && reuse(p, operand, *by_row) >= least_reuse;
    return plain || *laid_out;
}

/* Puts the nest that lays `operand` out where it belongs; returns how many nests stand before p's now. */
static int insert_packing(dt_arena *arena, dt_product *p, int operand, bool by_row) {
    dt_nest nest = dt_lower_packing(p->lowering, p->kernel, p->root, operand, &p->packings[operand]);
    int at = p->n;
    nest.in_rows = by_row;
    while (!by_row && p->kernel->nests[p->n].in_rows && at > 0 && p->kernel->nests[at - 1].in_rows) at--;
    dt_kernel_insert_nest(arena, p->kernel, at, nest);
    return ++p->n;
}

static void lower_again(dt_product *p, int n, const dt_layout *layout) {
    dt_nest *nest = &p->kernel->nests[n];
    bool in_rows = nest->in_rows;
    *nest = dt_lower_cluster(p->lowering, p->kernel, dt_lowering_origin(p->lowering, nest).cluster, layout);
    nest->in_rows = in_rows;
}

/* ---- operands that are read outside of their bounds ---- */

/* The spread of a dimension that is read at (o - factor * r + shift) / divisor, if its whole reach lies within the result. */
static bool find_spread(const dt_product *p, const dt_index *index, int64_t extent, dt_spread *spread) {
    *spread = (dt_spread){-1, -1, extent, index->divisor, 0, index->offset};
    if (index->indirect >= 0 || dt_dim_is_symbol(extent)) return false;
    for (int l = 0; l < p->loops->n_loops; l++) {
        int64_t coefficient = index->coefficients[l];
        if (coefficient == 0) continue;
        bool outer = l < p->loops->n_outer;
        if (outer ? coefficient != 1 || spread->outer >= 0 || l == p->vector_loop : coefficient > 0 || spread->reduced >= 0) return false;
        if (dt_dim_is_symbol(p->loops->extents[l]) || (outer && walks(p, p->operands[1], l))) return false;
        *(outer ? &spread->outer : &spread->reduced) = l;
        if (!outer) spread->factor = -coefficient;
    }
    if (spread->outer < 0 || spread->reduced < 0) return false;
    int64_t last = spread->divisor * (extent - 1) + spread->factor * (p->loops->extents[spread->reduced] - 1) - spread->shift;
    return spread->shift <= 0 && last < p->loops->extents[spread->outer];
}

/* The buffer of p's sum, which is kept in memory: the one that its value has; that of the only thing which follows it, element by element in its
 * memory; or one that is made. */
static int sum_buffer(dt_arena *arena, dt_product *p, const dt_cluster *cluster) {
    const dt_output *outputs = cluster->outputs.items;
    for (size_t o = 0; o < cluster->outputs.n; o++)
        if (outputs[o].value == p->root) return outputs[o].buffer;
    int buffer = outputs[0].buffer;
    const dt_buffer *of_output = &p->plan->buffers[buffer];
    if (cluster->outputs.n > 1 || of_output->space != DT_MEMORY_SCRATCH || of_output->dtype != p->root->dtype) {
        const char *name = dt_arena_format(arena, "%%%d/sum", p->root->id);
        buffer =
            dt_plan_add_buffer(arena, p->plan, (dt_buffer){name, DT_MEMORY_SCRATCH, p->root->dtype, p->root->shape, .variable = -1, .input = -1});
    }
    return p->lowering->buffers[p->root->id] = buffer;
}

/* Adds a nest after p's for what follows its sum, which is complete only there. */
static void compute_rest_after(dt_arena *arena, dt_product *p, const dt_cluster *cluster) {
    dt_cluster *rest = DT_NEW(arena, dt_cluster);
    *rest = (dt_cluster){.members = cluster->members, .space = cluster->space};
    for (size_t o = 0; o < cluster->outputs.n; o++)
        if (cluster->outputs.items[o].value != p->root) dt_list_push(arena, &rest->outputs, cluster->outputs.items[o]);
    if (rest->outputs.n == 0) return;
    dt_layout *layout = DT_NEW(arena, dt_layout);
    *layout = DT_LAYOUT_PLAIN;
    dt_nest nest = dt_lower_cluster(p->lowering, p->kernel, rest, layout);
    nest.in_rows = true;
    nest.note = "epilogue";
    dt_kernel_insert_nest(arena, p->kernel, p->n + 1, nest);
}

/* A gradient of a convolution's input reads beyond the border for most of the result. Where its windows cover the result and no more, each element
 * of the operand is spread over the result instead: that is all that has to be computed. The result is cleared first, and added to. */
static void spread_operand(dt_arena *arena, dt_product *p) {
    const dt_cluster *cluster = dt_lowering_origin(p->lowering, &p->kernel->nests[p->n]).cluster;
    const dt_access *access = &p->loops->operands[p->operands[0]];
    dt_shape shape = p->root->operands[p->operands[0]]->shape;
    if (p->row != 0 || !access->guarded) return;
    if (p->root->dtype != DT_F32 && p->root->dtype != DT_F64) return;
    dt_spread *spreads = DT_NEW_ARRAY(arena, dt_spread, shape.rank);
    int n = 0;
    for (int d = 0; d < shape.rank; d++) {
        const dt_index *index = &access->dims[d];
        int64_t low, step, extent;
        bool inside = range_of(p, index, shape.dims[d], &low, &step, &extent) && index->divisor == 1 && low >= 0 && low + extent <= shape.dims[d];
        if (inside || dt_dim_is_symbol(shape.dims[d])) continue;
        if (!find_spread(p, index, shape.dims[d], &spreads[n++])) return;
        for (int i = 0; i + 1 < n; i++)
            if (spreads[i].outer == spreads[n - 1].outer || spreads[i].reduced == spreads[n - 1].reduced) return;
    }
    if (n == 0) return;
    dt_layout *layout = DT_NEW(arena, dt_layout);
    *layout = (dt_layout){.row_loop = -1, .n_spreads = n, .spreads = spreads};
    int *accumulator = DT_NEW(arena, int);
    *accumulator = sum_buffer(arena, p, cluster);
    layout->accumulators = accumulator;
    lower_again(p, p->n, layout);
    compute_rest_after(arena, p, cluster);
    dt_nest zero = dt_lower_zero(p->lowering, p->kernel, *accumulator);
    zero.in_rows = true;
    dt_kernel_insert_nest(arena, p->kernel, p->n++, zero);
}

/* Lays out what p->packings say, and lowers all parts again with it. */
static void apply_packings(dt_arena *arena, dt_product *p, const bool *by_row) {
    int n_by_row = 0;
    if (p->packings[0].buffer < 0 && p->packings[1].buffer < 0) return;
    for (int operand = 0; operand < 2; operand++) {
        if (p->packings[operand].buffer < 0) continue;
        insert_packing(arena, p, operand, by_row[operand]);
        n_by_row += by_row[operand];
    }
    const dt_packing *packings = dt_arena_copy(arena, p->packings, sizeof p->packings);
    for (int n = p->n; n < p->n + p->n_parts; n++) {
        dt_layout *layout = DT_NEW(arena, dt_layout);
        *layout = *layout_of(p, n);
        layout->packings = packings;
        layout->n_blocks = p->n_blocks;
        layout->blocked = p->vector_loop;
        lower_again(p, n, layout);
    }
    for (int n = p->n - n_by_row + 1; p->n_blocks > 0 && n < p->n + p->n_parts; n++) p->kernel->nests[n].in_blocks = true;
}

/* How often an element of an operand is read in all, on average. */
static int64_t reads(const dt_product *p, int operand) {
    int64_t products = 1, elements = 1;
    const dt_packing *packing = &p->packings[operand];
    for (int l = 0; l < p->loops->n_loops; l++) products *= l == p->row ? 1 : assumed_extent(p, l);
    for (int d = 0; d < packing->rank; d++) {
        if (dt_dim_is_symbol(packing->extents[d])) continue;
        elements *= packing->extents[d];
        products /= p->loops->operands[operand].dims[d].divisor;
    }
    return products / (elements > 0 ? elements : 1);
}

/* ---- blocks: what is laid out for a row, and read right after, a block of the vector loop at a time ---- */

/* The dimension of an operand that the vector loop walks as it is, and nothing else does; -1: there is none. */
static int dimension_of_vector_loop(const dt_product *p, int operand) {
    const dt_access *access = &p->loops->operands[operand];
    const dt_packing *packing = &p->packings[operand];
    int dimension = -1;
    for (int d = 0; d < packing->rank; d++) {
        if (access->dims[d].coefficients[p->vector_loop] == 0) continue;
        bool alone = packing->lows[d] == 0 && packing->steps[d] == 1 && packing->extents[d] == p->loops->extents[p->vector_loop];
        if (dimension >= 0 || !alone) return -1;
        dimension = d;
    }
    return dimension;
}

static int64_t bytes_of_row(const dt_packing *packing) {
    int64_t bytes = sizeof(float);
    for (int d = 0; d < packing->rank; d++)
        if (packing->strides[d] != 0) bytes *= packing->extents[d];
    return bytes;
}

/* In how many blocks a row is laid out and read; 0: as a whole. What is laid out then stays in the second cache until it is read, but the row comes
 * from memory a part at a time. That pays where the row, too, and its result stay there from one block to the next, and nothing else is read of the
 * row. */
static int64_t choose_blocks(const dt_product *p, const bool *laid_out, const bool *by_row) {
    enum {
        CACHE_BYTES = 1 << 20,
        LEAST_BYTES = 256 << 10, /* laid out of a row */
        BLOCK_BYTES = 160 << 10, /* the same, of a block, at most */
        NARROWEST = 64,          /* elements */
        LINE = 16                /* the same */
    };
    if (p->row < 0 || p->vector_loop < 0 || p->vector_loop == p->row || is_thinned_out(p, p->vector_loop)) return 0;
    int64_t bytes = 0, row_bytes = dt_shape_elements_per_row(p->root->shape) * (int64_t)sizeof(float);
    for (int k = 0; k < 2; k++) {
        if (!walks(p, k, p->row)) continue;
        if (!laid_out[k] || !by_row[k] || dimension_of_vector_loop(p, k) < 0) return 0;
        bytes += bytes_of_row(&p->packings[k]);
        row_bytes += dt_shape_elements_per_row(p->root->operands[k]->shape) * (int64_t)sizeof(float);
    }
    int64_t extent = p->loops->extents[p->vector_loop];
    if (bytes <= LEAST_BYTES || dt_dim_is_symbol(extent)) return 0;
    for (int64_t n = 2; n * NARROWEST <= extent; n++)
        if (extent % (n * LINE) == 0 && bytes <= n * BLOCK_BYTES) return row_bytes + bytes / n <= CACHE_BYTES ? n : 0;
    return 0;
}

/* Cuts the packing down to a block. */
static void cut_packing(dt_product *p, int operand) {
    dt_packing *packing = &p->packings[operand];
    int blocked = dimension_of_vector_loop(p, operand);
    for (int i = 0; packing->order[i] != blocked; i++) packing->strides[packing->order[i]] /= p->n_blocks;
    packing->extents[blocked] /= p->n_blocks;
    packing->blocked = blocked;
    packing->n_blocks = p->n_blocks;
}

/* A product without tiles, as that of channels one by one: operands with a border are laid out with it, so that nothing is asked at each product. */
static void lay_out_borders(dt_arena *arena, dt_product *p) {
    enum {
        least_reads = 4
    };
    bool laid_out[2] = {false, false}, by_row[2] = {false, false};
    for (int k = 0; k < 2; k++) {
        p->packings[k].buffer = -1;
        if (!p->loops->operands[k].guarded || is_plain(p, k, false)) continue;
        laid_out[k] = describe_packing(arena, p, k, false, &p->packings[k], &by_row[k]) && reads(p, k) >= least_reads;
    }
    p->n_blocks = choose_blocks(p, laid_out, by_row);
    for (int k = 0; k < 2; k++) {
        dt_packing *packing = &p->packings[k];
        if (!laid_out[k]) continue;
        if (p->n_blocks > 0 && by_row[k]) cut_packing(p, k);
        spread_over_sets(packing);
        packing->buffer = packing_buffer(arena, p, k, packing, by_row[k]);
    }
    apply_packings(arena, p, by_row);
}

/* Register tiles for the product, if it can be had in a form that allows them. */
static void tile(dt_arena *arena, dt_product *p) {
    bool laid_out[2] = {false, false}, by_row[2] = {false, false};
    if (!all_are_products(p)) return;
    if (!choose_loops(p) || !stores_are_contiguous(p)) {
        lay_out_borders(arena, p);
        return;
    }
    if (!is_in_phases(p)) spread_operand(arena, p);
    for (int k = 0; k < 2; k++)
        if (!can_read(arena, p, p->operands[k], k == 1, &laid_out[k], &by_row[p->operands[k]])) return;
    for (int k = 0; k < 2; k++) {
        dt_packing *packing = &p->packings[p->operands[k]];
        packing->buffer = laid_out[k] ? packing_buffer(arena, p, p->operands[k], packing, by_row[p->operands[k]]) : -1;
    }
    apply_packings(arena, p, by_row);
    for (int n = p->n; n < p->n + p->n_parts; n++) {
        dt_nest *nest = &p->kernel->nests[n];
        const dt_layout *layout = layout_of(p, n);
        if (dt_layout_is_empty(layout)) continue;
        nest->algorithm = layout->n_spreads > 0 ? DT_ALGORITHM_SPREAD : layout->n_polyphases > 0 ? DT_ALGORITHM_PHASED : DT_ALGORITHM_TILED;
        nest->tiling = (dt_tiling){.row_loop = loop_in_nest(p, p->row_loop), .vector_loop = loop_in_nest(p, p->vector_loop)};
        nest->tiling.a = factor(p, nest, p->operands[0]);
        nest->tiling.b = factor(p, nest, p->operands[1]);
    }
}

/* Tiles nest n if it is a sum of products; returns the number of the next nest. */
static int tile_nest(dt_arena *arena, dt_lowering *lowering, dt_kernel_function *kernel, int n) {
    const dt_nest *nest = &kernel->nests[n];
    const dt_cluster *cluster = dt_lowering_origin(lowering, nest).cluster;
    if (cluster == NULL || cluster->roots.n != 1) return n + 1;
    dt_product p = {.lowering = lowering, .plan = lowering->plan, .kernel = kernel, .n = n, .n_parts = 1, .root = cluster->roots.items[0], .row = -1};
    p.loops = dt_lowering_loops(lowering, p.root);
    if (!dt_loops_are_product(p.loops)) return n + 1;
    dt_formula_is_product(p.loops->body, p.factors, &p.precision);
    p.n_parts = dt_schedule_phases(arena, lowering, kernel, n);
    if (nest->in_rows) p.row = layout_of(&p, n)->row_loop >= 0 ? layout_of(&p, n)->row_loop : 0;
    tile(arena, &p);
    return p.n + p.n_parts;
}

static void schedule_kernel(const dt_compilation *compilation, dt_lowering *lowering, dt_kernel_function *kernel) {
    dt_arena *arena = compilation->arena;
    bool loops = !lowering->plan->batched; /* else threads take the place of vectors, and tiles are the renderer's */
    bool tiles = loops && dt_switch_is_on(compilation->off, DT_SWITCH_TILE),
         vectors = loops && dt_switch_is_on(compilation->off, DT_SWITCH_VECTORIZE);
    bool windows = dt_switch_is_on(compilation->off, DT_SWITCH_WINDOWS);
    for (int n = 0; windows && n < kernel->n_nests; n++) dt_schedule_windows(arena, lowering, kernel, n);
    for (int n = 0; tiles && n < kernel->n_nests;) n = tile_nest(arena, lowering, kernel, n);
    for (int n = 0; n < kernel->n_nests; n++) {
        dt_nest *nest = &kernel->nests[n];
        dt_schedule_join(arena, lowering->plan, kernel, n);
        nest->vector_loop = nest->algorithm != DT_ALGORITHM_LOOPS ? nest->tiling.vector_loop : vectors ? vector_loop_of(arena, nest) : -1;
    }
}

dt_status *dt_pass_schedule(dt_compilation *compilation) {
    for (int i = 0; i < compilation->n_plans; i++) {
        dt_plan *plan = compilation->plans[i];
        for (int k = 0; k < plan->n_kernels; k++) schedule_kernel(compilation, compilation->lowerings[i], &plan->kernels[k]);
        if (dt_switch_is_on(compilation->off, DT_SWITCH_AHEAD)) dt_schedule_ahead(compilation->arena, plan);
        DT_TRY(compilation->lowerings[i]->status);
    }
    return NULL;
}
