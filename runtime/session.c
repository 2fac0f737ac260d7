/* session: see session.h. Checks what it was asked for, opens lanes (one a core) and their homes (one a memory), runs them together, reads what they
 * left. */
#include "runtime/session.h"

#include "abi/fold.h"
#include "base/arena.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/comm/local/local.h"
#include "runtime/crew.h"
#include "runtime/devices/spec.h"
#include "runtime/lane.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static const double DEFAULT_DEADLINE_SECONDS = 600;
enum {
    MOST_REPLICAS = 1 << 20,
    MOST_LEAVES = 1 << 24
};
/* The depth of a fold hangs on its leaves: on a GPU these are as many as replicas, for a plan for GPUs has one block of rows a replica. */
_Static_assert(MOST_REPLICAS <= 1 << DT_FOLD_DEPTH, "a GPU's fold has room for the sums of all replicas");

struct dt_session {
    dt_arena *arena; /* of the lanes and what is bound to them */
    const dt_kernels *kernels;
    const dt_artifact *artifact; /* of the kernels; on a GPU its program for GPUs */
    dt_session_options options;  /* rows is never 0 */
    dt_device_spec spec;
    int n_lanes;    /* at least one a device */
    dt_lane *lanes; /* [n_lanes] */
    int n_homes;
    dt_home *homes; /* [n_homes] one, where the devices share memory; else one a lane */
    dt_comm **comms;
    dt_crew *crew;
    dt_lane_run_values running; /* what the crew works on */
    bool failed;

    /* of the last dt_session_run */
    int step;
    dt_batch batch;
    dt_bad_index bad_index;

    const void *const *staged; /* inputs of the batch that was staged last, and no step has run since; NULL: there is none */
    int staged_step;
};

dt_session_options dt_session_options_default(void) {
    return (dt_session_options){.devices = "cpu", .replicas = 1, .epochs = 1, .deadline_seconds = DEFAULT_DEADLINE_SECONDS};
}

/* ---- creating ---- */

static const dt_lane_kind *lanes_of(const dt_session *session) { return session->spec.kind->lanes; }

static dt_status *check_options(dt_session *session) {
    dt_session_options *options = &session->options;
    DT_TRY(dt_device_spec_parse(options->devices != NULL ? options->devices : "cpu", &session->spec));
    if (session->spec.kind->is_gpu && session->spec.n == 0) DT_TRY(dt_device_spec_choose_gpus(&session->spec, 1, 1));
    if (session->spec.kind->is_gpu && session->spec.n > 1)
        return dt_error(DT_INVALID_ARGUMENT, "--devices %s: a run takes one GPU; all replicas of --replicas run on it. Name one, as in %s:%d",
                        options->devices, session->spec.kind->name, session->spec.numbers[0]);
    if (lanes_of(session)->choose_program != NULL) DT_TRY(lanes_of(session)->choose_program(session->artifact, &session->artifact));
    const dt_artifact *artifact = session->artifact;
    if (options->replicas < 1 || options->replicas > MOST_REPLICAS)
        return dt_error(DT_INVALID_ARGUMENT, "--replicas %" PRId64 ": the number of replicas is 1 to %d", options->replicas, MOST_REPLICAS);
    if (session->spec.n > options->replicas)
        return dt_error(DT_INVALID_ARGUMENT,
                        "%d devices for %" PRId64 " replica%s: each device holds at least one replica; use --replicas %d or --devices %s:%" PRId64,
                        session->spec.n, options->replicas, dt_plural(options->replicas), session->spec.n, session->spec.kind->name,
                        options->replicas);
    if (options->rows == 0) options->rows = artifact->capacity;
    if (options->rows < 1) return dt_error(DT_INVALID_ARGUMENT, "%" PRId64 " rows a replica: there must be at least one", options->rows);
    if (options->rows > artifact->capacity) {
        char rows[24];
        snprintf(rows, sizeof rows, "%" PRId64, options->rows);
        dt_status *status = dt_error(DT_INVALID_ARGUMENT, "%s rows a replica, but %s was compiled for at most %" PRId64 "; compile it again", rows,
                                     artifact->path, artifact->capacity);
        return dt_artifact_suggest(status, artifact, "--batch", rows);
    }
    if (dt_artifact_blocks(artifact, options->rows) * options->replicas > MOST_LEAVES)
        return dt_error(DT_INVALID_ARGUMENT, "%" PRId64 " replica%s of %" PRId64 " rows in blocks of %" PRId64 ": more than %d blocks",
                        options->replicas, dt_plural(options->replicas), options->rows, artifact->block_rows, MOST_LEAVES);
    if (!(options->deadline_seconds > 0)) options->deadline_seconds = DEFAULT_DEADLINE_SECONDS;
    return NULL;
}

