/* dtrun_launch: starts a run of several processes with mpirun, watches it (watch.h), ends what is left of it, and starts it again from its newest
 * checkpoint.
 *
 * A launcher kills all processes when one dies, may not say what that one did, and may hang when a machine is gone. So where the run fails this says
 * who was to blame, unless a process said it (on other machines too: keeper.h), and bounds what follows: what is left of the run on this machine
 * becomes a child of this process, whoever started it (PR_SET_CHILD_SUBREAPER), and is killed. All that processes say passes through this one. */
#include "base/arena.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/checkpoint.h"
#include "runtime/commands/dtrun.h"
#include "runtime/commands/launch_hosts.h"
#include "runtime/commands/supervisor.h"
#include "runtime/commands/watch.h"
#include "runtime/threads/clock.h"

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
static const double AWAY_SECONDS = 1;      /* between two looks, after which this process was stopped itself */
static const double ENDING_SECONDS = 6.0;  /* for mpirun to end, after its processes have ended, or the run has failed */
static const double TERM_SECONDS = 0.5;    /* from SIGTERM to SIGKILL */
static const double ASKING_SECONDS = 10;   /* for a machine to say that it is there */

enum {
    LOOK_MILLISECONDS = 100,
    MESSAGE_BYTES = 1024, /* of a line that a process says, what is looked at */
    USAGE_ERROR = 2
};

static bool is_asked(void) { return dt_supervisor_n_asked() > 0; }

/* What is to be run, and where. */
typedef struct launch {
    const dtrun_call *call;
    dt_mpirun mpirun;
    dt_hosts hosts; /* none: mpirun knows where */
    char *folder;   /* for what one run leaves: states of processes, and what mpirun is told */
    dt_arena *arena;
} launch;

/* One time that mpirun was started. */
typedef struct attempt {
    dt_child mpirun;
    pid_t was; /* its process, also when it has ended */
    dt_watch *watch;
    int errors;               /* where mpirun writes its standard error, and that of all processes */
    char line[MESSAGE_BYTES]; /* of it, as far as it has come */
    size_t n_line;
    char reason[MESSAGE_BYTES];   /* the first that a process has said why the run failed; "": none has */
    double ending;                /* since when it should end; 0: it should not */
    double looked;                /* at whether mpirun is stopped */
    double stopped, most_stopped; /* since when mpirun is stopped by a signal, 0: it is not; for how long it may be */
    bool is_killed;
    int n_heard; /* of dt_supervisor_n_asked */
} attempt;

/* ---- starting ---- */

/* What the command says of an option; NULL: nothing. */
static const char *option_of(const dtrun_call *call, const char *option) {
    size_t n = strlen(option);
    for (int i = 0; i < call->n_words; i++) {
        const char *word = call->words[i];
        if (strncmp(word, option, n) == 0 && word[n] == '=') return word + n + 1;
        if (strcmp(word, option) == 0 && i + 1 < call->n_words) return call->words[i + 1];
    }
    return NULL;
}

/* The command's own, where `launch` is told none. One that is no number the processes refuse. */
static double deadline_of(const dtrun_call *call) {
    const char *said = call->run.deadline_seconds > 0 ? NULL : option_of(call, "--deadline");
    double seconds = said != NULL ? strtod(said, NULL) : 0;
    return seconds >= 1 ? seconds : dtrun_deadline(call);
}

static int n_processes(const launch *self) {
    int n = self->call->n_processes > 0 ? (int)self->call->n_processes : 1;
    int n_slots = dt_hosts_n_slots(&self->hosts);
    if (self->hosts.n == 0) return n;
    return self->call->n_processes > 0 && n < n_slots ? n : n_slots;
}

