/* team: see the header. */
#include "runtime/ps/team.h"

#include "base/memory.h"
#include "runtime/ps/mailbox.h"
#include "runtime/ps/socket.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const double LOOK_SECONDS = 0.25; /* how long to wait for an event at a time */
static const double SETTLE_SECONDS = 10; /* how long server 0 waits, after a plan, for those who are connected to offer again */
static const double CLOSE_SECONDS = 5;   /* for what is queued to leave */
enum {
    NOBODY = -1,
    MOST_MEMBERS = DT_PS_MOST_SERVERS + DT_PS_MOST_WORKERS,
    MOST_QUEUED = 4096,     /* messages for a peer, and from it */
    MOST_PAYLOAD = 1 << 30, /* bytes of a message: rows of a microbatch, at most */
    NOTICES = 64            /* that nobody has listened to yet, at first */
};

/* Somebody at the other end of a connection. */
typedef struct member {
    uint32_t peer;
    bool offers;   /* to take part in the next plan */
    bool is_ready; /* for the plan that is being made */
    int part;      /* of a server; NOBODY: it is a worker */
    uint64_t id;   /* of a worker that offers */
    int process;   /* of the plan; NOBODY: it takes no part */
} member;

typedef struct notice {
    int from;
    size_t bytes;
    char data[DT_NOTICE_BYTES];
} notice;

struct dt_ps_team {
    dt_transport transport; /* of the plan */
    dt_ps_team_options options;
    dt_ps_socket *socket;
    uint64_t id, left; /* of this process; the plan that it took part in last */
    char settings[1025];
    bool is_welcome; /* by server 0 */
    member *members; /* [n_members] who is connected */
    int n_members, member_capacity;
    int n_above; /* servers that this process connects to: peers 0 to n_above - 1 */

    dt_ps_plan plan; /* that runs, or is being made */
    dt_ps_plan next; /* what server 0 has said since */
    bool has_plan;   /* of server 0: one that is being made; of all others: there is a next one */
    bool is_started, is_running, has_run;
    bool resumes;               /* of server 0: the next plan */
    int64_t ways[MOST_MEMBERS]; /* [processes] the peer to whom messages for each go; NOBODY: they go by server 0 */
    char lost[601];             /* of the plan: who, and why; empty: nobody */
    bool is_over;
    char failure[641]; /* why it is over; empty: all is well */

    dt_ps_mailbox mailbox;
    notice *notices; /* [n_notices] a queue */
    size_t n_notices, notice_capacity;
};

static bool leads(const dt_ps_team *team) { return team->options.part == 0; }
static bool is_worker(const dt_ps_team *team) { return team->options.part < 0; }

/* ---- members ---- */

static member *find(dt_ps_team *team, uint32_t peer) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].peer == peer) return &team->members[i];
    return NULL;
}

static dt_status *add_member(dt_ps_team *team, member added) {
    member *known = find(team, added.peer);
    if (known == NULL && team->n_members == team->member_capacity) {
        int capacity = 2 * team->member_capacity + 16;
        member *grown = dt_reallocate(team->members, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %d workers and servers", capacity);
        team->members = grown;
        team->member_capacity = capacity;
    }
    if (known == NULL) known = &team->members[team->n_members++];
    *known = added;
    return NULL;
}

/* Those who have gone for good. */
static void forget(dt_ps_team *team, uint32_t peer) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].peer == peer) {
            team->members[i] = team->members[--team->n_members];
            return;
        }
}

static dt_status *send(dt_ps_team *team, uint32_t peer, dt_ps_message *message) { return dt_ps_send(team->socket, peer, message); }

static dt_status *offer(dt_ps_team *team, uint32_t peer) {
    return send(team, peer, &(dt_ps_message){.kind = DT_PS_OFFER, .offer = {.id = team->id, .left = team->left}});
}

/* ---- events ---- */

static void lose(dt_ps_team *team, const char *text) {
    if (team->lost[0] == 0) snprintf(team->lost, sizeof team->lost, "%.600s", text);
}

