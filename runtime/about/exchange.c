/* exchange: what the steps of a program exchange between so many processes, and what that costs, for people. Nothing is opened and nothing is
 * run: who holds which microbatch and who sends what to whom are functions of numbers. */
#include "base/arena.h"
#include "runtime/about/about.h"
#include "runtime/comm/buckets.h"
#include "runtime/comm/microbatches.h"
#include "runtime/comm/schedule.h"
#include "runtime/data/pipeline.h"
#include "runtime/devices/spec.h"
#include "runtime/execution/memory.h"

#include <inttypes.h>
#include <limits.h>

/* A step on all processes. */
typedef struct layout {
    const dt_artifact *artifact; /* with the plans that would run */
    const dt_run_options *options;
    dt_text *text;
    dt_arena *arena;   /* of the step */
    dt_arena *scratch; /* of one schedule */
    jmp_buf guard;     /* of both */
    int64_t n_asked;   /* processes */
    int n_processes;   /* the same, where so many can share the step */
    int64_t replicas;
    dt_microbatches rows;
    int64_t n_microbatches;
} layout;

/* What crosses in one exchange. */
typedef struct image {
    int64_t n_bytes;
    int64_t row_bytes; /* of what is made of rows; else 0 */
    dt_share share;    /* of what is shared out; else {0} */
    int64_t width, at; /* the same: bytes of an element; of each share the first byte of this piece */
} image;

/* Of one exchange, or of several together; n_rounds is of each. */
typedef struct cost {
    dt_schedule_algorithm algorithm;
    int n_rounds;
    int64_t most_bytes; /* that a process sends */
    int64_t most_messages;
} cost;

/* What of a segment crosses by collectives of one kind. */
typedef struct crossing {
    int n_tensors, n_exchanges;
    int64_t n_bytes; /* of all images */
    cost cost;
} crossing;

