/* team: see the header. */
#include "runtime/ps/team.h"

#include "base/memory.h"
#include "runtime/ps/connection.h"
#include "runtime/ps/leasing.h"
#include "runtime/ps/team_state.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const double LOOK_SECONDS = 0.25; /* how long to wait for an event at a time */
static const double SETTLE_SECONDS = 10; /* where nobody said another number, but half of the deadline at most */
static const double CLOSE_SECONDS = 5;   /* for what is queued to leave */
static const double AGAIN_SECONDS = 5;   /* for who was lost to come again */
enum {
    MOST_QUEUED = 4096,     /* messages for a peer, and from it */
    MOST_PAYLOAD = 1 << 30, /* bytes of a message: rows of a microbatch, at most */
    NOTICES = 64,           /* that nobody has listened to yet: at first, */
    MOST_NOTICES = 1 << 14  /* and at most */
};

/* ---- members ---- */

static dt_ps_member *find(dt_ps_team *team, uint32_t peer) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].peer == peer) return &team->members[i];
    return NULL;
}

static dt_ps_member *server(dt_ps_team *team, int part) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].part == part && team->members[i].double_since == 0) return &team->members[i];
    return NULL;
}

static dt_status *add_member(dt_ps_team *team, dt_ps_member added) {
    dt_ps_member *known = find(team, added.peer);
    if (known == NULL && team->n_members == team->member_capacity) {
        int capacity = 2 * team->member_capacity + 16;
        dt_ps_member *grown = dt_reallocate(team->members, (size_t)capacity * sizeof *grown);
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

/* ---- jobs ---- */

static bool is_above(const dt_ps_team *team, const dt_ps_member *it) { return it->peer < (uint32_t)team->n_above; }

/* Whether all servers that this process connects to are there, and of its job. */
static bool agrees(const dt_ps_team *team) {
    int n = 0;
    for (int i = 0; i < team->n_members; i++)
        n += is_above(team, &team->members[i]) && team->job[0] != 0 && strcmp(team->members[i].job, team->job) == 0;
    return n == team->n_above;
}

/* To all servers that do not know, where they are of one job. */
static dt_status *offer(dt_ps_team *team) {
    for (int i = 0; i < team->n_members && agrees(team); i++) {
        dt_ps_member *it = &team->members[i];
        if (!is_above(team, it) || it->is_offered) continue;
        it->is_offered = true;
        DT_TRY(dt_ps_team_send(team, it->peer, &(dt_ps_message){.kind = DT_PS_OFFER, .offer = {.id = team->id, .left = team->left}}));
    }
    return NULL;
}

static dt_status *say_job(dt_ps_team *team, uint32_t peer) {
    dt_ps_message message = {.kind = DT_PS_JOB};
    if (dt_ps_team_is_worker(team) || team->job[0] == 0) return NULL;
    strcpy(message.job.name, team->job);
    return dt_ps_team_send(team, peer, &message);
}

/* The job is server 0's, and may be another one when that was started again. */
static dt_status *take_job(dt_ps_team *team, dt_ps_member *from, const dt_ps_job *said) {
    double now = dt_seconds_now();
    if (!is_above(team, from)) return NULL;
    strcpy(from->job, said->name);
    if (from->part == 0 && team->options.job == NULL && strcmp(team->job, said->name) != 0) {
        strcpy(team->job, said->name);
        for (int i = 0; i < team->n_members; i++)
            if (!is_above(team, &team->members[i])) DT_TRY(say_job(team, team->members[i].peer));
    }
    for (int i = 0; i < team->n_members; i++) {
        dt_ps_member *it = &team->members[i];
        bool is_strange = is_above(team, it) && it->job[0] != 0 && team->job[0] != 0 && strcmp(it->job, team->job) != 0;
        it->strange_since = !is_strange ? 0 : it->strange_since != 0 ? it->strange_since : now;
    }
    return team->is_running ? NULL : offer(team); /* who is at work offers when that is over */
}

static void name_missing(dt_ps_team *team) {
    char text[DT_PS_NAME_BYTES + 64];
    int n = 0, missing = 0;
    for (int i = 0; i < team->n_members; i++) n += is_above(team, &team->members[i]);
    if (n == team->n_above || team->has_noted_missing) return;
    while (server(team, missing) != NULL) missing++;
    snprintf(text, sizeof text, "server %d (%.200s) is not there: this process waits for it", missing, team->options.servers[missing]);
    team->has_noted_missing = true;
    if (team->options.note != NULL) team->options.note(text);
}

/* How long servers may be of several jobs. Whoever was at work with them has right addresses: it is a server that was started again in a wrong way,
 * which may be put right as long as one may be missing. */
static double patience(const dt_ps_team *team) {
    if (team->left != 0) return team->options.deadline_seconds;
    return team->options.job != NULL ? 0 : team->options.settle_seconds;
}

/* A server that stays one of another job is where --servers or --job is wrong: this process has no place. */
static dt_status *check_jobs(dt_ps_team *team, double waited) {
    for (int i = 0; i < team->n_members; i++) {
        const dt_ps_member *it = &team->members[i];
        if (it->strange_since == 0 || dt_seconds_now() - it->strange_since < patience(team)) continue;
        return dt_error(DT_FAILED_PRECONDITION, "%s, which is at %s, is of job %s, and this process of job %s%s%s: is the address right?",
                        dt_ps_peer_name(team->socket, it->peer), team->options.servers[it->peer], it->job, team->job,
                        team->options.job == NULL ? " with " : "", team->options.job == NULL ? dt_ps_peer_name(team->socket, 0) : "");
    }
    if (waited > team->options.settle_seconds && team->is_welcome) name_missing(team);
    return NULL;
}

/* ---- events ---- */

void dt_ps_team_lose(dt_ps_team *team, const char *text) {
    if (team->lost[0] == 0) snprintf(team->lost, sizeof team->lost, "%.600s", text);
}

/* Whoever is at the other end takes part no more. Where it was a server, one that was started in its place has the part now. */
static dt_status *gone(dt_ps_team *team, uint32_t peer, const char *text) {
    dt_ps_member *it = find(team, peer);
    dt_status *status = NULL;
    if (it == NULL) return NULL;
    int part = it->part;
    if (dt_ps_team_is_leased(team, it))
        status = dt_ps_leasing_lose(team, it);
    else if (it->process != DT_PS_NOBODY)
        dt_ps_team_lose(team, text);
    if (part == 0) team->is_welcome = team->has_plan = false;
    forget(team, peer);
    for (int i = 0; i < team->n_members && part != DT_PS_NOBODY && server(team, part) == NULL; i++)
        if (team->members[i].part == part) team->members[i].double_since = 0;
    return status;
}

dt_status *dt_ps_team_refuse(dt_ps_team *team, uint32_t peer, dt_ps_refused why, const char *reason) {
    char text[DT_PS_NAME_BYTES + 600];
    snprintf(text, sizeof text, "%s: %s", dt_ps_peer_name(team->socket, peer), reason);
    if (team->options.note != NULL) team->options.note(text);
    DT_TRY(gone(team, peer, text));
    return dt_ps_refuse(team->socket, peer, why, "%s", reason);
}

dt_ps_message dt_ps_team_refusal(const dt_status *why) {
    dt_ps_message message = {.kind = DT_PS_REFUSAL, .refusal.why = DT_PS_REFUSED_OTHERWISE};
    snprintf(message.refusal.reason, sizeof message.refusal.reason, "%s", dt_status_message(why));
    return message;
}

/* A server that this process has connected to. */
static dt_status *welcomed(dt_ps_team *team, uint32_t peer, const dt_ps_welcome *welcome) {
    if (welcome->part != peer)
        return dt_error(DT_FAILED_PRECONDITION, "%s is where --servers has server %" PRIu32 ": name them in the order of their parts",
                        dt_ps_peer_name(team->socket, peer), peer);
    DT_TRY(add_member(team, (dt_ps_member){.peer = peer, .part = (int)peer, .process = DT_PS_NOBODY}));
    if (peer == 0) {
        snprintf(team->settings, sizeof team->settings, "%s", welcome->settings);
        team->is_welcome = true;
    }
    return NULL;
}

/* Somebody who has connected to this server. */
static dt_status *joined(dt_ps_team *team, uint32_t peer, const dt_ps_hello *hello) {
    char reason[DT_PS_NAME_BYTES + 64];
    bool is_server = hello->role == DT_PS_SERVER;
    dt_ps_member made = {.peer = peer, .part = is_server ? (int)hello->part : DT_PS_NOBODY, .process = DT_PS_NOBODY};
    if (is_server && (made.part <= team->options.part || made.part >= team->options.n_servers)) {
        snprintf(reason, sizeof reason, "this is server %d of %d: server %d does not connect to it", team->options.part, team->options.n_servers,
                 made.part);
        return dt_ps_team_refuse(team, peer, DT_PS_REFUSED_OTHERWISE, reason);
    }
    if (is_server && server(team, made.part) != NULL) made.double_since = dt_seconds_now();
    if (!is_server && team->n_missing > 0) team->n_missing--;
    DT_TRY(add_member(team, made));
    return say_job(team, peer);
}

/* Servers whose part another one still has, after a time in which it would have been missed. */
static dt_status *refuse_doubles(dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++) {
        const dt_ps_member *it = &team->members[i];
        char reason[DT_PS_NAME_BYTES + 64];
        if (it->double_since == 0 || dt_seconds_now() - it->double_since < team->options.settle_seconds) continue;
        snprintf(reason, sizeof reason, "there is a server %d already: %s", it->part, dt_ps_peer_name(team->socket, server(team, it->part)->peer));
        return dt_ps_team_refuse(team, it->peer, DT_PS_REFUSED_OTHERWISE, reason);
    }
    return NULL;
}

/* Whatever it was before, it begins anew; unless it says the same twice. */
static dt_status *take_worker(dt_ps_team *team, dt_ps_member *from, const dt_ps_offer *offer) {
    if (from->offers && from->id == offer->id) return NULL;
    DT_TRY(dt_ps_leasing_lose(team, from));
    from->offers = true;
    from->id = offer->id;
    return dt_ps_leasing_meet(team, from);
}

/* Who takes part in the plan that runs has left it, unless the offer is one for that plan, said twice. Somebody new: who is at work stops, where that
 * loses nothing. */
static void take_offer(dt_ps_team *team, dt_ps_member *from, const dt_ps_offer *offer) {
    bool is_member = team->is_running && from->process != DT_PS_NOBODY;
    if (is_member && offer->left != team->plan.number) return;
    from->offers = true;
    from->id = offer->id;
    from->left = offer->left;
    if (is_member) {
        char text[DT_PS_NAME_BYTES + 64];
        snprintf(text, sizeof text, "%s has left the plan", dt_ps_peer_name(team->socket, from->peer));
        dt_ps_team_lose(team, text);
    } else if (team->is_running && dt_ps_team_leads(team) && team->options.regroups && from->part == DT_PS_NOBODY &&
               team->transport.n_processes - team->transport.n_servers < team->options.most_workers) {
        int nothing = 0;
        atomic_compare_exchange_strong(team->options.stop, &nothing, DT_PS_REGROUP); /* a signal that asks for the end stands */
    }
}

/* What server 0 says, to all others. */
static dt_status *take_plan(dt_ps_team *team, const dt_ps_member *from, const dt_ps_plan *plan) {
    uint32_t n = plan->n_servers + plan->n_workers;
    if (from->part != 0) return dt_error(DT_DATA_LOSS, "a plan, which server 0 alone makes");
    if (plan->n_servers != (uint32_t)team->options.n_servers)
        return dt_error(DT_FAILED_PRECONDITION, "%s names %d servers, and the run has %" PRIu32, dt_ps_team_is_worker(team) ? "--servers" : "--part",
                        team->options.n_servers, plan->n_servers);
    bool is_sound =
        dt_ps_team_is_worker(team) ? plan->process >= plan->n_servers && plan->process < n : plan->process == (uint32_t)team->options.part;
    if (!is_sound) return dt_error(DT_DATA_LOSS, "a plan in which this process is number %" PRIu32 " of %" PRIu32, plan->process, n);
    team->next = *plan;
    team->has_plan = true;
    if (team->is_running) dt_ps_team_lose(team, "server 0 has made another plan");
    return NULL;
}

/* Who has found all others only after server 0 went on without it offers anew. */
static void take_ready(dt_ps_team *team, dt_ps_member *from, uint64_t plan) {
    if (plan == team->plan.number)
        from->is_ready = true;
    else if (from->part == DT_PS_NOBODY)
        take_offer(team, from, &(dt_ps_offer){.id = from->id});
}

static dt_status *keep_notice(dt_ps_team *team, int from, const dt_ps_payload *payload) {
    if (payload->bytes > DT_NOTICE_BYTES) return dt_error(DT_DATA_LOSS, "process %d sent a notice of %zu bytes", from, payload->bytes);
    if (team->n_notices == MOST_NOTICES) return dt_error(DT_DATA_LOSS, "process %d sends more than %d notices", from, MOST_NOTICES);
    if (team->n_notices == team->notice_capacity) {
        size_t capacity = team->notice_capacity > 0 ? 2 * team->notice_capacity : NOTICES;
        dt_ps_kept_notice *grown = dt_reallocate(team->notices, capacity * sizeof *grown);
        if (grown == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu notices", capacity);
        team->notices = grown;
        team->notice_capacity = capacity;
    }
    dt_ps_kept_notice *kept = &team->notices[team->n_notices++];
    kept->from = from;
    kept->bytes = payload->bytes;
    memcpy(kept->data, payload->data, payload->bytes);
    return NULL;
}

/* All who take part offer anew when it is over. Who has been faster than what server 0 says has done so, and left it already. */
static void begin_plan(dt_ps_team *team) {
    team->is_started = true;
    team->left = team->plan.number;
    dt_ps_socket_outlast(team->socket);
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].process != DT_PS_NOBODY && team->members[i].left != team->plan.number) team->members[i].offers = false;
}

