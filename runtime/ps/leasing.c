/* leasing: see the header. Creating, and the calls of the thread that runs the training: in servers, then in workers. */
#include "runtime/ps/lease_variables.h"
#include "runtime/ps/leasing_state.h"
#include "runtime/threads/clock.h"

static const double LOOK_SECONDS = 0.05;  /* between two looks at whether the run still stands */
static const double STOPPING_SECONDS = 2; /* for another worker to come, when the run is to end and all have left */

/* ---- queues ---- */

dt_status *dt_ps_leasing_make_room(void **items, size_t item_bytes, size_t n, size_t *capacity) {
    if (n < *capacity) return NULL;
    void *grown = dt_reallocate(*items, item_bytes * (2 * n + 16));
    if (grown == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu messages", n);
    *items = grown;
    *capacity = 2 * n + 16;
    return NULL;
}

/* For the transport's thread, which is woken. The payload is given away. */
static dt_status *post(dt_ps_team *team, int64_t peer, dt_ps_message message) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_leasing_lock(self);
    dt_status *status = dt_ps_leasing_make_room((void **)&self->letters.items, sizeof *self->letters.items, self->letters.n, &self->letters.capacity);
    if (status == NULL)
        self->letters.items[self->letters.n++] = (dt_ps_lease_letter){peer, message};
    else
        dt_ps_payload_release(&message.payload);
    dt_ps_leasing_unlock(self);
    dt_ps_socket_wake(team->socket);
    return status;
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
    self->compared.n = self->refused.n = 0;
    self->letters.n = self->variables.n = self->rows.n = self->tasks.n = self->waiting.n = 0;
}

void dt_ps_leasing_clear(dt_ps_team *team) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_leasing_lock(self);
    clear_messages(self);
    self->tasks.n = self->holds.n = self->askers.n = self->pulls.n = self->leases.n = 0;
    self->is_open = self->is_to_dispatch = self->is_to_push = self->has_terms = false;
    self->n_pulled = 0;
    self->n_ignored = 0;
    self->current_peer = self->current_key = self->trained = -1;
    self->epoch = self->batch = -1;
    self->progress = NULL;
    for (int i = 0; i < team->n_members && self->book != NULL; i++) {
        dt_ps_member *worker = &team->members[i];
        if (worker->part != DT_PS_NOBODY || worker->process == DT_PS_NOBODY) continue;
        dt_status_free(dt_ps_leases_leave(self->book, worker->number, NULL));
        worker->process = DT_PS_NOBODY; /* it is counted no more: when it offers anew, or is gone, nothing is lost */
    }
    self->n_workers = 0;
    self->deserted_since = dt_seconds_now();
    dt_ps_leasing_unlock(self);
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
    dt_release(self->compared.items);
    dt_release(self->refused.items);
    pthread_mutex_destroy(&self->lock);
    dt_release(self);
    team->leasing = NULL;
}

/* ---- servers ---- */

/* Whoever is waited for may be gone: the run's status is looked at. The lock is held, on return too. */
static dt_status *wait_for_change(struct dt_ps_leasing *self, dt_processes *processes, uint32_t seen) {
    dt_ps_leasing_unlock(self);
    dt_status *status = dt_processes_status(processes);
    if (status == NULL) dt_event_wait(&self->changed, seen, false, dt_seconds_now() + LOOK_SECONDS);
    dt_ps_leasing_lock(self);
    return status;
}

dt_status *dt_ps_leasing_open(dt_ps_team *team, int step, bool trains, int64_t epoch, int64_t first, int64_t end, int64_t version) {
    struct dt_ps_leasing *self = team->leasing;
    if (self->book == NULL) return NULL;
    dt_ps_leasing_lock(self);
    dt_status *status = dt_ps_leases_open(self->book, step, trains, epoch, first, end, version);
    self->step = trains ? step : -1;
    self->is_open = status == NULL;
    self->is_to_dispatch = true;
    dt_ps_leasing_unlock(self);
    dt_ps_socket_wake(team->socket);
    return status;
}

