/* fuse: turns each function into a plan.
 *
 * In:  a partitioned graph.      Out: kernels of nests over buffers, cut into segments at the collectives.
 *
 * A value is in memory or it is computed where it is used. In memory are inputs, variables, what collectives deliver, what reduces or scatters,
 * and what would cost too much to compute more than once; all else disappears into the nests of its users. */
#include "compiler/kernel/lower.h"
#include "compiler/kernel/nest.h"
#include "compiler/passes/passes.h"

#include <ctype.h>
#include <string.h>

typedef struct dt_unit { /* one cluster and the kernel that it goes to */
    dt_cluster cluster;
    int segment;
    bool once;
} dt_unit;

typedef struct dt_fusion {
    dt_compilation *compilation;
    dt_arena *arena;
    dt_lowering *lowering;
    dt_plan *plan;
    DT_LIST(dt_unit) units;
    int *segments; /* [next_id] the segment in which a value in memory is there; 0 before any */
    DT_LIST(const dt_value *) collectives;
    DT_LIST(int) sources; /* [collectives] buffers */
} dt_fusion;

/* ---- buffers ---- */

static int variable_index(const dt_fusion *f, const dt_value *value) {
    const dt_module *module = f->compilation->module;
    const dt_variable *variable = dt_module_find_variable(module, dt_value_string(value, "variable"));
    return (int)(variable - module->variables.items);
}

static int buffer_of_variable(dt_fusion *f, int variable) {
    for (int b = 0; b < f->plan->n_buffers; b++)
        if (f->plan->buffers[b].space == DT_SPACE_VARIABLE && f->plan->buffers[b].variable == variable) return b;
    const dt_variable *row = &f->compilation->module->variables.items[variable];
    return dt_plan_add_buffer(f->arena, f->plan, (dt_buffer){row->path, DT_SPACE_VARIABLE, row->dtype, row->shape, variable, -1, 0, 0});
}

/* Whether every replica computes the same: then a device does it once. */
static bool is_once(const dt_fusion *f, const dt_value *value) {
    return value->distribution.kind == DT_REPLICATED || f->plan->function->kind != DT_FUNCTION_STEP;
}

static int new_buffer(dt_fusion *f, const dt_value *value, const char *suffix) {
    dt_space space = is_once(f, value) ? DT_SPACE_DEVICE : DT_SPACE_SCRATCH;
    const char *name = dt_arena_format(f->arena, "%%%d%s", value->id, suffix);
    return dt_plan_add_buffer(f->arena, f->plan, (dt_buffer){name, space, value->dtype, value->shape, -1, -1, 0, 0});
}

static int *buffer_slot(dt_fusion *f, const dt_value *value) { return &f->lowering->buffers[value->id]; }

/* ---- units ---- */

/* The latest segment among what `value` is computed from, through everything that is not in memory itself. */
static int segment_of(dt_fusion *f, const dt_value *value, bool inside) {
    if (!inside && *buffer_slot(f, value) >= 0) return f->segments[value->id];
    int segment = 0;
    for (int k = 0; k < value->n_operands; k++) {
        int of_operand = segment_of(f, value->operands[k], false);
        if (of_operand > segment) segment = of_operand;
    }
    return segment;
}

static bool is_root(dt_fusion *f, const dt_value *value) {
    const dt_loops *loops = dt_lowering_loops(f->lowering, value);
    return loops != NULL && (loops->combiner != DT_COMBINE_NONE || loops->result != NULL);
}

/* A unit that leaves `value` in `buffer`; computed there unless it is in memory already. */
static void add_unit(dt_fusion *f, const dt_value *value, int buffer, bool computes) {
    dt_unit unit = {.cluster = {.space = value->shape}, .once = is_once(f, value), .segment = segment_of(f, value, computes)};
    if (computes && is_root(f, value)) dt_list_push(f->arena, &unit.cluster.roots, value);
    else if (computes) dt_list_push(f->arena, &unit.cluster.members, value);
    dt_output output = {value, buffer};
    dt_list_push(f->arena, &unit.cluster.outputs, output);
    dt_list_push(f->arena, &f->units, unit);
    if (computes) f->segments[value->id] = unit.segment;
}

