/* session: see session.h. Checks what it was asked for, opens executors and the memory domains they are in, runs them together, reads what they left.
 */
#include "base/arena.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/comm/local/local.h"
#include "runtime/comm/nccl/nccl.h"
#include "runtime/devices/host_memory.h"
#include "runtime/devices/spec.h"
#include "runtime/execution/agreement.h"
#include "runtime/execution/ranges.h"
#include "runtime/execution/session_state.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Which functions it has memory for. */
static int wanted(const dt_session *session) {
    if (session->options.initial_only) return DT_INITIAL_FUNCTIONS;
    return session->options.forward_only ? DT_FORWARD_FUNCTIONS : DT_ALL_FUNCTIONS;
}

static dt_sharing sharing_of(const dt_session *session) { return dt_sharing_of(session->options.shard_optimizer, session->options.shard_parameters); }

/* ---- the group ---- */

static dt_group *group_of(const dt_session *session) { return session->executors[0].group; }

/* Tells the others, who may be waiting: other processes which one this is, other executors of this process who of them it was. */
static void abort_group(const dt_session *session, const char *who, dt_status *status) {
    char reason[512], process[32];
    snprintf(process, sizeof process, "process %d", session->process);
    snprintf(reason, sizeof reason, "%s: %s", session->n_processes > 1 ? process : who, dt_status_message(status));
    if (session->n_executors > 0 && group_of(session) != NULL)
        dt_group_abort(group_of(session), reason);
    else
        dt_processes_abort(session->options.processes, reason);
}

/* What fails once a step has begun may have changed variables already, here or elsewhere: session and group end with it. */
static dt_status *ends_with(dt_session *session, dt_status *status) {
    if (status == NULL) return NULL;
    if (!session->failed) abort_group(session, "this process", status);
    session->failed = true;
    return status;
}

dt_status *dt_session_usable(const dt_session *session) {
    return session->failed ? dt_error(DT_FAILED_PRECONDITION, "this session failed before; it can only be destroyed") : NULL;
}

static dt_recorder *recorder_of(const dt_session *session) { return dt_timeline_main(session->options.timeline); }

dt_status *dt_session_gather_records(dt_session *session, void *records, size_t bytes) {
    double began = dt_recorder_now(recorder_of(session));
    dt_step_context context = {.step = session->running.step != NULL ? session->running.step : "start", .number = session->running.launch.counter};
    if (session->n_processes == 1) return NULL;
    DT_TRY(dt_processes_allgather(session->options.processes, records, bytes, &context));
    dt_span span = {.began = began, .kind = DT_SPAN_WAIT, .name = "gather", .step = context.step, .number = context.number};
    dt_recorder_end(recorder_of(session), span);
    return NULL;
}

int dt_session_n_processes(const dt_session *session) { return session->n_processes; }

dt_status *dt_session_ask(dt_session *session, int64_t here, dt_session_answers *all) {
    int64_t *answers = session->answers;
    answers[session->process] = here;
    DT_TRY(dt_session_gather_records(session, answers, sizeof *answers));
    *all = (dt_session_answers){.least = here, .most = here, .of_first = answers[0], .other = -1};
    for (int p = 0; p < session->n_processes; p++) {
        if (answers[p] < all->least) all->least = answers[p];
        if (answers[p] > all->most) all->most = answers[p];
        all->sum = (int64_t)((uint64_t)all->sum + (uint64_t)answers[p]);
        if (all->other >= 0 || answers[p] == answers[0]) continue;
        all->other = p;
        all->of_other = answers[p];
    }
    return NULL;
}

void dt_session_print_process(const dt_session *session, int process, char *text, size_t bytes) {
    dt_processes_print_name(session->options.processes, process, text, bytes);
}

bool dt_session_leads(const dt_session *session) { return session->process == 0; }

/* ---- creating: what is asked for ---- */

int dt_session_n_computing(const dt_session *session) { return session->spec.n - dt_session_has_central_device(session); }

/* Of all GPUs as many as there are replicas, and a central one; where there are several processes one for each. */
static dt_status *choose_gpus(dt_session *session) {
    int n_present;
    bool all = session->spec.n == 0;
    const dt_transport *transport = dt_processes_transport(session->options.processes);
    DT_TRY(session->spec.kind->n_present(&n_present));
    session->chose_gpu = all && transport != NULL;
    if (session->chose_gpu) dt_device_spec_choose_gpu_of(&session->spec, n_present, transport->process_of_host);
    DT_TRY(dt_device_spec_choose_gpus(&session->spec, n_present, (int)session->options.replicas + session->options.central));
    session->n_spare = all && !session->chose_gpu ? n_present - session->spec.n : 0;
    return NULL;
}

/* For messages of who is waited for: which part of the model each process has. */
static void say_parts(const dt_session *session) {
    dt_progress *progress = dt_processes_progress(session->options.processes);
    const dt_process_roles *axes = session->mesh.axes;
    if (progress == NULL || axes[DT_AXIS_MODEL].n_processes * axes[DT_AXIS_STAGES].n_processes == 1) return;
    atomic_store(&progress->process, session->process);
    atomic_store(&progress->n_processes, session->n_processes);
    atomic_store(&progress->n_over, axes[DT_AXIS_MODEL].n_processes);
    atomic_store(&progress->n_stages, axes[DT_AXIS_STAGES].n_processes);
    atomic_store(&progress->n_shards, session->artifact->n_shards);
}

