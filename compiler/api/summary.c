/* summary: a program at a glance, before anything runs: layers and parameters, arithmetic, memory, and what crosses replicas. */
#include "compiler/api/api.h"
#include "compiler/kernel/microbatches.h"
#include "compiler/pipeline.h"
#include "ir/flops.h"
#include "ir/text_form.h"

#include <string.h>

/* ---- layers ---- */

/* "Cnn/conv2d_1" at depth 1 is "  conv2d_1". */
static const char *layer_label(dt_arena *arena, const dt_layer *layer) {
    const char *name = strrchr(layer->path, '/');
    name = name && layer->depth > 0 ? name + 1 : layer->path;
    return dt_arena_format(arena, "%*s%s", 2 * layer->depth, "", name);
}

enum {
    N_COLUMNS = 4
};

typedef struct row {
    const char *cells[N_COLUMNS];
} row;

static row row_of(dt_arena *arena, const dt_layer *layer) {
    char number[32];
    dt_text shape = {.arena = arena};
    dt_shape_print(&shape, layer->dtype, layer->shape);
    return (row){{layer_label(arena, layer), layer->kind, shape.data, dt_arena_string(arena, dt_text_with_commas(layer->n_parameters, number))}};
}

/* Columns are as wide as what is in them, and wider where that is little: most programs' tables are alike. */
static void print_layers(dt_arena *arena, dt_text *text, const dt_module *module) {
    int widths[N_COLUMNS] = {34, 16, 26, 14};
    size_t n = module->layers.n + 1;
    row *rows = DT_NEW_ARRAY(arena, row, n);
    rows[0] = (row){{"layer", "kind", "output", "parameters"}};
    for (size_t i = 1; i < n; i++) rows[i] = row_of(arena, &module->layers.items[i - 1]);
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < N_COLUMNS; c++)
            if ((int)strlen(rows[i].cells[c]) > widths[c]) widths[c] = (int)strlen(rows[i].cells[c]);
    for (size_t i = 0; i < n; i++)
        dt_text_format(text, "%-*s %-*s %-*s %*s\n", widths[0], rows[i].cells[0], widths[1], rows[i].cells[1], widths[2], rows[i].cells[2], widths[3],
                       rows[i].cells[3]);
}

static void print_bytes(dt_text *text, int64_t bytes) {
    char number[32];
    if (bytes < 10240)
        dt_text_format(text, "%s B", dt_text_with_commas(bytes, number));
    else
        dt_text_format(text, "%s KiB", dt_text_with_commas((bytes + 1023) / 1024, number));
}

static int64_t variable_bytes(const dt_variable *variable) {
    return dt_shape_elements(variable->shape, 1, 1) * (int64_t)dt_dtype_bytes(variable->dtype);
}

/* Returns the bytes of all variables, which cores share. */
static int64_t print_parameters(dt_text *text, const dt_module *module) {
    int64_t n_trainable = 0, n_frozen = 0, parameter_bytes = 0, state_bytes = 0, slot_bytes = 0;
    for (size_t i = 0; i < module->variables.n; i++) {
        const dt_variable *variable = &module->variables.items[i];
        int64_t n = dt_shape_elements(variable->shape, 1, 1), bytes = variable_bytes(variable);
        if (variable->kind == DT_VARIABLE_LAUNCH) continue;
        if (variable->kind == DT_VARIABLE_PARAMETER) {
            *(variable->trainable ? &n_trainable : &n_frozen) += n;
            parameter_bytes += bytes;
        } else {
            *(variable->kind == DT_VARIABLE_STATE ? &state_bytes : &slot_bytes) += bytes;
        }
    }
    char all[32], trainable[32], frozen[32];
    dt_text_format(text, "\nparameters   %s: %s trainable, %s frozen; ", dt_text_with_commas(n_trainable + n_frozen, all),
                   dt_text_with_commas(n_trainable, trainable), dt_text_with_commas(n_frozen, frozen));
    print_bytes(text, parameter_bytes);
    dt_text_append(text, ", states ");
    print_bytes(text, state_bytes);
    dt_text_append(text, ", optimizer ");
    print_bytes(text, slot_bytes);
    dt_text_append(text, "\n");
    return parameter_bytes + state_bytes + slot_bytes;
}

/* ---- steps ---- */

static const dt_plan *plan_of(const dt_compilation *compilation, const dt_function *function) {
    for (int i = 0; i < compilation->n_plans; i++)
        if (compilation->module->functions.items[i] == function) return compilation->plans[i];
    return NULL;
}

static int64_t bytes_at_capacity(const dt_plan *plan, const dt_buffer *buffer) {
    int64_t capacity = plan->capacity;
    return dt_shape_elements(buffer->shape, capacity, capacity) * (int64_t)dt_dtype_bytes(buffer->dtype);
}