static bool computed_memory(const dt_value *value) {
    while (dt_value_is_alias(value)) value = value->operands[0];
    return value->op->loops != NULL;
}

/* Memory that no later write changes and that lies where the runtime looks for it: the value's own, or a copy. */
static int lasting_buffer(dt_fusion *f, const dt_value *value) {
    if (computed_memory(value) || value->op->class == DT_CLASS_COLLECTIVE) return *buffer_slot(f, value);
    int copy = new_buffer(f, value, " copy");
    add_unit(f, value, copy, false);
    return copy;
}

static void fuse_state(dt_fusion *f, const dt_value *value) {
    int variable = variable_index(f, value);
    if (value->n_operands == 0) *buffer_slot(f, value) = buffer_of_variable(f, variable);
    else add_unit(f, value->operands[0], buffer_of_variable(f, variable), false);
}

static void fuse_collective(dt_fusion *f, const dt_value *value) {
    int source = lasting_buffer(f, value->operands[0]);
    *buffer_slot(f, value) = new_buffer(f, value, "");
    f->segments[value->id] = segment_of(f, value->operands[0], false) + 1;
    dt_list_push(f->arena, &f->collectives, value);
    dt_list_push(f->arena, &f->sources, source);
}

static void fuse_value(dt_fusion *f, const dt_value *value, int n_inputs) {
    if (value->op->class == DT_CLASS_STATE) fuse_state(f, value);
    else if (value->op->class == DT_CLASS_COLLECTIVE) fuse_collective(f, value);
    else if (dt_value_is_alias(value)) {
        *buffer_slot(f, value) = *buffer_slot(f, value->operands[0]);
        f->segments[value->id] = f->segments[value->operands[0]->id];
    } else if (value->op->loops == NULL) {
        const char *name = value->name ? value->name : dt_arena_format(f->arena, "%%%d", value->id);
        *buffer_slot(f, value) = dt_plan_add_buffer(f->arena, f->plan, (dt_buffer){name, DT_SPACE_INPUT, value->dtype, value->shape, -1, n_inputs, 0, 0});
    } else {
        int buffer = new_buffer(f, value, "");
        *buffer_slot(f, value) = buffer;
        add_unit(f, value, buffer, true);
    }
}

/* ---- kernels and segments ---- */

