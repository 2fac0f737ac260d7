/* manifest: everything that the runtime must know of a compilation, as JSON. One small function for each object of the file; the reader is the
 * runtime's, and checks each number again. */
#include "abi/version.h"
#include "compiler/artifact.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/count.h"
#include "compiler/kernel/repeats.h"
#include "compiler/kernel/view.h"
#include "compiler/manifest_library.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>

static cJSON *add_item(cJSON *array) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(array, item);
    return item;
}

/* A number of JSON is a float64: what that cannot tell from its neighbours is a string. */
static void add_integer(cJSON *object, const char *key, int64_t value) {
    char digits[24];
    if (value > -(INT64_C(1) << 53) && value < INT64_C(1) << 53) {
        cJSON_AddNumberToObject(object, key, (double)value);
    } else {
        snprintf(digits, sizeof digits, "%lld", (long long)value);
        cJSON_AddStringToObject(object, key, digits);
    }
}

static void add_integers(cJSON *object, const char *key, const int *values, int n) {
    cJSON *array = cJSON_AddArrayToObject(object, key);
    for (int i = 0; i < n; i++) cJSON_AddItemToArray(array, cJSON_CreateNumber(values[i]));
}

/* Dimensions in the order in which they lie in memory: the rows of all replicas first (dt_shape_strides). */
static void add_tensor(cJSON *object, dt_dtype dtype, dt_shape shape) {
    cJSON_AddStringToObject(object, "dtype", dt_dtype_name(dtype));
    cJSON *dims = cJSON_AddArrayToObject(object, "shape");
    for (int all_rows = 1; all_rows >= 0; all_rows--)
        for (int d = 0; d < shape.rank; d++)
            if ((shape.dims[d] == DT_GATHERED) == all_rows) cJSON_AddItemToArray(dims, cJSON_CreateNumber((double)shape.dims[d]));
}

/* ---- the program ---- */

/* Absent where everybody has all. */
static void add_share(cJSON *object, dt_share share) {
    if (share.unit == 0) return;
    cJSON *item = cJSON_AddObjectToObject(object, "share");
    add_integer(item, "unit", share.unit);
    add_integer(item, "turn", share.turn);
}

/* What the initialiser writes to a launch value, which is a constant. */
static double initial_number(const dt_module *module, const dt_variable *variable) {
    for (size_t f = 0; f < module->functions.n; f++)
        for (const dt_value *value = module->functions.items[f]->first; value != NULL; value = value->next) {
            if (!dt_value_writes(value) || strcmp(dt_value_string(value, "variable"), variable->path) != 0) continue;
            if (dt_value_is(value->operands[0], "constant")) return dt_value_number(value->operands[0], "value");
        }
    return 0;
}

static void add_split(cJSON *item, const dt_variable *variable) {
    cJSON *split = cJSON_AddObjectToObject(item, "shard");
    add_integer(split, "axis", variable->shard_axis);
    add_integer(split, "groups", variable->shard_groups);
}

static void add_variables(cJSON *root, const dt_compilation *compilation) {
    const dt_module *module = compilation->module;
    cJSON *array = cJSON_AddArrayToObject(root, "variables");
    for (size_t i = 0; i < module->variables.n; i++) {
        const dt_variable *variable = &module->variables.items[i];
        cJSON *item = add_item(array);
        cJSON_AddStringToObject(item, "path", variable->path);
        cJSON_AddStringToObject(item, "kind", dt_variable_kind_names()[variable->kind]);
        cJSON_AddBoolToObject(item, "trainable", variable->trainable);
        add_tensor(item, variable->dtype, variable->shape);
        if (module->n_shards > 1 && variable->shard_axis >= 0) add_split(item, variable);
        if (variable->kind == DT_VARIABLE_LAUNCH) cJSON_AddNumberToObject(item, "default", initial_number(module, variable));
        if (compilation->variable_shares != NULL) add_share(item, compilation->variable_shares[i]);
    }
}