/* Bytes of one replica's rows of a step's inputs, at capacity. */
static int64_t input_bytes(const dt_plan *plan) {
    int64_t bytes = 0;
    for (int b = 0; b < plan->n_buffers; b++)
        if (plan->buffers[b].space == DT_MEMORY_INPUT) bytes += bytes_at_capacity(plan, &plan->buffers[b]);
    return bytes;
}

/* "417 KiB", and " + 16 KiB * V" for what grows with the rows of all replicas. */
static void print_growing(dt_text *text, int64_t bytes, int64_t bytes_a_replica) {
    print_bytes(text, bytes);
    if (bytes_a_replica == 0) return;
    dt_text_append(text, " + ");
    print_bytes(text, bytes_a_replica);
    dt_text_append(text, " * V");
}

/* The same in a product. */
static void print_factor(dt_text *text, int64_t bytes, int64_t bytes_a_replica, const char *behind) {
    if (bytes_a_replica != 0) dt_text_append(text, "(");
    print_growing(text, bytes, bytes_a_replica);
    dt_text_format(text, "%s * %s", bytes_a_replica != 0 ? ")" : "", behind);
}

static dt_space_bytes of_all_shards(const dt_space_bytes *bytes, int64_t n) {
    return (dt_space_bytes){.device = n * bytes->device, .replica = n * bytes->replica, .partial = n * bytes->partial, .scratch = n * bytes->scratch};
}

static void print_memory(dt_text *text, const dt_plan *plan, int64_t shared_bytes) {
    int64_t capacity = plan->capacity, n_microbatches = dt_microbatches_of(capacity, plan->microbatch_rows);
    const dt_space_bytes all = of_all_shards(&plan->bytes, plan->n_shards), all_gathered = of_all_shards(&plan->gathered, plan->n_shards);
    const dt_space_bytes *bytes = &all, *gathered = &all_gathered; /* gathered: for each block, of which a replica has n_microbatches */
    dt_text_append(text, "  memory     ");
    print_growing(text, shared_bytes + bytes->device, n_microbatches * gathered->device);
    dt_text_append(text, " + (");
    print_growing(text, bytes->scratch, n_microbatches * gathered->scratch);
    dt_text_append(text, " + ");
    print_factor(text, bytes->partial, n_microbatches * gathered->partial, "sums) * cores + ");
    print_factor(text, n_microbatches * bytes->replica + input_bytes(plan), n_microbatches * n_microbatches * gathered->replica, "V");
    dt_text_format(text, ", V replicas of %lld rows", (long long)capacity);
    if (plan->n_shards > 1) dt_text_format(text, ", all %lld shards", (long long)plan->n_shards);
    if (n_microbatches > 1) dt_text_format(text, ", in %lld microbatches of %lld", (long long)n_microbatches, (long long)plan->microbatch_rows);
    dt_text_append(text, "\n");
}

static void print_crossings(dt_text *text, const dt_plan *plan) {
    int n = 0, n_replica_segments = 0;
    int64_t bytes = 0, bytes_of_all = 0; /* all: of the rows of as many replicas as there are */
    for (int s = 0; s < plan->n_segments; s++) {
        const dt_segment *segment = &plan->segments[s];
        n_replica_segments += segment->n_replica_kernels > 0;
        n += segment->n_collectives;
        for (int c = 0; c < segment->n_collectives; c++) {
            const dt_buffer *source = &plan->buffers[segment->collectives[c].source];
            *(dt_shape_count(source->shape, DT_GATHERED) > 0 ? &bytes_of_all : &bytes) += bytes_at_capacity(plan, source);
        }
    }
    if (n == 0) {
        dt_text_append(text, "  crossing   nothing crosses replicas\n");
        return;
    }
    dt_text_format(text, "  crossing   %d value%s, ", n, dt_plural(n));
    print_growing(text, bytes, bytes_of_all);
    dt_text_format(text, " a replica, in %d segment%s: ", plan->n_segments, dt_plural(plan->n_segments));
    if (n_replica_segments <= 1)
        dt_text_append(text, "a device accumulates over its replicas, one after the other\n");
    else
        dt_text_format(text, "lockstep, all replicas finish a segment before the next (%d segments with rows)\n", n_replica_segments);
    int width = bytes_of_all > 0 ? (int)strlen("reduce_scatter") : (int)strlen("all_reduce");
    for (int s = 0; s < plan->n_segments; s++)
        for (int c = 0; c < plan->segments[s].n_collectives; c++) {
            const dt_collective *collective = &plan->segments[s].collectives[c];
            const char *combiner = collective->combiner != DT_COMBINE_NONE ? dt_combiner_name(collective->combiner) : "";
            dt_text_format(text, "             %-*s %-6s ", width, dt_collective_names()[collective->kind], combiner);
            dt_shape_print(text, plan->buffers[collective->source].dtype, plan->buffers[collective->source].shape);
            dt_text_format(text, "  %s\n", collective->label ? collective->label : plan->buffers[collective->source].name);
        }
}