void dt_ps_leasing_agree(dt_ps_team *team, const dt_ps_run_terms *terms, const dt_ps_examples_check *check) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_leasing_lock(self);
    self->terms = *terms;
    self->check = *check;
    self->has_terms = true;
    dt_ps_leasing_unlock(self);
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
static dt_status *give(dt_ps_team *team, dt_session *session, const dt_ps_lease_task *to, int step) {
    recipient worker = {team, to->peer};
    dt_ps_giving giving = {
        .leads = dt_ps_team_leads(team), .step = step, .plan = dt_ps_team_number_for(team, to->id), .post = post_to, .context = &worker};
    return dt_ps_give_variables(session, &giving);
}

/* A worker that asks for what is not here is refused. The task's payload is released. */
static dt_status *give_rows(dt_ps_team *team, dt_session *session, dt_ps_lease_task *asked) {
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

static dt_status *note_compared(dt_ps_team *team, const dt_ps_lease_task *asked, bool is_same) {
    struct dt_ps_leasing *self = team->leasing;
    const dt_ps_examples *said = &asked->asked.examples;
    if (!is_same)
        DT_QUEUE_ADD(self->refused, asked->id);
    else
        DT_QUEUE_ADD(self->compared, (dt_ps_lease_compared){asked->id, (int64_t)said->epoch, (int64_t)said->batch});
    self->has_compared = true;
    return NULL;
}

/* A worker that has read something else is refused. The task's payload is released. */
static dt_status *compare(dt_ps_team *team, dt_ps_lease_task *asked) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_payload *words = &asked->asked.payload;
    dt_text what = {0};
    dt_status *status = self->check.compare(self->check.context, &asked->asked.examples, words->data, words->bytes / sizeof(uint64_t), &what);
    dt_ps_payload_release(words);
    if (status == NULL && what.n > 0) status = dt_error(DT_DATA_LOSS, "%s", what.data);
    dt_text_free(&what);
    if (status != NULL && dt_status_code(status) != DT_DATA_LOSS) return status;
    dt_ps_leasing_lock(self);
    dt_status *noted = note_compared(team, asked, status == NULL);
    dt_ps_leasing_unlock(self);
    dt_ps_socket_wake(team->socket);
    if (noted == NULL && status != NULL) noted = post(team, asked->peer, dt_ps_team_refusal(status));
    dt_status_free(status);
    return noted;
}

/* What a worker says of its lease, unless it has read something else for it. */
static dt_status *take_wrong(dt_ps_team *team, const dt_ps_lease_task *said) {
    struct dt_ps_leasing *self = team->leasing;
    bool is_refused = false;
    dt_ps_leasing_lock(self);
    for (size_t i = 0; i < self->refused.n; i++) is_refused = is_refused || self->refused.items[i] == said->id;
    dt_ps_leasing_unlock(self);
    return is_refused ? NULL : dt_error(DT_OUT_OF_RANGE, "%s", said->asked.wrong.reason);
}

/* A task that is no step of the run's. */
static dt_status *do_beside(dt_ps_team *team, dt_session *session, dt_ps_lease_task *next) {
    switch (next->what) {
    case DT_PS_LEASE_GIVE: return give(team, session, next, -1);
    case DT_PS_LEASE_GIVE_ROWS: return give_rows(team, session, next);
    case DT_PS_LEASE_COMPARE: return compare(team, next);
    case DT_PS_LEASE_WRONG: return take_wrong(team, next);
    default: return NULL;
    }
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
static dt_status *take_task(dt_ps_team *team, dt_processes *processes, const atomic_int *stop, dt_ps_lease_task *next) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    bool has_ended = false;
    dt_ps_leasing_lock(self);
    while (self->tasks.n == 0 && status == NULL) {
        if (atomic_load(stop) != 0 && !has_ended) end_leasing(team);
        has_ended = atomic_load(stop) != 0;
        status = wait_for_change(self, processes, dt_event_value(&self->changed));
        if (status == NULL) status = look_for_workers(team, has_ended);
    }
    if (status == NULL) {
        *next = self->tasks.items[0];
        DT_QUEUE_REMOVE(self->tasks, 0);
        self->current_key = next->what == DT_PS_LEASE_APPLY ? next->key : -1;
        self->current_peer = next->what == DT_PS_LEASE_APPLY ? next->peer : -1;
        self->current_id = next->id;
        self->trained = next->what == DT_PS_LEASE_APPLY && next->order.rows > 0 && self->book != NULL ? self->step : -1;
    }
    dt_ps_leasing_unlock(self);
    return status;
}

