/* processes: see processes.h. Opening and closing, what is gathered, and the thread that owns the transport; whom it waits for is peers.c. */
#include "runtime/comm/processes.h"

#include "base/memory.h"
#include "base/thread.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/roll_call.h"
#include "runtime/threads/clock.h"
#include "runtime/threads/event.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static const double FAILURE_SECONDS = 0.05;           /* how soon a failure is heard by whoever waits for an exchange */
static const double LOOK_SECONDS = 100e-6;            /* how long to ask the transport again and again before the thread sleeps between two times */
static const double WAITING_SLEEP_SECONDS = 50e-6;    /* that sleep, at most, where results are waited for, */
static const double COMPUTING_SLEEP_SECONDS = 250e-6; /* and where the core has something to compute, where it is at least as long as the other */
static const double WAIT_SECONDS = 0.05;              /* the same, in the transport */
static const double IDLE_SECONDS = 2e-3;              /* how long to sleep when nothing is under way: until others hear an answer */
static const double STATE_SECONDS = 0.25;             /* between two records of this process's state, where nothing happens */
static const double START_SECONDS = 15;               /* until all have come, at least: a busy machine starts programs late */
static const double SAYING_SECONDS = 1.0;             /* how long process 0 may take to say why, and then those who have found out */
static const double LINGER_SECONDS = 0.3;             /* after a failure, until everybody has heard why */
static const double TELLING_SECONDS = 0.05;           /* for the last notices to leave */
static const double ENDING_SECONDS = 3.2;             /* after a failure, for this process to end: its other threads may be what is stuck */
static const double ABORTING_SECONDS = 1.0;           /* for the engine to end it: that waits for those who cannot be reached */
static const double CLOSING_SECONDS = 1.0;            /* how long the others may take to end, */

enum {
    N_TAGS = 1 << 15,        /* of a transport */
    N_CLOSING = 10,          /* times over: time in which this process was stopped itself counts as one of them */
    LOOKS = 8,               /* at what is under way, in the time for which nothing has come */
    SLACK_NANOSECONDS = 1000 /* by which a sleep may be longer than it was to be */
};

/* Memory that was to be released after a failure. */
typedef struct kept {
    void (*release)(void *memory, size_t bytes);
    void *memory;
    size_t bytes;
    struct kept *next;
} kept;

struct dt_processes {
    dt_processes_options options;
    dt_arena *arena;
    dt_transport *transport;
    pthread_t thread;
    dt_event ended;        /* moves when the engine has ended a failed run, and this process is still there */
    dt_event opened, wake; /* `wake` moves when there is something to do for the thread */
    dt_event done;         /* moves when an exchange is over; it outlives all of them */
    dt_status *open_status;
    int number, n;
    int n_tags, n_tags_along[DT_N_AXES];
    dt_progress progress;
    dt_peers *peers;
    dt_exchange *gathering;
    char *records;       /* [n * DT_RECORD_BYTES] of the gathering in progress */
    int bytes_tag;       /* of dt_processes_gatherv */
    dt_event served;     /* the thread has done its work, or has given up */
    struct kept *kept;   /* memory that goes with the processes */
    dt_arena *abandoned; /* of one that failed while the thread was at it; NULL: none did */
    _Atomic double exchanging_seconds;

    atomic_bool aborted, closing, person_knows;
    int exit_status;
    pthread_mutex_t lock;  /* guards what follows */
    dt_exchange *begun;    /* in the order of beginning; the thread has not seen them yet */
    dt_exchange awaited;   /* what is waited for beside exchanges; under way while it is */
    dt_recorder *recorder; /* the thread's; NULL: nobody wants to know */
    char reason[640];      /* once aborted */
    bool was_told;
    int blamed; /* the process whose fault it was; -1: nobody's */
    dt_processes_watcher *watchers;
};

/* There is something to do for the thread. */
static void wake(dt_processes *self) {
    dt_event_advance(&self->wake);
    if (dt_event_value(&self->opened) != 0 && self->transport != NULL && self->transport->kind->wake != NULL)
        self->transport->kind->wake(self->transport);
}

/* ---- failing ---- */

