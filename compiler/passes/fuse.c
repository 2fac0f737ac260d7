/* fuse: turns each function into a plan.
 *
 * In:  a partitioned graph.      Out: kernels of nests over buffers, cut into segments at the collectives.
 *
 * A value is in memory or it is computed where it is used. In memory are arguments, variables, what collectives deliver, what several nests need
 * and would be dear to compute more than once; all else disappears into the nests of its users (fuse_groups.c). Nests that go through the rows of
 * the batch together share a kernel (fuse_kernels.c). */
#include "compiler/passes/fuse.h"
#include "compiler/kernel/library.h"
#include "compiler/kernel/microbatches.h"
#include "compiler/kernel/nest.h"

#include <ctype.h>
#include <string.h>

/* ---- nests of a kernel ---- */

static void append(dt_fusion *f, dt_kernel_function *kernel, dt_nest nest) { dt_kernel_insert_nest(f->arena, kernel, kernel->n_nests, nest); }

static const dt_layout *plain_layout(dt_fusion *f) {
    dt_layout *layout = DT_NEW(f->arena, dt_layout);
    *layout = DT_LAYOUT_PLAIN;
    return layout;
}

/* The buffer that keeps the sum of root r, and whether anything else is left to be stored once the sum is complete. */
static int accumulator_of(dt_fusion *f, const dt_fusion_group *group, size_t r, bool *direct) {
    const dt_value *root = group->cluster.roots.items[r];
    for (size_t o = 0; o < group->cluster.outputs.n; o++)
        if (group->cluster.outputs.items[o].value == root && f->plan->buffers[group->cluster.outputs.items[o].buffer].space != DT_MEMORY_VARIABLE) {
            *direct = true;
            return group->cluster.outputs.items[o].buffer;
        }
    *direct = false;
    const char *name = dt_arena_format(f->arena, "%%%d/sum", root->id);
    dt_memory_space space = group->replicated ? DT_MEMORY_DEVICE : DT_MEMORY_SCRATCH;
    return dt_plan_add_buffer(f->arena, f->plan,
                              (dt_buffer){name, space, root->dtype, root->shape, .sharded = group->sharded, .variable = -1, .input = -1});
}

/* What is stored of a sum over the rows besides the sum itself, once it is complete. */
static dt_cluster *rest_of(dt_fusion *f, const dt_fusion_group *group, const int *accumulators) {
    dt_cluster *rest = DT_NEW(f->arena, dt_cluster);
    *rest = (dt_cluster){.members = group->cluster.members, .space = group->cluster.space};
    for (size_t o = 0; o < group->cluster.outputs.n; o++) {
        bool is_sum = false;
        for (size_t r = 0; r < group->cluster.roots.n; r++) is_sum |= group->cluster.outputs.items[o].buffer == accumulators[r];
        if (!is_sum) dt_list_push(f->arena, &rest->outputs, group->cluster.outputs.items[o]);
    }
    return rest;
}

/* The nest as one that a library can be asked for, if it is. */
static bool name_library(dt_fusion *f, const dt_kernel_function *kernel, dt_nest *nest) {
    dt_library_call *call = DT_NEW(f->arena, dt_library_call);
    bool can = dt_nest_library(f->lowering, kernel, nest, call);
    nest->library = can ? call : NULL;
    return can;
}

/* Whether a library's product computed the relu that is in the buffer; then it can note for the gradient where that is greater than 0. */
static bool is_relu_of_library(const dt_plan *plan, int buffer) {
    for (int k = 0; k < plan->n_kernels && plan->buffers[buffer].space == DT_MEMORY_SCRATCH; k++)
        for (int n = 0; n < plan->kernels[k].n_nests; n++) {
            const dt_library_call *call = plan->kernels[k].nests[n].library;
            if (call == NULL || call->class != DT_LIBRARY_PRODUCT || plan->kernels[k].buffers[call->product.result.argument] != buffer) continue;
            return call->product.activation == DT_LIBRARY_ACTIVATION_RELU && call->product.n_batches == 0;
        }
    return false;
}