/* Server 0: the worker whose lease has been applied gets what it has no part in. */
static dt_status *end_lease(dt_ps_team *team, dt_session *session) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_leasing_lock(self);
    int step = self->trained;
    dt_ps_lease_task to = {.peer = self->current_peer, .id = self->current_id};
    self->trained = -1;
    dt_ps_leasing_unlock(self);
    return step >= 0 ? give(team, session, &to, step) : NULL;
}

dt_status *dt_ps_leasing_next(dt_ps_team *team, dt_session *session, dt_processes *processes, const atomic_int *stop, dt_ps_order *order, bool *any) {
    dt_ps_lease_task next;
    dt_progress *progress = dt_processes_progress(processes);
    dt_progress_set(progress, DT_ACTIVITY_WAITING);
    DT_TRY(end_lease(team, session));
    do {
        DT_TRY(take_task(team, processes, stop, &next));
        DT_TRY(do_beside(team, session, &next));
    } while (next.what != DT_PS_LEASE_APPLY && next.what != DT_PS_LEASE_END);
    dt_progress_set(progress, DT_ACTIVITY_COMPUTING);
    *any = next.what == DT_PS_LEASE_APPLY;
    *order = next.order;
    return NULL;
}

void dt_ps_leasing_outdate(dt_ps_team *team) {
    dt_ps_leasing_lock(team->leasing);
    if (team->leasing->book != NULL) dt_ps_leases_outdate(team->leasing->book);
    dt_ps_leasing_unlock(team->leasing);
}

int64_t dt_ps_leasing_take_ignored(dt_ps_team *team) {
    dt_ps_leasing_lock(team->leasing);
    int64_t n = team->leasing->n_ignored;
    team->leasing->n_ignored = 0;
    dt_ps_leasing_unlock(team->leasing);
    return n;
}

const dt_ps_leases *dt_ps_leasing_take_book(dt_ps_team *team) {
    dt_ps_leasing_lock(team->leasing);
    return team->leasing->book;
}

void dt_ps_leasing_return_book(dt_ps_team *team) { dt_ps_leasing_unlock(team->leasing); }

dt_status *dt_ps_leasing_sync(dt_ps_team *team) { return team->leasing->book != NULL ? dt_ps_leases_sync(team->leasing->book) : NULL; }

/* ---- workers ---- */

/* That is no fault of the worker's, which gets on as long as it looks. */
static dt_status *wait_for_servers(struct dt_ps_leasing *self, dt_processes *processes) {
    dt_progress *progress = dt_processes_progress(processes);
    int activity = atomic_load(&progress->activity);
    dt_progress_set(progress, DT_ACTIVITY_WAITING);
    dt_status *status = wait_for_change(self, processes, dt_event_value(&self->changed));
    dt_progress_set(progress, (dt_activity)activity);
    return status;
}

dt_status *dt_ps_leasing_find_terms(dt_ps_team *team, dt_processes *processes, dt_ps_run_terms *terms) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    dt_ps_leasing_lock(self);
    self->progress = dt_processes_progress(processes);
    while (!self->has_terms && status == NULL) status = wait_for_change(self, processes, dt_event_value(&self->changed));
    *terms = self->terms;
    dt_ps_leasing_unlock(self);
    return status;
}

dt_status *dt_ps_leasing_ask(dt_ps_team *team, bool finished, int64_t n_ignored) {
    uint32_t ignored = n_ignored < UINT32_MAX ? (uint32_t)n_ignored : UINT32_MAX;
    return post(team, 0, (dt_ps_message){.kind = DT_PS_ASK, .ask = {.plan = team->plan.number, .finished = finished, .ignored = ignored}});
}

dt_status *dt_ps_leasing_take(dt_ps_team *team, dt_processes *processes, const atomic_int *stop, bool waits, dt_ps_lease *lease, bool *any) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    dt_ps_leasing_lock(self);
    while (waits && self->leases.n == 0 && !self->is_over && atomic_load(stop) == 0 && status == NULL) status = wait_for_servers(self, processes);
    *any = status == NULL && self->leases.n > 0 && atomic_load(stop) == 0;
    if (*any) {
        *lease = self->leases.items[0];
        DT_QUEUE_REMOVE(self->leases, 0);
    }
    dt_ps_leasing_unlock(self);
    return status;
}

