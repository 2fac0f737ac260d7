/* plan_text: plans as text, for people and for golden files, and from it: see the header.
 *
 *   plan train: step  for x86-64-v3  64 of 256 rows, inputs 2  device 426,240  replica 12,288  partial 0  scratch 86,016 bytes
 *     file 0 "fashion_cnn.dt"
 *     buffer image: u8[B, 28, 28] input 0 at 0, 12,544 bytes
 *   segment 0
 *     kernel train_3_conv2d(image, %11, %12)  layer 1   # fashion_cnn.dt:14
 *       row nest l0 < B, l1 < 26, l2 < 26, l3 < 64, over l4 < 3  vector l3 x 8  @0:14:9
 *         s0 = u8 load image[784 l0 + 28 l1 + l2 + l4]
 *         …
 *     all_reduce sum %12 -> %13  for "Cnn/conv2d/kernel" of %40
 *   result loss: f32 = %13
 *
 * A shard_reduce of what a microbatch has stands with the others behind the kernels of its segment, though it runs right behind the last one that
 * stores to what it takes (dt_collective_is_within).
 *
 * Buffers that nothing names are left out; what bears a name that others have had before gets a number behind it: "weight~2". A microbatch has 64 of
 * the 256 rows that a replica has at most. nest_text.c has the lines below a kernel's. What can be wrong with a plan that has been read is left to
 * the verifiers; here numbers are bounded, and names have to be known. */
#include "compiler/kernel/plan_text.h"
#include "compiler/kernel/nest.h"
#include "compiler/kernel/view.h"
#include "compiler/kernel/words.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

enum {
    MOST_ARGUMENTS = 1 << 20 /* inputs, and variables */
};

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

/* "%12" and words stand as they are, other names in quotes. */
static void name_buffers(dt_words *w) {
    const int n = w->plan->n_buffers;
    bool *named = DT_NEW_ARRAY(w->arena, bool, n);
    w->names = DT_NEW_ARRAY(w->arena, const char *, n);
    mark_named(w->plan, named);
    for (int b = 0; b < n; b++) {
        if (!named[b]) continue;
        const char *name = w->plan->buffers[b].name != NULL ? w->plan->buffers[b].name : dt_arena_format(w->arena, "buffer%d", b);
        dt_text token = {.arena = w->arena};
        if (name[0] == '%') dt_text_append(&token, "%");
        dt_print_name(&token, name + (name[0] == '%'));
        w->names[b] = token.data;
        for (int copy = 2; dt_names_find(&w->buffers, w->names[b]) >= 0; copy++) w->names[b] = dt_arena_format(w->arena, "%s~%d", token.data, copy);
        dt_names_add(w->arena, &w->buffers, w->names[b], b);
    }
}

/* ---- pieces ---- */

/* The number of a loop of the plan. */
static void loop_number(dt_words *w, const dt_plan_loop **loop) {
    int number = *loop != NULL ? (*loop)->number : 0;
    if (w->plan->n_loops == 0) dt_wrong(w, "there is no loop before this");
    dt_int(w, 0, w->plan->n_loops - 1, &number);
    if (w->wrong == NULL) *loop = w->plan->loops[number];
}

static void type_text(dt_words *w, dt_dtype *dtype, dt_shape *shape) {
    int64_t elements = 1;
    if (w->out != NULL) return dt_shape_print(w->out, *dtype, *shape);
    if (w->wrong == NULL && !dt_read_type(w->in, dtype, shape)) dt_wrong(w, "expected a type as f32[B, 3]");
    for (int d = 0; w->wrong == NULL && d < shape->rank; d++) {
        int64_t extent = dt_dim_is_symbol(shape->dims[d]) ? w->plan->microbatch_rows : shape->dims[d];
        if (__builtin_mul_overflow(elements, extent > 0 ? extent : 1, &elements) || elements > DT_MOST_NUMBER)
            dt_wrong(w, "a shape of more than %" PRId64 " elements", DT_MOST_NUMBER);
    }
}

