/* print_summary: a plan on one screen. What runs in which order, once or once a replica, how its work is done, and what it takes. */
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/count.h"
#include "compiler/kernel/microbatches.h"
#include "compiler/kernel/view.h"
#include "ir/flops.h"

/* "4 nests, 2 tiled, 1 spread, 3 row by row": how the nests of a kernel are computed. */
static void print_form(dt_text *text, const dt_kernel_function *kernel) {
    int n_of[DT_N_ALGORITHMS] = {0}, n_in_rows = 0;
    for (int n = 0; n < kernel->n_nests; n++) {
        n_of[kernel->nests[n].algorithm]++;
        n_in_rows += kernel->nests[n].in_rows;
    }
    dt_text_format(text, "%d nest%s", kernel->n_nests, dt_plural(kernel->n_nests));
    for (int a = DT_ALGORITHM_LOOPS + 1; a < DT_N_ALGORITHMS; a++)
        if (n_of[a]) dt_text_format(text, ", %d %s", n_of[a], dt_algorithm_name((dt_algorithm)a));
    if (n_in_rows) dt_text_format(text, ", %d row by row", n_in_rows);
    if (kernel->divided) dt_text_append(text, ", divided");
}

static void print_kernel(dt_text *text, const dt_plan *plan, int k) {
    const dt_kernel_function *kernel = &plan->kernels[k];
    dt_text_format(text, "  %-8s %-40s ", kernel->update ? "update" : kernel->once ? "device" : "replica", kernel->name);
    print_form(text, kernel);
    if (kernel->loop != NULL) dt_text_format(text, ", %lld times", (long long)dt_loop_runs(kernel->loop));
    if (kernel->layer > 0) dt_text_format(text, ", layer %d", kernel->layer);
    if (kernel->n_gathers > 0) dt_text_format(text, ", gathers %d where shared out", kernel->n_gathers);
    dt_text_append(text, "\n");
}

static void print_collective(dt_text *text, const dt_plan *plan, const dt_segment *segment, const dt_collective *collective) {
    const dt_buffer *source = &plan->buffers[collective->source];
    dt_text_format(text, "  %-8s ", dt_collective_names()[collective->kind]);
    if (collective->combiner != DT_COMBINE_NONE) dt_text_format(text, "%s ", dt_combiner_name(collective->combiner));
    dt_shape_print(text, source->dtype, source->shape);
    dt_text_format(text, " %s", collective->label ? collective->label : source->name);
    if (collective->share.unit > 0) dt_text_append(text, ", each its share where shared out");
    int complete_after = dt_collective_is_within(plan, collective) ? 0 : dt_complete_after(plan, segment, collective);
    if (complete_after > 0) dt_text_format(text, ", complete after %s", plan->kernels[segment->replica_kernels[complete_after - 1]].name);
    dt_text_append(text, "\n");
}

/* What stands between two kernels is printed there. */
static void print_segment(dt_text *text, const dt_plan *plan, const dt_segment *segment) {
    for (int k = 0; k < segment->n_device_kernels; k++) print_kernel(text, plan, segment->device_kernels[k]);
    for (int k = 0; k < segment->n_replica_kernels; k++) {
        print_kernel(text, plan, segment->replica_kernels[k]);
        for (int c = 0; c < segment->n_collectives; c++) {
            const dt_collective *collective = &segment->collectives[c];
            if (!dt_collective_is_within(plan, collective) || dt_complete_after(plan, segment, collective) != k + 1) continue;
            print_collective(text, plan, segment, collective);
        }
    }
    for (int c = 0; c < segment->n_collectives; c++)
        if (!dt_collective_is_within(plan, &segment->collectives[c])) print_collective(text, plan, segment, &segment->collectives[c]);
}

static bool loop_stores_to(const dt_plan *plan, const dt_plan_loop *loop, int buffer) {
    for (int k = 0; k < plan->n_kernels; k++)
        if (dt_loop_is_within(plan->kernels[k].loop, loop) && dt_kernel_stores_to(&plan->kernels[k], buffer)) return true;
    return false;
}