static dt_status *joined(dt_ps_team *team, const dt_ps_event *event) {
    bool welcomed = event->peer < (uint32_t)team->n_above && event->message.kind == DT_PS_WELCOME;
    member made = {.peer = event->peer, .part = NOBODY, .process = NOBODY};
    if (welcomed) {
        made.part = (int)event->peer;
        if (event->peer == 0) snprintf(team->settings, sizeof team->settings, "%s", event->message.welcome.settings);
        team->is_welcome |= event->peer == 0;
    } else if (event->message.hello.role == DT_PS_SERVER) {
        made.part = (int)event->message.hello.part;
    }
    DT_TRY(add_member(team, made));
    return welcomed && !team->is_running ? offer(team, event->peer) : NULL; /* who is at work offers when that is over */
}

static void gone(dt_ps_team *team, const dt_ps_event *event) {
    const member *it = find(team, event->peer);
    if (it == NULL) return;
    if (it->process != NOBODY) lose(team, event->text);
    if (it->part == 0) team->is_welcome = team->has_plan = false;
    forget(team, event->peer);
}

/* Who takes part in the plan that runs has left it, unless the offer is one for that plan, said twice. Somebody new: who is at work stops, where that
 * loses nothing. */
static void take_offer(dt_ps_team *team, member *from, const dt_ps_offer *offer) {
    bool is_member = team->is_running && from->process != NOBODY;
    if (is_member && offer->left != team->plan.number) return;
    from->offers = true;
    from->id = offer->id;
    if (is_member)
        lose(team, "somebody has left the plan");
    else if (!team->is_running)
        return;
    else if (leads(team) && team->options.stop != NULL && team->transport.n_processes - team->transport.n_servers < team->options.most_workers)
        atomic_store(team->options.stop, DT_PS_REGROUP);
}

static dt_status *keep_notice(dt_ps_team *team, int from, const dt_ps_payload *payload) {
    if (payload->bytes > DT_NOTICE_BYTES) return dt_error(DT_DATA_LOSS, "process %d sent a notice of %zu bytes", from, payload->bytes);
    if (team->n_notices == team->notice_capacity) {
        size_t capacity = 2 * team->notice_capacity + NOTICES;
        notice *grown = dt_reallocate(team->notices, capacity * sizeof *grown);
        if (grown == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu notices", capacity);
        team->notices = grown;
        team->notice_capacity = capacity;
    }
    notice *kept = &team->notices[team->n_notices++];
    kept->from = from;
    kept->bytes = payload->bytes;
    memcpy(kept->data, payload->data, payload->bytes);
    return NULL;
}

/* All who take part offer anew when it is over. */
static void begin_plan(dt_ps_team *team) {
    team->is_started = true;
    team->left = team->plan.number;
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].process != NOBODY) team->members[i].offers = false;
}

/* For this process, or for one that the sender has no connection to. What is of another plan nobody waits for. */
static dt_status *take_data(dt_ps_team *team, const member *from, dt_ps_message *message) {
    bool is_notice = message->kind == DT_PS_NOTICE;
    uint64_t plan = is_notice ? message->notice.plan : message->data.plan;
    uint32_t source = is_notice ? message->notice.source : message->data.source, target = is_notice ? message->notice.target : message->data.target;
    int n = team->transport.n_processes;
    if (plan != team->plan.number) return NULL;
    bool is_sound = source < (uint32_t)n && target < (uint32_t)n && (from->process == (int)source || from->part == 0);
    if (!is_sound) return dt_ps_refuse(team->socket, from->peer, DT_PS_REFUSED_MESSAGE, "a message from process %u to %u of %d", source, target, n);
    if (target != (uint32_t)team->transport.process) {
        if (!leads(team)) return NULL;
        dt_ps_message passed = *message;
        message->payload = (dt_ps_payload){0};
        return send(team, (uint32_t)team->ways[target], &passed);
    }
    if (is_notice) return keep_notice(team, (int)source, &message->payload);
    return dt_ps_mailbox_deliver(&team->mailbox, (int)source, (int)message->data.tag, &message->payload);
}