/* ---- buffers ---- */

/* "27 - t modulo 28 of axis 1 of %0, loop 0, as f32[28, 3]": in iteration t it is that part; "1 to 28 of …": it is all of these. */
static void view_text(dt_words *w, dt_dtype dtype, dt_view *view) {
    dt_dtype same = dtype;
    if (dt_has(w, view->length == 0 && view->first == 0 && view->step > 0, "t"))
        view->step = 1;
    else {
        int64_t last = view->first + view->length - 1;
        dt_expect(w, "%ld", &view->first);
        if (dt_has(w, view->length > 0, " to ")) {
            dt_int64(w, view->first, DT_MOST_NUMBER, &last);
            view->length = last - view->first + 1;
        } else
            view->step = dt_has(w, view->step > 0, " + t") ? 1 : dt_has(w, view->step < 0, " - t") ? -1 : 0;
    }
    dt_has(w, view->wrap != 0, " modulo %1ld", &view->wrap);
    dt_expect(w, " of axis %d of %n", &view->axis, &view->of);
    if (dt_has(w, view->loop != NULL, ", loop ")) loop_number(w, &view->loop);
    dt_expect(w, ", as ");
    type_text(w, &same, &view->shape);
    if (same != dtype) dt_wrong(w, "a part has the type of the buffer that it is part of");
}

/* What dt_plan_add_view takes for granted; NULL: it holds. */
static const char *view_needs(const dt_plan *plan, const dt_view *view, dt_dtype dtype, dt_shape shape) {
    const dt_buffer *of = &plan->buffers[view->of];
    int64_t extent = view->axis < view->shape.rank ? view->shape.dims[view->axis] : 0;
    int64_t steps = view->loop != NULL ? view->loop->trips - 1 : 0, end = view->first + (view->length > 0 ? view->length - 1 : 0);
    if (view->length > 0 && view->wrap > 0) return "several positions do not wrap";
    if (of->dtype != dtype) return "a part has the type of the buffer that it is part of";
    if (view->axis >= view->shape.rank || dt_dim_is_symbol(extent)) return "a part is of an axis of constant extent";
    if (of->view != NULL ? !dt_shape_equal(view->shape, of->shape) : dt_shape_elements(view->shape, 1, 1) != dt_shape_elements(of->shape, 1, 1))
        return "a buffer that is seen as another shape has as many elements";
    if (dt_shape_count(view->shape, DT_BATCH) != dt_shape_count(of->shape, DT_BATCH)) return "a buffer that is seen as another shape has its rows";
    if (view->step != 0 && view->loop == NULL) return "only in a loop does a part move";
    if (view->wrap > 0 ? view->wrap > extent || view->first >= view->wrap || view->step < 0
                       : end + (view->step > 0 ? steps : 0) >= extent || (view->step < 0 && view->first < steps))
        return "a part lies within its axis";
    int rank = view->shape.rank - (view->length == 0);
    return rank != shape.rank ? "a part has all but one of the dimensions, or all where it is several positions" : NULL;
}

/* "scratch at 1,024, 512 bytes" */
static void place_text(dt_words *w, dt_buffer *buffer) {
    buffer->space =
        (dt_memory_space)dt_one_of(w, " ", dt_memory_space_names(), DT_N_MEMORY_SPACES, (int)buffer->space, "where the buffer is, as scratch");
    if (buffer->space == DT_MEMORY_VARIABLE) dt_expect(w, " %d", &buffer->variable);
    if (buffer->space == DT_MEMORY_INPUT) dt_expect(w, " %d", &buffer->input);
    if (buffer->variable > MOST_ARGUMENTS || buffer->input >= w->plan->n_inputs) dt_wrong(w, "there is no such variable or input");
    if (w->plan->is_placed) dt_expect(w, " at %li, %li bytes", &buffer->offset, &buffer->bytes);
}