/* "loop 0: 28 times 2 kernels, carries 2, stacks 7 in 2,826,240 bytes": what goes on to the next iteration, and what is kept of each, for gradients
 * as a rule; a carry whose iterations are kept, and what it becomes, are one stack. ", computes 2 again": stacks that another loop would have had to
 * keep for it. */
static void print_loop(dt_text *text, const dt_plan *plan, const dt_plan_loop *loop) {
    int n_kernels = 0, n_stacks = 0;
    int64_t bytes = 0;
    char number[32];
    for (int k = 0; k < plan->n_kernels; k++) n_kernels += plan->kernels[k].loop == loop;
    for (int b = 0; b < plan->n_buffers; b++) {
        const dt_view *view = plan->buffers[b].view;
        if (view == NULL || view->loop != loop || view->wrap > 0 || !loop_stores_to(plan, loop, b)) continue;
        n_stacks++;
        if (plan->buffers[view->of].view == NULL) bytes += plan->buffers[b].bytes; /* of its root */
    }
    dt_text_format(text, " loop %d: %lld times %d kernel%s, carries %d, stacks %d", loop->number, (long long)loop->trips, n_kernels,
                   dt_plural(n_kernels), loop->n_carries, n_stacks);
    if (bytes > 0) dt_text_format(text, " in %s bytes", dt_text_with_commas(bytes, number));
    if (loop->remade > 0) dt_text_format(text, ", computes %lld again", (long long)loop->remade);
    dt_text_append(text, "\n");
}

/* What the kernels do; of what one does for a microbatch, each row of a full one has its share. */
static dt_flops flops_of_kernels(dt_arena *arena, const dt_plan *plan) {
    dt_flops flops = {0};
    for (int k = 0; k < plan->n_kernels; k++) {
        const dt_kernel_function *kernel = &plan->kernels[k];
        dt_amount amount = dt_kernel_count_of(arena, plan, kernel).flops;
        double runs = (double)dt_loop_runs(kernel->loop);
        flops.per_row += runs * (amount.per_row + (kernel->once ? 0 : amount.fixed / (double)plan->microbatch_rows));
        flops.per_pair += runs * amount.per_pair;
        flops.fixed += kernel->once ? runs * amount.fixed : 0;
    }
    return flops;
}

/* What a space takes; "384 + 1,024 * V" where rows of all replicas are in it. */
static void print_space(dt_text *text, const dt_plan *plan, int64_t bytes, int64_t gathered, const char *what) {
    char number[32];
    int64_t n_blocks = dt_microbatches_of(plan->capacity, plan->microbatch_rows);
    dt_text_append(text, dt_text_with_commas(bytes, number));
    if (gathered > 0) dt_text_format(text, " + %s * V", dt_text_with_commas(gathered * n_blocks, number));
    dt_text_append(text, what);
}

void dt_plan_print_summary(dt_arena *arena, dt_text *text, const dt_plan *plan) {
    dt_text_format(text, "%s: %d kernel%s, %d segment%s\n", plan->name, plan->n_kernels, dt_plural(plan->n_kernels), plan->n_segments,
                   dt_plural(plan->n_segments));
    for (int s = 0; s < plan->n_segments; s++) {
        dt_text_format(text, " segment %d\n", s);
        print_segment(text, plan, &plan->segments[s]);
    }
    for (int l = 0; l < plan->n_loops; l++) print_loop(text, plan, plan->loops[l]);
    dt_text_append(text, " bytes: ");
    print_space(text, plan, plan->bytes.device, plan->gathered.device, " shared, ");
    print_space(text, plan, plan->bytes.scratch, plan->gathered.scratch, " of scratch a core, ");
    print_space(text, plan, plan->bytes.partial, plan->gathered.partial, " for each open sum, ");
    print_space(text, plan, plan->bytes.replica, plan->gathered.replica, " for each microbatch, ");
    dt_text_format(text, "%lld rows of it at most\n", (long long)plan->microbatch_rows);
    if (dt_function_role_has_rows(plan->role)) {
        dt_text_append(text, " arithmetic: ");
        dt_flops_print(text, flops_of_kernels(arena, plan));
        dt_text_append(text, ", as computed\n");
    }
    dt_text_append(text, "\n");
}