/* Of what GPUs share out, which is not the same as processors: the plans differ. */
static void add_variable_shares(cJSON *object, const dt_compilation *compilation) {
    cJSON *array = NULL;
    for (size_t i = 0; i < compilation->module->variables.n; i++) {
        if (compilation->variable_shares[i].unit == 0) continue;
        if (array == NULL) array = cJSON_AddArrayToObject(object, "shares");
        cJSON *item = add_item(array);
        add_integer(item, "variable", (int64_t)i);
        add_share(item, compilation->variable_shares[i]);
    }
}

static void add_locations(cJSON *root, const dt_compilation *compilation) {
    cJSON *array = cJSON_AddArrayToObject(root, "locations");
    for (size_t i = 0; i < compilation->locations.n; i++) {
        dt_location at = compilation->locations.items[i];
        cJSON *item = add_item(array);
        cJSON_AddStringToObject(item, "file", compilation->module->files.items[at.file]);
        add_integer(item, "line", at.line);
        add_integer(item, "column", at.column);
    }
}

/* Elements of the parameters that the function writes. */
static int64_t n_trained(const dt_module *module, const dt_function *function) {
    int64_t n = 0;
    for (const dt_value *value = function->first; value != NULL; value = value->next) {
        if (!dt_value_writes(value)) continue;
        const dt_variable *variable = dt_module_find_variable(module, dt_value_string(value, "variable"));
        if (variable->kind == DT_VARIABLE_PARAMETER) n += dt_shape_elements(variable->shape, 1, 1);
    }
    return n;
}

/* Where a bad index is counted for the rows that are taken: in the step as it is. */
static int64_t location_of(const dt_compilation *compilation, dt_location at) {
    for (size_t i = 0; i < compilation->locations.n; i++) {
        dt_location other = compilation->locations.items[i];
        if (other.file == at.file && other.line == at.line && other.column == at.column) return (int64_t)i;
    }
    return -1;
}

static int variable_number(const dt_module *module, const char *path) {
    return (int)(dt_module_find_variable(module, path) - module->variables.items);
}

static void add_row_forms(cJSON *root, const dt_compilation *compilation) {
    const dt_module *module = compilation->module;
    if (module->row_forms.n == 0) return;
    cJSON_AddStringToObject(root, "row_init", module->row_init->name);
    cJSON *variables = cJSON_AddArrayToObject(root, "row_variables");
    for (size_t i = 0; i < module->row_variables.n; i++) {
        cJSON *item = add_item(variables);
        add_integer(item, "variable", variable_number(module, module->row_variables.items[i].path));
        cJSON_AddStringToObject(item, "init", module->row_variables.items[i].init->name);
    }
    cJSON *array = cJSON_AddArrayToObject(root, "row_forms");
    for (size_t i = 0; i < module->row_forms.n; i++) {
        const dt_row_form *form = &module->row_forms.items[i];
        cJSON *item = add_item(array);
        add_integer(item, "table", variable_number(module, form->table));
        add_integer(item, "location", location_of(compilation, form->location));
        cJSON_AddStringToObject(item, "of", form->of->name);
        cJSON_AddStringToObject(item, "indices", form->indices->name);
        add_integer(item, "index", form->index);
        cJSON_AddStringToObject(item, "step", form->step->name);
        add_integer(item, "rows", form->rows);
        if (form->gradient < 0) continue;
        add_integer(item, "gradient", form->gradient);
        add_integer(item, "first_number", form->first_number);
        add_integer(item, "n_numbers", form->n_numbers);
        if (form->sum != NULL) cJSON_AddStringToObject(item, "sum", form->sum->name);
        cJSON_AddStringToObject(item, "update", form->update->name);
        if (form->moves != NULL) cJSON_AddStringToObject(item, "moves", form->moves);
        cJSON *slots = cJSON_AddArrayToObject(item, "slots");
        for (size_t s = 0; s < form->slots.n; s++) cJSON_AddItemToArray(slots, cJSON_CreateNumber(variable_number(module, form->slots.items[s])));
    }
}