static void fail(dt_processes *self, const char *reason, bool was_told, int blamed) {
    pthread_mutex_lock(&self->lock);
    bool first = !atomic_load(&self->aborted);
    if (first) {
        snprintf(self->reason, sizeof self->reason, "%s", reason);
        self->was_told = was_told;
        self->blamed = blamed;
        atomic_store(&self->aborted, true);
    }
    for (dt_processes_watcher *one = first ? self->watchers : NULL; one != NULL; one = one->next) one->aborted(one->context, self->reason);
    pthread_mutex_unlock(&self->lock);
    wake(self);
}

void dt_processes_abort(dt_processes *processes, const char *reason) {
    if (processes != NULL) fail(processes, reason, false, -1);
}

void dt_processes_blame(dt_processes *processes, int process, const char *reason) { fail(processes, reason, false, process); }

dt_status *dt_processes_status(dt_processes *processes) {
    if (processes == NULL || !atomic_load(&processes->aborted)) return NULL;
    pthread_mutex_lock(&processes->lock);
    dt_status *status = dt_error(processes->blamed == processes->number ? DT_FAILED_PRECONDITION : DT_ABORTED, "%s", processes->reason);
    pthread_mutex_unlock(&processes->lock);
    return status;
}

void dt_processes_say(dt_processes *processes, void (*print)(const char *reason)) {
    double turn = SAYING_SECONDS * ((processes->was_told ? 2 : 1) + 0.1 * (processes->number % 10));
    if (processes->number == 0) turn = processes->was_told ? 0.2 : 0; /* it may have been said while this one was stopped */
    for (double end = dt_seconds_now() + turn; dt_seconds_now() < end;) {
        if (atomic_load(&processes->person_knows)) return;
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    print(processes->reason); /* of a failure, which stands */
    atomic_store(&processes->person_knows, true);
}

void dt_processes_watch(dt_processes *processes, dt_processes_watcher *watcher) {
    if (processes == NULL) return;
    pthread_mutex_lock(&processes->lock);
    watcher->next = processes->watchers;
    processes->watchers = watcher;
    if (atomic_load(&processes->aborted)) watcher->aborted(watcher->context, processes->reason);
    pthread_mutex_unlock(&processes->lock);
}

void dt_processes_unwatch(dt_processes *processes, dt_processes_watcher *watcher) {
    if (processes == NULL) return;
    pthread_mutex_lock(&processes->lock);
    dt_processes_watcher **link = &processes->watchers;
    while (*link != NULL && *link != watcher) link = &(*link)->next;
    if (*link != NULL) *link = watcher->next;
    pthread_mutex_unlock(&processes->lock);
}

/* ---- the thread that owns the transport ---- */

/* Exchanges that the thread is at work on, in the order of beginning. */
typedef struct work {
    dt_processes *self;
    dt_exchange *first;
    int n_under_way;
} work;

static void take_begun(work *in) {
    dt_exchange **end = &in->first;
    while (*end != NULL) end = &(*end)->next;
    pthread_mutex_lock(&in->self->lock);
    *end = in->self->begun;
    in->self->begun = NULL;
    pthread_mutex_unlock(&in->self->lock);
}

static void record(dt_processes *self, const dt_exchange *one) {
    dt_span span = {.began = one->began,
                    .kind = DT_SPAN_EXCHANGE,
                    .segment = one->context.segment,
                    .tag = (int)one->axis * N_TAGS + one->tag, /* along several axes tags need not differ */
                    .name = one->label,
                    .step = one->context.step,
                    .number = one->context.number,
                    .bytes = one->schedule.n_sent_bytes};
    pthread_mutex_lock(&self->lock);
    dt_recorder_end(self->recorder, span);
    pthread_mutex_unlock(&self->lock);
}

/* Moves all exchanges on. Who waits for the last one to be over finds it counted in. */
static dt_status *move_all(work *in, double busy_since, bool *moved) {
    for (dt_exchange **link = &in->first; *link != NULL;) {
        dt_exchange *one = *link;
        bool done;
        DT_TRY(dt_exchange_move(one, in->self->transport, &in->n_under_way, moved, &done));
        if (done) {
            *link = one->next;
            one->next = NULL;
            record(in->self, one);
            if (in->first == NULL)
                atomic_store(&in->self->exchanging_seconds, atomic_load(&in->self->exchanging_seconds) + dt_seconds_now() - busy_since);
            atomic_fetch_add(&one->n_done, 1);
            dt_event_advance(&in->self->done);
        } else if (one->round == 0 && one->under_way < 0) {
            return NULL; /* what the engine adds up starts in the same order everywhere: nobody passes by */
        } else {
            link = &one->next;
        }
    }
    return NULL;
}

/* Keeps the state of this process where somebody else can read it. At once where it is another one, else a few times a second. */
static void keep_state(dt_processes *self, dt_process_phase phase) {
    dt_state_file *file = self->options.state;
    double now = dt_seconds_now();
    bool person_knows = atomic_load(&self->person_knows);
    if (file == NULL) return;
    dt_process_state *state = &file->state;
    bool is_other = phase != state->phase || person_knows != state->person_knows;
    if (!is_other && now - file->written < STATE_SECONDS) return;
    double progressed = dt_peers_last_progress(self->peers, &state->waits);
    if (!is_other && progressed == state->progressed) return;
    state->phase = phase;
    state->person_knows = person_knows;
    state->progressed = progressed;
    dt_progress_describe(&self->progress, state->doing, sizeof state->doing);
    if (phase == DT_PROCESS_FAILED) snprintf(state->reason, sizeof state->reason, "%s", self->reason);
    dt_state_file_write(file);
}

/* Who was asked to stop asks all. */
static void pass_stop_on(dt_processes *self) {
    if (self->options.stop == NULL) return;
    int here = atomic_load(self->options.stop), heard = dt_peers_stop(self->peers);
    if (here != 0 && heard == 0) dt_peers_tell_stop(self->peers, self->options.stop_of_others != 0 ? self->options.stop_of_others : here);
    if (here == 0 && heard != 0) atomic_compare_exchange_strong(self->options.stop, &here, heard);
}

/* Reads notices, and asks those who are waited for how they are. */
static dt_status *look_after(work *in) {
    char reason[600];
    bool failed = false;
    int blamed;
    DT_TRY(dt_peers_listen(in->self->peers, reason, sizeof reason, &blamed, &failed));
    if (failed) fail(in->self, reason, true, blamed);
    if (failed || atomic_load(&in->self->aborted)) return NULL;
    pass_stop_on(in->self);
    keep_state(in->self, DT_PROCESS_RUNS);
    pthread_mutex_lock(&in->self->lock);
    dt_exchange awaited = in->self->awaited;
    pthread_mutex_unlock(&in->self->lock);
    awaited.next = in->first;
    DT_TRY(dt_peers_ask(in->self->peers, awaited.under_way >= 0 ? &awaited : in->first, reason, sizeof reason, &failed));
    if (failed) fail(in->self, reason, false, -1);
    return NULL;
}

/* While more is expected soon the thread looks again at once; the longer nothing has come, the longer it sleeps: it shares a core with who
 * computes. */
static dt_status *rest(work *in, double idle_since) {
    dt_transport *transport = in->self->transport;
    if (transport->kind->wait != NULL) return transport->kind->wait(transport, WAIT_SECONDS);
    if (in->first == NULL) {
        uint32_t seen = dt_event_value(&in->self->wake);
        pthread_mutex_lock(&in->self->lock);
        bool idle = in->self->begun == NULL && !atomic_load(&in->self->closing);
        pthread_mutex_unlock(&in->self->lock);
        if (idle) dt_event_wait(&in->self->wake, seen, false, dt_seconds_now() + IDLE_SECONDS);
        return NULL;
    }
    bool computes = atomic_load(&in->self->progress.activity) == DT_ACTIVITY_COMPUTING;
    double idle = dt_seconds_now() - idle_since, most = computes ? COMPUTING_SLEEP_SECONDS : WAITING_SLEEP_SECONDS;
    double least = computes ? WAITING_SLEEP_SECONDS : 0, sleep = fmin(fmax(idle / LOOKS, least), most);
    if (idle < LOOK_SECONDS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = (long)(sleep * 1e9)}, NULL);
    return NULL;
}

