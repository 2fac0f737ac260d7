/* serve: dtrun ps-server and dtrun ps-worker: a process that takes part in a training with parameter servers (runtime/ps/team.h), under one plan
 * after the other, until it is over. Under a plan it runs the training as any of several processes does; under the next one it goes on from the
 * newest checkpoint. */
#include "base/file.h"
#include "base/memory.h"
#include "runtime/checkpoint.h"
#include "runtime/commands/dtrun.h"
#include "runtime/dtrt/program.h"
#include "runtime/ps/team.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>
#include <nettle/sha2.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>

enum {
    MOST_FRUITLESS = 20 /* plans in a row that fail at once */
};
static const double AT_ONCE_SECONDS = 2;

typedef struct service {
    dtrun_call *call;
    dtrt_program *program;
    atomic_int *stop;
    dtrun_train *train;
    dt_arena *arena;
    dt_ps_team *team;
    dt_ps_keys keys;
    bool has_cores;
    cpu_set_t cores; /* that this process may use; under a plan it has a share of them */
} service;

static bool is_worker(const service *self) { return self->call->kind == DT_FOR_WORKER; }

/* Workers compute at their own pace. */
static bool is_asynchronous(const service *self) { return self->call->staleness != 0; }

static bool leads(const service *self) { return !is_worker(self) && self->call->part == 0; }

/* The signal that asked this process to end; 0: none did. */
static int signal_of(const service *self) {
    int stop = atomic_load(self->stop);
    return stop != DT_PS_REGROUP ? stop : 0;
}

static void note(const char *text) { fprintf(stderr, "dtrun: note: %s\n", text); }

/* ---- what is run ---- */

dt_status *dtrun_settings(const dtrun_call *call, dt_arena *arena, const char **settings) {
    dtrun_words words = {0};
    const char *longest = "";
    *settings = dt_arena_string(arena, "");
    dtrun_list_given(call, 0, arena, &words);
    for (size_t i = 0; i < words.n; i++) {
        *settings = dt_arena_format(arena, "%s%s\n", *settings, words.items[i]);
        if (strlen(words.items[i]) > strlen(longest)) longest = words.items[i];
    }
    if (strlen(*settings) <= DT_PS_SETTINGS_BYTES) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "servers tell workers the options of the run, which have %zu bytes, in at most %d; %.*s alone has %zu",
                    strlen(*settings), DT_PS_SETTINGS_BYTES, (int)strcspn(longest, "="), longest, strlen(longest) + 1);
}

/* A worker trains what the servers were told, with what it was told itself. */
static dt_status *take_settings(service *self) {
    DT_TRY(dtrun_take_settings(self->call, dt_arena_string(self->arena, dt_ps_team_settings(self->team))));
    if (is_asynchronous(self)) self->call->timeline = NULL; /* that of servers: nobody knows how the clocks of others go */
    return NULL;
}

static void restore_cores(const service *self) {
    if (self->has_cores) sched_setaffinity(0, sizeof self->cores, &self->cores);
}

/* Under one plan. A worker that is asked to end has all stop at one step, after which the others go on without it. */
static dt_status *run_plan(service *self) {
    dtrun_call *call = self->call;
    dt_processes_options options = {.open = dt_ps_team_open_transport,
                                    .context = self->team,
                                    .deadline_seconds = dtrun_deadline(call),
                                    .stop = self->stop,
                                    .stop_of_others = is_worker(self) ? DT_PS_REGROUP : 0,
                                    .outlives = true,
                                    .lets_go = true};
    dt_processes *processes;
    restore_cores(self);
    DT_TRY(dt_processes_open(&options, &processes));
    call->run.processes = processes;
    dt_status *status = self->train(call, self->program);
    if (status == NULL) status = dt_processes_finish(processes);
    if (status != NULL) dt_processes_abort(processes, dt_status_message(status));
    dt_processes_close(processes, 1);
    call->run.processes = NULL;
    return status;
}

/* Whether all have stopped for another plan, and not to end. Who has not heard for which of these finds out there. */
static bool is_to_regroup(const service *self) {
    int regroup = DT_PS_REGROUP;
    atomic_compare_exchange_strong(self->stop, &regroup, 0);
    bool has_stopped = *self->call->run.was_stopped && signal_of(self) == 0;
    if (has_stopped) *self->call->run.was_stopped = false;
    return has_stopped;
}

