/* processes: see processes.h. */
#include "runtime/dtrt/processes.h"

#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "runtime/comm/launcher.h"
#include "runtime/comm/mpi/mpi.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct dtrt_processes {
    dt_processes *processes; /* NULL: alone */
    const char *note;
    pid_t process;
    atomic_int n_sessions;
    atomic_bool in_use;
};

dt_processes *dt_api_processes(const dtrt_processes *processes) { return processes != NULL ? processes->processes : NULL; }

/* ---- opening and closing ---- */

static dt_status *open_transport(void *unused, dt_transport **transport) {
    (void)unused;
    return dt_transport_open(transport);
}

dt_status *dt_api_open_processes(dt_processes_options *options, dt_processes **processes) {
    options->open = open_transport;
    return dt_processes_open(options, processes);
}

static dt_status *find_others(const dtrt_processes_options *given, dtrt_processes *processes) {
    static const double DEFAULT_DEADLINE_SECONDS = 600;
    dtrt_processes_options options;
    dt_launcher launcher;
    DT_TRY(dt_options_read(given, &options, sizeof options, "dtrt_processes_options"));
    if (!(options.deadline_seconds >= 0)) return dt_error(DT_INVALID_ARGUMENT, "a deadline of %g seconds", options.deadline_seconds);
    DT_TRY(dt_launcher_find(&launcher));
    processes->note = dt_launcher_note(&launcher);
    if (launcher.kind == DT_LAUNCHER_NONE) return NULL;
    dt_processes_options open = {.deadline_seconds = options.deadline_seconds > 0 ? options.deadline_seconds : DEFAULT_DEADLINE_SECONDS,
                                 .outlives = true};
    return dt_api_open_processes(&open, &processes->processes);
}

dt_status *dtrt_processes_open(const dtrt_processes_options *options, dtrt_processes **processes) {
    DT_TRY(dt_api_need(processes, "processes"));
    *processes = NULL;
    dtrt_processes *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->process = getpid();
    dt_status *status = find_others(options, made);
    if (status == NULL) {
        dt_progress_set(dt_processes_progress(made->processes), DT_ACTIVITY_APPLICATION);
        *processes = made;
    } else {
        dt_release(made);
    }
    return status;
}

static dt_status *check_process(const dtrt_processes *processes) {
    if (processes->process == getpid()) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "the processes are those of process %ld: after fork they can be used in the parent alone",
                    (long)processes->process);
}

/* What is closed all the same: by another code the caller knows what is not. */
static dt_status *as_aborted(dt_status *status) {
    if (status == NULL || dt_status_code(status) == DT_ABORTED) return status;
    dt_status *aborted = dt_error(DT_ABORTED, "%s", dt_status_message(status));
    dt_status_free(status);
    return aborted;
}

dt_status *dtrt_processes_close(dtrt_processes *processes) {
    if (processes == NULL) return NULL;
    DT_TRY(check_process(processes));
    int n = atomic_load(&processes->n_sessions);
    if (n > 0)
        return dt_error(DT_FAILED_PRECONDITION, "%d session%s of these processes %s there: destroy them first", n, dt_plural(n),
                        n == 1 ? "is" : "are");
    dt_api_call call = {.name = "dtrt_processes_close"};
    dt_status *status = as_aborted(dt_api_conclude_without_session(processes, dt_api_agree_without_session(processes, &call, NULL)));
    dt_processes_close(processes->processes, status != NULL);
    dt_release(processes);
    return status;
}

dt_status *dtrt_processes_describe(const dtrt_processes *processes, dtrt_processes_info *info) {
    DT_TRY(dt_api_need(processes, "processes"));
    dtrt_processes_info about = {
        .number = dt_processes_number(processes->processes), .n_processes = dt_processes_count(processes->processes), .note = processes->note};
    return dt_options_write(info, &about, sizeof about, "dtrt_processes_info");
}

dt_status *dtrt_processes_abort(dtrt_processes *processes, const char *reason) {
    char text[512];
    DT_TRY(dt_api_need(processes, "processes"));
    DT_TRY(dt_api_need(reason, "reason"));
    DT_TRY(check_process(processes));
    snprintf(text, sizeof text, "process %d: %s", dt_processes_number(processes->processes), reason);
    dt_processes_abort(processes->processes, text);
    return NULL;
}

/* ---- for sessions ---- */

void dt_api_hold_processes(dtrt_processes *processes) {
    if (processes != NULL) atomic_fetch_add(&processes->n_sessions, 1);
}

void dt_api_release_processes(dtrt_processes *processes) {
    if (processes != NULL) atomic_fetch_sub(&processes->n_sessions, 1);
}

dt_status *dt_api_begin_call(dtrt_processes *processes) {
    if (processes == NULL) return NULL;
    DT_TRY(check_process(processes));
    if (atomic_exchange(&processes->in_use, true))
        return dt_error(DT_FAILED_PRECONDITION, "another session of the same processes is in use: they make one call at a time");
    dt_progress_set(dt_processes_progress(processes->processes), DT_ACTIVITY_COMPUTING);
    return NULL;
}

void dt_api_end_call(dtrt_processes *processes) {
    if (processes == NULL) return;
    dt_progress_set(dt_processes_progress(processes->processes), DT_ACTIVITY_APPLICATION);
    atomic_store(&processes->in_use, false);
}

uint64_t dt_api_mix_text(uint64_t hash, const char *text) { return text != NULL ? dt_hash_bytes(text, strlen(text) + 1, hash) : hash * 31; }
uint64_t dt_api_mix_integer(uint64_t hash, int64_t number) { return dt_hash_bytes(&number, sizeof number, hash); }

