/* peers: see peers.h. */
#include "runtime/comm/peers.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/comm/process_state.h"
#include "runtime/comm/roll_call.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double ASKING_SECONDS = 0.5; /* how long to wait before asking, and between two questions */
static const double AWAY_SECONDS = 1;     /* between two times that this process listens, after which it was away */
static const double GAP_SECONDS = 0.05;   /* the same, after which it did not only wait: it did not run */
static const double CIRCLE_SECONDS = 3.0; /* beyond the deadline: whoever is to blame has been named by then, unless all wait for one another */

enum {
    PLACE_BYTES = 80 /* of a process in the mesh */
};

typedef enum notice_kind {
    NOTICE_QUESTION,
    NOTICE_ANSWER,
    NOTICE_FAILURE,
    NOTICE_PERSON_KNOWS,
    NOTICE_STOP
} notice_kind;

typedef struct notice {
    int32_t kind;
    int32_t number; /* ANSWER: of the activity; STOP: of the signal; FAILURE: of the process to blame, or -1 */
    double stood;   /* ANSWER: seconds since it got on, or somebody whom it waits for */
    char text[640]; /* ANSWER: what it is doing; FAILURE: why */
} notice;

_Static_assert(sizeof(notice) <= DT_NOTICE_BYTES, "a notice has room for what we say");

/* Another process. Times are dt_seconds_now; 0: never. */
typedef struct peer {
    double asked, answered; /* last */
    double progressed;      /* when it, or somebody whom it waits for, last got on, as it says */
    bool waits;             /* for others: it is not to blame */
    char doing[400];
} peer;

struct dt_peers {
    dt_transport *transport;
    double deadline_seconds, looked;
    dt_progress *progress; /* of this process */
    uint64_t n_done;       /* its counter when it was last looked at, */
    double progressed;     /* and when that had moved */
    double last_here;      /* when this process last listened, */
    _Atomic double idle;   /* seconds that it has waited for others, or written a checkpoint, as seen each time that it listens */
    double here_since;     /* and since when it has done so without a gap: nothing is heard by one that is stopped itself */
    bool person_knows;
    int stop;  /* signal that somebody was sent; 0: none */
    peer *all; /* [members] */
    const dt_process_name *names;
    const char *state_folder;
};

/* Of a process, where the model is spread over several: " (data 1, stage 0, shards 2 to 3 of 4)"; else nothing. */
static void print_place(const dt_progress *progress, int process, char *text, size_t bytes) {
    int n_shards = atomic_load(&progress->n_shards), over = atomic_load(&progress->n_over), n_stages = atomic_load(&progress->n_stages);
    char stage[32] = "", shards[64] = "";
    *text = 0;
    if (n_shards == 0) return;
    dt_process_roles all = {.n_processes = atomic_load(&progress->n_processes), .process = process};
    dt_mesh mesh = dt_mesh_of(all, over, n_stages);
    int first = mesh.axes[DT_AXIS_MODEL].process * (n_shards / over), last = first + n_shards / over - 1;
    if (n_stages > 1) snprintf(stage, sizeof stage, ", stage %d", mesh.axes[DT_AXIS_STAGES].process);
    if (over > 1 && first == last) snprintf(shards, sizeof shards, ", shard %d of %d", first, n_shards);
    if (over > 1 && first < last) snprintf(shards, sizeof shards, ", shards %d to %d of %d", first, last, n_shards);
    snprintf(text, bytes, " (data %d%s%s)", mesh.axes[DT_AXIS_DATA].process, stage, shards);
}

void dt_progress_describe(const dt_progress *progress, char *text, size_t bytes) {
    static const char *const activities[] = {
#define X(name, words) words,
        DT_ACTIVITIES(X)
#undef X
    };
    const char *step = atomic_load(&progress->step), *label = atomic_load(&progress->label);
    int activity = atomic_load(&progress->activity);
    char place[PLACE_BYTES];
    print_place(progress, atomic_load(&progress->process), place, sizeof place);
    if (step == NULL)
        snprintf(text, bytes, "%s%s", activities[activity], place);
    else
        snprintf(text, bytes, "%s step %" PRId64 ", segment %d%s%.200s: %s%s", step, atomic_load(&progress->number) + 1,
                 atomic_load(&progress->segment), label != NULL ? ", " : "", label != NULL ? label : "", activities[activity], place);
}

dt_status *dt_peers_create(dt_transport *transport, double deadline_seconds, dt_progress *progress, const char *state_folder, dt_peers **peers) {
    dt_peers *made = dt_allocate(sizeof *made);
    peer *all = dt_allocate_zeroed((size_t)dt_transport_n_members(transport), sizeof *all);
    *peers = NULL;
    if (made == NULL || all == NULL) {
        dt_release(made);
        dt_release(all);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory to connect processes");
    }
    *made = (dt_peers){.transport = transport, .deadline_seconds = deadline_seconds, .progress = progress, .state_folder = state_folder, .all = all};
    *peers = made;
    return NULL;
}

void dt_peers_destroy(dt_peers *peers) {
    if (peers == NULL) return;
    dt_release(peers->all);
    dt_release(peers);
}

