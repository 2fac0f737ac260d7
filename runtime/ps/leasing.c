/* leasing: see the header. First what both threads share, then the transport's thread in servers and in workers, then the other thread's calls. */
#include "runtime/ps/leasing.h"

#include "base/memory.h"
#include "runtime/ps/lease_variables.h"
#include "runtime/ps/team_state.h"
#include "runtime/threads/clock.h"
#include "runtime/threads/event.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const double LOOK_SECONDS = 0.05;  /* between two looks at whether the run still stands */
static const double STOPPING_SECONDS = 2; /* for another worker to come, when the run is to end and all have left */
enum {
    MOST_LEASES = 2,     /* that a worker holds */
    MOST_HELD = 4,       /* that one has pushed, and that are not applied here: it waits until server 0 has ordered each */
    MOST_TASKS = 1 << 14 /* that wait */
};

/* What a worker has pushed: that it is here, and to server 0 in how many other servers. */
typedef struct hold {
    uint64_t id;     /* of the worker */
    int64_t peer;    /* its; -1: it has not pushed here yet */
    int key;         /* then: of what it has sent, in the mailbox */
    uint32_t worker; /* in the book */
    int64_t epoch, batch, rows;
    int n_others;
    bool is_known; /* to the book */
} hold;

/* What a server is to do next. */
typedef struct task {
    enum {
        APPLY,
        END,
        GIVE,     /* the variables to a worker */
        GIVE_ROWS /* that it names */
    } what;
    int key;
    int64_t peer;
    uint64_t id; /* of the worker */
    dt_ps_order order;
    dt_ps_message asked; /* GIVE_ROWS: which; its payload is the task's */
} task;

/* A worker that wants the variables, and how many servers have heard so. */
typedef struct pull {
    uint64_t id;
    int n_servers;
} pull;

typedef struct letter {
    int64_t peer;
    dt_ps_message message;
} letter;

/* An array that grows. */
#define QUEUE(type)                                                                                                                                  \
    struct {                                                                                                                                         \
        type *items;                                                                                                                                 \
        size_t n, capacity;                                                                                                                          \
    }

struct dt_ps_leasing {
    pthread_mutex_t lock;  /* of all that follows, but what is the transport's thread's own */
    dt_event changed;      /* for the thread that runs the training */
    QUEUE(letter) letters; /* that the transport's thread is to send */
    dt_ps_run_terms terms;
    bool has_terms;

    /* servers */
    dt_ps_leases *book; /* of server 0 */
    int n_untold;       /* workers that do not know the terms */
    QUEUE(task) tasks;
    QUEUE(task) waiting;          /* GIVE_ROWS, until a lease of the worker's is applied here */
    bool is_open, is_to_dispatch; /* of server 0: a range; what it can say to workers may have changed */
    int n_workers;                /* there */
    double deserted_since;        /* when there was none any more */
    int current_key;              /* of the worker whose lease is applied: of what it has sent, */
    int64_t current_peer;         /* and to whom the variables go; -1: to nobody */
    uint64_t current_id;          /* who it is */
    int trained;                  /* its step, of which it has not got all variables yet; -1: it has */
    int step;                     /* of the range, where it trains; else -1 */
    /* the transport's thread's own */
    QUEUE(hold) holds;
    QUEUE(uint32_t) askers;
    QUEUE(pull) pulls; /* of server 0 */
    int last_key;

    /* workers */
    QUEUE(dt_ps_lease) leases;
    QUEUE(dt_ps_message) variables;
    QUEUE(letter) rows; /* from whom */
    int n_pulled;       /* servers that have given all of theirs */
    bool is_over, is_to_push, has_finished;
    dt_ps_pushed pushed;  /* what is said when a lease has been sent */
    int64_t epoch, batch; /* applied last */
};

/* ---- queues ---- */