/* The same for a nest that does more after the sum than can be read off it. The product is described as if what goes into the activation were
 * stored where its result is: both are as large, and in the same order. */
static bool name_activation(dt_fusion *f, dt_kernel_function *kernel, const dt_fusion_group *group, dt_nest *nest) {
    dt_library_call *call = DT_NEW(f->arena, dt_library_call);
    dt_epilogue epilogue;
    if (!dt_fusion_epilogue(f, group, &epilogue)) return false;
    if (epilogue.activation == DT_LIBRARY_ACTIVATION_RELU_GRADIENT && !is_relu_of_library(f->plan, epilogue.kept)) return false;
    dt_cluster *before = DT_NEW(f->arena, dt_cluster);
    *before = (dt_cluster){.roots = group->cluster.roots, .members = group->cluster.members, .space = group->cluster.space};
    dt_list_push(f->arena, &before->outputs, ((dt_output){epilogue.of, epilogue.result}));
    dt_nest product = dt_lower_cluster(f->lowering, kernel, before, plain_layout(f));
    if (!dt_nest_library_product(f->plan, kernel, &product, call)) return false;
    int kept = epilogue.kept >= 0 ? dt_kernel_argument(f->arena, kernel, epilogue.kept) : -1;
    if (!dt_library_add_activation(f->plan, kernel, epilogue.activation, kept, call)) return false;
    nest->library = call;
    return true;
}

/* Splits the nest: the sum by itself, for a library, then a nest of what follows it. False, with nothing changed: no library can do it either. */
static bool lower_split(dt_fusion *f, dt_kernel_function *kernel, const dt_fusion_group *group, bool in_rows) {
    const dt_value *root = group->cluster.roots.items[0];
    int n_buffers = f->plan->n_buffers, n_arguments = kernel->n_buffers, *of_root = &f->lowering->buffers[root->id], before = *of_root;
    bool direct;
    int sum = accumulator_of(f, group, 0, &direct);
    dt_cluster *alone = DT_NEW(f->arena, dt_cluster);
    *alone = (dt_cluster){.roots = group->cluster.roots, .space = group->cluster.space};
    dt_list_push(f->arena, &alone->outputs, ((dt_output){root, sum}));
    dt_nest nest = dt_lower_cluster(f->lowering, kernel, alone, plain_layout(f));
    if (!name_library(f, kernel, &nest)) {
        f->plan->n_buffers = n_buffers;
        kernel->n_buffers = n_arguments;
        return false;
    }
    nest.in_rows = in_rows;
    append(f, kernel, nest);
    *of_root = sum;
    nest = dt_lower_cluster(f->lowering, kernel, rest_of(f, group, &sum), plain_layout(f));
    nest.in_rows = in_rows;
    nest.note = "epilogue";
    append(f, kernel, nest);
    if (!direct) *of_root = before;
    return true;
}

/* The nest of a group as its loops stand. */
static void lower_plain(dt_fusion *f, dt_kernel_function *kernel, const dt_fusion_group *group, bool in_rows) {
    const dt_value *root = group->cluster.roots.n > 0 ? group->cluster.roots.items[0] : NULL;
    if (root != NULL && dt_lowering_loops(f->lowering, root)->result != NULL && dt_placement_of(f, root)->onto == NULL)
        append(f, kernel, dt_lower_zero(f->lowering, kernel, group->cluster.outputs.items[0].buffer));
    dt_nest nest = dt_lower_cluster(f->lowering, kernel, &group->cluster, plain_layout(f));
    bool wanted = dt_fusion_wants_library(f, group);
    if (wanted && !name_library(f, kernel, &nest) && !name_activation(f, kernel, group, &nest) &&
        dt_loops_want_split(f->plan, dt_lowering_loops(f->lowering, root)) && lower_split(f, kernel, group, in_rows))
        return;
    nest.in_rows = in_rows;
    append(f, kernel, nest);
}