static dt_lane_times *new_times(const dt_session *session) {
    int most = 0;
    for (int f = 0; f < session->artifact->n_functions; f++)
        if (session->artifact->functions[f].n_kernels > most) most = session->artifact->functions[f].n_kernels;
    dt_lane_times *times = DT_NEW(session->arena, dt_lane_times);
    times->kernel_seconds = DT_NEW_ARRAY(session->arena, double, most);
    times->kernel_calls = DT_NEW_ARRAY(session->arena, int, most);
    return times;
}

/* Lanes in order belong to devices in order, as evenly as can be. */
static int device_of_lane(const dt_session *session, int lane) { return (int)((int64_t)lane * session->spec.n / session->n_lanes); }

/* Of a device: the least lane of which device_of_lane is the device. */
static int first_lane(const dt_session *session, int device) {
    return (int)(((int64_t)device * session->n_lanes + session->spec.n - 1) / session->spec.n);
}

/* Lanes of one memory have one home. */
static void open_homes(dt_session *session) {
    bool shared = session->spec.kind->shares_memory;
    int n = session->n_lanes;
    session->n_homes = shared ? 1 : n;
    session->homes = DT_NEW_ARRAY(session->arena, dt_home, session->n_homes);
    for (int h = 0; h < session->n_homes; h++) {
        session->homes[h] = (dt_home){.device = session->lanes[h].device, .n_lanes = shared ? n : 1};
        dt_home_lay_out(&session->homes[h], session->artifact, session->lanes[h].n_all_leaves, -1, session->arena);
    }
    for (int d = 0; d < n; d++) {
        session->lanes[d].home = &session->homes[shared ? 0 : d];
        session->lanes[d].part = shared ? d : 0;
    }
}

/* Leaves are dealt to all lanes alike: where D divides V, a device's lanes hold what its replicas are made of. A core that would get none is left
 * out. */
static dt_status *open_lanes(dt_session *session) {
    int64_t blocks = dt_artifact_blocks(session->artifact, session->options.rows);
    int n = session->spec.n * session->spec.n_cores, n_leaves = (int)(blocks * session->options.replicas);
    if (n > n_leaves) n = n_leaves;
    session->comms = DT_NEW_ARRAY(session->arena, dt_comm *, n);
    session->lanes = DT_NEW_ARRAY(session->arena, dt_lane, n);
    session->n_lanes = n;
    for (int d = 0; d < n; d++) {
        dt_lane *lane = &session->lanes[d];
        DT_TRY(dt_device_open(session->spec.kind, dt_device_spec_number(&session->spec, d), n, &lane->device));
        snprintf(lane->device->name, sizeof lane->device->name, "%s:%d", session->spec.kind->name,
                 dt_device_spec_number(&session->spec, device_of_lane(session, d)));
        lane->kernels = session->kernels;
        lane->artifact = session->artifact;
        lane->first_leaf = dt_comm_first_leaf(d, n, n_leaves);
        lane->n_leaves = dt_comm_first_leaf(d + 1, n, n_leaves) - lane->first_leaf;
        lane->n_all_leaves = n_leaves;
        lane->rows = session->options.rows;
        lane->blocks = blocks;
        lane->block_rows = session->artifact->block_rows;
        lane->generated_alone = session->options.generated_alone;
        dt_lane_lay_out(lane, -1, session->arena);
        if (session->options.times) lane->times = new_times(session);
    }
    open_homes(session);
    DT_TRY(dt_comm_local_open(n, n_leaves, session->options.deadline_seconds, session->comms));
    for (int d = 0; d < n; d++) {
        session->lanes[d].comm = session->comms[d];
        DT_TRY(lanes_of(session)->open(&session->lanes[d], session->arena));
    }
    return NULL;
}

