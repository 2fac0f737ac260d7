/* serve: dtrun ps-server and dtrun ps-worker: a process that takes part in a training with parameter servers (runtime/ps/team.h), under one plan
 * after the other, until it is over. Under a plan it runs the training as any of several processes does; under the next one it goes on from the
 * newest checkpoint. */
#include "base/file.h"
#include "base/memory.h"
#include "runtime/commands/dtrun.h"
#include "runtime/ps/team.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <nettle/sha2.h>
#include <string.h>

enum {
    MOST_FRUITLESS = 20 /* plans in a row that fail at once */
};
static const double AT_ONCE_SECONDS = 2;

typedef struct service {
    dtrun_call *call;
    const dt_artifact *artifact;
    atomic_int *stop;
    dtrun_train *train;
    dt_arena *arena;
    dt_ps_team *team;
    dtrun_call told; /* of a worker: what the servers said */
    dt_ps_keys keys;
} service;

static bool is_worker(const service *self) { return strcmp(self->call->command, "ps-worker") == 0; }

static bool leads(const service *self) { return !is_worker(self) && self->call->part == 0; }

static void note(const char *text) { fprintf(stderr, "dtrun: note: %s\n", text); }

/* ---- what is run ---- */

/* The options of the run, a line each. */
static char *settings_of(const service *self) {
    dtrun_words words = {0};
    char *text = dt_arena_string(self->arena, "");
    dtrun_list_given(self->call, DTRUN_FOR_RUN, self->arena, &words);
    for (size_t i = 0; i < words.n; i++) text = dt_arena_format(self->arena, "%s%s\n", text, words.items[i]);
    return text;
}

/* What `train` does not take. */
static bool is_of_connections(const char *option) {
    static const char *const names[] = {"--servers=", "--keys=", "--insecure"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(option, names[i], strlen(names[i])) == 0) return true;
    return false;
}

/* A worker trains what the servers were told, with what it was told itself. */
static dt_status *take_settings(service *self) {
    DT_LIST(char *) words = {0};
    dtrun_words own = {0};
    dtrun_call *call = self->call, *told = &self->told;
    char *rest = dt_arena_string(self->arena, dt_ps_team_settings(self->team));
    dt_list_push(self->arena, &words, dt_arena_string(self->arena, "dtrun"));
    dt_list_push(self->arena, &words, dt_arena_string(self->arena, "train"));
    for (char *word; (word = strsep(&rest, "\n")) != NULL;)
        if (*word != 0) dt_list_push(self->arena, &words, word);
    dtrun_list_given(call, DTRUN_FOR_WORKERS, self->arena, &own);
    for (size_t i = 0; i < own.n; i++)
        if (!is_of_connections(own.items[i])) dt_list_push(self->arena, &words, (char *)own.items[i]);
    dt_list_push(self->arena, &words, (char *)call->program);
    dt_list_push(self->arena, &words, NULL);
    if (dtrun_parse((int)words.n - 1, words.items, told) != 0)
        return dt_error(DT_FAILED_PRECONDITION, "the servers' options are not understood here");
    dt_run_options run = told->run;
    run.stop = call->run.stop;
    run.was_stopped = call->run.was_stopped;
    run.catch_signals = call->run.catch_signals;
    call->run = run;
    call->timeline = told->timeline;
    return NULL;
}

/* Under one plan. */
static dt_status *run_plan(service *self) {
    dtrun_call *call = self->call;
    dt_processes_options options = {.open = dt_ps_team_open_transport,
                                    .context = self->team,
                                    .deadline_seconds = dtrun_deadline(call),
                                    .stop = self->stop,
                                    .outlives = true,
                                    .lets_go = true};
    dt_processes *processes;
    DT_TRY(dt_processes_open(&options, &processes));
    call->run.processes = processes;
    dt_status *status = self->train(call, self->artifact);
    if (status == NULL) status = dt_processes_finish(processes);
    if (status != NULL) dt_processes_abort(processes, dt_status_message(status));
    dt_processes_close(processes, 1);
    call->run.processes = NULL;
    return status;
}

/* Whether all have stopped for another plan, and not to end. */
static bool is_to_regroup(const service *self) {
    int regroup = DT_PS_REGROUP;
    bool is_asked = atomic_compare_exchange_strong(self->stop, &regroup, 0), has_stopped = *self->call->run.was_stopped;
    if (is_asked) *self->call->run.was_stopped = false;
    return is_asked && has_stopped;
}