/* A sum over rows is cleared before the row loop, which adds to it; what follows it is computed after the loop. */
static void lower_sum(dt_fusion *f, dt_kernel_function *kernel, const dt_fusion_group *group, int *n_before, dt_nest *after, int *n_after) {
    const dt_loops *loops = dt_lowering_loops(f->lowering, group->cluster.roots.items[0]);
    dt_layout *layout = DT_NEW(f->arena, dt_layout);
    int *accumulators = DT_NEW_ARRAY(f->arena, int, group->cluster.roots.n);
    *layout = (dt_layout){.accumulators = accumulators};
    while (loops->extents[layout->row_loop] != DT_BATCH) layout->row_loop++;
    for (size_t r = 0; r < group->cluster.roots.n; r++) {
        bool direct;
        accumulators[r] = accumulator_of(f, group, r, &direct);
        dt_kernel_insert_nest(f->arena, kernel, (*n_before)++, dt_lower_zero(f->lowering, kernel, accumulators[r]));
        if (!direct) f->lowering->buffers[group->cluster.roots.items[r]->id] = accumulators[r];
    }
    dt_nest nest = dt_lower_cluster(f->lowering, kernel, &group->cluster, layout);
    nest.in_rows = true;
    append(f, kernel, nest);
    const dt_cluster *rest = rest_of(f, group, accumulators);
    if (rest->outputs.n == 0) return;
    after[*n_after] = dt_lower_cluster(f->lowering, kernel, rest, plain_layout(f));
    after[(*n_after)++].note = "epilogue";
}

/* One nest alone needs no row loop, but for a sum of products: there the row's operands may have to be laid out first. */
bool dt_fusion_goes_by_row(const dt_fusion *f, const dt_fused_kernel *fused, const dt_fusion_group *group) {
    if (!fused->in_rows || group->rows == DT_ROWS_NONE) return false;
    return group->by_row > 0 || fused->groups.n > 1 ||
           (group->cluster.roots.n > 0 && dt_loops_are_product(dt_lowering_loops(f->lowering, group->cluster.roots.items[0])));
}

/* A sum of a factor of the product that follows it: a library may do both at once. */
static void name_bias_gradients(dt_fusion *f, dt_kernel_function *kernel) {
    for (int n = 1; n < kernel->n_nests; n++) {
        if (kernel->nests[n].library == NULL) continue;
        dt_library_call *call = DT_NEW(f->arena, dt_library_call);
        *call = *kernel->nests[n].library;
        if (!dt_library_add_bias_gradient(f->plan, kernel, &kernel->nests[n - 1], call)) continue;
        kernel->nests[n].library = call;
        kernel->nests[n - 1].beside_library = true;
    }
}

static void lower_kernel(dt_fusion *f, const dt_fused_kernel *fused, dt_kernel_function *kernel) {
    dt_nest *after = DT_NEW_ARRAY(f->arena, dt_nest, fused->groups.n);
    int n_before = 0, n_after = 0;
    for (size_t i = 0; i < fused->groups.n; i++) {
        const dt_fusion_group *group = &f->groups.items[fused->groups.items[i]];
        bool rows = dt_fusion_goes_by_row(f, fused, group);
        if (fused->in_rows && group->rows == DT_ROWS_NONE) /* after the row loop for good */
            for (; n_after > 0; n_after--) append(f, kernel, after[n_after - 1]);
        if (rows && group->rows == DT_ROWS_SUMMED)
            lower_sum(f, kernel, group, &n_before, after, &n_after);
        else
            lower_plain(f, kernel, group, rows);
    }
    for (int n = 0; n < n_after; n++) append(f, kernel, after[n]);
    if (dt_switch_is_on(f->compilation->off, DT_SWITCH_EPILOGUES)) name_bias_gradients(f, kernel);
    for (size_t i = 0; i < fused->groups.n; i++) {
        const dt_cluster *cluster = &f->groups.items[fused->groups.items[i]].cluster;
        for (size_t o = 0; o < cluster->outputs.n; o++)
            kernel->update |= f->plan->buffers[cluster->outputs.items[o].buffer].space == DT_MEMORY_VARIABLE;
    }
}

