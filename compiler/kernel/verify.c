/* verify: the form that every plan has after fuse and after each later pass. */
#include "compiler/kernel/affine.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/meetings.h"
#include "compiler/kernel/parallel.h"
#include "compiler/kernel/view.h"

static dt_status *wrong(const dt_kernel_function *kernel, int n, const char *rule) {
    return dt_error(DT_INTERNAL, "kernel %s, nest %d: %s", kernel->name, n, rule);
}

/* Of a rule that says what is wrong, or NULL. */
static dt_status *keeps(const dt_kernel_function *kernel, int n, const char *mistake) { return mistake != NULL ? wrong(kernel, n, mistake) : NULL; }

/* Which instructions depend on reduced loops: those may feed reductions only. */
static void mark_inner(const dt_nest *nest, bool *inner) {
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        inner[i] = x->kind == DT_INSTRUCTION_LOOP && nest->loops[x->index].reduced;
        for (int k = 0; k < x->n_operands; k++) inner[i] |= inner[x->operands[k]];
        if (x->kind != DT_INSTRUCTION_LOAD) continue;
        if (x->guard >= 0) inner[i] |= inner[x->guard] || inner[x->otherwise];
        for (int t = 0; t < x->address.n_terms; t++) inner[i] |= inner[x->address.terms[t]];
        for (int l = 0; l < nest->n_loops; l++) inner[i] |= nest->loops[l].reduced && x->address.coefficients[l] != 0;
    }
}

/* Which instructions use the result of a reduction. */
static void mark_late(const dt_nest *nest, bool *late) {
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        late[i] = x->kind == DT_INSTRUCTION_REDUCED;
        for (int k = 0; k < dt_instruction_n_uses(x); k++) late[i] |= late[dt_instruction_use(x, k)];
    }
}

static bool earlier(int x, int limit) { return x >= 0 && x < limit; }

static dt_status *verify_address(const dt_plan *plan, const dt_kernel_function *kernel, int n, const dt_address *address, int limit, bool guarded) {
    const dt_nest *nest = &kernel->nests[n];
    if (address->buffer < 0 || address->buffer >= kernel->n_buffers) return wrong(kernel, n, "an address names a buffer that is no argument");
    for (int t = 0; t < address->n_terms; t++) {
        if (!earlier(address->terms[t], limit)) return wrong(kernel, n, "a term of an address comes after its use");
        if (nest->instructions[address->terms[t]].dtype != DT_I64) return wrong(kernel, n, "a term of an address is not an i64");
    }
    dt_affine x = {address->coefficients, address->offset, address->n_terms, address->terms, address->term_coefficients};
    const dt_buffer *buffer = &plan->buffers[kernel->buffers[address->buffer]];
    int64_t least, greatest;
    if (guarded) return NULL;
    if (dt_affine_least(nest->n_loops, nest->loops, &x, &least) && least < 0) return wrong(kernel, n, "an address lies before its buffer");
    dt_loop loops[64];
    if (nest->n_loops > 64) return wrong(kernel, n, "more than 64 loops");
    for (int l = 0; l < nest->n_loops; l++) {
        loops[l] = nest->loops[l];
        if (loops[l].extent == DT_BATCH) loops[l].extent = plan->microbatch_rows; /* that memory is planned for */
        if (loops[l].extent == 0) return NULL;                                    /* nothing is accessed */
        if (loops[l].extent == DT_GATHERED && x.coefficients[l] != 0) return NULL;
    }
    if (dt_affine_greatest(nest->n_loops, loops, &x, &greatest) && greatest >= dt_buffer_span(plan, kernel->buffers[address->buffer]))
        return dt_error(DT_INTERNAL, "kernel %s, nest %d: an address lies past %s", kernel->name, n, buffer->name);
    return NULL;
}

