/* leasing_hear: what the transport's thread does for leasing.h: it hears and says everything, keeps the book of server 0, and makes one order for all
 * servers. */
#include "runtime/ps/leasing_state.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    MOST_LEASES = 2,     /* that a worker holds */
    MOST_HELD = 4,       /* that one has pushed, and that are not applied here: it waits until server 0 has ordered each */
    MOST_TASKS = 1 << 14 /* that wait */
};

static dt_status *send_to_servers(dt_ps_team *team, const dt_ps_message *message) {
    for (int i = 0; i < team->n_members; i++) {
        dt_ps_message copy = *message;
        if (team->members[i].part != DT_PS_NOBODY) DT_TRY(dt_ps_team_send(team, team->members[i].peer, &copy));
    }
    return NULL;
}

/* ---- servers: what has come ---- */

static dt_ps_lease_hold *find_hold(struct dt_ps_leasing *self, uint64_t id, uint64_t epoch, uint64_t batch) {
    for (size_t i = 0; i < self->holds.n; i++) {
        dt_ps_lease_hold *one = &self->holds.items[i];
        if (one->id == id && one->epoch == (int64_t)epoch && one->batch == (int64_t)batch) return one;
    }
    return NULL;
}

static dt_ps_member *worker_of_id(dt_ps_team *team, uint64_t id) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].part == DT_PS_NOBODY && team->members[i].key > 0 && team->members[i].id == id) return &team->members[i];
    return NULL;
}

static dt_ps_member *worker_of_number(dt_ps_team *team, uint32_t number) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].part == DT_PS_NOBODY && team->members[i].key > 0 && team->members[i].number == number) return &team->members[i];
    return NULL;
}

static dt_status *add_task(struct dt_ps_leasing *self, dt_ps_lease_task added) {
    DT_QUEUE_ADD(self->tasks, added);
    dt_event_advance(&self->changed);
    return NULL;
}

static bool has_hold(const struct dt_ps_leasing *self, uint64_t id) {
    for (size_t i = 0; i < self->holds.n; i++)
        if (self->holds.items[i].id == id) return true;
    return false;
}

/* Server 0 may have told a worker that its lease is applied, before it tells this server: rows that the worker then wants are those after it. */
static dt_status *remove_hold(struct dt_ps_leasing *self, const dt_ps_lease_hold *one) {
    uint64_t id = one->id;
    DT_QUEUE_REMOVE(self->holds, one - self->holds.items);
    for (size_t i = 0; i < self->waiting.n && !has_hold(self, id);) {
        dt_ps_lease_task next = self->waiting.items[i];
        if (next.id == id) DT_TRY(add_task(self, next));
        if (next.id == id)
            DT_QUEUE_REMOVE(self->waiting, i);
        else
            i++;
    }
    return NULL;
}

/* A lease that is all here, next. */
static dt_status *apply_here(struct dt_ps_leasing *self, const dt_ps_lease_hold *one) {
    DT_TRY(add_task(
        self, (dt_ps_lease_task){.what = DT_PS_LEASE_APPLY, .key = one->key, .peer = one->peer, .id = one->id, .order = {one->batch, one->rows}}));
    return remove_hold(self, one);
}

/* What has come of a lease will never be applied. */
static dt_status *forget_hold(dt_ps_team *team, const dt_ps_lease_hold *one) {
    if (one == NULL) return NULL;
    if (one->peer >= 0) dt_ps_mailbox_forget(&team->mailbox, one->key);
    return remove_hold(team->leasing, one);
}

/* The hold of what a worker pushes, which is made where there is none. */
static dt_status *hold_of(struct dt_ps_leasing *self, const dt_ps_pushed *pushed, dt_ps_lease_hold **found) {
    *found = find_hold(self, pushed->id, pushed->epoch, pushed->batch);
    if (*found != NULL) return NULL;
    DT_QUEUE_ADD(self->holds,
                 (dt_ps_lease_hold){
                     .id = pushed->id, .peer = -1, .epoch = (int64_t)pushed->epoch, .batch = (int64_t)pushed->batch, .rows = (int64_t)pushed->rows});
    *found = &self->holds.items[self->holds.n - 1];
    return NULL;
}

