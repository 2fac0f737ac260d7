/* count: see the header. Everything is asked of loops and instructions, nothing of ops.
 *
 * An instruction runs once for each iteration of the loops down to the innermost one that it depends on: that is where renderers put it (kernel.h).
 */
#include "compiler/kernel/count.h"
#include "compiler/kernel/view.h"

/* ---- how often ---- */

/* `n` times, for so many dimensions of rows. */
static dt_amount amount_of(double n, int n_symbols) {
    return n_symbols == 0 ? (dt_amount){.fixed = n} : n_symbols == 1 ? (dt_amount){.per_row = n} : (dt_amount){.per_pair = n};
}

/* Iterations of the first n loops together. */
static dt_amount iterations_of(const dt_nest *nest, int n) {
    double iterations = 1;
    int n_symbols = 0;
    for (int l = 0; l < n; l++) {
        bool symbol = dt_dim_is_symbol(nest->loops[l].extent);
        n_symbols += symbol;
        if (!symbol) iterations *= (double)nest->loops[l].extent;
    }
    return amount_of(iterations, n_symbols);
}

static dt_amount add(dt_amount x, dt_amount y, double times) {
    return (dt_amount){x.per_row + times * y.per_row, x.per_pair + times * y.per_pair, x.fixed + times * y.fixed};
}

/* One block alone. */
static double of_microbatch(dt_amount amount, int64_t microbatch_rows) {
    return dt_amount_of(amount, (double)microbatch_rows, (double)microbatch_rows);
}

static int max_int(int x, int y) { return x > y ? x : y; }

/* How many loops, from the outermost, an address needs. */
static int depth_of_address(const dt_nest *nest, const dt_address *address, const int *depths) {
    int depth = 0;
    for (int l = 0; l < nest->n_loops; l++)
        if (address->coefficients[l] != 0) depth = l + 1;
    for (int t = 0; t < address->n_terms; t++) depth = max_int(depth, depths[address->terms[t]]);
    return depth;
}

static int n_outer_loops(const dt_nest *nest) {
    int n = 0;
    while (n < nest->n_loops && !nest->loops[n].reduced) n++;
    return n;
}

/* How many loops instruction i needs; those before it are known. */
static int depth_of(const dt_nest *nest, int i, const int *depths) {
    const dt_instruction *instruction = &nest->instructions[i];
    int depth = 0;
    if (instruction->kind == DT_INSTRUCTION_LOOP) return instruction->index + 1;
    if (instruction->kind == DT_INSTRUCTION_REDUCED) return n_outer_loops(nest);
    for (int o = 0; o < instruction->n_operands; o++) depth = max_int(depth, depths[instruction->operands[o]]);
    if (instruction->kind != DT_INSTRUCTION_LOAD) return depth;
    depth = max_int(depth, depth_of_address(nest, &instruction->address, depths));
    if (instruction->guard >= 0) depth = max_int(depth, max_int(depths[instruction->guard], depths[instruction->otherwise]));
    return depth;
}

/* ---- arithmetic ---- */

static bool is_float_work(const dt_nest *nest, const dt_instruction *instruction) {
    if (instruction->kind != DT_INSTRUCTION_SCALAR) return false;
    if (dt_scalar_precision(instruction->scalar) != DT_PRECISION_F32) return false; /* a conversion, as it were */
    for (int o = 0; o < instruction->n_operands; o++)
        if (dt_dtype_is_float(nest->instructions[instruction->operands[o]].dtype)) return true;
    return dt_dtype_is_float(instruction->dtype);
}

static dt_amount flops_of_nest(const dt_nest *nest, const int *depths) {
    dt_amount flops = {0};
    for (int i = 0; i < nest->n_instructions; i++)
        if (is_float_work(nest, &nest->instructions[i])) flops = add(flops, iterations_of(nest, depths[i]), 1);
    dt_amount points = iterations_of(nest, nest->n_loops);
    for (int r = 0; r < nest->n_reductions; r++)
        if (dt_dtype_is_float(nest->instructions[nest->reductions[r].operand].dtype)) flops = add(flops, points, 1);
    for (int s = 0; s < nest->n_stores; s++) /* += where the graph adds; a reduction into memory is counted already */
        if (nest->stores[s].accumulate && nest->n_reductions == 0 && dt_dtype_is_float(nest->instructions[nest->stores[s].operand].dtype))
            flops = add(flops, points, 1);
    return flops;
}