void dt_peers_introduce(dt_peers *peers, const dt_process_name *names) { peers->names = names; }

/* ---- notices ---- */

static double later(double a, double b) { return a > b ? a : b; }
static bool is_waiting(int activity) { return activity == DT_ACTIVITY_WAITING || activity == DT_ACTIVITY_EXCHANGING; }

static void look_at_progress(dt_peers *self, double now) {
    int activity = atomic_load(&self->progress->activity);
    if (now - self->last_here > AWAY_SECONDS)
        self->here_since = now;
    else if ((is_waiting(activity) || activity == DT_ACTIVITY_WRITING) && now - self->last_here < GAP_SECONDS)
        atomic_store(&self->idle, atomic_load(&self->idle) + now - self->last_here);
    self->last_here = now;
    uint64_t n_done = atomic_load(&self->progress->n_done);
    if (n_done == self->n_done && self->progressed > 0) return;
    self->n_done = n_done;
    self->progressed = now;
}

/* Of this process, or of those whom it has asked of late, as it waits for them. So it is told along a chain that somebody at its end gets on. */
static double last_progress(const dt_peers *self, int activity, double now) {
    double last = self->progressed;
    for (int p = 0; p < dt_transport_n_members(self->transport) && is_waiting(activity); p++) {
        const peer *one = &self->all[p];
        if (one->answered > 0 && now - one->asked < 3 * ASKING_SECONDS) last = later(last, one->progressed);
    }
    return last;
}

static dt_status *answer(dt_peers *self, int asker) {
    double now = dt_seconds_now();
    notice said = {.kind = NOTICE_ANSWER, .number = atomic_load(&self->progress->activity)};
    said.stood = now - last_progress(self, said.number, now);
    dt_progress_describe(self->progress, said.text, sizeof said.text);
    return dt_transport_notify(self->transport, asker, &said, sizeof said);
}

/* The text of a notice, which somebody else wrote. */
static void copy_said(const notice *said, char *text, size_t bytes) {
    size_t n = strnlen(said->text, (bytes < sizeof said->text ? bytes : sizeof said->text) - 1);
    memcpy(text, said->text, n);
    text[n] = 0;
    dt_text_make_printable(text);
}

static void hear(peer *one, const notice *said, double now) {
    one->answered = now;
    one->progressed = now - said->stood;
    one->waits = is_waiting(said->number);
    copy_said(said, one->doing, sizeof one->doing);
}

dt_status *dt_peers_listen(dt_peers *self, char *reason, size_t reason_bytes, int *blamed, bool *failed) {
    union {
        notice said;
        char bytes[DT_NOTICE_BYTES];
    } heard;
    *failed = false;
    look_at_progress(self, dt_seconds_now());
    for (;;) {
        int from;
        size_t bytes;
        memset(&heard, 0, sizeof heard); /* a notice may be short */
        DT_TRY(dt_transport_listen(self->transport, &from, &heard, &bytes));
        if (from < 0) return NULL;
        switch (heard.said.kind) {
        case NOTICE_QUESTION: DT_TRY(answer(self, from)); break;
        case NOTICE_ANSWER: hear(&self->all[from], &heard.said, dt_seconds_now()); break;
        case NOTICE_FAILURE:
            copy_said(&heard.said, reason, reason_bytes);
            *blamed = heard.said.number;
            *failed = true;
            return NULL;
        case NOTICE_PERSON_KNOWS: self->person_knows = true; break;
        case NOTICE_STOP: self->stop = heard.said.number; break;
        default: break;
        }
    }
}

static void tell_all(dt_peers *self, const notice *said) {
    for (int p = 0; p < dt_transport_n_members(self->transport); p++)
        if (p != dt_transport_member(self->transport)) dt_status_free(dt_transport_notify(self->transport, p, said, sizeof *said));
}

void dt_peers_tell(dt_peers *self, const char *reason, int blamed) {
    notice said = {.kind = NOTICE_FAILURE, .number = blamed};
    snprintf(said.text, sizeof said.text, "%s", reason);
    tell_all(self, &said);
}

bool dt_peers_person_knows(const dt_peers *self) { return self->person_knows; }

void dt_peers_say_person_knows(dt_peers *self) {
    self->person_knows = true;
    tell_all(self, &(notice){.kind = NOTICE_PERSON_KNOWS});
}

double dt_peers_idle_seconds(const dt_peers *self) { return atomic_load(&self->idle); }

void dt_peers_print_name(const dt_peers *self, int p, char *text, size_t bytes) {
    if (self->names != NULL)
        snprintf(text, bytes, "process %d (%s, pid %" PRId64 ")", p, self->names[p].host, self->names[p].pid);
    else
        snprintf(text, bytes, "process %d", p);
}

int dt_peers_stop(const dt_peers *self) { return self->stop; }

void dt_peers_tell_stop(dt_peers *self, int number) {
    self->stop = number;
    tell_all(self, &(notice){.kind = NOTICE_STOP, .number = number});
}

