/* watch: see watch.h. A descriptor of each process of this machine tells when it is gone, in the order in which they go: the first one is the cause,
 * for a launcher that ends the others needs to have seen it. */
#include "runtime/commands/watch.h"

#include "base/memory.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

typedef struct member {
    bool is_known; /* its state was read */
    dt_process_state state;
    double began;   /* its first progress */
    int descriptor; /* of the process, where it is on this machine and there; -1: none */
} member;

struct dt_watch {
    const char *folder;
    int n;
    bool elsewhere;        /* processes may be where nobody sees them from here */
    member *members;       /* [n] */
    struct pollfd *polled; /* [n] */
    char host[64];         /* this machine */
    double began;          /* dt_seconds_now */
    double start_seconds, deadline_seconds;
    int disappeared;        /* the first of those that went without having ended or failed, before anybody said that the run has failed; -1: none */
    double disappeared_ago; /* seconds from its last progress until then */
    int stopped;            /* by a signal, when last looked at before anybody knew of a failure; -1: none */
    double stopped_since;
};

dt_status *dt_watch_create(const char *folder, int n, bool elsewhere, double start_seconds, double deadline_seconds, dt_watch **watch) {
    dt_watch *made = dt_allocate_zeroed(1, sizeof *made);
    *watch = NULL;
    if (made != NULL) {
        *made = (dt_watch){.folder = folder,
                           .n = n,
                           .elsewhere = elsewhere,
                           .began = dt_seconds_now(),
                           .start_seconds = start_seconds,
                           .deadline_seconds = deadline_seconds,
                           .disappeared = -1,
                           .stopped = -1};
        made->members = dt_allocate_zeroed((size_t)n, sizeof *made->members);
        made->polled = dt_allocate_zeroed((size_t)n, sizeof *made->polled);
    }
    for (int p = 0; made != NULL && made->members != NULL && p < n; p++) made->members[p].descriptor = -1;
    if (made == NULL || made->members == NULL || made->polled == NULL) {
        dt_watch_destroy(made);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (gethostname(made->host, sizeof made->host - 1) != 0) strcpy(made->host, "?");
    *watch = made;
    return NULL;
}

void dt_watch_destroy(dt_watch *watch) {
    if (watch == NULL) return;
    for (int p = 0; p < watch->n && watch->members != NULL; p++)
        if (watch->members[p].descriptor >= 0) close(watch->members[p].descriptor);
    dt_release(watch->members);
    dt_release(watch->polled);
    dt_release(watch);
}

/* ---- looking ---- */

static bool is_here(const dt_watch *watch, const member *one) { return one->is_known && strcmp(one->state.host, watch->host) == 0; }

/* A descriptor stays that process's, whoever gets its number later; so when it began is compared after it is opened. */
static void open_descriptor(member *one) {
    int descriptor = pidfd_open((pid_t)one->state.pid, 0);
    if (descriptor >= 0 && dt_process_started(one->state.pid) == one->state.started)
        one->descriptor = descriptor;
    else if (descriptor >= 0)
        close(descriptor);
}

static void read_state(dt_watch *watch, int p) {
    member *one = &watch->members[p];
    dt_process_state state;
    bool found, was_known = one->is_known;
    dt_status_free(dt_process_state_read(watch->folder, p, &state, &found));
    if (!found) return;
    one->state = state;
    one->is_known = true;
    if (!was_known) one->began = state.progressed;
    if (!was_known && is_here(watch, one)) open_descriptor(one);
}

static bool anybody_knows_of_failure(const dt_watch *watch) {
    for (int p = 0; p < watch->n; p++)
        if (watch->members[p].is_known && watch->members[p].state.phase == DT_PROCESS_FAILED) return true;
    return false;
}

static void note_gone(dt_watch *watch, int p) {
    member *one = &watch->members[p];
    close(one->descriptor);
    one->descriptor = -1;
    if (watch->disappeared >= 0 || one->state.phase != DT_PROCESS_RUNS || anybody_knows_of_failure(watch)) return;
    watch->disappeared = p;
    watch->disappeared_ago = dt_seconds_now() - one->state.progressed;
}

static void find_stopped(dt_watch *watch) {
    int before = watch->stopped;
    watch->stopped = -1;
    for (int p = 0; p < watch->n && watch->stopped < 0; p++)
        if (watch->members[p].descriptor >= 0 && dt_process_is_stopped(watch->members[p].state.pid)) watch->stopped = p;
    if (watch->stopped != before) watch->stopped_since = dt_seconds_now();
}

void dt_watch_look(dt_watch *watch, int milliseconds) {
    for (int p = 0; p < watch->n; p++) watch->polled[p] = (struct pollfd){.fd = watch->members[p].descriptor, .events = POLLIN};
    int n_gone = poll(watch->polled, (nfds_t)watch->n, milliseconds);
    for (int p = 0; p < watch->n; p++) read_state(watch, p);
    for (int p = 0; p < watch->n && n_gone > 0; p++)
        if (watch->polled[p].fd >= 0 && watch->polled[p].revents != 0) note_gone(watch, p);
    if (watch->disappeared < 0 && !anybody_knows_of_failure(watch)) find_stopped(watch);
}

/* ---- what is to be thought of it ---- */

/* When anybody got on. Clocks of other machines are others. */
static double last_progress(const dt_watch *watch) {
    double last = watch->began;
    for (int p = 0; p < watch->n; p++)
        if (is_here(watch, &watch->members[p]) && watch->members[p].state.progressed > last) last = watch->members[p].state.progressed;
    return last;
}

dt_watch_outlook dt_watch_find_outlook(const dt_watch *watch) {
    int n_known = 0, n_ended = 0, n_here = 0;
    bool have_come = false; /* nobody gets on before all have */
    for (int p = 0; p < watch->n; p++) {
        const member *one = &watch->members[p];
        n_known += one->is_known;
        n_here += is_here(watch, one);
        n_ended += one->is_known && one->state.phase == DT_PROCESS_ENDED;
        have_come |= one->is_known && one->state.progressed > one->began;
    }
    if (watch->disappeared >= 0 || anybody_knows_of_failure(watch)) return DT_WATCH_FAILS;
    if (n_known > 0 && n_ended == n_known) return DT_WATCH_ENDS;
    if (watch->n == 1) /* nobody waits for it, and it says nothing of how it gets on */
        return watch->stopped >= 0 && dt_seconds_now() - watch->stopped_since > watch->deadline_seconds ? DT_WATCH_STALLS : DT_WATCH_RUNS;
    if (n_here == 0 && watch->elsewhere) return DT_WATCH_RUNS; /* what other machines' clocks say is not comparable */
    return dt_seconds_now() - last_progress(watch) > (have_come ? watch->deadline_seconds : watch->start_seconds) ? DT_WATCH_STALLS : DT_WATCH_RUNS;
}

static void print_name(const dt_process_state *state, dt_text *text) {
    dt_text_format(text, "process %d (%s, pid %" PRId64 ")", state->process, state->host, state->pid);
}

static void explain_disappearance(const dt_watch *watch, dt_text *text) {
    const dt_process_state *state = &watch->members[watch->disappeared].state;
    print_name(state, text);
    dt_text_format(text, " has disappeared: something ended it. %.1f s before it was at: %s", watch->disappeared_ago, state->doing);
}

static void explain_stop(const dt_watch *watch, dt_text *text) {
    const dt_process_state *state = &watch->members[watch->stopped].state;
    double since = watch->n > 1 ? state->progressed : watch->stopped_since;
    print_name(state, text);
    dt_text_format(text, " was stopped by a signal and has not got on for %.3g s: %s", dt_seconds_now() - since, state->doing);
}

/* Those that have not come, are at work, or else all. */
static void explain_standstill(const dt_watch *watch, dt_text *text) {
    double now = dt_seconds_now();
    int n_blamed = 0;
    for (int waiting = 0; waiting < 2 && n_blamed == 0; waiting++)
        for (int p = 0; p < watch->n; p++) {
            const member *one = &watch->members[p];
            if (!one->is_known && watch->elsewhere) continue;
            if (one->is_known && (one->state.phase != DT_PROCESS_RUNS || one->state.waits != waiting)) continue;
            if (n_blamed++ > 0) dt_text_append(text, "; ");
            if (!one->is_known) {
                dt_text_format(text, "process %d has not begun", p);
                continue;
            }
            print_name(&one->state, text);
            if (is_here(watch, one))
                dt_text_format(text, " has not got on for %.3g s: %s", now - one->state.progressed, one->state.doing);
            else
                dt_text_format(text, " is on another machine; it was last at: %s", one->state.doing);
        }
}

/* What the processes say themselves, NULL: nothing; and whether one of them has said it to the person. */
static const char *find_reason(const dt_watch *watch, bool *is_said) {
    const char *reason = NULL;
    *is_said = false;
    for (int p = 0; p < watch->n; p++) {
        const dt_process_state *state = &watch->members[p].state;
        if (!watch->members[p].is_known || state->phase != DT_PROCESS_FAILED) continue;
        *is_said |= state->person_knows;
        if (reason == NULL) reason = state->reason;
    }
    return reason;
}

static bool names(const char *reason, int process) {
    int named;
    return reason != NULL && sscanf(reason, "process %d", &named) == 1 && named == process;
}

void dt_watch_explain(dt_watch *watch, dt_watch_outlook outlook, dt_text *text) {
    bool is_said;
    for (int p = 0; p < watch->n; p++) read_state(watch, p); /* their last words */
    const char *reason = find_reason(watch, &is_said);
    if (watch->disappeared >= 0 && !watch->members[watch->disappeared].state.person_knows)
        explain_disappearance(watch, text);
    else if (watch->stopped >= 0 && !names(reason, watch->stopped))
        explain_stop(watch, text);
    else if (reason == NULL && outlook == DT_WATCH_STALLS)
        explain_standstill(watch, text);
    else if (reason != NULL && !is_said)
        dt_text_append(text, reason);
}

bool dt_watch_signal(const dt_watch *watch, int number) {
    for (int p = 0; p < watch->n; p++) {
        const member *one = &watch->members[p];
        if (one->descriptor >= 0 && one->state.phase == DT_PROCESS_RUNS && pidfd_send_signal(one->descriptor, number, NULL, 0) == 0) return true;
    }
    return false;
}
