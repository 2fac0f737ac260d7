/* print: plans as text, for people and for golden files.
 *
 *   plan train  device 426,240  replica 12,288  scratch 86,016 bytes
 *   segment 0
 *     kernel train_3_conv2d   # fashion_cnn.dt:14
 *       nest l0 < B, l1 < 26, l2 < 26, l3 < 64, sum l4 < 3   rows, vector l3
 *         s0 = load image[784 l0 + 28 l1 + l2 + l4]
 *         s1 = f32 from s0
 *         reduction 0 = f32 sum s1
 *         store %12[43264 l0 + l3] = s2
 *     all_reduce sum %12 -> %13   Cnn/conv2d/kernel */
#include "abi/launch.h"
#include "compiler/kernel/choices.h"
#include "compiler/kernel/view.h"

#include <inttypes.h>

static const char *scalar_text(dt_scalar_op scalar) {
    static const char *const texts[] = {
#define X(enumerator, text, operands, result) text,
        DT_SCALARS(X)
#undef X
    };
    return texts[scalar];
}

static const char *launch_field(int index) {
    static const char *const names[] = {
#define X(name, type, dtype, meaning) #name,
        DT_LAUNCH_FIELDS(X)
#undef X
    };
    return names[index];
}

static void print_sum(dt_text *text, bool *first, int64_t coefficient, const char *letter, int index) {
    if (coefficient == 0) return;
    if (!*first)
        dt_text_append(text, coefficient < 0 ? " - " : " + ");
    else if (coefficient < 0)
        dt_text_append(text, "-");
    uint64_t size = coefficient < 0 ? 0 - (uint64_t)coefficient : (uint64_t)coefficient;
    if (letter == NULL)
        dt_text_format(text, "%" PRIu64, size);
    else if (size == 1)
        dt_text_format(text, "%s%d", letter, index);
    else
        dt_text_format(text, "%" PRIu64 " %s%d", size, letter, index);
    *first = false;
}

static void print_address(dt_text *text, const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, const dt_address *address) {
    bool first = true;
    dt_text_format(text, "%s[", plan->buffers[kernel->buffers[address->buffer]].name);
    for (int l = 0; l < nest->n_loops; l++) print_sum(text, &first, address->coefficients[l], "l", l);
    for (int i = 0; i < address->n_terms; i++) print_sum(text, &first, address->term_coefficients[i], "s", address->terms[i]);
    print_sum(text, &first, address->offset, NULL, 0);
    dt_text_append(text, first ? "0]" : "]");
}

static void print_number(dt_text *text, const dt_instruction *constant) {
    char buffer[32];
    if (!dt_dtype_is_float(constant->dtype))
        dt_text_format(text, "%" PRId64, constant->integer);
    else if (constant->dtype == DT_F64)
        dt_text_append(text, dt_text_from_f64(constant->number, buffer));
    else
        dt_text_append(text, dt_text_from_f32((float)constant->number, buffer));
}

static void print_instruction(dt_text *text, const dt_plan *plan, const dt_kernel_function *kernel, const dt_nest *nest, int i) {
    const dt_instruction *instruction = &nest->instructions[i];
    dt_text_format(text, "      s%d = %s ", i, dt_dtype_name(instruction->dtype));
    switch (instruction->kind) {
    case DT_INSTRUCTION_CONSTANT: print_number(text, instruction); break;
    case DT_INSTRUCTION_LOOP: dt_text_format(text, "l%d", instruction->index); break;
    case DT_INSTRUCTION_LAUNCH: dt_text_format(text, "launch %s", launch_field(instruction->index)); break;
    case DT_INSTRUCTION_LOAD:
        dt_text_append(text, "load ");
        print_address(text, plan, kernel, nest, &instruction->address);
        if (instruction->guard >= 0) dt_text_format(text, " if s%d else s%d", instruction->guard, instruction->otherwise);
        break;
    case DT_INSTRUCTION_SCALAR: dt_text_append(text, scalar_text(instruction->scalar)); break;
    case DT_INSTRUCTION_CONVERT: dt_text_append(text, "from"); break;
    case DT_INSTRUCTION_BITS: dt_text_append(text, "bits"); break;
    case DT_INSTRUCTION_REDUCED: dt_text_format(text, "reduction %d", instruction->index); break;
    case DT_INSTRUCTION_CHECK:
        dt_text_format(text, "check%s location %d below %" PRId64, instruction->before ? " again" : "", instruction->index, instruction->integer);
        break;
    }
    for (int k = 0; k < instruction->n_operands; k++) dt_text_format(text, "%ss%d", k ? ", " : " ", instruction->operands[k]);
    dt_text_append(text, "\n");
}