/* mpirun with its options, this program with what it is to run. */
static dt_status *make_command(launch *self, double deadline_seconds, bool resume, char ***command) {
    const dtrun_call *call = self->call;
    dt_arena *arena = self->arena;
    dt_words words = {0};
    const char *hosts = self->hosts.n > 0 ? dt_arena_format(arena, "%s/hosts", self->folder) : NULL;
    char *program = realpath("/proc/self/exe", NULL);
    const char *name = dt_arena_string(arena, program != NULL ? program : "dtrun");
    free(program);
    if (hosts != NULL) DT_TRY(dt_hosts_write(&self->hosts, &self->mpirun, hosts));
    dt_mpirun_begin(&self->mpirun, n_processes(self), hosts, DT_STATE_FOLDER_VARIABLE, arena, &words);
    dt_list_push(arena, &words, dt_arena_string(arena, name));
    for (int i = 0; i < call->n_words; i++) dt_list_push(arena, &words, call->words[i]);
    dt_list_push(arena, &words, dt_arena_format(arena, "--deadline=%.0f", deadline_seconds));
    if (resume) dt_list_push(arena, &words, dt_arena_string(arena, "--resume"));
    dt_list_push(arena, &words, NULL);
    *command = words.items;
    return NULL;
}

static dt_status *start(attempt *self, char **command, const char *folder) {
    int errors[2];
    if (pipe2(errors, O_CLOEXEC) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "cannot make a pipe: %s", strerror(errno));
    self->errors = errors[0];
    fcntl(self->errors, F_SETFL, O_NONBLOCK);
    dt_child_options options = {.dies_by = SIGTERM, .errors = errors[1], .variable = DT_STATE_FOLDER_VARIABLE, .set = folder};
    dt_status *status = dt_child_start(command, &options, &self->mpirun);
    close(errors[1]);
    self->was = self->mpirun.pid;
    if (dt_status_code(status) != DT_NOT_FOUND) return status;
    dt_status *helpful = dt_error(DT_NOT_FOUND, "%s; install openmpi-bin or mpich, or name the program with --mpirun", dt_status_message(status));
    dt_status_free(status);
    return helpful;
}

/* ---- what processes say ---- */

/* The launcher may have put something before it. */
static void look_at_line(attempt *self) {
    static const char error[] = "dtrun: error: ";
    self->line[self->n_line] = 0;
    const char *found = strstr(self->line, error);
    if (found != NULL && self->reason[0] == 0) snprintf(self->reason, sizeof self->reason, "%s", found + strlen(error));
    self->n_line = 0;
}

/* What has come passes on. */
static void hear(attempt *self) {
    char bytes[4096];
    for (ssize_t n; (n = read(self->errors, bytes, sizeof bytes)) > 0;) {
        (void)!write(STDERR_FILENO, bytes, (size_t)n);
        for (ssize_t i = 0; i < n; i++)
            if (bytes[i] == '\n')
                look_at_line(self);
            else if (self->n_line + 1 < sizeof self->line)
                self->line[self->n_line++] = bytes[i];
    }
}

/* Of whom the reason speaks: "process 2 (node7, pid 4711) has …". "": nobody. */
static void find_blamed(const attempt *self, char host[64]) {
    int process;
    if (sscanf(self->reason, "process %d (%63[^,], pid", &process, host) != 2) host[0] = 0;
}

/* ---- watching ---- */

/* The first time one process is told, which tells the others; the second time all end at once. SIGUSR1 leaves time for a checkpoint, where mpirun
 * that gets a SIGTERM kills its processes a second later. */
static void pass_on(attempt *self) {
    if (dt_supervisor_n_asked() == self->n_heard) return;
    self->n_heard = dt_supervisor_n_asked();
    if (self->n_heard > 1)
        self->is_killed = true;
    else if (!dt_watch_signal(self->watch, SIGUSR1))
        kill(self->mpirun.pid, SIGUSR1);
}

/* What mpirun passes on nobody hears while it is stopped itself, and who it has not started yet does not come. */
static bool is_stopped_for_long(attempt *self) {
    bool is_stopped = self->mpirun.pid > 0 && dt_process_is_stopped(self->mpirun.pid);
    double now = dt_seconds_now();
    bool was_away = now - self->looked > AWAY_SECONDS; /* stopped itself */
    self->looked = now;
    if (!is_stopped || self->stopped == 0 || was_away) self->stopped = is_stopped ? now : 0;
    return is_stopped && now - self->stopped > self->most_stopped;
}