/* For this process, or for one that the sender has no connection to. What is of another plan nobody waits for. */
static dt_status *take_data(dt_ps_team *team, const dt_ps_member *from, dt_ps_message *message) {
    bool is_notice = message->kind == DT_PS_NOTICE;
    uint64_t plan = is_notice ? message->notice.plan : message->data.plan;
    uint32_t source = is_notice ? message->notice.source : message->data.source, target = is_notice ? message->notice.target : message->data.target;
    int n = team->transport.n_processes;
    if (plan != dt_ps_team_number_from(team, from)) return NULL;
    bool is_its_own = dt_ps_team_is_leased(team, from)
                          ? from->key > 0 && (int)source == team->transport.n_servers && (int)target == team->transport.process && !is_notice
                          : from->process == (int)source || from->part == 0;
    bool is_sound = source < (uint32_t)n && target < (uint32_t)n && is_its_own;
    if (!is_sound) return dt_error(DT_DATA_LOSS, "a message from process %" PRIu32 " to %" PRIu32 " of %d", source, target, n);
    if (target != (uint32_t)team->transport.process) {
        if (!dt_ps_team_leads(team)) return NULL;
        dt_ps_message passed = *message;
        message->payload = (dt_ps_payload){0};
        return dt_ps_team_send(team, (uint32_t)team->ways[target], &passed);
    }
    if (is_notice) return keep_notice(team, (int)source, &message->payload);
    return dt_ps_mailbox_deliver(&team->mailbox, dt_ps_team_is_leased(team, from) ? from->key : (int)source, (int)message->data.tag,
                                 atomic_load(&team->transport.most_early_bytes), &message->payload);
}