static void print_loops(dt_text *text, const dt_nest *nest) {
    for (int l = 0; l < nest->n_loops; l++) {
        const dt_loop *loop = &nest->loops[l];
        dt_text_append(text, l ? ", " : " ");
        if (loop->reduced && (l == 0 || !nest->loops[l - 1].reduced)) dt_text_append(text, "over ");
        dt_text_format(text, "l%d < ", l);
        if (loop->extent == DT_BATCH)
            dt_text_append(text, "B");
        else if (loop->extent == DT_GATHERED)
            dt_text_append(text, "B*V");
        else
            dt_text_format(text, "%" PRId64, loop->extent);
    }
}

const char *dt_algorithm_name(dt_algorithm algorithm) {
    static const char *const names[] = {
#define X(enumerator, name) name,
        DT_ALGORITHMS(X)
#undef X
    };
    return names[algorithm];
}

/* "  6 x 2 by 4", with the iterations that are one; "1 x 2 in 4 chains": partial sums of each element. */
static void print_tiles(dt_text *text, const dt_nest_choices *choices) {
    for (int t = 0; t < choices->n_tiles; t++) {
        const dt_tile *tile = &choices->tiles[t];
        dt_text_format(text, "%s %d x %d", t > 0 ? "," : "  tiles", tile->rows, tile->vectors);
        if (tile->chains > 1) dt_text_format(text, " in %d chains", tile->chains);
        if (tile->unroll > 1) dt_text_format(text, " by %d", tile->unroll);
        if (tile->in_memory) dt_text_append(text, " in memory");
    }
}

static void print_packing(dt_text *text, const dt_nest_choices *choices) {
    if (choices->packed_loop < 0) return;
    dt_text_append(text, "  packed");
    if (choices->packed_around >= 0) dt_text_format(text, " l%d,", choices->packed_around);
    dt_text_format(text, " l%d by %" PRId64, choices->packed_loop, choices->depth);
    if (choices->packed_rows > 0) dt_text_format(text, ", %" PRId64 " rows", choices->packed_rows);
    if (choices->prefetches_rows) dt_text_append(text, " prefetched");
}

/* The order of the loops where it is not that of the line, then each choice that was made. */
static void print_choices(dt_text *text, const dt_nest *nest, const dt_nest_choices *choices) {
    bool in_order = true, first = true;
    for (int p = 0; p < nest->n_loops; p++) in_order &= choices->order[p] == p;
    for (int p = 0; p < nest->n_loops && !in_order; p++) dt_text_format(text, "%s l%d", p > 0 ? "" : "  order", choices->order[p]);
    if (choices->vector_loop >= 0) dt_text_format(text, "  vector l%d x %d", choices->vector_loop, choices->width);
    for (int l = 0; l < nest->n_loops; l++)
        if (choices->jammed[l] > 0) dt_text_format(text, "  jammed l%d by %d", l, choices->jammed[l]);
    for (int l = 0; l < nest->n_loops; l++) {
        if (!choices->unrolled[l]) continue;
        dt_text_format(text, "%s l%d", first ? "  unrolled" : "", l);
        first = false;
    }
    print_tiles(text, choices);
    print_packing(text, choices);
}