/* ---- server 0: who gets what, and what is next ---- */

static dt_status *say_task(dt_ps_team *team, dt_ps_what what, const dt_ps_lease_hold *one) {
    dt_ps_message message = {.kind = DT_PS_TASK, .task = {.plan = team->plan.number, .what = (uint8_t)what}};
    if (one != NULL) {
        message.task.id = one->id;
        message.task.epoch = (uint64_t)one->epoch;
        message.task.batch = (uint64_t)one->batch;
        message.task.rows = (uint64_t)one->rows;
    }
    return send_to_servers(team, &message);
}

static dt_status *say_lease(dt_ps_team *team, const dt_ps_member *worker, const dt_ps_lease *lease) {
    dt_ps_message message = {.kind = DT_PS_GRANT};
    message.grant = (dt_ps_grant){.plan = dt_ps_team_number_for(team, worker->id),
                                  .step = (uint32_t)lease->step,
                                  .epoch = (uint64_t)lease->epoch,
                                  .batch = (uint64_t)lease->batch,
                                  .trains = lease->trains,
                                  .pulls = lease->pulls};
    return dt_ps_team_send(team, worker->peer, &message);
}

static dt_status *give_leases(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    for (size_t i = 0; i < self->askers.n;) {
        const dt_ps_member *worker = worker_of_number(team, self->askers.items[i]);
        dt_ps_lease lease;
        bool any = false;
        if (worker != NULL) DT_TRY(dt_ps_leases_take(self->book, self->askers.items[i], &lease, &any));
        if (any) DT_TRY(say_lease(team, worker, &lease));
        if (any || worker == NULL)
            DT_QUEUE_REMOVE(self->askers, i);
        else
            i++;
    }
    return NULL;
}

/* The worker's gradients are everywhere: all servers apply them now. */
static dt_status *order_lease(dt_ps_team *team, uint32_t worker, const dt_ps_lease *lease) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_member *whose = worker_of_number(team, worker);
    const dt_ps_lease_hold *one = NULL;
    for (size_t i = 0; i < self->holds.n; i++)
        if (self->holds.items[i].is_known && self->holds.items[i].worker == worker && self->holds.items[i].batch == lease->batch)
            one = &self->holds.items[i];
    if (one == NULL) return dt_error(DT_INTERNAL, "batch %" PRId64 " is to be applied, and is not here", lease->batch);
    if (whose != NULL) whose->n_unfinished++;
    DT_TRY(say_task(team, DT_PS_TASK_APPLY, one));
    dt_ps_message applied = {.kind = DT_PS_APPLIED};
    applied.applied = (dt_ps_applied){.plan = dt_ps_team_number_for(team, one->id), .epoch = (uint64_t)lease->epoch, .batch = (uint64_t)lease->batch};
    DT_TRY(dt_ps_team_send(team, (uint32_t)one->peer, &applied));
    return apply_here(self, one);
}

/* Whether a worker that is there is not done yet with what was applied. */
static bool is_unfinished(const dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].part == DT_PS_NOBODY && team->members[i].process != DT_PS_NOBODY && team->members[i].n_unfinished > 0) return true;
    return false;
}

static dt_status *dispatch(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    self->is_to_dispatch = false;
    for (bool any = true; any && self->is_open;) {
        uint32_t worker;
        dt_ps_lease lease;
        DT_TRY(give_leases(team));
        DT_TRY(dt_ps_leases_apply(self->book, &worker, &lease, &any));
        if (any) DT_TRY(order_lease(team, worker, &lease));
    }
    if (!self->is_open || !dt_ps_leases_is_over(self->book) || is_unfinished(team)) return NULL;
    self->is_open = false;
    DT_TRY(say_task(team, DT_PS_TASK_END, NULL));
    return add_task(self, (dt_ps_lease_task){.what = DT_PS_LEASE_END});
}

