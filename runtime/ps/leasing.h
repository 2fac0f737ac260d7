/* leasing: asynchronous training with parameter servers. Each worker computes one lease (leases.h) after the other at its own pace, and may come or
 * go at any time; the servers apply what it gives in one order, which server 0 makes.
 *
 * Each lease is a step of S servers and one worker, as if there were no other: the worker's session exchanges with all servers as process S, and a
 * server's session with whichever worker's lease it applies. A worker sends all that its lease gives without waiting, and says so to every server;
 * when all of it is everywhere, server 0 may order it, and then no server waits for the worker any more. So a worker that is lost holds nobody up:
 * what it has not sent is leased again. It gets the variables as they are after its lease: what servers share out of the update with the end of its
 * step, the rest (lease_steps.h) from server 0. Where it begins, and where it is to catch up, it gets all of them, of one version: every server gives
 * what it has at the same place in the order.
 *
 * A worker that has a lease and does not get on with it for as long as the deadline, as its progress (threads/progress.h) shows, loses it: its
 * connection is ended, others get its leases, and whatever it still sends nobody takes. It may come again.
 *
 *     worker   → server 0           ask; examples, before it computes
 *     worker   → server 0           getting on
 *     worker   → any server         rows wanted
 *     server   → worker             rows
 *     worker   → every server       pull; which the others tell server 0
 *     every server → worker         variable, …, pulled
 *     server 0 → worker             grant; applied
 *     worker   → every server       data, pushed; which the others tell server 0
 *     server 0 → the other servers  task
 *     server   → worker             data: its share of the variables
 *     server 0 → worker             variable, …, pulled: the rest of them
 *
 * Threads: the calls below are made by the thread that runs the training; what is heard and said, by the one that has the transport. */
#ifndef DT_RUNTIME_PS_LEASING_H
#define DT_RUNTIME_PS_LEASING_H

#include "runtime/comm/processes.h"
#include "runtime/execution/session.h"
#include "runtime/ps/leases.h"
#include "runtime/ps/team.h"

/* ---- in servers, all of which make the same calls ---- */

/* What workers are to know. */
typedef struct dt_ps_run_terms {
    int64_t seed, replicas, rows, epochs, steps; /* as session options have them; rows: of a lease, at most; steps: of an epoch */
} dt_ps_run_terms;

/* In server 0: whether a worker has read what it should have, before what it computes from it is applied: words [n] are rows of the source, each with
 * marks of its columns. *what: what differs; empty: nothing. DT_DATA_LOSS: these are no such words. Called by dt_ps_leasing_next. */
typedef struct dt_ps_examples_check {
    dt_status *(*compare)(void *context, const dt_ps_examples *said, const uint64_t *words, size_t n, dt_text *what);
    void *context;
} dt_ps_examples_check;

/* Before the first call of the next. */
void dt_ps_leasing_agree(dt_ps_team *team, const dt_ps_run_terms *terms, const dt_ps_examples_check *check);

/* Batches [first, end) of a step are to be applied: see dt_ps_leases_open. */
dt_status *dt_ps_leasing_open(dt_ps_team *team, int step, bool trains, int64_t epoch, int64_t first, int64_t end, int64_t version);
/* What is to be applied now. */
typedef struct dt_ps_order {
    int64_t batch;
    int64_t rows; /* 0: the batch is empty, and no step is to be run */
} dt_ps_order;

/* Waits for it; meanwhile server 0 gives variables to workers that want them. Where `stop` says so, no more batches are leased, and those that are
 * will be applied. *any false: the range is over, and workers are done with it. DT_ABORTED: a server was lost, or no worker has been there for as
 * long as the deadline. DT_OUT_OF_RANGE: a worker has found that the program or its data are wrong, which this server has too. */
dt_status *dt_ps_leasing_next(dt_ps_team *team, dt_session *session, dt_processes *processes, const atomic_int *stop, dt_ps_order *order, bool *any);

/* Between two ranges, of all servers: a launch value was set, which workers are to fetch. */
void dt_ps_leasing_outdate(dt_ps_team *team);