static void print_nest(dt_text *text, const dt_plan *plan, const dt_kernel_function *kernel, int n, const dt_nest_choices *choices) {
    const dt_nest *nest = &kernel->nests[n];
    dt_text_append(text, nest->in_blocks ? "    block nest" : nest->in_rows ? "    row nest" : "    nest");
    if (nest->note) dt_text_format(text, " %s", nest->note);
    print_loops(text, nest);
    bool is_loops = nest->algorithm == DT_ALGORITHM_LOOPS;
    if (!is_loops) dt_text_format(text, "  %s ", dt_algorithm_name(nest->algorithm));
    if (!is_loops && nest->tiling.row_loop >= 0)
        dt_text_format(text, "l%d x l%d of s%d, s%d", nest->tiling.row_loop, nest->tiling.vector_loop, nest->tiling.a, nest->tiling.b);
    else if (!is_loops)
        dt_text_format(text, "l%d of s%d, s%d", nest->tiling.vector_loop, nest->tiling.a, nest->tiling.b);
    else if (choices == NULL && nest->vector_loop >= 0)
        dt_text_format(text, "  vector l%d", nest->vector_loop);
    if (nest->part_iterations > 0) dt_text_format(text, "  parts of %" PRId64 " l0", nest->part_iterations);
    if (nest->share.n_units > 0)
        dt_text_format(text, "  units of %" PRId64 " l0, from %" PRId64 " of %" PRId64, nest->share.unit_iterations, nest->share.first_unit,
                       nest->share.n_units);
    if (choices != NULL) print_choices(text, nest, choices);
    dt_text_append(text, "\n");
    for (int i = 0; i < nest->n_instructions; i++) print_instruction(text, plan, kernel, nest, i);
    for (int r = 0; r < nest->n_reductions; r++)
        dt_text_format(text, "      reduction %d = %s %s s%d\n", r, dt_dtype_name(nest->reductions[r].dtype),
                       dt_combiner_name(nest->reductions[r].combiner), nest->reductions[r].operand);
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        dt_text_append(text, "      store ");
        print_address(text, plan, kernel, nest, &store->address);
        dt_text_format(text, " %s s%d", store->accumulate ? "+=" : "=", store->operand);
        if (store->guard >= 0) dt_text_format(text, " if s%d", store->guard);
        if (choices != NULL && choices->stores[s] != DT_STORE_ORDINARY)
            dt_text_append(text, choices->stores[s] == DT_STORE_STREAMING ? "  streaming" : "  prefetched");
        dt_text_append(text, "\n");
    }
}

void dt_kernel_lines(dt_text *text, const dt_plan *plan, const dt_kernel_function *kernel) {
    const dt_module *module = plan->function->module;
    int file = -1, line = 0;
    for (;;) { /* the next in order of (file, line), until there is none */
        int next_file = -1, next_line = 0;
        for (int n = 0; n < kernel->n_nests; n++)
            for (int i = 0; i < kernel->nests[n].n_locations; i++) {
                dt_location at = kernel->nests[n].locations[i];
                if (at.file < 0 || (size_t)at.file >= module->files.n) continue;
                bool after = at.file > file || (at.file == file && at.line > line);
                bool before = next_file < 0 || at.file < next_file || (at.file == next_file && at.line < next_line);
                if (after && before) next_file = at.file, next_line = at.line;
            }
        if (next_file < 0) return;
        if (next_file != file)
            dt_text_format(text, "%s%s:%d", file < 0 ? "" : ", ", module->files.items[next_file], next_line);
        else
            dt_text_format(text, ", %d", next_line);
        file = next_file;
        line = next_line;
    }
}

static void print_kernel(dt_text *text, const dt_plan *plan, const dt_kernel_function *kernel, const dt_choices *choices) {
    const dt_nest_choices *of_nests = choices != NULL ? dt_choices_of(choices, plan, kernel) : NULL;
    dt_text_format(text, "  kernel %s", kernel->name);
    if (kernel->once) dt_text_append(text, "  once");
    if (kernel->divided) dt_text_append(text, ", divided");
    if (kernel->update) dt_text_append(text, "  update");
    if (kernel->once && kernel->for_examples) dt_text_append(text, "  for examples");
    if (kernel->loop != NULL) dt_text_format(text, "  in loop %d", kernel->loop->number);
    dt_text lines = {0};
    dt_kernel_lines(&lines, plan, kernel);
    if (lines.n > 0) dt_text_format(text, "   # %s", lines.data);
    dt_text_free(&lines);
    dt_text_append(text, "\n");
    for (int n = 0; n < kernel->n_nests; n++) print_nest(text, plan, kernel, n, of_nests != NULL ? &of_nests[n] : NULL);
    for (int g = 0; g < kernel->n_gathers; g++)
        dt_text_format(text, "    gathers %s where shared out\n", plan->buffers[kernel->gathers[g].buffer].name);
}

