/* keeper: see keeper.h. Launchers signal the process group, or all that is in a container: the child is in both, so nothing is passed on, and this
 * process only has to outlive what asks for an orderly end. Where it is killed itself, its child goes with it. */
#include "runtime/commands/keeper.h"

#include "runtime/comm/process_state.h"
#include "runtime/threads/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const int orderly[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

enum {
    N_ORDERLY = sizeof orderly / sizeof *orderly
};

static bool is_orderly(int number) {
    for (int i = 0; i < N_ORDERLY; i++)
        if (orderly[i] == number) return true;
    return false;
}

/* For the person, and in the process's own state for whoever watches the run. What has failed has said why. */
static void say_what_ended(const char *folder, int process, int n_processes, pid_t child, int number) {
    dt_process_state state;
    dt_state_file file;
    bool found;
    dt_status_free(dt_process_state_read(folder, process, &state, &found));
    found = found && state.pid == child;
    if (found && state.phase != DT_PROCESS_RUNS) return;
    dt_status *status = dt_state_file_create(folder, process, n_processes, &file);
    if (found)
        file.state = state;
    else
        file.state.pid = child;
    double ago = found ? dt_seconds_now() - state.progressed : 0;
    snprintf(file.state.reason, sizeof file.state.reason,
             "process %d (%s, pid %" PRId64 ") has disappeared: signal %d (%s) ended it. %.1f s before it was at: %s", process, file.state.host,
             file.state.pid, number, strsignal(number), ago, file.state.doing);
    fprintf(stderr, "dtrun: error: %s\n", file.state.reason);
    file.state.phase = DT_PROCESS_FAILED;
    file.state.person_knows = true;
    dt_state_file_write(&file);
    dt_state_file_close(&file);
    dt_status_free(status);
}

/* By the signal that ended the child, so that the launcher sees what it would have seen. */
static _Noreturn void end_by(int number) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    signal(number, SIG_DFL);
    raise(number);
    _exit(128 + number);
}

static _Noreturn void keep(const char *folder, int process, int n_processes, pid_t child) {
    int status;
    pid_t ended;
    do ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended < 0) _exit(1);
    if (WIFSIGNALED(status) && !is_orderly(WTERMSIG(status))) say_what_ended(folder, process, n_processes, child, WTERMSIG(status));
    dt_state_folder_tidy(folder, n_processes);
    if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
    end_by(WTERMSIG(status));
}

dt_status *dt_keeper_start(const char *folder, int process, int n_processes) {
    sigset_t set, before;
    sigemptyset(&set);
    for (int i = 0; i < N_ORDERLY; i++) sigaddset(&set, orderly[i]);
    sigprocmask(SIG_BLOCK, &set, &before); /* what comes meanwhile is the child's */
    pid_t parent = getpid(), child = fork();
    for (int i = 0; i < N_ORDERLY && child > 0; i++) signal(orderly[i], SIG_IGN);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child > 0) keep(folder, process, n_processes, child);
    if (child < 0) return dt_error(DT_RESOURCE_EXHAUSTED, "cannot start another process: %s", strerror(errno));
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) _exit(1);
    return NULL;
}