static void end_run(dt_ps_team *team, const char *reason) {
    team->is_over = true;
    snprintf(team->failure, sizeof team->failure, "%.640s", reason);
}

/* Tells of those who do not go on, but for what this process says itself: an error that all have found. */
static void tell_farewells(dt_ps_team *team, const char *own) {
    for (int i = 0; i < team->n_farewells; i++) {
        const dt_ps_farewell *one = &team->farewells[i];
        char text[sizeof *one + 2];
        snprintf(text, sizeof text, "%s: %s", one->name, one->reason);
        bool is_own = own != NULL && strncmp(one->reason, own, sizeof one->reason - 1) == 0;
        if (!is_own && team->options.note != NULL) team->options.note(text);
    }
    team->n_farewells = 0;
}

static dt_status *keep_farewell(dt_ps_team *team, const char *name, const char *reason) {
    if (team->n_farewells == team->farewell_capacity) {
        int capacity = 2 * team->farewell_capacity + 4;
        dt_ps_farewell *grown = dt_reallocate(team->farewells, (size_t)capacity * sizeof *grown);
        if (grown == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for what %d workers say", capacity);
        team->farewells = grown;
        team->farewell_capacity = capacity;
    }
    dt_ps_farewell *kept = &team->farewells[team->n_farewells++];
    snprintf(kept->name, sizeof kept->name, "%s", name);
    snprintf(kept->reason, sizeof kept->reason, "%s", reason);
    return NULL;
}

/* A run goes on without a worker, and not without a server. What ends a plan is told of when this process knows why it ended. */
static dt_status *take_failed(dt_ps_team *team, dt_ps_member *from, const dt_ps_failed *failed) {
    const char *name = dt_ps_peer_name(team->socket, from->peer);
    bool is_of_plan = team->is_running && from->process != DT_PS_NOBODY && team->leasing == NULL;
    from->leaves = true;
    team->n_left += from->part == DT_PS_NOBODY;
    if (from->part != DT_PS_NOBODY && !team->is_over) {
        char text[DT_PS_NAME_BYTES + sizeof failed->reason + 2];
        snprintf(text, sizeof text, "%s: %s", name, failed->reason);
        end_run(team, text);
        return NULL;
    }
    DT_TRY(keep_farewell(team, name, failed->reason));
    if (!is_of_plan) tell_farewells(team, NULL);
    return NULL;
}

/* What a worker's lease gives is an error of the program or its data: no other worker would get on either, unless only that one has such data. */
static dt_status *take_wrong(dt_ps_team *team, dt_ps_member *from, const dt_ps_wrong *wrong) {
    if (!dt_ps_team_is_leased(team, from)) return NULL;
    from->leaves = true;
    return dt_ps_leasing_hear_wrong(team, from, wrong->reason);
}

static dt_status *take_message(dt_ps_team *team, dt_ps_member *from, dt_ps_message *message) {
    switch (message->kind) {
    case DT_PS_OFFER:
        if (dt_ps_team_is_leased(team, from)) return take_worker(team, from, &message->offer);
        take_offer(team, from, &message->offer);
        return NULL;
    case DT_PS_JOB: return take_job(team, from, &message->job);
    case DT_PS_PLAN: return take_plan(team, from, &message->plan);
    case DT_PS_READY:
        if (!dt_ps_team_leads(team)) return NULL;
        if (dt_ps_team_is_leased(team, from))
            return message->ready.plan == dt_ps_team_number_from(team, from) && team->is_started ? dt_ps_leasing_admit(team, from) : NULL;
        take_ready(team, from, message->ready.plan);
        return NULL;
    case DT_PS_START:
        if (from->part == 0 && message->start.plan == team->plan.number) begin_plan(team);
        return NULL;
    case DT_PS_FAILED: return dt_ps_team_leads(team) ? take_failed(team, from, &message->failed) : NULL;
    case DT_PS_OVER:
        if (from->part != 0) return NULL;
        team->is_over = true;
        snprintf(team->failure, sizeof team->failure, "%s", message->over.reason);
        if (team->leasing != NULL) dt_ps_leasing_over(team);
        return NULL;
    case DT_PS_WRONG: return dt_ps_team_leads(team) ? take_wrong(team, from, &message->wrong) : NULL;
    case DT_PS_DATA:
    case DT_PS_NOTICE: return take_data(team, from, message);
    default: return team->leasing != NULL ? dt_ps_leasing_hear(team, from, message) : NULL;
    }
}

/* The next thing that happens; *any is false where nothing did. */
static dt_status *take_event(dt_ps_team *team, double seconds, bool *any) {
    dt_ps_event event;
    DT_TRY(refuse_doubles(team));
    DT_TRY(dt_ps_receive(team->socket, seconds, &event));
    *any = event.kind != DT_PS_NOTHING;
    dt_status *status = NULL;
    dt_ps_member *from = event.kind == DT_PS_MESSAGE ? find(team, event.peer) : NULL;
    switch (event.kind) {
    case DT_PS_NOTHING: break;
    case DT_PS_JOINED:
        if (event.message.kind == DT_PS_WELCOME)
            status = welcomed(team, event.peer, &event.message.welcome);
        else
            status = joined(team, event.peer, &event.message.hello);
        break;
    case DT_PS_MESSAGE:
        if (from != NULL) status = take_message(team, from, &event.message);
        dt_ps_payload_release(&event.message.payload);
        break;
    case DT_PS_GONE: status = gone(team, event.peer, event.text); break;
    case DT_PS_REFUSED:
        if (!event.is_final && team->options.note != NULL && strncmp(event.text, team->refused, sizeof team->refused - 1) != 0)
            team->options.note(event.text);
        snprintf(team->refused, sizeof team->refused, "%.600s", event.text);
        break;
    }
    if (event.is_final) {
        end_run(team, event.text); /* under a plan it is heard only once that is over */
        return dt_error(DT_FAILED_PRECONDITION, "%s", event.text);
    }
    if (dt_status_code(status) != DT_DATA_LOSS) return status;
    dt_status *refused = dt_ps_team_refuse(team, event.peer, DT_PS_REFUSED_MESSAGE, dt_status_message(status));
    dt_status_free(status);
    return refused;
}

/* ---- plans ---- */

static dt_ps_member *worker(dt_ps_team *team, uint64_t id) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].part == DT_PS_NOBODY && team->members[i].offers && team->members[i].id == id) return &team->members[i];
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
    bool is_leasing = team->leasing != NULL;
    atomic_store(&team->transport.most_early_bytes, DT_EARLY_BYTES);
    for (int i = 0; i < team->n_members; i++) team->members[i].process = DT_PS_NOBODY;
    team->transport.process = (int)team->plan.process;
    team->transport.epoch = team->plan.number;
    team->transport.n_processes = is_leasing ? n_servers + 1 : n;
    team->transport.n_servers = n_servers;
    team->transport.n_members = !is_leasing ? 0 : dt_ps_team_is_worker(team) ? 1 : n_servers;
    team->transport.member = dt_ps_team_is_worker(team) ? 0 : (int)team->plan.process;
    for (int p = 0; p < n; p++) {
        dt_ps_member *it = p == (int)team->plan.process ? NULL : p < n_servers ? server(team, p) : worker(team, team->plan.workers[p - n_servers]);
        team->ways[p] = it != NULL ? (int64_t)it->peer : DT_PS_NOBODY;
        if (it != NULL) it->process = p;
        bool is_needed = p != (int)team->plan.process && (!dt_ps_team_is_worker(team) || p < n_servers);
        if (it == NULL && is_needed) return false;
    }
    return true;
}