/* The types that a scalar takes and makes. */
static bool has_type(dt_scalar_op scalar, dt_dtype dtype) {
    bool is_float = dt_dtype_is_float(dtype), is_bool = dtype == DT_BOOL;
    if (dt_scalar_precision(scalar) != DT_PRECISION_F32) return dtype == DT_F32;
    switch (scalar) {
    case DT_SCALAR_HIGH_PRODUCT: return dtype == DT_I32;
    case DT_SCALAR_SHIFT_LEFT:
    case DT_SCALAR_SHIFT_RIGHT: return !is_float && !is_bool;
    case DT_SCALAR_AND:
    case DT_SCALAR_OR:
    case DT_SCALAR_XOR: return !is_float;
    case DT_SCALAR_FUSED:
    case DT_SCALAR_SQUARE_ROOT: return is_float;
    case DT_SCALAR_SELECT: return true;
    default: return !is_bool || dt_scalar_result(scalar) == 'b';
    }
}

static const char *verify_scalar(const dt_nest *nest, const dt_instruction *x) {
    char result = dt_scalar_result(x->scalar);
    int first = result == 'c' ? 1 : 0;
    if (x->n_operands != dt_scalar_n_operands(x->scalar)) return "an operation has another number of operands";
    if (result == 'c' && nest->instructions[x->operands[0]].dtype != DT_BOOL) return "a condition is not a bool";
    for (int k = first; k < x->n_operands; k++)
        if (nest->instructions[x->operands[k]].dtype != nest->instructions[x->operands[first]].dtype) return "an operation has operands of two types";
    dt_dtype dtype = result == 'b' ? DT_BOOL : nest->instructions[x->operands[first]].dtype;
    if (!has_type(x->scalar, nest->instructions[x->operands[first]].dtype)) return "an operation that its operands' type does not have";
    return x->dtype != dtype ? "an operation has another type than its operands" : NULL;
}

/* The types of what is neither loaded nor a scalar. */
static const char *verify_type(const dt_nest *nest, const dt_instruction *x) {
    bool is_index = x->kind == DT_INSTRUCTION_LOOP || x->kind == DT_INSTRUCTION_LAUNCH;
    if (is_index && x->dtype != DT_I64) return "a loop, or what a launch has, is not an i64";
    if ((x->kind == DT_INSTRUCTION_CONVERT || x->kind == DT_INSTRUCTION_BITS) && x->n_operands != 1) return "a conversion is of one operand";
    if (x->kind == DT_INSTRUCTION_BITS && dt_dtype_bytes(x->dtype) != dt_dtype_bytes(nest->instructions[x->operands[0]].dtype))
        return "bits are taken as a type of another size";
    if (x->kind == DT_INSTRUCTION_BITS && dt_dtype_bytes(x->dtype) < 4) return "bits are those of types of 4 or 8 bytes";
    if (x->kind != DT_INSTRUCTION_CHECK) return NULL;
    if (x->dtype != DT_BOOL || x->n_operands < 1 || x->n_operands > 2) return "a check is a bool, of an index and a row";
    for (int k = 0; k < x->n_operands; k++)
        if (nest->instructions[x->operands[k]].dtype != DT_I64) return "a check is of i64";
    return NULL;
}

static const char *verify_reduction(const dt_nest *nest, const dt_reduction *reduction, const bool *late) {
    if (!earlier(reduction->operand, nest->n_instructions)) return "a reduction of nothing";
    if (late[reduction->operand]) return "a reduction of what comes after it";
    dt_dtype operand = nest->instructions[reduction->operand].dtype;
    if (reduction->combiner == DT_COMBINE_NONE) return "a reduction that does not say how it combines";
    if (dt_combiner_is_position(reduction->combiner)) return reduction->dtype != DT_I64 ? "a position is no i64" : NULL;
    bool fits = dt_dtype_is_float(reduction->dtype) == dt_dtype_is_float(operand) && dt_dtype_bytes(reduction->dtype) >= dt_dtype_bytes(operand);
    return fits ? NULL : "a reduction adds up in a type that its operand does not fit";
}