/* Waits for what so many servers give. */
static dt_status *take_variables(struct dt_ps_leasing *self, dt_session *session, dt_processes *processes, int n_servers) {
    dt_status *status = NULL;
    while (self->n_pulled < n_servers && !self->is_over && status == NULL) status = wait_for_servers(self, processes);
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
    dt_ps_leasing_lock(self);
    dt_status *status = take_variables(self, session, processes, n_servers);
    dt_ps_leasing_unlock(self);
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
static dt_ps_lease_letter *first_rows_of(struct dt_ps_leasing *self, int server) {
    for (size_t i = 0; i < self->rows.n; i++)
        if (self->rows.items[i].peer == server) return &self->rows.items[i];
    return NULL;
}

/* Each server answers in the order of asking. */
static dt_status *take_rows(struct dt_ps_leasing *self, dt_processes *processes, const dt_row_request *request) {
    dt_status *status = NULL;
    dt_ps_lease_letter *one = first_rows_of(self, request->process);
    while (one == NULL && !self->is_over && status == NULL) {
        status = wait_for_servers(self, processes);
        one = first_rows_of(self, request->process);
    }
    if (status != NULL) return status;
    if (one == NULL) return dt_error(DT_ABORTED, "the run is over");
    dt_ps_payload *payload = &one->message.payload;
    bool fits = one->message.rows.variable == (uint32_t)request->table && payload->bytes == request->bytes;
    if (fits) memcpy(request->values, payload->data, payload->bytes);
    dt_ps_payload_release(payload);
    DT_QUEUE_REMOVE(self->rows, one - self->rows.items);
    return fits ? NULL : dt_error(DT_DATA_LOSS, "server %d gave other rows than were asked for", request->process);
}

dt_status *dt_ps_leasing_fetch_rows(void *rows_from, const dt_row_request *requests, int n) {
    const dt_ps_rows_from *from = rows_from;
    dt_status *status = NULL;
    for (int i = 0; i < n; i++) DT_TRY(want_rows(from->team, &requests[i]));
    dt_ps_leasing_lock(from->team->leasing);
    for (int i = 0; i < n && status == NULL; i++) status = take_rows(from->team->leasing, from->processes, &requests[i]);
    dt_ps_leasing_unlock(from->team->leasing);
    return status;
}

dt_status *dt_ps_leasing_tell(dt_ps_team *team, dt_ps_examples examples, uint64_t *words, size_t n) {
    examples.plan = team->plan.number;
    dt_ps_message message = {.kind = DT_PS_EXAMPLES, .examples = examples};
    message.payload = (dt_ps_payload){.data = words, .bytes = n * sizeof *words, .release = release_payload, .owner = words};
    return post(team, 0, message);
}

void dt_ps_leasing_begin(dt_ps_team *team, const dt_ps_lease *lease, int64_t rows) {
    struct dt_ps_leasing *self = team->leasing;
    dt_ps_leasing_lock(self);
    self->is_to_push = true;
    self->has_finished = false; /* the lease before; nobody may have looked since */
    self->pushed = (dt_ps_pushed){
        .plan = team->plan.number, .id = team->id, .epoch = (uint64_t)lease->epoch, .batch = (uint64_t)lease->batch, .rows = (uint64_t)rows};
    dt_ps_leasing_unlock(self);
}

dt_status *dt_ps_leasing_finish(dt_ps_team *team, dt_session *session, dt_processes *processes, const dt_ps_lease *lease, int64_t rows) {
    struct dt_ps_leasing *self = team->leasing;
    dt_status *status = NULL;
    dt_ps_leasing_lock(self);
    self->has_finished = true;
    dt_ps_socket_wake(team->socket);
    while ((self->epoch != lease->epoch || self->batch != lease->batch) && !self->is_over && status == NULL)
        status = wait_for_servers(self, processes);
    self->epoch = self->batch = -1;
    if (status == NULL && lease->trains && rows > 0) status = take_variables(self, session, processes, 1);
    dt_ps_leasing_unlock(self);
    return status;
}