/* "; 5 products in bf16", where factors are rounded. */
static void print_precisions(dt_text *text, const dt_function *function) {
    for (int p = DT_PRECISION_F32 + 1; p < DT_N_PRECISIONS; p++) {
        const char *name = dt_precision_name((dt_precision)p);
        int n = 0;
        for (const dt_value *value = function->first; value != NULL; value = value->next)
            n += dt_op_attribute_index(value->op, "precision") >= 0 && strcmp(dt_value_string(value, "precision"), name) == 0;
        if (n > 0) dt_text_format(text, "; %d product%s in %s", n, dt_plural(n), name);
    }
}

/* Of a step: as it is written, and without what `shrink` finds that nobody reads. */
typedef struct arithmetic {
    dt_flops as_written, read;
} arithmetic;

static void print_step(dt_text *text, const dt_compilation *compilation, const dt_step *step, arithmetic flops, int64_t shared_bytes) {
    const dt_plan *plan = plan_of(compilation, step->function);
    dt_text_format(text, "\nstep %s%s%s: %d kernel%s\n  arithmetic ", step->name, step->data ? " from " : "", step->data ? step->data : "",
                   plan->n_kernels, dt_plural(plan->n_kernels));
    dt_flops_print(text, flops.as_written);
    dt_text_append(text, ", as written");
    if (flops.read.per_row < 0.99 * flops.as_written.per_row) {
        dt_text_append(text, "; ");
        dt_flops_print(text, flops.read);
        dt_text_append(text, " of what is read");
    }
    print_precisions(text, step->function);
    dt_text_append(text, "\n");
    print_memory(text, plan, shared_bytes);
    print_crossings(text, plan);
}

/* ---- tables of which steps take rows ---- */

static void print_tables(dt_text *text, const dt_compilation *compilation) {
    const dt_module *module = compilation->module;
    if (module->row_forms.n + compilation->dense_tables.n > 0) dt_text_append(text, "\n");
    for (size_t i = 0; i < module->row_forms.n; i++) {
        const dt_row_form *form = &module->row_forms.items[i];
        dt_text_format(text, "rows         %s takes rows of %s ", form->of->name, form->table);
        dt_shape_print(text, DT_F32, dt_module_find_variable(module, form->table)->shape);
        if (form->gradient < 0)
            dt_text_append(text, "\n");
        else if (form->moves == NULL)
            dt_text_append(text, "; update by rows: yes, with equal bits\n");
        else
            dt_text_format(text, "; update by rows: only with `dtrun train --lazy-rows`, for the update of a row without a gradient %s\n",
                           form->moves);
    }
    for (size_t i = 0; i < compilation->dense_tables.n; i++)
        dt_text_format(text, "rows         %s as a whole: %s\n", compilation->dense_tables.items[i].path, compilation->dense_tables.items[i].why);
}

/* ---- what the caller keeps ---- */

/* What a summary is made of. */
typedef struct found {
    const dt_compilation *compilation;
    const arithmetic *flops; /* of each step */
    const dt_text *text;
} found;

static const char *shape_text(dt_arena *arena, dt_dtype dtype, dt_shape shape) {
    dt_text text = {.arena = arena};
    dt_shape_print(&text, dtype, shape);
    return text.data;
}

static const dtc_layer *keep_layer(dt_arena *arena, const dt_layer *layer) {
    dtc_layer *kept = DT_NEW(arena, dtc_layer);
    *kept = (dtc_layer){.path = dt_arena_string(arena, layer->path),
                        .kind = dt_arena_string(arena, layer->kind),
                        .output = shape_text(arena, layer->dtype, layer->shape),
                        .depth = layer->depth,
                        .n_parameters = layer->n_parameters,
                        .n_trainable = layer->n_trainable};
    return kept;
}

static const dtc_variable *keep_variable(dt_arena *arena, const dt_variable *variable) {
    static const char *const kinds[] = {
        [DT_VARIABLE_PARAMETER] = "parameter", [DT_VARIABLE_STATE] = "state", [DT_VARIABLE_SLOT] = "slot", [DT_VARIABLE_LAUNCH] = "launch"};
    dtc_variable *kept = DT_NEW(arena, dtc_variable);
    *kept = (dtc_variable){.path = dt_arena_string(arena, variable->path),
                           .kind = kinds[variable->kind],
                           .type = shape_text(arena, variable->dtype, variable->shape),
                           .trainable = variable->trainable,
                           .n_elements = dt_shape_elements(variable->shape, 1, 1),
                           .n_bytes = variable_bytes(variable)};
    return kept;
}

