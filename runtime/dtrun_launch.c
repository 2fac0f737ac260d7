/* dtrun_launch: starts a run of several processes with mpirun, watches it (watch.h), ends what is left of it, and starts it again from its newest
 * checkpoint.
 *
 * A launcher kills all processes when one dies, may not say what that one did, and may hang when a machine is gone. So where the run fails this says
 * who was to blame, and bounds what follows: what is left of the run on this machine becomes a child of this process, whoever started it
 * (PR_SET_CHILD_SUBREAPER), and is killed. */
#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/dtrun.h"
#include "runtime/threads/clock.h"
#include "runtime/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double FINDING_SECONDS = 2.5; /* beyond the deadline, for the processes to find out themselves who is to blame */
static const double ENDING_SECONDS = 6.0;  /* for mpirun to end, after its processes have ended, or the run has failed */
static const double TERM_SECONDS = 0.5;    /* from SIGTERM to SIGKILL */

enum {
    LOOK_MILLISECONDS = 100,
    USAGE_ERROR = 2
};

static volatile sig_atomic_t n_asked; /* how often somebody asked for the end */

static void ask_to_stop(int number) {
    (void)number;
    n_asked++;
}

/* One time that mpirun was started. */
typedef struct attempt {
    pid_t mpirun; /* and its process group */
    dt_watch *watch;
    double ending; /* since when it should end; 0: it should not */
    bool is_killed;
    int n_heard; /* of n_asked */
    int status;  /* of wait */
} attempt;

/* ---- starting ---- */

static int n_processes(const dtrun_call *call) { return call->n_processes > 0 ? (int)call->n_processes : 1; }

/* mpirun with its options, this program with what it is to run. */
static char **make_command(const dtrun_call *call, double deadline_seconds, bool resume, dt_arena *arena) {
    struct {
        char **items;
        size_t n, capacity;
    } made = {0};
    char *options = dt_arena_string(arena, call->mpirun_options != NULL ? call->mpirun_options : ""), *rest;
    char *program = realpath("/proc/self/exe", NULL);
    dt_list_push(arena, &made, dt_arena_string(arena, call->mpirun != NULL ? call->mpirun : "mpirun"));
    dt_list_push(arena, &made, dt_arena_string(arena, "-n"));
    dt_list_push(arena, &made, dt_arena_format(arena, "%d", n_processes(call)));
    for (char *word = strtok_r(options, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) dt_list_push(arena, &made, word);
    dt_list_push(arena, &made, dt_arena_string(arena, program != NULL ? program : "dtrun"));
    for (int i = 0; i < call->n_words; i++) dt_list_push(arena, &made, call->words[i]);
    dt_list_push(arena, &made, dt_arena_format(arena, "--deadline=%.0f", deadline_seconds));
    if (resume) dt_list_push(arena, &made, dt_arena_string(arena, "--resume"));
    dt_list_push(arena, &made, NULL);
    free(program);
    return made.items;
}

/* In a process group of its own, which signals of the terminal do not reach. */
static dt_status *start(attempt *self, char **command, const char *folder) {
    int failure[2], reason = 0;
    if (pipe2(failure, O_CLOEXEC) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "cannot make a pipe: %s", strerror(errno));
    self->mpirun = fork();
    if (self->mpirun == 0) {
        int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, STDIN_FILENO); /* who is not in the foreground may not read from a terminal */
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
        setenv(DT_STATE_FOLDER_VARIABLE, folder, 1);
        execvp(command[0], command);
        reason = errno;
        (void)!write(failure[1], &reason, sizeof reason);
        _exit(127);
    }
    close(failure[1]);
    bool failed = self->mpirun > 0 && read(failure[0], &reason, sizeof reason) == sizeof reason;
    close(failure[0]);
    if (self->mpirun < 0) return dt_error(DT_RESOURCE_EXHAUSTED, "cannot start another process: %s", strerror(errno));
    if (!failed) return NULL;
    waitpid(self->mpirun, NULL, 0);
    return dt_error(DT_NOT_FOUND, "cannot run %s: %s; install openmpi-bin or mpich, or name the program with --mpirun", command[0], strerror(reason));
}

/* ---- ending ---- */

/* Sends a signal to all children of this process; whether there were any. */
static bool signal_children(int number) {
    DIR *all = opendir("/proc");
    bool any = false;
    for (struct dirent *one; all != NULL && (one = readdir(all)) != NULL;) {
        char path[300], text[512] = "";
        int parent;
        snprintf(path, sizeof path, "/proc/%s/stat", one->d_name);
        FILE *file = one->d_name[0] >= '1' && one->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (file == NULL) continue;
        char *end = fgets(text, sizeof text, file) != NULL ? strrchr(text, ')') : NULL;
        fclose(file);
        if (end == NULL || sscanf(end, ") %*c %d", &parent) != 1 || parent != getpid()) continue;
        kill((pid_t)atoi(one->d_name), number);
        any = true;
    }
    if (all != NULL) closedir(all);
    return any;
}

static void reap(attempt *self) {
    int status;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
        if (ended == self->mpirun) self->status = status, self->mpirun = 0;
}

