/* pipeline: the order of the passes. Adding a pass is a file in passes/, its entry point in passes.h and a line here. */
#include "compiler/pipeline.h"
#include "compiler/passes/passes.h"
#include "ir/text_form.h"
#include "ir/verify.h"

#include <string.h>
#include <time.h>

typedef enum dt_pass_kind {
    ON_GRAPH,
    LOWERS,  /* makes plans of it, or asks it about them */
    ON_PLANS /* needs nothing but these */
} dt_pass_kind;

typedef struct dt_pass {
    const char *name;
    dt_pass_function run;
    dt_pass_kind kind;
    dt_switch left_with; /* the switch that leaves it out, if there is one */
} dt_pass;

static const dt_pass passes[] = {
    {"verify", dt_pass_verify, ON_GRAPH, DT_SWITCH_NONE},     /* the front end's promise */
    {"shrink", dt_pass_shrink, ON_GRAPH, DT_SWITCH_SHRINK},   /* compute only what is read; before autodiff, so that gradients are no wider */
    {"sink", dt_pass_sink, ON_GRAPH, DT_SWITCH_SINK},         /* relus, and biases, move after poolings; before autodiff, so that gradients follow */
    {"autodiff", dt_pass_autodiff, ON_GRAPH, DT_SWITCH_NONE}, /* grad becomes ops */
    {"simplify", dt_pass_simplify, ON_GRAPH, DT_SWITCH_SIMPLIFY},                /* the same with less */
    {"hoist", dt_pass_hoist, ON_GRAPH, DT_SWITCH_HOIST},                         /* products leave loops */
    {"rematerialize", dt_pass_rematerialize, ON_GRAPH, DT_SWITCH_REMATERIALIZE}, /* gradients of loops compute again what is quickly computed */
    {"shrink", dt_pass_shrink, ON_GRAPH, DT_SWITCH_SHRINK},                      /* what gradients read in part */
    {"widen", dt_pass_widen, ON_GRAPH, DT_SWITCH_NONE},                          /* f16 and bf16 are added up in f32 */
    {"partition", dt_pass_partition, ON_GRAPH, DT_SWITCH_NONE},                  /* from here on, one replica */
    {"shard", dt_pass_shard, ON_GRAPH, DT_SWITCH_NONE},                          /* from here on, one shard of it */
    {"rows", dt_pass_rows, ON_GRAPH, DT_SWITCH_ROWS},                            /* forms of steps for those who have rows of a table alone */
    {"unroll", dt_pass_unroll, ON_GRAPH, DT_SWITCH_NONE},                        /* loops that cannot stay become copies of their bodies */
    {"loops", dt_pass_loops, ON_GRAPH, DT_SWITCH_NONE},                          /* bodies hold kernels and addresses alone */
    {"fuse", dt_pass_fuse, LOWERS, DT_SWITCH_NONE},                              /* ops become kernels */
    {"schedule", dt_pass_schedule, LOWERS, DT_SWITCH_NONE},                      /* kernels get an order and tiles */
    {"turn_sums", dt_pass_turn_sums, ON_PLANS, DT_SWITCH_ZEROS},                 /* what is mostly zero becomes the operand that is listed */
    {"late_writes", dt_pass_late_writes, ON_PLANS, DT_SWITCH_NONE},              /* variables are written when their old value has been read */
    {"split_reductions", dt_pass_split_reductions, ON_PLANS, DT_SWITCH_SPLIT},   /* long reductions become partial ones, for many threads */
    {"count_once", dt_pass_count_once, ON_PLANS, DT_SWITCH_NONE},            /* of lookups that are computed several times one counts bad indices */
    {"plan_memory", dt_pass_plan_memory, ON_PLANS, DT_SWITCH_NONE},          /* buffers get offsets */
    {"share_updates", dt_pass_share_updates, LOWERS, DT_SWITCH_NONE},        /* what of an update processes may share out */
    {"order_kernels", dt_pass_order_kernels, ON_PLANS, DT_SWITCH_NONE},      /* kernels stand as they run */
    {"divide_replicas", dt_pass_divide_replicas, ON_PLANS, DT_SWITCH_PARTS}, /* kernels of a single microbatch run in parts */
    {"add_timers", dt_pass_add_timers, ON_PLANS, DT_SWITCH_NONE},            /* for --profile: where they read the clock */
};
enum {
    n_passes = sizeof passes / sizeof *passes
};

const char *dt_pass_name(int i) { return i < n_passes ? passes[i].name : NULL; }

static int find_pass(const char *name) {
    int i = 0;
    while (i < n_passes && strcmp(passes[i].name, name) != 0) i++;
    return i;
}

bool dt_pass_exists(const char *name) { return find_pass(name) < n_passes; }

