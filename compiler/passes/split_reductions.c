/* split_reductions: a long reduction with few results is split: one nest computes partial results, each over a part of the loops, into memory of
 * their own, and a second one reduces these, in their order, and does what followed the reduction:
 *
 *     out[c] = f(sum over row, k of g[row, k, c])
 *     partial[p, c] = sum over row, k of part p of g[row, k, c];   out[c] = f(sum over p of partial[p, c])
 *
 * Of a product this is split-K. There are two reasons.
 *
 *  - Sums over replicated values, such as the norm of all gradients, are split on every target into blocks (abi/share.h). So their
 *    order does not depend on who holds which elements, as long as those are whole blocks: cores share out the blocks, and those who share out an
 *    update could.
 *
 *  - Targets that run thousands of threads at once: the gradient of a bias, of a convolution's weights, a loss would keep a few threads busy for
 *    long. How many parts there are depends on the sizes of the plan alone (dt_gpu_parts_wanted), so the order of every sum is fixed, and nothing
 *    is atomic. Sums that a library could compute are split too: its call then stands for both nests.
 *
 * Loops of a constant extent are split by a divisor. The rows of the batch are split by any number: what is beyond the valid ones is 0, each factor
 * of a product for itself, since 0 times infinity is not. Partial results lie in memory as the second nest reads them: where they are many for few
 * results, which a team of threads reduces together, those of a result lie side by side; otherwise all results of a part do. */
#include "abi/launch.h"
#include "abi/library.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/gpu_forms.h"
#include "compiler/kernel/nest.h"
#include "compiler/kernel/parallel.h"
#include "compiler/passes/passes.h"

enum {
    MOST_CUTS = 4,
    MOST_ELEMENTS = 1 << 24 /* of all partial results together */
};

/* From its iteration `first` on, loop `loop` is walked by an outer loop of `parts` iterations and, within it, by itself, with `iterations`. */
typedef struct cut {
    int loop;
    int64_t first, parts, iterations;
    bool guarded; /* the last part may go beyond what is valid */
} cut;

typedef struct splitting {
    dt_arena *arena;
    const dt_gpu_target *target; /* NULL: a CPU, for which only sums over replicated values are split */
    dt_plan *plan;
    dt_kernel_function *kernel;
    const dt_nest *nest;
    uint64_t *depends;
    int n_outer, n_cuts;
    cut cuts[MOST_CUTS];
    int64_t first_part, n_parts, n_results; /* first_part: of the nest at hand, of all that there are */
    bool by_result;                         /* the partial results of one result lie side by side */
    int64_t *strides;                       /* [n_outer] of the results, row-major */
    int *buffers;                           /* [n_reductions] of the plan: the partial results of each */
} splitting;

/* ---- whether and where ---- */

static bool is_zero(const dt_nest *nest, int i) {
    const dt_instruction *x = &nest->instructions[i];
    return x->kind == DT_INSTRUCTION_CONSTANT && x->number == 0 && x->integer == 0;
}

/* Whether a factor becomes 0 where what it reads counts as 0. */
static bool is_zero_by_itself(const splitting *s, int factor, int loop) {
    dt_precision precision;
    const dt_instruction *x = &s->nest->instructions[dt_factor_unrounded(s->nest, factor, &precision)];
    while (x->kind == DT_INSTRUCTION_CONVERT) x = &s->nest->instructions[x->operands[0]];
    return x->kind == DT_INSTRUCTION_LOAD && (s->depends[x - s->nest->instructions] >> loop & 1) && (x->guard < 0 || is_zero(s->nest, x->otherwise));
}

/* Whether all reductions can leave out the loop's invalid iterations. */
static bool can_be_guarded(const splitting *s) {
    for (int r = 0; r < s->nest->n_reductions; r++)
        if (s->nest->reductions[r].combiner != DT_COMBINE_SUM) return false;
    return true;
}