/* Children of children become children when those are gone. */
static void kill_all(attempt *self) {
    if (self->mpirun > 0) kill(-self->mpirun, SIGTERM);
    for (double end = dt_seconds_now() + TERM_SECONDS; self->mpirun > 0 && dt_seconds_now() < end; reap(self))
        nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    if (self->mpirun > 0) kill(-self->mpirun, SIGKILL);
    for (double end = dt_seconds_now() + TERM_SECONDS; signal_children(SIGKILL) && dt_seconds_now() < end; reap(self))
        nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL);
    reap(self);
}

/* ---- watching ---- */

/* The first time one process is told, which tells the others; the second time all end at once. SIGUSR1 leaves time for a checkpoint, where mpirun
 * that gets a SIGTERM kills its processes a second later. */
static void pass_on(attempt *self) {
    if (n_asked == self->n_heard) return;
    self->n_heard = n_asked;
    if (n_asked > 1)
        self->is_killed = true;
    else if (!dt_watch_signal(self->watch, SIGUSR1))
        kill(self->mpirun, SIGUSR1);
}

/* Until mpirun has ended, or has to be. Returns what was to be thought of the run then. */
static dt_watch_outlook watch(attempt *self) {
    dt_watch_outlook outlook = DT_WATCH_RUNS;
    while (self->mpirun > 0 && !self->is_killed) {
        dt_watch_look(self->watch, LOOK_MILLISECONDS);
        pass_on(self);
        reap(self);
        outlook = dt_watch_find_outlook(self->watch);
        double now = dt_seconds_now();
        if (outlook != DT_WATCH_RUNS && self->ending == 0) self->ending = now;
        if (outlook == DT_WATCH_STALLS || (self->ending > 0 && now - self->ending > ENDING_SECONDS)) self->is_killed = true;
    }
    return outlook;
}

/* ---- how it ended ---- */

static int exit_code(const attempt *self) {
    if (self->is_killed) return 1;
    return WIFEXITED(self->status) ? WEXITSTATUS(self->status) : 128 + WTERMSIG(self->status);
}

/* The exit status, after a sentence where there is something to say. */
static int judge(const attempt *self, dt_watch_outlook outlook) {
    int code = exit_code(self);
    dt_text why = {0};
    if (n_asked > 0) return code == 0 ? 0 : DTRUN_STOPPED;
    if (self->is_killed && outlook == DT_WATCH_ENDS) {
        fprintf(stderr, "dtrun: note: all processes have ended, and mpirun has not: it was killed\n");
        return 0;
    }
    if (code == 0) return 0;
    dt_watch_explain(self->watch, outlook, &why);
    if (why.n == 0 && !self->is_killed && WIFSIGNALED(self->status))
        dt_text_format(&why, "mpirun has disappeared: signal %d ended it", WTERMSIG(self->status));
    if (why.n > 0) fprintf(stderr, "dtrun: error: %s\n", why.data);
    dt_text_free(&why);
    return code;
}

static dt_status *run_once(const dtrun_call *call, const char *folder, bool resume, dt_arena *arena, int *code) {
    attempt self = {0};
    double deadline = dtrun_deadline(call);
    char **command = make_command(call, deadline, resume, arena);
    DT_TRY(dt_file_remove_tree(folder));
    DT_TRY(dt_file_make_folders(folder));
    DT_TRY(
        dt_watch_create(folder, n_processes(call), dt_processes_start_seconds(deadline) + FINDING_SECONDS, deadline + FINDING_SECONDS, &self.watch));
    dt_status *status = start(&self, command, folder);
    if (status == NULL) {
        dt_watch_outlook outlook = watch(&self);
        kill_all(&self);
        *code = judge(&self, outlook);
    }
    dt_watch_destroy(self.watch);
    return status;
}

static bool saves(const dtrun_call *call) {
    for (int i = 0; i < call->n_words; i++)
        if (strncmp(call->words[i], "--checkpoint-dir", strlen("--checkpoint-dir")) == 0) return strcmp(call->words[0], "train") == 0;
    return false;
}

/* Until a run ends well, is stopped, or has failed too often. */
static dt_status *run_all(const dtrun_call *call, const char *folder, dt_arena *arena, int *code) {
    for (int64_t restarts = 0;; restarts++) {
        DT_TRY(run_once(call, folder, restarts > 0 && saves(call), arena, code));
        bool is_over = *code == 0 || *code == DTRUN_STOPPED || *code == USAGE_ERROR || n_asked > 0;
        if (is_over || restarts == call->restarts) return NULL;
        fprintf(stderr, "dtrun: note: restart %" PRId64 " of %" PRId64 ", from the %s\n", restarts + 1, call->restarts,
                saves(call) ? "newest checkpoint" : "beginning: there is no --checkpoint-dir");
    }
}

dt_status *dtrun_launch(const dtrun_call *call, int *code) {
    char folder[300];
    const char *parent = getenv("TMPDIR");
    jmp_buf guard;
    dt_arena *arena = dt_arena_create();
    if (arena == NULL || setjmp(guard) != 0) {
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    dt_arena_guard(arena, &guard);
    dtrun_catch_signals(ask_to_stop);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    snprintf(folder, sizeof folder, "%.250s/dtrun-launch-XXXXXX", parent != NULL && *parent != 0 ? parent : "/tmp");
    dt_status *status = mkdtemp(folder) != NULL ? NULL : dt_error(DT_IO, "%s: cannot create it: %s", folder, strerror(errno));
    if (status == NULL) {
        status = run_all(call, folder, arena, code);
        dt_status_free(dt_file_remove_tree(folder));
    }
    dt_arena_destroy(arena);
    return status;
}