static dt_status *check_options(dt_session *session) {
    dt_session_options *options = &session->options;
    DT_TRY(dt_device_spec_parse(options->devices != NULL ? options->devices : "cpu", &session->spec));
    DT_TRY(dt_session_check_shards(session->artifact, options));
    DT_TRY(dt_session_check_stages(options, dt_processes_count(options->processes), session->spec.kind->is_gpu));
    if (options->by_rows)
        DT_TRY(dt_row_steps_program(session->artifact, options, session->spec.kind->is_gpu, &session->artifact));
    else
        DT_TRY(dt_session_program(session->artifact, session->spec.kind->is_gpu, &session->artifact));
    if (options->rows == 0) options->rows = session->artifact->capacity;
    DT_TRY(dt_session_check_shape(session->artifact, options->replicas, options->rows));
    if (session->spec.kind->n_present != NULL) DT_TRY(choose_gpus(session));
    int n = dt_session_n_computing(session);
    const char *beside = dt_session_has_central_device(session) ? ", beside the central one," : "";
    if (n > options->replicas)
        return dt_error(DT_INVALID_ARGUMENT,
                        "%d device%s%s for %" PRId64 " replica%s: each device holds at least one replica; use --replicas %d, or fewer --devices", n,
                        dt_plural(n), beside, options->replicas, dt_plural(options->replicas), n);
    session->process = dt_processes_number(options->processes);
    session->n_processes = dt_processes_count(options->processes);
    session->mesh = dt_mesh_of(dt_processes_roles(options->processes), options->shards_over, options->stages);
    say_parts(session);
    int n_workers = dt_process_n_workers(session->mesh.axes[DT_AXIS_DATA]);
    if ((int64_t)n * n_workers > options->replicas) {
        bool has_servers = session->mesh.axes[DT_AXIS_DATA].n_servers > 0;
        int over = session->mesh.axes[DT_AXIS_MODEL].n_processes * session->mesh.axes[DT_AXIS_STAGES].n_processes;
        return dt_error(DT_INVALID_ARGUMENT,
                        "%d %s of %d device%s%s for %" PRId64 " replica%s: each device holds at least one replica; use --replicas %" PRId64
                        ", or start fewer %s %" PRId64,
                        n_workers * over, has_servers ? "workers" : "processes", n, dt_plural(n), beside, options->replicas,
                        dt_plural(options->replicas), (int64_t)n * n_workers, has_servers ? "workers:" : "processes: mpirun -n",
                        options->replicas / n * over);
    }
    DT_TRY(dt_session_check_rounds(options->gather_rounds, options->shard_parameters));
    if (options->shard_parameters && options->central)
        return dt_error(DT_INVALID_ARGUMENT,
                        "--shard-parameters and --placement central: each process has a share, or the first device of each has all; "
                        "leave out one of them");
    if (!(options->deadline_seconds > 0)) options->deadline_seconds = dt_session_options_default().deadline_seconds;
    return NULL;
}

/* ---- creating: executors ---- */

static dt_microbatches microbatches_of(const dt_session *session) {
    int64_t rows = session->options.rows;
    return (dt_microbatches){rows, dt_artifact_microbatches(session->artifact, rows), session->artifact->microbatch_rows};
}

/* Those of a process: of those that divide the microbatches, which with asynchronous servers are this one, or of the run's. */
static dt_row_range rows_of_role(const dt_session *session, int process) {
    dt_microbatches rows = microbatches_of(session);
    return dt_microbatches_rows_of_process(&rows, session->options.replicas, process, session->mesh.axes[DT_AXIS_DATA]);
}

static dt_row_range rows_of(const dt_session *session, int process) { return rows_of_role(session, dt_mesh_data_of(&session->mesh, process)); }
static dt_row_range rows_here(const dt_session *session) { return rows_of_role(session, session->mesh.axes[DT_AXIS_DATA].process); }

static dt_executor_times *new_times(const dt_session *session) {
    int most = 0;
    for (int f = 0; f < session->artifact->n_functions; f++)
        if (session->artifact->functions[f].n_kernels > most) most = session->artifact->functions[f].n_kernels;
    dt_executor_times *times = DT_NEW(session->arena, dt_executor_times);
    times->kernel_seconds = DT_NEW_ARRAY(session->arena, double, most);
    times->kernel_calls = DT_NEW_ARRAY(session->arena, int, most);
    return times;
}

/* NULL: no kernel measures itself. */
static int64_t *new_timers(const dt_session *session) {
    int most = 0;
    for (int f = 0; f < session->artifact->n_functions; f++)
        if (session->artifact->functions[f].n_timers > most) most = session->artifact->functions[f].n_timers;
    return most > 0 ? DT_NEW_ARRAY(session->arena, int64_t, 2 * most) : NULL;
}

/* What crosses can do so while the last microbatches are computed. Between processes of one machine that takes no time worth the memory. */
static int n_together(const dt_session *session, int n_microbatches) {
    enum {
        MOST_TOGETHER = 4
    };
    const dt_transport *transport = dt_processes_transport(session->options.processes);
    bool has_wire = transport != NULL && transport->n_processes_of_host < transport->n_processes && session->spec.kind->reads_host;
    return !has_wire || n_microbatches == 0 ? 1 : n_microbatches < MOST_TOGETHER ? n_microbatches : MOST_TOGETHER;
}

/* Of the microbatches of this process. Others are told, and with it what the caller has to say. */
static void count_bad_indices(void *context) {
    dt_session *session = context;
    dt_step_record *record = &session->records[session->process];
    const dt_notices *notices = session->batch.notices;
    dt_bad_index *here = &record->bad_index;
    if (session->step < 0) return; /* initial values have no microbatches */
    *here = session->rows != NULL ? *dt_row_steps_bad_index(session->rows) : (dt_bad_index){0};
    for (int e = 0; e < session->n_executors; e++)
        for (int m = 0; m < session->executors[e].memory.n_microbatches; m++) dt_bad_index_add(here, &session->executors[e].bad_index[m]);
    record->commit =
        (dt_step_commit){session->n_processes > 1 ? dt_processes_transport(session->options.processes)->epoch : 0, session->running.launch.counter};
    if (notices != NULL && session->n_processes > 1) notices->write(notices->context, record->notice);
    dt_step_context at = {.step = session->running.step, .number = session->running.launch.counter};
    dt_processes_begin_allgather(session->options.processes, record, sizeof *record, &at);
    session->is_counted = true;
}

static dt_status *open_executor(dt_session *session, int e) {
    const dt_device_kind *kind = session->spec.kind;
    dt_executor *executor = &session->executors[e];
    int first = dt_microbatches_first_of_member(e, session->n_executors, session->n_idle, session->n_microbatches);
    int end = dt_microbatches_first_of_member(e + 1, session->n_executors, session->n_idle, session->n_microbatches);
    session->peers[e] = executor;
    DT_TRY(dt_device_open(kind, dt_device_spec_number(&session->spec, e), session->n_executors, &executor->device));
    snprintf(executor->device->name, sizeof executor->device->name, "%s:%d", kind->name,
             dt_device_spec_number(&session->spec, dt_session_device_of_executor(session, e)));
    executor->kernels = session->kernels;
    executor->peers = session->peers;
    executor->n_peers = session->n_executors;
    executor->progress = dt_processes_progress(session->options.processes);
    executor->device->deadline_seconds = session->options.deadline_seconds;
    executor->device->progress = executor->progress;
    executor->device->is_timed = session->options.timeline != NULL && !session->options.times && kind->read_clock != NULL;
    executor->first_row = dt_session_first_row(session);
    executor->memory = (dt_executor_memory){.artifact = session->artifact,
                                            .first_microbatch = session->first_microbatch + first,
                                            .n_microbatches = end - first,
                                            .n_together = n_together(session, end - first),
                                            .n_all_microbatches = session->n_all_microbatches,
                                            .rows = microbatches_of(session)};
    if (session->options.times || session->options.timeline != NULL) executor->times = new_times(session);
    executor->timers = new_timers(session);
    if (executor->times != NULL) executor->times->pauses = !session->options.times;
    if (session->options.check_numerics) executor->numerics = &session->numerics[session->process];
    if (e == 0 && session->n_processes > 1 && kind->reads_host) {
        executor->counted = count_bad_indices;
        executor->counted_context = session;
    }
    DT_TRY(dt_operations_check(session->artifact, session->spec.kind->is_gpu, executor->memory.n_microbatches));
    return kind->load != NULL ? kind->load(executor->device, dt_kernels_artifact(session->kernels), !session->options.no_libraries, session->arena)
                              : NULL;
}