/* Of a worker that has said what cannot be. */
static dt_status *refuse(dt_ps_team *team, const dt_ps_member *worker, dt_status *status) {
    if (dt_status_code(status) != DT_DATA_LOSS) return status;
    dt_status *refused = dt_ps_team_refuse(team, worker->peer, DT_PS_REFUSED_MESSAGE, dt_status_message(status));
    dt_status_free(status);
    return refused;
}

static dt_status *forget_everywhere(dt_ps_team *team, const dt_ps_lease_hold *one) {
    DT_TRY(say_task(team, DT_PS_TASK_FORGET, one));
    return forget_hold(team, one);
}

/* Where in the queue it is that the lease's examples were compared; its end: they were not, or nobody compares them. */
static size_t find_compared(const struct dt_ps_leasing *self, const dt_ps_lease_hold *one) {
    size_t i = 0;
    while (i < self->compared.n &&
           (self->compared.items[i].id != one->id || self->compared.items[i].epoch != one->epoch || self->compared.items[i].batch != one->batch))
        i++;
    return i;
}

static bool is_everywhere(const dt_ps_team *team, const dt_ps_lease_hold *one) {
    const struct dt_ps_leasing *self = team->leasing;
    bool is_compared = self->check.compare == NULL || find_compared(self, one) < self->compared.n;
    return one->peer >= 0 && one->n_others >= team->options.n_servers - 1 && is_compared;
}

/* Everywhere: the book is told. */
static dt_status *take_push(dt_ps_team *team, dt_ps_lease_hold *one) {
    struct dt_ps_leasing *self = team->leasing;
    bool dropped;
    const dt_ps_member *worker = worker_of_id(team, one->id);
    if (!is_everywhere(team, one) || worker == NULL) return NULL;
    size_t compared = find_compared(self, one);
    if (compared < self->compared.n) DT_QUEUE_REMOVE(self->compared, compared);
    one->worker = worker->number;
    dt_status *status = dt_ps_leases_pushed(team->leasing->book, worker->number, one->epoch, one->batch, &dropped);
    if (status != NULL) return refuse(team, worker, status);
    one->is_known = !dropped;
    return dropped ? forget_everywhere(team, one) : dispatch(team);
}

static dt_status *hear_ask(dt_ps_team *team, dt_ps_member *worker, const dt_ps_ask *ask) {
    int n_asked = 0;
    if (ask->finished && worker->n_unfinished == 0) return dt_error(DT_DATA_LOSS, "it is done with a lease that was not applied");
    worker->n_unfinished -= ask->finished;
    team->leasing->n_ignored += ask->ignored;
    for (size_t i = 0; i < team->leasing->askers.n; i++) n_asked += team->leasing->askers.items[i] == worker->number;
    if (n_asked == MOST_LEASES) return dt_error(DT_DATA_LOSS, "more leases are asked for than a worker holds");
    DT_QUEUE_ADD(team->leasing->askers, worker->number);
    return dispatch(team);
}

/* How many servers have heard that the worker pulls, with this one. */
static dt_status *count_pull(struct dt_ps_leasing *self, uint64_t id, int *n) {
    size_t i = 0;
    while (i < self->pulls.n && self->pulls.items[i].id != id) i++;
    if (i == self->pulls.n) DT_QUEUE_ADD(self->pulls, (dt_ps_lease_pull){.id = id});
    *n = ++self->pulls.items[i].n_servers;
    return NULL;
}

static void forget_pull(struct dt_ps_leasing *self, uint64_t id) {
    for (size_t i = self->pulls.n; i-- > 0;)
        if (self->pulls.items[i].id == id) DT_QUEUE_REMOVE(self->pulls, i);
}

