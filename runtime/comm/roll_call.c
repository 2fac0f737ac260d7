/* roll_call: see roll_call.h. */
#include "runtime/comm/roll_call.h"

#include "base/file.h"
#include "base/memory.h"
#include "runtime/comm/launcher.h"
#include "runtime/comm/process_state.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct present {
    int64_t pid;               /* 0: it is not here */
    bool is_stopped, is_alike; /* by a signal; it runs the same program as this one */
} present;

struct dt_roll_call {
    dt_launcher launcher;
    present *all; /* [n_processes] */
    int n_here;
};

/* The environment of a process, NULL where there is none to read: NAME=VALUE, each ended by a 0, of n bytes. */
static char *read_environment(const char *pid, size_t *n) {
    char path[300], *data = NULL;
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    dt_status *status = dt_file_read(path, &data, n);
    if (status != NULL) data = NULL;
    dt_status_free(status);
    return data;
}

static const char *find(const char *environment, size_t n, const char *name) {
    size_t length = strlen(name);
    for (const char *at = environment; at < environment + n && *at != 0; at += strlen(at) + 1)
        if (strncmp(at, name, length) == 0 && at[length] == '=') return at + length + 1;
    return NULL;
}

/* What tells runs of one launcher apart. MPICH names none: there it is the place where its proxy of this machine listens. */
static bool is_same_run(const char *environment, size_t n) {
    static const char *const names[] = {"PMIX_NAMESPACE", "SLURM_STEP_ID", "SLURM_JOB_ID", "HYDI_CONTROL_FD", "DT_STATE_DIR"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *here = getenv(names[i]), *there = find(environment, n, names[i]);
        if ((here == NULL) != (there == NULL) || (here != NULL && strcmp(here, there) != 0)) return false;
    }
    return true;
}

static bool is_alike(int64_t pid) {
    char path[64], here[1024], there[1024];
    snprintf(path, sizeof path, "/proc/%" PRId64 "/exe", pid);
    ssize_t n = readlink("/proc/self/exe", here, sizeof here), m = readlink(path, there, sizeof there);
    return n > 0 && n == m && memcmp(here, there, (size_t)n) == 0;
}

static void print_program(int64_t pid, char *text, size_t bytes) {
    char path[64], *data = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%" PRId64 "/comm", pid);
    dt_status_free(dt_file_read(path, &data, &n));
    snprintf(text, bytes, "%.*s", data != NULL ? (int)strcspn(data, "\n") : 1, data != NULL ? data : "?");
    dt_release(data);
}

/* Of several with one number, a shell and what it has started, one that is stopped is the reason; else what runs this program counts. */
static void note(dt_roll_call *call, const char *name) {
    size_t n;
    char *environment = read_environment(name, &n);
    const char *number =
        environment != NULL && is_same_run(environment, n) ? find(environment, n, dt_launcher_process_variable(&call->launcher)) : NULL;
    int process = number != NULL ? atoi(number) : -1;
    if (process >= 0 && process < call->launcher.n_processes) {
        int64_t pid = atoll(name);
        bool is_stopped = dt_process_is_stopped(pid);
        present *one = &call->all[process];
        call->n_here += one->pid == 0;
        if (one->pid == 0 || is_stopped || (!one->is_stopped && !one->is_alike)) *one = (present){pid, is_stopped, is_alike(pid)};
    }
    dt_release(environment);
}

dt_roll_call *dt_roll_call_take(void) {
    dt_launcher launcher;
    dt_status *status = dt_launcher_find(&launcher);
    dt_roll_call *made = status == NULL && launcher.kind != DT_LAUNCHER_NONE ? dt_allocate_zeroed(1, sizeof *made) : NULL;
    dt_status_free(status);
    if (made == NULL) return NULL;
    made->launcher = launcher;
    made->all = dt_allocate_zeroed((size_t)launcher.n_processes, sizeof *made->all);
    DIR *all = made->all != NULL ? opendir("/proc") : NULL;
    for (struct dirent *one; all != NULL && (one = readdir(all)) != NULL;)
        if (one->d_name[0] >= '1' && one->d_name[0] <= '9') note(made, one->d_name);
    if (all != NULL) closedir(all);
    if (made->all != NULL) return made;
    dt_roll_call_free(made);
    return NULL;
}

void dt_roll_call_free(dt_roll_call *call) {
    if (call == NULL) return;
    dt_release(call->all);
    dt_release(call);
}

bool dt_roll_call_has(const dt_roll_call *call, int process, int64_t *pid, bool *is_stopped) {
    if (call == NULL || process >= call->launcher.n_processes || call->all[process].pid == 0) return false;
    *pid = call->all[process].pid;
    *is_stopped = call->all[process].is_stopped;
    return true;
}

void dt_roll_call_print_missing(const dt_roll_call *call, dt_text *text) {
    const dt_launcher *launcher = &call->launcher;
    int n_missing = 0;
    bool is_one_machine = launcher->n_processes_of_host == launcher->n_processes;
    bool all_are_here = launcher->n_processes_of_host > 0 && call->n_here == launcher->n_processes_of_host;
    for (int p = 0; p < launcher->n_processes; p++) {
        const present *one = &call->all[p];
        if (one->pid != 0 && !one->is_stopped && one->is_alike) continue;
        dt_text_append(text, n_missing++ == 0 ? "" : "; ");
        char program[32];
        if (one->pid != 0) print_program(one->pid, program, sizeof program);
        if (one->pid != 0 && one->is_stopped)
            dt_text_format(text, "process %d (%s, pid %" PRId64 ") is stopped", p, launcher->host, one->pid);
        else if (one->pid != 0)
            dt_text_format(text, "process %d (%s, pid %" PRId64 ") is still %s", p, launcher->host, one->pid, program);
        else if (is_one_machine)
            dt_text_format(text, "process %d has not begun on %s", p, launcher->host);
        else
            dt_text_format(text, "process %d is not on %s%s", p, launcher->host,
                           all_are_here ? ", whose own are all there" : ", or has not begun there");
    }
    if (n_missing == 0) dt_text_format(text, "all are on %s, and none is stopped", launcher->host);
}

bool dt_roll_call_leads(const dt_roll_call *call) {
    int p = 0;
    while (p < call->launcher.n_processes && (call->all[p].pid == 0 || call->all[p].is_stopped || !call->all[p].is_alike)) p++;
    return p == call->launcher.process;
}