static void add_steps(cJSON *root, const dt_module *module) {
    cJSON *array = cJSON_AddArrayToObject(root, "steps");
    for (size_t i = 0; i < module->steps.n; i++) {
        const dt_step *step = &module->steps.items[i];
        cJSON *item = add_item(array);
        cJSON_AddStringToObject(item, "name", step->name);
        cJSON_AddStringToObject(item, "function", step->function->name);
        if (step->report) cJSON_AddStringToObject(item, "report", step->report->name);
        if (step->data) cJSON_AddStringToObject(item, "data", step->data);
        if (step->every > 0) add_integer(item, "every", step->every);
        cJSON_AddBoolToObject(item, "trains", step->trains);
        add_integer(item, "trained", n_trained(module, step->function));
        cJSON *aggregates = cJSON_AddArrayToObject(item, "aggregates");
        for (int k = 0; k < step->n_aggregates; k++) cJSON_AddItemToArray(aggregates, cJSON_CreateString(dt_aggregate_names()[step->aggregates[k]]));
        cJSON *reports = cJSON_AddArrayToObject(item, "reports");
        for (size_t r = 0; step->report && r < step->report->results.n; r++)
            cJSON_AddItemToArray(reports, cJSON_CreateString(step->report->results.items[r].name));
    }
}

static void add_argument(cJSON *array, const dt_stage_argument *argument) {
    cJSON *item = add_item(array);
    if (argument->name) cJSON_AddStringToObject(item, "name", argument->name);
    switch (argument->kind) {
    case DT_STAGE_INT: add_integer(item, "int", argument->i); break;
    case DT_STAGE_FLOAT: cJSON_AddNumberToObject(item, "float", argument->f); break;
    case DT_STAGE_STRING: cJSON_AddStringToObject(item, "string", argument->s); break;
    case DT_STAGE_FUNCTION: cJSON_AddStringToObject(item, "function", argument->s); break;
    }
}

static void add_pipelines(cJSON *root, const dt_module *module) {
    cJSON *array = cJSON_AddArrayToObject(root, "pipelines");
    for (size_t i = 0; i < module->pipelines.n; i++) {
        const dt_pipeline_declaration *pipeline = &module->pipelines.items[i];
        cJSON *item = add_item(array);
        cJSON_AddStringToObject(item, "name", pipeline->name);
        cJSON *stages = cJSON_AddArrayToObject(item, "stages");
        for (size_t s = 0; s < pipeline->stages.n; s++) {
            const dt_stage_declaration *stage = &pipeline->stages.items[s];
            cJSON *stage_item = add_item(stages);
            cJSON_AddStringToObject(stage_item, "kind", stage->kind);
            add_integer(stage_item, "line", stage->location.line);
            cJSON *arguments = cJSON_AddArrayToObject(stage_item, "arguments");
            for (size_t k = 0; k < stage->arguments.n; k++) add_argument(arguments, &stage->arguments.items[k]);
        }
    }
}

/* ---- plans ---- */

/* Positions of the buffer's axis, and bytes: `stride` from one of them to the next, `strides` from one element of the view to the next. */
static void add_view(cJSON *buffer_item, const dt_plan *plan, int b) {
    const dt_view *view = plan->buffers[b].view;
    cJSON *item = cJSON_AddObjectToObject(buffer_item, "view");
    add_integer(item, "of", view->of);
    if (view->loop != NULL) add_integer(item, "loop", view->loop->number);
    add_integer(item, "first", view->first);
    add_integer(item, "step", view->step);
    add_integer(item, "wrap", view->wrap);
    add_integer(item, "stride", dt_view_stride(plan, view));
    cJSON *array = cJSON_AddArrayToObject(item, "strides");
    int64_t element = (int64_t)dt_dtype_bytes(plan->buffers[b].dtype);
    for (int all_rows = 1; all_rows >= 0; all_rows--) /* as add_tensor */
        for (int d = 0; d < view->shape.rank; d++)
            if ((d != view->axis || view->length > 0) && (view->shape.dims[d] == DT_GATHERED) == all_rows)
                cJSON_AddItemToArray(array, cJSON_CreateNumber((double)(view->strides[d] * element)));
}