/* Before anything is allocated: does the plan fit? */
static dt_status *check_memory(const dt_session *session) {
    int64_t needed = dt_session_memory_bytes(session), available = dt_device_free_bytes(session->lanes[0].device);
    return needed <= available ? NULL : lanes_of(session)->does_not_fit(&session->lanes[0], session->n_lanes, needed, available);
}

static void enter_device(void *context, int member) { dt_device_enter(((dt_session *)context)->lanes[member].device); }

static dt_status *create_guarded(dt_session *session) {
    jmp_buf guard;
    if (setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "%s: not enough memory for a session", session->artifact->path);
    dt_arena_guard(session->arena, &guard);
    DT_TRY(check_options(session));
    DT_TRY(open_lanes(session));
    DT_TRY(check_memory(session));
    DT_TRY(dt_device_reserve(session->lanes[0].device, (size_t)dt_session_memory_bytes(session))); /* a GPU is the only device */
    for (int h = 0; h < session->n_homes; h++) DT_TRY(dt_home_allocate(&session->homes[h]));
    for (int d = 0; d < session->n_lanes; d++) {
        DT_TRY(dt_lane_allocate(&session->lanes[d]));
        DT_TRY(lanes_of(session)->bind(&session->lanes[d], session->arena));
    }
    return dt_crew_create(session->n_lanes, enter_device, session, &session->crew);
}

dt_status *dt_session_create(const dt_kernels *kernels, const dt_session_options *options, dt_session **session) {
    dt_session *made = dt_allocate_zeroed(1, sizeof *made);
    dt_arena *arena = dt_arena_create();
    *session = NULL;
    if (made == NULL || arena == NULL) {
        dt_release(made);
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "%s: not enough memory for a session", dt_kernels_artifact(kernels)->path);
    }
    *made = (dt_session){.arena = arena, .kernels = kernels, .artifact = dt_kernels_artifact(kernels), .options = *options, .step = -1};
    dt_status *status = create_guarded(made);
    dt_arena_guard(arena, NULL);
    if (status == NULL)
        *session = made;
    else
        dt_session_destroy(made);
    return status;
}

void dt_session_destroy(dt_session *session) {
    if (session == NULL) return;
    dt_crew_destroy(session->crew);
    for (int d = 0; d < session->n_lanes && lanes_of(session)->close != NULL; d++) lanes_of(session)->close(&session->lanes[d]);
    for (int h = 0; h < session->n_homes; h++) dt_home_free(&session->homes[h]);
    for (int d = 0; d < session->n_lanes; d++) {
        dt_comm_close(session->comms[d]);
        dt_lane_free(&session->lanes[d]);
        dt_device_close(session->lanes[d].device);
    }
    dt_arena_destroy(session->arena);
    dt_release(session);
}

/* ---- running ---- */

/* One member's part. Whoever fails tells the others, who may be waiting for it. */
static dt_status *run_lane(void *context, int member) {
    dt_session *session = context;
    dt_lane *lane = &session->lanes[member];
    dt_status *status = lanes_of(session)->start(lane, &session->running);
    if (status != NULL) {
        char reason[256];
        snprintf(reason, sizeof reason, "%s: %s", lane->device->name, dt_status_message(status));
        dt_comm_abort(lane->comm, reason);
    }
    return status;
}