/* What is behind a buffer's name; `view` is the one that it is. */
static void buffer_line(dt_words *w, dt_buffer *buffer, dt_view *view) {
    dt_expect(w, ": ");
    type_text(w, &buffer->dtype, &buffer->shape);
    if (dt_has(w, buffer->view != NULL, " at ")) {
        view_text(w, buffer->dtype, view);
        buffer->view = view;
    } else
        place_text(w, buffer);
    if (dt_has(w, buffer->precision != DT_PRECISION_F32, ", rounded to"))
        buffer->precision = (dt_precision)dt_one_of(w, " ", dt_precision_names(), DT_N_PRECISIONS, (int)buffer->precision, "a precision as bf16");
    buffer->one_row = dt_has(w, buffer->one_row, ", one row");
    if (dt_has(w, buffer->zeros > 0, ", zeros")) dt_expect(w, " %1d in a hundred", &buffer->zeros);
    buffer->sharded = dt_has(w, buffer->sharded, ", of a shard");
    if (buffer->sharded && buffer->space == DT_MEMORY_VARIABLE)
        dt_expect(w, " split at %d of %1ld in %1ld", &buffer->split_axis, &buffer->split_extent, &buffer->split_groups);
    dt_expect(w, "\n");
}

static bool is_part_of_split(const dt_plan *plan, const dt_buffer *buffer) {
    int64_t extent = buffer->split_extent, groups = buffer->split_groups;
    if (!buffer->sharded || buffer->space != DT_MEMORY_VARIABLE) return true;
    if (buffer->split_axis < 0 || buffer->split_axis >= buffer->shape.rank || extent % groups != 0) return false;
    return buffer->shape.dims[buffer->split_axis] == dt_shard_extent(extent, groups, plan->n_shards);
}

/* To the plan, one that has been read. */
static void add_buffer(dt_words *w, const char *token, const dt_buffer *buffer) {
    dt_arena *arena = w->arena;
    const char *missing = buffer->view != NULL ? view_needs(w->plan, buffer->view, buffer->dtype, buffer->shape) : NULL;
    if (missing != NULL) return dt_wrong(w, "%s", missing);
    if (!is_part_of_split(w->plan, buffer)) return dt_wrong(w, "%s is not as long as a shard of what is split so", buffer->name);
    int number = buffer->view != NULL ? dt_plan_add_view(arena, w->plan, buffer->name, *buffer->view) : dt_plan_add_buffer(arena, w->plan, *buffer);
    dt_buffer *added = &w->plan->buffers[number];
    if (!dt_shape_equal(added->shape, buffer->shape)) dt_wrong(w, "%s has another shape than the part that it is", buffer->name);
    added->precision = buffer->precision;
    added->one_row = buffer->one_row;
    added->zeros = buffer->zeros;
    added->sharded = buffer->sharded;
    added->split_axis = buffer->split_axis;
    added->split_extent = buffer->split_extent;
    added->split_groups = buffer->split_groups;
    dt_names_add(arena, &w->buffers, token, number);
}

static void buffers(dt_words *w) {
    const dt_plan *plan = w->plan;
    const bool prints = w->out != NULL;
    for (int b = 0;; b++) {
        while (prints && b < plan->n_buffers && w->names[b] == NULL) b++;
        if (!dt_has(w, b < plan->n_buffers, "  buffer ")) return;
        dt_buffer buffer = prints ? plan->buffers[b] : (dt_buffer){.variable = -1, .input = -1};
        dt_view view = buffer.view != NULL ? *buffer.view : (dt_view){0};
        const char *token = dt_buffer_name(w, b, &buffer.name);
        if (!prints && token != NULL && dt_names_find(&w->buffers, token) >= 0) dt_wrong(w, "there are two buffers %s", token);
        buffer_line(w, &buffer, &view);
        if (!prints && w->wrong == NULL) add_buffer(w, token, &buffer);
    }
}