static void add_loops(cJSON *plan_item, const dt_plan *plan) {
    if (plan->n_loops == 0) return;
    cJSON *array = cJSON_AddArrayToObject(plan_item, "loops");
    for (int l = 0; l < plan->n_loops; l++) {
        cJSON *item = add_item(array);
        add_integer(item, "trips", plan->loops[l]->trips);
        if (plan->loops[l]->around != NULL) add_integer(item, "around", plan->loops[l]->around->number);
    }
}

static void add_buffers(cJSON *plan_item, const dt_plan *plan) {
    cJSON *array = cJSON_AddArrayToObject(plan_item, "buffers");
    for (int b = 0; b < plan->n_buffers; b++) {
        const dt_buffer *buffer = &plan->buffers[b];
        cJSON *item = add_item(array);
        if (buffer->name) cJSON_AddStringToObject(item, "name", buffer->name);
        cJSON_AddStringToObject(item, "space", dt_memory_space_names()[buffer->space]);
        add_tensor(item, buffer->dtype, buffer->shape);
        if (buffer->view != NULL) {
            add_view(item, plan, b);
        } else if (buffer->space == DT_MEMORY_VARIABLE) {
            add_integer(item, "variable", buffer->variable);
        } else if (buffer->space == DT_MEMORY_INPUT) {
            add_integer(item, "input", buffer->input);
        } else {
            add_integer(item, "offset", buffer->offset);
            add_integer(item, "bytes", buffer->bytes);
        }
        if (plan->buffers[dt_buffer_root(plan, b)].sharded) cJSON_AddTrueToObject(item, "sharded");
    }
}

/* How a GPU runs kernel k of plan p: one function after another. */
static void add_calls(cJSON *kernel_item, const dt_cuda_program *cuda, int p, int k) {
    cJSON *array = cJSON_AddArrayToObject(kernel_item, "calls");
    for (int i = 0; i < cuda->n_calls; i++) {
        const dt_cuda_call *call = &cuda->calls[i];
        if (call->plan != p || call->kernel != k) continue;
        cJSON *item = add_item(array);
        cJSON_AddStringToObject(item, "function", call->name);
        add_integer(item, "unit", dt_cuda_unit_of(call->source));
        add_integers(item, "arguments", call->arguments, call->n_arguments);
        add_integer(item, "threads", call->threads);
        add_integer(item, "team", call->team);
        add_integer(item, "items", call->n_items);
        if (call->library != NULL) dt_manifest_add_library(item, call->library);
    }
}

/* `cuda`: NULL, or the program that the kernels of this plan, number `p`, have become. */
/* Pairs count as those of one block with itself. */
static void add_amount(cJSON *item, const char *what, dt_amount amount, int64_t microbatch_rows) {
    char key[32];
    snprintf(key, sizeof key, "%s_per_row", what);
    cJSON_AddNumberToObject(item, key, amount.per_row + amount.per_pair * (double)microbatch_rows);
    snprintf(key, sizeof key, "%s_fixed", what);
    cJSON_AddNumberToObject(item, key, amount.fixed);
}

static void add_gathers(cJSON *kernel_item, const dt_kernel_function *kernel) {
    if (kernel->n_gathers == 0) return;
    cJSON *array = cJSON_AddArrayToObject(kernel_item, "gathers");
    for (int g = 0; g < kernel->n_gathers; g++) {
        cJSON *item = add_item(array);
        add_integer(item, "buffer", kernel->gathers[g].buffer);
        add_share(item, kernel->gathers[g].share);
    }
}

/* Of what is there once for all replicas. Absent where it is nothing. */
static void add_writes(cJSON *kernel_item, const dt_plan *plan, const dt_kernel_function *kernel) {
    cJSON *array = NULL;
    for (int a = 0; a < kernel->n_buffers; a++) {
        dt_memory_space space = plan->buffers[kernel->buffers[a]].space;
        if ((space != DT_MEMORY_VARIABLE && space != DT_MEMORY_DEVICE) || !dt_kernel_stores_to(kernel, kernel->buffers[a])) continue;
        if (array == NULL) array = cJSON_AddArrayToObject(kernel_item, "writes");
        cJSON_AddItemToArray(array, cJSON_CreateNumber(kernel->buffers[a]));
    }
}