static dt_status *renew(dt_arena **arena, jmp_buf *guard) {
    dt_arena_destroy(*arena);
    *arena = dt_arena_create();
    if (*arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for a schedule");
    dt_arena_guard(*arena, guard);
    return NULL;
}

/* ---- what crosses ---- */

/* Sums cross as wide as they are added: 16 bits as f32. */
static int64_t width_of(dt_collective_kind kind, dt_dtype dtype) {
    return (int64_t)dt_dtype_bytes(kind != DT_COLLECTIVE_ALL_GATHER ? dt_dtype_of_sums(dtype) : dtype);
}

/* ---- what it costs ---- */

static int first_microbatch(const layout *of, int process) {
    return dt_microbatches_first_of_rank(process, of->n_processes, (int)of->n_microbatches);
}

/* Processes with as many nodes and as large a share send alike where the exchange is direct: one of them is asked. */
typedef struct alike {
    int n_nodes;
    int64_t share_bytes;
} alike;

typedef DT_LIST(alike) alike_list;

static bool is_known(layout *of, alike_list *known, const dt_schedule_options *options) {
    alike here = {0, dt_schedule_share(options, options->process).n_bytes};
    dt_schedule_nodes(first_microbatch(of, options->process), first_microbatch(of, options->process + 1), of->n_microbatches, of->scratch,
                      &here.n_nodes);
    for (size_t i = 0; i < known->n; i++)
        if (known->items[i].n_nodes == here.n_nodes && known->items[i].share_bytes == here.share_bytes) return true;
    dt_list_push(of->arena, known, here);
    return false;
}

static void add_process(cost *all, const dt_schedule *schedule) {
    int64_t n_messages = 0;
    for (int r = 0; r < schedule->n_rounds; r++)
        for (int m = 0; m < schedule->rounds[r].n_messages; m++) n_messages += schedule->rounds[r].messages[m].sends;
    all->algorithm = schedule->algorithm;
    all->n_rounds = schedule->n_rounds;
    if (all->most_bytes < schedule->n_sent_bytes) all->most_bytes = schedule->n_sent_bytes;
    if (all->most_messages < n_messages) all->most_messages = n_messages;
}

/* Where the parts of the processes begin, and of a piece of what is shared out, where they end. */
static void add_parts(const layout *of, const image *image, dt_schedule_options *options) {
    int64_t *parts = DT_NEW_ARRAY(of->arena, int64_t, of->n_processes + 1), *ends = DT_NEW_ARRAY(of->arena, int64_t, of->n_processes);
    options->parts = parts;
    for (int p = 0; p <= of->n_processes && image->share.unit == 0; p++)
        parts[p] = dt_microbatches_first_row(&of->rows, first_microbatch(of, p)) * image->row_bytes;
    if (image->share.unit == 0) return;
    options->ends = ends;
    for (int p = 0; p < of->n_processes; p++) {
        int64_t n = image->n_bytes / image->width, end = dt_share_first_element(image->share, n, p + 1, of->n_processes) * image->width;
        parts[p] = dt_share_first_element(image->share, n, p, of->n_processes) * image->width + image->at;
        if (parts[p] > end) parts[p] = end;
        ends[p] = parts[p] + DT_SHARE_BYTES < end ? parts[p] + DT_SHARE_BYTES : end;
    }
}

static dt_status *cost_of(layout *of, const image *image, dt_schedule_goal goal, cost *all) {
    dt_schedule_options options = {.goal = goal, .n_processes = of->n_processes, .n_microbatches = of->n_microbatches, .n_bytes = image->n_bytes};
    alike_list known = {0};
    if (goal != DT_SCHEDULE_ALL_REDUCE) add_parts(of, image, &options);
    *all = (cost){0};
    for (; options.process < of->n_processes; options.process++) {
        DT_TRY(renew(&of->scratch, &of->guard));
        if (all->algorithm == DT_SCHEDULE_DIRECT && is_known(of, &known, &options)) continue;
        dt_schedule schedule = dt_schedule_of(&options, of->scratch);
        add_process(all, &schedule);
    }
    return NULL;
}

/* Exchanges whose costs are known. */
typedef struct known_cost {
    image image;
    cost cost;
} known_cost;

typedef DT_LIST(known_cost) known_costs;

static bool are_alike(const image *a, const image *b) {
    return a->n_bytes == b->n_bytes && a->row_bytes == b->row_bytes && a->share.unit == b->share.unit && a->share.turn == b->share.turn &&
           a->width == b->width && a->at == b->at;
}

static dt_status *add_exchange(layout *of, image image, dt_schedule_goal goal, known_costs *known, crossing *all) {
    const known_cost *found = NULL;
    for (size_t i = 0; i < known->n && found == NULL; i++)
        if (are_alike(&known->items[i].image, &image)) found = &known->items[i];
    if (found == NULL) {
        known_cost new = {.image = image};
        DT_TRY(cost_of(of, &image, goal, &new.cost));
        dt_list_push(of->arena, known, new);
        found = &known->items[known->n - 1];
    }
    all->n_exchanges++;
    if (image.share.unit == 0) all->n_bytes += image.n_bytes; /* else it is a piece of what is counted */
    all->cost.algorithm = found->cost.algorithm;
    all->cost.n_rounds = found->cost.n_rounds;
    all->cost.most_bytes += found->cost.most_bytes;
    all->cost.most_messages += found->cost.most_messages;
    return NULL;
}

/* A tensor of which each process has a share: in pieces of all shares. */
static dt_status *add_shares(layout *of, const dt_artifact_tensor *tensor, dt_collective_kind kind, dt_share share, known_costs *known,
                             crossing *all) {
    dt_schedule_goal goal = kind == DT_COLLECTIVE_ALL_GATHER ? DT_SCHEDULE_ALL_GATHER : DT_SCHEDULE_REDUCE_SCATTER;
    int64_t width = width_of(kind, tensor->dtype), n = tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype);
    int64_t most = 0;
    all->n_tensors++;
    all->n_bytes += n * width;
    for (int p = 0; p < of->n_processes; p++) {
        int64_t own = dt_share_first_element(share, n, p + 1, of->n_processes) - dt_share_first_element(share, n, p, of->n_processes);
        if (own > most) most = own;
    }
    for (int64_t at = 0; at < most * width; at += DT_SHARE_BYTES)
        DT_TRY(add_exchange(of, (image){.n_bytes = n * width, .share = share, .width = width, .at = at}, goal, known, all));
    return NULL;
}