static const char *kernel_name(dt_fusion *f, int number, const dt_cluster *cluster) {
    char *name = dt_arena_format(f->arena, "%s_%d_%s", f->plan->function->name, number, cluster->outputs.items[0].value->op->name);
    for (char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return name;
}

static dt_kernel_function make_kernel(dt_fusion *f, int number, const dt_unit *unit) {
    dt_kernel_function kernel = {.name = kernel_name(f, number, &unit->cluster), .once = unit->once};
    const dt_cluster *cluster = &unit->cluster;
    const dt_loops *loops = cluster->roots.n > 0 ? dt_lowering_loops(f->lowering, cluster->roots.items[0]) : NULL;
    if (loops != NULL && loops->result != NULL) {
        dt_nest zero = dt_lower_zero(f->lowering, &kernel, cluster->outputs.items[0].buffer);
        dt_kernel_insert_nest(f->arena, &kernel, 0, zero);
    }
    dt_nest nest = dt_lower_cluster(f->lowering, &kernel, cluster, &DT_LAYOUT_PLAIN);
    dt_kernel_insert_nest(f->arena, &kernel, kernel.n_nests, nest);
    for (size_t o = 0; o < cluster->outputs.n; o++) kernel.update |= f->plan->buffers[cluster->outputs.items[o].buffer].space == DT_SPACE_VARIABLE;
    return kernel;
}

static dt_combiner combiner_of(const dt_value *collective) {
    static const dt_combiner combiners[] = {DT_COMBINE_SUM, DT_COMBINE_PRODUCT, DT_COMBINE_MAX, DT_COMBINE_MIN};
    if (dt_op_attribute_index(collective->op, "kind") < 0) return DT_COMBINE_NONE;
    for (size_t i = 0; i < sizeof combiners / sizeof *combiners; i++)
        if (strcmp(dt_combiner_name(combiners[i]), dt_value_string(collective, "kind")) == 0) return combiners[i];
    return DT_COMBINE_NONE;
}

static void cut_segments(dt_fusion *f) {
    dt_plan *plan = f->plan;
    for (size_t u = 0; u < f->units.n; u++)
        if (f->units.items[u].segment >= plan->n_segments) plan->n_segments = f->units.items[u].segment + 1;
    for (size_t c = 0; c < f->collectives.n; c++)
        if (f->segments[f->collectives.items[c]->id] > plan->n_segments) plan->n_segments = f->segments[f->collectives.items[c]->id];
    plan->segments = DT_NEW_ARRAY(f->arena, dt_segment, plan->n_segments);
    for (int s = 0; s < plan->n_segments; s++) {
        dt_segment *segment = &plan->segments[s];
        segment->device_kernels = DT_NEW_ARRAY(f->arena, int, f->units.n);
        segment->replica_kernels = DT_NEW_ARRAY(f->arena, int, f->units.n);
        segment->collectives = DT_NEW_ARRAY(f->arena, dt_collective, f->collectives.n);
        for (size_t u = 0; u < f->units.n; u++) {
            if (f->units.items[u].segment != s) continue;
            if (f->units.items[u].once) segment->device_kernels[segment->n_device_kernels++] = (int)u;
            else segment->replica_kernels[segment->n_replica_kernels++] = (int)u;
        }
        for (size_t c = 0; c < f->collectives.n; c++) {
            const dt_value *value = f->collectives.items[c];
            if (f->segments[value->id] != s + 1) continue;
            const char *label = value->name ? value->name : dt_arena_format(f->arena, "%%%d", value->id);
            segment->collectives[segment->n_collectives++] =
                (dt_collective){value->op->name, combiner_of(value), f->sources.items[c], *buffer_slot(f, value), label};
        }
    }
}

static dt_status *fuse_function(dt_compilation *compilation, dt_function *function, dt_plan **result) {
    dt_arena *arena = compilation->arena;
    dt_plan *plan = DT_NEW(arena, dt_plan);
    plan->function = function;
    dt_fusion f = {.compilation = compilation, .arena = arena, .plan = plan, .lowering = dt_lowering_create(compilation, plan)};
    f.segments = DT_NEW_ARRAY(arena, int, function->next_id);
    int n_inputs = 0;
    for (dt_value *value = function->first; value != NULL; value = value->next) {
        fuse_value(&f, value, n_inputs);
        n_inputs += value->op->loops == NULL && value->op->class == DT_CLASS_SOURCE;
    }
    plan->results = DT_NEW_ARRAY(arena, int, function->results.n);
    for (size_t r = 0; r < function->results.n; r++) plan->results[r] = lasting_buffer(&f, function->results.items[r].value);
    plan->n_kernels = (int)f.units.n;
    plan->kernels = DT_NEW_ARRAY(arena, dt_kernel_function, f.units.n);
    for (size_t u = 0; u < f.units.n; u++) plan->kernels[u] = make_kernel(&f, (int)u, &f.units.items[u]);
    cut_segments(&f);
    *result = plan;
    return f.lowering->status;
}

dt_status *dt_pass_fuse(dt_compilation *compilation) {
    dt_module *module = compilation->module;
    compilation->plans = DT_NEW_ARRAY(compilation->arena, dt_plan *, module->functions.n);
    for (size_t i = 0; i < module->functions.n; i++) DT_TRY(fuse_function(compilation, module->functions.items[i], &compilation->plans[i]));
    compilation->n_plans = (int)module->functions.n;
    return NULL;
}
