/* local_servers: dtrun train --local-servers S --workers W: parameter servers and workers on this machine, each a process of its own. This one starts
 * them, starts those again that something has killed, and ends as server 0 does. */
#include "base/cpu.h"
#include "base/memory.h"
#include "runtime/checkpoint.h"
#include "runtime/commands/dtrun.h"
#include "runtime/commands/supervisor.h"
#include "runtime/threads/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double AT_ONCE_SECONDS = 1; /* a child that lives no longer has no future */
static const double ENDING_SECONDS = 10; /* for all to end once server 0 has */
enum {
    MOST_HOPELESS = 5 /* times in a row that a child may die at once, or by a fault of its own */
};

typedef struct child {
    dt_child process;
    int number;
    bool is_server;
    int n_hopeless, n_starts;
} child;

typedef struct local_run {
    const dtrun_call *call;
    dt_arena *arena;
    const char *program; /* this one, as others are told */
    int n_servers, n_workers;
    int *ports;           /* [n_servers] sockets that keep each port for its server */
    char **addresses;     /* [n_servers] */
    const char *servers;  /* all of them, with commas between */
    child *children;      /* [n_servers + n_workers] */
    dt_child **processes; /* [n_children] theirs */
    int n_children;
    bool has_ended_well; /* somebody has, who does so only when all is trained and saved */
    bool is_over;        /* server 0 has ended */
    dt_status *failed;   /* what it will end for, or is killed for; NULL: nothing */
    double failed_at;
} local_run;

/* ---- addresses ---- */

/* A port that the system chooses. It stays ours: a socket that is bound and does not listen keeps others away, but not a server that is started
 * again. */