static dt_status *take_message(dt_ps_team *team, member *from, dt_ps_message *message) {
    switch (message->kind) {
    case DT_PS_OFFER: take_offer(team, from, &message->offer); return NULL;
    case DT_PS_PLAN:
        if (from->part != 0) return NULL;
        team->next = message->plan;
        team->has_plan = true;
        if (team->is_running) lose(team, "server 0 has made another plan");
        return NULL;
    case DT_PS_READY: from->is_ready |= leads(team) && message->ready.plan == team->plan.number; return NULL;
    case DT_PS_START:
        if (from->part == 0 && message->start.plan == team->plan.number) begin_plan(team);
        return NULL;
    case DT_PS_FAILED:
        if (!leads(team)) return NULL;
        if (from->part != NOBODY && !team->is_over) {
            team->is_over = true;
            snprintf(team->failure, sizeof team->failure, "%s", message->failed.reason);
        } else if (team->options.note != NULL) {
            team->options.note(message->failed.reason);
        }
        return NULL;
    case DT_PS_OVER:
        if (from->part != 0) return NULL;
        team->is_over = true;
        snprintf(team->failure, sizeof team->failure, "%s", message->over.reason);
        return NULL;
    case DT_PS_DATA:
    case DT_PS_NOTICE: return take_data(team, from, message);
    default: return NULL;
    }
}

/* The next thing that happens; *any is false where nothing did. */
static dt_status *take_event(dt_ps_team *team, double seconds, bool *any) {
    dt_ps_event event;
    DT_TRY(dt_ps_receive(team->socket, seconds, &event));
    *any = event.kind != DT_PS_NOTHING;
    dt_status *status = NULL;
    member *from = event.kind == DT_PS_MESSAGE ? find(team, event.peer) : NULL;
    switch (event.kind) {
    case DT_PS_NOTHING: break;
    case DT_PS_JOINED: status = joined(team, &event); break;
    case DT_PS_MESSAGE:
        if (from != NULL) status = take_message(team, from, &event.message);
        dt_ps_payload_release(&event.message.payload);
        break;
    case DT_PS_GONE: gone(team, &event); break;
    case DT_PS_REFUSED:
        if (event.is_final) return dt_error(DT_FAILED_PRECONDITION, "%s", event.text);
        if (team->options.note != NULL) team->options.note(event.text);
        break;
    }
    return status;
}

/* ---- plans ---- */

static member *server(dt_ps_team *team, int part) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].part == part) return &team->members[i];
    return NULL;
}

static member *worker(dt_ps_team *team, uint64_t id) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].part == NOBODY && team->members[i].offers && team->members[i].id == id) return &team->members[i];
    return NULL;
}

/* Of an older plan. */
static void forget_messages(dt_ps_team *team) {
    dt_ps_mailbox_clear(&team->mailbox);
    team->n_notices = 0;
}

/* Which member is which process of the newest plan; false: somebody of them is not connected to a server, who has to be. */
static bool assign(dt_ps_team *team) {
    int n_servers = (int)team->plan.n_servers, n = n_servers + (int)team->plan.n_workers;
    for (int i = 0; i < team->n_members; i++) team->members[i].process = NOBODY;
    team->transport.process = (int)team->plan.process;
    team->transport.n_processes = n;
    team->transport.n_servers = n_servers;
    for (int p = 0; p < n; p++) {
        member *it = p == (int)team->plan.process ? NULL : p < n_servers ? server(team, p) : worker(team, team->plan.workers[p - n_servers]);
        team->ways[p] = it != NULL ? (int64_t)it->peer : NOBODY;
        if (it != NULL) it->process = p;
        bool is_needed = p != (int)team->plan.process && (!is_worker(team) || p < n_servers);
        if (it == NULL && is_needed) return false;
    }
    return true;
}

/* Of server 0: whether all are there that the next plan needs. *n_workers: that it would have. */
static bool has_enough(dt_ps_team *team, bool is_settled, int *n_workers) {
    bool all_offer = true;
    *n_workers = 0;
    for (int part = 1; part < team->options.n_servers; part++) {
        const member *it = server(team, part);
        if (it == NULL || !it->offers) return false;
    }
    for (int i = 0; i < team->n_members; i++) {
        if (team->members[i].part != NOBODY) continue;
        *n_workers += team->members[i].offers;
        all_offer &= team->members[i].offers;
    }
    if (*n_workers > team->options.most_workers) *n_workers = team->options.most_workers;
    if (!team->has_run) return *n_workers >= team->options.n_workers || *n_workers == team->options.most_workers;
    return *n_workers > 0 && (all_offer || is_settled);
}