/* A number, once. */
static void add_once(cJSON *array, int number) {
    const cJSON *item;
    cJSON_ArrayForEach(item, array) if (item->valueint == number) return;
    cJSON_AddItemToArray(array, cJSON_CreateNumber(number));
}

/* What nests [first, end) load, and what they store, by places among the kernel's buffers. */
static void add_touched(cJSON *array, const dt_kernel_function *kernel, int first, int end) {
    cJSON *item = add_item(array), *loads = cJSON_AddArrayToObject(item, "reads"), *stores = cJSON_AddArrayToObject(item, "writes");
    for (const dt_nest *nest = &kernel->nests[first]; nest < &kernel->nests[end]; nest++) {
        for (int i = 0; i < nest->n_instructions; i++)
            if (nest->instructions[i].kind == DT_INSTRUCTION_LOAD) add_once(loads, nest->instructions[i].address.buffer);
        for (int s = 0; s < nest->n_stores; s++) add_once(stores, nest->stores[s].address.buffer);
    }
}

/* What each nest of a kernel that runs once reads and writes, of those in one loop over rows together; of another kernel all of them. */
static void add_nests(cJSON *kernel_item, const dt_kernel_function *kernel) {
    cJSON *array = cJSON_AddArrayToObject(kernel_item, "nests");
    for (int n = 0, end; n < kernel->n_nests; n = end) {
        for (end = n + 1; end < kernel->n_nests && (!kernel->once || (kernel->nests[n].in_rows && kernel->nests[end].in_rows)); end++) {
        }
        add_touched(array, kernel, n, end);
    }
}

static void add_kernels(cJSON *plan_item, const dt_compilation *compilation, const dt_cuda_program *cuda, int p) {
    const dt_plan *plan = compilation->plans[p];
    cJSON *array = cJSON_AddArrayToObject(plan_item, "kernels");
    for (int k = 0; k < plan->n_kernels; k++) {
        const dt_kernel_function *kernel = &plan->kernels[k];
        cJSON *item = add_item(array);
        cJSON_AddStringToObject(item, "name", kernel->name);
        if (kernel->loop != NULL) add_integer(item, "loop", kernel->loop->number);
        if (kernel->layer > 0) add_integer(item, "layer", kernel->layer);
        cJSON_AddBoolToObject(item, "once", kernel->once);
        cJSON_AddBoolToObject(item, "divided", kernel->divided);
        if (dt_kernel_is_sharded(plan, kernel)) cJSON_AddTrueToObject(item, "sharded");
        add_integers(item, "buffers", kernel->buffers, kernel->n_buffers);
        add_writes(item, plan, kernel);
        add_nests(item, kernel);
        if (kernel->for_examples) cJSON_AddTrueToObject(item, "for_examples");
        add_gathers(item, kernel);
        dt_kernel_count count = dt_kernel_count_of(compilation->arena, plan, kernel);
        add_amount(item, "flops", count.flops, plan->microbatch_rows);
        add_amount(item, "bytes", count.bytes, plan->microbatch_rows);
        dt_text lines = {0};
        dt_kernel_lines(&lines, plan, kernel);
        if (lines.data) cJSON_AddStringToObject(item, "lines", lines.data);
        dt_text_free(&lines);
        if (cuda != NULL) add_calls(item, cuda, p, k);
    }
}

/* Whose nests they are: those with most work say it. */
static const dt_nest *main_nest(const dt_plan *plan, const dt_kernel_function *kernel, int first, int end) {
    const dt_nest *most = &kernel->nests[first];
    double most_work = -1;
    for (int n = first; n < end; n++) {
        const double work = dt_piece_work(plan, kernel, n, n + 1);
        if (work <= most_work || kernel->nests[n].layer == NULL) continue;
        most_work = work;
        most = &kernel->nests[n];
    }
    return most;
}

/* "Gpt/block_1/softmax" of "Gpt/block_1/softmax#7": without which call of the function it is. */
static void add_layer(cJSON *item, const char *layer) {
    dt_text path = {0};
    for (size_t n; layer != NULL && *layer != 0; layer += n) {
        n = strcspn(layer, "#");
        dt_text_append_bytes(&path, layer, n);
        n += strcspn(layer + n, "/");
    }
    cJSON_AddStringToObject(item, "layer", path.data != NULL ? path.data : "");
    dt_text_free(&path);
}