static dt_status *reserve_port(local_run *run, int s) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int yes = 1, port = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    run->ports[s] = port;
    bool bound = port >= 0 && setsockopt(port, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                 bind(port, (struct sockaddr *)&address, sizeof address) == 0 && getsockname(port, (struct sockaddr *)&address, &bytes) == 0;
    if (!bound) return dt_error(DT_IO, "no port for a parameter server on this machine: %s", strerror(errno));
    run->addresses[s] = dt_arena_format(run->arena, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    run->servers = s == 0 ? run->addresses[0] : dt_arena_format(run->arena, "%s,%s", run->servers, run->addresses[s]);
    return NULL;
}

/* ---- children ---- */

static char **command_of(const local_run *run, const child *child) {
    dtrun_words words = {0};
    dt_arena *arena = run->arena;
    const dtrun_call *call = run->call;
    dt_list_push(arena, &words, run->program);
    dt_list_push(arena, &words, child->is_server ? "ps-server" : "ps-worker");
    dt_list_push(arena, &words, "--local");
    dtrun_list_given(call, child->is_server ? DT_FOR_SERVER : DT_FOR_WORKER, arena, &words);
    dt_list_push(arena, &words, dt_arena_format(arena, "--servers=%s", run->servers));
    if (child->is_server) {
        dt_list_push(arena, &words, dt_arena_format(arena, "--listen=%s", run->addresses[child->number]));
        dt_list_push(arena, &words, dt_arena_format(arena, "--part=%d/%d", child->number, run->n_servers));
        dt_list_push(arena, &words, dt_arena_format(arena, "--workers=%d", run->n_workers));
        if (child->n_starts > 0 && !call->run.resume) dt_list_push(arena, &words, "--resume");
    }
    bool shares_cores = !child->is_server && call->staleness != 0 && call->run.devices == NULL; /* workers that train together find out themselves */
    int n_cores = dt_cpu_n_cores() / run->n_workers;
    if (shares_cores) dt_list_push(arena, &words, dt_arena_format(arena, "--devices=cpu:1x%d", n_cores > 0 ? n_cores : 1));
    dt_list_push(arena, &words, call->program);
    dt_list_push(arena, &words, NULL);
    return (char **)(uintptr_t)words.items;
}

static dt_status *start(local_run *run, child *child) {
    DT_TRY(dt_child_start(command_of(run, child), &(dt_child_options){.program = "/proc/self/exe", .dies_by = SIGKILL}, &child->process));
    child->n_starts++;
    return NULL;
}

/* The signal that this process was sent. The servers end the run; until they have, workers are needed. Who asks again wants it at once. */
static void pass_on(const local_run *run, bool is_first) {
    for (int i = 0; i < run->n_children; i++)
        if (run->children[i].process.pid > 0 && (run->children[i].is_server || !is_first))
            kill(run->children[i].process.pid, dt_supervisor_asked_by());
}

static int n_alive(const local_run *run, bool servers) {
    int n = 0;
    for (int i = 0; i < run->n_children; i++) n += run->children[i].process.pid > 0 && run->children[i].is_server == servers;
    return n;
}

/* Whether a signal comes from a fault of the process itself. */
static bool is_own_fault(int number) {
    static const int faults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (number == faults[i]) return true;
    return false;
}

/* One has been killed: it is started again, unless that does not help. */
static dt_status *start_again(local_run *run, child *child, int number) {
    const char *what = child->is_server ? "server" : "worker";
    bool is_hopeless = is_own_fault(number) || dt_seconds_now() - child->process.began < AT_ONCE_SECONDS;
    child->n_hopeless = is_hopeless ? child->n_hopeless + 1 : 0;
    if (child->n_hopeless == MOST_HOPELESS)
        return dt_error(DT_ABORTED, "%s %d has disappeared %d times in a row, and starting it again does not help: signal %d (%s)", what,
                        child->number, MOST_HOPELESS, number, strsignal(number));
    fprintf(stderr, "dtrun: note: %s %d has disappeared: signal %d (%s) ended it; it is started again\n", what, child->number, number,
            strsignal(number));
    return start(run, child);
}

/* Server 0 has the time to find out itself, and to say why. */
static void fail(local_run *run, dt_status *status) {
    if (run->failed == NULL) run->failed_at = dt_seconds_now();
    run->failed = dt_status_first(run->failed, status);
}

/* *code: server 0's, once it has ended. */
static dt_status *handle(local_run *run, child *it, int *code) {
    int status = it->process.status, asked = dt_supervisor_n_asked();
    it->process.has_ended = false;
    bool leads = it->is_server && it->number == 0, is_killed = WIFSIGNALED(status) && asked == 0,
         is_done = is_killed && (run->has_ended_well || run->is_over);
    if (is_killed && !is_done) return start_again(run, it, WTERMSIG(status));
    int exit_code = is_done ? 0 : dt_child_exit_code(&it->process);
    run->has_ended_well |= exit_code == 0;
    if (leads) {
        *code = exit_code;
        run->is_over = true;
    }
    if (leads || exit_code == 0 || asked != 0) return NULL;
    if (it->is_server) fail(run, dt_error(DT_ABORTED, "server %d has failed", it->number));
    if (n_alive(run, false) == 0) fail(run, dt_error(DT_ABORTED, "no worker is left"));
    return NULL;
}

/* Those that were killed come last: who has ended well at the same time, maybe before, says that they are not needed any more. */
static dt_status *handle_ended(local_run *run, int *code) {
    dt_status *status = NULL;
    for (int killed = 0; killed < 2; killed++)
        for (int i = 0; i < run->n_children; i++)
            if (run->children[i].process.has_ended && WIFSIGNALED(run->children[i].process.status) == killed)
                status = dt_status_first(status, handle(run, &run->children[i], code));
    return status;
}

static dt_status *watch(local_run *run, int *code) {
    for (int n_passed_on = 0; !run->is_over;) {
        int n_asked = dt_supervisor_n_asked();
        if (n_asked > n_passed_on) {
            pass_on(run, n_passed_on == 0);
            n_passed_on = n_asked;
        }
        bool any = dt_children_look(run->processes, run->n_children);
        if (any) DT_TRY(handle_ended(run, code));
        if (run->failed != NULL && !run->is_over && dt_seconds_now() - run->failed_at > ENDING_SECONDS) return dt_status_first(run->failed, NULL);
        if (!any) nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    }
    return NULL;
}

/* All others end by themselves once server 0 has ended well, and when they are asked to once it has not. */
static void end_all(const local_run *run, bool has_run, int code) {
    dt_children_end(run->processes, run->n_children, code != 0 ? SIGTERM : 0, has_run ? ENDING_SECONDS : 0);
}

/* A server that is started again goes on from what is there: all of it has to be this run's. */
static dt_status *check_past(const dt_run_options *run) {
    return run->checkpoint_dir == NULL || run->resume ? NULL : dt_checkpoint_check_new(run->checkpoint_dir);
}

static dt_status *start_all(local_run *run) {
    run->ports = DT_NEW_ARRAY(run->arena, int, run->n_servers);
    run->addresses = DT_NEW_ARRAY(run->arena, char *, run->n_servers);
    run->children = DT_NEW_ARRAY(run->arena, child, run->n_servers + run->n_workers);
    run->processes = DT_NEW_ARRAY(run->arena, dt_child *, run->n_servers + run->n_workers);
    for (int s = 0; s < run->n_servers; s++) DT_TRY(reserve_port(run, s));
    for (int i = 0; i < run->n_servers + run->n_workers; i++) {
        bool is_server = i < run->n_servers;
        run->children[run->n_children] = (child){.is_server = is_server, .number = is_server ? i : i - run->n_servers};
        run->processes[run->n_children] = &run->children[run->n_children].process;
        DT_TRY(start(run, &run->children[run->n_children++]));
    }
    return NULL;
}

dt_status *dtrun_local_servers(const dtrun_call *call, int *code) {
    jmp_buf guard;
    dt_arena *arena = dt_arena_create();
    if (arena == NULL || setjmp(guard) != 0) {
        dt_arena_destroy(arena); /* children die with this process */
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    dt_arena_guard(arena, &guard);
    char *program = realpath("/proc/self/exe", NULL);
    local_run run = {.call = call,
                     .arena = arena,
                     .program = dt_arena_string(arena, program != NULL ? program : "dtrun"),
                     .n_servers = call->local_servers,
                     .n_workers = call->workers > 0 ? call->workers : 1};
    free(program);
    dtrun_catch_signals(dt_supervisor_ask);
    const char *settings;
    dt_status *status = dtrun_settings(call, arena, &settings); /* what all servers would say is said here, once */
    if (status == NULL) status = check_past(&call->run);
    if (status == NULL) status = start_all(&run);
    if (status == NULL) status = watch(&run, code);
    end_all(&run, status == NULL, *code);
    if (status != run.failed) dt_status_free(run.failed);
    for (int s = 0; s < run.n_servers && run.ports != NULL; s++)
        if (run.ports[s] > 0) close(run.ports[s]);
    dt_arena_guard(arena, NULL);
    dt_arena_destroy(arena);
    return status;
}
