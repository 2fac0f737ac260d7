/* print: plans as text, for people, for golden files, and for kernel/parse.c, which reads all of it back.
 *
 *   plan train: step  for x86-64-v3  64 of 256 rows, inputs 2  device 426,240  replica 12,288  partial 0  scratch 86,016 bytes
 *     file 0 "fashion_cnn.dt"
 *     buffer image: u8[B, 28, 28] input 0 at 0, 12,544 bytes
 *   segment 0
 *     kernel train_3_conv2d(image, %11, %12)   # fashion_cnn.dt:14
 *       row nest l0 < B, l1 < 26, l2 < 26, l3 < 64, over l4 < 3  vector l3 x 8 @0:14:9
 *         s0 = u8 load image[784 l0 + 28 l1 + l2 + l4]
 *         s1 = f32 from s0
 *         reduction 0 = f32 sum s1
 *         s2 = f32 reduction 0
 *         store %12[43264 l0 + l3] = s2
 *     all_reduce sum %12 -> %13  for Cnn/conv2d/kernel of %40
 *   result loss: f32 = %13
 *
 * A microbatch has 64 of the 256 rows that a replica has at most. Buffers that nothing names are left out; what bears a name that others have had
 * before gets a number behind it. What stands at @ is the program's file, line and column. */
#include "base/names.h"
#include "compiler/kernel/choices.h"
#include "compiler/kernel/view.h"
#include "ir/reader.h"

#include <inttypes.h>

typedef struct printer {
    dt_arena *arena; /* for names */
    dt_text *text;
    const dt_plan *plan;
    const dt_choices *choices; /* or NULL */
    const char **names;        /* [n_buffers] NULL: nothing names it */
} printer;

/* ---- nests ---- */

static void print_term(printer *p, bool *first, int64_t coefficient, const char *letter, int index) {
    if (coefficient == 0) return;
    if (!*first)
        dt_text_append(p->text, coefficient < 0 ? " - " : " + ");
    else if (coefficient < 0)
        dt_text_append(p->text, "-");
    uint64_t size = coefficient < 0 ? 0 - (uint64_t)coefficient : (uint64_t)coefficient;
    if (letter == NULL)
        dt_text_format(p->text, "%" PRIu64, size);
    else if (size == 1)
        dt_text_format(p->text, "%s%d", letter, index);
    else
        dt_text_format(p->text, "%" PRIu64 " %s%d", size, letter, index);
    *first = false;
}