/* Executors of one memory are of one domain. In central storage those of the central device run all there that runs once. */
static void open_domains(dt_session *session, int n_rounds) {
    bool shared = session->spec.kind->shares_memory;
    const dt_process_roles model = session->mesh.axes[DT_AXIS_MODEL];
    int n = session->n_executors, n_shards = session->artifact->n_shards / model.n_processes;
    const dt_placement *placement = session->n_idle > 0 && !shared ? dt_placement_find(session->artifact, wanted(session), session->arena) : NULL;
    session->n_domains = shared ? 1 : n;
    session->domains = DT_NEW_ARRAY(session->arena, dt_memory_domain, session->n_domains);
    for (int d = 0; d < session->n_domains; d++) {
        session->domains[d] = (dt_memory_domain){.device = session->executors[d].device,
                                                 .number = d,
                                                 .n_executors = shared ? n : 1,
                                                 .n_members = n,
                                                 .n_parts = !shared               ? 1
                                                            : session->n_idle > 0 ? session->n_idle
                                                                                  : n,
                                                 .placement = placement,
                                                 .stages = session->stages,
                                                 .stage = session->mesh.axes[DT_AXIS_STAGES].process,
                                                 .n_rounds = n_rounds,
                                                 .first_shard = model.process * n_shards,
                                                 .n_shards = n_shards,
                                                 .holds = {session->first_microbatch, session->first_microbatch + session->n_microbatches},
                                                 .layout = dt_state_layout_of(session->mesh.axes[DT_AXIS_DATA], sharing_of(session))};
        dt_memory_domain_lay_out(&session->domains[d], session->artifact, session->n_all_microbatches, wanted(session), session->arena);
    }
    for (int e = 0; e < n; e++) {
        dt_executor_memory *memory = &session->executors[e].memory;
        session->executors[e].domain = &session->domains[shared ? 0 : e];
        session->executors[e].part = shared ? e : 0;
        memory->domain = session->executors[e].domain;
        dt_executor_memory_lay_out(memory, session->spec.kind, wanted(session), session->arena);
    }
}

static bool fits(const dt_session *session) {
    for (int d = 0; d < session->n_domains; d++)
        if (dt_session_domain_bytes(session, d) > dt_device_free_bytes(session->domains[d].device)) return false;
    return true;
}

/* Where parameters are gathered, in one round, or in as many as need no more memory than there is: the same number in all processes. */
static dt_status *choose_rounds(dt_session *session) {
    dt_session_answers answers;
    bool is_said = session->options.gather_rounds > 0;
    int n = is_said ? (int)session->options.gather_rounds : 1, most = 1;
    open_domains(session, n);
    if (session->domains[0].gathering == NULL) return NULL;
    for (int e = 0; e < session->n_executors; e++)
        if (session->executors[e].memory.n_microbatches > most) most = session->executors[e].memory.n_microbatches;
    while (!is_said && n < most && !fits(session)) {
        n = 2 * n < most ? 2 * n : most;
        open_domains(session, n);
    }
    DT_TRY(dt_session_ask(session, n, &answers)); /* all processes have the same number */
    if (answers.most != n) open_domains(session, (int)answers.most);
    return NULL;
}

/* The host's memory, which the first device reaches. */
static dt_status *allocate_shared(void *context, size_t bytes, void **memory) {
    dt_device *device = ((dt_session *)context)->executors[0].device;
    return device->kind->allocate_host != NULL ? device->kind->allocate_host(device, bytes, memory) : dt_device_allocate(device, bytes, memory);
}

static void release_shared(void *context, void *memory, size_t bytes) {
    dt_session *session = context;
    dt_device *device = session->executors[0].device;
    if (device->kind->release_host != NULL)
        device->kind->release_host(device, memory);
    else
        dt_processes_release(session->options.processes, dt_host_memory_release, memory, bytes);
}

/* Of a device that reads the host's memory: messages go to where a result is wanted. */
static void free_domain(dt_session *session, dt_memory_domain *domain) {
    if (domain->is_allocated && domain->device->kind->reads_host) {
        dt_processes_release(session->options.processes, dt_host_memory_release, domain->memory, (size_t)domain->bytes);
        domain->is_allocated = false;
    }
    dt_memory_domain_free(domain);
}

enum {
    LINK_GRACE_SECONDS = 2 /* that a GPU gets beside the deadline, in which the processes find out who is missing */
};

/* Between the GPUs of all processes, one of each. */
static dt_status *open_link(dt_session *session) {
    dt_device *device = session->executors[0].device;
    dt_nccl_options options = {
        .processes = session->options.processes, .mesh = &session->mesh, .device = device, .deadline_seconds = session->options.deadline_seconds};
    if (session->n_processes == 1 || device->kind->attach == NULL) return NULL;
    if (session->n_executors > 1) options.refusal = "it has more than one GPU";
    if (session->options.no_libraries) options.refusal = "--library none";
    DT_TRY(dt_nccl_open(&options, &session->link, session->no_link, sizeof session->no_link));
    if (session->link == NULL) return NULL;
    device->kind->attach(device, session->link);
    device->deadline_seconds += LINK_GRACE_SECONDS;
    return NULL;
}