/* Marks factors that are not 0 by themselves in an invalid iteration of the loop, before they are rounded. marks[n_instructions] */
static void mark_factors(const splitting *s, int loop, bool *marks) {
    for (int r = 0; r < s->nest->n_reductions; r++) {
        const dt_reduction *reduction = &s->nest->reductions[r];
        if (!dt_reduction_is_product(s->nest, reduction)) continue;
        const int *factors = s->nest->instructions[reduction->operand].operands;
        dt_precision precision;
        for (int k = 0; k < 2; k++)
            if (!is_zero_by_itself(s, factors[k], loop)) marks[dt_factor_unrounded(s->nest, factors[k], &precision)] = true;
    }
}

static int64_t greatest_divisor_to(int64_t x, int64_t most) {
    int64_t divisor = x < most ? x : most;
    while (x % divisor != 0) divisor--;
    return divisor;
}

/* Splits the loop into at most `most` parts; false: that cannot be done. */
static bool cut_loop(splitting *s, int loop, int64_t most) {
    int64_t extent = s->nest->loops[loop].extent;
    cut c = {.loop = loop, .guarded = extent == DT_BATCH};
    if (s->n_cuts == MOST_CUTS || (c.guarded && !can_be_guarded(s))) return false;
    if (c.guarded) {
        c.iterations = (s->plan->microbatch_rows + most - 1) / most;
        c.parts = (s->plan->microbatch_rows + c.iterations - 1) / c.iterations;
    } else {
        c.parts = greatest_divisor_to(extent, most);
        c.iterations = extent / c.parts;
    }
    if (c.parts < 2) return false;
    s->cuts[s->n_cuts++] = c;
    s->n_parts *= c.parts;
    return true;
}

static bool can_split(const dt_nest *nest) {
    if (nest->n_reductions == 0 || nest->n_stores == 0 || nest->in_rows) return false;
    for (int r = 0; r < nest->n_reductions; r++)
        if (dt_combiner_is_position(nest->reductions[r].combiner)) return false;
    if (dt_nest_has_check(nest)) return false; /* counted once */
    for (int l = 0; l < nest->n_loops; l++)
        if (nest->loops[l].extent == DT_GATHERED) return false;
    return true;
}

/* Notes which loops are outer ones, and the strides of the results. */
static void measure(splitting *s) {
    s->n_outer = dt_nest_n_outer(s->nest);
    s->n_parts = s->n_results = 1;
    s->strides = DT_NEW_ARRAY(s->arena, int64_t, s->n_outer);
    for (int l = s->n_outer - 1; l >= 0; l--) {
        s->strides[l] = s->n_results;
        s->n_results *= dt_trip_count(s->plan, s->nest->loops[l].extent);
    }
}

/* Cuts for many threads; false: the nest stays as it is. Constant loops come first: they need no guard. */
static bool find_cuts(splitting *s) {
    const dt_nest *nest = s->nest;
    int64_t wanted = dt_gpu_parts_wanted(&(dt_gpu_scope){s->target, s->plan, s->kernel}, nest);
    if (s->n_results < 1) return false;
    if (wanted > MOST_ELEMENTS / s->n_results) wanted = MOST_ELEMENTS / s->n_results;
    for (int rows = 0; rows < 2; rows++)
        for (int l = s->n_outer; l < nest->n_loops; l++)
            if ((nest->loops[l].extent == DT_BATCH) == (rows == 1) && nest->loops[l].extent != 0 && wanted / s->n_parts >= 2)
                cut_loop(s, l, wanted / s->n_parts);
    s->by_result = dt_gpu_parts_are_for_a_team(s->target, s->n_results, s->n_parts);
    return s->n_parts > 1;
}

/* Splits a sum over all elements of replicated values into blocks; false: it is another sum, or one block. What does not fill a block is left to a
 * cut of its own. */