/* Of server 0: whether all are there that the next plan needs. *n_workers: that it would have. */
static bool has_enough(dt_ps_team *team, bool is_settled, int *n_workers) {
    bool all_offer = true;
    *n_workers = 0;
    for (int part = 1; part < team->options.n_servers; part++) {
        const dt_ps_member *it = server(team, part);
        if (it == NULL || !it->offers) return false;
    }
    if (team->leasing != NULL) return true; /* workers come later */
    for (int i = 0; i < team->n_members; i++) {
        if (team->members[i].part != DT_PS_NOBODY) continue;
        *n_workers += team->members[i].offers;
        all_offer &= team->members[i].offers;
    }
    if (*n_workers > team->options.most_workers) *n_workers = team->options.most_workers;
    if (!team->has_met && (*n_workers >= team->options.n_workers || *n_workers == team->options.most_workers)) return true;
    return *n_workers > 0 && ((team->has_met && all_offer) || ((team->has_met || team->resumes) && is_settled));
}

static dt_status *make_plan(dt_ps_team *team, int n_workers) {
    dt_ps_plan *plan = &team->plan;
    plan->number++;
    plan->n_servers = (uint32_t)team->options.n_servers;
    plan->n_workers = 0;
    for (int i = 0; i < team->n_members && (int)plan->n_workers < n_workers; i++)
        if (team->members[i].part == DT_PS_NOBODY && team->members[i].offers) plan->workers[plan->n_workers++] = team->members[i].id;
    plan->process = 0;
    forget_messages(team);
    plan->resumes = team->resumes;
    team->lost[0] = 0;
    if (!assign(team)) return dt_error(DT_INTERNAL, "a plan without some of its members");
    for (int i = 0; i < team->n_members; i++) {
        dt_ps_member *it = &team->members[i];
        it->is_ready = false;
        if (it->process == DT_PS_NOBODY) continue;
        dt_ps_message message = {.kind = DT_PS_PLAN, .plan = *plan};
        message.plan.process = (uint32_t)it->process;
        DT_TRY(dt_ps_team_send(team, it->peer, &message));
    }
    team->has_plan = team->has_met = true;
    team->planned = dt_seconds_now();
    return NULL;
}