/* Until the run is over, or has failed. */
static dt_status *serve(work *in) {
    double idle_since = dt_seconds_now(), busy_since = 0;
    for (;;) {
        bool moved = false, was_busy = in->first != NULL;
        take_begun(in);
        if (atomic_load(&in->self->aborted)) return NULL; /* nobody is to hear what was begun after that */
        if (!was_busy && in->first != NULL) busy_since = dt_seconds_now();
        DT_TRY(dt_transport_progress(in->self->transport));
        DT_TRY(move_all(in, busy_since, &moved));
        DT_TRY(look_after(in));
        if (atomic_load(&in->self->aborted)) return NULL;
        if (in->first == NULL && atomic_load(&in->self->closing)) return NULL;
        if (moved) idle_since = dt_seconds_now();
        if (!moved) DT_TRY(rest(in, idle_since));
    }
}

static int failed_status(const dt_processes *self) { return self->exit_status != 0 ? self->exit_status : 1; }

static void *end_in_time(void *argument) {
    dt_processes *self = argument;
    double end = dt_seconds_now() + ABORTING_SECONDS;
    while (dt_event_value(&self->ended) == 0 && dt_seconds_now() < end) dt_event_wait(&self->ended, 0, false, end);
    if (dt_event_value(&self->ended) == 0) _exit(failed_status(self));
    return NULL;
}