/* ---- names ---- */

static void append_name(dt_text *name, const char *word) {
    for (const char *c = word; *c; c++) dt_text_format(name, "%c", isalnum((unsigned char)*c) ? *c : '_');
}

/* "train_3_conv2d_max_pool2d": function, number, and up to three of the ops that reduce, else the first of the others. */
static const char *kernel_name(dt_fusion *f, int number, const dt_fused_kernel *fused, const dt_kernel_function *kernel) {
    dt_text name = {.arena = f->arena};
    const char *words[3];
    int n = 0;
    append_name(&name, f->plan->name);
    dt_text_format(&name, "_%d", number);
    if (kernel->update) words[n++] = "update";
    for (size_t i = 0; i < fused->groups.n && !kernel->update; i++) {
        const dt_cluster *cluster = &f->groups.items[fused->groups.items[i]].cluster;
        for (size_t r = 0; r < cluster->roots.n && n < 3; r++) {
            bool known = false;
            for (int w = 0; w < n; w++) known |= strcmp(words[w], cluster->roots.items[r]->op->name) == 0;
            if (!known) words[n++] = cluster->roots.items[r]->op->name;
        }
    }
    if (n == 0) words[n++] = f->groups.items[fused->groups.items[0]].cluster.outputs.items[0].value->op->name;
    for (int w = 0; w < n; w++) {
        dt_text_append(&name, "_");
        append_name(&name, words[w]);
    }
    return name.data;
}

/* ---- segments ---- */

static dt_combiner combiner_of(const dt_value *collective) {
    if (dt_op_attribute_index(collective->op, "kind") < 0) return DT_COMBINE_NONE;
    const char *kind = dt_value_string(collective, "kind");
    for (dt_combiner combiner = DT_COMBINE_SUM; combiner <= DT_COMBINE_MIN; combiner++)
        if (strcmp(dt_combiner_name(combiner), kind) == 0) return combiner;
    return DT_COMBINE_NONE;
}

/* Their ops are the rows of DT_COLLECTIVES. */
static dt_collective_kind kind_of(const dt_value *collective) {
    int kind = 0;
    while (strcmp(dt_collective_names()[kind], collective->op->name) != 0) kind++;
    return (dt_collective_kind)kind;
}

/* By id: what is computed from `value` and scalars alone, up to the next collective. */
static const bool *scalars_from(dt_fusion *f, const dt_value *value) {
    bool *from = DT_NEW_ARRAY(f->arena, bool, value->function->next_id);
    from[value->id] = true;
    for (const dt_value *next = value->next; next != NULL; next = next->next)
        for (int k = 0; k < next->n_operands && next->shape.rank == 0 && next->op->class != DT_CLASS_COLLECTIVE; k++)
            from[next->id] |= from[next->operands[k]->id];
    return from;
}

static const char *line_of(dt_fusion *f, const dt_value *value) {
    const dt_module *module = f->compilation->module;
    if (value->n_locations == 0 || value->locations[0].file < 0 || (size_t)value->locations[0].file >= module->files.n) return NULL;
    return dt_arena_format(f->arena, "%s:%d", module->files.items[value->locations[0].file], value->locations[0].line);
}

/* The report that a collective is for, if it sums one of a step's aggregates: "report loss, fashion_cnn.dt:23". */
static const char *report_of(dt_fusion *f, const dt_value *collective) {
    const dt_module *module = f->compilation->module;
    if (collective->shape.rank > 0) return NULL; /* an aggregate crosses as a scalar */
    const bool *from = scalars_from(f, collective);
    for (size_t s = 0; s < module->steps.n; s++) {
        const dt_step *step = &module->steps.items[s];
        for (int a = 0; step->function == collective->function && step->report != NULL && a < step->n_aggregates; a++) {
            if (!from[step->function->results.items[a].value->id]) continue;
            const dt_value *total = step->report->inputs.items[a];
            const bool *from_total = scalars_from(f, total);
            const char *line = line_of(f, total);
            for (size_t r = 0; r < step->report->results.n; r++)
                if (from_total[step->report->results.items[r].value->id])
                    return dt_arena_format(f->arena, "report %s%s%s", step->report->results.items[r].name, line != NULL ? ", " : "",
                                           line != NULL ? line : "");
        }
    }
    return NULL;
}