static dt_status *make_room(void **items, size_t item_bytes, size_t n, size_t *capacity) {
    if (n < *capacity) return NULL;
    void *grown = dt_reallocate(*items, item_bytes * (2 * n + 16));
    if (grown == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu messages", n);
    *items = grown;
    *capacity = 2 * n + 16;
    return NULL;
}

#define ADD(queue, ...)                                                                                                                              \
    do {                                                                                                                                             \
        DT_TRY(make_room((void **)&(queue).items, sizeof *(queue).items, (queue).n, &(queue).capacity));                                             \
        (queue).items[(queue).n++] = (__VA_ARGS__);                                                                                                  \
    } while (0)
#define REMOVE(queue, i) memmove(&(queue).items[i], &(queue).items[(i) + 1], (--(queue).n - (size_t)(i)) * sizeof *(queue).items)

static void lock(struct dt_ps_leasing *self) { pthread_mutex_lock(&self->lock); }
static void unlock(struct dt_ps_leasing *self) { pthread_mutex_unlock(&self->lock); }

/* For the transport's thread, which is woken. The payload is given away. */
static dt_status *post(dt_ps_team *team, int64_t peer, dt_ps_message message) {
    struct dt_ps_leasing *self = team->leasing;
    lock(self);
    dt_status *status = make_room((void **)&self->letters.items, sizeof *self->letters.items, self->letters.n, &self->letters.capacity);
    if (status == NULL)
        self->letters.items[self->letters.n++] = (letter){peer, message};
    else
        dt_ps_payload_release(&message.payload);
    unlock(self);
    dt_ps_socket_wake(team->socket);
    return status;
}

static dt_status *send_to_servers(dt_ps_team *team, const dt_ps_message *message) {
    for (int i = 0; i < team->n_members; i++) {
        dt_ps_message copy = *message;
        if (team->members[i].part != DT_PS_NOBODY) DT_TRY(dt_ps_team_send(team, team->members[i].peer, &copy));
    }
    return NULL;
}

/* ---- creating ---- */

dt_status *dt_ps_leasing_create(dt_ps_team *team) {
    struct dt_ps_leasing *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    pthread_mutexattr_t recursive; /* who is refused is lost on the way */
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&made->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    made->current_peer = made->current_key = made->trained = -1;
    made->deserted_since = dt_seconds_now();
    made->epoch = made->batch = -1;
    team->leasing = made;
    if (!dt_ps_team_leads(team)) return NULL;
    const dt_ps_team_options *options = &team->options;
    return dt_ps_leases_create(&(dt_ps_leases_options){.path = options->ledger, .staleness = options->staleness, .resumes = options->resumes},
                               &made->book);
}

static void clear_messages(struct dt_ps_leasing *self) {
    for (size_t i = 0; i < self->letters.n; i++) dt_ps_payload_release(&self->letters.items[i].message.payload);
    for (size_t i = 0; i < self->variables.n; i++) dt_ps_payload_release(&self->variables.items[i].payload);
    for (size_t i = 0; i < self->rows.n; i++) dt_ps_payload_release(&self->rows.items[i].message.payload);
    for (size_t i = 0; i < self->tasks.n; i++) dt_ps_payload_release(&self->tasks.items[i].asked.payload);
    for (size_t i = 0; i < self->waiting.n; i++) dt_ps_payload_release(&self->waiting.items[i].asked.payload);
    self->letters.n = self->variables.n = self->rows.n = self->tasks.n = self->waiting.n = 0;
}

void dt_ps_leasing_clear(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    lock(self);
    clear_messages(self);
    self->tasks.n = self->holds.n = self->askers.n = self->pulls.n = self->leases.n = 0;
    self->is_open = self->is_to_dispatch = self->is_to_push = self->has_terms = false;
    self->n_pulled = 0;
    self->current_peer = self->current_key = self->trained = -1;
    self->epoch = self->batch = -1;
    for (int i = 0; i < team->n_members && self->book != NULL; i++) {
        dt_ps_member *worker = &team->members[i];
        if (worker->part != DT_PS_NOBODY || worker->process == DT_PS_NOBODY) continue;
        dt_status_free(dt_ps_leases_leave(self->book, worker->number, NULL));
        worker->process = DT_PS_NOBODY; /* it is counted no more: when it offers anew, or is gone, nothing is lost */
    }
    self->n_workers = 0;
    self->deserted_since = dt_seconds_now();
    unlock(self);
}

void dt_ps_leasing_destroy(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    if (self == NULL) return;
    clear_messages(self);
    dt_ps_leases_destroy(self->book);
    dt_release(self->letters.items);
    dt_release(self->tasks.items);
    dt_release(self->waiting.items);
    dt_release(self->holds.items);
    dt_release(self->askers.items);
    dt_release(self->pulls.items);
    dt_release(self->leases.items);
    dt_release(self->variables.items);
    dt_release(self->rows.items);
    pthread_mutex_destroy(&self->lock);
    dt_release(self);
    team->leasing = NULL;
}

/* ---- servers: what has come ---- */

static hold *find_hold(struct dt_ps_leasing *self, uint64_t id, uint64_t epoch, uint64_t batch) {
    for (size_t i = 0; i < self->holds.n; i++) {
        hold *one = &self->holds.items[i];
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

static dt_status *add_task(struct dt_ps_leasing *self, task added) {
    ADD(self->tasks, added);
    dt_event_advance(&self->changed);
    return NULL;
}

static bool has_hold(const struct dt_ps_leasing *self, uint64_t id) {
    for (size_t i = 0; i < self->holds.n; i++)
        if (self->holds.items[i].id == id) return true;
    return false;
}

/* Server 0 may have told a worker that its lease is applied, before it tells this server: rows that the worker then wants are those after it. */
static dt_status *remove_hold(struct dt_ps_leasing *self, const hold *one) {
    uint64_t id = one->id;
    REMOVE(self->holds, one - self->holds.items);
    for (size_t i = 0; i < self->waiting.n && !has_hold(self, id);) {
        task next = self->waiting.items[i];
        if (next.id == id) DT_TRY(add_task(self, next));
        if (next.id == id)
            REMOVE(self->waiting, i);
        else
            i++;
    }
    return NULL;
}

/* A lease that is all here, next. */
static dt_status *apply_here(struct dt_ps_leasing *self, const hold *one) {
    DT_TRY(add_task(self, (task){.what = APPLY, .key = one->key, .peer = one->peer, .id = one->id, .order = {one->batch, one->rows}}));
    return remove_hold(self, one);
}

/* What has come of a lease will never be applied. */
static dt_status *forget_hold(dt_ps_team *team, const hold *one) {
    if (one == NULL) return NULL;
    if (one->peer >= 0) dt_ps_mailbox_forget(&team->mailbox, one->key);
    return remove_hold(team->leasing, one);
}

/* The hold of what a worker pushes, which is made where there is none. */
static dt_status *hold_of(struct dt_ps_leasing *self, const dt_ps_pushed *pushed, hold **found) {
    *found = find_hold(self, pushed->id, pushed->epoch, pushed->batch);
    if (*found != NULL) return NULL;
    ADD(self->holds,
        (hold){.id = pushed->id, .peer = -1, .epoch = (int64_t)pushed->epoch, .batch = (int64_t)pushed->batch, .rows = (int64_t)pushed->rows});
    *found = &self->holds.items[self->holds.n - 1];
    return NULL;
}

/* ---- server 0: who gets what, and what is next ---- */

static dt_status *say_task(dt_ps_team *team, dt_ps_what what, const hold *one) {
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
            REMOVE(self->askers, i);
        else
            i++;
    }
    return NULL;
}

/* The worker's gradients are everywhere: all servers apply them now. */
static dt_status *order_lease(dt_ps_team *team, uint32_t worker, const dt_ps_lease *lease) {
    struct dt_ps_leasing *self = team->leasing;
    const hold *one = NULL;
    for (size_t i = 0; i < self->holds.n; i++)
        if (self->holds.items[i].is_known && self->holds.items[i].worker == worker && self->holds.items[i].batch == lease->batch)
            one = &self->holds.items[i];
    if (one == NULL) return dt_error(DT_INTERNAL, "batch %" PRId64 " is to be applied, and is not here", lease->batch);
    DT_TRY(say_task(team, DT_PS_TASK_APPLY, one));
    dt_ps_message applied = {.kind = DT_PS_APPLIED};
    applied.applied = (dt_ps_applied){.plan = dt_ps_team_number_for(team, one->id), .epoch = (uint64_t)lease->epoch, .batch = (uint64_t)lease->batch};
    DT_TRY(dt_ps_team_send(team, (uint32_t)one->peer, &applied));
    return apply_here(self, one);
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
    if (!self->is_open || !dt_ps_leases_is_over(self->book)) return NULL;
    self->is_open = false;
    DT_TRY(say_task(team, DT_PS_TASK_END, NULL));
    return add_task(self, (task){.what = END});
}

/* Of a worker that has said what cannot be. */
static dt_status *refuse(dt_ps_team *team, const dt_ps_member *worker, dt_status *status) {
    if (dt_status_code(status) != DT_DATA_LOSS) return status;
    dt_status *refused = dt_ps_team_refuse(team, worker->peer, DT_PS_REFUSED_MESSAGE, dt_status_message(status));
    dt_status_free(status);
    return refused;
}

static dt_status *forget_everywhere(dt_ps_team *team, const hold *one) {
    DT_TRY(say_task(team, DT_PS_TASK_FORGET, one));
    return forget_hold(team, one);
}

/* Everywhere: the book is told. */
static dt_status *take_push(dt_ps_team *team, hold *one) {
    bool dropped;
    const dt_ps_member *worker = worker_of_id(team, one->id);
    if (one->peer < 0 || one->n_others < team->options.n_servers - 1 || worker == NULL) return NULL;
    one->worker = worker->number;
    dt_status *status = dt_ps_leases_pushed(team->leasing->book, worker->number, one->epoch, one->batch, &dropped);
    if (status != NULL) return refuse(team, worker, status);
    one->is_known = !dropped;
    return dropped ? forget_everywhere(team, one) : dispatch(team);
}

static dt_status *hear_ask(dt_ps_team *team, const dt_ps_member *worker) {
    int n_asked = 0;
    for (size_t i = 0; i < team->leasing->askers.n; i++) n_asked += team->leasing->askers.items[i] == worker->number;
    if (n_asked == MOST_LEASES) return dt_error(DT_DATA_LOSS, "more leases are asked for than a worker holds");
    ADD(team->leasing->askers, worker->number);
    return dispatch(team);
}

/* How many servers have heard that the worker pulls, with this one. */
static dt_status *count_pull(struct dt_ps_leasing *self, uint64_t id, int *n) {
    size_t i = 0;
    while (i < self->pulls.n && self->pulls.items[i].id != id) i++;
    if (i == self->pulls.n) ADD(self->pulls, (pull){.id = id});
    *n = ++self->pulls.items[i].n_servers;
    return NULL;
}

static void forget_pull(struct dt_ps_leasing *self, uint64_t id) {
    for (size_t i = self->pulls.n; i-- > 0;)
        if (self->pulls.items[i].id == id) REMOVE(self->pulls, i);
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
    DT_TRY(say_task(team, DT_PS_TASK_GIVE, &(hold){.id = id}));
    return add_task(self, (task){.what = GIVE, .peer = worker->peer, .id = id});
}

/* ---- servers: what they hear ---- */

static dt_status *hear_rows_wanted(dt_ps_team *team, const dt_ps_member *worker, dt_ps_message *message) {
    struct dt_ps_leasing *self = team->leasing;
    if (self->tasks.n + self->waiting.n >= MOST_TASKS) return refuse(team, worker, dt_error(DT_DATA_LOSS, "more is asked for than is given"));
    task wanted = {.what = GIVE_ROWS, .peer = worker->peer, .id = worker->id, .asked = *message};
    if (has_hold(self, worker->id))
        ADD(self->waiting, wanted);
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
    hold *one;
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
    hold *one;
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
    const hold *one = find_hold(self, said->id, said->epoch, said->batch);
    const dt_ps_member *worker = worker_of_id(team, said->id);
    switch ((dt_ps_what)said->what) {
    case DT_PS_TASK_END: return add_task(self, (task){.what = END});
    case DT_PS_TASK_FORGET: return forget_hold(team, one);
    case DT_PS_TASK_GIVE: return worker == NULL ? NULL : add_task(self, (task){.what = GIVE, .peer = worker->peer, .id = said->id});
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
    lock(self);
    self->n_untold++;
    dt_status *status = dt_ps_leases_join(self->book, worker->number, dt_ps_peer_name(team->socket, worker->peer));
    self->n_workers++;
    unlock(self);
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
    for (size_t i = self->askers.n; i-- > 0;)
        if (self->askers.items[i] == worker->number) REMOVE(self->askers, i);
    forget_pull(self, worker->id);
    DT_TRY(dt_ps_leases_leave(self->book, worker->number, NULL));
    for (size_t i = self->holds.n; i-- > 0;)
        if (self->holds.items[i].id == worker->id && !self->holds.items[i].is_known) DT_TRY(forget_everywhere(team, &self->holds.items[i]));
    return dispatch(team);
}

dt_status *dt_ps_leasing_lose(dt_ps_team *team, dt_ps_member *worker) {
    if (worker->key <= 0) return NULL;
    lock(team->leasing);
    dt_status *status = lose_locked(team, worker);
    unlock(team->leasing);
    return status;
}

int dt_ps_leasing_source(const dt_ps_team *team) {
    lock(team->leasing);
    int key = team->leasing->current_key;
    unlock(team->leasing);
    return key;
}

int64_t dt_ps_leasing_way(const dt_ps_team *team, uint64_t *number) {
    lock(team->leasing);
    int64_t peer = team->leasing->current_peer;
    *number = dt_ps_team_number_for(team, team->leasing->current_id);
    unlock(team->leasing);
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
    ADD(self->leases, lease);
    return NULL;
}

static dt_status *hear_variable(struct dt_ps_leasing *self, dt_ps_message *message) {
    ADD(self->variables, *message);
    message->payload = (dt_ps_payload){0};
    return NULL;
}

static dt_status *hear_rows(struct dt_ps_leasing *self, int64_t server, dt_ps_message *message) {
    ADD(self->rows, (letter){server, *message});
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
    lock(team->leasing);
    dt_status *status = push_locked(team);
    unlock(team->leasing);
    return status;
}

void dt_ps_leasing_over(dt_ps_team *team) {
    lock(team->leasing);
    team->leasing->is_over = true;
    unlock(team->leasing);
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
    return message->kind == DT_PS_ASK ? hear_ask(team, from) : NULL;
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
#undef KIND
    default: return false;
    }
}

dt_status *dt_ps_leasing_hear(dt_ps_team *team, dt_ps_member *from, dt_ps_message *message) {
    if (!is_of_plan(message, dt_ps_team_number_from(team, from))) return NULL;
    lock(team->leasing);
    dt_status *status = hear_locked(team, from, message);
    unlock(team->leasing);
    return status;
}

static dt_status *say_letters(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    for (size_t i = 0; i < self->letters.n; i++) {
        letter *one = &self->letters.items[i];
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
    lock(self);
    dt_status *status = say_letters(team);
    if (status == NULL && self->has_finished) status = push_locked(team);
    self->has_finished = false;
    if (status == NULL && self->has_terms && self->n_untold > 0) status = tell_terms(team);
    if (status == NULL && self->is_to_dispatch) status = dispatch(team);
    unlock(self);
    return status;
}

/* ---- the thread that runs the training ---- */

/* Whoever is waited for may be gone: the run's status is looked at. The lock is held, on return too. */
static dt_status *wait_for_change(struct dt_ps_leasing *self, dt_processes *processes, uint32_t seen) {
    unlock(self);
    dt_status *status = dt_processes_status(processes);
    if (status == NULL) dt_event_wait(&self->changed, seen, false, dt_seconds_now() + LOOK_SECONDS);
    lock(self);
    return status;
}

dt_status *dt_ps_leasing_open(dt_ps_team *team, int step, bool trains, int64_t epoch, int64_t first, int64_t end, int64_t version) {
    struct dt_ps_leasing *self = team->leasing;
    if (self->book == NULL) return NULL;
    lock(self);
    dt_status *status = dt_ps_leases_open(self->book, step, trains, epoch, first, end, version);
    self->step = trains ? step : -1;
    self->is_open = status == NULL;
    self->is_to_dispatch = true;
    unlock(self);
    dt_ps_socket_wake(team->socket);
    return status;
}

void dt_ps_leasing_agree(dt_ps_team *team, const dt_ps_run_terms *terms) {
    struct dt_ps_leasing *self = team->leasing;
    lock(self);
    self->terms = *terms;
    self->has_terms = true;
    unlock(self);
}

static void release_payload(void *owner) { dt_release(owner); }

typedef struct recipient {
    dt_ps_team *team;
    int64_t peer;
} recipient;

static dt_status *post_to(void *context, dt_ps_message message) {
    const recipient *to = context;
    return post(to->team, to->peer, message);
}

/* step: of whose lease the rest is given; -1: all that workers have. */
static dt_status *give(dt_ps_team *team, dt_session *session, const task *to, int step) {
    recipient worker = {team, to->peer};
    dt_ps_giving giving = {
        .leads = dt_ps_team_leads(team), .step = step, .plan = dt_ps_team_number_for(team, to->id), .post = post_to, .context = &worker};
    return dt_ps_give_variables(session, &giving);
}

/* A worker that asks for what is not here is refused. The task's payload is released. */
static dt_status *give_rows(dt_ps_team *team, dt_session *session, task *asked) {
    const dt_ps_payload *which = &asked->asked.payload;
    dt_ps_message message = {.kind = DT_PS_ROWS,
                             .rows = {.plan = dt_ps_team_number_for(team, asked->id), .variable = asked->asked.rows_wanted.variable}};
    int64_t n = (int64_t)(which->bytes / sizeof(int64_t)), *rows = dt_allocate(which->bytes + 1);
    char *values = NULL;
    size_t bytes = 0;
    if (rows != NULL && n > 0) memcpy(rows, which->data, (size_t)n * sizeof *rows);
    dt_status *status = rows == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory")
                                     : dt_session_take_rows(session, (int)message.rows.variable, rows, n, &values, &bytes);
    dt_release(rows);
    dt_ps_payload_release(&asked->asked.payload);
    if (status != NULL && dt_status_code(status) != DT_DATA_LOSS) return status;
    if (status != NULL) message = dt_ps_team_refusal(status);
    dt_status_free(status);
    if (values != NULL) message.payload = (dt_ps_payload){.data = values, .bytes = bytes, .release = release_payload, .owner = values};
    return post(team, asked->peer, message);
}

/* Only batches that are leased will be applied. */
static void end_leasing(dt_ps_team *team) {
    if (team->leasing->book == NULL) return;
    dt_ps_leases_end(team->leasing->book);
    team->leasing->is_to_dispatch = true;
    dt_ps_socket_wake(team->socket);
}

/* Server 0, which waits: whether nobody is there who computes, and will be. What the last ones have left undone when the run is to end, nobody does:
 * the newest checkpoint is where it goes on. */
static dt_status *look_for_workers(const dt_ps_team *team, bool is_to_end) {
    const struct dt_ps_leasing *self = team->leasing;
    double deadline = team->options.deadline_seconds, deserted = dt_seconds_now() - self->deserted_since;
    if (self->book == NULL || self->n_workers > 0 || self->tasks.n > 0) return NULL;
    if (is_to_end && deserted > STOPPING_SECONDS)
        return dt_error(DT_ABORTED, "no worker is left to compute what was leased: the run goes on from its newest checkpoint");
    return deserted > deadline ? dt_error(DT_FAILED_PRECONDITION, "no worker has been there for %.3g s", deadline) : NULL;
}

/* Takes what is to be done next. */
static dt_status *take_task(dt_ps_team *team, dt_processes *processes, const atomic_int *stop, task *next) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    bool has_ended = false;
    lock(self);
    while (self->tasks.n == 0 && status == NULL) {
        if (atomic_load(stop) != 0 && !has_ended) end_leasing(team);
        has_ended = atomic_load(stop) != 0;
        status = wait_for_change(self, processes, dt_event_value(&self->changed));
        if (status == NULL) status = look_for_workers(team, has_ended);
    }
    if (status == NULL) {
        *next = self->tasks.items[0];
        REMOVE(self->tasks, 0);
        self->current_key = next->what == APPLY ? next->key : -1;
        self->current_peer = next->what == APPLY ? next->peer : -1;
        self->current_id = next->id;
        self->trained = next->what == APPLY && next->order.rows > 0 && self->book != NULL ? self->step : -1;
    }
    unlock(self);
    return status;
}

/* Server 0: the worker whose lease has been applied gets what it has no part in. */
static dt_status *end_lease(dt_ps_team *team, dt_session *session) {
    struct dt_ps_leasing *self = team->leasing;
    lock(self);
    int step = self->trained;
    task to = {.peer = self->current_peer, .id = self->current_id};
    self->trained = -1;
    unlock(self);
    return step >= 0 ? give(team, session, &to, step) : NULL;
}

dt_status *dt_ps_leasing_next(dt_ps_team *team, dt_session *session, dt_processes *processes, const atomic_int *stop, dt_ps_order *order, bool *any) {
    task next;
    dt_progress *progress = dt_processes_progress(processes);
    dt_progress_set(progress, DT_ACTIVITY_WAITING);
    DT_TRY(end_lease(team, session));
    do {
        DT_TRY(take_task(team, processes, stop, &next));
        if (next.what == GIVE) DT_TRY(give(team, session, &next, -1));
        if (next.what == GIVE_ROWS) DT_TRY(give_rows(team, session, &next));
    } while (next.what == GIVE || next.what == GIVE_ROWS);
    dt_progress_set(progress, DT_ACTIVITY_COMPUTING);
    *any = next.what == APPLY;
    *order = next.order;
    return NULL;
}

const dt_ps_leases *dt_ps_leasing_take_book(dt_ps_team *team) {
    lock(team->leasing);
    return team->leasing->book;
}

void dt_ps_leasing_return_book(dt_ps_team *team) { unlock(team->leasing); }

dt_status *dt_ps_leasing_sync(dt_ps_team *team) {
    if (team->leasing->book == NULL) return NULL;
    lock(team->leasing);
    dt_status *status = dt_ps_leases_sync(team->leasing->book);
    unlock(team->leasing);
    return status;
}

dt_status *dt_ps_leasing_find_terms(dt_ps_team *team, dt_processes *processes, dt_ps_run_terms *terms) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    lock(self);
    while (!self->has_terms && status == NULL) status = wait_for_change(self, processes, dt_event_value(&self->changed));
    *terms = self->terms;
    unlock(self);
    return status;
}

dt_status *dt_ps_leasing_ask(dt_ps_team *team) { return post(team, 0, (dt_ps_message){.kind = DT_PS_ASK, .ask = {.plan = team->plan.number}}); }

dt_status *dt_ps_leasing_take(dt_ps_team *team, dt_processes *processes, const atomic_int *stop, bool waits, dt_ps_lease *lease, bool *any) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    lock(self);
    while (waits && self->leases.n == 0 && !self->is_over && atomic_load(stop) == 0 && status == NULL)
        status = wait_for_change(self, processes, dt_event_value(&self->changed));
    *any = status == NULL && self->leases.n > 0 && atomic_load(stop) == 0;
    if (*any) {
        *lease = self->leases.items[0];
        REMOVE(self->leases, 0);
    }
    unlock(self);
    return status;
}