static dt_status *make_plan(dt_ps_team *team, int n_workers) {
    dt_ps_plan *plan = &team->plan;
    plan->number++;
    plan->n_servers = (uint32_t)team->options.n_servers;
    plan->n_workers = 0;
    for (int i = 0; i < team->n_members && (int)plan->n_workers < n_workers; i++)
        if (team->members[i].part == NOBODY && team->members[i].offers) plan->workers[plan->n_workers++] = team->members[i].id;
    plan->process = 0;
    forget_messages(team);
    plan->resumes = team->resumes;
    team->lost[0] = 0;
    if (!assign(team)) return dt_error(DT_INTERNAL, "a plan without some of its members");
    for (int i = 0; i < team->n_members; i++) {
        member *it = &team->members[i];
        it->is_ready = false;
        if (it->process == NOBODY) continue;
        dt_ps_message message = {.kind = DT_PS_PLAN, .plan = *plan};
        message.plan.process = (uint32_t)it->process;
        DT_TRY(send(team, it->peer, &message));
    }
    team->has_plan = true;
    return NULL;
}

static bool all_ready(const dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].process != NOBODY && !team->members[i].is_ready) return false;
    return true;
}

static dt_status *start_plan(dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++) {
        if (team->members[i].process == NOBODY) continue;
        DT_TRY(send(team, team->members[i].peer, &(dt_ps_message){.kind = DT_PS_START, .start = {.plan = team->plan.number}}));
    }
    begin_plan(team);
    return NULL;
}

/* Server 0: what is next, with those who are there. */
static dt_status *lead(dt_ps_team *team, bool is_settled) {
    int n_workers;
    if (team->has_plan && team->lost[0] != 0) team->has_plan = false;
    if (team->has_plan) return all_ready(team) ? start_plan(team) : NULL;
    return has_enough(team, is_settled, &n_workers) ? make_plan(team, n_workers) : NULL;
}

/* All others: the plan is taken once its members are known here. */
static dt_status *follow(dt_ps_team *team) {
    if (!team->has_plan) return NULL;
    team->plan = team->next;
    if (!assign(team)) return NULL;
    team->has_plan = false;
    forget_messages(team);
    team->lost[0] = 0;
    return send(team, 0, &(dt_ps_message){.kind = DT_PS_READY, .ready = {.plan = team->plan.number}});
}

/* Who is missing, without whom nothing goes on. */
static dt_status *miss(dt_ps_team *team, double seconds) {
    if (!leads(team)) return dt_error(DT_ABORTED, "parameter server 0 (%s) has not been there for %.3g s", team->options.servers[0], seconds);
    for (int part = 1; part < team->options.n_servers; part++)
        if (server(team, part) == NULL)
            return dt_error(DT_ABORTED, "parameter server %d of %d has not come within %.3g s", part, team->options.n_servers, seconds);
    int n = 0;
    for (int i = 0; i < team->n_members; i++) n += team->members[i].part == NOBODY;
    return dt_error(DT_ABORTED, "%d of %d workers have come to the parameter servers within %.3g s", n, team->has_run ? 1 : team->options.n_workers,
                    seconds);
}

/* Offers to all servers that are there. */
static dt_status *offer_to_all(dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].peer < (uint32_t)team->n_above) DT_TRY(offer(team, team->members[i].peer));
    return NULL;
}

