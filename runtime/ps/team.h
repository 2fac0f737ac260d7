/* team: who takes part in a run with parameter servers, and the transport between them.
 *
 * Server 0 leads. Workers and servers connect to the servers and offer to take part; once there are enough, server 0 makes a plan: which of them is
 * which process (microbatches.h: servers first, then workers). When all are ready it starts, and the training goes on as between any processes, until
 * it is done, somebody is lost, or somebody new is to take part. Then everybody offers again, a new plan is made, and the run goes on from its newest
 * checkpoint: what was computed under one plan never mixes with another's.
 *
 *     everybody → all servers     offer
 *     server 0  → everybody       plan, and start when all have said ready
 *     any       → any             data, notice: by server 0, where there is no connection
 *     any       → server 0        failed: it does not go on, and why
 *     server    → who connects    job
 *     server 0  → everybody       over
 *
 * A job has a name: server 0 was told one, or makes a random one when it begins, and the other servers have it from server 0. Who connects offers to
 * take part once all servers that it has connected to are of one job: an address that leads to another job's servers is the affair of whoever has it.
 *
 * Threads: one makes all calls; between opening the transport and closing it that is the transport's. */
#ifndef DT_RUNTIME_PS_TEAM_H
#define DT_RUNTIME_PS_TEAM_H

#include "runtime/comm/transport.h"
#include "runtime/ps/keys.h"
#include "runtime/ps/message.h"

#include <stdatomic.h>

typedef struct dt_ps_team dt_ps_team;

enum {
    DT_PS_MOST_WORKERS = 256,
    DT_PS_SETTINGS_BYTES = sizeof((dt_ps_hello *)NULL)->settings - 1, /* that servers tell workers, at most */
    DT_PS_REGROUP = 1000 /* in place of a signal's number, what asks the processes to stop: they go on under another plan */
};

typedef struct dt_ps_team_options {
    int part; /* of a server; -1: it is a worker */
    const char *listen;
    const char *const *servers; /* [n_servers] addresses, in order; of the only server not looked at */
    int n_servers;
    const uint8_t *artifact; /* [32] SHA-256 */
    const char *settings;    /* of a server: the same for all of them */
    const char *job;         /* that it is of; NULL: any, and of server 0 a new one */
    int n_workers;           /* of server 0: how many to wait for before the first plan; where that resumes, for some seconds, */
    int most_workers;        /* and how many may take part; others wait until somebody is lost */
    double deadline_seconds; /* how long nobody may be there without whom nothing goes on */
    double settle_seconds;   /* how long server 0 waits for who is connected to offer, to be ready, to be gone; 0: 10,
                              * or half of the deadline */
    bool is_asynchronous;    /* of a server: leasing.h; a worker is told with dt_ps_team_lease */
    int64_t staleness;       /* then: of server 0, dt_ps_leases_options, as the next two */
    const char *ledger;
    bool resumes;
    const dt_ps_keys *keys; /* that outlive the team; NULL: none */
    bool insecure;          /* beyond this machine without keys too */
    atomic_int *stop; /* number of the signal that asked for the end, for which this process waits for nobody any more; 0: none did; NULL: none can */
    bool regroups;    /* of server 0: it gets DT_PS_REGROUP where somebody new is to take part */
    void (*note)(const char *text); /* by whoever makes calls; of why workers leave a plan, when that is over, unless server 0 itself says so then */
} dt_ps_team_options;

/* Strings are the caller's. A worker's returns once server 0 has answered, or a signal has asked for the end. */
dt_status *dt_ps_team_open(const dt_ps_team_options *options, dt_ps_team **team);
/* NULL is allowed. In server 0 all others hear that the run is over: with a `reason`, why it failed. */
void dt_ps_team_close(dt_ps_team *team, const char *reason);

const char *dt_ps_team_address(const dt_ps_team *team);  /* where it listens */
const char *dt_ps_team_settings(const dt_ps_team *team); /* those of the servers */
bool dt_ps_team_is_over(const dt_ps_team *team);         /* there will be no other plan: dt_ps_team_form says why */

/* Of a worker, before its first plan: training is asynchronous. */
dt_status *dt_ps_team_lease(dt_ps_team *team);

/* Returns when a plan has started that this process is part of; *over: there will be none for it any more, and all is well: the run is over, or a
 * signal asked this process to end. *resumes: whether it goes on from the newest checkpoint, which server 0 says. */
dt_status *dt_ps_team_form(dt_ps_team *team, bool *resumes, bool *over);
/* A dt_processes_options.open of the plan that has started last; the context is a dt_ps_team. */
dt_status *dt_ps_team_open_transport(void *team, dt_transport **transport);
/* This process does not go on; server 0 hears why, and the return value says whether it is there to hear, or has said why the run is over. Not of
 * server 0.
 * is_wrong: of a worker: no other could go on either, and the run is over. */
bool dt_ps_team_leave(dt_ps_team *team, const char *reason, bool is_wrong);

#endif