static dt_launch launch_values(const dt_session *session, int64_t valid, int64_t counter) {
    const dt_session_options *options = &session->options;
    return (dt_launch){.valid = valid,
                       .global_batch = dt_session_global_batch(session),
                       .replicas = options->replicas,
                       .epochs = options->epochs,
                       .steps_per_epoch = options->steps_per_epoch,
                       .counter = counter,
                       .seed = options->seed};
}

static dt_status *has_failed(void) { return dt_error(DT_FAILED_PRECONDITION, "this session failed before; it can only be destroyed"); }

/* What session->running says, on all lanes; a GPU's is then under way, and all others are done. */
static dt_status *start(dt_session *session) {
    if (session->failed) return has_failed();
    dt_status *status = dt_crew_run(session->crew, run_lane, session);
    session->failed = status != NULL;
    return status;
}

static dt_status *finish(dt_session *session) {
    dt_status *status = NULL;
    if (session->failed) return has_failed();
    for (int d = 0; d < session->n_lanes && lanes_of(session)->finish != NULL; d++)
        status = dt_status_first(status, lanes_of(session)->finish(&session->lanes[d], &session->running));
    session->failed = status != NULL;
    return status;
}

dt_status *dt_session_initialize(dt_session *session) {
    const dt_artifact *artifact = session->artifact;
    for (int f = 0; f < artifact->n_functions; f++) {
        if (artifact->functions[f].role != DT_ROLE_INIT) continue;
        session->step = -1;
        session->running = (dt_lane_run_values){.function = f, .launch = launch_values(session, 0, 0), .step = artifact->functions[f].name};
        DT_TRY(start(session));
        return finish(session);
    }
    return NULL;
}

/* All records as one. Kernels that run once count on the first lane of each memory, the same on each: the first one's are taken. */
static void collect_bad_index(dt_session *session) {
    session->bad_index = session->lanes[0].bad_index[session->lanes[0].n_leaves];
    for (int d = 0; d < session->n_lanes; d++)
        for (int l = 0; l < session->lanes[d].n_leaves; l++) dt_bad_index_add(&session->bad_index, &session->lanes[d].bad_index[l]);
}

static dt_status *read_aggregates(const dt_session *session, const dt_artifact_step *step, dt_total *aggregates) {
    const dt_artifact_function *function = &session->artifact->functions[step->function];
    for (int i = 0; i < step->n_aggregates; i++) {
        int64_t word;
        const dt_artifact_result *result = &function->results[i];
        if (function->buffers[result->buffer].space == DT_MEMORY_INPUT)
            memcpy(&word, session->batch.inputs[function->buffers[result->buffer].input], (size_t)result->tensor.row_bytes);
        else
            DT_TRY(lanes_of(session)->read_aggregate(&session->lanes[0], step->function, i, &word));
        aggregates[i] = dt_total_from(result->tensor.dtype, &word);
    }
    return NULL;
}

dt_status *dt_session_start(dt_session *session, int step, const dt_batch *batch) {
    const dt_artifact_step *about = &session->artifact->steps[step];
    if (batch->rows < 1 || batch->rows > dt_session_global_batch(session))
        return dt_error(DT_INVALID_ARGUMENT, "%s: a batch of %" PRId64 " rows; the global batch holds 1 to %" PRId64, about->name, batch->rows,
                        dt_session_global_batch(session));
    bool from_slot = batch->inputs == NULL && session->artifact->functions[about->function].n_inputs > 0;
    if (from_slot && (session->staged == NULL || session->staged_step != step))
        return dt_error(DT_FAILED_PRECONDITION, "%s: the batch to run has not been staged", about->name);
    session->step = step;
    session->batch = *batch;
    if (from_slot) session->batch.inputs = session->staged;
    session->staged = NULL;
    session->running = (dt_lane_run_values){
        .function = about->function, .inputs = batch->inputs, .launch = launch_values(session, batch->rows, batch->counter), .step = about->name};
    return start(session);
}