/* ---- kernels ---- */

void dt_kernel_lines(dt_text *text, const dt_plan *plan, const dt_kernel_function *kernel) {
    int64_t last = -1, next;
    for (int file = -1;; file = (int)(next >> 32), last = next) { /* files and lines, in order */
        next = INT64_MAX;
        for (int n = 0; n < kernel->n_nests; n++)
            for (int i = 0; i < kernel->nests[n].n_locations; i++) {
                const dt_location at = kernel->nests[n].locations[i];
                if (at.file < 0 || at.file >= plan->n_files) continue;
                const int64_t place = ((int64_t)at.file << 32) + at.line;
                if (place > last && place < next) next = place;
            }
        if (next == INT64_MAX) return;
        if (last >= 0) dt_text_append(text, ", ");
        if (next >> 32 != file) dt_text_format(text, "%s:", plan->files[next >> 32]);
        dt_text_format(text, "%d", (int)(next & INT32_MAX));
    }
}

static void share_text(dt_words *w, dt_share *share) { dt_has(w, share->unit > 0, " in units of %1ld, turn %ld", &share->unit, &share->turn); }

static void arguments(dt_words *w, dt_kernel_function *kernel) {
    dt_expect(w, "(");
    for (int b = 0; w->wrong == NULL && !dt_has(w, b == kernel->n_buffers, ")"); b++) {
        int buffer = w->out != NULL ? kernel->buffers[b] : 0;
        if (b > 0) dt_expect(w, ", ");
        dt_expect(w, "%n", &buffer);
        if (w->in != NULL && w->wrong == NULL && dt_kernel_argument(w->arena, kernel, buffer) < b)
            dt_wrong(w, "%s is an argument twice", w->plan->buffers[buffer].name);
    }
}

static void kernel_text(dt_words *w, dt_kernel_function *kernel, dt_nest_choices **chosen) {
    static const char digits_and_letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
    dt_string(w, false, &kernel->name, "the name of a kernel");
    if (w->wrong == NULL && (strspn(kernel->name, digits_and_letters + 10) == 0 || kernel->name[strspn(kernel->name, digits_and_letters)] != '\0'))
        dt_wrong(w, "%s is no name that C knows", kernel->name);
    arguments(w, kernel);
    dt_has(w, kernel->layer > 0, "  layer %1d", &kernel->layer);
    kernel->once = dt_has(w, kernel->once, "  once");
    kernel->divided = dt_has(w, kernel->divided, ", divided");
    kernel->update = dt_has(w, kernel->update, "  update");
    kernel->for_examples = dt_has(w, kernel->for_examples, "  for examples");
    if (dt_has(w, kernel->loop != NULL, "  in loop ")) loop_number(w, &kernel->loop);
    dt_text lines = {.arena = w->arena};
    if (w->out != NULL) dt_kernel_lines(&lines, w->plan, kernel);
    if (lines.n > 0) dt_comment(w, "%s", lines.data);
    dt_expect(w, "\n");
    dt_nests_text(w, chosen);
    for (int g = 0; dt_has(w, g < kernel->n_gathers, "    gathers "); g++) {
        dt_shared_buffer *gather = DT_ITEM(w, kernel->gathers, kernel->n_gathers, g);
        dt_expect(w, "%n", &gather->buffer);
        share_text(w, &gather->share);
        dt_expect(w, "\n");
    }
}

/* ---- segments ---- */