static bool all_ready(const dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++)
        if (team->members[i].process != DT_PS_NOBODY && !team->members[i].is_ready) return false;
    return true;
}

/* Workers alone: leave_out or silence ends that, so that no worker that has come makes server 0 miss anybody. */
static bool waits_for_workers(const dt_ps_team *team) {
    for (int i = 0; i < team->n_members && team->has_plan; i++)
        if (team->members[i].part != DT_PS_NOBODY && team->members[i].process != DT_PS_NOBODY && !team->members[i].is_ready) return false;
    return team->has_plan;
}

static dt_status *start_plan(dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++) {
        if (team->members[i].process == DT_PS_NOBODY) continue;
        DT_TRY(dt_ps_team_send(team, team->members[i].peer, &(dt_ps_message){.kind = DT_PS_START, .start = {.plan = team->plan.number}}));
    }
    begin_plan(team);
    for (int i = 0; i < team->n_members && team->leasing != NULL; i++)
        if (dt_ps_team_is_leased(team, &team->members[i]) && team->members[i].key > 0) DT_TRY(dt_ps_leasing_invite(team, &team->members[i]));
    return NULL;
}

/* A worker that does not find all servers keeps nobody from going on: the next plan is without it. */
static void leave_out(dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++) {
        dt_ps_member *it = &team->members[i];
        char text[DT_PS_NAME_BYTES + 64];
        if (it->process == DT_PS_NOBODY || it->part != DT_PS_NOBODY || it->is_ready) continue;
        snprintf(text, sizeof text, "%s is not connected to all servers: the others go on without it", dt_ps_peer_name(team->socket, it->peer));
        if (team->options.note != NULL) team->options.note(text);
        it->offers = team->has_plan = false;
    }
}

