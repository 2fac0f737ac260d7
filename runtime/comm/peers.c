/* peers: see peers.h. */
#include "runtime/comm/peers.h"

#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double ASKING_SECONDS = 0.5; /* how long to wait before asking, and between two questions */

typedef enum notice_kind {
    NOTICE_QUESTION,
    NOTICE_ANSWER,
    NOTICE_FAILURE,
    NOTICE_PERSON_KNOWS
} notice_kind;

typedef struct notice {
    int32_t kind, activity;
    uint64_t n_done;
    char text[640]; /* ANSWER: what it is doing; FAILURE: why */
} notice;

_Static_assert(sizeof(notice) <= DT_NOTICE_BYTES, "a notice has room for what we say");

/* Another process. Times are dt_seconds_now; 0: never. */
typedef struct peer {
    double asked, answered; /* last */
    double progressed;      /* when its counter was last seen to have moved */
    bool waits;             /* for others: it is not to blame */
    uint64_t n_done;
    char doing[400];
} peer;

struct dt_peers {
    dt_transport *transport;
    double deadline_seconds, looked;
    dt_progress *progress; /* of this process */
    bool person_knows;
    peer *all; /* [n_processes] */
    const dt_process_name *names;
};

void dt_progress_describe(const dt_progress *progress, char *text, size_t bytes) {
    static const char *const activities[] = {
#define X(name, words) words,
        DT_ACTIVITIES(X)
#undef X
    };
    const char *step = atomic_load(&progress->step), *label = atomic_load(&progress->label);
    int activity = atomic_load(&progress->activity);
    if (step == NULL)
        snprintf(text, bytes, "%s", activities[activity]);
    else
        snprintf(text, bytes, "%s step %" PRId64 ", segment %d%s%.200s: %s", step, atomic_load(&progress->number) + 1,
                 atomic_load(&progress->segment), label != NULL ? ", " : "", label != NULL ? label : "", activities[activity]);
}

dt_status *dt_peers_create(dt_transport *transport, double deadline_seconds, dt_progress *progress, dt_arena *arena, dt_peers **peers) {
    *peers = DT_NEW(arena, dt_peers);
    **peers = (dt_peers){
        .transport = transport, .deadline_seconds = deadline_seconds, .progress = progress, .all = DT_NEW_ARRAY(arena, peer, transport->n_processes)};
    return NULL;
}

void dt_peers_introduce(dt_peers *peers, const dt_process_name *names) { peers->names = names; }

/* ---- notices ---- */

static dt_status *answer(dt_peers *self, int asker) {
    notice said = {.kind = NOTICE_ANSWER, .activity = atomic_load(&self->progress->activity), .n_done = atomic_load(&self->progress->n_done)};
    dt_progress_describe(self->progress, said.text, sizeof said.text);
    return dt_transport_notify(self->transport, asker, &said, sizeof said);
}

static void hear(peer *one, const notice *said, double now) {
    if (one->answered == 0 || said->n_done != one->n_done) one->progressed = now;
    one->answered = now;
    one->n_done = said->n_done;
    one->waits = said->activity == DT_ACTIVITY_WAITING || said->activity == DT_ACTIVITY_EXCHANGING;
    snprintf(one->doing, sizeof one->doing, "%.*s", (int)sizeof one->doing - 1, said->text);
}

dt_status *dt_peers_listen(dt_peers *self, char *reason, size_t reason_bytes, bool *failed) {
    union {
        notice said;
        char bytes[DT_NOTICE_BYTES];
    } heard;
    *failed = false;
    for (;;) {
        int from;
        size_t bytes;
        DT_TRY(dt_transport_listen(self->transport, &from, &heard, &bytes));
        if (from < 0) return NULL;
        switch (heard.said.kind) {
        case NOTICE_QUESTION: DT_TRY(answer(self, from)); break;
        case NOTICE_ANSWER: hear(&self->all[from], &heard.said, dt_seconds_now()); break;
        case NOTICE_FAILURE:
            snprintf(reason, reason_bytes, "%.*s", (int)sizeof heard.said.text - 1, heard.said.text);
            *failed = true;
            return NULL;
        case NOTICE_PERSON_KNOWS: self->person_knows = true; break;
        }
    }
}

static void tell_all(dt_peers *self, const notice *said) {
    for (int p = 0; p < self->transport->n_processes; p++)
        if (p != self->transport->process) dt_status_free(dt_transport_notify(self->transport, p, said, sizeof *said));
}

void dt_peers_tell(dt_peers *self, const char *reason) {
    notice said = {.kind = NOTICE_FAILURE};
    snprintf(said.text, sizeof said.text, "%s", reason);
    tell_all(self, &said);
}

bool dt_peers_person_knows(const dt_peers *self) { return self->person_knows; }

void dt_peers_say_person_knows(dt_peers *self) {
    self->person_knows = true;
    tell_all(self, &(notice){.kind = NOTICE_PERSON_KNOWS});
}

/* ---- whom we wait for ---- */

static void blame(const dt_peers *self, int p, const dt_exchange *exchange, double silent, char *reason, size_t bytes) {
    const peer *one = &self->all[p];
    char name[160];
    if (self->names != NULL)
        snprintf(name, sizeof name, "process %d (%s, pid %" PRId64 ")", p, self->names[p].host, self->names[p].pid);
    else
        snprintf(name, sizeof name, "process %d", p);
    const dt_step_context *at = &exchange->context;
    if (silent >= self->deadline_seconds)
        snprintf(reason, bytes,
                 "%s has given no sign of life for %.3g s; process %d waits for it at %s step %" PRId64 ", segment %d, %s. It was last seen at: %s",
                 name, silent, self->transport->process, at->step, at->number + 1, at->segment, exchange->label,
                 one->answered > 0 ? one->doing : "nothing was heard from it");
    else
        snprintf(reason, bytes,
                 "%s is alive and has not got on for %.3g s; process %d waits for it at %s step %" PRId64 ", segment %d, %s. It is at: %s", name,
                 self->deadline_seconds, self->transport->process, at->step, at->number + 1, at->segment, exchange->label, one->doing);
}

static double later(double a, double b) { return a > b ? a : b; }

/* One whom an exchange waits for since its round began. */
static dt_status *ask_one(dt_peers *self, int p, const dt_exchange *exchange, double now, char *reason, size_t bytes, bool *failed) {
    peer *one = &self->all[p];
    double silent = now - later(exchange->started, one->answered), stands = now - later(exchange->started, one->progressed);
    *failed = silent >= self->deadline_seconds || (one->answered > exchange->started && !one->waits && stands >= self->deadline_seconds);
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
    if (exchanges == NULL || now - self->looked < ASKING_SECONDS / 5) return NULL;
    self->looked = now;
    for (const dt_exchange *one = exchanges; one != NULL; one = one->next) {
        if (one->under_way < 0 || now - one->started < ASKING_SECONDS) continue;
        const dt_schedule_round *round = &one->schedule.rounds[one->round];
        for (int m = 0; m < round->n_messages; m++) {
            DT_TRY(ask_one(self, round->messages[m].peer, one, now, reason, bytes, failed));
            if (*failed) return NULL;
        }
    }
    return NULL;
}