/* All servers give at the same place in the order: once each of them knows the worker. */
static dt_status *note_pull(dt_ps_team *team, uint64_t id) {
    struct dt_ps_leasing *self = team->leasing;
    const dt_ps_member *worker = worker_of_id(team, id);
    int n;
    if (worker == NULL || worker->process == DT_PS_NOBODY) return NULL;
    DT_TRY(count_pull(self, id, &n));
    if (n < team->options.n_servers) return NULL;
    forget_pull(self, id);
    dt_status *status = dt_ps_leases_pulled(self->book, worker->number, dt_ps_leases_version(self->book));
    if (status != NULL) return refuse(team, worker, status);
    DT_TRY(say_task(team, DT_PS_TASK_GIVE, &(dt_ps_lease_hold){.id = id}));
    return add_task(self, (dt_ps_lease_task){.what = DT_PS_LEASE_GIVE, .peer = worker->peer, .id = id});
}

/* Leases that were everywhere when their examples were not compared yet. Each call may remove holds. */
static dt_status *take_compared(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    self->has_compared = false;
    for (size_t i = 0; i < self->holds.n;) {
        dt_ps_lease_hold *one = &self->holds.items[i];
        bool is_new = !one->is_known && is_everywhere(team, one) && worker_of_id(team, one->id) != NULL;
        if (is_new) DT_TRY(take_push(team, one));
        i = is_new ? 0 : i + 1;
    }
    return NULL;
}

/* ---- servers: what they hear ---- */

/* For the thread that runs the training. */
static dt_status *hear_examples(dt_ps_team *team, const dt_ps_member *worker, dt_ps_message *message) {
    struct dt_ps_leasing *self = team->leasing;
    if (self->check.compare == NULL) return NULL;
    if (self->tasks.n >= MOST_TASKS) return refuse(team, worker, dt_error(DT_DATA_LOSS, "more is to be compared than there can be"));
    DT_TRY(add_task(self, (dt_ps_lease_task){.what = DT_PS_LEASE_COMPARE, .peer = worker->peer, .id = worker->id, .asked = *message}));
    message->payload = (dt_ps_payload){0};
    return NULL;
}

dt_status *dt_ps_leasing_hear_wrong(dt_ps_team *team, const dt_ps_member *worker, const char *reason) {
    dt_ps_lease_task wrong = {.what = DT_PS_LEASE_WRONG, .peer = worker->peer, .id = worker->id, .asked.kind = DT_PS_WRONG};
    snprintf(wrong.asked.wrong.reason, sizeof wrong.asked.wrong.reason, "%s: %s", dt_ps_peer_name(team->socket, worker->peer), reason);
    dt_ps_leasing_lock(team->leasing);
    dt_status *status = add_task(team->leasing, wrong);
    dt_ps_leasing_unlock(team->leasing);
    return status;
}

static dt_status *hear_rows_wanted(dt_ps_team *team, const dt_ps_member *worker, dt_ps_message *message) {
    struct dt_ps_leasing *self = team->leasing;
    if (self->tasks.n + self->waiting.n >= MOST_TASKS) return refuse(team, worker, dt_error(DT_DATA_LOSS, "more is asked for than is given"));
    dt_ps_lease_task wanted = {.what = DT_PS_LEASE_GIVE_ROWS, .peer = worker->peer, .id = worker->id, .asked = *message};
    if (has_hold(self, worker->id))
        DT_QUEUE_ADD(self->waiting, wanted);
    else
        DT_TRY(add_task(self, wanted));
    message->payload = (dt_ps_payload){0};
    return NULL;
}

static int n_held(const struct dt_ps_leasing *self, uint64_t id) {
    int n = 0;
    for (size_t i = 0; i < self->holds.n; i++) n += self->holds.items[i].id == id && self->holds.items[i].peer >= 0;
    return n;
}

