/* leases: which worker computes which batch, and whose gradients are applied next: server 0's part of the asynchronous mode.
 *
 * Batches are leased by number from one global order. A lease is one batch of rows: a worker computes gradients on the variables that it has, of a
 * version (how often they had been updated), and pushes them to all servers. Server 0 decides which pushed lease is applied next, and all servers
 * apply in this order, so that one version stands for all. The lag of a lease is the version that it is applied to minus the version it was computed
 * on. When a worker leaves, its leases go to others. A range of leases is over when each of its batches has been applied: the barrier of an epoch, of
 * a checkpoint, or of an evaluation. After the loss of a server all go back to the newest checkpoint: what was applied since is lost, listed and
 * leased again. So each batch of each epoch ends up applied exactly once, and the ledger (ledger.h) shows it.
 *
 * Bounded staleness N. No lease is applied with a lag above N. N + 1 workers at most hold leases at a time; a lease that was computed on version v
 * has to be applied at version v + N or before, its deadline, and an application takes one version: unit tasks with deadlines, where a lease waits if
 * those with earlier deadlines need all versions that are left. The second lease of a worker, which it reads ahead, is computed on the version that
 * the application of its first one makes, so its deadline is met whatever else there is.
 *
 * Memory: for each worker and lease, not for each batch. Threads: one makes all calls, but dt_ps_leases_sync, which another one may make meanwhile.
 * Errors: those that are a worker's fault, DT_DATA_LOSS of dt_ps_leases_pulled and dt_ps_leases_pushed, change nothing. After any other the leases
 * may only be destroyed. */
#ifndef DT_RUNTIME_PS_LEASES_H
#define DT_RUNTIME_PS_LEASES_H

#include "base/status.h"

#include <stdint.h>

typedef struct dt_ps_leases dt_ps_leases;

typedef struct dt_ps_lease {
    int64_t epoch, batch; /* from 0; of one step a lease is named by them */
    int step;             /* of the artifact: what is to be run on it */
    bool trains;          /* applying it changes variables: the version */
    bool pulls;           /* its worker is to fetch the variables of the newest version before it computes */
} dt_ps_lease;

typedef struct dt_ps_leases_options {
    const char *path;  /* of the ledger; NULL: none is kept */
    int64_t staleness; /* most lag of a lease; -1: not bounded */
    bool resumes;      /* the ledger is there and goes on; else there must be none */
} dt_ps_leases_options;

/* Errors: those of dt_ps_ledger_open. Strings are copied. */
dt_status *dt_ps_leases_create(const dt_ps_leases_options *options, dt_ps_leases **leases);
void dt_ps_leases_destroy(dt_ps_leases *leases); /* NULL is allowed */

/* ---- ranges ---- */

/* Batches [first, end) of a step are leased from now on. The range before is over, or forgotten: nobody holds a lease of it any more, and what
 * workers say of it from now on (of this name there may be another one) is not to come here. version: of the variables at the beginning. A training
 * range with a version that is past loses what was applied from that version on: a line each in the ledger, and workers fetch all variables anew.
 * DT_FAILED_PRECONDITION: the version is ahead of the ledger's, which is therefore not this training's. */
dt_status *dt_ps_leases_open(dt_ps_leases *leases, int step, bool trains, int64_t epoch, int64_t first, int64_t end, int64_t version);

/* No further batch is leased, as somebody asks to stop: the range ends where leasing has come to, and is over when those under way are applied. What
 * workers that leave give back is still leased again, so that what is applied is a prefix. */
void dt_ps_leases_end(dt_ps_leases *leases);

/* Between two ranges: servers have set a variable, which workers have not. All fetch the variables anew. */
void dt_ps_leases_outdate(dt_ps_leases *leases);