static dt_status *join_group(dt_session *session) {
    dt_local_hub_options options = {.n_ranks = session->n_executors,
                                    .shares_memory = session->spec.kind->shares_memory,
                                    .n_idle = session->n_idle,
                                    .first_microbatch = session->first_microbatch,
                                    .n_microbatches = session->n_microbatches,
                                    .n_all_microbatches = session->n_all_microbatches,
                                    .rows = microbatches_of(session),
                                    .deadline_seconds = session->options.deadline_seconds,
                                    .mesh = session->mesh,
                                    .n_all_shards = session->artifact->n_shards,
                                    .processes = session->options.processes,
                                    .fast = session->options.fast_sums,
                                    .has_link = session->link != NULL,
                                    .allocate = allocate_shared,
                                    .release = release_shared,
                                    .context = session};
    dt_local_hub *hub;
    dt_status *status = NULL;
    DT_TRY(dt_local_hub_create(&options, &hub));
    for (int e = 0; e < session->n_executors && status == NULL; e++) status = dt_local_hub_join(hub, e, &session->executors[e].group);
    dt_local_hub_release(hub);
    return status;
}

/* Whether replicas run kernels in parts. */
static bool has_parts(const dt_session *session) {
    for (int f = 0; f < session->artifact->n_functions; f++) {
        const dt_artifact_function *function = &session->artifact->functions[f];
        for (int k = 0; k < function->n_kernels && dt_memory_has(session->artifact, wanted(session), f); k++)
            if (function->kernels[k].divided && !function->kernels[k].once) return true;
    }
    return false;
}

/* Whether cores without a microbatch have something to do beside those that have one: parts of their kernels, or of an update of so much that it is
 * worth their meetings. */
static bool has_work_for_all(const dt_session *session) {
    enum {
        LEAST_UPDATED = 4 << 20 /* bytes */
    };
    const dt_session_options *options = &session->options;
    int64_t updated = 0;
    if (!session->spec.kind->shares_memory || session->mesh.axes[DT_AXIS_MODEL].n_processes > 1 || options->stages > 1) return false;
    if (options->shard_parameters || options->by_rows || options->check_numerics) return false;
    for (int v = 0; v < session->artifact->n_variables && !options->forward_only; v++)
        if (session->artifact->variables[v].trainable) updated += session->artifact->variables[v].bytes;
    return updated >= LEAST_UPDATED || has_parts(session);
}

/* Executors without microbatches run parts of the kernels of the next one that has some. They stand before it (dt_microbatches_first_of_rank). */
static void form_teams(dt_session *session) {
    int n = session->n_executors;
    session->teams = DT_NEW_ARRAY(session->arena, dt_team, n);
    for (int first = session->n_idle, lead = first; lead < n; first = ++lead) {
        while (lead < n && session->executors[lead].memory.n_microbatches == 0) lead++;
        if (lead == n || lead == first) continue;
        dt_team_begin(&session->teams[lead], lead - first + 1, n <= dt_cpu_n_cores());
        for (int e = first; e <= lead; e++) {
            dt_executor *executor = &session->executors[e];
            executor->team = &session->teams[lead];
            executor->team_part = lead - e;
            if (e == lead) continue;
            executor->helps = &session->executors[lead];
            executor->helping = DT_NEW_ARRAY(session->arena, dt_launch, executor->helps->memory.n_microbatches);
        }
    }
}

/* Microbatches are dealt to all workers alike, and in each to its executors: where D divides V, a device's executors hold what its replicas are
 * made of. A core that would get none is left out where it would have nothing to do; those of a central device, and those of a server, share out
 * updates alone. */
static dt_status *open_executors(dt_session *session) {
    const dt_microbatches rows = microbatches_of(session);
    int n_all = (int)(rows.per_replica * session->options.replicas), n = dt_session_n_computing(session) * session->spec.n_cores;
    if (dt_process_n_workers(session->mesh.axes[DT_AXIS_DATA]) > n_all)
        return dt_error(DT_INVALID_ARGUMENT, "%d processes for %d microbatches: each process holds at least one; use fewer processes",
                        dt_process_n_workers(session->mesh.axes[DT_AXIS_DATA]), n_all);
    dt_microbatch_range own = dt_microbatches_of_process(session->mesh.axes[DT_AXIS_DATA], session->mesh.axes[DT_AXIS_DATA].process, n_all);
    session->n_all_microbatches = n_all;
    session->first_microbatch = own.first;
    session->n_microbatches = own.end - own.first;
    if (n > session->n_microbatches && session->n_microbatches > 0 && !has_work_for_all(session)) n = session->n_microbatches;
    session->n_idle = dt_session_has_central_device(session) ? session->spec.n_cores : 0;
    n += session->n_idle;
    session->executors = DT_NEW_ARRAY(session->arena, dt_executor, n);
    session->peers = DT_NEW_ARRAY(session->arena, dt_executor *, n);
    session->records = DT_NEW_ARRAY(session->arena, dt_step_record, session->n_processes);
    if (session->options.check_numerics) {
        if (n != 1 || !session->spec.kind->reads_host || session->options.forward_only)
            return dt_error(DT_INVALID_ARGUMENT, "numerics are checked on one core of each process, in a session that has all variables");
        session->numerics = DT_NEW_ARRAY(session->arena, dt_numerics, session->n_processes);
    }
    session->answers = DT_NEW_ARRAY(session->arena, int64_t, session->n_processes);
    session->n_executors = n;
    for (int e = 0; e < n; e++) DT_TRY(open_executor(session, e));
    if (session->n_microbatches > 0 && n > session->n_microbatches + session->n_idle) form_teams(session);
    DT_TRY(open_link(session));
    if (session->options.shard_parameters && session->n_processes > 1 && session->spec.kind->is_gpu && session->link == NULL)
        return dt_error(DT_FAILED_PRECONDITION, "--shard-parameters on GPUs: they gather parameters by NCCL alone. %s", session->no_link);
    if (session->options.stages > 1)
        DT_TRY(dt_stages_of(session->artifact, wanted(session), (int)session->options.stages, session->arena, &session->stages));
    DT_TRY(choose_rounds(session));
    return join_group(session);
}

/* Each GPU reaches the memory of all. */
static dt_status *connect_devices(dt_session *session) {
    for (int a = 0; a < session->n_executors; a++)
        for (int b = 0; b < session->n_executors; b++)
            if (a != b) DT_TRY(dt_device_connect(session->executors[a].device, session->executors[b].device));
    return NULL;
}

/* ---- creating: memory ---- */

/* How much all executors will ask for when they are prepared. That depends on what the others publish. */
static dt_status *plan_memory(dt_session *session) {
    if (session->spec.kind->prepare_bytes == NULL) return NULL;
    for (int e = 0; e < session->n_executors; e++) dt_executor_plan(&session->executors[e], wanted(session), session->arena);
    for (int e = 0; e < session->n_executors; e++) DT_TRY(dt_executor_prepare_bytes(&session->executors[e], wanted(session), session->arena));
    return NULL;
}