/* Server 0: what is next, with those who are there. */
static dt_status *lead(dt_ps_team *team, bool is_settled) {
    int n_workers;
    if (team->has_plan && team->lost[0] != 0) team->has_plan = false;
    if (team->has_plan && all_ready(team)) return start_plan(team);
    if (team->has_plan && dt_seconds_now() - team->planned > team->options.settle_seconds) leave_out(team);
    return !team->has_plan && has_enough(team, is_settled, &n_workers) ? make_plan(team, n_workers) : NULL;
}

/* All others: the plan is taken once its members are known here. */
static dt_status *follow(dt_ps_team *team) {
    if (!team->has_plan) return NULL;
    team->plan = team->next;
    if (!assign(team)) return NULL;
    team->has_plan = false;
    forget_messages(team);
    if (team->leasing != NULL) dt_ps_leasing_clear(team); /* of what was still on its way */
    team->lost[0] = 0;
    return dt_ps_team_send(team, 0, &(dt_ps_message){.kind = DT_PS_READY, .ready = {.plan = team->plan.number}});
}

/* A server that server 0 misses, as it is called where it can be named. */
static void print_missing_server(dt_ps_team *team, int part, dt_text *text) {
    const dt_ps_member *it = server(team, part);
    dt_text_append(text, text->n > 0 ? "; " : "");
    if (it != NULL)
        dt_text_format(text, "%s is there, and has not been ready to go on", dt_ps_peer_name(team->socket, it->peer));
    else if (team->options.servers != NULL && team->options.servers[part] != NULL)
        dt_text_format(text, "parameter server %d of %d (%s) has not come", part, team->options.n_servers, team->options.servers[part]);
    else
        dt_text_format(text, "parameter server %d of %d has not come", part, team->options.n_servers);
}

/* Workers have no numbers: who has come is known. */
static void print_workers(const dt_ps_team *team, dt_text *text) {
    int n = 0;
    dt_text names = {0};
    for (int i = 0; i < team->n_members; i++) {
        const dt_ps_member *it = &team->members[i];
        if (it->part != DT_PS_NOBODY || !it->offers) continue;
        dt_text_format(&names, "%s%s", n++ == 0 ? ": " : ", ", dt_ps_peer_name(team->socket, it->peer));
    }
    dt_text_format(text, "%d of %d workers have come to the parameter servers%s", n, team->has_met ? 1 : team->options.n_workers,
                   names.n > 0 ? names.data : "");
    dt_text_free(&names);
}

/* Who is missing, without whom nothing goes on. */
static dt_status *miss(dt_ps_team *team, double seconds) {
    dt_text who = {0};
    if (!dt_ps_team_leads(team))
        return dt_error(DT_ABORTED, "parameter server 0 (%s) has not been there for %.3g s", team->options.servers[0], seconds);
    for (int part = 1; part < team->options.n_servers; part++) {
        const dt_ps_member *it = server(team, part);
        if (it == NULL || !it->offers || (team->has_plan && !it->is_ready)) print_missing_server(team, part, &who);
    }
    if (who.n == 0) print_workers(team, &who);
    dt_status *status = dt_error(DT_ABORTED, "%s within %.3g s%s%s", who.data != NULL ? who.data : "not all have come", seconds,
                                 team->refused[0] != 0 ? "; refused was " : "", team->refused);
    dt_text_free(&who);
    return status;
}

/* To all servers that are there. */
static dt_status *offer_anew(dt_ps_team *team) {
    for (int i = 0; i < team->n_members; i++) team->members[i].is_offered = false;
    team->has_noted_missing = false;
    return offer(team);
}

/* A signal did: that is no failure. */
static bool is_asked_to_end(const dt_ps_team *team) {
    int stop = team->options.stop != NULL ? atomic_load(team->options.stop) : 0;
    return stop != 0 && stop != DT_PS_REGROUP;
}

/* Of server 0, that nobody has told it. */
static dt_status *make_job(dt_ps_team *team) {
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) return dt_error(DT_INTERNAL, "the system gives no random numbers");
    snprintf(team->job, sizeof team->job, "%016" PRIx64, number);
    return NULL;
}