/* How many indices workers have ignored in the leases applied since the last call, where the range is over: all of them. 0 in all but server 0. */
int64_t dt_ps_leasing_take_ignored(dt_ps_team *team);

/* Server 0's book; elsewhere NULL. Until it is returned, nobody is heard: that is to be soon. */
const dt_ps_leases *dt_ps_leasing_take_book(dt_ps_team *team);
void dt_ps_leasing_return_book(dt_ps_team *team);
dt_status *dt_ps_leasing_sync(dt_ps_team *team); /* its ledger is on the disk */

/* ---- in workers ---- */

/* Waits for them. */
dt_status *dt_ps_leasing_find_terms(dt_ps_team *team, dt_processes *processes, dt_ps_run_terms *terms);

/* For one lease more. finished: since the last call dt_ps_leasing_finish has returned, for a lease in which so many indices were out of range. */
dt_status *dt_ps_leasing_ask(dt_ps_team *team, bool finished, int64_t n_ignored);
/* One that was asked for. *any false: there is none yet; with `waits`: the run is over, or this worker is to stop. */
dt_status *dt_ps_leasing_take(dt_ps_team *team, dt_processes *processes, const atomic_int *stop, bool waits, dt_ps_lease *lease, bool *any);
/* Fetches all variables but slots. */
dt_status *dt_ps_leasing_pull(dt_ps_team *team, dt_session *session, dt_processes *processes);

/* Rows of tables, as the servers have them: a dt_row_source.fetch of a worker. */
typedef struct dt_ps_rows_from {
    dt_ps_team *team;
    dt_processes *processes;
} dt_ps_rows_from;
dt_status *dt_ps_leasing_fetch_rows(void *rows_from, const dt_row_request *requests, int n);

/* What it has read for a lease, before it computes; the words, which are given away, as in dt_ps_examples_check. */
dt_status *dt_ps_leasing_tell(dt_ps_team *team, dt_ps_examples examples, uint64_t *words, size_t n);

/* Around the step of a lease, of so many rows; around nothing, where it has none. The second call returns when the lease is ordered, and the session
 * has the variables as they are after it. */
void dt_ps_leasing_begin(dt_ps_team *team, const dt_ps_lease *lease, int64_t rows);
dt_status *dt_ps_leasing_finish(dt_ps_team *team, dt_session *session, dt_processes *processes, const dt_ps_lease *lease, int64_t rows);

/* ---- for team.c: all by the transport's thread ---- */

dt_status *dt_ps_leasing_create(dt_ps_team *team);
void dt_ps_leasing_destroy(dt_ps_team *team);
void dt_ps_leasing_clear(dt_ps_team *team); /* a plan is over */

struct dt_ps_member;
dt_status *dt_ps_leasing_meet(dt_ps_team *team, struct dt_ps_member *worker);                       /* one that has offered to take part */
dt_status *dt_ps_leasing_invite(dt_ps_team *team, const struct dt_ps_member *worker);               /* server 0: to the plan that has started */
dt_status *dt_ps_leasing_admit(dt_ps_team *team, struct dt_ps_member *worker);                      /* server 0: it has taken the plan */
dt_status *dt_ps_leasing_lose(dt_ps_team *team, struct dt_ps_member *worker);                       /* it is gone */
dt_status *dt_ps_leasing_hear(dt_ps_team *team, struct dt_ps_member *from, dt_ps_message *message); /* of the messages above, but data */
/* A worker cannot compute its lease, which is an error of the program or its data. */
dt_status *dt_ps_leasing_hear_wrong(dt_ps_team *team, const struct dt_ps_member *worker, const char *reason);
void dt_ps_leasing_over(dt_ps_team *team);           /* the run is */
dt_status *dt_ps_leasing_progress(dt_ps_team *team); /* says what the other thread has to say */

/* Of a server: whose messages are received for process S; the peer that messages to it go to, -1: nobody, under which number of the plan. Of a
 * worker: it receives something. */
int dt_ps_leasing_source(const dt_ps_team *team);
int64_t dt_ps_leasing_way(const dt_ps_team *team, uint64_t *number);
dt_status *dt_ps_leasing_push(dt_ps_team *team);

#endif