double dt_peers_last_progress(const dt_peers *self, bool *waits) {
    int activity = atomic_load(&self->progress->activity);
    *waits = is_waiting(activity);
    return last_progress(self, activity, dt_seconds_now());
}

/* ---- whom we wait for ---- */

/* What a silent process did last: what its file says, where that is of this machine, or what was heard from it. */
static const char *last_seen(const dt_peers *self, int p, dt_process_state *state) {
    bool found = false;
    if (self->state_folder != NULL) dt_status_free(dt_process_state_read(self->state_folder, p, state, &found));
    if (found) return state->doing;
    if (self->all[p].answered > 0) return self->all[p].doing;
    char place[PLACE_BYTES];
    print_place(self->progress, p, place, sizeof place);
    snprintf(state->doing, sizeof state->doing, "nothing was heard from it%s", place);
    return state->doing;
}

/* Of what is exchanged among those alone that have parts of the same model. */
static const char *axis_of(const dt_exchange *exchange) {
    static const char *const names[] = {[DT_AXIS_DATA] = "", [DT_AXIS_MODEL] = ", over shards", [DT_AXIS_STAGES] = ", from stage to stage"};
    return names[exchange->axis];
}

/* Of one that has not said who it is, what the system knows, where it is on this machine. */
static void print_name_of_unknown(const dt_peers *self, int p, char *name, size_t bytes) {
    char host[64] = "?";
    int64_t pid;
    bool is_stopped;
    dt_roll_call *call = self->names == NULL ? dt_roll_call_take() : NULL;
    dt_peers_print_name(self, p, name, bytes);
    if (dt_roll_call_has(call, p, &pid, &is_stopped) && gethostname(host, sizeof host - 1) == 0)
        snprintf(name, bytes, "process %d (%s, pid %" PRId64 ")", p, host, pid);
    dt_roll_call_free(call);
}

static void blame(const dt_peers *self, int p, const dt_exchange *exchange, double silent, char *reason, size_t bytes) {
    const peer *one = &self->all[p];
    char name[160];
    print_name_of_unknown(self, p, name, sizeof name);
    const dt_step_context *at = &exchange->context;
    const char *axis = axis_of(exchange);
    dt_process_state state;
    if (silent >= self->deadline_seconds)
        snprintf(reason, bytes,
                 "%s has given no sign of life for %.3g s; process %d waits for it at %s step %" PRId64 ", segment %d, %s%s. It was last seen at: %s",
                 name, silent, self->transport->process, at->step, at->number + 1, at->segment, exchange->label, axis, last_seen(self, p, &state));
    else if (one->waits)
        snprintf(
            reason, bytes,
            "%s waits for others, none of whom has got on for %.3g s: processes wait for one another; process %d waits for it at %s step %" PRId64
            ", segment %d, %s%s",
            name, self->deadline_seconds, self->transport->process, at->step, at->number + 1, at->segment, exchange->label, axis);
    else
        snprintf(reason, bytes,
                 "%s is alive and has not got on for %.3g s; process %d waits for it at %s step %" PRId64 ", segment %d, %s%s. It is at: %s", name,
                 self->deadline_seconds, self->transport->process, at->step, at->number + 1, at->segment, exchange->label, axis, one->doing);
}

/* One whom an exchange waits for since its round began. */
static dt_status *ask_one(dt_peers *self, int p, const dt_exchange *exchange, double now, char *reason, size_t bytes, bool *failed) {
    peer *one = &self->all[p];
    double began = later(exchange->started, self->here_since);
    double silent = now - later(began, one->answered), stands = now - later(began, one->progressed);
    double deadline = self->deadline_seconds + (one->waits ? CIRCLE_SECONDS : 0);
    *failed = silent >= self->deadline_seconds || (one->answered > began && stands >= deadline);
    if (*failed) {
        blame(self, p, exchange, silent, reason, bytes);
        return NULL;
    }
    if (now - one->asked < ASKING_SECONDS) return NULL;
    one->asked = now;
    return dt_transport_notify(self->transport, p, &(notice){.kind = NOTICE_QUESTION}, sizeof(notice));
}

dt_status *dt_peers_ask(dt_peers *self, const dt_exchange *exchanges, char *reason, size_t bytes, bool *failed) {
    double now = exchanges != NULL ? dt_seconds_now() : 0;
    *failed = false;
    if (self->transport->n_members > 0) return NULL; /* the transport knows who is there */
    if (exchanges == NULL || now - self->looked < ASKING_SECONDS / 5 || now - self->last_here > AWAY_SECONDS) return NULL;
    self->looked = now;
    for (const dt_exchange *one = exchanges; one != NULL; one = one->next) {
        if (one->under_way < 0 || now - one->started < ASKING_SECONDS) continue;
        const dt_operation *round = &one->operations[2 * one->round];
        for (int m = 0; round->kind == DT_OPERATION_TRANSFER && m < round->transfer.n; m++) {
            DT_TRY(ask_one(self, round->transfer.messages[m].peer, one, now, reason, bytes, failed));
            if (*failed) return NULL;
        }
    }
    return NULL;
}