static bool shares_out(const layout *of) { return of->options->shard_optimizer && of->n_processes > 1; }

/* What kernels of a segment have written each process its share of. */
static dt_status *add_gathers(layout *of, const dt_artifact_function *function, const dt_artifact_segment *segment, known_costs *known,
                              crossing *all) {
    for (int k = 0; k < segment->n_device_kernels && shares_out(of); k++) {
        const dt_artifact_kernel *kernel = &function->kernels[segment->device_kernels[k]];
        for (int g = 0; g < kernel->n_gathers; g++)
            DT_TRY(
                add_shares(of, &function->buffers[kernel->gathers[g].buffer].tensor, DT_COLLECTIVE_ALL_GATHER, kernel->gathers[g].share, known, all));
    }
    return NULL;
}

/* Sums cross in pieces, rows and what is shared out tensor by tensor. */
static dt_status *add_exchanges(layout *of, const dt_artifact_function *function, const dt_artifact_segment *segment, dt_collective_kind kind,
                                dt_schedule_goal goal, crossing *all) {
    known_costs known = {0};
    dt_bucket_tensor *tensors = DT_NEW_ARRAY(of->arena, dt_bucket_tensor, segment->n_collectives);
    int n_buckets;
    *all = (crossing){0};
    for (int c = 0; c < segment->n_collectives; c++) {
        const dt_artifact_collective *collective = &segment->collectives[c];
        const dt_artifact_tensor *tensor = &function->buffers[collective->source].tensor;
        int64_t n_bytes = tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype) * width_of(kind, tensor->dtype);
        if (shares_out(of) && collective->share.unit > 0) {
            if (kind == DT_COLLECTIVE_REDUCE_SCATTER) DT_TRY(add_shares(of, tensor, kind, collective->share, &known, all));
            continue;
        }
        if (collective->kind != kind) continue;
        tensors[all->n_tensors++] = (dt_bucket_tensor){.n_bytes = n_bytes, .complete_after = collective->complete_after};
        if (kind == DT_COLLECTIVE_ALL_REDUCE) continue;
        DT_TRY(add_exchange(of, (image){.n_bytes = n_bytes * of->rows.rows * of->replicas, .row_bytes = n_bytes}, goal, &known, all));
    }
    if (kind == DT_COLLECTIVE_ALL_GATHER) return add_gathers(of, function, segment, &known, all);
    if (kind != DT_COLLECTIVE_ALL_REDUCE) return NULL;
    const dt_bucket *buckets = dt_buckets_of(tensors, all->n_tensors, dt_piece_bytes(of->n_processes), of->arena, &n_buckets);
    for (int b = 0; b < n_buckets; b++)
        for (int p = 0; p < buckets[b].n_pieces; p++) DT_TRY(add_exchange(of, (image){.n_bytes = buckets[b].pieces[p].n_bytes}, goal, &known, all));
    return NULL;
}

/* ---- how processes cut the tree ---- */

/* The least and the most nodes that one of n processes has. */
static dt_status *count_nodes(layout *of, int n_processes, int *least, int *most) {
    *least = INT_MAX;
    *most = 0;
    DT_TRY(renew(&of->scratch, &of->guard));
    for (int p = 0; p < n_processes; p++) {
        int n, n_microbatches = (int)of->n_microbatches;
        dt_schedule_nodes(dt_microbatches_first_of_rank(p, n_processes, n_microbatches),
                          dt_microbatches_first_of_rank(p + 1, n_processes, n_microbatches), n_microbatches, of->scratch, &n);
        if (*least > n) *least = n;
        if (*most < n) *most = n;
    }
    return NULL;
}