static bool find_blocks(splitting *s) {
    const dt_nest *nest = s->nest;
    if (!s->kernel->once || nest->library != NULL || nest->algorithm != DT_ALGORITHM_LOOPS) return false;
    if (s->n_results != 1 || s->n_outer + 1 != nest->n_loops) return false;
    int64_t elements = nest->loops[s->n_outer].extent;
    if (dt_dim_is_symbol(elements) || elements <= DT_SHARE_MOST_BLOCK) return false;
    int64_t block = dt_share_block(elements);
    s->cuts[s->n_cuts++] = (cut){.loop = s->n_outer, .parts = elements / block, .iterations = block};
    s->n_parts = (elements + block - 1) / block;
    return true;
}

/* The cut of what does not fill a block; false: there is nothing. */
static bool find_rest(const splitting *s, splitting *rest) {
    const cut *whole = &s->cuts[0];
    int64_t first = whole->parts * whole->iterations, extent = s->nest->loops[whole->loop].extent;
    *rest = *s;
    rest->first_part = whole->parts;
    rest->cuts[0] = (cut){.loop = whole->loop, .first = first, .parts = 1, .iterations = extent - first};
    return !whole->guarded && first < extent;
}

/* From one part, or result, to the next in the memory of partial results. */
static int64_t part_stride(const splitting *s) { return s->by_result ? 1 : s->n_results; }
static int64_t result_stride(const splitting *s) { return s->by_result ? s->n_parts : 1; }

/* ---- the nest of partial results ---- */

/* An address in a new nest, in which instructions have other names, and the first n_loops loops stand behind `shift` others. */
static dt_affine renamed_address(const splitting *s, const dt_address *address, const int *names, int n_loops, int shift) {
    dt_affine x = {.coefficients = DT_NEW_ARRAY(s->arena, int64_t, s->nest->n_loops + s->n_cuts),
                   .offset = address->offset,
                   .n_terms = address->n_terms,
                   .terms = DT_NEW_ARRAY(s->arena, int, address->n_terms),
                   .term_coefficients = address->term_coefficients};
    for (int l = 0; l < n_loops; l++) x.coefficients[shift + l] = address->coefficients[l];
    for (int t = 0; t < x.n_terms; t++) x.terms[t] = names[address->terms[t]];
    return x;
}

static dt_affine moved(const splitting *s, const dt_address *address, const int *names) {
    dt_affine x = renamed_address(s, address, names, s->nest->n_loops, s->n_cuts);
    for (int c = 0; c < s->n_cuts; c++) {
        x.coefficients[c] = s->cuts[c].iterations * address->coefficients[s->cuts[c].loop];
        x.offset += s->cuts[c].first * address->coefficients[s->cuts[c].loop];
    }
    return x;
}

/* The original loop's iteration, in the nest of partial results. */
static int loop_value(const splitting *s, dt_nest_builder *b, int loop) {
    dt_affine x = dt_affine_loop(s->arena, b->n_loops, s->n_cuts + loop);
    for (int c = 0; c < s->n_cuts; c++) {
        if (s->cuts[c].loop != loop) continue;
        x.coefficients[c] = s->cuts[c].iterations;
        x.offset += s->cuts[c].first;
    }
    return dt_nest_affine(b, &x);
}

/* Whether the iteration at hand is valid; -1: all are. *loop: the guarded one. */
static int valid_iteration(const splitting *s, dt_nest_builder *b, int *loop) {
    for (int c = 0; c < s->n_cuts; c++) {
        if (!s->cuts[c].guarded) continue;
        *loop = s->cuts[c].loop;
        int rows =
            dt_nest_add(b, (dt_instruction){.kind = DT_INSTRUCTION_LAUNCH, .dtype = DT_I64, .index = DT_LAUNCH_rows, .guard = -1, .otherwise = -1});
        return dt_nest_binary(b, DT_SCALAR_LESS, DT_BOOL, loop_value(s, b, *loop), rows);
    }
    return -1;
}