/* A segment's kernels: those that run once, then those that replicas run. */
static void kernels(dt_words *w, dt_segment *segment) {
    dt_plan *plan = w->plan;
    for (int i = 0; dt_has(w, i < segment->n_device_kernels + segment->n_replica_kernels, "  kernel "); i++) {
        const int device = segment->n_device_kernels, replica = segment->n_replica_kernels;
        int k = w->in != NULL ? plan->n_kernels : i < device ? segment->device_kernels[i] : segment->replica_kernels[i - device];
        dt_kernel_function *kernel = w->kernel = DT_ITEM(w, plan->kernels, plan->n_kernels, k);
        kernel_text(w, kernel, w->target != NULL ? DT_ITEM(w, w->chosen, w->n_chosen, k) : NULL);
        if (w->out != NULL) continue;
        if (kernel->once && replica > 0) dt_wrong(w, "%s runs once: it stands before kernels that replicas run", kernel->name);
        *(kernel->once ? DT_ITEM(w, segment->device_kernels, segment->n_device_kernels, device)
                       : DT_ITEM(w, segment->replica_kernels, segment->n_replica_kernels, replica)) = k;
    }
}

/* False: there is none. */
static bool collective(dt_words *w, dt_segment *segment, int i) {
    const bool is_there = i < segment->n_collectives;
    int kind = dt_one_of(w, "  ", dt_collective_names(), DT_N_COLLECTIVES, w->out != NULL && is_there ? (int)segment->collectives[i].kind : -1, NULL);
    if (kind < 0) return false;
    dt_collective *c = DT_ITEM(w, segment->collectives, segment->n_collectives, i);
    c->kind = (dt_collective_kind)kind;
    dt_combiner_text(w, &c->combiner);
    dt_expect(w, " %n -> %n", &c->source, &c->target);
    share_text(w, &c->share);
    dt_expect(w, "  for ");
    const char *label = c->label != NULL ? c->label : "";
    dt_string(w, true, &label, "a label in quotes");
    if (*label != '\0') c->label = label;
    dt_expect(w, " of %%%d\n", &c->value);
    return w->wrong == NULL;
}

static void segments(dt_words *w) {
    for (int s = 0; dt_has(w, s < w->plan->n_segments, "segment "); s++) {
        dt_segment *segment = DT_ITEM(w, w->plan->segments, w->plan->n_segments, s);
        dt_nth(w, s);
        dt_expect(w, "\n");
        kernels(w, segment);
        int i = 0;
        while (collective(w, segment, i)) i++;
    }
}

/* ---- plans ---- */

/* False: it is not there. */
static bool bytes_text(dt_words *w, bool is_there, dt_space_bytes *b) {
    return dt_has(w, is_there, "  device %li  replica %li  partial %li  scratch %li bytes", &b->device, &b->replica, &b->partial, &b->scratch);
}

static void first_line(dt_words *w) {
    dt_plan *plan = w->plan;
    dt_string(w, false, &plan->name, "the name of a plan");
    dt_expect(w, ":");
    plan->role = (dt_function_role)dt_one_of(w, " ", dt_function_role_names(), DT_N_FUNCTION_ROLES, (int)plan->role, "what the plan is for, as step");
    const char *level = w->target != NULL ? w->target->level : "";
    if (dt_has(w, w->target != NULL, "  for ")) {
        dt_string(w, false, &level, "an instruction set");
        w->target = dt_cpu_target_find(level);
        if (w->target == NULL) dt_wrong(w, "expected " DT_LEVEL_V3 " or " DT_LEVEL_V4);
    }
    dt_expect(w, "  %1ld of %1ld rows", &plan->microbatch_rows, &plan->capacity);
    plan->batched = dt_has(w, plan->batched, " together");
    if (plan->batched && w->target != NULL) dt_wrong(w, "rows that run together are those of a plan for GPUs");
    dt_expect(w, ", inputs %d", &plan->n_inputs);
    if (w->in != NULL) plan->n_shards = 1;
    if (dt_has(w, plan->n_shards > 1, ", shards")) dt_expect(w, " %1ld", &plan->n_shards);
    if (plan->n_inputs > MOST_ARGUMENTS || plan->microbatch_rows > INT_MAX || plan->capacity > INT_MAX)
        dt_wrong(w, "a plan of too many rows or inputs");
    plan->is_placed = bytes_text(w, plan->is_placed, &plan->bytes);
    if (w->target != NULL && !plan->is_placed) dt_wrong(w, "choices are made when memory is planned: expected device");
    dt_expect(w, "\n");
}

