/* exchange: what the steps of a program exchange between so many processes, and what that costs, for people: a step is lowered for each of them, as a
 * session would, in memory that nobody allocates, and what was made is counted. */
#include "base/arena.h"
#include "runtime/about/about.h"
#include "runtime/about/stages.h"
#include "runtime/comm/local/local.h"
#include "runtime/data/pipeline.h"
#include "runtime/devices/spec.h"
#include "runtime/execution/operations.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

enum {
    TO_STAGES = DT_COLLECTIVE_SHARD_REDUCE + 1, /* what stages hand on, beside the kinds of collectives */
    N_KINDS,
    FEW = 32 /* processes: all are lowered. Of more, those that are alike send the same, but for a unit an exchange, and one of them is */
};

/* What of a segment crosses by collectives of one kind. */
typedef struct crossing {
    int n_tensors, n_exchanges, n_rounds; /* rounds of each exchange */
    dt_schedule_algorithm algorithm;
    int64_t n_bytes;                   /* of all images */
    int64_t most_bytes, most_messages; /* that a process sends */
} crossing;

/* What is combined over shards where the program says so, by the process that has most microbatches. */
typedef struct place {
    const char *label; /* "gpt.dt:22" */
    dt_reduction_op combine;
    int n_times; /* of a microbatch each, or once */
    int64_t n_bytes;
} place;

/* A step on all processes. */
typedef struct layout {
    const dt_artifact *artifact; /* with the plans that would run */
    const dt_device_kind *kind;
    const dt_run_options *options;
    dt_text *text;
    dt_arena *arena;   /* of the step */
    dt_arena *scratch; /* of one process */
    dt_arena *of_stages;
    jmp_buf guard;           /* of all */
    int64_t n_asked;         /* processes */
    int over;                /* of which so many have the shards of the model, */
    int n_stages;            /* and so many its layers */
    const dt_stages *stages; /* NULL: 1 */
    int n_processes;         /* that divide the microbatches: all, or one of each of these, where so many can share the step */
    int64_t replicas;
    dt_microbatches rows;
    int64_t n_microbatches;
    int n_alike;                    /* of the model's processes: for each microbatch that is lowered there are so many, of all */
    crossing (*crossings)[N_KINDS]; /* [n_segments] */
    DT_LIST(place) places;          /* in the order of the program's run; empty: none was counted yet */
    dt_group *group;                /* of the process at hand; NULL: there is none */
} layout;

