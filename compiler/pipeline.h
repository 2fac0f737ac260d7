/* pipeline: runs the passes in order, printing, timing or stopping where asked. */
#ifndef DT_COMPILER_PIPELINE_H
#define DT_COMPILER_PIPELINE_H

#include "compiler/kernel/choices.h"
#include "compiler/kernel/compilation.h"
#include "compiler/kernel/gpu_choices.h"

/* Seconds spent in each part, in the order in which they ran: for --time-passes. */
typedef struct dt_timings {
    struct {
        const char *name;
        double seconds;
    } items[32];
    int n;
} dt_timings;
double dt_seconds(void);                                                    /* a monotonic clock */
void dt_timings_add(dt_timings *timings, const char *name, double seconds); /* NULL timings are allowed */
void dt_timings_print(dt_text *text, const dt_timings *timings);

typedef struct dt_passes_options {
    const char *dump_after; /* a pass, "all", or NULL */
    const char *stop_after; /* a pass, or NULL for all */
    dt_text *dumps;         /* where dumps go; may be NULL without dump_after */
    dt_timings *timings;    /* may be NULL */
} dt_passes_options;

/* Verifies after every pass over the graph and every pass over plans: an error then names the pass that broke the rule. */
dt_status *dt_passes_run(dt_compilation *compilation, const dt_passes_options *options);

/* Runs one pass, and before it only what it cannot do without: a pass over plans needs those that make the plan. */
dt_status *dt_pass_run(dt_compilation *compilation, const char *pass);
/* Runs one pass on plans that are all there is. DT_INVALID_ARGUMENT: it needs the graph, or memory is planned, and the pass comes before that. */
dt_status *dt_pass_run_on_plans(dt_compilation *compilation, const char *pass);

/* After all passes: what depends on the target (kernel/choices.h), for all plans. It takes its memory from the compilation's arena. */
dt_status *dt_passes_choose(const dt_compilation *compilation, const dt_cpu_target *target, const dt_choices **choices);
/* The same for the GPU that the compilation is for (kernel/gpu_choices.h). */
dt_status *dt_passes_choose_gpu(const dt_compilation *compilation, dt_gpu_choices **choices);

/* The module, or once fuse has run, its plans. */
void dt_compilation_print(dt_text *text, const dt_compilation *compilation);

const char *dt_pass_name(int i); /* of the i-th pass; NULL past the last */
bool dt_pass_exists(const char *name);

#endif