dt_status *dt_ps_team_form(dt_ps_team *team, bool *resumes, bool *over) {
    double began = dt_seconds_now(), alone_since = began;
    bool any;
    team->is_running = team->is_started = false;
    *over = false;
    team->resumes = *resumes;
    forget_messages(team); /* nobody waits for them any more, and where they were to go may be gone */
    DT_TRY(offer_to_all(team));
    while (!team->is_started && !team->is_over) {
        double now = dt_seconds_now();
        DT_TRY(leads(team) ? lead(team, now - began > SETTLE_SECONDS) : follow(team));
        if (team->is_started || team->is_over) break;
        DT_TRY(take_event(team, LOOK_SECONDS, &any));
        int stop = team->options.stop != NULL ? atomic_load(team->options.stop) : 0;
        if (stop != 0 && stop != DT_PS_REGROUP) return dt_error(DT_ABORTED, "stopped by signal %d while it waited for others", stop);
        if (!leads(team) && team->is_welcome) alone_since = now;
        if (now - alone_since > team->options.deadline_seconds) return miss(team, team->options.deadline_seconds);
    }
    if (team->is_over && team->failure[0] != 0) return dt_error(DT_ABORTED, "%s", team->failure);
    *over = team->is_over;
    *resumes = team->plan.resumes;
    team->has_plan = false;
    team->has_run |= team->is_started;
    return NULL;
}

/* ---- the transport ---- */

static dt_ps_team *team_of(dt_transport *transport) { return (dt_ps_team *)transport; }

/* To whom a message for a process goes: to it, or by server 0. */
static uint32_t way_to(const dt_ps_team *team, int process) { return team->ways[process] != NOBODY ? (uint32_t)team->ways[process] : 0; }

static dt_status *start(dt_transport *transport, int tag, const dt_message *messages, int n, int *round) {
    dt_ps_team *team = team_of(transport);
    DT_TRY(dt_ps_mailbox_expect(&team->mailbox, tag, messages, n, round));
    for (int m = 0; m < n; m++) {
        if (!messages[m].sends) continue;
        dt_ps_message message = {.kind = DT_PS_DATA, .payload = {.data = messages[m].data, .bytes = messages[m].bytes}};
        message.data = (dt_ps_data){
            .plan = team->plan.number, .source = (uint32_t)transport->process, .target = (uint32_t)messages[m].peer, .tag = (uint32_t)tag};
        DT_TRY(send(team, way_to(team, messages[m].peer), &message));
        transport->n_sent_bytes += messages[m].bytes;
    }
    return NULL;
}

static dt_status *progress(dt_transport *transport) {
    dt_ps_team *team = team_of(transport);
    if (team->failure[0] != 0) return dt_error(DT_ABORTED, "%s", team->failure);
    if (team->lost[0] != 0) return dt_error(DT_ABORTED, "%s", team->lost);
    for (bool any = true; any && team->lost[0] == 0 && !team->is_over;) DT_TRY(take_event(team, 0, &any));
    return NULL; /* what came before somebody was lost is seen first: it may have been the end */
}

static dt_status *test(dt_transport *transport, int round, bool *done) {
    *done = dt_ps_mailbox_has_all(&team_of(transport)->mailbox, round);
    return NULL;
}

static dt_status *notify(dt_transport *transport, int peer, const void *data, size_t bytes) {
    dt_ps_team *team = team_of(transport);
    dt_ps_message message = {.kind = DT_PS_NOTICE, .payload = {.data = data, .bytes = bytes}};
    message.notice = (dt_ps_notice){.plan = team->plan.number, .source = (uint32_t)transport->process, .target = (uint32_t)peer};
    return send(team, way_to(team, peer), &message);
}

static dt_status *listen(dt_transport *transport, int *peer, void *data, size_t *bytes) {
    dt_ps_team *team = team_of(transport);
    *peer = -1;
    if (team->n_notices == 0) return NULL;
    *peer = team->notices[0].from;
    *bytes = team->notices[0].bytes;
    memcpy(data, team->notices[0].data, *bytes);
    memmove(team->notices, team->notices + 1, --team->n_notices * sizeof *team->notices);
    return NULL;
}

/* The connections stay: they are the team's. */
static void end_transport(dt_transport *transport, int exit_status) {
    (void)transport;
    (void)exit_status;
}

static void close_transport(dt_transport *transport) { (void)transport; }

dt_status *dt_ps_team_open_transport(void *context, dt_transport **transport) {
    static const dt_transport_kind kind = {.name = "ZeroMQ",
                                           .start = start,
                                           .progress = progress,
                                           .test = test,
                                           .notify = notify,
                                           .listen = listen,
                                           .abort = end_transport,
                                           .close = close_transport};
    dt_ps_team *team = context;
    team->transport.kind = &kind;
    team->transport.n_processes_of_host = team->transport.n_processes;
    snprintf(team->transport.version, sizeof team->transport.version, "ZeroMQ");
    team->is_running = true;
    *transport = &team->transport;
    return NULL;
}