/* "0: 30 times in each iteration of loop 1, 2 carried, 0 made again" */
static void loop_line(dt_words *w, int number, dt_plan_loop *loop) {
    dt_nth(w, number);
    loop->number = number;
    dt_expect(w, ": %ld times", &loop->trips);
    if (loop->trips > INT_MAX) dt_wrong(w, "a loop of too many iterations");
    if (dt_has(w, loop->around != NULL, " in each iteration of loop ")) loop_number(w, &loop->around);
    dt_expect(w, ", %d carried, %ld made again\n", &loop->n_carries, &loop->remade);
}

static void head(dt_words *w) {
    dt_plan *plan = w->plan;
    dt_space_bytes *gathered = &plan->gathered;
    first_line(w);
    if (dt_has(w, gathered->device + gathered->replica + gathered->partial + gathered->scratch > 0, "  and for each microbatch of all replicas")) {
        if (!bytes_text(w, true, gathered)) dt_wrong(w, "expected device");
        dt_expect(w, "\n");
    }
    const char **files = NULL;
    for (int f = 0; dt_has(w, f < plan->n_files, "  file "); f++) {
        const char *file = w->out != NULL ? plan->files[f] : "";
        dt_nth(w, f);
        dt_expect(w, " ");
        dt_string(w, true, &file, "a file in quotes");
        dt_expect(w, "\n");
        if (w->in != NULL) *DT_ITEM(w, files, plan->n_files, f) = file;
    }
    if (w->in != NULL) plan->files = files;
    for (int l = 0; dt_has(w, l < plan->n_loops, "  loop "); l++) {
        dt_plan_loop loop = {0};
        if (w->out != NULL) loop = *plan->loops[l];
        loop_line(w, l, &loop);
        if (w->in != NULL) *DT_ITEM(w, plan->loops, plan->n_loops, l) = dt_arena_copy(w->arena, &loop, sizeof loop);
    }
}

/* A plan, but for what is chosen for a GPU behind it, and without its first word where it is read. */
static void plan_text(dt_words *w) {
    dt_plan *plan = w->plan;
    head(w);
    buffers(w);
    segments(w);
    for (int r = 0; dt_has(w, r < plan->n_results, "result "); r++) {
        dt_plan_result *result = DT_ITEM(w, plan->results, plan->n_results, r);
        dt_string(w, false, &result->name, "the name of a result");
        dt_expect(w, ": ");
        type_text(w, &result->dtype, &result->shape);
        dt_expect(w, " = %n\n", &result->buffer);
    }
}

void dt_plan_print(dt_arena *arena, dt_text *text, const dt_plan *plan, const dt_choices *choices) {
    dt_plan same = *plan;
    dt_words w = {.arena = arena, .out = text, .plan = &same, .target = choices != NULL ? choices->target : NULL};
    for (int p = 0; choices != NULL && p < choices->n_plans; p++)
        if (choices->plans[p] == plan) w.chosen = choices->nests[p];
    name_buffers(&w);
    dt_text_append(text, "plan ");
    plan_text(&w);
}

/* ---- sets ---- */

/* What a verifier says of a plan that somebody wrote is a mistake of the plan. */
static dt_status *refuse(const dt_reader *reader, dt_status *status) {
    if (status == NULL) return NULL;
    dt_status *refused = dt_reader_error(reader, "%s", dt_status_message(status));
    dt_status_free(status);
    return refused;
}