static const char *verify_tiling(const dt_nest *nest) {
    const dt_tiling *tiling = &nest->tiling;
    if (nest->algorithm == DT_ALGORITHM_LOOPS) return NULL;
    if (!earlier(tiling->vector_loop, nest->n_loops) || tiling->row_loop >= nest->n_loops || tiling->row_loop == tiling->vector_loop)
        return "the loops of tiles are two of the nest's";
    for (int k = 0; k < 2; k++) {
        int load = k == 0 ? tiling->a : tiling->b;
        if (!earlier(load, nest->n_instructions) || nest->instructions[load].kind != DT_INSTRUCTION_LOAD) return "an operand of tiles is no load";
    }
    return NULL;
}

static dt_status *verify_instruction(const dt_plan *plan, const dt_kernel_function *kernel, int n, int i) {
    const dt_nest *nest = &kernel->nests[n];
    const dt_instruction *x = &nest->instructions[i];
    for (int k = 0; k < x->n_operands; k++)
        if (!earlier(x->operands[k], i)) return wrong(kernel, n, "an operand comes after its use");
    DT_TRY(keeps(kernel, n, x->kind == DT_INSTRUCTION_SCALAR ? verify_scalar(nest, x) : verify_type(nest, x)));
    switch (x->kind) {
    case DT_INSTRUCTION_LOOP: return earlier(x->index, nest->n_loops) ? NULL : wrong(kernel, n, "no such loop");
    case DT_INSTRUCTION_REDUCED:
        if (!earlier(x->index, nest->n_reductions)) return wrong(kernel, n, "no such reduction");
        return x->dtype == nest->reductions[x->index].dtype ? NULL : wrong(kernel, n, "a result of another type than its reduction");
    case DT_INSTRUCTION_LOAD:
        if (x->guard >= 0 && (!earlier(x->guard, i) || !earlier(x->otherwise, i))) return wrong(kernel, n, "a guard comes after its use");
        if (x->guard >= 0 && nest->instructions[x->guard].dtype != DT_BOOL) return wrong(kernel, n, "a guard is not a bool");
        if (x->guard >= 0 && nest->instructions[x->otherwise].dtype != x->dtype) return wrong(kernel, n, "a load is replaced by another type");
        if (x->dtype != plan->buffers[kernel->buffers[x->address.buffer]].dtype) return wrong(kernel, n, "a load has another type than its buffer");
        return verify_address(plan, kernel, n, &x->address, i, x->guard >= 0);
    default: return NULL;
    }
}

static dt_status *verify_store(const dt_plan *plan, const dt_kernel_function *kernel, int n, const dt_store *store, const bool *inner) {
    const dt_nest *nest = &kernel->nests[n];
    if (!earlier(store->operand, nest->n_instructions)) return wrong(kernel, n, "a store of nothing");
    if (store->guard >= 0 && !earlier(store->guard, nest->n_instructions)) return wrong(kernel, n, "a store's guard does not exist");
    if (store->guard >= 0 && nest->instructions[store->guard].dtype != DT_BOOL) return wrong(kernel, n, "a store's guard is not a bool");
    DT_TRY(verify_address(plan, kernel, n, &store->address, nest->n_instructions, store->guard >= 0));
    const dt_buffer *buffer = &plan->buffers[kernel->buffers[store->address.buffer]];
    if (nest->instructions[store->operand].dtype != buffer->dtype)
        return dt_error(DT_INTERNAL, "kernel %s, nest %d: %s is stored as another type than its own", kernel->name, n, buffer->name);
    if (buffer->space == DT_MEMORY_INPUT || buffer->space == DT_MEMORY_CONSTANT) return wrong(kernel, n, "a store to memory that is only read");
    bool is_inner = inner[store->operand] || (store->guard >= 0 && inner[store->guard]);
    for (int t = 0; t < store->address.n_terms; t++) is_inner |= inner[store->address.terms[t]];
    if (is_inner) return wrong(kernel, n, "a store of a value, or where one says, that depends on reduced loops");
    for (int l = 0; l < nest->n_loops; l++)
        if (nest->loops[l].reduced && store->address.coefficients[l] != 0) return wrong(kernel, n, "a store's address depends on a reduced loop");
    return NULL;
}