/* The number of processes nearest to these, below (direction -1) or above them (1), up to a factor of two, of which each has one node; 0: none. */
static int nearest_even(const layout *of, int direction) {
    for (int n = of->n_processes + direction; n >= 1 && n <= of->n_microbatches && 2 * n >= of->n_processes && n <= 2 * of->n_processes;
         n += direction) {
        int64_t span = of->n_microbatches / n;
        if (of->n_microbatches % n == 0 && (span & (span - 1)) == 0) return n;
    }
    return 0;
}

/* The number of processes nearest to these of which none has more than *most nodes, which it makes less; 0: there is none within reach. */
static dt_status *nearest_better(layout *of, int *most, int *best) {
    enum {
        REACH = 64 /* so many more or fewer */
    };
    *best = 0;
    for (int distance = 1; distance <= REACH && 2 * distance <= of->n_processes; distance++)
        for (int n = of->n_processes - distance; n <= of->n_processes + distance && n <= of->n_microbatches; n += 2 * distance) {
            int least, most_here;
            DT_TRY(count_nodes(of, n, &least, &most_here));
            if (most_here >= *most) continue;
            *best = n;
            *most = most_here;
        }
    return NULL;
}

/* That a process has several nodes, `most` at most, each of which it sends; and of how many processes that is not so. */
static dt_status *say_odd_cuts(layout *of, int most) {
    int best, below = nearest_even(of, -1), above = nearest_even(of, 1);
    dt_text_format(of->text, "    %d processes cut the tree of sums at odd places, and one of them sends %d partial sums of everything; ",
                   of->n_processes, most);
    if (below != 0 && above != 0)
        dt_text_format(of->text, "%d or %d processes send 1 each\n", below, above);
    else if (below != 0 || above != 0)
        dt_text_format(of->text, "%d processes send 1 each\n", below != 0 ? below : above);
    else {
        DT_TRY(nearest_better(of, &most, &best));
        if (best != 0)
            dt_text_format(of->text, "%d processes send at most %d each\n", best, most);
        else
            dt_text_append(of->text, "no number of processes nearby is better\n");
    }
    return NULL;
}

/* ---- steps ---- */

static void say_bytes(dt_text *text, int width, int64_t bytes) {
    if (bytes < 10240)
        dt_text_format(text, " %*" PRId64 " B  ", width - 4, bytes);
    else if (bytes < 10240 << 10)
        dt_text_format(text, " %*.1f KiB", width - 4, (double)bytes / (1 << 10));
    else
        dt_text_format(text, " %*.1f MiB", width - 4, (double)bytes / (1 << 20));
}

/* *sums: whether any of it is summed. */
static dt_status *say_crossings(layout *of, const dt_artifact_function *function, bool *sums) {
    static const struct {
        dt_collective_kind kind;
        dt_schedule_goal goal;
    } kinds[] = {{DT_COLLECTIVE_ALL_REDUCE, DT_SCHEDULE_ALL_REDUCE},
                 {DT_COLLECTIVE_ALL_GATHER, DT_SCHEDULE_ALL_GATHER},
                 {DT_COLLECTIVE_REDUCE_SCATTER, DT_SCHEDULE_REDUCE_SCATTER}};
    static const char *const algorithms[] = {[DT_SCHEDULE_DIRECT] = "direct", [DT_SCHEDULE_HALVING] = "halving"};
    bool is_first = true;
    *sums = false;
    for (int s = 0; s < function->n_segments; s++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            crossing all;
            DT_TRY(add_exchanges(of, function, &function->segments[s], kinds[k].kind, kinds[k].goal, &all));
            if (all.n_tensors == 0) continue;
            if (is_first)
                dt_text_append(of->text,
                               "    segment  collective      tensors        bytes  exchanges  algorithm  rounds   most sent  times  messages\n");
            is_first = false;
            *sums = *sums || kinds[k].kind != DT_COLLECTIVE_ALL_GATHER;
            dt_text_format(of->text, "    %-7d  %-14s  %7d ", s, dt_collective_names()[kinds[k].kind], all.n_tensors);
            say_bytes(of->text, 12, all.n_bytes);
            dt_text_format(of->text, "  %9d  %-9s  %6d", all.n_exchanges, algorithms[all.cost.algorithm], all.cost.n_rounds);
            say_bytes(of->text, 11, all.cost.most_bytes);
            dt_text_format(of->text, "  %5.2f  %8" PRId64 "\n", all.n_bytes > 0 ? (double)all.cost.most_bytes / (double)all.n_bytes : 0,
                           all.cost.most_messages);
        }
    if (is_first) dt_text_append(of->text, "    nothing crosses processes\n");
    return NULL;
}

