/* supervisor: see supervisor.h. */
#include "runtime/commands/supervisor.h"

#include "runtime/threads/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double KILLING_SECONDS = 0.5; /* for what was killed to be gone */

/* ---- being asked ---- */

static volatile sig_atomic_t asked_by, n_asked;

void dt_supervisor_ask(int number) {
    asked_by = number;
    n_asked++;
}

int dt_supervisor_n_asked(void) { return n_asked; }
int dt_supervisor_asked_by(void) { return asked_by; }

/* ---- starting ---- */

/* In the child: errno where the program cannot be run. */
static int run(char *const *command, const dt_child_options *options, pid_t parent) {
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO); /* who is not in the foreground may not read from a terminal */
    if (options->output > 0) dup2(options->output, STDOUT_FILENO);
    if (options->errors > 0) dup2(options->errors, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, options->dies_by, 0, 0, 0);
    if (getppid() != parent) return ESRCH;
    if (options->variable != NULL) setenv(options->variable, options->set, 1);
    execvp(options->program != NULL ? options->program : command[0], command);
    return errno;
}

dt_status *dt_child_start(char *const *command, const dt_child_options *options, dt_child *child) {
    int failure[2], reason = 0;
    *child = (dt_child){.began = dt_seconds_now()};
    if (pipe2(failure, O_CLOEXEC) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "cannot make a pipe: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        reason = run(command, options, parent);
        (void)!write(failure[1], &reason, sizeof reason);
        _exit(127);
    }
    int forked = errno;
    close(failure[1]);
    bool failed = pid > 0 && read(failure[0], &reason, sizeof reason) == sizeof reason;
    close(failure[0]);
    if (pid < 0) return dt_error(DT_RESOURCE_EXHAUSTED, "cannot start another process: %s", strerror(forked));
    if (!failed) {
        child->pid = pid;
        return NULL;
    }
    waitpid(pid, NULL, 0);
    return dt_error(DT_NOT_FOUND, "cannot run %s: %s", command[0], strerror(reason));
}

/* ---- watching and ending ---- */

bool dt_children_look(dt_child *const *children, int n) {
    bool any = false;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < n; i++) {
            if (children[i]->pid != pid) continue;
            children[i]->pid = 0;
            children[i]->status = status;
            children[i]->has_ended = any = true;
        }
    return any;
}

static bool is_any(dt_child *const *children, int n) {
    for (int i = 0; i < n; i++)
        if (children[i]->pid > 0) return true;
    return false;
}

/* Kills all children of this process, whoever started them; whether there were any. */
static bool kill_all(void) {
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
        kill((pid_t)atoi(one->d_name), SIGKILL);
        any = true;
    }
    if (all != NULL) closedir(all);
    return any;
}

static void pause_shortly(void) { nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL); }

/* Children of children become children when those are gone. */
void dt_children_end(dt_child *const *children, int n, int number, double seconds) {
    for (int i = 0; i < n && number != 0; i++)
        if (children[i]->pid > 0) kill(children[i]->pid, number);
    for (double end = dt_seconds_now() + seconds; is_any(children, n) && dt_seconds_now() < end; dt_children_look(children, n)) pause_shortly();
    for (int i = 0; i < n; i++)
        if (children[i]->pid > 0) kill(-children[i]->pid, SIGKILL);
    for (double end = dt_seconds_now() + KILLING_SECONDS; kill_all() && dt_seconds_now() < end; dt_children_look(children, n)) pause_shortly();
    dt_children_look(children, n);
}

int dt_child_exit_code(const dt_child *child) { return WIFEXITED(child->status) ? WEXITSTATUS(child->status) : 128 + WTERMSIG(child->status); }