/* Of a kernel that replicas run in parts: these do the same at the same time, and nobody is at what another one makes. */
static const char *verify_meetings(const dt_plan *plan, const dt_kernel_function *kernel, int n) {
    const dt_nest *nest = &kernel->nests[n];
    if (kernel->once || !kernel->divided) return nest->meets ? "a meeting of parts that do not run at the same time" : NULL;
    if (!plan->is_placed) return "replicas run parts of what has no place in memory yet";
    if (dt_nest_has_to_meet(plan, kernel, n) && !nest->meets) return "no meeting before it, of parts that have to do with what others have done";
    if (nest->in_blocks && nest->meets) return "a meeting between nests that share blocks, which one part does";
    bool shares_blocks = nest->in_blocks || (n + 1 < kernel->n_nests && kernel->nests[n + 1].in_blocks);
    if (nest->part_iterations == 0) return NULL;
    if (shares_blocks || nest->share.n_units > 0) return "parts of blocks, or of what processes share out";
    bool is_parallel = dt_nest_parallel_loops(plan, kernel, nest) >> dt_nest_part_loop(nest) & 1;
    return is_parallel ? NULL : "parts of a loop whose iterations have to do with one another";
}

/* Ranges of the outermost loop, of nests that are run in parts or shared out; on GPUs one call does all parts. */
static const char *verify_parts(const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest) {
    const int loop = dt_nest_part_loop(nest);
    if (kernel->divided && kernel->once && nest->in_rows) return "a row nest in a kernel that is run in parts";
    if (nest->part_iterations == 0 && nest->share.n_units == 0) return NULL;
    if (!kernel->divided && !plan->batched) return "parts in a kernel that is not divided";
    if (nest->n_loops <= loop || dt_nest_reduces(nest, loop) || dt_dim_is_symbol(nest->loops[loop].extent))
        return "parts of a loop that is reduced, or of no constant extent";
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_CHECK) return "an index that is checked in parts";
    return NULL;
}

/* A vectorised loop walks contiguous elements of every store, or is reduced, and nothing that it walks is checked. */
static dt_status *verify_vector(const dt_kernel_function *kernel, int n) {
    const dt_nest *nest = &kernel->nests[n];
    int loop = nest->vector_loop;
    if (loop < -1 || loop >= nest->n_loops) return wrong(kernel, n, "no such loop to vectorise");
    if (loop < 0) return NULL;
    if (nest->in_rows && loop == 0) return wrong(kernel, n, "the row loop is vectorised");
    for (int s = 0; s < nest->n_stores && !nest->loops[loop].reduced; s++)
        if (nest->stores[s].address.coefficients[loop] != 1) return wrong(kernel, n, "a vectorised loop does not walk a store's elements one by one");
    return NULL;
}

/* Whoever looks at a nest takes what is not one buffer for memory of its own. */
static dt_status *verify_memory(const dt_plan *plan, const dt_kernel_function *kernel, int n) {
    const dt_nest *nest = &kernel->nests[n];
    for (int s = 0; s < nest->n_stores && plan->is_placed; s++) {
        int stored = nest->stores[s].address.buffer, n_accesses = nest->n_stores + nest->n_instructions;
        for (int i = 0; i < n_accesses; i++) {
            const dt_instruction *load = i < nest->n_stores ? NULL : &nest->instructions[i - nest->n_stores];
            if (load != NULL && load->kind != DT_INSTRUCTION_LOAD) continue;
            int other = load != NULL ? load->address.buffer : nest->stores[i].address.buffer;
            if (!dt_arguments_are_one(plan, kernel, stored, other) && dt_arguments_overlap(plan, kernel, stored, other))
                return wrong(kernel, n, "a store to memory that another buffer of the nest has");
        }
    }
    return NULL;
}

