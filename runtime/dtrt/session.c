/* session: see session.h. Creating, destroying, and who may use it when. */
#include "runtime/dtrt/session.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "runtime/devices/host_memory.h"
#include "runtime/dtrt/log.h"
#include "runtime/dtrt/processes.h"
#include "runtime/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- who uses it ---- */

enum {
    IDLE,
    IN_USE,
    IN_CALLBACK /* of the thread that owns it */
};

static dt_status *check_process(const dtrt_session *session) {
    DT_TRY(dt_api_need(session, "session"));
    if (session->process == getpid()) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "the session is process %ld's: after fork it can be used in the parent alone", (long)session->process);
}

static bool take(dtrt_session *session) {
    int idle = IDLE;
    if (!atomic_compare_exchange_strong(&session->usage, &idle, IN_USE)) return false;
    session->owner = pthread_self();
    return true;
}

/* Of a session that was taken. */
static dt_status *begin_call(dtrt_session *session) {
    dt_status *status = dt_api_begin_call(session->processes);
    if (status != NULL) atomic_store(&session->usage, IDLE);
    return status;
}

/* Of a session in use: whether it is by this thread, which is inside a callback. */
static bool calls_back(const dtrt_session *session) {
    return atomic_load(&session->usage) == IN_CALLBACK && pthread_equal(session->owner, pthread_self());
}

static dt_status *in_use(void) {
    return dt_error(DT_FAILED_PRECONDITION, "the session is in use by another thread: one thread at a time may use it");
}

dt_status *dt_api_enter(dtrt_session *session) {
    DT_TRY(check_process(session));
    if (take(session)) return begin_call(session);
    if (!calls_back(session)) return in_use();
    return dt_error(DT_FAILED_PRECONDITION, "a callback may read the session that calls it, but not change it: return from the callback first");
}

dt_status *dt_api_enter_to_read(dtrt_session *session) {
    DT_TRY(check_process(session));
    if (take(session)) return begin_call(session);
    if (!calls_back(session)) return in_use();
    session->n_readers++;
    return NULL;
}

dt_status *dt_api_enter_to_set(dtrt_session *session) {
    DT_TRY(check_process(session));
    if (!calls_back(session) || !session->is_between_steps) return dt_api_enter(session);
    if (session->processes != NULL)
        return dt_error(DT_FAILED_PRECONDITION,
                        "in a callback a launch value is set where the session is of one process: set it in all processes between two runs");
    session->n_readers++;
    return NULL;
}

dt_status *dt_api_leave(dtrt_session *session, dt_status *status) {
    if (session->n_readers > 0) {
        session->n_readers--;
        return status;
    }
    dt_api_end_call(session->processes);
    atomic_store(&session->usage, IDLE);
    return status;
}

void dt_api_begin_callback(dtrt_session *session) { atomic_store(&session->usage, IN_CALLBACK); }
void dt_api_end_callback(dtrt_session *session) { atomic_store(&session->usage, IN_USE); }

/* ---- creating ---- */

/* What `devices` and `threads` say together, as runtime/devices/spec.h has it. */
static dt_status *print_devices(const dtrt_session_options *options, char text[DT_API_DEVICES]) {
    const size_t bytes = DT_API_DEVICES;
    const char *devices = options->devices != NULL ? options->devices : "cpu";
    bool is_cpu = strcmp(devices, "cpu") == 0 || strncmp(devices, "cpu:", 4) == 0;
    int n = snprintf(text, bytes, "%s", devices);
    if (options->threads != 0) {
        if (!is_cpu || strchr(devices, 'x') != NULL || options->threads < 1)
            return dt_error(DT_INVALID_ARGUMENT, "%" PRId64 " threads on devices \"%s\": threads are of \"cpu\" or \"cpu:D\", at least one of each",
                            options->threads, devices);
        n = snprintf(text, bytes, "%s%sx%" PRId64, devices, devices[3] == 0 ? ":1" : "", options->threads);
    }
    return (size_t)n < bytes ? NULL : dt_error(DT_INVALID_ARGUMENT, "devices \"%.40s…\": the list is too long", devices);
}