int64_t dt_ps_leases_bound(const dt_ps_leases *leases);   /* the range's end */
bool dt_ps_leases_is_over(const dt_ps_leases *leases);    /* each batch of the range is applied; true before the first one */
int64_t dt_ps_leases_version(const dt_ps_leases *leases); /* of the variables; before the first range the ledger's, or -1 where it has none */
dt_status *dt_ps_leases_sync(dt_ps_leases *leases);       /* the ledger is on the disk: before a checkpoint is written, at barriers, at the end */

/* ---- workers ---- */

/* Numbers are never used twice. name: for people. */
dt_status *dt_ps_leases_join(dt_ps_leases *leases, uint32_t worker, const char *name);
/* What the worker has not pushed is leased again, *n_returned (NULL: nobody asks); what it has pushed stays, and is applied. One that is not there is
 * allowed. */
dt_status *dt_ps_leases_leave(dt_ps_leases *leases, uint32_t worker, int *n_returned);

/* Whether it is the worker's turn: it holds a lease that it has not pushed. */
bool dt_ps_leases_owes(const dt_ps_leases *leases, uint32_t worker);

/* The next lease for a worker that asks for one. *any false: there is none for now (it may ask again after something was applied, somebody left or a
 * range was opened). A worker holds at most two: one that it computes or has pushed, and the next one, of which it reads the data meanwhile and which
 * it computes after the first is applied, on the variables of that version. Of the last batches of a range nobody reads ahead. */
dt_status *dt_ps_leases_take(dt_ps_leases *leases, uint32_t worker, dt_ps_lease *lease, bool *any);
/* The worker has fetched the variables of this version. DT_DATA_LOSS: no lease asked for them, or for newer ones, or the version is not there yet. */
dt_status *dt_ps_leases_pulled(dt_ps_leases *leases, uint32_t worker, int64_t version);
/* All servers have its gradients (of an evaluation: its results). *dropped: the batch was pushed or applied before, so this is a double, which the
 * ledger notes, and is not applied. DT_DATA_LOSS: it has no such lease, or has not fetched the variables that it was to compute on. */
dt_status *dt_ps_leases_pushed(dt_ps_leases *leases, uint32_t worker, int64_t epoch, int64_t batch, bool *dropped);
/* Which of the pushed leases is to be applied now, if any. It counts as applied from here on: the version advances if it trains, its worker (which
 * may be gone) has the variables of the new version, and the ledger has its line. To be called until *any is false. */
dt_status *dt_ps_leases_apply(dt_ps_leases *leases, uint32_t *worker, dt_ps_lease *lease, bool *any);

/* ---- statistics, of leases that train ---- */

enum {
    DT_PS_N_LAGS = 12 /* counts of a histogram: of lag 0, 1, 2, 3 to 4, 5 to 8, …, 257 to 512, and above */
};

typedef struct dt_ps_leases_statistics {
    int64_t in_epoch, in_all;         /* leases applied, with those that were lost later */
    int64_t epoch_lags[DT_PS_N_LAGS]; /* add up to in_epoch */
    int64_t lags[DT_PS_N_LAGS];       /* add up to in_all */
    int64_t n_returned, n_doubles;    /* in all */
    double began, epoch_began;        /* by dt_seconds_now */
} dt_ps_leases_statistics;

typedef struct dt_ps_leases_worker {
    uint32_t number;
    const char *name;
    int64_t in_epoch, in_all; /* leases applied */
    double joined;            /* by dt_seconds_now */
    bool is_gone;
} dt_ps_leases_worker;

/* "0", "3-4", "513+": what a count of a histogram is of. */
const char *dt_ps_lags_name(int lags, char buffer[32]);
const dt_ps_leases_statistics *dt_ps_leases_count(const dt_ps_leases *leases);
/* The i-th worker of those that are there, or were in this epoch (the last 1,000 or so); NULL: there are no more. Until the next call that changes
 * something. An epoch begins with a training range that does not go on where the one before ended. */
const dt_ps_leases_worker *dt_ps_leases_worker_at(const dt_ps_leases *leases, int i);

#endif