/* The parameter that a collective is for, if its value ends in one: "Cnn/conv2d/kernel". */
static const char *parameter_of(dt_fusion *f, const dt_value *collective) {
    const dt_placement *placement = dt_placement_of(f, collective);
    for (size_t g = 0; g < f->groups.n; g++) {
        const dt_fusion_group *group = &f->groups.items[g];
        if (group->producer != placement->producer || group->collective != NULL) continue;
        for (size_t o = group->cluster.outputs.n; o-- > 0;) {
            const dt_buffer *buffer = &f->plan->buffers[group->cluster.outputs.items[o].buffer];
            if (buffer->space != DT_MEMORY_VARIABLE) continue;
            if (f->compilation->module->variables.items[buffer->variable].kind == DT_VARIABLE_PARAMETER) return buffer->name;
        }
    }
    return NULL;
}

/* What crosses, for people: a parameter, a report, or else where in the program it comes from. */
static const char *label_of(dt_fusion *f, const dt_value *collective) {
    const char *label = collective->name;
    if (label == NULL) label = parameter_of(f, collective);
    if (label == NULL) label = report_of(f, collective);
    if (label == NULL) label = line_of(f, collective);
    return label != NULL ? label : dt_arena_format(f->arena, "%%%d", collective->id);
}

/* One alone is none. */
static void number_layers(dt_fusion *f, const dt_segment *segment) {
    const int n = segment->n_replica_kernels, *kernels = segment->replica_kernels;
    if (n == 0 || f->kernels.items[kernels[0]].layer == f->kernels.items[kernels[n - 1]].layer) return;
    for (int k = 0, layer = 1; k < n; k++) {
        layer += k > 0 && f->kernels.items[kernels[k]].layer != f->kernels.items[kernels[k - 1]].layer;
        f->plan->kernels[kernels[k]].layer = layer;
    }
}

static void cut_segments(dt_fusion *f) {
    dt_plan *plan = f->plan;
    for (size_t g = 0; g < f->groups.n; g++)
        if (f->groups.items[g].segment >= plan->n_segments) plan->n_segments = f->groups.items[g].segment + 1;
    plan->segments = DT_NEW_ARRAY(f->arena, dt_segment, plan->n_segments);
    for (int s = 0; s < plan->n_segments; s++) {
        dt_segment *segment = &plan->segments[s];
        segment->device_kernels = DT_NEW_ARRAY(f->arena, int, f->kernels.n);
        segment->replica_kernels = DT_NEW_ARRAY(f->arena, int, f->kernels.n);
        segment->collectives = DT_NEW_ARRAY(f->arena, dt_collective, f->groups.n);
        for (int k = 0; k < (int)f->kernels.n; k++) {
            if (f->kernels.items[k].segment != s) continue;
            if (f->kernels.items[k].once)
                segment->device_kernels[segment->n_device_kernels++] = k;
            else
                segment->replica_kernels[segment->n_replica_kernels++] = k;
        }
        number_layers(f, segment);
        for (size_t g = 0; g < f->groups.n; g++) {
            const dt_fusion_group *group = &f->groups.items[g];
            if (group->collective == NULL || group->segment != s) continue;
            segment->collectives[segment->n_collectives++] = (dt_collective){.kind = kind_of(group->collective),
                                                                             .combiner = combiner_of(group->collective),
                                                                             .source = group->source,
                                                                             .target = dt_fusion_buffer(f, group->collective),
                                                                             .label = label_of(f, group->collective),
                                                                             .value = (int)group->collective->id};
        }
    }
}