static dt_status *run_plans(service *self) {
    for (int n_fruitless = 0;;) {
        bool over;
        DT_TRY(dt_ps_team_form(self->team, &self->call->run.resume, &over));
        if (over && signal_of(self) != 0 && !is_worker(self) && !leads(self))
            return dt_error(DT_ABORTED, "signal %d (%s) has asked it to end while it waited for others", signal_of(self), strsignal(signal_of(self)));
        if (over) return NULL;
        double began = dt_seconds_now();
        dt_status *status = run_plan(self);
        bool regroups = is_to_regroup(self);
        if (status == NULL && !regroups) return NULL;
        n_fruitless = status != NULL && dt_seconds_now() - began < AT_ONCE_SECONDS ? n_fruitless + 1 : 0;
        bool gives_up = leads(self) && n_fruitless == MOST_FRUITLESS;
        if (status != NULL && (dt_status_code(status) != DT_ABORTED || gives_up)) return status;
        if (status != NULL && leads(self) && !dt_ps_team_is_over(self->team)) note(dt_status_message(status));
        if (regroups && leads(self)) note("the run goes on with the workers that are there now");
        dt_status_free(status);
        self->call->run.resume = true; /* of what is in the folders of checkpoints and of the log: it is this run's own */
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

/* Server 0 knows before anybody comes whether there is something to go on from, and in how many replicas. */
static dt_status *look_at_past(const service *self, int64_t *replicas) {
    const dt_run_options *run = &self->call->run;
    dt_checkpoint_state past = {0};
    char *path = NULL;
    *replicas = run->replicas;
    if (!leads(self) || run->checkpoint_dir == NULL) return NULL;
    if (!run->resume) return dt_checkpoint_check_new(run->checkpoint_dir);
    DT_TRY(dt_checkpoint_newest(run->checkpoint_dir, &path));
    dt_status *status = path != NULL ? dt_checkpoint_read_state(path, &past) : NULL;
    if (*replicas == 0) *replicas = past.replicas;
    dt_checkpoint_state_free(&past);
    dt_release(path);
    return status;
}

/* Server 0 hears why a process does not go on. Who was started by the same command line as server 0 leaves it to that one to say so. */
static void leave(service *self, const dt_status *status) {
    char reason[160];
    int number = signal_of(self);
    if (leads(self) || (status == NULL && !(is_worker(self) && number != 0))) return;
    snprintf(reason, sizeof reason, "signal %d (%s) has asked it to end: the others go on without it", number, strsignal(number));
    bool is_wrong = is_worker(self) && is_asynchronous(self) && dt_status_code(status) == DT_OUT_OF_RANGE; /* and would be so in any worker */
    bool is_heard = dt_ps_team_leave(self->team, status != NULL ? dt_status_message(status) : reason, is_wrong);
    self->call->was_said = status != NULL && is_heard && self->call->is_local;
}

/* Beside the checkpoints. */
static const char *ledger_of(const service *self) {
    const char *folder = self->call->run.checkpoint_dir;
    bool keeps = folder != NULL && leads(self) && is_asynchronous(self);
    return keeps ? dt_arena_format(self->arena, "%s/ledger.jsonl", folder) : NULL;
}

/* As many descriptors as it may have: connections take some. */
static void raise_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit); /* else it stays: connections are bounded by what there is */
}

static dt_status *serve(service *self) {
    dtrun_call *call = self->call;
    dtrun_words servers = {0};
    uint8_t artifact[SHA256_DIGEST_SIZE];
    const char *settings = NULL;
    int64_t replicas;
    if (call->n_servers == 0) call->n_servers = 1;
    if (!is_worker(self)) DT_TRY(dtrun_settings(call, self->arena, &settings));
    DT_TRY(find_servers(self, &servers));
    DT_TRY(hash_artifact(dt_program_artifact(self->program)->path, artifact));
    DT_TRY(look_at_past(self, &replicas));
    if (call->keys != NULL) DT_TRY(dt_ps_keys_load(call->keys, is_worker(self) ? DT_PS_WORKER : DT_PS_SERVER, &self->keys));
    const char *ledger = ledger_of(self);
    if (ledger != NULL) DT_TRY(dt_file_make_folders(call->run.checkpoint_dir));
    dt_ps_team_options options = {.part = is_worker(self) ? -1 : call->part,
                                  .listen = call->listen,
                                  .servers = servers.items,
                                  .n_servers = is_worker(self) ? (int)servers.n : call->n_servers,
                                  .artifact = artifact,
                                  .settings = settings,
                                  .job = call->job,
                                  .n_workers = call->workers > 0 ? call->workers : 1,
                                  .most_workers = replicas < 1                    ? 1
                                                  : replicas < DT_PS_MOST_WORKERS ? (int)replicas
                                                                                  : DT_PS_MOST_WORKERS,
                                  .deadline_seconds = dtrun_deadline(call),
                                  .is_asynchronous = !is_worker(self) && is_asynchronous(self),
                                  .staleness = call->staleness,
                                  .ledger = ledger,
                                  .resumes = call->run.resume && ledger != NULL && dt_file_exists(ledger),
                                  .keys = call->keys != NULL ? &self->keys : NULL,
                                  .insecure = call->insecure,
                                  .stop = self->stop,
                                  .regroups = call->run.checkpoint_dir != NULL,
                                  .note = note};
    DT_TRY(dt_ps_team_open(&options, &self->team));
    if (!is_worker(self) && !call->is_local)
        fprintf(stderr, "dtrun: note: server %d of %d listens on %s\n", call->part, call->n_servers, dt_ps_team_address(self->team));
    if (signal_of(self) != 0) return NULL;
    if (is_worker(self)) DT_TRY(take_settings(self));
    if (is_asynchronous(self)) self->call->run.team = self->team;
    if (is_asynchronous(self) && is_worker(self)) DT_TRY(dt_ps_team_lease(self->team));
    self->has_cores = sched_getaffinity(0, sizeof self->cores, &self->cores) == 0;
    dt_status *status = run_plans(self);
    leave(self, status);
    return status;
}

dt_status *dtrun_serve(dtrun_call *call, dtrt_program *program, atomic_int *stop, dtrun_train *train) {
    jmp_buf guard;
    service self = {.call = call, .program = program, .stop = stop, .train = train, .arena = dt_arena_create()};
    if (self.arena == NULL || setjmp(guard) != 0) {
        dt_arena_destroy(self.arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    dt_arena_guard(self.arena, &guard);
    call->run.catch_signals();
    raise_limit();
    dt_status *status = serve(&self);
    dt_ps_team_close(self.team, status != NULL ? dt_status_message(status) : NULL);
    dt_ps_keys_forget(&self.keys);
    dt_arena_guard(self.arena, NULL);
    dt_arena_destroy(self.arena);
    return status;
}