static dt_status *allocate_memory(dt_session *session) {
    for (int d = 0; d < session->n_domains; d++) {
        DT_TRY(dt_device_reserve(session->domains[d].device, (size_t)(dt_session_domain_bytes(session, d) - dt_session_caller_bytes(session, d))));
        DT_TRY(dt_memory_domain_allocate(&session->domains[d]));
    }
    for (int e = 0; e < session->n_executors; e++) {
        DT_TRY(dt_executor_allocate(&session->executors[e]));
        dt_executor_plan(&session->executors[e], wanted(session), session->arena);
    }
    return NULL;
}

/* ---- creating: the timeline ---- */

static dt_status *add_recorders(dt_session *session) {
    dt_timeline *timeline = session->options.timeline;
    if (timeline == NULL) return NULL;
    for (int e = 0; e < session->n_executors; e++) {
        dt_executor *executor = &session->executors[e];
        int64_t most = (session->options.by_rows ? 2 : 1) * dt_executor_most_spans(executor, wanted(session)); /* a step runs another one */
        DT_TRY(dt_timeline_add_thread(timeline, most, &executor->recorder, "executor %d, %s", e, executor->device->name));
        if (!executor->device->is_timed) continue;
        DT_TRY(dt_timeline_add_thread(timeline, most, &executor->queue, "%s", executor->device->name));
        if (session->link != NULL) DT_TRY(dt_timeline_add_thread(timeline, most, &executor->beside, "%s, exchanges", executor->device->name));
    }
    if (session->n_processes == 1) return NULL;
    enum {
        GATHERS = 4 /* a step */
    };
    dt_recorder *network;
    DT_TRY(dt_timeline_add_thread(timeline, dt_processes_n_tags(session->options.processes) + GATHERS, &network, "network"));
    dt_processes_record(session->options.processes, network);
    return NULL;
}

static dt_status *compare_devices(const dt_session *session) {
    const dt_device **devices = DT_NEW_ARRAY(session->arena, const dt_device *, session->n_executors);
    for (int e = 0; e < session->n_executors; e++) devices[e] = session->executors[e].device;
    return dt_devices_agree(session->options.processes, devices, session->n_executors, session->n_idle);
}

/* ---- creating: all of it ---- */

static void enter_device(void *context, int member) { dt_device_enter(((dt_session *)context)->executors[member].device); }

static dt_status *push_rows(void *context) {
    const dt_session *session = context;
    return session->step >= 0 ? dt_row_steps_push(session->rows, session->step) : NULL;
}

static dt_status *create_guarded(dt_session *session) {
    jmp_buf guard;
    if (setjmp(guard) != 0) return dt_error_in(DT_RESOURCE_EXHAUSTED, session->artifact->path, 0, "not enough memory for a session");
    dt_arena_guard(session->arena, &guard);
    DT_TRY(check_options(session));
    DT_TRY(open_executors(session));
    DT_TRY(connect_devices(session));
    DT_TRY(plan_memory(session));
    DT_TRY(dt_session_check_memory(session));
    DT_TRY(allocate_memory(session));
    for (int e = 0; e < session->n_executors; e++) DT_TRY(dt_executor_prepare(&session->executors[e], wanted(session), session->arena));
    DT_TRY(compare_devices(session));
    DT_TRY(add_recorders(session));
    DT_TRY(dt_thread_pool_create(session->n_executors, enter_device, session, &session->pool));
    if (!session->options.by_rows || session->options.initial_only) return NULL;
    DT_TRY(dt_row_steps_create(session->kernels, session, &session->rows));
    session->executors[0].computed = push_rows;
    session->executors[0].computed_context = session;
    return NULL;
}

dt_status *dt_session_create(const dt_kernels *kernels, const dt_session_options *options, dt_session **session) {
    dt_session *made = dt_allocate_zeroed(1, sizeof *made);
    dt_arena *arena = dt_arena_create();
    *session = NULL;
    if (made == NULL || arena == NULL) {
        dt_release(made);
        dt_arena_destroy(arena);
        return dt_error_in(DT_RESOURCE_EXHAUSTED, dt_kernels_artifact(kernels)->path, 0, "not enough memory for a session");
    }
    *made = (dt_session){.arena = arena, .kernels = kernels, .artifact = dt_kernels_artifact(kernels), .options = *options, .step = -1};
    dt_status *status = create_guarded(made);
    dt_arena_guard(arena, NULL);
    made->options.devices = NULL; /* the caller's */
    if (status == NULL) {
        *session = made;
        return NULL;
    }
    abort_group(made, "this process", status);
    made->failed = true;
    dt_session_destroy(made);
    return status;
}

/* Devices first stop, all of them: what one runs may be in the memory of another. After a failure nothing more comes from other processes. */
static void stop_devices(dt_session *session) {
    dt_device *devices[DT_MOST_AHEAD] = {NULL}, *which;
    int n = 0;
    if (session->failed) dt_link_abort(session->link);
    for (int e = 0; e < session->n_executors && session->spec.kind->query != NULL; e++)
        if (session->executors[e].device != NULL) devices[n++] = session->executors[e].device;
    if (n > 0) dt_status_free(dt_devices_synchronize(devices, n, &which));
}

void dt_session_destroy(dt_session *session) {
    if (session == NULL) return;
    dt_row_steps_destroy(session->rows);
    dt_thread_pool_destroy(session->pool);
    stop_devices(session);
    dt_processes_settle(session->options.processes);
    if (session->options.timeline != NULL) dt_processes_record(session->options.processes, NULL); /* they outlive the timeline */
    for (int e = 0; e < session->n_executors; e++) dt_executor_free(&session->executors[e]);
    for (int d = 0; d < session->n_domains; d++) free_domain(session, &session->domains[d]);
    for (int e = 0; e < session->n_executors; e++) dt_group_close(session->executors[e].group);
    for (int e = 0; e < session->n_executors; e++) dt_device_close(session->executors[e].device);
    dt_arena_destroy(session->arena);
    dt_release(session);
}

/* ---- running ---- */

/* One member's part. Whoever fails tells the others, who may be waiting for it. */
static dt_status *run_executor(void *context, int member) {
    dt_session *session = context;
    dt_executor *executor = &session->executors[member];
    dt_status *status = dt_executor_start(executor, &session->running);
    if (status != NULL) abort_group(session, executor->device->name, status);
    if (status != NULL && executor->team != NULL) dt_team_break(executor->team);
    return status;
}