/* Adds instruction i with its operands renamed: its name, or -1 when it uses one that has none. */
static int renamed(dt_nest_builder *b, const dt_instruction *x, const int *names) {
    dt_instruction copy = *x;
    for (int k = 0; k < copy.n_operands; k++) {
        copy.operands[k] = names[x->operands[k]];
        if (copy.operands[k] < 0) return -1;
    }
    return dt_nest_add(b, copy);
}

static int moved_load(const splitting *s, dt_nest_builder *b, int i, const int *names, int valid, int guarded_loop) {
    const dt_instruction *x = &s->nest->instructions[i];
    dt_affine index = moved(s, &x->address, names);
    int guard = x->guard < 0 ? -1 : names[x->guard], otherwise = x->otherwise < 0 ? -1 : names[x->otherwise];
    if (valid >= 0 && (s->depends[i] >> guarded_loop & 1)) {
        guard = dt_nest_and(b, guard, valid);
        if (otherwise < 0) otherwise = dt_nest_constant(b, x->dtype, 0);
    }
    return dt_nest_load(b, s->kernel->buffers[x->address.buffer], &index, guard, otherwise);
}

static int zero_unless(dt_nest_builder *b, int valid, int value, dt_dtype dtype) {
    return dt_nest_scalar(b, DT_SCALAR_SELECT, dtype, 3, (int[]){valid, value, dt_nest_constant(b, dtype, 0)});
}

/* Instructions that do not depend on the result of a reduction. */
static void move_instructions(const splitting *s, dt_nest_builder *b, int *names, int valid, int guarded_loop) {
    bool *factors = DT_NEW_ARRAY(s->arena, bool, s->nest->n_instructions);
    if (valid >= 0) mark_factors(s, guarded_loop, factors);
    for (int i = 0; i < s->nest->n_instructions; i++) {
        const dt_instruction *x = &s->nest->instructions[i];
        bool usable = x->kind != DT_INSTRUCTION_REDUCED;
        for (int k = 0; k < dt_instruction_n_uses(x) && usable; k++) usable = names[dt_instruction_use(x, k)] >= 0;
        names[i] = !usable                          ? -1
                   : x->kind == DT_INSTRUCTION_LOOP ? loop_value(s, b, x->index)
                   : x->kind == DT_INSTRUCTION_LOAD ? moved_load(s, b, i, names, valid, guarded_loop)
                                                    : renamed(b, x, names);
        if (factors[i]) names[i] = zero_unless(b, valid, names[i], x->dtype);
    }
}

static int reduced_value(dt_nest_builder *b, int reduction, dt_dtype dtype) {
    return dt_nest_add(b, (dt_instruction){.kind = DT_INSTRUCTION_REDUCED, .dtype = dtype, .index = reduction, .guard = -1, .otherwise = -1});
}

static dt_nest nest_of_partials(const splitting *s) {
    const dt_nest *nest = s->nest;
    dt_nest_builder b = {.arena = s->arena, .plan = s->plan, .kernel = s->kernel, .n_loops = nest->n_loops + s->n_cuts};
    int *names = DT_NEW_ARRAY(s->arena, int, nest->n_instructions), guarded_loop = -1;
    b.loops = DT_NEW_ARRAY(s->arena, dt_loop, b.n_loops);
    for (int l = 0; l < nest->n_loops; l++) b.loops[s->n_cuts + l] = nest->loops[l];
    for (int c = 0; c < s->n_cuts; c++) {
        b.loops[c] = (dt_loop){s->cuts[c].parts, false};
        b.loops[s->n_cuts + s->cuts[c].loop].extent = s->cuts[c].iterations;
    }
    int valid = valid_iteration(s, &b, &guarded_loop);
    move_instructions(s, &b, names, valid, guarded_loop);
    dt_affine element = dt_affine_constant(s->arena, b.n_loops, s->first_part * part_stride(s));
    int64_t stride = part_stride(s);
    for (int l = 0; l < s->n_outer; l++) element.coefficients[s->n_cuts + l] = result_stride(s) * s->strides[l];
    for (int c = s->n_cuts - 1; c >= 0; c--) {
        element.coefficients[c] = stride;
        stride *= s->cuts[c].parts;
    }
    for (int r = 0; r < nest->n_reductions; r++) {
        const dt_reduction *reduction = &nest->reductions[r];
        int operand = names[reduction->operand];
        dt_dtype dtype = nest->instructions[reduction->operand].dtype;
        if (valid >= 0 && !dt_reduction_is_product(nest, reduction)) operand = zero_unless(&b, valid, operand, dtype);
        int value = reduced_value(&b, dt_nest_reduce(&b, reduction->combiner, operand, reduction->dtype), reduction->dtype);
        dt_nest_store(&b, s->buffers[r], &element, value, false, -1);
    }
    return dt_nest_finish(&b);
}