static dt_status *renew(dt_arena **arena, jmp_buf *guard) {
    dt_arena_destroy(*arena);
    *arena = dt_arena_create();
    if (*arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for a schedule");
    dt_arena_guard(*arena, guard);
    return NULL;
}

/* ---- lowering for one process ---- */

/* Nothing is written there. */
static dt_status *allocate_nothing(void *context, size_t bytes, void **memory) {
    (void)bytes;
    *memory = context;
    return NULL;
}
static void release_nothing(void *context, void *memory, size_t bytes) { (void)context, (void)memory, (void)bytes; }

static dt_status *join_group(layout *of, const dt_executor_memory *memory, const dt_mesh *mesh) {
    dt_local_hub_options options = {.n_ranks = 1,
                                    .shares_memory = of->kind->shares_memory,
                                    .first_microbatch = memory->first_microbatch,
                                    .n_microbatches = memory->n_microbatches,
                                    .n_all_microbatches = memory->n_all_microbatches,
                                    .rows = of->rows,
                                    .mesh = *mesh,
                                    .n_all_shards = of->artifact->n_shards,
                                    .allocate = allocate_nothing,
                                    .release = release_nothing,
                                    .context = of->scratch}; /* an address, of nothing */
    dt_local_hub *hub;
    DT_TRY(dt_local_hub_create(&options, &hub));
    dt_status *status = dt_local_hub_join(hub, 0, &of->group);
    dt_local_hub_release(hub);
    return status;
}

/* Of one process that divides microbatches sums stay where they are. */
static void count_tensors(const layout *of, const dt_collective_part *parts, int n, int times, crossing *crossings) {
    for (int i = 0; i < n; i++) {
        bool is_scattered = parts[i].shares != NULL && parts[i].kind == DT_COLLECTIVE_ALL_REDUCE;
        if (of->n_processes == 1 && parts[i].axis == DT_AXIS_DATA) continue;
        crossings[parts[i].axis == DT_AXIS_STAGES ? TO_STAGES : is_scattered ? DT_COLLECTIVE_REDUCE_SCATTER : parts[i].kind].n_tensors += times;
    }
}

static void count_places(layout *of, const dt_collective_part *parts, int n) {
    for (int i = 0; i < n; i++) {
        const dt_collective_part *part = &parts[i];
        size_t p = 0;
        if (part->kind != DT_COLLECTIVE_SHARD_REDUCE) continue;
        while (p < of->places.n && (strcmp(of->places.items[p].label, part->label) != 0 || of->places.items[p].combine != part->combine)) p++;
        if (p == of->places.n) {
            place none = {.label = part->label, .combine = part->combine};
            dt_list_push(of->arena, &of->places, none);
        }
        of->places.items[p].n_times += of->n_alike;
        of->places.items[p].n_bytes += of->n_alike * (int64_t)(part->n * dt_dtype_bytes(part->dtype));
    }
}

static dt_sharing sharing_of(const dt_run_options *options) { return dt_sharing_of(options->shard_optimizer, options->shard_parameters); }

static int n_rounds_of(const dt_run_options *options) { return options->gather_rounds > 0 ? (int)options->gather_rounds : 1; }

/* times: as often as there are microbatches for one that is lowered. */
static void count_exchange(const dt_exchange *exchange, int times, crossing *crossings) {
    const dt_exchange_region *last = &exchange->regions[exchange->n_regions - 1];
    crossing *one = &crossings[exchange->axis == DT_AXIS_STAGES ? TO_STAGES : exchange->kind];
    one->n_exchanges += times;
    one->algorithm = exchange->schedule.algorithm;
    one->n_rounds = exchange->schedule.n_rounds;
    if (exchange->like == NULL) one->n_bytes += times * (last->first + last->n_bytes); /* others are pieces of what is counted */
    one->most_bytes += times * exchange->schedule.n_sent_bytes;
    for (int r = 0; r < exchange->schedule.n_rounds; r++)
        for (int m = 0; m < exchange->schedule.rounds[r].n_messages; m++)
            one->most_messages += times * exchange->schedule.rounds[r].messages[m].sends;
}

static dt_status *count_collectives(layout *of, const dt_collective_part *parts, const dt_operation_collective *all, crossing *crossings) {
    dt_group_work work = {0};
    const int times = parts[all->first].member > 0 ? of->n_alike : 1;
    if (parts[all->first].hands_over) return NULL;
    DT_TRY(dt_group_lower(of->group, all->first, all->n, of->scratch, &work));
    if (work.n_buckets > 0) count_tensors(of, parts + all->first, all->n, times, crossings);
    for (int b = 0; b < work.n_buckets; b++)
        for (size_t i = 0; i < work.buckets[b].behind.n; i++) {
            const dt_operation *one = &work.buckets[b].behind.items[i];
            for (int e = 0; one->kind == DT_OPERATION_AWAIT && e < one->gate->n_exchanges; e++)
                count_exchange(one->gate->exchanges[e], times, crossings);
        }
    return NULL;
}

/* Where parts of the model are over processes, something crosses for each microbatch. Of many, a part of each process's is lowered, so that the tree
 * of sums looks the same: how many are alike. */
static int n_alike(const layout *of) {
    enum {
        ENOUGH = 8 /* for each process: more than are ever under way on a stage that is worth it */
    };
    bool crosses = of->over * of->n_stages > 1 && of->n_microbatches % of->n_processes == 0;
    int64_t n = of->n_microbatches / of->n_processes, alike = 1;
    for (int f = 0; f < of->artifact->n_functions; f++) {
        const dt_space_bytes *gathered = &of->artifact->functions[f].gathered;
        crosses = crosses && gathered->device + gathered->partial + gathered->replica + gathered->scratch == 0;
    }
    while (crosses && n / alike > ENOUGH && n % (2 * alike) == 0) alike *= 2;
    return (int)alike;
}

/* What one process does of the function. */
static dt_status *count_process(layout *of, int function, const dt_mesh *mesh, crossing (*crossings)[N_KINDS]) {
    dt_process_roles roles = mesh->axes[DT_AXIS_DATA];
    int n_all = (int)of->n_microbatches / of->n_alike, n_most = (n_all + of->n_processes - 1) / of->n_processes;
    int n_shards = of->artifact->n_shards / of->over;
    dt_microbatch_range own = dt_microbatches_of_process(roles, roles.process, n_all);
    dt_memory_domain domain = {.n_executors = 1,
                               .n_parts = 1,
                               .n_rounds = n_rounds_of(of->options),
                               .stages = of->stages,
                               .stage = mesh->axes[DT_AXIS_STAGES].process,
                               .first_shard = mesh->axes[DT_AXIS_MODEL].process * n_shards,
                               .n_shards = n_shards,
                               .holds = own,
                               .layout = dt_state_layout_of(roles, sharing_of(of->options))};
    dt_executor_memory memory = {.artifact = of->artifact,
                                 .domain = &domain,
                                 .first_microbatch = own.first,
                                 .n_microbatches = own.end - own.first,
                                 .n_all_microbatches = n_all,
                                 .n_together = 1,
                                 .rows = of->rows};
    dt_operations_options options = {.memory = &memory, .leads = true, .first_row = dt_microbatches_first_row(&of->rows, own.first)};
    int *first = DT_NEW_ARRAY(of->scratch, int, of->artifact->n_functions + 1);
    dt_memory_domain_lay_out(&domain, of->artifact, memory.n_all_microbatches, function, of->scratch);
    dt_executor_memory_lay_out(&memory, of->kind, function, of->scratch);
    const dt_collective_part *parts = dt_operations_collectives(&options, function, of->scratch, first);
    dt_operations made = dt_operations_of(&options, function, first[function], 0, of->scratch);
    if (of->places.n == 0 && own.end - own.first == n_most) count_places(of, parts + first[function], first[function + 1] - first[function]);
    DT_TRY(join_group(of, &memory, mesh));
    dt_group_publish(of->group, parts, first[of->artifact->n_functions]);
    dt_status *status = NULL;
    for (size_t i = 0; i < made.list.n && status == NULL; i++) {
        const dt_operation *one = &made.list.items[i];
        if (one->kind == DT_OPERATION_COLLECTIVE || one->kind == DT_OPERATION_START)
            status = count_collectives(of, parts, &one->collective, crossings[one->collective.segment]);
    }
    dt_group_close(of->group);
    of->group = NULL;
    return status;
}

/* ---- all processes ---- */

static void count_nodes_of(const layout *of, dt_microbatch_range own, int *n) {
    dt_schedule_nodes(own.first, own.end, of->n_microbatches, of->scratch, n);
}

typedef struct alike {
    int n_nodes, n_microbatches, stage;
} alike;

static void take_most(crossing *all, const crossing *of_process) {
    int64_t bytes = all->most_bytes, messages = all->most_messages;
    if (of_process->n_tensors >= all->n_tensors) *all = *of_process;
    if (all->most_bytes < bytes) all->most_bytes = bytes;
    if (all->most_messages < messages) all->most_messages = messages;
}

static dt_status *count_processes(layout *of, int function) {
    int n_segments = of->artifact->functions[function].n_segments;
    of->n_alike = n_alike(of);
    DT_LIST(alike) known = {0};
    of->crossings = dt_arena_new_array(of->arena, (size_t)n_segments, sizeof *of->crossings);
    for (int p = 0; p < of->n_processes * of->over * of->n_stages; p++) {
        dt_process_roles all = {.n_processes = of->n_processes * of->over * of->n_stages, .process = p};
        dt_mesh mesh = dt_mesh_of(all, of->over, of->n_stages);
        dt_microbatch_range own = dt_microbatches_of_process(mesh.axes[DT_AXIS_DATA], mesh.axes[DT_AXIS_DATA].process, (int)of->n_microbatches);
        alike here = {.n_microbatches = own.end - own.first, .stage = mesh.axes[DT_AXIS_STAGES].process};
        bool is_known = false;
        DT_TRY(renew(&of->scratch, &of->guard));
        count_nodes_of(of, own, &here.n_nodes);
        for (size_t i = 0; i < known.n; i++)
            is_known |=
                known.items[i].n_nodes == here.n_nodes && known.items[i].n_microbatches == here.n_microbatches && known.items[i].stage == here.stage;
        if (is_known && all.n_processes > FEW) continue;
        dt_list_push(of->arena, &known, here);
        crossing(*counted)[N_KINDS] = dt_arena_new_array(of->scratch, (size_t)n_segments, sizeof *counted);
        DT_TRY(count_process(of, function, &mesh, counted));
        for (int s = 0; s < n_segments; s++)
            for (int k = 0; k < N_KINDS; k++) take_most(&of->crossings[s][k], &counted[s][k]);
    }
    return NULL;
}

/* ---- how processes cut the tree ---- */

/* The least and the most nodes that one of n processes has. */
static dt_status *count_nodes(layout *of, int n_processes, int *least, int *most) {
    *least = INT_MAX;
    *most = 0;
    DT_TRY(renew(&of->scratch, &of->guard));
    for (int p = 0; p < n_processes; p++) {
        int n;
        count_nodes_of(of, dt_microbatches_of_process((dt_process_roles){.n_processes = n_processes}, p, (int)of->n_microbatches), &n);
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
    int best, over = of->over * of->n_stages, below = nearest_even(of, -1), above = nearest_even(of, 1);
    dt_text_format(of->text, "    %d processes cut the tree of sums at odd places, and one of them sends %d partial sums of everything; ",
                   of->n_processes * over, most);
    if (below != 0 && above != 0)
        dt_text_format(of->text, "%d or %d processes send 1 each\n", below * over, above * over);
    else if (below != 0 || above != 0)
        dt_text_format(of->text, "%d processes send 1 each\n", (below != 0 ? below : above) * over);
    else {
        DT_TRY(nearest_better(of, &most, &best));
        if (best != 0)
            dt_text_format(of->text, "%d processes send at most %d each\n", best * over, most);
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

static void say_crossing(dt_text *text, int segment, int kind, const crossing *all) {
    static const char *const algorithms[] = {[DT_SCHEDULE_DIRECT] = "direct", [DT_SCHEDULE_HALVING] = "halving"};
    dt_text_format(text, "    %-7d  %-14s  %7d ", segment, kind == TO_STAGES ? "to_stages" : dt_collective_names()[kind], all->n_tensors);
    say_bytes(text, 12, all->n_bytes);
    dt_text_format(text, "  %9d  %-9s  %6d", all->n_exchanges, algorithms[all->algorithm], all->n_rounds);
    say_bytes(text, 11, all->most_bytes);
    dt_text_format(text, "  %5.2f  %8" PRId64 "\n", all->n_bytes > 0 ? (double)all->most_bytes / (double)all->n_bytes : 0, all->most_messages);
}

/* Each process sends its part of what it has to the others of its group, and of what it adds up the sum: 2 (K - 1) / K of all, each way half. */
static void say_places(const layout *of) {
    if (of->places.n == 0) return;
    dt_text_format(of->text, "    over shards, in a group of %d processes%s\n      combined at           by      times        bytes         sent\n",
                   of->over, of->n_stages > 1 ? " of the first stage" : "");
    for (size_t p = 0; p < of->places.n; p++) {
        const place *one = &of->places.items[p];
        dt_text_format(of->text, "      %-20s  %-4s %8d", one->label, dt_reduction_op_names()[one->combine], one->n_times);
        say_bytes(of->text, 13, one->n_bytes);
        say_bytes(of->text, 13, 2 * one->n_bytes * (of->over - 1) / of->over);
        dt_text_append(of->text, "\n");
    }
}

/* *sums: whether any of it is summed. */
static dt_status *say_crossings(layout *of, int function, bool *sums) {
    bool is_first = true;
    *sums = false;
    DT_TRY(count_processes(of, function));
    for (int s = 0; s < of->artifact->functions[function].n_segments; s++)
        for (int k = 0; k < N_KINDS; k++) {
            if (of->crossings[s][k].n_tensors == 0) continue;
            if (is_first)
                dt_text_append(of->text,
                               "    segment  collective      tensors        bytes  exchanges  algorithm  rounds   most sent  times  messages\n");
            is_first = false;
            *sums = *sums || (k != DT_COLLECTIVE_ALL_GATHER && k != DT_COLLECTIVE_SHARD_REDUCE && k != TO_STAGES);
            say_crossing(of->text, s, k, &of->crossings[s][k]);
        }
    if (is_first) dt_text_append(of->text, "    nothing crosses processes\n");
    say_places(of);
    return NULL;
}

/* Rows of a replica: what --global-batch says, else what the step's data gives, else as many as it was compiled for. */
static dt_status *lay_out(layout *of, const dt_artifact_step *step) {
    const dt_artifact *artifact = of->artifact;
    int64_t rows = step->pipeline >= 0 ? dt_pipeline_rows(&artifact->pipelines[step->pipeline]) : artifact->capacity;
    if (rows > artifact->capacity) rows = artifact->capacity; /* it is a plan: of the most that this artifact can do */
    DT_TRY(dt_run_rows(of->options, rows, &rows));
    DT_TRY(dt_session_check_shape(artifact, of->replicas, rows));
    of->rows = (dt_microbatches){rows, dt_artifact_microbatches(artifact, rows), artifact->microbatch_rows};
    of->n_microbatches = of->rows.per_replica * of->replicas;
    if (of->n_asked / (of->over * of->n_stages) > of->n_microbatches)
        return dt_error(DT_INVALID_ARGUMENT,
                        "step %s: %" PRId64 " processes for %" PRId64
                        " microbatch%s: each process holds at least one; use at most --processes %" PRId64 ", or more --replicas",
                        step->name, of->n_asked, of->n_microbatches, of->n_microbatches == 1 ? "" : "es",
                        of->n_microbatches * of->over * of->n_stages);
    of->n_processes = (int)of->n_asked / (of->over * of->n_stages);
    return NULL;
}

/* "13 or 14". */
static void say_range(dt_text *text, int64_t least, int64_t most) {
    if (least < most) dt_text_format(text, "%" PRId64 " %s ", least, most - least == 1 ? "or" : "to");
    dt_text_format(text, "%" PRId64, most);
}

static void say_processes(layout *of, const dt_artifact_step *about) {
    const int function = about->function;
    int n_all = of->n_processes * of->over * of->n_stages, n = (int)((of->n_microbatches + of->n_processes - 1) / of->n_processes);
    dt_about_step step = {.artifact = of->artifact,
                          .stages = of->stages,
                          .function = function,
                          .mesh = dt_mesh_of((dt_process_roles){.n_processes = n_all}, of->over, of->n_stages),
                          .sharing = sharing_of(of->options),
                          .n_rounds = n_rounds_of(of->options),
                          .kind = of->kind,
                          .rows = of->rows,
                          .n_microbatches = n,
                          .n_all_microbatches = (int)of->n_microbatches};
    dt_about_rates rates = {of->options->flops, of->options->bandwidth, of->options->latency};
    dt_about_traffic traffic = {0};
    for (int s = 0; s < of->artifact->functions[function].n_segments; s++)
        for (int k = 0; k < N_KINDS; k++) {
            const crossing *one = &of->crossings[s][k];
            if (k == DT_COLLECTIVE_SHARD_REDUCE) {
                traffic.within_bytes += (double)one->most_bytes;
                traffic.within_messages += (double)one->n_exchanges * one->n_rounds;
            } else if (k == TO_STAGES) {
                traffic.stage_bytes += (double)one->most_bytes / n;
            } else {
                traffic.end_bytes += (double)one->most_bytes;
                traffic.end_rounds += one->n_rounds;
            }
        }
    if (of->stages != NULL)
        dt_about_stages(&step, of->text, of->arena);
    else if (about->trains && of->n_asked > 1)
        dt_about_memory(&step, of->text, of->arena);
    dt_about_seconds(&step, &rates, &traffic, of->text, of->arena);
}

static dt_status *say_step(layout *of, const dt_artifact_step *step) {
    int least, most;
    bool sums;
    DT_TRY(renew(&of->arena, &of->guard));
    of->places.n = of->places.capacity = 0;
    DT_TRY(lay_out(of, step));
    DT_TRY(count_nodes(of, of->n_processes, &least, &most));
    dt_text_format(of->text, "step %s: %" PRId64 " replica%s of %" PRId64 " row%s, in %" PRId64 " microbatch%s: ", step->name, of->replicas,
                   dt_plural(of->replicas), of->rows.rows, dt_plural(of->rows.rows), of->n_microbatches, of->n_microbatches == 1 ? "" : "es");
    say_range(of->text, of->n_microbatches / of->n_processes, (of->n_microbatches + of->n_processes - 1) / of->n_processes);
    dt_text_append(of->text, " a process, which leave ");
    say_range(of->text, least, most);
    dt_text_format(of->text, " partial sum%s\n", dt_plural(most));
    DT_TRY(say_crossings(of, step->function, &sums));
    say_processes(of, step);
    return sums && most > 1 ? say_odd_cuts(of, most) : NULL;
}

static dt_status *say_steps(layout *of) {
    if (setjmp(of->guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the schedules of %" PRId64 " processes", of->n_asked);
    if (of->n_stages > 1) {
        DT_TRY(renew(&of->of_stages, &of->guard));
        DT_TRY(dt_stages_of(of->artifact, DT_ALL_FUNCTIONS, of->n_stages, of->of_stages, &of->stages));
    }
    for (int i = 0; i < of->artifact->n_steps; i++) DT_TRY(say_step(of, &of->artifact->steps[i]));
    dt_sharing sharing = sharing_of(of->options);
    if (sharing != DT_SHARES_NOTHING)
        dt_memory_print_sharing(of->artifact, DT_ALL_FUNCTIONS, (dt_process_roles){.n_processes = of->n_processes}, (int)of->n_asked,
                                of->artifact->n_shards / of->over, sharing, of->text);
    return NULL;
}

dt_status *dt_about_exchange(const dt_artifact *artifact, int64_t n_processes, const dt_run_options *options, dt_text *text) {
    dt_device_spec spec;
    DT_TRY(dt_session_check_rounds(options->gather_rounds, options->shard_parameters));
    DT_TRY(dt_device_spec_parse(options->devices, &spec));
    dt_session_options asked = {
        .shard_optimizer = options->shard_optimizer, .shard_parameters = options->shard_parameters, .stages = options->stages};
    DT_TRY(dt_session_check_shards(artifact, &asked));
    DT_TRY(dt_session_check_shards_over(artifact, options->shards_over, n_processes));
    asked.shards_over = options->shards_over; /* of n_processes, and not of this one */
    DT_TRY(dt_session_check_stages(&asked, n_processes, spec.kind->is_gpu));
    DT_TRY(dt_session_program(artifact, spec.kind->is_gpu, &artifact));
    layout of = {.artifact = artifact,
                 .kind = spec.kind,
                 .options = options,
                 .text = text,
                 .n_asked = n_processes,
                 .over = options->shards_over > 1 ? (int)options->shards_over : 1,
                 .n_stages = options->stages > 1 ? (int)options->stages : 1,
                 .replicas = options->replicas != 0 ? options->replicas : 1};
    dt_status *status = say_steps(&of);
    dt_group_close(of.group);
    dt_arena_destroy(of.arena);
    dt_arena_destroy(of.scratch);
    dt_arena_destroy(of.of_stages);
    return status;
}