dt_status *dt_session_finish(dt_session *session, dt_total *aggregates) {
    DT_TRY(finish(session));
    collect_bad_index(session);
    return aggregates != NULL ? read_aggregates(session, &session->artifact->steps[session->step], aggregates) : NULL;
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
    return lanes_of(session)->stage != NULL;
}

dt_status *dt_session_stage(dt_session *session, int step, const dt_batch *batch) {
    if (session->failed) return has_failed();
    session->staged = batch->inputs;
    session->staged_step = step;
    const dt_artifact_step *about = &session->artifact->steps[step];
    dt_status *status = NULL;
    for (int d = 0; d < session->n_lanes; d++) {
        dt_status *one = lanes_of(session)->stage(&session->lanes[d], about->function, batch->inputs, batch->rows);
        one = dt_status_annotate(one, "%s, %s step %" PRId64 ", its inputs", session->lanes[d].device->name, about->name, batch->counter + 1);
        status = dt_status_first(status, one);
    }
    session->failed = status != NULL;
    return status;
}

/* ---- what a run left ---- */

/* Each leaf's valid rows, side by side. */
static dt_status *read_rows(const dt_session *session, int function, const dt_artifact_result *result, char *data) {
    for (int d = 0; d < session->n_lanes; d++) {
        const dt_lane *lane = &session->lanes[d];
        dt_comm_moment moment = {.rows = lane->rows, .blocks = lane->blocks, .block_rows = lane->block_rows, .valid = session->batch.rows};
        for (int l = 0; l < lane->n_leaves; l++) {
            size_t bytes = (size_t)(dt_comm_valid_rows(lane->first_leaf + l, &moment) * result->tensor.row_bytes);
            if (bytes == 0) continue;
            DT_TRY(dt_device_read(lane->device, data, dt_lane_place(lane, function, result->buffer, l), bytes));
            data += bytes;
        }
    }
    return NULL;
}

dt_status *dt_session_result(dt_session *session, int step, int index, void *data) {
    int number = session->artifact->steps[step].function;
    const dt_artifact_function *function = &session->artifact->functions[number];
    const dt_artifact_result *result = &function->results[index];
    const dt_artifact_buffer *buffer = &function->buffers[result->buffer];
    if (step != session->step || session->failed)
        return dt_error(DT_FAILED_PRECONDITION, "%s has not been run last: its results are gone", session->artifact->steps[step].name);
    int64_t bytes = result->tensor.has_rows ? result->tensor.row_bytes * session->batch.rows : result->tensor.row_bytes;
    if (buffer->space == DT_MEMORY_INPUT) {
        memcpy(data, session->batch.inputs[buffer->input], (size_t)bytes);
        return NULL;
    }
    if (result->tensor.has_rows) return read_rows(session, number, result, data);
    return dt_device_read(session->lanes[0].device, data, dt_lane_place(&session->lanes[0], number, result->buffer, 0), (size_t)bytes);
}

double dt_session_times(const dt_session *session, double *kernel_seconds, int *kernel_calls) {
    int n = session->artifact->functions[session->artifact->steps[session->step].function].n_kernels;
    double exchange_seconds = 0;
    for (int k = 0; k < n; k++) {
        kernel_seconds[k] = 0;
        kernel_calls[k] = 0;
        for (int d = 0; d < session->n_lanes; d++) {
            kernel_seconds[k] += session->lanes[d].times->kernel_seconds[k];
            kernel_calls[k] += session->lanes[d].times->kernel_calls[k];
        }
    }
    for (int d = 0; d < session->n_lanes; d++) exchange_seconds += session->lanes[d].times->exchange_seconds;
    return exchange_seconds;
}