/* Rows of a replica: what --global-batch says, else what the step's data gives, else as many as it was compiled for. */
static dt_status *lay_out(layout *of, const dt_artifact_step *step) {
    const dt_artifact *artifact = of->artifact;
    int64_t rows = step->pipeline >= 0 ? dt_pipeline_rows(&artifact->pipelines[step->pipeline]) : artifact->capacity;
    DT_TRY(dt_run_rows(of->options, rows, &rows));
    DT_TRY(dt_session_check_shape(artifact, of->replicas, rows));
    of->rows = (dt_microbatches){rows, dt_artifact_microbatches(artifact, rows), artifact->microbatch_rows};
    of->n_microbatches = of->rows.per_replica * of->replicas;
    if (of->n_asked > of->n_microbatches)
        return dt_error(DT_INVALID_ARGUMENT,
                        "step %s: %" PRId64 " processes for %" PRId64
                        " microbatch%s: each process holds at least one; use at most --processes %" PRId64 ", or more --replicas",
                        step->name, of->n_asked, of->n_microbatches, of->n_microbatches == 1 ? "" : "es", of->n_microbatches);
    of->n_processes = (int)of->n_asked;
    return NULL;
}

/* "13 or 14". */
static void say_range(dt_text *text, int64_t least, int64_t most) {
    if (least < most) dt_text_format(text, "%" PRId64 " %s ", least, most - least == 1 ? "or" : "to");
    dt_text_format(text, "%" PRId64, most);
}

static dt_status *say_step(layout *of, const dt_artifact_step *step) {
    int least, most;
    bool sums;
    DT_TRY(renew(&of->arena, &of->guard));
    DT_TRY(lay_out(of, step));
    DT_TRY(count_nodes(of, of->n_processes, &least, &most));
    dt_text_format(of->text, "step %s: %" PRId64 " replica%s of %" PRId64 " row%s, in %" PRId64 " microbatch%s: ", step->name, of->replicas,
                   dt_plural(of->replicas), of->rows.rows, dt_plural(of->rows.rows), of->n_microbatches, of->n_microbatches == 1 ? "" : "es");
    say_range(of->text, of->n_microbatches / of->n_processes, (of->n_microbatches + of->n_processes - 1) / of->n_processes);
    dt_text_append(of->text, " a process, which leave ");
    say_range(of->text, least, most);
    dt_text_format(of->text, " partial sum%s\n", dt_plural(most));
    DT_TRY(say_crossings(of, &of->artifact->functions[step->function], &sums));
    return sums && most > 1 ? say_odd_cuts(of, most) : NULL;
}

static dt_status *say_steps(layout *of) {
    if (setjmp(of->guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the schedules of %" PRId64 " processes", of->n_asked);
    for (int i = 0; i < of->artifact->n_steps; i++) DT_TRY(say_step(of, &of->artifact->steps[i]));
    if (of->options->shard_optimizer) dt_memory_print_sharing(of->artifact, (dt_process_roles){.n_processes = of->n_processes}, true, of->text);
    return NULL;
}

dt_status *dt_about_exchange(const dt_artifact *artifact, int64_t n_processes, const dt_run_options *options, dt_text *text) {
    dt_device_spec spec;
    DT_TRY(dt_device_spec_parse(options->devices, &spec));
    DT_TRY(dt_session_program(artifact, spec.kind->is_gpu, &artifact));
    layout of = {
        .artifact = artifact, .options = options, .text = text, .n_asked = n_processes, .replicas = options->replicas != 0 ? options->replicas : 1};
    dt_status *status = say_steps(&of);
    dt_arena_destroy(of.arena);
    dt_arena_destroy(of.scratch);
    return status;
}