/* The loop that it shares with the nest before it is the same in both. */
static dt_status *verify_blocks(const dt_kernel_function *kernel, int n) {
    const dt_nest *nest = &kernel->nests[n], *before = nest - 1;
    if (n == 0 || !nest->in_rows || !before->in_rows) return wrong(kernel, n, "blocks without a row loop");
    if (nest->n_loops < 2 || before->n_loops < 2 || nest->loops[1].extent != before->loops[1].extent)
        return wrong(kernel, n, "other blocks than those of the nest before it");
    if (nest->loops[1].reduced || before->loops[1].reduced || dt_dim_is_symbol(nest->loops[1].extent))
        return wrong(kernel, n, "a loop over blocks that is reduced, or of no constant extent");
    if (nest->vector_loop == 1 || before->vector_loop == 1) return wrong(kernel, n, "the loop over blocks is vectorised");
    return NULL;
}

static dt_status *verify_nest(const dt_plan *plan, const dt_kernel_function *kernel, int n, bool *inner, bool *late) {
    const dt_nest *nest = &kernel->nests[n];
    for (int l = 1; l < nest->n_loops; l++)
        if (nest->loops[l - 1].reduced && !nest->loops[l].reduced) return wrong(kernel, n, "an outer loop inside a reduced one");
    if (nest->in_rows && (nest->n_loops == 0 || nest->loops[0].extent != DT_BATCH || nest->loops[0].reduced))
        return wrong(kernel, n, "a row nest whose first loop does not walk the rows");
    if (nest->in_blocks) DT_TRY(verify_blocks(kernel, n));
    DT_TRY(keeps(kernel, n, verify_parts(plan, kernel, nest)));
    for (int i = 0; i < nest->n_instructions; i++) DT_TRY(verify_instruction(plan, kernel, n, i));
    mark_inner(nest, inner);
    mark_late(nest, late);
    for (int r = 0; r < nest->n_reductions; r++) DT_TRY(keeps(kernel, n, verify_reduction(nest, &nest->reductions[r], late)));
    DT_TRY(keeps(kernel, n, verify_tiling(nest)));
    for (int s = 0; s < nest->n_stores; s++) DT_TRY(verify_store(plan, kernel, n, &nest->stores[s], inner));
    DT_TRY(verify_memory(plan, kernel, n));
    DT_TRY(keeps(kernel, n, verify_meetings(plan, kernel, n)));
    return verify_vector(kernel, n);
}

static dt_status *verify_kernel(const dt_plan *plan, dt_arena *arena, const dt_kernel_function *kernel) {
    for (int b = 0; b < kernel->n_buffers; b++)
        if (!earlier(kernel->buffers[b], plan->n_buffers)) return dt_error(DT_INTERNAL, "kernel %s: argument %d is no buffer", kernel->name, b);
    if (kernel->divided && !kernel->once && (kernel->loop != NULL || plan->batched))
        return dt_error(DT_INTERNAL, "kernel %s: of a loop's body, and on GPUs, replicas run no parts", kernel->name);
    for (int n = 0; n < kernel->n_nests; n++)
        DT_TRY(verify_nest(plan, kernel, n, DT_NEW_ARRAY(arena, bool, kernel->nests[n].n_instructions),
                           DT_NEW_ARRAY(arena, bool, kernel->nests[n].n_instructions)));
    return NULL;
}

/* ---- memory ---- */