/* Waits for what so many servers give. */
static dt_status *take_variables(struct dt_ps_leasing *self, dt_session *session, dt_processes *processes, int n_servers) {
    dt_status *status = NULL;
    while (self->n_pulled < n_servers && !self->is_over && status == NULL) status = wait_for_change(self, processes, dt_event_value(&self->changed));
    if (status == NULL && self->n_pulled == n_servers) status = dt_ps_set_variables(session, self->variables.items, self->variables.n);
    for (size_t i = 0; i < self->variables.n; i++) dt_ps_payload_release(&self->variables.items[i].payload);
    self->variables.n = 0;
    self->n_pulled = 0;
    return status;
}

dt_status *dt_ps_leasing_pull(dt_ps_team *team, dt_session *session, dt_processes *processes) {
    struct dt_ps_leasing *self = team->leasing;
    int n_servers = team->options.n_servers; /* the first peers of a worker */
    for (int server = 0; server < n_servers; server++)
        DT_TRY(post(team, server, (dt_ps_message){.kind = DT_PS_PULL, .pull = {.plan = team->plan.number, .id = team->id}}));
    lock(self);
    dt_status *status = take_variables(self, session, processes, n_servers);
    unlock(self);
    return status;
}

static dt_status *want_rows(dt_ps_team *team, const dt_row_request *request) {
    size_t bytes = (size_t)request->n * sizeof *request->rows;
    char *rows = dt_allocate(bytes);
    if (rows == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    memcpy(rows, request->rows, bytes);
    dt_ps_message message = {.kind = DT_PS_ROWS_WANTED, .payload = {.data = rows, .bytes = bytes, .release = release_payload, .owner = rows}};
    message.rows_wanted = (dt_ps_rows_wanted){.plan = team->plan.number, .variable = (uint32_t)request->table};
    return post(team, request->process, message); /* the first peers of a worker are the servers */
}

/* What a server says first, of those to whom so much is said; the lock is held. */
static letter *first_rows_of(struct dt_ps_leasing *self, int server) {
    for (size_t i = 0; i < self->rows.n; i++)
        if (self->rows.items[i].peer == server) return &self->rows.items[i];
    return NULL;
}

/* Each server answers in the order of asking. */
static dt_status *take_rows(struct dt_ps_leasing *self, dt_processes *processes, const dt_row_request *request) {
    dt_status *status = NULL;
    letter *one = first_rows_of(self, request->process);
    while (one == NULL && !self->is_over && status == NULL) {
        status = wait_for_change(self, processes, dt_event_value(&self->changed));
        one = first_rows_of(self, request->process);
    }
    if (status != NULL) return status;
    if (one == NULL) return dt_error(DT_ABORTED, "the run is over");
    dt_ps_payload *payload = &one->message.payload;
    bool fits = one->message.rows.variable == (uint32_t)request->table && payload->bytes == request->bytes;
    if (fits) memcpy(request->values, payload->data, payload->bytes);
    dt_ps_payload_release(payload);
    REMOVE(self->rows, one - self->rows.items);
    return fits ? NULL : dt_error(DT_DATA_LOSS, "server %d gave other rows than were asked for", request->process);
}

dt_status *dt_ps_leasing_fetch_rows(void *rows_from, const dt_row_request *requests, int n) {
    const dt_ps_rows_from *from = rows_from;
    dt_status *status = NULL;
    for (int i = 0; i < n; i++) DT_TRY(want_rows(from->team, &requests[i]));
    lock(from->team->leasing);
    for (int i = 0; i < n && status == NULL; i++) status = take_rows(from->team->leasing, from->processes, &requests[i]);
    unlock(from->team->leasing);
    return status;
}

void dt_ps_leasing_begin(dt_ps_team *team, const dt_ps_lease *lease, int64_t rows) {
    struct dt_ps_leasing *self = team->leasing;
    lock(self);
    self->is_to_push = true;
    self->has_finished = false; /* the lease before; nobody may have looked since */
    self->pushed = (dt_ps_pushed){
        .plan = team->plan.number, .id = team->id, .epoch = (uint64_t)lease->epoch, .batch = (uint64_t)lease->batch, .rows = (uint64_t)rows};
    unlock(self);
}

dt_status *dt_ps_leasing_finish(dt_ps_team *team, dt_session *session, dt_processes *processes, const dt_ps_lease *lease, int64_t rows) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    lock(self);
    self->has_finished = true;
    dt_ps_socket_wake(team->socket);
    while ((self->epoch != lease->epoch || self->batch != lease->batch) && !self->is_over && status == NULL)
        status = wait_for_change(self, processes, dt_event_value(&self->changed));
    self->epoch = self->batch = -1;
    if (status == NULL && lease->trains && rows > 0) status = take_variables(self, session, processes, 1);
    unlock(self);
    return status;
}