static void print_address(printer *p, const dt_kernel_function *kernel, const dt_nest *nest, const dt_address *address) {
    bool first = true;
    dt_text_format(p->text, "%s[", p->names[kernel->buffers[address->buffer]]);
    for (int l = 0; l < nest->n_loops; l++) print_term(p, &first, address->coefficients[l], "l", l);
    for (int i = 0; i < address->n_terms; i++) print_term(p, &first, address->term_coefficients[i], "s", address->terms[i]);
    print_term(p, &first, address->offset, NULL, 0);
    dt_text_append(p->text, first ? "0]" : "]");
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

static void print_instruction(printer *p, const dt_kernel_function *kernel, const dt_nest *nest, int i) {
    dt_text *text = p->text;
    const dt_instruction *instruction = &nest->instructions[i];
    dt_text_format(text, "      s%d = %s ", i, dt_dtype_name(instruction->dtype));
    switch (instruction->kind) {
    case DT_INSTRUCTION_CONSTANT: print_number(text, instruction); break;
    case DT_INSTRUCTION_LOOP: dt_text_format(text, "l%d", instruction->index); break;
    case DT_INSTRUCTION_LAUNCH: dt_text_format(text, "launch.%s", dt_launch_field_name(instruction->index)); break;
    case DT_INSTRUCTION_LOAD:
        dt_text_append(text, "load ");
        print_address(p, kernel, nest, &instruction->address);
        if (instruction->guard >= 0) dt_text_format(text, " if s%d else s%d", instruction->guard, instruction->otherwise);
        break;
    case DT_INSTRUCTION_SCALAR: dt_text_append(text, dt_scalar_text(instruction->scalar)); break;
    case DT_INSTRUCTION_CONVERT: dt_text_append(text, "from"); break;
    case DT_INSTRUCTION_BITS: dt_text_append(text, "bits"); break;
    case DT_INSTRUCTION_REDUCED: dt_text_format(text, "reduction %d", instruction->index); break;
    case DT_INSTRUCTION_CHECK:
        dt_text_format(text, "check%s location %d of %%%d below %" PRId64, instruction->before ? " again" : "", instruction->index,
                       instruction->indices, instruction->integer);
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

/* "  tiles of 6 x 2: 6 x 2 by 4", with the iterations that are one; "1 x 2 in 4 chains": partial sums of each element. */
static void print_tiles(dt_text *text, const dt_nest_choices *choices) {
    if (choices->tiled) dt_text_format(text, "  tiles of %d x %d", choices->tile_rows, choices->tile_vectors);
    for (int t = 0; t < choices->n_tiles; t++) {
        const dt_tile *tile = &choices->tiles[t];
        dt_text_format(text, "%s %d x %d", t > 0 ? "," : ":", tile->rows, tile->vectors);
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
    if (choices->packed_rows > 0) dt_text_format(text, ", %" PRId64 " rows, gap %" PRId64, choices->packed_rows, choices->packed_gap);
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

/* The form of a nest, which is the same for all targets. */
static void print_form(dt_text *text, const dt_nest *nest) {
    const dt_tiling *tiling = &nest->tiling;
    if (nest->algorithm != DT_ALGORITHM_LOOPS) {
        dt_text_format(text, "  %s ", dt_algorithm_name(nest->algorithm));
        if (tiling->row_loop >= 0) dt_text_format(text, "l%d x ", tiling->row_loop);
        dt_text_format(text, "l%d of s%d, s%d", tiling->vector_loop, tiling->a, tiling->b);
    }
    if (nest->part_iterations > 0) dt_text_format(text, "  parts of %" PRId64 " l0", nest->part_iterations);
    if (nest->share.n_units > 0)
        dt_text_format(text, "  units of %" PRId64 " l0, from %" PRId64 " of %" PRId64 ", turn %" PRId64, nest->share.unit_iterations,
                       nest->share.first_unit, nest->share.n_units, nest->share.turn);
}

static void print_nest(printer *p, const dt_kernel_function *kernel, int n, const dt_nest_choices *choices) {
    dt_text *text = p->text;
    const dt_nest *nest = &kernel->nests[n];
    dt_text_append(text, nest->in_blocks ? "    block nest" : nest->in_rows ? "    row nest" : "    nest");
    if (nest->note) dt_text_format(text, " \"%s\"", nest->note);
    print_loops(text, nest);
    print_form(text, nest);
    if (choices != NULL)
        print_choices(text, nest, choices);
    else if (nest->algorithm == DT_ALGORITHM_LOOPS && nest->vector_loop >= 0)
        dt_text_format(text, "  vector l%d", nest->vector_loop);
    for (int i = 0; i < nest->n_locations; i++) {
        const dt_location *at = &nest->locations[i];
        dt_text_format(text, "%s @%d:%d:%d", i == 0 ? " " : "", at->file, at->line, at->column);
    }
    dt_text_append(text, "\n");
    for (int i = 0; i < nest->n_instructions; i++) print_instruction(p, kernel, nest, i);
    for (int r = 0; r < nest->n_reductions; r++)
        dt_text_format(text, "      reduction %d = %s %s s%d\n", r, dt_dtype_name(nest->reductions[r].dtype),
                       dt_combiner_name(nest->reductions[r].combiner), nest->reductions[r].operand);
    for (int s = 0; s < nest->n_stores; s++) {
        const dt_store *store = &nest->stores[s];
        dt_text_append(text, "      store ");
        print_address(p, kernel, nest, &store->address);
        dt_text_format(text, " %s s%d", store->accumulate ? "+=" : "=", store->operand);
        if (store->guard >= 0) dt_text_format(text, " if s%d", store->guard);
        if (choices != NULL && choices->stores[s] != DT_STORE_ORDINARY)
            dt_text_append(text, choices->stores[s] == DT_STORE_STREAMING ? "  streaming" : "  prefetched");
        dt_text_append(text, "\n");
    }
}

/* ---- kernels ---- */

void dt_kernel_lines(dt_text *text, const dt_plan *plan, const dt_kernel_function *kernel) {
    int file = -1, line = 0;
    for (;;) { /* the next in order of (file, line), until there is none */
        int next_file = -1, next_line = 0;
        for (int n = 0; n < kernel->n_nests; n++)
            for (int i = 0; i < kernel->nests[n].n_locations; i++) {
                dt_location at = kernel->nests[n].locations[i];
                if (at.file < 0 || at.file >= plan->n_files) continue;
                bool after = at.file > file || (at.file == file && at.line > line);
                bool before = next_file < 0 || at.file < next_file || (at.file == next_file && at.line < next_line);
                if (after && before) next_file = at.file, next_line = at.line;
            }
        if (next_file < 0) return;
        if (next_file != file)
            dt_text_format(text, "%s%s:%d", file < 0 ? "" : ", ", plan->files[next_file], next_line);
        else
            dt_text_format(text, ", %d", next_line);
        file = next_file;
        line = next_line;
    }
}

static void print_share(dt_text *text, dt_share share) {
    if (share.unit > 0) dt_text_format(text, " in units of %" PRId64 ", turn %" PRId64, share.unit, share.turn);
}

static void print_kernel(printer *p, int number) {
    dt_text *text = p->text;
    const dt_kernel_function *kernel = &p->plan->kernels[number];
    const dt_nest_choices *choices = p->choices != NULL ? dt_choices_of(p->choices, p->plan, kernel) : NULL;
    dt_text_format(text, "  kernel %s(", kernel->name);
    for (int b = 0; b < kernel->n_buffers; b++) dt_text_format(text, "%s%s", b > 0 ? ", " : "", p->names[kernel->buffers[b]]);
    dt_text_append(text, ")");
    if (kernel->once) dt_text_append(text, "  once");
    if (kernel->divided) dt_text_append(text, ", divided");
    if (kernel->update) dt_text_append(text, "  update");
    if (kernel->for_examples) dt_text_append(text, "  for examples");
    if (kernel->loop != NULL) dt_text_format(text, "  in loop %d", kernel->loop->number);
    dt_text lines = {.arena = p->arena};
    dt_kernel_lines(&lines, p->plan, kernel);
    if (lines.n > 0) dt_text_format(text, "   # %s", lines.data);
    dt_text_append(text, "\n");
    for (int n = 0; n < kernel->n_nests; n++) print_nest(p, kernel, n, choices != NULL ? &choices[n] : NULL);
    for (int g = 0; g < kernel->n_gathers; g++) {
        dt_text_format(text, "    gathers %s", p->names[kernel->gathers[g].buffer]);
        print_share(text, kernel->gathers[g].share);
        dt_text_append(text, "\n");
    }
}

static void print_collective(printer *p, const dt_collective *collective) {
    dt_text_format(p->text, "  %s %s %s -> %s", dt_collective_names()[collective->kind], dt_combiner_name(collective->combiner),
                   p->names[collective->source], p->names[collective->target]);
    print_share(p->text, collective->share);
    dt_text_append(p->text, "  for ");
    dt_print_string(p->text, collective->label != NULL ? collective->label : "");
    dt_text_format(p->text, " of %%%d\n", collective->value);
}

/* ---- buffers ---- */

/* "at 27 - t of axis 1 of %0, loop 0": in iteration t it is that part; "at 1 to 28 of …": it is all of these. */
static void print_view(printer *p, const dt_view *view) {
    dt_text *text = p->text;
    dt_text_append(text, " at ");
    if (view->length > 0) dt_text_format(text, "%" PRId64 " to %" PRId64, view->first, view->first + view->length - 1);
    if (view->length == 0 && (view->first != 0 || view->step <= 0)) dt_text_format(text, "%" PRId64 "%s", view->first, view->step > 0 ? " + " : "");
    if (view->step != 0) dt_text_append(text, view->step > 0 ? "t" : " - t");
    if (view->wrap != 0) dt_text_format(text, " modulo %" PRId64, view->wrap);
    dt_text_format(text, " of axis %d of %s", view->axis, p->names[view->of]);
    if (view->loop != NULL) dt_text_format(text, ", loop %d", view->loop->number);
}

static void print_buffer(printer *p, int b) {
    char commas[32];
    const dt_buffer *buffer = &p->plan->buffers[b];
    dt_text *text = p->text;
    dt_text_format(text, "  buffer %s: ", p->names[b]);
    dt_shape_print(text, buffer->dtype, buffer->shape);
    if (buffer->view != NULL) {
        print_view(p, buffer->view);
        dt_text_append(text, ", as ");
        dt_shape_print(text, buffer->dtype, buffer->view->shape);
    } else {
        dt_text_format(text, " %s", dt_memory_space_names()[buffer->space]);
        if (buffer->space == DT_MEMORY_VARIABLE) dt_text_format(text, " %d", buffer->variable);
        if (buffer->space == DT_MEMORY_INPUT) dt_text_format(text, " %d", buffer->input);
        if (p->plan->is_placed) {
            dt_text_format(text, " at %s", dt_text_with_commas(buffer->offset, commas));
            dt_text_format(text, ", %s bytes", dt_text_with_commas(buffer->bytes, commas));
        }
    }
    if (buffer->precision != DT_PRECISION_F32) dt_text_format(text, ", rounded to %s", dt_precision_name(buffer->precision));
    if (buffer->one_row) dt_text_append(text, ", one row");
    dt_text_append(text, "\n");
}

/* ---- names ---- */

/* Those that some line names: arguments, what crosses, results, and what views are parts of. */
static void mark_named(const dt_plan *plan, bool *named) {
    for (int k = 0; k < plan->n_kernels; k++)
        for (int b = 0; b < plan->kernels[k].n_buffers; b++) named[plan->kernels[k].buffers[b]] = true;
    for (int s = 0; s < plan->n_segments; s++)
        for (int c = 0; c < plan->segments[s].n_collectives; c++)
            named[plan->segments[s].collectives[c].source] = named[plan->segments[s].collectives[c].target] = true;
    for (int r = 0; r < plan->n_results; r++) named[plan->results[r].buffer] = true;
    for (int b = plan->n_buffers - 1; b >= 0; b--)
        if (named[b] && plan->buffers[b].view != NULL) named[plan->buffers[b].view->of] = true;
}

/* "%12" and words stand as they are. */
static const char *as_token(dt_arena *arena, const char *name, int number) {
    dt_text token = {.arena = arena};
    if (name == NULL) return dt_arena_format(arena, "buffer%d", number);
    if (name[0] == '%') dt_text_append(&token, "%");
    dt_print_name(&token, name + (name[0] == '%'));
    return token.data;
}

static void name_buffers(printer *p) {
    dt_arena *arena = p->arena;
    int n = p->plan->n_buffers;
    bool *named = DT_NEW_ARRAY(arena, bool, n);
    dt_names known = {0};
    p->names = DT_NEW_ARRAY(arena, const char *, n);
    mark_named(p->plan, named);
    for (int b = 0; b < n; b++) {
        if (!named[b]) continue;
        const char *first = as_token(arena, p->plan->buffers[b].name, b);
        p->names[b] = first;
        for (int copy = 2; dt_names_find(&known, p->names[b]) >= 0; copy++) p->names[b] = dt_arena_format(arena, "%s~%d", first, copy);
        dt_names_add(arena, &known, p->names[b], b);
    }
}

/* ---- plans ---- */

static void print_bytes(dt_text *text, const dt_space_bytes *bytes) {
    char device[32], replica[32], partial[32], scratch[32];
    dt_text_format(text, "  device %s  replica %s  partial %s  scratch %s bytes\n", dt_text_with_commas(bytes->device, device),
                   dt_text_with_commas(bytes->replica, replica), dt_text_with_commas(bytes->partial, partial),
                   dt_text_with_commas(bytes->scratch, scratch));
}

static void print_head(printer *p) {
    dt_text *text = p->text;
    const dt_plan *plan = p->plan;
    const dt_space_bytes *gathered = &plan->gathered;
    dt_text_append(text, "plan ");
    dt_print_name(text, plan->name);
    dt_text_format(text, ": %s", dt_function_role_names()[plan->role]);
    if (p->choices != NULL) dt_text_format(text, "  for %s", p->choices->target->level);
    dt_text_format(text, "  %" PRId64 " of %" PRId64 " rows", plan->microbatch_rows, plan->capacity);
    if (plan->batched) dt_text_append(text, " together");
    dt_text_format(text, ", inputs %d", plan->n_inputs);
    if (plan->is_placed)
        print_bytes(text, &plan->bytes);
    else
        dt_text_append(text, "\n");
    if (gathered->device + gathered->replica + gathered->partial + gathered->scratch > 0) {
        dt_text_append(text, "  and for each microbatch of all replicas");
        print_bytes(text, gathered);
    }
    for (int f = 0; f < plan->n_files; f++) {
        dt_text_format(text, "  file %d ", f);
        dt_print_string(text, plan->files[f]);
        dt_text_append(text, "\n");
    }
    for (int l = 0; l < plan->n_loops; l++) {
        const dt_plan_loop *loop = plan->loops[l];
        dt_text_format(text, "  loop %d: %" PRId64 " times", l, loop->trips);
        if (loop->around != NULL) dt_text_format(text, " in each iteration of loop %d", loop->around->number);
        dt_text_format(text, ", %d carried, %" PRId64 " made again\n", loop->n_carries, loop->remade);
    }
}

static void print_plan(printer *p) {
    const dt_plan *plan = p->plan;
    print_head(p);
    for (int b = 0; b < plan->n_buffers; b++)
        if (p->names[b] != NULL) print_buffer(p, b);
    for (int s = 0; s < plan->n_segments; s++) {
        const dt_segment *segment = &plan->segments[s];
        dt_text_format(p->text, "segment %d\n", s);
        for (int k = 0; k < segment->n_device_kernels; k++) print_kernel(p, segment->device_kernels[k]);
        for (int k = 0; k < segment->n_replica_kernels; k++) print_kernel(p, segment->replica_kernels[k]);
        for (int c = 0; c < segment->n_collectives; c++) print_collective(p, &segment->collectives[c]);
    }
    for (int r = 0; r < plan->n_results; r++) {
        dt_text_append(p->text, "result ");
        dt_print_name(p->text, plan->results[r].name);
        dt_text_append(p->text, ": ");
        dt_shape_print(p->text, plan->results[r].dtype, plan->results[r].shape);
        dt_text_format(p->text, " = %s\n", p->names[plan->results[r].buffer]);
    }
}

void dt_plan_print(dt_arena *arena, dt_text *text, const dt_plan *plan, const dt_choices *choices) {
    printer p = {.arena = arena, .text = text, .plan = plan, .choices = choices};
    name_buffers(&p);
    print_plan(&p);
}