/* *number: from 1, that of `text` among `names`; 0: it is NULL. */
static dt_status *find_name(const char *what, const char *text, const char *const names[2], int *number) {
    *number = 0;
    if (text == NULL) return NULL;
    for (int i = 0; i < 2; i++)
        if (strcmp(text, names[i]) == 0) *number = i + 1;
    return *number != 0 ? NULL : dt_error(DT_INVALID_ARGUMENT, "%s \"%.40s\": there are \"%s\" and \"%s\"", what, text, names[0], names[1]);
}

dt_status *dt_api_read_session(const dtrt_session_options *options, char devices[DT_API_DEVICES], dt_run_options *run) {
    int placement, by_rows;
    DT_TRY(print_devices(options, devices));
    DT_TRY(dt_run_options_take(DT_OF_SESSION, options, run));
    DT_TRY(find_name("placement", options->placement, (const char *const[]){"mirrored", "central"}, &placement));
    DT_TRY(find_name("by_rows", options->by_rows, (const char *const[]){"exact", "lazy"}, &by_rows));
    run->devices = devices;
    run->has_seed = true;
    run->central = placement == 2;
    run->by_rows = (dt_by_rows)by_rows;
    run->processes = dt_api_processes(options->processes);
    return NULL;
}

static dt_status *open_timeline(dtrt_session *session, dt_session_options *about) {
    int64_t n_steps = session->options.timeline_steps;
    if (n_steps == 0) return NULL;
    DT_TRY(dt_api_open_timeline(n_steps, about->processes, &session->clock, &session->timeline));
    about->timeline = session->timeline;
    return NULL;
}