/* What nests [first, end) of a kernel are, which are measured together. */
static void add_timer(cJSON *array, const dt_compilation *compilation, const dt_plan *plan, int k, int first, int end) {
    const dt_kernel_function *kernel = &plan->kernels[k];
    const dt_nest *nest = main_nest(plan, kernel, first, end);
    dt_kernel_function part = *kernel;
    cJSON *item = add_item(array);
    part.nests += first;
    part.n_nests = end - first;
    const dt_kernel_count count = dt_kernel_count_of(compilation->arena, plan, &part);
    dt_text lines = {0};
    dt_kernel_lines(&lines, plan, &part);
    add_integer(item, "kernel", k);
    add_integer(item, "first", first);
    add_integer(item, "nests", end - first);
    cJSON_AddStringToObject(item, "part", kernel->update ? "update" : nest->backward ? "backward" : "forward");
    add_layer(item, nest->layer);
    cJSON_AddStringToObject(item, "lines", lines.data != NULL ? lines.data : "");
    if (nest->note != NULL) cJSON_AddStringToObject(item, "note", nest->note);
    add_amount(item, "flops", count.flops, plan->microbatch_rows);
    add_amount(item, "bytes", count.bytes, plan->microbatch_rows);
    dt_text_free(&lines);
}

/* In the order of their numbers. */
static void add_timers(cJSON *plan_item, const dt_compilation *compilation, const dt_plan *plan) {
    cJSON *array = NULL;
    for (int k = 0; k < plan->n_kernels; k++)
        for (int n = 0, first = 0; n < plan->kernels[k].n_nests; n++) {
            if (plan->kernels[k].nests[n].timer == 0) continue;
            if (array == NULL) array = cJSON_AddArrayToObject(plan_item, "timers");
            add_timer(array, compilation, plan, k, first, n + 1);
            first = n + 1;
        }
}

static dt_reduction_op reduction_op_of(dt_combiner combiner) {
    switch (combiner) {
#define X(enumerator, name, meaning)                                                                                                                 \
    case DT_COMBINE_##enumerator: return DT_REDUCTION_##enumerator;
        DT_REDUCTION_OPS(X)
#undef X
    default: assert(!"collectives combine as DT_REDUCTION_OPS says"); return DT_REDUCTION_SUM;
    }
}

static void add_segments(cJSON *plan_item, const dt_plan *plan) {
    cJSON *array = cJSON_AddArrayToObject(plan_item, "segments");
    for (int s = 0; s < plan->n_segments; s++) {
        const dt_segment *segment = &plan->segments[s];
        cJSON *item = add_item(array);
        add_integers(item, "device", segment->device_kernels, segment->n_device_kernels);
        add_integers(item, "replica", segment->replica_kernels, segment->n_replica_kernels);
        cJSON *collectives = cJSON_AddArrayToObject(item, "collectives");
        for (int c = 0; c < segment->n_collectives; c++) {
            const dt_collective *collective = &segment->collectives[c];
            cJSON *entry = add_item(collectives);
            cJSON_AddStringToObject(entry, "kind", dt_collective_names()[collective->kind]);
            if (collective->kind != DT_COLLECTIVE_ALL_GATHER)
                cJSON_AddStringToObject(entry, "combiner", dt_reduction_op_names()[reduction_op_of(collective->combiner)]);
            add_integer(entry, "source", collective->source);
            add_integer(entry, "target", collective->target);
            add_integer(entry, "complete_after", dt_complete_after(plan, segment, collective));
            add_share(entry, collective->share);
            cJSON_AddStringToObject(entry, "label", collective->label ? collective->label : plan->buffers[collective->source].name);
        }
    }
}