/* ---- the nest that reduces them ---- */

static dt_nest nest_of_whole(const splitting *s) {
    const dt_nest *nest = s->nest;
    dt_nest_builder b = {.arena = s->arena, .plan = s->plan, .kernel = s->kernel, .n_loops = s->n_outer + 1};
    int *names = DT_NEW_ARRAY(s->arena, int, nest->n_instructions), *sums = DT_NEW_ARRAY(s->arena, int, nest->n_reductions);
    dt_affine element = dt_affine_constant(s->arena, b.n_loops, 0);
    b.loops = DT_NEW_ARRAY(s->arena, dt_loop, b.n_loops);
    for (int l = 0; l < s->n_outer; l++) {
        b.loops[l] = nest->loops[l];
        element.coefficients[l] = result_stride(s) * s->strides[l];
    }
    b.loops[s->n_outer] = (dt_loop){s->n_parts, true};
    element.coefficients[s->n_outer] = part_stride(s);
    for (int r = 0; r < nest->n_reductions; r++) {
        int partial = dt_nest_load(&b, s->buffers[r], &element, -1, -1);
        sums[r] = reduced_value(&b, dt_nest_reduce(&b, nest->reductions[r].combiner, partial, nest->reductions[r].dtype), nest->reductions[r].dtype);
    }
    uint64_t reduced = ~(uint64_t)0 << s->n_outer;
    for (int i = 0; i < nest->n_instructions; i++) {
        const dt_instruction *x = &nest->instructions[i];
        bool usable = (s->depends[i] & reduced) == 0;
        for (int k = 0; k < dt_instruction_n_uses(x) && usable; k++) usable = names[dt_instruction_use(x, k)] >= 0;
        names[i] = -1;
        if (!usable) continue;
        if (x->kind == DT_INSTRUCTION_REDUCED) {
            names[i] = sums[x->index];
        } else if (x->kind == DT_INSTRUCTION_LOAD) {
            dt_affine index = renamed_address(s, &x->address, names, s->n_outer, 0);
            names[i] = dt_nest_load(&b, s->kernel->buffers[x->address.buffer], &index, x->guard < 0 ? -1 : names[x->guard],
                                    x->otherwise < 0 ? -1 : names[x->otherwise]);
        } else {
            names[i] = renamed(&b, x, names);
        }
    }
    for (int t = 0; t < nest->n_stores; t++) {
        const dt_store *store = &nest->stores[t];
        dt_affine index = renamed_address(s, &store->address, names, s->n_outer, 0);
        dt_nest_store(&b, s->kernel->buffers[store->address.buffer], &index, names[store->operand], store->accumulate,
                      store->guard < 0 ? -1 : names[store->guard]);
    }
    return dt_nest_finish(&b);
}

/* ---- both ---- */