dt_status *dt_api_copy_text(const char *text, char **copy) {
    *copy = NULL;
    if (text == NULL) return NULL;
    size_t bytes = strlen(text) + 1;
    *copy = dt_allocate(bytes);
    if (*copy == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    memcpy(*copy, text, bytes);
    return NULL;
}

/* What can be wrong with the options before anything is opened. */
static dt_status *check_options(dtrt_session *session, char devices[DT_API_DEVICES], dt_session_options *about) {
    const dtrt_session_options *options = &session->options;
    DT_TRY(dt_api_read_session(options, devices, &session->asked));
    DT_TRY(dt_run_describe_session(&session->asked, about));
    DT_TRY(dt_run_rows(&session->asked, 0, &about->rows));
    about->forward_only = options->forward_only != 0;
    about->times = options->measure_kernels != 0;
    DT_TRY(dt_api_copy_text(options->data, &session->data));
    session->asked.data = session->options.data = session->data;
    return NULL;
}

/* The session on its devices: "cpu" is this process's share of the cores. */
static dt_status *open_session(dtrt_session *session, dtrt_program *program, dt_session_options *about, dt_text *note) {
    const char *level;
    DT_TRY(dt_program_rendezvous(program, "session", &session->asked, &level, note));
    DT_TRY(dt_program_hold(program, level, &session->kernels));
    session->program = program;
    DT_TRY(open_timeline(session, about));
    DT_TRY(dt_session_create(session->kernels, about, &session->session));
    session->artifact = about->by_rows ? dt_kernels_artifact(session->kernels) : dt_session_artifact(session->session);
    session->steps = dt_allocate_zeroed((size_t)session->artifact->n_steps, sizeof *session->steps);
    return session->steps != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

static dt_status *tell(dtrt_session *session, const dt_text *note) {
    dt_api_log log;
    if (note->n == 0) return NULL;
    DT_TRY(dt_api_open_log(session, &log));
    dt_log_remark(log.log, "note", "%s", note->data);
    dt_api_close_log(&log);
    return NULL;
}

/* Its threads stay on this process's cores; the caller's goes where it went before. */
static dt_status *fill(dtrt_session *session, dtrt_program *program) {
    char devices[DT_API_DEVICES];
    dt_session_options about;
    dt_text note = {0};
    dt_api_cores cores;
    dt_api_call call = {.name = "dtrt_session_create", .hash = DT_HASH_SEED};
    const bool alike[] = {session->options.forward_only != 0, session->options.check_numerics != 0, session->options.measure_kernels != 0};
    call.hash = dt_hash_bytes(alike, sizeof alike, call.hash);
    DT_TRY(dt_api_agree(session, &call, check_options(session, devices, &about)));
    dt_api_keep_cores(&cores);
    dt_status *status = open_session(session, program, &about, &note);
    dt_api_restore_cores(session->processes, &cores);
    session->options.devices = session->options.placement = session->options.by_rows = session->asked.devices = NULL; /* the caller's */
    session->asked.check_numerics = false;                                                                            /* the session does */
    if (status == NULL) status = tell(session, &note);
    dt_text_free(&note);
    return dt_api_conclude(session, call.name, status);
}

static void free_step(const dtrt_session *session, int number) {
    const dt_artifact_function *function = &session->artifact->functions[session->artifact->steps[number].function];
    dtrt_step_state *step = &session->steps[number];
    dt_runner_destroy(step->runner);
    for (int i = 0; step->buffers != NULL && i < function->n_inputs; i++)
        dt_host_memory_release(step->buffers[i], dt_api_input_bytes(session, &function->inputs[i]) + DT_SLACK_BYTES);
    dt_release(step->buffers);
    dt_release(step->inputs);
}

static void destroy(dtrt_session *session) {
    for (int s = 0; session->steps != NULL && s < session->artifact->n_steps; s++) free_step(session, s);
    dt_session_destroy(session->session);
    dt_api_end_call(session->processes);
    dt_api_release_processes(session->processes);
    dt_timeline_destroy(session->timeline);
    dt_program_release(session->program);
    dt_checkpoint_state_free(&session->progress);
    dt_release(session->steps);
    dt_release(session->log_dir);
    dt_release(session->data);
    dt_release(session);
}

dt_status *dtrt_session_create(dtrt_program *program, const dtrt_session_options *options, dtrt_session **session) {
    DT_TRY(dt_api_need(session, "session"));
    *session = NULL;
    DT_TRY(dt_api_need(program, "program"));
    dtrt_session *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->last_step = made->trained_step = made->trained_on = -1;
    made->process = getpid();
    atomic_init(&made->usage, IN_USE);
    dt_status *status = dt_options_read(options, &made->options, sizeof made->options, "dtrt_session_options");
    if (status == NULL) status = dt_api_begin_call(made->options.processes);
    if (status == NULL) {
        made->processes = made->options.processes;
        dt_api_hold_processes(made->processes);
        status = fill(made, program);
    }
    if (status != NULL) {
        destroy(made);
        return status;
    }
    *session = made;
    return dt_api_leave(made, NULL);
}

dt_status *dtrt_session_destroy(dtrt_session *session) {
    if (session == NULL) return NULL;
    DT_TRY(dt_api_enter(session));
    if (session->n_pipelines > 0)
        return dt_api_leave(session, dt_error(DT_FAILED_PRECONDITION, "%d pipeline%s of the session %s open: close them first", session->n_pipelines,
                                              dt_plural(session->n_pipelines), session->n_pipelines == 1 ? "is" : "are"));
    destroy(session);
    return NULL;
}

void dt_api_forget_position(dtrt_session *session) {
    dt_checkpoint_state_free(&session->progress);
    session->trained_step = session->trained_on = -1;
    session->n_examples = 0;
    session->is_loaded = false;
    dt_release(session->log_dir);
    session->log_dir = NULL;
}

dt_status *dtrt_initialize(dtrt_session *session) {
    DT_TRY(dt_api_enter(session));
    dt_api_call call = {.name = "dtrt_initialize"};
    dt_status *status = dt_api_agree(session, &call, NULL);
    if (status == NULL) status = dt_api_conclude(session, call.name, dt_run_initialize(session->session));
    if (status == NULL) dt_api_forget_position(session);
    return dt_api_leave(session, status);
}

/* ---- asking ---- */

dtrt_program *dtrt_session_program(dtrt_session *session) { return session != NULL ? session->program : NULL; }

dt_status *dtrt_session_describe(dtrt_session *session, dtrt_session_info *info) {
    DT_TRY(dt_api_enter_to_read(session));
    const dt_session *of = session->session;
    dtrt_session_info about = {.replicas = dt_session_replicas(of),
                               .global_batch = dt_session_global_batch(of),
                               .seed = session->options.seed,
                               .memory_bytes = dt_session_memory_bytes(of),
                               .n_devices = dt_session_n_devices(of),
                               .n_threads = dt_session_n_executors(of),
                               .level = dt_session_level(of),
                               .n_steps = session->progress.step,
                               .epoch = session->progress.epoch,
                               .examples = session->progress.examples,
                               .n_rows = dt_session_n_rows(of)};
    return dt_api_leave(session, dt_options_write(info, &about, sizeof about, "dtrt_session_info"));
}

dt_status *dtrt_session_describe_device(dtrt_session *session, int device, dtrt_device_info *info) {
    DT_TRY(dt_api_enter_to_read(session));
    dt_status *status = dt_api_check_index(device, dt_session_n_devices(session->session), "device");
    if (status != NULL) return dt_api_leave(session, status);
    dt_session_device_bytes bytes = dt_session_bytes_of_device(session->session, device);
    dtrt_device_info about = {.name = dt_session_device_name(session->session, device),
                              .memory_bytes = bytes.all,
                              .variable_bytes = bytes.weights,
                              .optimizer_bytes = bytes.slots};
    return dt_api_leave(session, dt_options_write(info, &about, sizeof about, "dtrt_device_info"));
}

dt_status *dtrt_session_rows(dtrt_session *session, int64_t rows, int64_t *first, int64_t *n_rows) {
    DT_TRY(dt_api_need(first, "first"));
    DT_TRY(dt_api_need(n_rows, "n_rows"));
    *first = *n_rows = 0;
    DT_TRY(dt_api_enter_to_read(session));
    dt_session *of = session->session;
    int64_t most = dt_session_global_batch(of), here = dt_session_first_row(of);
    if (rows < 1 || rows > most)
        return dt_api_leave(session, dt_error(DT_INVALID_ARGUMENT, "a batch of %" PRId64 " rows; one of this session has 1 to %" PRId64, rows, most));
    *first = here < rows ? here : rows;
    *n_rows = dt_session_own_rows(of, rows);
    return dt_api_leave(session, NULL);
}

/* ---- steps ---- */

size_t dt_api_input_bytes(const dtrt_session *session, const dt_artifact_tensor *input) {
    return (size_t)(input->has_rows ? dt_session_n_rows(session->session) * input->row_bytes : input->row_bytes);
}

static bool returns_inputs(const dt_artifact_function *function) {
    for (int i = 0; i < function->n_results; i++)
        if (function->buffers[function->results[i].buffer].space == DT_MEMORY_INPUT) return true;
    return false;
}

dt_status *dt_api_step_state(dtrt_session *session, int step, dtrt_step_state **state) {
    const dt_artifact *artifact = session->artifact;
    DT_TRY(dt_api_check_index(step, artifact->n_steps, "step"));
    *state = &session->steps[step];
    if ((*state)->runner != NULL && (*state)->inputs != NULL && (*state)->buffers != NULL) return NULL; /* a run makes the runner alone */
    if (session->options.forward_only && artifact->steps[step].trains)
        return dt_error(DT_FAILED_PRECONDITION, "step %s trains, and the session is forward-only", artifact->steps[step].name);
    const dt_artifact_function *function = &artifact->functions[artifact->steps[step].function];
    if ((*state)->inputs == NULL) (*state)->inputs = dt_allocate_zeroed((size_t)function->n_inputs, sizeof *(*state)->inputs);
    if ((*state)->buffers == NULL) (*state)->buffers = dt_allocate_zeroed((size_t)function->n_inputs, sizeof *(*state)->buffers);
    if ((*state)->inputs == NULL || (*state)->buffers == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    (*state)->returns_inputs = returns_inputs(function);
    if ((*state)->runner != NULL) return NULL;
    return dt_runner_create(session->kernels, session->session, step, session->options.ignore_bad_index != 0, &(*state)->runner);
}