void dt_session_measure(dt_session *session, bool one_by_one) {
    for (int d = 0; d < session->n_lanes; d++) session->lanes[d].times->pauses = !one_by_one;
}

const dt_bad_index *dt_session_bad_index(const dt_session *session) { return &session->bad_index; }

dt_status *dt_session_bad_index_status(const dt_session *session) {
    const dt_bad_index *bad = &session->bad_index;
    const dt_artifact *artifact = session->artifact;
    char place[200] = "", row[64] = "", others[64] = "";
    if (bad->count == 0) return NULL;
    if (bad->site >= 0 && bad->site < artifact->n_sites) {
        const dt_artifact_site *site = &artifact->sites[bad->site];
        snprintf(place, sizeof place, "%.150s:%" PRId64 ":%" PRId64 ": ", site->file, site->line, site->column);
    }
    if (bad->row >= 0) snprintf(row, sizeof row, ", row %" PRId64, bad->row);
    if (bad->count > 1) snprintf(others, sizeof others, " (and %" PRId64 " more out of range)", bad->count - 1);
    return dt_error(DT_OUT_OF_RANGE, "%s%s step %" PRId64 "%s: index %" PRId64 " is not within 0 to %" PRId64 "%s", place,
                    artifact->steps[session->step].name, session->batch.counter + 1, row, bad->value, bad->limit - 1, others);
}

/* ---- variables ---- */

dt_status *dt_session_get_variable(dt_session *session, int device, int variable, void *data) {
    const dt_home *home = session->lanes[first_lane(session, device)].home;
    return dt_device_read(home->device, data, home->memory + home->variables[variable], (size_t)session->artifact->variables[variable].bytes);
}

dt_status *dt_session_set_variable(dt_session *session, int variable, const void *data) {
    for (int h = 0; h < session->n_homes; h++) {
        const dt_home *home = &session->homes[h];
        DT_TRY(dt_device_write(home->device, home->memory + home->variables[variable], data, (size_t)session->artifact->variables[variable].bytes));
    }
    return NULL;
}

/* ---- asking ---- */

int dt_session_n_devices(const dt_session *session) { return session->spec.n; }
int dt_session_n_cores(const dt_session *session) { return session->n_lanes; }
int dt_session_n_memories(const dt_session *session) { return session->n_homes; }
const char *dt_session_device_name(const dt_session *session, int device) { return session->lanes[first_lane(session, device)].device->name; }
int64_t dt_session_replicas(const dt_session *session) { return session->options.replicas; }
int64_t dt_session_rows(const dt_session *session) { return session->options.rows; }
int64_t dt_session_global_batch(const dt_session *session) { return session->options.rows * session->options.replicas; }
const dt_artifact *dt_session_artifact(const dt_session *session) { return session->artifact; }
bool dt_session_is_gpu(const dt_session *session) { return session->spec.kind->is_gpu; }
dt_status *dt_session_peak(dt_session *session, dt_peak *peak) { return lanes_of(session)->measure_peak(&session->lanes[0], peak); }
const char *dt_session_level(const dt_session *session) { return session->lanes[0].level; }

void dt_session_print_libraries(const dt_session *session, bool each, dt_text *text) {
    if (lanes_of(session)->print_libraries != NULL) lanes_of(session)->print_libraries(&session->lanes[0], each, text);
}

int64_t dt_session_memory_bytes(const dt_session *session) {
    int64_t bytes = 0;
    for (int h = 0; h < session->n_homes; h++)
        if (__builtin_add_overflow(bytes, dt_device_taken_bytes(session->homes[h].device, session->homes[h].bytes), &bytes)) return INT64_MAX;
    for (int d = 0; d < session->n_lanes; d++)
        if (__builtin_add_overflow(bytes, dt_device_taken_bytes(session->lanes[d].device, session->lanes[d].bytes), &bytes) ||
            __builtin_add_overflow(bytes, session->lanes[d].bytes_beside, &bytes))
            return INT64_MAX;
    return bytes;
}
