/* stages: see the header. */
#include "runtime/about/stages.h"

/* ---- what a stage has ---- */

/* A process, of a stage, laid out with all functions, as a session is, and not allocated. */
typedef struct process {
    dt_memory_domain domain;
    dt_executor_memory memory;
} process;

static void lay_out(const dt_about_step *step, int stage, process *made, dt_arena *arena) {
    int n_shards = step->artifact->n_shards / step->mesh.axes[DT_AXIS_MODEL].n_processes;
    made->domain = (dt_memory_domain){.n_executors = 1,
                                      .n_parts = 1,
                                      .n_rounds = step->n_rounds,
                                      .stages = step->stages,
                                      .stage = stage,
                                      .n_shards = n_shards,
                                      .holds = {0, step->n_microbatches},
                                      .layout = dt_state_layout_of(step->mesh.axes[DT_AXIS_DATA], step->sharing)};
    made->memory = (dt_executor_memory){.artifact = step->artifact,
                                        .domain = &made->domain,
                                        .n_microbatches = step->n_microbatches,
                                        .n_all_microbatches = step->n_all_microbatches,
                                        .n_together = 1,
                                        .rows = step->rows};
    dt_memory_domain_lay_out(&made->domain, step->artifact, step->n_all_microbatches, DT_ALL_FUNCTIONS, arena);
    dt_executor_memory_lay_out(&made->memory, step->kind, DT_ALL_FUNCTIONS, arena);
}

/* Bytes of variables of a kind. */
static int64_t bytes_of(const dt_about_step *step, const process *of, dt_variable_kind kind) {
    int64_t bytes = 0;
    for (int v = 0; v < step->artifact->n_variables; v++) {
        const dt_artifact_variable *variable = &step->artifact->variables[v];
        if (variable->kind != kind || !dt_memory_domain_has_variable(&of->domain, v)) continue;
        bytes += dt_state_layout_share(&of->domain.layout, step->artifact, variable).n_bytes * (variable->split.groups > 0 ? of->domain.n_shards : 1);
    }
    return bytes;
}

/* Arithmetic of a kernel for a row, of as many shards as a process has. */
static double flops_of(const dt_about_step *step, const dt_artifact_kernel *kernel) {
    int n_shards = kernel->sharded ? step->artifact->n_shards / step->mesh.axes[DT_AXIS_MODEL].n_processes : 1;
    return kernel->flops.per_row * n_shards * (double)dt_artifact_runs(&step->artifact->functions[step->function], kernel->loop);
}

static double in_mib(int64_t bytes) { return (double)bytes / (1 << 20); }

void dt_about_memory(const dt_about_step *step, dt_text *text, dt_arena *arena) {
    process here;
    lay_out(step, 0, &here, arena);
    int64_t parameters = bytes_of(step, &here, DT_VARIABLE_PARAMETER), states = bytes_of(step, &here, DT_VARIABLE_SLOT);
    int64_t all = here.domain.bytes + here.memory.bytes;
    dt_text_format(text,
                   "    a process of one core takes %.2f MiB: %.2f MiB of parameters, %.2f MiB of optimizer's states, %.2f MiB of gradients, "
                   "activations and all else\n",
                   in_mib(all), in_mib(parameters), in_mib(states), in_mib(all - parameters - states));
}

/* ---- the table ---- */

/* How long each stage computes, and all of them take, of all segments; and the most microbatches under way. */
static const dt_stage_order *sums_of(const dt_about_step *step, dt_arena *arena) {
    const dt_artifact_function *function = &step->artifact->functions[step->function];
    dt_stage_order *sums = DT_NEW_ARRAY(arena, dt_stage_order, step->stages->n);
    for (int i = 0; i < step->stages->n; i++) sums[i].n_in_flight = 1;
    for (int s = 0; s < function->n_segments; s++) {
        const dt_staged_segment *segment = &step->stages->functions[step->function].segments[s];
        const dt_stage_order *orders = dt_stage_orders(segment, step->stages->n, step->n_microbatches, arena);
        for (int i = 0; i < step->stages->n && segment->n_units > 0; i++) {
            sums[i].busy += orders[i].busy;
            sums[i].end += orders[i].end;
            if (orders[i].n_in_flight > sums[i].n_in_flight) sums[i].n_in_flight = orders[i].n_in_flight;
        }
    }
    return sums;
}

static void say_mib(dt_text *text, int width, double bytes) { dt_text_format(text, "  %*.1f MiB", width - 4, bytes / (1 << 20)); }

void dt_about_stages(const dt_about_step *step, dt_text *text, dt_arena *arena) {
    double all = 0;
    const dt_stage_order *sums = sums_of(step, arena);
    for (int s = 0; s < step->stages->n; s++) all += sums[s].busy;
    dt_text_format(text, "    %d stages, for the %d microbatches of a process\n", step->stages->n, step->n_microbatches);
    dt_text_append(text, "      stage  arithmetic    idle  under way    parameters        states     gradients  a microbatch\n");
    for (int s = 0; s < step->stages->n; s++) {
        const dt_stage_order order = sums[s];
        process here;
        lay_out(step, s, &here, arena);
        double scratch = (double)here.memory.scratch_space.stride + (double)here.domain.staged->arrival_bytes;
        double gradients = (double)here.memory.partial_space.stride * here.memory.sums.n_slots +
                           (double)here.memory.across_space.stride * here.memory.sums_across.n_slots + (double)here.domain.device_space.stride;
        dt_text_format(text, "      %5d  %8.1f %%  %5.1f %%  %9d", s, all > 0 ? 100 * order.busy / all : 0,
                       order.end > 0 ? 100 * (order.end - order.busy) / order.end : 0, order.n_in_flight);
        say_mib(text, 12, (double)bytes_of(step, &here, DT_VARIABLE_PARAMETER));
        say_mib(text, 12, (double)bytes_of(step, &here, DT_VARIABLE_SLOT));
        say_mib(text, 12, gradients);
        say_mib(text, 12, scratch);
        dt_text_append(text, "\n");
    }
}

/* ---- time ---- */

void dt_about_seconds(const dt_about_step *step, const dt_about_rates *rates, const dt_about_traffic *traffic, dt_text *text, dt_arena *arena) {
    const dt_artifact_function *function = &step->artifact->functions[step->function];
    double plain = 0, own = 0, longest = 0, latencies = traffic->within_messages + traffic->end_rounds;
    double bytes = traffic->within_bytes + traffic->end_bytes;
    if (rates->flops <= 0) return;
    for (int k = 0; k < function->n_kernels; k++) {
        const dt_artifact_kernel *kernel = &function->kernels[k];
        if (kernel->once) continue;
        plain += kernel->flops.per_row * (double)dt_artifact_runs(function, kernel->loop);
        own += flops_of(step, kernel);
    }
    longest = plain * step->n_microbatches;
    if (step->stages != NULL) {
        longest = sums_of(step, arena)[0].end;
        for (int s = 0; s < function->n_segments; s++) latencies += step->stages->functions[step->function].segments[s].n_units;
        bytes += traffic->stage_bytes * step->stages->n; /* a microbatch on its way forth and back */
    }
    double seconds = plain > 0 ? longest * own / plain * (double)step->rows.microbatch_rows / rates->flops : 0;
    double crossing = latencies * rates->latency + (rates->bandwidth > 0 ? bytes / rates->bandwidth : 0);
    dt_text_format(text, "    a step may take %.3g s: %.3g s of arithmetic%s, and %.3g s in which processes wait for messages\n", seconds + crossing,
                   seconds, step->stages != NULL ? " and idle stages" : "", crossing);
}