/* Until mpirun has ended, or has to be. Returns what was to be thought of the run then. */
static dt_watch_outlook watch(attempt *self) {
    dt_watch_outlook outlook = DT_WATCH_RUNS;
    dt_child *mpirun = &self->mpirun;
    while (mpirun->pid > 0 && !self->is_killed) {
        dt_watch_look(self->watch, LOOK_MILLISECONDS);
        hear(self);
        pass_on(self);
        dt_children_look(&mpirun, 1);
        outlook = dt_watch_find_outlook(self->watch);
        if (outlook == DT_WATCH_RUNS && self->reason[0] != 0) outlook = DT_WATCH_FAILS;
        double now = dt_seconds_now();
        if (outlook != DT_WATCH_RUNS && self->ending == 0) self->ending = now;
        if (is_stopped_for_long(self) || outlook == DT_WATCH_STALLS || (self->ending > 0 && now - self->ending > ENDING_SECONDS))
            self->is_killed = true;
    }
    return outlook;
}

/* ---- how it ended ---- */

static int exit_code(const attempt *self) { return self->is_killed ? 1 : dt_child_exit_code(&self->mpirun); }

/* The exit status, after a sentence where there is something to say. */
static int judge(attempt *self, dt_watch_outlook outlook) {
    int code = exit_code(self);
    dt_text why = {0};
    if (is_asked()) return code == 0 ? 0 : DTRUN_STOPPED;
    if (self->is_killed && outlook == DT_WATCH_ENDS && self->reason[0] == 0) {
        fprintf(stderr, "dtrun: note: all processes have ended, and mpirun has not: it was killed\n");
        return 0;
    }
    if (code == 0 || self->reason[0] != 0) return code;
    if (self->stopped > 0)
        dt_text_format(&why, "mpirun (pid %d) was stopped by a signal and has not gone on for %.3g s", (int)self->was,
                       dt_seconds_now() - self->stopped);
    else
        dt_watch_explain(self->watch, outlook, &why);
    if (why.n == 0 && !self->is_killed && WIFSIGNALED(self->mpirun.status))
        dt_text_format(&why, "mpirun has disappeared: signal %d ended it", WTERMSIG(self->mpirun.status));
    if (why.n > 0) {
        fprintf(stderr, "dtrun: error: %s\n", why.data);
        snprintf(self->reason, sizeof self->reason, "%s", why.data);
    }
    dt_text_free(&why);
    return code;
}

static dt_status *try(launch *self, bool resume, int *code, char blamed[64]) {
    double deadline = deadline_of(self->call);
    attempt made = {.errors = -1, .most_stopped = deadline + FINDING_SECONDS};
    dt_child *mpirun = &made.mpirun;
    char **command;
    DT_TRY(dt_file_remove_tree(self->folder));
    DT_TRY(dt_file_make_folders(self->folder));
    DT_TRY(dt_state_folder_mark(self->folder));
    DT_TRY(make_command(self, deadline, resume, &command));
    DT_TRY(dt_watch_create(self->folder, n_processes(self), self->hosts.n > 0, dt_processes_start_seconds(deadline) + FINDING_SECONDS,
                           deadline + FINDING_SECONDS, &made.watch));
    dt_status *status = start(&made, command, self->folder);
    if (status == NULL) {
        dt_watch_outlook outlook = watch(&made);
        dt_children_end(&mpirun, 1, SIGTERM, TERM_SECONDS);
        hear(&made);
        *code = judge(&made, outlook);
        find_blamed(&made, blamed);
    }
    if (made.errors >= 0) close(made.errors);
    dt_watch_destroy(made.watch);
    return status;
}

/* ---- again ---- */

/* Where the command keeps checkpoints; NULL: nowhere. */
static const char *checkpoints_of(const dtrun_call *call) {
    return strcmp(call->words[0], "train") == 0 ? option_of(call, "--checkpoint-dir") : NULL;
}

static bool saves(const dtrun_call *call) { return checkpoints_of(call) != NULL; }