static dt_status *hear_pushed(dt_ps_team *team, dt_ps_member *from, const dt_ps_pushed *pushed) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_lease_hold *one;
    if (from->key <= 0 || from->id != pushed->id) return dt_error(DT_DATA_LOSS, "a lease of another worker");
    if (n_held(self, from->id) >= MOST_HELD) return dt_error(DT_DATA_LOSS, "more leases than a worker can have");
    DT_TRY(hold_of(self, pushed, &one));
    if (one->peer >= 0) return dt_error(DT_DATA_LOSS, "a lease twice");
    one->key = from->key;
    one->peer = from->peer;
    from->key = team->options.n_servers + ++self->last_key; /* of its next lease */
    if (dt_ps_team_leads(team)) return take_push(team, one);
    dt_ps_message message = {.kind = DT_PS_PUSHED, .pushed = *pushed};
    message.pushed.plan = team->plan.number;
    return dt_ps_team_send(team, 0, &message);
}

/* Of the worker itself, or server 0 of another server. */
static dt_status *hear_pull(dt_ps_team *team, const dt_ps_member *from, uint64_t id) {
    bool is_worker = from->part == DT_PS_NOBODY;
    if (is_worker && (from->key <= 0 || from->id != id)) return dt_error(DT_DATA_LOSS, "variables for another worker");
    if (dt_ps_team_leads(team)) return note_pull(team, id);
    if (!is_worker) return NULL;
    return dt_ps_team_send(team, 0, &(dt_ps_message){.kind = DT_PS_PULL, .pull = {.plan = team->plan.number, .id = id}});
}

/* Server 0, of another server. Of a worker that has gone meanwhile all is to be forgotten. */
static dt_status *hear_of_push(dt_ps_team *team, const dt_ps_member *from, const dt_ps_pushed *pushed) {
    dt_ps_lease_hold *one;
    if (worker_of_id(team, pushed->id) != NULL) {
        DT_TRY(hold_of(team->leasing, pushed, &one));
        one->n_others++;
        return take_push(team, one);
    }
    dt_ps_message message = {.kind = DT_PS_TASK};
    message.task =
        (dt_ps_task){.plan = team->plan.number, .what = DT_PS_TASK_FORGET, .id = pushed->id, .epoch = pushed->epoch, .batch = pushed->batch};
    return dt_ps_team_send(team, from->peer, &message);
}

static dt_status *hear_task(dt_ps_team *team, const dt_ps_task *said) {
    struct dt_ps_leasing *self = team->leasing;
    const dt_ps_lease_hold *one = find_hold(self, said->id, said->epoch, said->batch);
    const dt_ps_member *worker = worker_of_id(team, said->id);
    switch ((dt_ps_what)said->what) {
    case DT_PS_TASK_END: return add_task(self, (dt_ps_lease_task){.what = DT_PS_LEASE_END});
    case DT_PS_TASK_FORGET: return forget_hold(team, one);
    case DT_PS_TASK_GIVE:
        return worker == NULL ? NULL : add_task(self, (dt_ps_lease_task){.what = DT_PS_LEASE_GIVE, .peer = worker->peer, .id = said->id});
    case DT_PS_TASK_APPLY:
        if (one != NULL && one->peer >= 0) return apply_here(self, one);
        dt_ps_team_lose(team, "a lease that server 0 wants to be applied is not here");
        return NULL;
    }
    return NULL;
}

/* ---- servers: workers come and go ---- */

dt_status *dt_ps_leasing_meet(dt_ps_team *team, dt_ps_member *worker) {
    worker->key = team->options.n_servers + ++team->leasing->last_key;
    worker->number = (uint32_t)worker->key;
    return dt_ps_team_leads(team) && team->is_started ? dt_ps_leasing_invite(team, worker) : NULL;
}

