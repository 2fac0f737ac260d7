/* local_servers: dtrun train --local-servers S --workers W: parameter servers and workers on this machine, each a process of its own. This one starts
 * them, starts those again that something has killed, and ends as server 0 does. */
#include "base/memory.h"
#include "runtime/commands/dtrun.h"
#include "runtime/threads/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double AT_ONCE_SECONDS = 1; /* a child that lives no longer has no future */
static const double ENDING_SECONDS = 10; /* for all to end once server 0 has */
enum {
    MOST_AT_ONCE = 5 /* times in a row that a child may die at once */
};

static volatile sig_atomic_t asked; /* number of the signal that asked for the end */

static void ask_to_stop(int number) { asked = number; }

typedef struct child {
    pid_t pid; /* 0: it has ended */
    int number;
    bool is_server;
    double began;
    int n_at_once, n_starts;
} child;

typedef struct local_run {
    const dtrun_call *call;
    dt_arena *arena;
    const char *program; /* this one */
    int n_servers, n_workers;
    int *ports;          /* [n_servers] sockets that keep each port for its server */
    char **addresses;    /* [n_servers] */
    const char *servers; /* all of them, with commas between */
    child *children;     /* [n_servers + n_workers] */
    int n_children;
    bool is_over;      /* server 0 has ended */
    dt_status *failed; /* what it will end for, or is killed for; NULL: nothing */
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
    dtrun_list_given(call, child->is_server ? DTRUN_FOR_SERVERS : DTRUN_FOR_WORKERS, arena, &words);
    dt_list_push(arena, &words, dt_arena_format(arena, "--servers=%s", run->servers));
    if (child->is_server) {
        dt_list_push(arena, &words, dt_arena_format(arena, "--listen=%s", run->addresses[child->number]));
        dt_list_push(arena, &words, dt_arena_format(arena, "--part=%d/%d", child->number, run->n_servers));
        dt_list_push(arena, &words, dt_arena_format(arena, "--workers=%d", run->n_workers));
        if (child->n_starts > 0 && call->run.checkpoint_dir != NULL && !call->run.resume) dt_list_push(arena, &words, "--resume");
    }
    dt_list_push(arena, &words, call->program);
    dt_list_push(arena, &words, NULL);
    return (char **)(uintptr_t)words.items;
}

static dt_status *start(local_run *run, child *child) {
    char **command = command_of(run, child);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) return dt_error(DT_RESOURCE_EXHAUSTED, "cannot start another process: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        if (getppid() != parent) _exit(1);
        execv(command[0], command);
        _exit(127);
    }
    child->pid = pid;
    child->began = dt_seconds_now();
    child->n_starts++;
    return NULL;
}

static void signal_all(const local_run *run, int number) {
    for (int i = 0; i < run->n_children; i++)
        if (run->children[i].pid > 0) kill(run->children[i].pid, number);
}

static int n_alive(const local_run *run, bool servers) {
    int n = 0;
    for (int i = 0; i < run->n_children; i++) n += run->children[i].pid > 0 && run->children[i].is_server == servers;
    return n;
}

/* One has been killed: it is started again, unless that does not help. */
static dt_status *start_again(local_run *run, child *child, int number) {
    const char *what = child->is_server ? "server" : "worker";
    child->n_at_once = dt_seconds_now() - child->began < AT_ONCE_SECONDS ? child->n_at_once + 1 : 0;
    if (child->n_at_once == MOST_AT_ONCE)
        return dt_error(DT_ABORTED, "%s %d has been killed %d times as soon as it was started: signal %d (%s)", what, child->number, MOST_AT_ONCE,
                        number, strsignal(number));
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
static dt_status *handle(local_run *run, pid_t pid, int status, int *code) {
    child *it = NULL;
    for (int i = 0; i < run->n_children; i++)
        if (run->children[i].pid == pid) it = &run->children[i];
    if (it == NULL) return NULL;
    it->pid = 0;
    bool leads = it->is_server && it->number == 0;
    if (WIFSIGNALED(status) && asked == 0) return start_again(run, it, WTERMSIG(status));
    int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (leads) {
        *code = exit_code;
        run->is_over = true;
    }
    if (leads || exit_code == 0 || asked != 0) return NULL;
    if (it->is_server) fail(run, dt_error(DT_ABORTED, "server %d has failed", it->number));
    if (n_alive(run, false) == 0) fail(run, dt_error(DT_ABORTED, "all workers have failed"));
    return NULL;
}

static dt_status *watch(local_run *run, int *code) {
    int passed_on = 0;
    while (!run->is_over) {
        int status;
        if (asked != 0 && passed_on == 0) {
            passed_on = asked;
            signal_all(run, passed_on);
        }
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) DT_TRY(handle(run, pid, status, code));
        if (run->failed != NULL && !run->is_over && dt_seconds_now() - run->failed_at > ENDING_SECONDS) return dt_status_first(run->failed, NULL);
        if (pid <= 0) nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    }
    return NULL;
}

/* All others end by themselves once server 0 has ended well. */
static void end_all(local_run *run, bool in_peace) {
    double end = dt_seconds_now() + (in_peace ? ENDING_SECONDS : 0);
    while (n_alive(run, true) + n_alive(run, false) > 0) {
        int status;
        if (dt_seconds_now() >= end) signal_all(run, SIGKILL);
        pid_t pid = waitpid(-1, &status, WNOHANG);
        for (int i = 0; i < run->n_children && pid > 0; i++)
            if (run->children[i].pid == pid) run->children[i].pid = 0;
        if (pid <= 0) nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    }
}

static dt_status *start_all(local_run *run) {
    run->ports = DT_NEW_ARRAY(run->arena, int, run->n_servers);
    run->addresses = DT_NEW_ARRAY(run->arena, char *, run->n_servers);
    run->children = DT_NEW_ARRAY(run->arena, child, run->n_servers + run->n_workers);
    for (int s = 0; s < run->n_servers; s++) DT_TRY(reserve_port(run, s));
    for (int i = 0; i < run->n_servers + run->n_workers; i++) {
        bool is_server = i < run->n_servers;
        run->children[run->n_children] = (child){.is_server = is_server, .number = is_server ? i : i - run->n_servers};
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
    dtrun_catch_signals(ask_to_stop);
    dt_status *status = start_all(&run);
    if (status == NULL) status = watch(&run, code);
    end_all(&run, status == NULL);
    if (status != run.failed) dt_status_free(run.failed);
    for (int s = 0; s < run.n_servers && run.ports != NULL; s++)
        if (run.ports[s] > 0) close(run.ports[s]);
    dt_arena_guard(arena, NULL);
    dt_arena_destroy(arena);
    return status;
}