/* A restart goes on from what is there: all of it has to be this run's. */
static dt_status *check_past(const dtrun_call *call) {
    for (int i = 0; i < call->n_words; i++)
        if (strcmp(call->words[i], "--resume") == 0) return NULL;
    return saves(call) && call->restarts > 0 ? dt_checkpoint_check_new(checkpoints_of(call)) : NULL;
}

static dt_status *leave_machines_out(launch *self, const char *blamed) {
    dt_text notes = {0};
    if (self->hosts.n < 2) return NULL;
    DT_TRY(dt_hosts_ask(&self->hosts, &self->mpirun, self->folder, ASKING_SECONDS, is_asked, self->arena));
    if (is_asked()) return NULL; /* who has not answered may be there */
    dt_hosts_leave_out(&self->hosts, blamed, &notes);
    if (notes.n > 0) fputs(notes.data, stderr);
    dt_text_free(&notes);
    return NULL;
}

static void say_restart(const launch *self, int64_t number) {
    const char *from = saves(self->call) ? "newest checkpoint" : "beginning: there is no --checkpoint-dir";
    int n = n_processes(self);
    fprintf(stderr, "dtrun: note: restart %" PRId64 " of %" PRId64 ", with %d process%s, from the %s\n", number, self->call->restarts, n,
            n == 1 ? "" : "es", from);
}

/* Until a run ends well, is stopped, or has failed too often. */
static dt_status *run_all(launch *self, int *code) {
    for (int64_t restarts = 0;; restarts++) {
        char blamed[64] = "";
        DT_TRY(try(self, restarts > 0 && saves(self->call), code, blamed));
        bool is_over = *code == 0 || *code == DTRUN_STOPPED || *code == USAGE_ERROR || is_asked();
        if (is_over || restarts == self->call->restarts) return NULL;
        DT_TRY(leave_machines_out(self, blamed));
        if (is_asked()) return NULL;
        say_restart(self, restarts + 1);
    }
}

static dt_status *find_hosts(launch *self) {
    const dtrun_call *call = self->call;
    if (call->hosts == NULL && call->hostfile == NULL) return NULL;
    if (call->hosts != NULL) DT_TRY(dt_hosts_parse(call->hosts, self->arena, &self->hosts));
    if (call->hostfile != NULL) DT_TRY(dt_hosts_read(call->hostfile, self->arena, &self->hosts));
    if (call->n_processes > dt_hosts_n_slots(&self->hosts))
        return dt_error(DT_INVALID_ARGUMENT, "-n %" PRId64 " is more than the %d that the machines may have; node1:4 is one that may have four",
                        call->n_processes, dt_hosts_n_slots(&self->hosts));
    return dt_mpirun_identify(&self->mpirun, is_asked, self->arena);
}

dt_status *dtrun_launch(const dtrun_call *call, int *code) {
    char folder[300];
    const char *parent = getenv("TMPDIR");
    jmp_buf guard;
    launch self = {.call = call,
                   .mpirun = {.program = call->mpirun != NULL ? call->mpirun : "mpirun", .options = call->mpirun_options},
                   .folder = folder,
                   .arena = dt_arena_create()};
    if (self.arena == NULL || setjmp(guard) != 0) {
        dt_children_end(NULL, 0, 0, 0);
        dt_arena_destroy(self.arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    dt_arena_guard(self.arena, &guard);
    dtrun_catch_signals(dt_supervisor_ask);
    signal(SIGPIPE, SIG_IGN); /* a run goes on when nobody reads its errors */
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    snprintf(folder, sizeof folder, "%.250s/dtrun-launch-XXXXXX", parent != NULL && *parent != 0 ? parent : "/tmp");
    dt_status *status = check_past(call);
    if (status == NULL) status = find_hosts(&self);
    if (status == NULL && mkdtemp(folder) == NULL) status = dt_error(DT_IO, "%s: cannot create it: %s", folder, strerror(errno));
    if (status == NULL) {
        status = run_all(&self, code);
        dt_children_end(NULL, 0, 0, 0); /* what machines were asked by may have left processes of its own */
        dt_status_free(dt_file_remove_tree(folder));
    }
    dt_arena_destroy(self.arena);
    return status;
}