static int64_t space_bytes(const dt_space_bytes *bytes, dt_memory_space space) {
    return space == DT_MEMORY_DEVICE    ? bytes->device
           : space == DT_MEMORY_REPLICA ? bytes->replica
           : space == DT_MEMORY_PARTIAL ? bytes->partial
           : space == DT_MEMORY_SCRATCH ? bytes->scratch
                                        : INT64_MAX;
}

/* A buffer that a kernel has lies in its space, and has room for its elements. */
static dt_status *verify_place(const dt_plan *plan, int b) {
    const dt_buffer *buffer = &plan->buffers[dt_buffer_root(plan, b)];
    int64_t all = space_bytes(dt_buffer_is_gathered(buffer) ? &plan->gathered : &plan->bytes, buffer->space);
    int64_t elements = dt_shape_elements(buffer->shape, plan->microbatch_rows, plan->microbatch_rows);
    bool fits = buffer->offset % DT_BUFFER_ALIGNMENT == 0 && buffer->bytes >= elements * (int64_t)dt_dtype_bytes(buffer->dtype) &&
                buffer->offset <= all - buffer->bytes;
    return fits ? NULL : dt_error(DT_INTERNAL, "%s does not lie in its space", buffer->name);
}

/* All buffers of an input, or a variable, are the same. */
static dt_status *verify_arguments(const dt_plan *plan, dt_arena *arena, dt_memory_space space) {
    const dt_buffer **first = DT_NEW_ARRAY(arena, const dt_buffer *, dt_plan_n_arguments(plan, space));
    for (int b = 0; b < plan->n_buffers; b++) {
        const dt_buffer *buffer = &plan->buffers[b];
        if (buffer->space != space || buffer->view != NULL) continue;
        const dt_buffer **known = &first[space == DT_MEMORY_INPUT ? buffer->input : buffer->variable];
        if (*known == NULL) *known = buffer;
        if ((*known)->dtype != buffer->dtype || !dt_shape_equal((*known)->shape, buffer->shape))
            return dt_error(DT_INTERNAL, "%s and %s are one, and have two types", (*known)->name, buffer->name);
    }
    return NULL;
}

/* What combines a microbatch's shards within the segment: kernels store to its source before it, and use its target behind it. */
static dt_status *verify_within(const dt_plan *plan, const dt_segment *segment, const dt_collective *collective) {
    int n = dt_complete_after(plan, segment, collective);
    const char *source = plan->buffers[collective->source].name, *target = plan->buffers[collective->target].name;
    if (n == 0) return dt_error(DT_INTERNAL, "%s is summed over shards in a segment that does not make it", source);
    for (int k = 0; k < n; k++) {
        const dt_kernel_function *kernel = &plan->kernels[segment->replica_kernels[k]];
        for (int b = 0; b < kernel->n_buffers; b++)
            if (dt_buffer_root(plan, kernel->buffers[b]) == collective->target)
                return dt_error(DT_INTERNAL, "kernel %s: has %s before %s is summed over shards", kernel->name, target, source);
    }
    return NULL;
}

static dt_status *verify_collective(const dt_plan *plan, const dt_segment *segment, const dt_collective *collective) {
    const dt_buffer *source = &plan->buffers[collective->source], *target = &plan->buffers[collective->target];
    bool same = source->dtype == target->dtype;
    if (collective->kind == DT_COLLECTIVE_ALL_REDUCE)
        same &= dt_shape_elements(source->shape, 1, 1) == dt_shape_elements(target->shape, 1, 1);
    else
        same &= dt_shape_elements_per_row(source->shape) == dt_shape_elements_per_row(target->shape);
    if (!same) return dt_error(DT_INTERNAL, "%s crosses to %s, which holds other elements", source->name, target->name);
    bool over_shards = collective->kind == DT_COLLECTIVE_SHARD_REDUCE;
    bool one_space = (source->space == DT_MEMORY_DEVICE) == (target->space == DT_MEMORY_DEVICE);
    if (over_shards ? !source->sharded || target->sharded || !one_space : source->sharded != target->sharded)
        return dt_error(DT_INTERNAL, "%s of %s to %s: what shards have by themselves and what they have together are mixed up",
                        dt_collective_names()[collective->kind], source->name, target->name);
    if (dt_collective_is_within(plan, collective)) DT_TRY(verify_within(plan, segment, collective));
    if (plan->is_placed) DT_TRY(verify_place(plan, collective->source));
    return plan->is_placed ? verify_place(plan, collective->target) : NULL;
}