/* ---- memory ---- */

/* What a kernel does with one of its buffers. */
typedef struct use {
    bool read;               /* values that it has not written itself */
    bool written, reread;    /* reread: values that it has written */
    dt_amount loads, stores; /* elements addressed, the same one as often as it is */
} use;

static void use_load(use *of, dt_amount elements) {
    if (of->written) {
        of->reread = true;
        return;
    }
    of->read = true;
    of->loads = add(of->loads, elements, 1);
}

/* In the order of execution: what a nest stores is there for the nests after it. */
static void use_nest(use *uses, const dt_nest *nest, const int *depths) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) use_load(&uses[nest->instructions[i].address.buffer], iterations_of(nest, depths[i]));
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        use *of = &uses[store->address.buffer];
        dt_amount elements = iterations_of(nest, nest->n_reductions > 0 ? n_outer_loops(nest) : nest->n_loops);
        if (store->accumulate) use_load(of, elements);
        of->written = true;
        of->stores = add(of->stores, elements, 1);
    }
}

static dt_amount elements_of(dt_shape shape) {
    return amount_of((double)dt_shape_elements_per_row(shape), dt_shape_count(shape, DT_BATCH) + dt_shape_count(shape, DT_GATHERED));
}

static bool is_shared(const dt_plan *plan, const dt_kernel_function *kernel, int buffer) {
    for (int k = 0; k < plan->n_kernels; k++)
        for (int b = 0; b < plan->kernels[k].n_buffers; b++)
            if (&plan->kernels[k] != kernel && dt_buffer_root(plan, plan->kernels[k].buffers[b]) == buffer) return true;
    return false;
}

/* Nothing of it comes from elsewhere or is meant for anyone else. */
static bool is_own_scratch(const dt_plan *plan, const dt_kernel_function *kernel, int b, const use *of) {
    const dt_buffer *buffer = &plan->buffers[kernel->buffers[b]];
    if (buffer->one_row) return true;
    return buffer->space == DT_MEMORY_SCRATCH && buffer->view == NULL && of->reread && !of->read && !is_shared(plan, kernel, kernel->buffers[b]);
}

static dt_amount bytes_of(const dt_plan *plan, const dt_kernel_function *kernel, const use *uses) {
    int64_t microbatch_rows = plan->microbatch_rows;
    dt_amount bytes = {0};
    for (int b = 0; b < kernel->n_buffers; b++) {
        const dt_buffer *buffer = &plan->buffers[kernel->buffers[b]];
        const use *of = &uses[b];
        if (is_own_scratch(plan, kernel, b, of)) continue;
        double element = (double)dt_dtype_bytes(buffer->dtype);
        dt_amount all = elements_of(buffer->shape);
        if (of->read) bytes = add(bytes, of_microbatch(of->loads, microbatch_rows) < of_microbatch(all, microbatch_rows) ? of->loads : all, element);
        if (of->written)
            bytes = add(bytes, of_microbatch(of->stores, microbatch_rows) < of_microbatch(all, microbatch_rows) ? of->stores : all, element);
    }
    return bytes;
}

dt_kernel_count dt_kernel_count_of(dt_arena *arena, const dt_plan *plan, const dt_kernel_function *kernel) {
    use *uses = DT_NEW_ARRAY(arena, use, kernel->n_buffers);
    dt_kernel_count count = {0};
    for (int n = 0; n < kernel->n_nests; n++) {
        const dt_nest *nest = &kernel->nests[n];
        int *depths = DT_NEW_ARRAY(arena, int, nest->n_instructions);
        for (int i = 0; i < nest->n_instructions; i++) depths[i] = depth_of(nest, i, depths);
        count.flops = add(count.flops, flops_of_nest(nest, depths), 1);
        use_nest(uses, nest, depths);
    }
    count.bytes = bytes_of(plan, kernel, uses);
    return count;
}