/* Whatever is still on its way from it is of another worker than it is now. */
static dt_status *take_new_id(dt_ps_team *team) {
    bool is_random = getrandom(&team->id, sizeof team->id, 0) == (ssize_t)sizeof team->id;
    return is_random ? NULL : dt_error(DT_INTERNAL, "the system gives no random numbers");
}

/* Of server 0, when a plan has started: who was lost under the one before, of so many workers, may still come again. */
static void count_missing(dt_ps_team *team, int n_before) {
    int n = n_before - (int)team->plan.n_workers - team->n_left;
    team->n_missing = n > 0 ? n : 0;
    team->missed_at = dt_seconds_now();
    team->n_left = 0;
}

dt_status *dt_ps_team_form(dt_ps_team *team, bool *resumes, bool *over) {
    int n_before = (int)team->plan.n_workers;
    double began = dt_seconds_now(), alone_since = began;
    bool any;
    team->is_running = team->is_started = false;
    tell_farewells(team, NULL);
    *over = false;
    team->resumes = *resumes;
    if (team->leasing != NULL) dt_ps_leasing_clear(team);
    if (team->leasing != NULL && dt_ps_team_is_worker(team)) DT_TRY(take_new_id(team));
    forget_messages(team); /* nobody waits for them any more, and where they were to go may be gone */
    DT_TRY(offer_anew(team));
    while (!team->is_started && !team->is_over && !is_asked_to_end(team)) {
        double now = dt_seconds_now();
        DT_TRY(dt_ps_team_leads(team) ? lead(team, now - began > team->options.settle_seconds) : follow(team));
        if (team->is_started || team->is_over) break;
        DT_TRY(check_jobs(team, now - began));
        DT_TRY(take_event(team, LOOK_SECONDS, &any));
        if (dt_ps_team_leads(team) ? waits_for_workers(team) : team->is_welcome) alone_since = now;
        if (now - alone_since > team->options.deadline_seconds) return miss(team, team->options.deadline_seconds);
    }
    if (team->is_over && team->failure[0] != 0) return dt_error(DT_ABORTED, "%s", team->failure);
    *over = team->is_over || !team->is_started;
    if (team->is_started) count_missing(team, n_before);
    *resumes = team->plan.resumes;
    team->has_plan = false;
    return NULL;
}

/* ---- the transport ---- */

static dt_ps_team *team_of(dt_transport *transport) { return (dt_ps_team *)transport; }

/* To whom a message for a process goes: to it, or by server 0. */
static uint32_t way_to(const dt_ps_team *team, int process) { return team->ways[process] != DT_PS_NOBODY ? (uint32_t)team->ways[process] : 0; }

/* Whether a process is, for an asynchronous server, whichever worker's lease it applies. */
static bool is_visitor(const dt_ps_team *team, int process) {
    return team->leasing != NULL && !dt_ps_team_is_worker(team) && process == team->transport.n_servers;
}