/* What shards have together no kernel writes that runs for each of them. */
static dt_status *verify_shards(const dt_plan *plan, const dt_kernel_function *kernel) {
    if (!dt_kernel_is_sharded(plan, kernel)) return NULL;
    for (int b = 0; b < kernel->n_buffers; b++) {
        const dt_buffer *buffer = &plan->buffers[dt_buffer_root(plan, kernel->buffers[b])];
        bool is_known = plan->is_placed || buffer->space == DT_MEMORY_VARIABLE; /* plan_memory marks the rest */
        if (is_known && !buffer->sharded && dt_kernel_stores_to(kernel, kernel->buffers[b]))
            return dt_error(DT_INTERNAL, "kernel %s runs for each shard and writes %s, which is the same for all", kernel->name, buffer->name);
    }
    return NULL;
}

static dt_status *verify_result(const dt_plan *plan, const dt_plan_result *result) {
    const dt_buffer *buffer = &plan->buffers[result->buffer];
    if (result->dtype != buffer->dtype || dt_shape_elements(result->shape, 1, 1) > dt_shape_elements(buffer->shape, 1, 1))
        return dt_error(DT_INTERNAL, "the result %s is not what %s holds", result->name, buffer->name);
    return plan->is_placed ? verify_place(plan, result->buffer) : NULL;
}

/* ---- layers ---- */

/* What is laid out for a layer, by a kernel that runs once, no layer before it has. */
static dt_status *verify_ahead(const dt_plan *plan, const dt_segment *segment, const dt_kernel_function *ahead, bool *is_laid_out) {
    for (int n = 0; n < ahead->n_nests; n++)
        for (int s = 0; s < ahead->nests[n].n_stores; s++)
            is_laid_out[dt_buffer_root(plan, ahead->buffers[ahead->nests[n].stores[s].address.buffer])] = true;
    for (int k = 0; k < segment->n_replica_kernels; k++) {
        const dt_kernel_function *kernel = &plan->kernels[segment->replica_kernels[k]];
        for (int b = 0; b < kernel->n_buffers && kernel->layer < ahead->layer; b++)
            if (is_laid_out[dt_buffer_root(plan, kernel->buffers[b])])
                return dt_error(DT_INTERNAL, "kernel %s: has what %s lays out for layer %d", kernel->name, ahead->name, ahead->layer);
    }
    return NULL;
}

static dt_status *verify_layers(const dt_plan *plan, dt_arena *arena, const dt_segment *segment) {
    const int n = segment->n_replica_kernels;
    const bool is_cut = n > 0 && plan->kernels[segment->replica_kernels[0]].layer > 0;
    int layer = is_cut;
    for (int i = 0; i < n; i++) {
        const dt_kernel_function *kernel = &plan->kernels[segment->replica_kernels[i]];
        const dt_plan_loop *loop = i > 0 ? dt_loop_outermost(plan->kernels[segment->replica_kernels[i - 1]].loop) : NULL;
        if (kernel->layer != layer && !(is_cut && i > 0 && kernel->layer == layer + 1))
            return dt_error(DT_INTERNAL, "kernel %s: layer %d behind layer %d", kernel->name, kernel->layer, layer);
        if (kernel->layer != layer && loop != NULL && dt_loop_outermost(kernel->loop) == loop)
            return dt_error(DT_INTERNAL, "kernel %s: a layer that begins amid a loop", kernel->name);
        layer = kernel->layer;
    }
    for (int i = 0; i < segment->n_device_kernels; i++) {
        const dt_kernel_function *kernel = &plan->kernels[segment->device_kernels[i]];
        if (kernel->layer > layer) return dt_error(DT_INTERNAL, "kernel %s: there is no layer %d", kernel->name, kernel->layer);
        if (kernel->layer > 0) DT_TRY(verify_ahead(plan, segment, kernel, DT_NEW_ARRAY(arena, bool, plan->n_buffers)));
    }
    return NULL;
}