dt_status *dt_ps_leasing_invite(dt_ps_team *team, const dt_ps_member *worker) {
    dt_ps_message plan = {.kind = DT_PS_PLAN, .plan = team->plan};
    plan.plan.number = dt_ps_team_number_for(team, worker->id);
    plan.plan.process = (uint32_t)team->options.n_servers;
    plan.plan.n_workers = 1;
    plan.plan.workers[0] = worker->id;
    return dt_ps_team_send(team, worker->peer, &plan);
}

dt_status *dt_ps_leasing_admit(dt_ps_team *team, dt_ps_member *worker) {
    struct dt_ps_leasing *self = team->leasing;
    if (worker->process != DT_PS_NOBODY || worker->key <= 0) return NULL;
    worker->process = team->options.n_servers;
    worker->is_told = false;
    worker->n_unfinished = 0;
    worker->owes_since = 0;
    dt_ps_leasing_lock(self);
    self->n_untold++;
    dt_status *status = dt_ps_leases_join(self->book, worker->number, dt_ps_peer_name(team->socket, worker->peer));
    self->n_workers++;
    dt_ps_leasing_unlock(self);
    if (status != NULL) return status;
    return dt_ps_team_send(team, worker->peer, &(dt_ps_message){.kind = DT_PS_START, .start = {.plan = dt_ps_team_number_for(team, worker->id)}});
}

/* Of what it has pushed, to all servers or not yet to all, the first is still applied. */
static dt_status *lose_locked(dt_ps_team *team, dt_ps_member *worker) {
    struct dt_ps_leasing *self = team->leasing;
    bool had_leases = worker->process != DT_PS_NOBODY && dt_ps_team_leads(team);
    dt_ps_mailbox_forget(&team->mailbox, worker->key);
    worker->key = 0; /* what it has asked for nobody gives it any more */
    worker->process = DT_PS_NOBODY;
    if (!had_leases) return NULL;
    if (--self->n_workers == 0) self->deserted_since = dt_seconds_now();
    for (size_t i = self->compared.n; i-- > 0;)
        if (self->compared.items[i].id == worker->id) DT_QUEUE_REMOVE(self->compared, i);
    for (size_t i = self->askers.n; i-- > 0;)
        if (self->askers.items[i] == worker->number) DT_QUEUE_REMOVE(self->askers, i);
    forget_pull(self, worker->id);
    DT_TRY(dt_ps_leases_leave(self->book, worker->number, NULL));
    for (size_t i = self->holds.n; i-- > 0;)
        if (self->holds.items[i].id == worker->id && !self->holds.items[i].is_known) DT_TRY(forget_everywhere(team, &self->holds.items[i]));
    return dispatch(team);
}

dt_status *dt_ps_leasing_lose(dt_ps_team *team, dt_ps_member *worker) {
    if (worker->key <= 0) return NULL;
    dt_ps_leasing_lock(team->leasing);
    dt_status *status = lose_locked(team, worker);
    dt_ps_leasing_unlock(team->leasing);
    return status;
}

int dt_ps_leasing_source(const dt_ps_team *team) {
    dt_ps_leasing_lock(team->leasing);
    int key = team->leasing->current_key;
    dt_ps_leasing_unlock(team->leasing);
    return key;
}

int64_t dt_ps_leasing_way(const dt_ps_team *team, uint64_t *number) {
    dt_ps_leasing_lock(team->leasing);
    int64_t peer = team->leasing->current_peer;
    *number = dt_ps_team_number_for(team, team->leasing->current_id);
    dt_ps_leasing_unlock(team->leasing);
    return peer;
}

/* ---- workers: what they hear and say ---- */

static void hear_terms(struct dt_ps_leasing *self, const dt_ps_terms *said) {
    self->terms = (dt_ps_run_terms){(int64_t)said->seed, (int64_t)said->replicas, (int64_t)said->rows, (int64_t)said->epochs, (int64_t)said->steps};
    self->has_terms = true;
}