/* ---- one call in all ---- */

typedef struct record {
    uint64_t hash;
    int64_t which, rows;
    int32_t code; /* of what is wrong with the call, or DT_OK */
    int32_t stops;
    char name[32];
    char message[DT_RECORD_BYTES - 64];
} record;
_Static_assert(sizeof(record) <= DT_RECORD_BYTES, "a record has room for it");

static record record_of(const dt_api_call *call, const dt_status *status) {
    record made = {.hash = call->hash, .which = call->which, .rows = call->rows, .code = (int32_t)dt_status_code(status), .stops = call->stops};
    snprintf(made.name, sizeof made.name, "%s", call->name);
    snprintf(made.message, sizeof made.message, "%s", dt_status_message(status));
    return made;
}

/* The first thing in which process p's call is not that of process 0. */
static dt_status *compare(const record *all, int p) {
    if (strcmp(all[0].name, all[p].name) != 0)
        return dt_error(DT_FAILED_PRECONDITION, "process %d calls %s, process 0 %s: all processes of a run make the same calls in the same order", p,
                        all[p].name, all[0].name);
    if (all[0].which == all[p].which && all[0].hash == all[p].hash) return NULL;
    return dt_error(DT_FAILED_PRECONDITION, "%s: process %d gives it other arguments than process 0: all processes of a run make the same calls",
                    all[0].name, p);
}

/* Each has given the rows of the batch that it holds. */
static dt_status *check_rows(const dtrt_session *session, const record *all, int n, int64_t rows) {
    int64_t most = dt_session_global_batch(session->session);
    if (rows > most)
        return dt_error(DT_INVALID_ARGUMENT, "%s: all processes together give %" PRId64 " rows; a batch has %" PRId64, all[0].name, rows, most);
    for (int p = 0; p < n; p++) {
        int64_t wanted = dt_session_valid_rows(session->session, p, rows);
        if (all[p].rows == wanted) continue;
        return dt_error(DT_INVALID_ARGUMENT,
                        "%s: process %d gives %" PRId64 " rows of a batch of %" PRId64 ", of which it holds %" PRId64
                        ": rows are dealt in order, and of a short batch the last processes hold fewer (dtrt_session_rows)",
                        all[0].name, p, all[p].rows, rows, wanted);
    }
    return NULL;
}

/* What the records say, in words that all processes find alike. */
static dt_status *judge(const dtrt_session *session, const record *all, int n, dt_api_call *call) {
    for (int p = 0; p < n; p++)
        if (all[p].code != DT_OK) return dt_error((dt_code)all[p].code, "process %d: %s", p, all[p].message);
    for (int p = 1; p < n; p++) DT_TRY(compare(all, p));
    call->rows = 0;
    call->stops = false;
    for (int p = 0; p < n; p++) {
        if (!call->has_rows || dt_session_gives_rows(session->session, p)) call->rows += all[p].rows;
        call->stops = call->stops || all[p].stops != 0;
    }
    return call->has_rows && !call->stops ? check_rows(session, all, n, call->rows) : NULL;
}

/* Others hear why this process does not go on; unless the run has failed, and that is why. Returns `status`. */
static dt_status *give_up(dtrt_processes *processes, dt_status *status) {
    dt_status_free(dtrt_processes_abort(processes, dt_status_message(status)));
    return status;
}

/* session NULL: the call is of none, and has no rows. */
static dt_status *agree(dtrt_processes *of, const dtrt_session *session, dt_api_call *call, dt_status *status) {
    dt_processes *processes = dt_api_processes(of);
    int n = dt_processes_count(processes);
    if (n == 1) return status;
    record *all = dt_allocate_zeroed((size_t)n, sizeof *all);
    if (all == NULL) return give_up(of, dt_status_first(status, dt_error(DT_RESOURCE_EXHAUSTED, "out of memory")));
    all[dt_processes_number(processes)] = record_of(call, status);
    dt_step_context context = {.step = call->name, .number = session != NULL ? session->progress.step : 0};
    dt_status *agreed = dt_processes_allgather(processes, all, sizeof *all, &context);
    if (agreed == NULL) agreed = judge(session, all, n, call);
    dt_release(all);
    return dt_status_first(status, agreed);
}

dt_status *dt_api_agree(dtrt_session *session, dt_api_call *call, dt_status *status) { return agree(session->processes, session, call, status); }

dt_status *dt_api_agree_without_session(dtrt_processes *processes, dt_api_call *call, dt_status *status) {
    return agree(processes, NULL, call, status);
}

dt_status *dt_api_conclude(dtrt_session *session, const char *name, dt_status *status) {
    dt_api_call end = {.name = name, .which = -1};
    if (dt_processes_count(dt_api_processes(session->processes)) == 1) return status;
    return status == NULL ? dt_api_agree(session, &end, NULL) : give_up(session->processes, status);
}

dt_status *dt_api_conclude_without_session(dtrt_processes *processes, dt_status *status) {
    return status != NULL && dt_processes_count(dt_api_processes(processes)) > 1 ? give_up(processes, status) : status;
}

/* ---- creating a session ---- */

void dt_api_keep_cores(dt_api_cores *cores) { cores->is_known = sched_getaffinity(0, sizeof cores->set, &cores->set) == 0; }

void dt_api_restore_cores(const dtrt_processes *processes, const dt_api_cores *cores) {
    if (cores->is_known && dt_processes_count(dt_api_processes(processes)) > 1) sched_setaffinity(0, sizeof cores->set, &cores->set);
}