double dt_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void dt_timings_add(dt_timings *timings, const char *name, double seconds) {
    if (timings == NULL || timings->n == (int)(sizeof timings->items / sizeof *timings->items)) return;
    timings->items[timings->n].name = name;
    timings->items[timings->n++].seconds = seconds;
}

void dt_timings_print(dt_text *text, const dt_timings *timings) {
    double total = 0;
    for (int i = 0; i < timings->n; i++) total += timings->items[i].seconds;
    for (int i = 0; i < timings->n; i++)
        dt_text_format(text, "%-24s %8.1f ms %5.1f %%\n", timings->items[i].name, 1e3 * timings->items[i].seconds,
                       total > 0 ? 100 * timings->items[i].seconds / total : 0);
    dt_text_format(text, "%-24s %8.1f ms\n", "total", 1e3 * total);
}

void dt_compilation_print(dt_text *text, const dt_compilation *compilation) {
    if (compilation->n_plans == 0) dt_module_print(text, compilation->module);
    for (int i = 0; i < compilation->n_plans; i++) dt_plan_print(compilation->arena, text, compilation->plans[i], NULL);
}

static dt_status *run_pass(dt_compilation *compilation, const dt_pass *pass) {
    dt_status *status = pass->run(compilation);
    DT_TRY(status != NULL && status->line > 0 ? status : dt_status_annotate(status, "pass %s", pass->name)); /* the program's place says more */
    if (pass->kind == ON_GRAPH) return dt_status_annotate(dt_verify(compilation->module), "after pass %s", pass->name);
    for (int i = 0; i < compilation->n_plans; i++) DT_TRY(dt_status_annotate(dt_plan_verify(compilation->plans[i]), "after pass %s", pass->name));
    return NULL;
}

dt_status *dt_passes_run(dt_compilation *compilation, const dt_passes_options *options) {
    for (int i = 0; i < n_passes; i++) {
        if (passes[i].left_with != DT_SWITCH_NONE && !dt_switch_is_on(compilation->off, passes[i].left_with)) continue;
        double start = dt_seconds();
        DT_TRY(run_pass(compilation, &passes[i]));
        dt_timings_add(options->timings, passes[i].name, dt_seconds() - start);
        if (options->dump_after && (strcmp(options->dump_after, "all") == 0 || strcmp(options->dump_after, passes[i].name) == 0)) {
            dt_text_format(options->dumps, "# after %s\n", passes[i].name);
            dt_compilation_print(options->dumps, compilation);
        }
        if (options->stop_after && strcmp(options->stop_after, passes[i].name) == 0) break;
    }
    return NULL;
}

dt_status *dt_passes_choose(const dt_compilation *compilation, const dt_cpu_target *target, const dt_choices **choices) {
    dt_choices *made = dt_pass_choose(compilation->arena, (const dt_plan *const *)compilation->plans, compilation->n_plans, target);
    *choices = made;
    return dt_status_annotate(dt_choices_verify(compilation->arena, made), "after pass choose");
}

dt_status *dt_passes_choose_gpu(const dt_compilation *compilation, dt_gpu_choices **choices) {
    const dt_gpu_target *target = dt_gpu_target_of(compilation->target);
    *choices = dt_pass_choose_gpu(compilation->arena, (const dt_plan *const *)compilation->plans, compilation->n_plans, target);
    return dt_status_annotate(dt_gpu_choices_verify(compilation->arena, *choices), "after pass choose_gpu");
}

dt_status *dt_pass_run_on_plans(dt_compilation *compilation, const char *name) {
    int pass = find_pass(name);
    if (pass == n_passes) return dt_error(DT_NOT_FOUND, "there is no pass \"%s\"", name);
    if (passes[pass].kind != ON_PLANS) return dt_error(DT_INVALID_ARGUMENT, "the pass %s needs the graph: run it on a graph in text form", name);
    for (int p = 0; p < compilation->n_plans; p++)
        if (compilation->plans[p]->is_placed && pass <= find_pass("plan_memory"))
            return dt_error(DT_INVALID_ARGUMENT, "memory is planned already: %s takes what --dump-after prints of a pass before plan_memory", name);
    return run_pass(compilation, &passes[pass]);
}

dt_status *dt_pass_run(dt_compilation *compilation, const char *name) {
    bool reached = false;
    for (int i = 0; i < n_passes && !reached; i++) {
        reached = strcmp(passes[i].name, name) == 0;
        if (reached || passes[i].kind != ON_GRAPH) DT_TRY(run_pass(compilation, &passes[i]));
    }
    return reached ? NULL : dt_error(DT_NOT_FOUND, "there is no pass \"%s\"", name);
}