static dt_launch launch_values(const dt_session *session, int64_t valid, int64_t counter) {
    const dt_session_options *options = &session->options;
    return (dt_launch){.valid = valid,
                       .global_batch = dt_session_global_batch(session),
                       .replicas = options->said_replicas > 0 ? options->said_replicas : options->replicas,
                       .epochs = options->epochs,
                       .steps_per_epoch = options->steps_per_epoch,
                       .counter = counter,
                       .seed = options->seed};
}

static void record(dt_session *session, dt_span_kind kind, const char *name, double began) {
    const dt_run_values *running = &session->running;
    dt_span span = {.began = began, .kind = kind, .name = name, .step = running->step, .number = running->launch.counter};
    dt_recorder_end(recorder_of(session), span);
}

/* What session->running says, on all executors; what devices work ahead is then under way. */
static dt_status *start(dt_session *session) {
    DT_TRY(dt_session_usable(session));
    return ends_with(session, dt_thread_pool_run(session->pool, run_executor, session));
}

static dt_status *finish(dt_session *session) {
    DT_TRY(dt_session_usable(session));
    dt_step_context context = {.step = session->running.step, .number = session->running.launch.counter};
    double began = dt_recorder_now(recorder_of(session));
    if (session->link != NULL) dt_processes_await(session->options.processes, &context, "what GPUs exchange");
    dt_status *status = dt_executors_finish(session->peers, session->n_executors, &session->running);
    if (session->link != NULL) dt_processes_await(session->options.processes, NULL, NULL);
    if (session->spec.kind->query != NULL) record(session, DT_SPAN_WAIT, "wait for the device", began);
    return ends_with(session, status);
}

/* Initialisers give all variables their values, whole: those run in a session that has them, which then is over. */
static dt_status *initialize_elsewhere(dt_session *session) {
    dt_session_options options = session->options;
    dt_session *whole;
    options.initial_only = true;
    options.forward_only = options.central = options.shard_optimizer = options.shard_parameters = false;
    options.gather_rounds = options.shards_over = options.stages = 0;
    if (!options.check_numerics) options.devices = session->spec.kind->name; /* any of them gives the same bits */
    options.replicas = 1;
    options.processes = NULL;
    options.timeline = NULL;
    DT_TRY(dt_session_create(session->kernels, &options, &whole));
    dt_status *status = dt_session_initialize(whole);
    for (int v = 0; v < session->artifact->n_variables && status == NULL; v++) {
        if (session->artifact->variables[v].by_rows || !dt_session_has_variable(session, v)) continue;
        dt_byte_range own = dt_ranges_own(session, v);
        void *data = dt_host_memory_allocate((size_t)own.n_bytes); /* which is given back: the heap may keep what is as large */
        status = data != NULL ? dt_ranges_read(whole, 0, v, own, data) : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
        if (status == NULL) status = dt_ranges_write(session, v, own, data);
        dt_host_memory_release(data, (size_t)own.n_bytes);
    }
    dt_session_destroy(whole);
    return status;
}

/* All processes find the same one first. */
static dt_status *collect_numerics(dt_session *session) {
    if (session->numerics == NULL) return NULL;
    DT_TRY(dt_session_gather_records(session, session->numerics, sizeof *session->numerics));
    session->first_numerics = session->numerics[0];
    for (int p = 1; p < session->n_processes; p++) session->first_numerics = *dt_numerics_first(&session->first_numerics, &session->numerics[p]);
    return NULL;
}

dt_status *dt_session_numerics_status(const dt_session *session) {
    return dt_numerics_status(&session->first_numerics, session->artifact, &session->running);
}

/* Whether an initialiser gives each process its share of the variable. */
static bool is_drawn_in_shares(const dt_artifact *artifact, int variable) {
    for (int f = 0; f < artifact->n_functions; f++) {
        const dt_artifact_function *function = &artifact->functions[f];
        for (int k = 0; k < function->n_kernels && function->role == DT_ROLE_INIT; k++)
            for (int g = 0; g < function->kernels[k].n_gathers; g++) {
                const dt_artifact_buffer *buffer = &function->buffers[function->kernels[k].gathers[g].buffer];
                if (buffer->space == DT_MEMORY_VARIABLE && buffer->variable == variable) return true;
            }
    }
    return false;
}

/* Whether there is an initialiser which no session can run that has no more than shares. */
static bool draws_whole(const dt_session *session) {
    if (session->mesh.axes[DT_AXIS_DATA].n_servers > 1) return true;
    for (int v = 0; v < session->artifact->n_variables && session->domains[0].layout.gathers; v++)
        if (dt_is_gathered(&session->artifact->variables[v]) && !is_drawn_in_shares(session->artifact, v)) return true;
    return false;
}

dt_status *dt_session_initialize(dt_session *session) {
    const dt_artifact *artifact = session->artifact;
    if (session->rows != NULL) DT_TRY(dt_row_tables_initialize(dt_row_steps_tables(session->rows), session->options.seed));
    if (session->options.forward_only || draws_whole(session)) return initialize_elsewhere(session);
    for (int f = 0; f < artifact->n_functions; f++) {
        if (artifact->functions[f].role != DT_ROLE_INIT) continue;
        session->step = -1;
        session->running = (dt_run_values){.function = f, .launch = launch_values(session, 0, 0), .step = artifact->functions[f].name};
        DT_TRY(start(session));
        DT_TRY(finish(session));
        DT_TRY(collect_numerics(session));
        return dt_session_numerics_status(session);
    }
    return NULL;
}

/* All processes commit the same step. Others than the same calls in the same order are a caller's mistake. */
static dt_status *check_commit(const dt_session *session, int process) {
    const dt_step_commit *here = &session->records[session->process].commit, *there = &session->records[process].commit;
    char name[160];
    if (there->epoch == here->epoch && there->counter == here->counter) return NULL;
    dt_processes_print_name(session->options.processes, process, name, sizeof name);
    return dt_error(DT_ABORTED, "%s has ended %s step %" PRId64 ", and this process step %" PRId64 ": all processes run the same steps", name,
                    session->running.step, there->counter + 1, here->counter + 1);
}

/* All records as one. Kernels that run once count on the first executor of each memory, the same on each, in every process: the first one's are
 * taken.
 */