static dt_status *read_plan(dt_words *w, const dt_gpu_target **gpu, dt_gpu_kernel **gpu_kernels) {
    if (!dt_has(w, true, "plan")) dt_wrong(w, "expected a line of the plan, or the next plan");
    plan_text(w);
    if (w->wrong != NULL) return w->wrong;
    DT_TRY(refuse(w->in, dt_plan_verify(w->plan)));
    if (!dt_has(w, true, "for")) return NULL;
    if (!w->plan->is_placed || !w->plan->batched)
        return dt_reader_error(w->in, "choices for a GPU are of plans whose rows run together, and whose memory is planned");
    return dt_gpu_choices_read(w->in, w->plan, gpu, gpu_kernels);
}

/* A set has plans of different names for one target; code for it has a function for each kernel of all its plans. */
static dt_status *read_sets(dt_arena *arena, dt_reader *reader, dt_plan_sets *sets) {
    dt_plan_set *set = NULL;
    dt_choices *choices = NULL;         /* of its plans, */
    dt_gpu_choices *gpu_choices = NULL; /* the same for GPUs, */
    dt_names plans = {0}, kernels = {0};
    while (!dt_read_end(reader)) {
        dt_words w = {.arena = arena, .in = reader, .plan = DT_NEW(arena, dt_plan)};
        const dt_gpu_target *gpu = NULL;
        dt_gpu_kernel *gpu_kernels = NULL;
        DT_TRY(read_plan(&w, &gpu, &gpu_kernels));
        if (set == NULL || choices->target != w.target || gpu_choices->target != gpu || dt_names_find(&plans, w.plan->name) >= 0) {
            const int s = sets->n;
            set = DT_ITEM(&w, sets->items, sets->n, s);
            choices = DT_NEW(arena, dt_choices);
            gpu_choices = DT_NEW(arena, dt_gpu_choices);
            plans = kernels = (dt_names){0};
        }
        const int p = set->n_plans;
        *DT_ITEM(&w, set->plans, set->n_plans, p) = w.plan;
        *DT_ITEM(&w, choices->nests, choices->n_plans, p) = w.chosen;
        *DT_ITEM(&w, gpu_choices->kernels, gpu_choices->n_plans, p) = gpu_kernels;
        choices->target = w.target;
        gpu_choices->target = gpu;
        choices->plans = gpu_choices->plans = (const dt_plan *const *)set->plans;
        set->choices = w.target != NULL ? choices : NULL;
        set->gpu_choices = gpu != NULL ? gpu_choices : NULL;
        dt_names_add(arena, &plans, w.plan->name, p);
        for (int k = 0; k < w.plan->n_kernels; k++) {
            const char *name = w.plan->kernels[k].name;
            if (dt_names_find(&kernels, name) >= 0) return dt_reader_error(reader, "there are two kernels %s", name);
            dt_names_add(arena, &kernels, name, k);
        }
    }
    if (sets->n == 0) return dt_reader_error(reader, "there is no plan here");
    for (int s = 0; s < sets->n; s++) {
        if (sets->items[s].choices != NULL) DT_TRY(refuse(reader, dt_choices_verify(arena, sets->items[s].choices)));
        if (sets->items[s].gpu_choices != NULL) DT_TRY(refuse(reader, dt_gpu_choices_verify(arena, sets->items[s].gpu_choices)));
    }
    return NULL;
}

dt_status *dt_plans_parse(dt_arena *arena, const char *name, const char *source, dt_plan_sets *sets) {
    dt_reader reader = {.name = name, .source = source, .at = source, .arena = arena};
    *sets = (dt_plan_sets){0};
    return read_sets(arena, &reader, sets);
}

void dt_plan_sets_print(dt_arena *arena, dt_text *text, const dt_plan_sets *sets) {
    for (int s = 0; s < sets->n; s++)
        for (int p = 0; p < sets->items[s].n_plans; p++) {
            dt_plan_print(arena, text, sets->items[s].plans[p], sets->items[s].choices);
            if (sets->items[s].gpu_choices != NULL) dt_gpu_choices_print(text, sets->items[s].gpu_choices, p);
        }
}