/* They are the last nests of what is measured, and are numbered in their order. */
static dt_status *verify_timers(const dt_plan *plan) {
    int n_timers = 0;
    for (int k = 0; k < plan->n_kernels; k++)
        for (int n = 0; n < plan->kernels[k].n_nests; n++) {
            const dt_kernel_function *kernel = &plan->kernels[k];
            if (kernel->nests[n].timer == 0) continue;
            if (kernel->nests[n].timer != ++n_timers || plan->batched || (n + 1 < kernel->n_nests && kernel->nests[n + 1].in_blocks))
                return dt_error(DT_INTERNAL, "kernel %s, nest %d: timers are numbered from 1, on CPUs, and none stands amid a loop over blocks",
                                kernel->name, n);
        }
    return NULL;
}

static dt_status *verify_plan(const dt_plan *plan, dt_arena *arena) {
    int *runs = DT_NEW_ARRAY(arena, int, plan->n_kernels);
    for (int k = 0; k < plan->n_kernels; k++) DT_TRY(verify_kernel(plan, arena, &plan->kernels[k]));
    for (int s = 0; s < plan->n_segments; s++) {
        const dt_segment *segment = &plan->segments[s];
        for (int k = 0; k < segment->n_device_kernels; k++) runs[segment->device_kernels[k]]++;
        for (int k = 0; k < segment->n_replica_kernels; k++) runs[segment->replica_kernels[k]]++;
    }
    for (int k = 0; k < plan->n_kernels; k++)
        if (runs[k] != 1) return dt_error(DT_INTERNAL, "kernel %s runs %d times", plan->kernels[k].name, runs[k]);
    for (int s = 0; s < plan->n_segments; s++) DT_TRY(verify_layers(plan, arena, &plan->segments[s]));
    DT_TRY(verify_timers(plan));
    for (int r = 0; r < plan->n_results; r++)
        if (!earlier(plan->results[r].buffer, plan->n_buffers)) return dt_error(DT_INTERNAL, "result %d has no buffer", r);
    for (int s = 0; s < plan->n_segments; s++)
        for (int c = 0; c < plan->segments[s].n_collectives; c++)
            DT_TRY(verify_collective(plan, &plan->segments[s], &plan->segments[s].collectives[c]));
    for (int k = 0; k < plan->n_kernels; k++) DT_TRY(verify_shards(plan, &plan->kernels[k]));
    for (int k = 0; k < plan->n_kernels && plan->is_placed; k++)
        for (int b = 0; b < plan->kernels[k].n_buffers; b++) DT_TRY(verify_place(plan, plan->kernels[k].buffers[b]));
    for (int r = 0; r < plan->n_results; r++) DT_TRY(verify_result(plan, &plan->results[r]));
    DT_TRY(verify_arguments(plan, arena, DT_MEMORY_INPUT));
    DT_TRY(verify_arguments(plan, arena, DT_MEMORY_VARIABLE));
    return NULL;
}

dt_status *dt_plan_verify(const dt_plan *plan) {
    dt_arena *arena = dt_arena_create();
    jmp_buf guard;
    if (arena == NULL || setjmp(guard)) {
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "no memory left to verify the plan");
    }
    dt_arena_guard(arena, &guard);
    dt_status *status = verify_plan(plan, arena);
    dt_arena_destroy(arena);
    return dt_status_annotate(status, "plan of %s", plan->name);
}