static dt_status *collect_bad_index(dt_session *session) {
    const dt_executor *first = &session->executors[0];
    const dt_notices *notices = session->batch.notices;
    if (!session->is_counted) count_bad_indices(session);
    session->is_counted = false;
    double began = dt_seconds_now();
    DT_TRY(dt_processes_end_allgather(session->options.processes, session->records, sizeof *session->records));
    session->gathering_seconds = dt_seconds_now() - began;
    if (session->n_processes > 1) record(session, DT_SPAN_WAIT, "gather", began);
    session->bad_index = first->bad_index[first->memory.n_microbatches];
    for (int p = 0; p < session->n_processes; p++) {
        DT_TRY(check_commit(session, p));
        dt_bad_index_add(&session->bad_index, &session->records[p].bad_index);
        if (notices != NULL) memcpy((char *)notices->all + p * DT_STEP_NOTICE_BYTES, session->records[p].notice, DT_STEP_NOTICE_BYTES);
    }
    return NULL;
}

static void read_aggregates(const dt_session *session, const dt_artifact_step *step, dt_total *aggregates) {
    const dt_artifact_function *function = &session->artifact->functions[step->function];
    for (int i = 0; i < step->n_aggregates; i++) {
        const dt_artifact_result *result = &function->results[i];
        const dt_artifact_buffer *buffer = &function->buffers[result->buffer];
        int64_t start = step->aggregate_starts[i], n = step->aggregate_starts[i + 1] - start;
        const char *numbers = (const char *)(session->executors[0].aggregates + start);
        if (buffer->space == DT_MEMORY_INPUT) numbers = session->batch.inputs[buffer->input];
        for (int64_t k = 0; k < n; k++)
            aggregates[start + k] = dt_total_from(result->tensor.dtype, numbers + k * (int64_t)dt_dtype_bytes(result->tensor.dtype));
    }
}

static dt_status *start_function(dt_session *session, int step, const dt_batch *batch) {
    const dt_artifact_step *about = &session->artifact->steps[step];
    session->step = step;
    session->batch = *batch;
    if (batch->inputs == NULL && session->artifact->functions[about->function].n_inputs > 0) session->batch.inputs = session->staged;
    session->staged = NULL;
    session->running = (dt_run_values){
        .function = about->function, .inputs = batch->inputs, .launch = launch_values(session, batch->rows, batch->counter), .step = about->name};
    return start(session);
}

static dt_status *finish_function(dt_session *session) {
    DT_TRY(finish(session));
    DT_TRY(collect_bad_index(session));
    return collect_numerics(session);
}

static dt_status *finish_step(dt_session *session) {
    DT_TRY(finish_function(session));
    return session->rows != NULL ? dt_row_steps_end(session->rows, session->step) : NULL;
}

dt_status *dt_session_run_within(dt_session *session, int step, const dt_batch *batch) {
    DT_TRY(start_function(session, step, &(dt_batch){.inputs = batch->inputs, .rows = batch->rows, .counter = batch->counter}));
    return finish_function(session);
}

dt_status *dt_session_start(dt_session *session, int step, const dt_batch *batch) {
    const dt_artifact_step *about = &session->artifact->steps[step];
    if (batch->rows < 1 || batch->rows > dt_session_global_batch(session))
        return dt_error(DT_INVALID_ARGUMENT, "%s: a batch of %" PRId64 " rows; the global batch holds 1 to %" PRId64, about->name, batch->rows,
                        dt_session_global_batch(session));
    bool from_slot = batch->inputs == NULL && session->artifact->functions[about->function].n_inputs > 0;
    if (from_slot && (session->staged == NULL || session->staged_step != step))
        return dt_error(DT_FAILED_PRECONDITION, "%s: the batch to run has not been staged", about->name);
    session->began = dt_recorder_now(recorder_of(session));
    dt_batch taken = *batch;
    if (session->rows != NULL) DT_TRY(ends_with(session, dt_row_steps_begin(session->rows, step, &taken)));
    return start_function(session, step, &taken);
}

dt_status *dt_session_finish(dt_session *session, dt_total *aggregates) {
    DT_TRY(ends_with(session, finish_step(session)));
    record(session, DT_SPAN_STEP, session->running.step, session->began);
    if (session->options.timeline != NULL) session->options.timeline->n_steps_run++;
    if (aggregates != NULL) read_aggregates(session, &session->artifact->steps[session->step], aggregates);
    return NULL;
}

dt_status *dt_session_run(dt_session *session, int step, const dt_batch *batch, dt_total *aggregates) {
    DT_TRY(dt_session_start(session, step, batch));
    return dt_session_finish(session, aggregates);
}

/* An aggregate that is an input is read from the batch, which has to stay for that. */
bool dt_session_stages(const dt_session *session, int step) {
    const dt_artifact_step *about = &session->artifact->steps[step];
    const dt_artifact_function *function = &session->artifact->functions[about->function];
    for (int i = 0; i < about->n_aggregates; i++)
        if (function->buffers[function->results[i].buffer].space == DT_MEMORY_INPUT) return false;
    return session->spec.kind->copy_ahead != NULL;
}

dt_status *dt_session_stage(dt_session *session, int step, const dt_batch *batch) {
    DT_TRY(dt_session_usable(session));
    session->staged = batch->inputs;
    session->staged_step = step;
    const dt_artifact_step *about = &session->artifact->steps[step];
    dt_status *status = NULL;
    for (int e = 0; e < session->n_executors; e++) {
        dt_status *one = dt_executor_stage_inputs(&session->executors[e], about->function, batch->inputs, batch->rows);
        one = dt_status_annotate(one, "%s, %s step %" PRId64 ", its inputs", session->executors[e].device->name, about->name, batch->counter + 1);
        status = dt_status_first(status, one);
    }
    return ends_with(session, status);
}

/* ---- variables ---- */

bool dt_session_has_variable(const dt_session *session, int variable) {
    return session->artifact->variables[variable].by_rows || dt_memory_has_variable(session->artifact, wanted(session), variable);
}

dt_status *dt_session_take_rows(const dt_session *session, int variable, const int64_t *rows, int64_t n, char **values, size_t *bytes) {
    bool is_table = variable >= 0 && variable < session->artifact->n_variables && session->artifact->variables[variable].by_rows;
    *values = NULL;
    if (!is_table) return dt_error(DT_DATA_LOSS, "rows of what is no table are asked for");
    return dt_row_tables_copy(dt_row_steps_tables(session->rows), variable, rows, n, values, bytes);
}

/* ---- asking ---- */