static const dtc_step *keep_step(dt_arena *arena, const dt_compilation *compilation, const dt_step *step, dt_flops flops) {
    dtc_step *kept = DT_NEW(arena, dtc_step);
    *kept = (dtc_step){.name = dt_arena_string(arena, step->name),
                       .data = step->data != NULL ? dt_arena_string(arena, step->data) : NULL,
                       .n_kernels = plan_of(compilation, step->function)->n_kernels,
                       .flops_per_row = flops.per_row,
                       .flops_per_pair = flops.per_pair,
                       .flops_per_step = flops.fixed};
    return kept;
}

static void *keep_all(dt_arena *arena, const void *context) {
    const found *found = context;
    const dt_module *module = found->compilation->module;
    size_t n_layers = module->layers.n, n_variables = module->variables.n, n_steps = module->steps.n;
    dtc_summary *summary = dt_api_kept(arena, sizeof *summary);
    const dtc_layer **layers = DT_NEW_ARRAY(arena, const dtc_layer *, n_layers);
    const dtc_variable **variables = DT_NEW_ARRAY(arena, const dtc_variable *, n_variables);
    const dtc_step **steps = DT_NEW_ARRAY(arena, const dtc_step *, n_steps);
    for (size_t i = 0; i < n_layers; i++) layers[i] = keep_layer(arena, &module->layers.items[i]);
    for (size_t i = 0; i < n_variables; i++) variables[i] = keep_variable(arena, &module->variables.items[i]);
    for (size_t i = 0; i < n_steps; i++) steps[i] = keep_step(arena, found->compilation, &module->steps.items[i], found->flops[i].as_written);
    *summary = (dtc_summary){.name = dt_arena_string(arena, module->name),
                             .text = dt_arena_string(arena, found->text->data),
                             .layers = layers,
                             .n_layers = n_layers,
                             .variables = variables,
                             .n_variables = n_variables,
                             .steps = steps,
                             .n_steps = n_steps};
    return summary;
}

void dtc_summary_free(dtc_summary *summary) { dt_api_release(summary); }

/* ---- the call ---- */

/* Arithmetic of each step, gradients included, of a copy of the program with these passes left out. */
static dt_status *count(dt_api_call *call, const dt_module *module, dt_switches off, dt_flops *flops) {
    dt_arena *arena = call->arena;
    dt_compilation copy = {.arena = arena, .off = off};
    DT_TRY(dt_module_copy(arena, module, &copy.module));
    DT_TRY(dt_api_run_passes(call, &copy, &(dt_passes_options){.stop_after = "simplify"}));
    for (size_t i = 0; i < module->steps.n; i++) flops[i] = dt_flops_of_function(arena, copy.module->steps.items[i].function);
    return NULL;
}

static dt_status *count_steps(dt_api_call *call, const dt_module *module, arithmetic *steps) {
    const dt_switches sink = 1u << DT_SWITCH_SINK;
    dt_flops *flops = DT_NEW_ARRAY(call->arena, dt_flops, module->steps.n);
    DT_TRY(count(call, module, sink | 1u << DT_SWITCH_SHRINK, flops));
    for (size_t i = 0; i < module->steps.n; i++) steps[i].as_written = flops[i];
    DT_TRY(count(call, module, sink, flops));
    for (size_t i = 0; i < module->steps.n; i++) steps[i].read = flops[i];
    return NULL;
}

static dt_status *work(dt_api_call *call, void *context) {
    dt_arena *arena = call->arena;
    dt_module *module;
    DT_TRY(dt_api_load(call, &module));
    dt_compilation compilation = {.arena = arena, .module = module};
    arithmetic *flops = DT_NEW_ARRAY(arena, arithmetic, module->steps.n);
    DT_TRY(count_steps(call, module, flops));
    dt_status *status = dt_api_run_passes(call, &compilation, &(dt_passes_options){0});
    DT_TRY(dt_status_first(status, dt_api_report_warnings(call, &compilation, status == NULL)));
    dt_text text = {.arena = arena};
    print_layers(arena, &text, module);
    int64_t shared_bytes = print_parameters(&text, module);
    for (size_t i = 0; i < module->steps.n; i++) print_step(&text, &compilation, &module->steps.items[i], flops[i], shared_bytes);
    print_tables(&text, &compilation);
    return dt_api_keep(keep_all, &(found){&compilation, flops, &text}, context);
}

dt_status *dtc_summarize(const dtc_program *program, dtc_summary **summary) {
    void *made = NULL;
    dt_status *status = dt_api_run(program, work, &made);
    *summary = made;
    return status;
}
