/* team_state: what the files of a team share: team.c has its members, plans and the transport, leasing.c what is said beside it where training is
 * asynchronous. */
#ifndef DT_RUNTIME_PS_TEAM_STATE_H
#define DT_RUNTIME_PS_TEAM_STATE_H

#include "runtime/ps/connection.h"
#include "runtime/ps/mailbox.h"
#include "runtime/ps/socket.h"
#include "runtime/ps/team.h"

enum {
    DT_PS_NOBODY = -1,
    DT_PS_JOB_BYTES = sizeof((dt_ps_job *)NULL)->name,
    DT_PS_MOST_MEMBERS = DT_PS_MOST_SERVERS + DT_PS_MOST_WORKERS
};

/* Somebody at the other end of a connection. */
typedef struct dt_ps_member {
    uint32_t peer;
    bool offers;         /* to take part in the next plan */
    bool is_ready;       /* for the plan that is being made */
    int part;            /* of a server; DT_PS_NOBODY: it is a worker */
    uint64_t id;         /* of a worker that offers, */
    uint64_t left;       /* and the plan that it took part in last */
    int process;         /* of the plan; DT_PS_NOBODY: it takes no part */
    double double_since; /* of a server whose part another one has, which may have died unnoticed; 0: it has it itself */
    bool leaves;         /* it has said so, and hears nothing any more */

    /* a server that this process has connected to */
    char job[DT_PS_JOB_BYTES];
    double strange_since; /* of one whose job is another: since when; 0: it is not */
    bool is_offered;      /* it knows that this process wants to take part */

    /* in asynchronous servers, of a worker that has offered */
    int key;                 /* of what it sends for its lease, in the mailbox */
    uint32_t number;         /* in the book of server 0 */
    bool is_told;            /* the terms of the run */
    int n_unfinished;        /* of server 0: its leases that are applied, and that it is not done with */
    double owes_since, told; /* of server 0: since when it has something to do, 0: it has not; and when it last said how it gets on, */
    double stood;            /* for how long it had not then, */
    char doing[257];         /* and at what it was */
} dt_ps_member;

typedef struct dt_ps_kept_notice {
    int from;
    size_t bytes;
    char data[DT_NOTICE_BYTES];
} dt_ps_kept_notice;

/* Somebody of the plan that runs has said why it does not go on. */
typedef struct dt_ps_farewell {
    char name[DT_PS_NAME_BYTES], reason[641];
} dt_ps_farewell;

struct dt_ps_team {
    dt_transport transport; /* of the plan */
    dt_ps_team_options options;
    dt_ps_socket *socket;
    uint64_t id, left; /* of this process; the plan that it took part in last */
    char settings[DT_PS_SETTINGS_BYTES + 1];
    char job[DT_PS_JOB_BYTES]; /* of this process; empty: it does not know yet */
    bool is_welcome;           /* by server 0 */
    bool has_noted_missing;    /* servers, while it waits for them */
    dt_ps_member *members;     /* [n_members] who is connected */
    int n_members, member_capacity;
    int n_above; /* servers that this process connects to: peers 0 to n_above - 1 */

    dt_ps_plan plan; /* that runs, or is being made */
    dt_ps_plan next; /* what server 0 has said since */
    bool has_plan;   /* of server 0: one that is being made; of all others: there is a next one */
    double planned;  /* of server 0: when it made the plan */
    bool is_started, is_running;
    bool has_met;                     /* of server 0: as many have come as it was to wait for */
    bool resumes;                     /* of server 0: the next plan */
    int64_t ways[DT_PS_MOST_MEMBERS]; /* [processes] the peer to whom messages for each go; DT_PS_NOBODY: they go by server 0 */
    char refused[601];                /* of server 0: who was last, and why; empty: nobody */
    char lost[601];                   /* of the plan: who, and why; empty: nobody */
    bool is_over;
    char failure[641]; /* why it is over; empty: all is well */
    int n_left;        /* of server 0: workers that have said that they do not go on */
    int n_missing;     /* of server 0: others of the plan before that are not in this one, and have not come again, */
    double missed_at;  /* since it began */

    dt_ps_farewell *farewells; /* [n_farewells] of server 0: that nobody has been told of */
    int n_farewells, farewell_capacity;

    dt_ps_mailbox mailbox;
    dt_ps_kept_notice *notices; /* [n_notices] a queue */
    size_t n_notices, notice_capacity;

    struct dt_ps_leasing *leasing; /* NULL: training is synchronous */
};

static inline bool dt_ps_team_leads(const dt_ps_team *team) { return team->options.part == 0; }
static inline bool dt_ps_team_is_worker(const dt_ps_team *team) { return team->options.part < 0; }

/* Ends the connection of somebody whom nobody else is to suffer from: it is no member any more. */
dt_status *dt_ps_team_refuse(dt_ps_team *team, uint32_t peer, dt_ps_refused why, const char *reason);
dt_ps_message dt_ps_team_refusal(const dt_status *why); /* a message that does so, of somebody who is not to come again */

static inline dt_status *dt_ps_team_send(dt_ps_team *team, uint32_t peer, dt_ps_message *message) {
    if (message->kind == DT_PS_REFUSAL) return dt_ps_team_refuse(team, peer, (dt_ps_refused)message->refusal.why, message->refusal.reason);
    return dt_ps_send(team->socket, peer, message);
}

/* In asynchronous servers: the plan's number as it is to a worker, who has another identity each time that it takes part. What was on its way to or
 * from an earlier one, by the same connection, is of another plan. */
static inline uint64_t dt_ps_team_number_for(const dt_ps_team *team, uint64_t id) { return team->plan.number ^ id; }

/* A worker, in an asynchronous server: it is of no plan, and comes and goes. */
static inline bool dt_ps_team_is_leased(const dt_ps_team *team, const dt_ps_member *it) {
    return team->leasing != NULL && !dt_ps_team_is_worker(team) && it->part == DT_PS_NOBODY;
}

/* The plan's number in what somebody says. */
static inline uint64_t dt_ps_team_number_from(const dt_ps_team *team, const dt_ps_member *from) {
    return dt_ps_team_is_leased(team, from) ? dt_ps_team_number_for(team, from->id) : team->plan.number;
}

/* Somebody is lost whom the plan needs: it fails. The first reason stands. */
void dt_ps_team_lose(dt_ps_team *team, const char *text);
#endif