static dt_status *hear_lease(struct dt_ps_leasing *self, const dt_ps_grant *said) {
    dt_ps_lease lease = {
        .epoch = (int64_t)said->epoch, .batch = (int64_t)said->batch, .step = (int)said->step, .trains = said->trains, .pulls = said->pulls};
    DT_QUEUE_ADD(self->leases, lease);
    return NULL;
}

static dt_status *hear_variable(struct dt_ps_leasing *self, dt_ps_message *message) {
    DT_QUEUE_ADD(self->variables, *message);
    message->payload = (dt_ps_payload){0};
    return NULL;
}

static dt_status *hear_rows(struct dt_ps_leasing *self, int64_t server, dt_ps_message *message) {
    DT_QUEUE_ADD(self->rows, (dt_ps_lease_letter){server, *message});
    message->payload = (dt_ps_payload){0};
    dt_event_advance(&self->changed);
    return NULL;
}

static dt_status *push_locked(dt_ps_team *team) {
    if (!team->leasing->is_to_push) return NULL;
    team->leasing->is_to_push = false;
    return send_to_servers(team, &(dt_ps_message){.kind = DT_PS_PUSHED, .pushed = team->leasing->pushed});
}

dt_status *dt_ps_leasing_push(dt_ps_team *team) {
    dt_ps_leasing_lock(team->leasing);
    dt_status *status = push_locked(team);
    dt_ps_leasing_unlock(team->leasing);
    return status;
}

void dt_ps_leasing_over(dt_ps_team *team) {
    dt_ps_leasing_lock(team->leasing);
    team->leasing->is_over = true;
    dt_ps_leasing_unlock(team->leasing);
    dt_event_advance(&team->leasing->changed);
}

/* Of any server. */
static dt_status *hear_variables(struct dt_ps_leasing *self, dt_ps_message *message) {
    if (message->kind == DT_PS_VARIABLE) return hear_variable(self, message);
    self->n_pulled++;
    dt_event_advance(&self->changed);
    return NULL;
}

static dt_status *hear_of_server(dt_ps_team *team, dt_ps_message *message) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    switch (message->kind) {
    case DT_PS_TERMS: hear_terms(self, &message->terms); break;
    case DT_PS_GRANT: status = hear_lease(self, &message->grant); break;
    case DT_PS_APPLIED:
        self->epoch = (int64_t)message->applied.epoch;
        self->batch = (int64_t)message->applied.batch;
        break;
    default: return NULL;
    }
    dt_event_advance(&self->changed);
    return status;
}

static void hear_getting_on(dt_ps_member *worker, const dt_ps_getting_on *said) {
    worker->told = dt_seconds_now();
    worker->stood = said->stood;
    strcpy(worker->doing, said->doing);
}

/* ---- both ---- */

static dt_status *hear_locked(dt_ps_team *team, dt_ps_member *from, dt_ps_message *message) {
    bool is_workers = from->part == DT_PS_NOBODY && from->process != DT_PS_NOBODY;
    if (dt_ps_team_is_worker(team) && message->kind == DT_PS_ROWS && from->part >= 0) return hear_rows(team->leasing, from->part, message);
    if (dt_ps_team_is_worker(team) && (message->kind == DT_PS_VARIABLE || message->kind == DT_PS_PULLED) && from->part >= 0)
        return hear_variables(team->leasing, message);
    if (dt_ps_team_is_worker(team)) return from->part == 0 ? hear_of_server(team, message) : NULL;
    if (message->kind == DT_PS_PUSHED && from->part == DT_PS_NOBODY) return hear_pushed(team, from, &message->pushed);
    if (message->kind == DT_PS_PUSHED) return dt_ps_team_leads(team) ? hear_of_push(team, from, &message->pushed) : NULL;
    if (message->kind == DT_PS_ROWS_WANTED) return from->part == DT_PS_NOBODY && from->key > 0 ? hear_rows_wanted(team, from, message) : NULL;
    if (message->kind == DT_PS_PULL) return hear_pull(team, from, message->pull.id);
    if (message->kind == DT_PS_TASK) return from->part == 0 ? hear_task(team, &message->task) : NULL;
    if (!dt_ps_team_leads(team) || !is_workers) return NULL;
    if (message->kind == DT_PS_EXAMPLES) return hear_examples(team, from, message);
    if (message->kind == DT_PS_GETTING_ON) hear_getting_on(from, &message->getting_on);
    return message->kind == DT_PS_ASK ? hear_ask(team, from, &message->ask) : NULL;
}