static void add_results(cJSON *function_item, const dt_function *function, const dt_plan *plan) {
    bool *varies = DT_NEW_ARRAY(function->module->arena, bool, function->next_id);
    dt_function_find_varying(function, varies);
    cJSON *results = cJSON_AddArrayToObject(function_item, "results");
    for (size_t r = 0; r < function->results.n; r++) {
        const dt_result *result = &function->results.items[r];
        cJSON *entry = add_item(results);
        cJSON_AddStringToObject(entry, "name", result->name);
        add_tensor(entry, result->value->dtype, result->value->shape);
        add_integer(entry, "buffer", plan->results[r].buffer);
        cJSON_AddBoolToObject(entry, "varies", varies[result->value->id]);
    }
}

static void add_space_bytes(cJSON *object, const dt_space_bytes *bytes) {
    add_integer(object, "device_bytes", bytes->device);
    add_integer(object, "replica_bytes", bytes->replica);
    add_integer(object, "partial_bytes", bytes->partial);
    add_integer(object, "scratch_bytes", bytes->scratch);
}

static void add_function(cJSON *array, const dt_compilation *compilation, const dt_cuda_program *cuda, int p) {
    const dt_function *function = compilation->module->functions.items[p];
    const dt_plan *plan = compilation->plans[p];
    cJSON *item = add_item(array);
    cJSON_AddStringToObject(item, "name", function->name);
    cJSON_AddStringToObject(item, "kind", dt_function_role_names()[function->role]);
    cJSON *inputs = cJSON_AddArrayToObject(item, "inputs");
    for (size_t i = 0; i < function->inputs.n; i++) {
        cJSON *input = add_item(inputs);
        cJSON_AddStringToObject(input, "name", function->inputs.items[i]->name);
        add_tensor(input, function->inputs.items[i]->dtype, function->inputs.items[i]->shape);
    }
    add_results(item, function, plan);
    cJSON *plan_item = cJSON_AddObjectToObject(item, "plan");
    add_space_bytes(plan_item, &plan->bytes);
    add_space_bytes(cJSON_AddObjectToObject(plan_item, "gathered"), &plan->gathered);
    add_loops(plan_item, plan);
    add_buffers(plan_item, plan);
    add_kernels(plan_item, compilation, cuda, p);
    add_timers(plan_item, compilation, plan);
    add_segments(plan_item, plan);
}

/* ---- the file ---- */

static void add_sha256(cJSON *object, const char *bytes, size_t n_bytes) {
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE];
    char hex[2 * SHA256_DIGEST_SIZE + 1];
    sha256_init(&context);
    sha256_update(&context, n_bytes, (const uint8_t *)bytes);
    sha256_digest(&context, sizeof digest, digest);
    for (size_t b = 0; b < sizeof digest; b++) snprintf(hex + 2 * b, 3, "%02x", digest[b]);
    cJSON_AddStringToObject(object, "sha256", hex);
}

static void add_texts(cJSON *root, const dt_text texts[DT_N_ARTIFACT_TEXTS]) {
    cJSON *array = cJSON_AddArrayToObject(root, "texts");
    for (int t = 0; t < DT_N_ARTIFACT_TEXTS; t++) {
        if (texts[t].n == 0) continue;
        cJSON *item = add_item(array);
        cJSON_AddStringToObject(item, "file", dt_artifact_text_names[t]);
        add_sha256(item, texts[t].data, texts[t].n);
    }
}

static void add_objects(cJSON *root, const dt_artifact_contents *contents) {
    cJSON *array = cJSON_AddArrayToObject(root, "objects");
    for (size_t i = 0; i < contents->n_objects; i++) {
        const dt_object_file *object = &contents->objects[i];
        char name[64];
        cJSON *item = add_item(array);
        cJSON_AddStringToObject(item, "level", object->level);
        if (object->cpu) cJSON_AddStringToObject(item, "cpu", object->cpu);
        cJSON_AddStringToObject(item, "file", dt_object_file_name(object, name));
        add_sha256(item, object->bytes, object->n_bytes);
    }
}

/* A function that no kernel calls. `source` -1: there is none. */
static void add_source(cJSON *cuda, const char *key, const dt_cuda_program *program, int source) {
    if (source < 0) return;
    cJSON *object = cJSON_AddObjectToObject(cuda, key);
    cJSON_AddStringToObject(object, "function", program->sources[source].name);
    add_integer(object, "unit", dt_cuda_unit_of(source));
    add_integer(object, "threads", program->sources[source].threads);
}