/* ---- opening and closing ---- */

static void fill_hello(const dt_ps_team_options *options, dt_ps_hello *hello) {
    char host[64] = "?";
    hello->role = options->part < 0 ? DT_PS_WORKER : DT_PS_SERVER;
    hello->part = options->part < 0 ? 0 : (uint32_t)options->part;
    memcpy(hello->artifact, options->artifact, sizeof hello->artifact);
    if (options->settings != NULL) snprintf(hello->settings, sizeof hello->settings, "%s", options->settings);
    gethostname(host, sizeof host - 1);
    snprintf(hello->name, sizeof hello->name, "%s, pid %d", host, (int)getpid());
}

/* A worker has nothing to do before it knows what. */
static dt_status *wait_for_welcome(dt_ps_team *team) {
    double began = dt_seconds_now();
    bool any;
    while (!team->is_welcome && !team->is_over) {
        DT_TRY(take_event(team, LOOK_SECONDS, &any));
        if (dt_seconds_now() - began > team->options.deadline_seconds) return miss(team, team->options.deadline_seconds);
    }
    return NULL;
}

dt_status *dt_ps_team_open(const dt_ps_team_options *options, dt_ps_team **team) {
    *team = NULL;
    if (options->settings != NULL && strlen(options->settings) > 1024)
        return dt_error(DT_INVALID_ARGUMENT, "the options of the run are %zu bytes, and servers tell workers at most 1024",
                        strlen(options->settings));
    dt_ps_team *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->options = *options;
    if (options->settings != NULL) snprintf(made->settings, sizeof made->settings, "%s", options->settings);
    int n_above = options->part < 0 ? options->n_servers : options->part; /* servers that it connects to */
    made->n_above = n_above;
    dt_ps_socket_options socket = {.listen = options->listen,
                                   .servers = options->servers,
                                   .n_servers = n_above,
                                   .most_peers = DT_PS_MOST_WORKERS + options->n_servers,
                                   .most_payload_bytes = MOST_PAYLOAD,
                                   .keys = options->keys,
                                   .insecure = options->insecure,
                                   .most_queued = MOST_QUEUED};
    fill_hello(options, &socket.hello);
    bool is_random = getrandom(&made->id, sizeof made->id, 0) == (ssize_t)sizeof made->id;
    dt_status *status = is_random ? dt_ps_socket_open(&socket, &made->socket) : dt_error(DT_INTERNAL, "the system gives no random numbers");
    made->plan.number = made->id; /* of a server 0 that was started again they are others */
    if (status == NULL && options->part != 0) status = wait_for_welcome(made);
    if (status == NULL) {
        *team = made;
        return NULL;
    }
    dt_ps_team_close(made, NULL);
    return status;
}

const char *dt_ps_team_address(const dt_ps_team *team) { return dt_ps_socket_address(team->socket); }
const char *dt_ps_team_settings(const dt_ps_team *team) { return team->settings; }

void dt_ps_team_fail(dt_ps_team *team, const char *reason) {
    dt_ps_message message = {.kind = DT_PS_FAILED};
    snprintf(message.failed.reason, sizeof message.failed.reason, "%s", reason);
    dt_status_free(send(team, 0, &message));
}

void dt_ps_team_close(dt_ps_team *team, const char *reason) {
    if (team == NULL) return;
    for (int i = 0; i < team->n_members && leads(team); i++) {
        dt_ps_message message = {.kind = DT_PS_OVER};
        snprintf(message.over.reason, sizeof message.over.reason, "%s", reason != NULL ? reason : "");
        dt_status_free(send(team, team->members[i].peer, &message));
    }
    dt_ps_socket_close(team->socket, CLOSE_SECONDS);
    dt_ps_mailbox_clear(&team->mailbox);
    dt_release(team->notices);
    dt_release(team->members);
    dt_release(team);
}