/* Strides are known when code is generated. So the rows of all replicas are one dimension of a value, the outermost in memory, and not two. */
static dt_status *refuse_gathered(const dt_function *function) {
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (dt_shape_count(value->shape, DT_GATHERED) >= 2)
            return dt_value_error(
                value, DT_UNIMPLEMENTED,
                "every replica would need all pairs of rows that %s makes here, and holds those of its own rows: reduce over one of "
                "the two dimensions first",
                value->op->name);
    return NULL;
}

/* Groups and kernels of `function` in a plan that holds buffers and nothing else yet; before: how it was divided before, or NULL. */
static dt_fusion divide(dt_compilation *compilation, dt_function *function, const bool *keep, const bool *recompute, const dt_fusion *before) {
    dt_arena *arena = compilation->arena;
    dt_plan *plan = DT_NEW(arena, dt_plan);
    const dt_module *module = function->module;
    *plan = (dt_plan){.name = function->name,
                      .role = function->role,
                      .n_inputs = (int)function->inputs.n,
                      .n_files = (int)module->files.n,
                      .files = module->files.items,
                      .capacity = module->capacity,
                      .microbatch_rows = compilation->microbatch_rows,
                      .n_shards = module->n_shards,
                      .batched = dt_gpu_target_of(compilation->target) != NULL,
                      .n_results = (int)function->results.n,
                      .results = DT_NEW_ARRAY(arena, dt_plan_result, function->results.n)};
    dt_lowering *lowering = dt_lowering_create(compilation, function, plan, before != NULL ? before->lowering : NULL);
    dt_fusion f = {.compilation = compilation, .arena = arena, .plan = plan, .lowering = lowering, .keep = keep, .recompute = recompute};
    f.placements = DT_NEW_ARRAY(arena, dt_placement, function->next_id);
    dt_fuse_groups(&f);
    dt_fuse_kernels(&f);
    return f;
}

static dt_status *fuse_function(dt_compilation *compilation, dt_function *function, dt_lowering **result) {
    dt_arena *arena = compilation->arena;
    DT_TRY(refuse_gathered(function));
    bool *keep = DT_NEW_ARRAY(arena, bool, function->next_id); /* what libraries read, and bools */
    bool *recompute = DT_NEW_ARRAY(arena, bool, function->next_id);
    dt_fusion f = divide(compilation, function, keep, recompute, NULL);
    if (dt_fuse_epilogues(&f, keep, recompute)) f = divide(compilation, function, keep, recompute, &f);
    while (dt_fuse_factors(&f, keep) || dt_fuse_rematerialize(&f, keep, recompute)) f = divide(compilation, function, keep, recompute, &f);
    if (dt_fuse_narrow(&f, keep)) f = divide(compilation, function, keep, recompute, &f);
    dt_fuse_keep_forms(&f);
    DT_TRY(dt_fuse_recompute(&f));
    if (f.has_layers || f.kernels.n == 0) {
        f.by_layer = true;
        f.kernels.n = 0;
        dt_fuse_kernels(&f);
    }
    for (int k = 0; k < (int)f.kernels.n; k++) {
        dt_kernel_function kernel = {.loop = f.kernels.items[k].loop, .once = f.kernels.items[k].once};
        lower_kernel(&f, &f.kernels.items[k], &kernel);
        kernel.name = kernel_name(&f, k, &f.kernels.items[k], &kernel);
        dt_plan_add_kernel(arena, f.plan, kernel);
    }
    cut_segments(&f);
    *result = f.lowering;
    return f.lowering->status;
}

dt_status *dt_pass_fuse(dt_compilation *compilation) {
    dt_module *module = compilation->module;
    compilation->microbatch_rows = dt_microbatches_choose(compilation);
    compilation->plans = DT_NEW_ARRAY(compilation->arena, dt_plan *, module->functions.n);
    compilation->lowerings = DT_NEW_ARRAY(compilation->arena, dt_lowering *, module->functions.n);
    for (size_t i = 0; i < module->functions.n; i++) {
        DT_TRY(fuse_function(compilation, module->functions.items[i], &compilation->lowerings[i]));
        compilation->plans[i] = compilation->lowerings[i]->plan;
    }
    compilation->n_plans = (int)module->functions.n;
    return NULL;
}