/* Of the message; that of another plan nobody waits for. */
static bool is_of_plan(const dt_ps_message *message, uint64_t number) {
    switch (message->kind) {
#define KIND(name, NAME)                                                                                                                             \
    case DT_PS_##NAME: return message->name.plan == number;
        KIND(terms, TERMS)
        KIND(ask, ASK)
        KIND(grant, GRANT)
        KIND(pull, PULL)
        KIND(variable, VARIABLE)
        KIND(pulled, PULLED)
        KIND(pushed, PUSHED)
        KIND(task, TASK)
        KIND(applied, APPLIED)
        KIND(rows_wanted, ROWS_WANTED)
        KIND(rows, ROWS)
        KIND(examples, EXAMPLES)
        KIND(getting_on, GETTING_ON)
#undef KIND
    default: return false;
    }
}

dt_status *dt_ps_leasing_hear(dt_ps_team *team, dt_ps_member *from, dt_ps_message *message) {
    if (!is_of_plan(message, dt_ps_team_number_from(team, from))) return NULL;
    dt_ps_leasing_lock(team->leasing);
    dt_status *status = hear_locked(team, from, message);
    dt_ps_leasing_unlock(team->leasing);
    return status;
}

static dt_status *say_letters(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    for (size_t i = 0; i < self->letters.n; i++) {
        dt_ps_lease_letter *one = &self->letters.items[i];
        if (status == NULL)
            status = dt_ps_team_send(team, (uint32_t)one->peer, &one->message);
        else
            dt_ps_payload_release(&one->message.payload);
    }
    self->letters.n = 0;
    return status;
}

/* To workers that do not know them. */
static dt_status *tell_terms(dt_ps_team *team) {
    const dt_ps_run_terms *terms = &team->leasing->terms;
    dt_ps_message message = {.kind = DT_PS_TERMS};
    message.terms = (dt_ps_terms){.seed = (uint64_t)terms->seed,
                                  .replicas = (uint64_t)terms->replicas,
                                  .rows = (uint64_t)terms->rows,
                                  .epochs = (uint64_t)terms->epochs,
                                  .steps = (uint64_t)terms->steps};
    team->leasing->n_untold = 0;
    for (int i = 0; i < team->n_members; i++) {
        dt_ps_member *worker = &team->members[i];
        dt_ps_message copy = message;
        if (worker->part != DT_PS_NOBODY || worker->process == DT_PS_NOBODY || worker->is_told) continue;
        worker->is_told = true;
        copy.terms.plan = dt_ps_team_number_for(team, worker->id);
        DT_TRY(dt_ps_team_send(team, worker->peer, &copy));
    }
    return NULL;
}

dt_status *dt_ps_leasing_progress(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_leasing_lock(self);
    dt_status *status = say_letters(team);
    if (status == NULL && self->has_finished) status = push_locked(team);
    self->has_finished = false;
    if (status == NULL && self->has_terms && self->n_untold > 0) status = tell_terms(team);
    if (status == NULL && self->has_compared) status = take_compared(team);
    if (status == NULL && self->is_to_dispatch) status = dispatch(team);
    if (status == NULL) status = dt_ps_leasing_watch(team);
    dt_ps_leasing_unlock(self);
    return status;
}