static void add_buffers(splitting *s) {
    const dt_kernel_function *kernel = s->kernel;
    dt_memory_space space = kernel->once ? DT_MEMORY_DEVICE : DT_MEMORY_SCRATCH;
    const char *name = s->plan->buffers[kernel->buffers[s->nest->stores[0].address.buffer]].name;
    s->buffers = DT_NEW_ARRAY(s->arena, int, s->nest->n_reductions);
    for (int r = 0; r < s->nest->n_reductions; r++) {
        int64_t *dims = DT_NEW_ARRAY(s->arena, int64_t, 2);
        dims[s->by_result] = s->n_parts, dims[!s->by_result] = s->n_results;
        dt_buffer buffer = {.space = space, .dtype = s->nest->reductions[r].dtype, .shape = {2, dims}, .variable = -1, .input = -1};
        buffer.name = dt_arena_format(s->arena, "%s/partial", name != NULL ? name : "sum");
        s->buffers[r] = dt_plan_add_buffer(s->arena, s->plan, buffer);
    }
}

/* The call of a library for both nests in place of one; NULL: there is none. */
static const dt_library_call *call_for_both(dt_arena *arena, const dt_library_call *call) {
    if (call == NULL) return NULL;
    dt_library_call *both = DT_NEW(arena, dt_library_call);
    *both = *call;
    both->n_launches = 2;
    return both;
}

static void replace(dt_nest nest, const dt_nest *of, const dt_library_call *library, const char *note, dt_nest *target) {
    nest.locations = of->locations;
    nest.n_locations = of->n_locations;
    nest.library = library;
    nest.beside_library = of->beside_library;
    nest.note = note;
    *target = nest;
}

/* The loop of a new nest that is vectorised where the whole sum had such a one, for targets that do that; -1: none. */
static int vector_loop(const splitting *s, int loop) { return s->nest->vector_loop >= 0 ? loop : -1; }

/* Splits nest n if it is worth it; returns how many nests there are in its place. */
static int split(dt_arena *arena, const dt_gpu_target *target, dt_plan *plan, dt_kernel_function *kernel, int n) {
    dt_nest nest = kernel->nests[n], next;
    splitting s = {.arena = arena,
                   .target = target,
                   .plan = plan,
                   .kernel = kernel,
                   .nest = &nest,
                   .depends = DT_NEW_ARRAY(arena, uint64_t, nest.n_instructions)},
              rest;
    if (!can_split(&nest)) return 1;
    dt_nest_depends(&nest, s.depends);
    measure(&s);
    bool in_blocks = find_blocks(&s);
    if (!in_blocks && !(target != NULL && find_cuts(&s))) return 1;
    add_buffers(&s);
    const dt_library_call *library = call_for_both(arena, nest.library);
    replace(nest_of_partials(&s), &nest, library, "partial sums", &kernel->nests[n]);
    kernel->nests[n].vector_loop = vector_loop(&s, s.n_cuts + nest.vector_loop);
    int last = n;
    if (in_blocks && find_rest(&s, &rest)) {
        replace(nest_of_partials(&rest), &nest, library, "partial sums", &next);
        next.vector_loop = vector_loop(&s, s.n_cuts + nest.vector_loop);
        dt_kernel_insert_nest(arena, kernel, ++last, next);
    }
    replace(nest_of_whole(&s), &nest, library, "their sum", &next);
    next.vector_loop = vector_loop(&s, s.n_outer);
    dt_kernel_insert_nest(arena, kernel, ++last, next);
    return last - n + 1;
}

dt_status *dt_pass_split_reductions(dt_compilation *compilation) {
    const dt_gpu_target *target = dt_gpu_target_of(compilation->target);
    for (int p = 0; p < compilation->n_plans; p++) {
        dt_plan *plan = compilation->plans[p];
        for (int k = 0; k < plan->n_kernels; k++)
            for (int n = 0; n < plan->kernels[k].n_nests;) n += split(compilation->arena, target, plan, &plan->kernels[k], n);
    }
    return NULL;
}