const dt_session_options *dt_session_get_options(const dt_session *session) { return &session->options; }
void dt_session_set_seed(dt_session *session, int64_t seed) { session->options.seed = seed; }
void dt_session_set_length(dt_session *session, int64_t epochs, int64_t steps_per_epoch) {
    session->options.epochs = epochs;
    session->options.steps_per_epoch = steps_per_epoch;
}
int dt_session_n_devices(const dt_session *session) { return session->spec.n; }
int dt_session_n_shards(const dt_session *session) { return session->domains[0].n_shards; }
int dt_session_n_spare(const dt_session *session) { return session->n_spare; }
int dt_session_n_executors(const dt_session *session) { return session->n_executors; }
int dt_session_n_runs(const dt_session *session, int step, int kernel) {
    int n = 0;
    for (int d = 0; d < session->n_domains; d++) n += dt_memory_domain_runs(&session->domains[d], session->artifact->steps[step].function, kernel);
    return n;
}
const char *dt_session_device_name(const dt_session *session, int device) {
    return session->executors[dt_session_first_executor(session, device)].device->name;
}
int64_t dt_session_replicas(const dt_session *session) { return session->options.replicas; }
int64_t dt_session_rows(const dt_session *session) { return session->options.rows; }
int64_t dt_session_global_batch(const dt_session *session) { return session->options.rows * session->options.replicas; }
const dt_artifact *dt_session_artifact(const dt_session *session) { return session->artifact; }
bool dt_session_is_gpu(const dt_session *session) { return session->spec.kind->is_gpu; }
const char *dt_session_level(const dt_session *session) { return dt_executor_level(&session->executors[0]); }

int64_t dt_session_first_row(const dt_session *session) { return rows_here(session).first; }
int64_t dt_session_n_rows(const dt_session *session) { return rows_here(session).end - rows_here(session).first; }

dt_row_range dt_session_rows_here(const dt_session *session) { return session->n_processes > 1 ? rows_here(session) : (dt_row_range){0}; }

int64_t dt_session_own_rows(const dt_session *session, int64_t rows) { return dt_row_range_valid(rows_here(session), rows); }
int64_t dt_session_valid_rows(const dt_session *session, int process, int64_t rows) { return dt_row_range_valid(rows_of(session, process), rows); }

bool dt_session_gives_rows(const dt_session *session, int process) {
    dt_process_roles all = dt_processes_roles(session->options.processes);
    all.process = process;
    dt_mesh mesh = dt_mesh_of(all, session->options.shards_over, session->options.stages);
    return mesh.axes[DT_AXIS_MODEL].process == 0 && mesh.axes[DT_AXIS_STAGES].process == 0;
}

dt_status *dt_session_find_rows(const dt_kernels *kernels, const dt_session_options *options, dt_row_range *rows) {
    dt_session asked = {.kernels = kernels, .artifact = dt_kernels_artifact(kernels), .options = *options};
    *rows = (dt_row_range){0};
    if (dt_processes_count(options->processes) == 1) return NULL;
    DT_TRY(check_options(&asked));
    *rows = rows_here(&asked);
    return NULL;
}

dt_status *dt_session_find_parts(const dt_kernels *kernels, const dt_session_options *options, dt_row_range *parts) {
    dt_session asked = {.kernels = kernels, .artifact = dt_kernels_artifact(kernels), .options = *options};
    DT_TRY(check_options(&asked));
    for (int p = 0; p < asked.n_processes; p++) parts[p] = rows_of(&asked, p);
    return NULL;
}

int dt_session_process_of_row(const dt_session *session, int64_t row) {
    int p = 0;
    while (p + 1 < session->n_processes && (row < rows_of(session, p).first || row >= rows_of(session, p).end)) p++;
    return p;
}

dt_status *dt_session_peak(dt_session *session, dt_peak *peak) {
    return session->spec.kind->measure_peak(session->executors[0].device, dt_session_level(session), peak);
}

void dt_session_print_libraries(const dt_session *session, bool each, dt_text *text) {
    if (session->spec.kind->print_libraries != NULL) session->spec.kind->print_libraries(session->executors[session->n_idle].device, each, text);
}

/* Who adds up what is left to somebody. */
static void print_fast(const dt_session *session, dt_text *text) {
    const dt_transport *transport = dt_processes_transport(session->options.processes);
    const char *engine = session->link != NULL ? session->link->kind->name : transport->kind->all_reduce != NULL ? transport->version : NULL;
    if (engine != NULL)
        dt_text_format(text, "--reduce=fast: %s adds up sums over processes, and the bits of results are not promised\n", engine);
    else
        dt_text_format(text, "--reduce=fast: %s adds nothing up, so sums are exact\n", transport->kind->name);
}

void dt_session_print_crossing(const dt_session *session, dt_text *text) {
    const dt_transport *transport = dt_processes_transport(session->options.processes);
    if (session->chose_gpu) dt_text_format(text, "each process computes on one GPU: the first of a machine on cuda:0, and so on\n");
    if (session->link != NULL) dt_text_format(text, "sums cross processes by %s, on the GPUs' own queues\n", session->link->kind->name);
    if (session->no_link[0] != 0)
        dt_text_format(text, "sums cross processes by %s, through the machines' memory, and not by NCCL. %s\n", transport->version, session->no_link);
    if (session->options.fast_sums && session->n_processes > 1) print_fast(session, text);
}

void dt_session_print_sharing(const dt_session *session, dt_text *text) {
    bool gathers = session->domains[0].gathering != NULL;
    int n_rounds = session->domains[0].n_rounds;
    if (session->options.shards_over > 1)
        dt_text_format(text, "of the %d shards of the model each process has %d: %" PRId64 " processes have the same examples\n",
                       session->artifact->n_shards, session->domains[0].n_shards, session->options.shards_over);
    if (session->stages != NULL)
        dt_text_format(text, "the layers of the model are cut into %d stages: each process has those of one\n", session->stages->n);
    dt_memory_print_sharing(session->artifact, wanted(session), session->domains[0].layout.sharing, session->n_processes,
                            session->domains[0].n_shards, sharing_of(session), text);
    if (gathers && n_rounds > 1)
        dt_text_format(text, "parameters are gathered in %d rounds of microbatches%s\n", n_rounds,
                       session->options.gather_rounds > 0 ? "" : ", since there is no memory for all together");
    for (int v = 0; v < session->artifact->n_variables && gathers; v++)
        if (dt_is_gathered(&session->artifact->variables[v]) && !is_drawn_in_shares(session->artifact, v))
            dt_text_format(text, "initial values of %s are drawn whole by each process, since its initialiser needs all of them\n",
                           session->artifact->variables[v].path);
}