/* "at 27 - t of axis 1 of %0, loop 0": in iteration t it is that part; "at 1 to 28 of …": it is all of these. */
static void print_view(dt_text *text, const dt_plan *plan, const dt_view *view) {
    dt_text_append(text, " at ");
    if (view->length > 0) dt_text_format(text, "%" PRId64 " to %" PRId64, view->first, view->first + view->length - 1);
    if (view->length == 0 && (view->first != 0 || view->step <= 0)) dt_text_format(text, "%" PRId64 "%s", view->first, view->step > 0 ? " + " : "");
    if (view->step != 0) dt_text_append(text, view->step > 0 ? "t" : " - t");
    if (view->wrap != 0) dt_text_format(text, " modulo %" PRId64, view->wrap);
    dt_text_format(text, " of axis %d of %s", view->axis, plan->buffers[view->of].name);
    if (view->loop != NULL) dt_text_format(text, ", loop %d", view->loop->number);
    dt_text_append(text, "\n");
}

static void print_buffers(dt_text *text, const dt_plan *plan) {
    char commas[32];
    for (int b = 0; b < plan->n_buffers; b++) {
        const dt_buffer *buffer = &plan->buffers[b];
        if (buffer->bytes == 0) continue;
        dt_text_format(text, "  buffer %s: ", buffer->name);
        dt_shape_print(text, buffer->dtype, buffer->shape);
        if (buffer->view != NULL) {
            print_view(text, plan, buffer->view);
            continue;
        }
        dt_text_format(text, " %s at %s", dt_memory_space_names()[buffer->space], dt_text_with_commas(buffer->offset, commas));
        dt_text_format(text, ", %s bytes", dt_text_with_commas(buffer->bytes, commas));
        if (buffer->precision != DT_PRECISION_F32) dt_text_format(text, ", rounded to %s", dt_precision_name(buffer->precision));
        dt_text_append(text, "\n");
    }
}

static void print_bytes(dt_text *text, const dt_space_bytes *bytes) {
    char device[32], replica[32], partial[32], scratch[32];
    dt_text_format(text, "  device %s  replica %s  partial %s  scratch %s bytes\n", dt_text_with_commas(bytes->device, device),
                   dt_text_with_commas(bytes->replica, replica), dt_text_with_commas(bytes->partial, partial),
                   dt_text_with_commas(bytes->scratch, scratch));
}

void dt_plan_print(dt_text *text, const dt_plan *plan, const dt_choices *choices) {
    const dt_space_bytes *gathered = &plan->gathered;
    dt_text_format(text, "plan %s", plan->function->name);
    if (choices != NULL) dt_text_format(text, "  for %s", choices->target->level);
    print_bytes(text, &plan->bytes);
    if (gathered->device + gathered->replica + gathered->partial + gathered->scratch > 0) {
        dt_text_append(text, "  and for each microbatch of all replicas");
        print_bytes(text, gathered);
    }
    print_buffers(text, plan);
    for (int l = 0; l < plan->n_loops; l++) {
        dt_text_format(text, "loop %d: %" PRId64 " times", l, plan->loops[l]->trips);
        if (plan->loops[l]->around != NULL) dt_text_format(text, " in each iteration of loop %d", plan->loops[l]->around->number);
        dt_text_append(text, "\n");
    }
    for (int s = 0; s < plan->n_segments; s++) {
        const dt_segment *segment = &plan->segments[s];
        dt_text_format(text, "segment %d\n", s);
        for (int k = 0; k < segment->n_device_kernels; k++) print_kernel(text, plan, &plan->kernels[segment->device_kernels[k]], choices);
        for (int k = 0; k < segment->n_replica_kernels; k++) print_kernel(text, plan, &plan->kernels[segment->replica_kernels[k]], choices);
        for (int c = 0; c < segment->n_collectives; c++) {
            const dt_collective *collective = &segment->collectives[c];
            dt_text_format(text, "  %s %s %s -> %s   %s\n", dt_collective_names()[collective->kind], dt_combiner_name(collective->combiner),
                           plan->buffers[collective->source].name, plan->buffers[collective->target].name, collective->label);
        }
    }
    for (size_t r = 0; r < plan->function->results.n; r++)
        dt_text_format(text, "result %s = %s\n", plan->function->results.items[r].name, plan->buffers[plan->results[r]].name);
}
