/* leasing_watch: whether workers get on with their leases.
 *
 * ZeroMQ answers for a process that lives, whatever its threads do: one that hangs in a file system would hold its lease for ever. So a worker says
 * for how long its progress has stood still; what it waits for servers is none of that. Server 0 counts from when the worker has had something to do,
 * and takes silence for standing. */
#include "runtime/comm/peers.h"
#include "runtime/ps/leasing_state.h"
#include "runtime/threads/clock.h"

#include <math.h>
#include <stdio.h>

static const double LOOK_SECONDS = 0.25; /* between two looks */
static const double AWAY_SECONDS = 2;    /* without one, after which this process was stopped itself */

/* ---- workers ---- */

/* What its step is to receive is not here yet. Who waits for servers in other ways counts as long as it does (leasing.c). */
static bool waits(const dt_ps_team *team) {
    return atomic_load(&team->leasing->progress->activity) == DT_ACTIVITY_EXCHANGING && team->mailbox.n_expected > 0;
}

static dt_status *say_getting_on(dt_ps_team *team, double now) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_message message = {.kind = DT_PS_GETTING_ON, .getting_on.plan = team->plan.number};
    if (self->progress == NULL) return NULL;
    uint64_t n_done = atomic_load(&self->progress->n_done);
    if (n_done != self->n_done || waits(team)) self->progressed = now;
    self->n_done = n_done;
    message.getting_on.stood = now - self->progressed;
    dt_progress_describe(self->progress, message.getting_on.doing, sizeof message.getting_on.doing);
    return dt_ps_team_send(team, 0, &message);
}

/* ---- server 0 ---- */

static double stands(dt_ps_team *team, dt_ps_member *worker, double now) {
    bool owes = dt_ps_leases_owes(team->leasing->book, worker->number) || worker->n_unfinished > 0;
    if (!owes || worker->owes_since == 0) worker->owes_since = owes ? now : 0;
    if (!owes) return 0;
    if (worker->told < worker->owes_since) return now - worker->owes_since;
    return fmin(worker->stood + now - worker->told, now - worker->owes_since);
}

/* Those who do not get on are as good as gone. */
static dt_status *look_at_workers(dt_ps_team *team, bool was_away, double now) {
    for (int i = 0; i < team->n_members; i++) {
        dt_ps_member *worker = &team->members[i];
        char reason[400];
        if (worker->part != DT_PS_NOBODY || worker->process == DT_PS_NOBODY) continue;
        if (was_away) worker->owes_since = 0; /* what it has said meanwhile is not heard yet */
        double seconds = stands(team, worker, now);
        if (seconds < team->options.deadline_seconds) continue;
        bool has_spoken = worker->told >= worker->owes_since;
        snprintf(reason, sizeof reason, "it has not got on with its lease for %.3g s, and others have it now. It was last seen at: %s", seconds,
                 has_spoken ? worker->doing : "nothing was heard from it");
        return dt_ps_team_refuse(team, worker->peer, DT_PS_REFUSED_FULL, reason); /* which is nothing final */
    }
    return NULL;
}

dt_status *dt_ps_leasing_watch(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    double now = dt_seconds_now(), since = now - self->looked;
    if (since < LOOK_SECONDS) return NULL;
    self->looked = now;
    if (dt_ps_team_is_worker(team)) return say_getting_on(team, now);
    return self->book != NULL ? look_at_workers(team, since > AWAY_SECONDS, now) : NULL;
}