/* What a worker's lease gives has come before it is applied. */
static dt_status *expect(dt_ps_team *team, int tag, const dt_message *messages, int n, int *round) {
    if (team->leasing == NULL || dt_ps_team_is_worker(team)) return dt_ps_mailbox_expect(&team->mailbox, tag, messages, n, round);
    dt_message *named = dt_allocate((size_t)(n + 1) * sizeof *named);
    if (named == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %d messages", n);
    for (int m = 0; m < n; m++) {
        named[m] = messages[m];
        if (is_visitor(team, named[m].peer)) named[m].peer = dt_ps_leasing_source(team);
    }
    dt_status *status = dt_ps_mailbox_expect(&team->mailbox, tag, named, n, round);
    dt_release(named);
    if (status != NULL || !dt_ps_mailbox_expects(&team->mailbox, dt_ps_leasing_source(team))) return status;
    end_run(team, "a step of this program needs something from its worker after an update has begun: train it with --staleness 0");
    return dt_error(DT_FAILED_PRECONDITION, "%s", team->failure);
}

static dt_status *start(dt_transport *transport, int tag, const dt_message *messages, int n, int *round) {
    dt_ps_team *team = team_of(transport);
    bool receives = false;
    for (int m = 0; m < n; m++) receives |= !messages[m].sends;
    DT_TRY(expect(team, tag, messages, n, round));
    for (int m = 0; m < n; m++) {
        if (!messages[m].sends) continue;
        dt_ps_message message = {.kind = DT_PS_DATA, .payload = {.data = messages[m].data, .bytes = messages[m].bytes}};
        message.data = (dt_ps_data){
            .plan = team->plan.number, .source = (uint32_t)transport->process, .target = (uint32_t)messages[m].peer, .tag = (uint32_t)tag};
        int64_t way = is_visitor(team, messages[m].peer) ? dt_ps_leasing_way(team, &message.data.plan) : way_to(team, messages[m].peer);
        if (way >= 0) DT_TRY(dt_ps_team_send(team, (uint32_t)way, &message));
        transport->n_sent_bytes += messages[m].bytes;
    }
    return team->leasing != NULL && dt_ps_team_is_worker(team) && receives ? dt_ps_leasing_push(team) : NULL;
}

static dt_status *progress(dt_transport *transport) {
    dt_ps_team *team = team_of(transport);
    if (team->failure[0] != 0) return dt_error(DT_ABORTED, "%s", team->failure);
    if (team->lost[0] != 0) return dt_error(DT_ABORTED, "%s", team->lost);
    if (team->leasing != NULL) DT_TRY(dt_ps_leasing_progress(team));
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
    return dt_ps_team_send(team, way_to(team, peer), &message);
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

static dt_status *wait(dt_transport *transport, double seconds) {
    dt_ps_team *team = team_of(transport);
    bool any;
    return team->lost[0] != 0 || team->failure[0] != 0 ? NULL : take_event(team, seconds, &any);
}

static void wake(dt_transport *transport) { dt_ps_socket_wake(team_of(transport)->socket); }

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
                                           .wait = wait,
                                           .wake = wake,
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
    while (!team->is_welcome && !team->is_over && !is_asked_to_end(team)) {
        DT_TRY(take_event(team, LOOK_SECONDS, &any));
        if (dt_seconds_now() - began > team->options.deadline_seconds) return miss(team, team->options.deadline_seconds);
    }
    return NULL;
}

dt_status *dt_ps_team_open(const dt_ps_team_options *options, dt_ps_team **team) {
    *team = NULL;
    if (options->settings != NULL && strlen(options->settings) > DT_PS_SETTINGS_BYTES)
        return dt_error(DT_INVALID_ARGUMENT, "settings of %zu bytes, where there may be %d", strlen(options->settings), DT_PS_SETTINGS_BYTES);
    dt_ps_team *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->options = *options;
    if (made->options.settle_seconds == 0) made->options.settle_seconds = fmin(SETTLE_SECONDS, made->options.deadline_seconds / 2);
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
    if (options->job != NULL) snprintf(made->job, sizeof made->job, "%s", options->job);
    dt_status *status = take_new_id(made);
    if (status == NULL && options->part == 0 && options->job == NULL) status = make_job(made);
    if (status == NULL) status = dt_ps_socket_open(&socket, &made->socket);
    if (status == NULL && options->is_asynchronous) status = dt_ps_leasing_create(made);
    made->plan.number = made->id; /* of a server 0 that was started again they are others */
    if (status == NULL && options->part != 0) status = wait_for_welcome(made);
    if (status == NULL) {
        *team = made;
        return NULL;
    }
    dt_ps_team_close(made, NULL);
    return status;
}

dt_status *dt_ps_team_lease(dt_ps_team *team) { return dt_ps_leasing_create(team); }

const char *dt_ps_team_address(const dt_ps_team *team) { return dt_ps_socket_address(team->socket); }
const char *dt_ps_team_settings(const dt_ps_team *team) { return team->settings; }
bool dt_ps_team_is_over(const dt_ps_team *team) { return team->is_over; }

bool dt_ps_team_leave(dt_ps_team *team, const char *reason, bool is_wrong) {
    dt_ps_message message = {.kind = is_wrong ? DT_PS_WRONG : DT_PS_FAILED};
    if (is_wrong)
        snprintf(message.wrong.reason, sizeof message.wrong.reason, "%s", reason);
    else
        snprintf(message.failed.reason, sizeof message.failed.reason, "%s", reason);
    if (team->leasing != NULL) dt_status_free(dt_ps_leasing_progress(team)); /* what it had to say before */
    dt_status_free(dt_ps_team_send(team, 0, &message));
    return team->is_welcome || (team->is_over && team->failure[0] != 0);
}

static void say_over(dt_ps_team *team, const char *reason) {
    for (int i = 0; i < team->n_members; i++) {
        dt_ps_message message = {.kind = DT_PS_OVER};
        if (team->members[i].leaves) continue;
        snprintf(message.over.reason, sizeof message.over.reason, "%s", reason != NULL ? reason : "");
        dt_status_free(dt_ps_team_send(team, team->members[i].peer, &message));
    }
}

/* Who was lost shortly before the end would otherwise look for the run in vain. Returns whether somebody has come. */
static bool wait_for_missing(dt_ps_team *team) {
    int n_missing = team->n_missing;
    bool any;
    while (team->n_missing > 0 && dt_seconds_now() - team->missed_at < AGAIN_SECONDS && !is_asked_to_end(team)) {
        dt_status *status = take_event(team, LOOK_SECONDS, &any);
        if (status != NULL) team->n_missing = 0;
        dt_status_free(status);
    }
    return team->n_missing < n_missing;
}

void dt_ps_team_close(dt_ps_team *team, const char *reason) {
    if (team == NULL) return;
    tell_farewells(team, reason);
    if (dt_ps_team_leads(team)) {
        say_over(team, reason);
        if (reason == NULL && wait_for_missing(team)) say_over(team, NULL);
    }
    bool is_heard = dt_ps_team_leads(team) || !team->is_over; /* server 0 has ended, and with it whoever would listen */
    dt_ps_socket_close(team->socket, is_heard ? CLOSE_SECONDS : 0);
    dt_ps_leasing_destroy(team);
    dt_ps_mailbox_clear(&team->mailbox);
    dt_release(team->notices);
    dt_release(team->farewells);
    dt_release(team->members);
    dt_release(team);
}