static dt_status *run_plans(service *self) {
    for (int n_fruitless = 0;;) {
        bool over;
        DT_TRY(dt_ps_team_form(self->team, &self->call->run.resume, &over));
        if (over) return NULL;
        double began = dt_seconds_now();
        dt_status *status = run_plan(self);
        bool regroups = is_to_regroup(self);
        if (status == NULL && !regroups) return NULL;
        n_fruitless = status != NULL && dt_seconds_now() - began < AT_ONCE_SECONDS ? n_fruitless + 1 : 0;
        bool gives_up = leads(self) && n_fruitless == MOST_FRUITLESS;
        if (status != NULL && (dt_status_code(status) != DT_ABORTED || gives_up)) return status;
        if (status != NULL && leads(self)) note(dt_status_message(status));
        dt_status_free(status);
        if (self->call->run.checkpoint_dir != NULL) self->call->run.resume = true;
    }
}

/* ---- taking part ---- */

static dt_status *find_servers(const service *self, dtrun_words *servers) {
    char *rest = self->call->servers != NULL ? dt_arena_string(self->arena, self->call->servers) : NULL;
    for (char *address; (address = strsep(&rest, ",")) != NULL;) dt_list_push(self->arena, servers, address);
    int n = is_worker(self) ? (int)servers->n : self->call->n_servers;
    if (servers->n == 0 || (int)servers->n == n) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--servers names %zu servers, and --part says that there are %d", servers->n, n);
}

static dt_status *hash_artifact(const char *path, uint8_t sum[SHA256_DIGEST_SIZE]) {
    char *data = NULL;
    size_t n = 0;
    struct sha256_ctx hash;
    DT_TRY(dt_file_read(path, &data, &n));
    sha256_init(&hash);
    sha256_update(&hash, n, (const uint8_t *)data);
    sha256_digest(&hash, SHA256_DIGEST_SIZE, sum);
    dt_release(data);
    return NULL;
}

static dt_status *serve(service *self) {
    dtrun_call *call = self->call;
    dtrun_words servers = {0};
    uint8_t artifact[SHA256_DIGEST_SIZE];
    if (call->n_servers == 0) call->n_servers = 1;
    DT_TRY(find_servers(self, &servers));
    DT_TRY(hash_artifact(self->artifact->path, artifact));
    if (call->keys != NULL) DT_TRY(dt_ps_keys_load(call->keys, is_worker(self) ? DT_PS_WORKER : DT_PS_SERVER, &self->keys));
    dt_ps_team_options options = {.part = is_worker(self) ? -1 : call->part,
                                  .listen = call->listen,
                                  .servers = servers.items,
                                  .n_servers = is_worker(self) ? (int)servers.n : call->n_servers,
                                  .artifact = artifact,
                                  .settings = is_worker(self) ? NULL : settings_of(self),
                                  .n_workers = call->workers > 0 ? call->workers : 1,
                                  .most_workers = call->run.replicas > 0 && call->run.replicas < DT_PS_MOST_WORKERS ? (int)call->run.replicas
                                                  : call->run.replicas > 0                                          ? DT_PS_MOST_WORKERS
                                                                                                                    : 1,
                                  .deadline_seconds = dtrun_deadline(call),
                                  .keys = call->keys != NULL ? &self->keys : NULL,
                                  .insecure = call->insecure,
                                  .stop = call->run.checkpoint_dir != NULL ? self->stop : NULL,
                                  .note = note};
    DT_TRY(dt_ps_team_open(&options, &self->team));
    if (!is_worker(self))
        fprintf(stderr, "dtrun: note: server %d of %d listens on %s\n", call->part, call->n_servers, dt_ps_team_address(self->team));
    if (is_worker(self)) DT_TRY(take_settings(self));
    dt_status *status = run_plans(self);
    if (status != NULL && !leads(self)) dt_ps_team_fail(self->team, dt_status_message(status));
    return status;
}

dt_status *dtrun_serve(dtrun_call *call, const dt_artifact *artifact, atomic_int *stop, dtrun_train *train) {
    jmp_buf guard;
    service self = {.call = call, .artifact = artifact, .stop = stop, .train = train, .arena = dt_arena_create()};
    if (self.arena == NULL || setjmp(guard) != 0) {
        dt_arena_destroy(self.arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    dt_arena_guard(self.arena, &guard);
    dt_status *status = serve(&self);
    dt_ps_team_close(self.team, status != NULL ? dt_status_message(status) : NULL);
    dt_ps_keys_forget(&self.keys);
    dtrun_call_free(&self.told);
    dt_arena_guard(self.arena, NULL);
    dt_arena_destroy(self.arena);
    return status;
}