static void add_cuda(cJSON *root, const dt_cuda_files *cuda) {
    cJSON *object = cJSON_AddObjectToObject(root, "cuda");
    cJSON_AddStringToObject(object, "compiler", cuda->code->compiler);
    cJSON_AddStringToObject(object, "text", dt_artifact_text_names[DT_TEXT_CUDA]);
    cJSON *modules = cJSON_AddArrayToObject(object, "modules");
    for (int i = 0; i < cuda->code->n_modules; i++) {
        const dt_cuda_module *module = &cuda->code->modules[i];
        char name[64];
        cJSON *item = add_item(modules);
        cJSON_AddStringToObject(item, "architecture", module->architecture);
        add_integer(item, "unit", module->unit);
        cJSON_AddStringToObject(item, "file", dt_cuda_module_file_name(module, name));
        add_sha256(item, module->bytes, module->n_bytes);
    }
    add_source(object, "reduction", cuda->program, cuda->program->reduction);
    add_source(object, "clear_rows", cuda->program, cuda->program->clear_rows);
    add_source(object, "transpose", cuda->program, cuda->program->transpose);
    add_locations(object, cuda->compilation);
    add_variable_shares(object, cuda->compilation);
    cJSON *functions = cJSON_AddArrayToObject(object, "functions");
    for (int i = 0; i < cuda->compilation->n_plans; i++) add_function(functions, cuda->compilation, cuda->program, i);
}

static void add_hash(cJSON *root, const char *key, uint64_t hash) {
    char hex[17];
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
    cJSON_AddStringToObject(root, key, hex);
}

/* Of the program and its modules. */
static uint64_t hash_source(const dt_artifact_contents *contents) {
    uint64_t hash = dt_hash_bytes(contents->source, strlen(contents->source), DT_HASH_SEED);
    for (size_t i = 0; i < contents->n_modules; i++) hash = dt_hash_bytes(contents->modules[i], strlen(contents->modules[i]), hash);
    return hash;
}

dt_status *dt_manifest_write(dt_text *manifest, const dt_artifact_contents *contents, const dt_text texts[DT_N_ARTIFACT_TEXTS]) {
    const dt_compilation *compilation = contents->compilation;
    cJSON *root = cJSON_CreateObject();
    add_integer(root, "format", DT_ARTIFACT_FORMAT);
    cJSON_AddStringToObject(root, "compiler", contents->compiler);
    cJSON_AddStringToObject(root, "llvm", contents->llvm);
    cJSON *flags = cJSON_AddArrayToObject(root, "flags");
    for (size_t i = 0; i < contents->n_flags; i++) cJSON_AddItemToArray(flags, cJSON_CreateString(contents->flags[i]));
    add_hash(root, "source_hash", hash_source(contents));
    add_hash(root, "program_hash", dt_hash_bytes(texts[DT_TEXT_GRAPH].data, texts[DT_TEXT_GRAPH].n, DT_HASH_SEED));
    cJSON_AddStringToObject(root, "name", compilation->module->name);
    add_integer(root, "capacity", compilation->module->capacity);
    if (compilation->module->n_shards > 1) add_integer(root, "shards", compilation->module->n_shards);
    add_integer(root, "microbatch_rows", compilation->microbatch_rows);
    add_texts(root, texts);
    add_objects(root, contents);
    add_locations(root, compilation);
    add_variables(root, compilation);
    cJSON *functions = cJSON_AddArrayToObject(root, "functions");
    for (int i = 0; i < compilation->n_plans; i++) add_function(functions, compilation, NULL, i);
    if (contents->cuda != NULL) add_cuda(root, contents->cuda);
    add_steps(root, compilation->module);
    add_row_forms(root, compilation);
    add_pipelines(root, compilation->module);
    char *json = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    if (json == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory while writing the manifest");
    dt_text_append(manifest, json);
    cJSON_free(json);
    return manifest->failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory while writing the manifest") : NULL;
}