/* The engine ends the run, and this process ends whatever the engine does. */
static void end_run(dt_processes *self) {
    pthread_t in_time;
    bool is_bounded = pthread_create(&in_time, NULL, end_in_time, self) == 0;
    dt_transport_abort(self->transport, failed_status(self));
    dt_event_advance(&self->ended);
    if (is_bounded) pthread_join(in_time, NULL);
}

/* Everybody hears why, unless they said it; then this process waits until it is told with which status to end. */
static void end_failed(dt_processes *self) {
    double now = dt_seconds_now(), end = now + LINGER_SECONDS, last = now + ENDING_SECONDS;
    if (!self->was_told) dt_peers_tell(self->peers, self->reason, self->blamed);
    for (bool was_closing = false; now < last && (now < end || !was_closing); now = dt_seconds_now()) {
        if (!was_closing && atomic_load(&self->closing)) {
            was_closing = true;
            if (end < now + TELLING_SECONDS) end = now + TELLING_SECONDS;
        }
        if (dt_peers_person_knows(self->peers))
            atomic_store(&self->person_knows, true);
        else if (atomic_load(&self->person_knows))
            dt_peers_say_person_knows(self->peers);
        keep_state(self, DT_PROCESS_FAILED);
        char reason[600];
        bool failed;
        int blamed;
        dt_status *status = dt_transport_progress(self->transport); /* of what is being sent */
        if (status == NULL) status = dt_peers_listen(self->peers, reason, sizeof reason, &blamed, &failed);
        if (status != NULL) end = 0; /* nobody can be heard any more */
        dt_status_free(status);
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    if (!self->options.outlives) end_run(self);
}

static void *run_thread(void *argument) {
    dt_processes *self = argument;
    prctl(PR_SET_TIMERSLACK, SLACK_NANOSECONDS); /* of this thread: sleeps are short */
    self->open_status = self->options.open(self->options.context, &self->transport);
    bool alone = self->open_status != NULL || self->transport == NULL;
    if (!alone)
        self->open_status = dt_peers_create(self->transport, self->options.deadline_seconds, &self->progress,
                                            self->options.state != NULL ? self->options.state->folder : NULL, &self->peers);
    dt_event_advance(&self->opened);
    if (alone || self->open_status != NULL) return NULL;
    work in = {.self = self};
    dt_status *status = serve(&in);
    dt_event_advance(&self->served);
    if (status != NULL) {
        char reason[600];
        snprintf(reason, sizeof reason, "process %d: %s", self->transport->process, dt_status_message(status));
        fail(self, reason, false, -1);
        dt_status_free(status);
    }
    if (atomic_load(&self->aborted)) {
        end_failed(self);
        return NULL;
    }
    keep_state(self, DT_PROCESS_ENDED);
    pthread_mutex_lock(&self->lock); /* whoever closes it may still be waking it */
    pthread_mutex_unlock(&self->lock);
    dt_transport_close(self->transport);
    return NULL;
}

/* ---- opening and closing ---- */

double dt_processes_start_seconds(double deadline_seconds) { return deadline_seconds > START_SECONDS ? deadline_seconds : START_SECONDS; }

int dt_processes_number(const dt_processes *processes) { return processes == NULL ? 0 : processes->number; }
int dt_processes_count(const dt_processes *processes) { return processes == NULL ? 1 : processes->n; }
const dt_transport *dt_processes_transport(const dt_processes *processes) { return processes == NULL ? NULL : processes->transport; }
dt_process_roles dt_processes_roles(const dt_processes *processes) {
    const dt_transport *transport = dt_processes_transport(processes);
    if (transport == NULL) return (dt_process_roles){.n_processes = 1};
    return (dt_process_roles){.n_processes = transport->n_processes, .n_servers = transport->n_servers, .process = transport->process};
}
dt_progress *dt_processes_progress(dt_processes *processes) { return processes == NULL ? NULL : &processes->progress; }
double dt_processes_exchanging_seconds(const dt_processes *processes) { return processes == NULL ? 0 : atomic_load(&processes->exchanging_seconds); }
double dt_processes_idle_seconds(const dt_processes *processes) { return processes == NULL ? 0 : dt_peers_idle_seconds(processes->peers); }
void dt_processes_print_name(const dt_processes *processes, int process, char *text, size_t bytes) {
    dt_peers_print_name(processes->peers, process, text, bytes);
}

void dt_processes_expect(dt_processes *processes, int64_t bytes) {
    if (processes != NULL) atomic_fetch_add(&processes->transport->most_early_bytes, 2 * (uint64_t)bytes);
}

dt_status *dt_processes_sign(const dt_processes *processes, dt_status *status) {
    char name[160];
    if (status == NULL || dt_processes_count(processes) == 1) return status;
    dt_processes_print_name(processes, processes->number, name, sizeof name);
    return dt_status_annotate(status, "%s", name);
}

int dt_processes_new_tag(dt_processes *processes) { return processes != NULL ? processes->n_tags++ % N_TAGS : 0; }
/* From the last one on: with those of all processes they share none before there are as many as tags. Two processes are together along one axis only,
 * so that tags of several need not differ. */
int dt_processes_new_tag_along(dt_processes *processes, dt_mesh_axis axis) {
    return processes != NULL ? N_TAGS - 1 - processes->n_tags_along[axis]++ % N_TAGS : 0;
}
int dt_processes_n_tags(const dt_processes *processes) {
    int n = processes->n_tags;
    for (int axis = 0; axis < DT_N_AXES; axis++) n += processes->n_tags_along[axis];
    return n;
}

/* An exchange in which each has a part of an image, of ends[p] - ends[p - 1] bytes, and all need it, or process 0. */
static dt_exchange *new_gathering(dt_processes *self, const int64_t *ends, bool all_need, dt_schedule_algorithm algorithm, const char *label, int tag,
                                  dt_arena *arena) {
    dt_layout_member *members = DT_NEW_ARRAY(arena, dt_layout_member, self->n);
    dt_image_range *parts = DT_NEW_ARRAY(arena, dt_image_range, self->n);
    for (int p = 0; p < self->n; p++) {
        members[p] = (dt_layout_member){.rank = p, .owns = true, .needs = all_need || p == 0};
        parts[p] = (dt_image_range){p > 0 ? ends[p - 1] : 0, ends[p]};
    }
    dt_layout layout = {.n = self->n, .place = self->number, .members = members, .n_bytes = ends[self->n - 1], .parts = parts};
    dt_schedule schedule = dt_schedule_of(&layout, algorithm, arena);
    return dt_exchange_create(&schedule, 0, NULL, label, tag, arena);
}

/* What dt_processes_await stands for: a message of the next process. */
static dt_exchange make_awaited(int p, int n, dt_arena *arena) {
    dt_message *message = DT_NEW(arena, dt_message);
    dt_operation *operation = DT_NEW(arena, dt_operation);
    message->peer = (p + 1) % n;
    *operation = (dt_operation){.kind = DT_OPERATION_TRANSFER, .transfer = {1, message}};
    return (dt_exchange){.operations = operation, .under_way = -1};
}

/* Where everybody is: host and process id. */
static dt_status *introduce(dt_processes *self) {
    dt_process_name *names = DT_NEW_ARRAY(self->arena, dt_process_name, self->n);
    dt_process_name *mine = &names[self->number];
    if (gethostname(mine->host, sizeof mine->host - 1) != 0) strcpy(mine->host, "?");
    mine->pid = getpid();
    DT_TRY(dt_processes_allgather(self, names, sizeof *names, &(dt_step_context){.step = "start"}));
    for (int p = 0; p < self->n; p++) {
        names[p].host[sizeof names[p].host - 1] = 0;
        dt_text_make_printable(names[p].host);
    }
    dt_peers_introduce(self->peers, names);
    return NULL;
}

static dt_status *say_who_is_missing(double seconds) {
    dt_roll_call *call = dt_roll_call_take();
    dt_text who = {0};
    if (call != NULL) dt_roll_call_print_missing(call, &who);
    dt_status *status =
        dt_error(DT_ABORTED, "not all processes have come within %.3g s%s%s", seconds, who.n > 0 ? ": " : "", who.n > 0 ? who.data : "");
    dt_roll_call_free(call);
    dt_text_free(&who);
    return status;
}

static dt_status *open_guarded(dt_processes *self) {
    jmp_buf guard;
    if (setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect processes");
    self->arena = dt_arena_create();
    if (self->arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect processes");
    dt_arena_guard(self->arena, &guard);
    int reason = pthread_create(&self->thread, NULL, run_thread, self);
    if (reason != 0) return dt_status_annotate(dt_thread_error(reason), "exchanging with other processes");
    double seconds = dt_processes_start_seconds(self->options.deadline_seconds), end = dt_seconds_now() + seconds;
    while (dt_event_value(&self->opened) == 0 && dt_seconds_now() < end) dt_event_wait(&self->opened, 0, false, end);
    if (dt_event_value(&self->opened) == 0) return say_who_is_missing(seconds);
    DT_TRY(self->open_status);
    if (self->transport == NULL) return NULL;
    self->number = dt_transport_member(self->transport);
    self->n = dt_transport_n_members(self->transport);
    self->records = dt_arena_new_array(self->arena, (size_t)self->n, DT_RECORD_BYTES);
    /* Workers of parameter servers send nothing to one another. */
    dt_schedule_algorithm algorithm = self->transport->n_servers > 0 ? DT_SCHEDULE_STAR : DT_SCHEDULE_DOUBLING;
    int64_t *ends = DT_NEW_ARRAY(self->arena, int64_t, self->n);
    for (int p = 0; p < self->n; p++) ends[p] = (p + 1) * (int64_t)DT_RECORD_BYTES;
    self->gathering = new_gathering(self, ends, true, algorithm, "records", dt_processes_new_tag(self), self->arena);
    dt_exchange_place(self->gathering, self->records);
    dt_exchange_lower(self->gathering, self->arena);
    dt_processes_expect(self, (int64_t)self->n * DT_RECORD_BYTES);
    self->bytes_tag = dt_processes_new_tag(self);
    pthread_mutex_lock(&self->lock);
    self->awaited = make_awaited(self->number, self->n, self->arena);
    pthread_mutex_unlock(&self->lock);
    DT_TRY(introduce(self));
    dt_arena_guard(self->arena, NULL);
    return NULL;
}

void dt_processes_take_cores(dt_processes *processes) {
    cpu_set_t cores;
    if (processes != NULL && sched_getaffinity(0, sizeof cores, &cores) == 0) pthread_setaffinity_np(processes->thread, sizeof cores, &cores);
}

void dt_processes_settle(dt_processes *processes) {
    while (processes != NULL && atomic_load(&processes->aborted) && dt_event_value(&processes->served) == 0)
        dt_event_wait(&processes->served, 0, false, dt_seconds_now() + 1);
}

void dt_processes_release(dt_processes *processes, void (*release)(void *memory, size_t bytes), void *memory, size_t bytes) {
    if (processes == NULL || !atomic_load(&processes->aborted)) {
        release(memory, bytes);
        return;
    }
    kept *made = dt_allocate(sizeof *made);
    if (made == NULL) return; /* it goes with the process */
    pthread_mutex_lock(&processes->lock);
    *made = (kept){release, memory, bytes, processes->kept};
    processes->kept = made;
    pthread_mutex_unlock(&processes->lock);
}

static void free_processes(dt_processes *self) {
    while (self->kept != NULL) {
        kept *one = self->kept;
        self->kept = one->next;
        one->release(one->memory, one->bytes);
        dt_release(one);
    }
    dt_peers_destroy(self->peers);
    dt_arena_destroy(self->arena);
    dt_arena_destroy(self->abandoned);
    pthread_mutex_destroy(&self->lock);
    dt_release(self);
}

dt_status *dt_processes_open(const dt_processes_options *options, dt_processes **processes) {
    dt_processes *made = dt_allocate_zeroed(1, sizeof *made);
    *processes = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect processes");
    made->options = *options;
    made->awaited.under_way = -1;
    made->blamed = -1;
    pthread_mutex_init(&made->lock, NULL);
    dt_status *status = open_guarded(made);
    if (status == NULL && made->transport != NULL) {
        *processes = made;
        return NULL;
    }
    if (made->n > 0) {
        dt_processes_abort(made, dt_status_message(status));
        if (options->outlives)
            dt_processes_close(made, 1);
        else
            *processes = made;
        return status;
    }
    if (made->thread != 0 && dt_event_value(&made->opened) == 0) return status; /* the thread has it, and may keep it for ever */
    if (made->thread != 0) pthread_join(made->thread, NULL);
    free_processes(made);
    return status;
}

void dt_processes_close(dt_processes *processes, int exit_status) {
    if (processes == NULL) return;
    bool hangs = true;
    dt_progress_set(&processes->progress, DT_ACTIVITY_ENDING);
    processes->exit_status = exit_status;
    pthread_mutex_lock(&processes->lock); /* until it has been woken, the thread does not close the transport */
    atomic_store(&processes->closing, true);
    wake(processes);
    pthread_mutex_unlock(&processes->lock);
    for (int i = 0; i < N_CLOSING && hangs; i++)
        hangs = !dt_thread_join(processes->thread, CLOSING_SECONDS); /* somebody else does, and this process has all it wants */
    if (hangs && (!processes->options.outlives || processes->options.lets_go)) _exit(exit_status);
    if (hangs) pthread_detach(processes->thread);
    bool may_be_reached = processes->options.outlives && !processes->options.lets_go && atomic_load(&processes->aborted);
    if (!hangs && !may_be_reached) free_processes(processes);
}

/* ---- exchanges ---- */

void dt_processes_record(dt_processes *processes, dt_recorder *recorder) {
    if (processes == NULL) return;
    pthread_mutex_lock(&processes->lock);
    processes->recorder = recorder;
    pthread_mutex_unlock(&processes->lock);
}

void dt_processes_begin(dt_processes *processes, dt_exchange *exchange, const dt_step_context *context) {
    exchange->context = *context;
    exchange->n_begun++;
    exchange->next = NULL;
    pthread_mutex_lock(&processes->lock);
    exchange->began = dt_recorder_now(processes->recorder);
    dt_exchange **end = &processes->begun;
    while (*end != NULL) end = &(*end)->next;
    *end = exchange;
    pthread_mutex_unlock(&processes->lock);
    wake(processes);
}

dt_status *dt_processes_wait(dt_processes *processes, dt_exchange *exchange, uint32_t times) {
    for (;;) {
        uint32_t seen = dt_event_value(&processes->done);
        if (atomic_load(&exchange->n_done) == times) return NULL;
        DT_TRY(dt_processes_status(processes));
        dt_event_wait(&processes->done, seen, false, dt_seconds_now() + FAILURE_SECONDS);
    }
}

void dt_processes_await(dt_processes *processes, const dt_step_context *context, const char *label) {
    if (processes == NULL) return;
    dt_progress_set(&processes->progress, context != NULL ? DT_ACTIVITY_EXCHANGING : DT_ACTIVITY_COMPUTING);
    pthread_mutex_lock(&processes->lock);
    processes->awaited.under_way = context != NULL ? 0 : -1;
    processes->awaited.label = label;
    processes->awaited.started = dt_seconds_now();
    if (context != NULL) processes->awaited.context = *context;
    pthread_mutex_unlock(&processes->lock);
    wake(processes);
}

void dt_processes_begin_allgather(dt_processes *processes, const void *mine, size_t bytes, const dt_step_context *context) {
    if (processes == NULL) return;
    memcpy(processes->records + (size_t)processes->number * DT_RECORD_BYTES, mine, bytes);
    dt_processes_begin(processes, processes->gathering, context);
}

dt_status *dt_processes_end_allgather(dt_processes *processes, void *records, size_t bytes) {
    if (processes == NULL) return NULL;
    dt_progress_set(&processes->progress, DT_ACTIVITY_WAITING);
    DT_TRY(dt_processes_wait(processes, processes->gathering, processes->gathering->n_begun));
    dt_progress_set(&processes->progress, DT_ACTIVITY_COMPUTING);
    for (int p = 0; p < processes->n; p++) memcpy((char *)records + (size_t)p * bytes, processes->records + (size_t)p * DT_RECORD_BYTES, bytes);
    return NULL;
}

dt_status *dt_processes_allgather(dt_processes *processes, void *records, size_t bytes, const dt_step_context *context) {
    dt_processes_begin_allgather(processes, (const char *)records + (size_t)dt_processes_number(processes) * bytes, bytes, context);
    return dt_processes_end_allgather(processes, records, bytes);
}

dt_status *dt_processes_finish(dt_processes *processes) {
    char *records = processes != NULL ? dt_allocate_zeroed((size_t)processes->n, 1) : NULL;
    if (processes == NULL) return NULL;
    if (records == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_status *status = dt_processes_allgather(processes, records, 1, &(dt_step_context){.step = "end"});
    dt_release(records);
    return status;
}

/* Everybody's bytes to process 0, one after another: slot 0 is all of them there, `mine` elsewhere. */
static dt_exchange *new_gatherv(dt_processes *self, void *mine, const int64_t *ends, const char *label, int tag, dt_arena *arena) {
    dt_exchange *made = new_gathering(self, ends, false, DT_SCHEDULE_DIRECT, label, tag, arena);
    made->slots[0] = self->number == 0 ? dt_arena_new(arena, (size_t)ends[self->n - 1]) : mine;
    dt_exchange_lower(made, arena);
    return made;
}

dt_exchange *dt_processes_new_gatherv(dt_processes *processes, void *mine, const int64_t *ends, const char *label, dt_arena *arena) {
    int64_t most = 0;
    for (int p = 1; p < processes->n; p++) most = ends[p] - ends[p - 1] > most ? ends[p] - ends[p - 1] : most;
    dt_processes_expect(processes, most);
    return new_gatherv(processes, mine, ends, label, dt_processes_new_tag(processes), arena);
}

static dt_status *gatherv(dt_processes *self, const void *mine, const int64_t *ends, const dt_step_context *context, dt_text *all, dt_arena *arena) {
    char *is_ready = DT_NEW_ARRAY(arena, char, self->n);
    dt_exchange *exchange = new_gatherv(self, (void *)mine, ends, "parts", self->bytes_tag, arena);
    if (self->number == 0) memcpy(exchange->slots[0], mine, (size_t)ends[0]);
    if (self->number == 0) dt_processes_begin(self, exchange, context);
    DT_TRY(dt_processes_allgather(self, is_ready, 1, context)); /* process 0 waits for them now: nobody sends what it has no room for */
    if (self->number != 0) dt_processes_begin(self, exchange, context);
    DT_TRY(dt_processes_wait(self, exchange, exchange->n_begun));
    if (self->number == 0) dt_text_append_bytes(all, exchange->slots[0], (size_t)ends[self->n - 1]);
    return NULL;
}

dt_status *dt_processes_gatherv(dt_processes *processes, const void *mine, size_t bytes, const dt_step_context *context, dt_text *all) {
    if (processes == NULL) {
        dt_text_append_bytes(all, mine, bytes);
        return all->failed ? dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the parts of all processes") : NULL;
    }
    jmp_buf guard;
    dt_arena *volatile arena = dt_arena_create();
    dt_status *status = NULL;
    if (arena == NULL || setjmp(guard) != 0) {
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the parts of all processes");
    }
    dt_arena_guard(arena, &guard);
    int64_t *ends = DT_NEW_ARRAY(arena, int64_t, processes->n);
    ends[processes->number] = (int64_t)bytes;
    status = dt_processes_allgather(processes, ends, sizeof *ends, context);
    for (int p = 1; p < processes->n; p++) ends[p] += ends[p - 1];
    if (status == NULL) status = gatherv(processes, mine, ends, context, all, arena);
    if (status == NULL && all->failed) status = dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the parts of all processes");
    dt_arena_guard(arena, NULL);
    if (status == NULL || processes->abandoned != NULL)
        dt_arena_destroy(arena);
    else
        processes->abandoned = arena;
    return status;
}
