/* launcher_hosts: see the header. srun lists nodes in its environment; what PMIx connects (Open MPI, PRRTE, srun --mpi=pmix) answers from a library;
 * Hydra has a table of texts, and a socket to it (PMI-1, as MPICH's documents describe it), into which processes write their own machine. */
#include "runtime/comm/launcher_hosts.h"

#include "base/shared_library.h"
#include "runtime/comm/slurm_nodes.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dt_status *not_told(const dt_launcher *launcher, const char *why) {
    return dt_error(DT_NOT_FOUND, "%s does not tell where its processes are: %s; name the machines of the servers: --servers host0,host1",
                    dt_launcher_name(launcher), why);
}

/* ---- srun ---- */

static dt_status *ask_slurm(const dt_launcher *launcher, int n, dt_arena *arena, const char **hosts) {
    const char *nodes = getenv("SLURM_STEP_NODELIST"), *tasks = getenv("SLURM_STEP_TASKS_PER_NODE"), *order = getenv("SLURM_DISTRIBUTION");
    if (nodes == NULL || tasks == NULL) return not_told(launcher, "SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE are not set");
    return dt_slurm_hosts(nodes, tasks, order, n, arena, hosts);
}

/* ---- PMIx ---- */

/* As the PMIx standard defines them, version 2 and later. */
typedef struct pmix_process {
    char job[256];
    uint32_t rank;
} pmix_process;

typedef struct pmix_value {
    uint16_t type;
    union {
        const char *string;
        char bytes[64];
    } data;
} pmix_value;

enum {
    PMIX_SUCCESS = 0,
    PMIX_STRING = 3
};

typedef struct pmix_library {
    int (*init)(pmix_process *self, void *settings, size_t n_settings);
    int (*get)(const pmix_process *process, const char *key, const void *settings, size_t n_settings, pmix_value **value);
    int (*finalize)(const void *settings, size_t n_settings);
} pmix_library;

static dt_status *ask_library(const dt_launcher *launcher, const pmix_library *pmix, int n, dt_arena *arena, const char **hosts) {
    pmix_process process = {{0}, 0};
    int code = pmix->init(&process, NULL, 0);
    if (code != PMIX_SUCCESS) return not_told(launcher, dt_arena_format(arena, "PMIx_Init returned %d", code));
    for (int p = 0; p < n && code == PMIX_SUCCESS; p++) {
        pmix_value *value = NULL;
        process.rank = (uint32_t)p;
        code = pmix->get(&process, "pmix.hname", NULL, 0, &value);
        if (code == PMIX_SUCCESS && value->type == PMIX_STRING) hosts[p] = dt_arena_string(arena, value->data.string);
    }
    pmix->finalize(NULL, 0);
    return code == PMIX_SUCCESS ? NULL : not_told(launcher, dt_arena_format(arena, "PMIx_Get returned %d", code));
}

static dt_status *ask_pmix(const dt_launcher *launcher, int n, dt_arena *arena, const char **hosts) {
    static const char *const names[] = {"libpmix.so.2", NULL};
    void *library;
    DT_TRY(dt_shared_library_open("DT_PMIX", names, &library));
    if (library == NULL) return not_told(launcher, "there is no libpmix.so.2");
    pmix_library pmix = {0};
    *(void **)&pmix.init = dlsym(library, "PMIx_Init");
    *(void **)&pmix.get = dlsym(library, "PMIx_Get");
    *(void **)&pmix.finalize = dlsym(library, "PMIx_Finalize");
    if (pmix.init == NULL || pmix.get == NULL || pmix.finalize == NULL) return not_told(launcher, "libpmix.so.2 is another library");
    return ask_library(launcher, &pmix, n, arena, hosts);
}

/* ---- Hydra ---- */

typedef struct hydra {
    FILE *socket;
    char answer[1024]; /* a line: cmd=get_result rc=0 value=node1 */
} hydra;

/* The value of `key` in the last answer; NULL: it has none. */
static char *answered(hydra *it, const char *key, dt_arena *arena) {
    size_t n = strlen(key);
    for (const char *at = it->answer; (at = strstr(at, key)) != NULL; at += n)
        if ((at == it->answer || at[-1] == ' ') && at[n] == '=') {
            char *value = dt_arena_string(arena, at + n + 1);
            value[strcspn(value, " \n")] = 0;
            return value;
        }
    return NULL;
}

/* Says a command and hears the answer; false: it is not of the kind that was `expected`. */
static bool exchange(hydra *it, const char *expected, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(it->socket, format, arguments);
    va_end(arguments);
    bool came = fflush(it->socket) == 0 && fgets(it->answer, sizeof it->answer, it->socket) != NULL;
    return came && strstr(it->answer, expected) != NULL && (strstr(it->answer, "rc=") == NULL || strstr(it->answer, "rc=0") != NULL);
}

static bool exchange_hosts(hydra *it, const dt_launcher *launcher, int n, dt_arena *arena, const char **hosts) {
    if (!exchange(it, "cmd=response_to_init", "cmd=init pmi_version=1 pmi_subversion=1\n")) return false;
    if (!exchange(it, "cmd=my_kvsname", "cmd=get_my_kvsname\n")) return false;
    const char *table = answered(it, "kvsname", arena);
    if (table == NULL) return false;
    if (!exchange(it, "cmd=put_result", "cmd=put kvsname=%s key=dt-host-%d value=%s\n", table, launcher->process, launcher->host)) return false;
    if (!exchange(it, "cmd=barrier_out", "cmd=barrier_in\n")) return false;
    for (int p = 0; p < n; p++) {
        if (!exchange(it, "cmd=get_result", "cmd=get kvsname=%s key=dt-host-%d\n", table, p)) return false;
        hosts[p] = answered(it, "value", arena);
        if (hosts[p] == NULL) return false;
    }
    return exchange(it, "cmd=finalize_ack", "cmd=finalize\n");
}

static dt_status *ask_hydra(const dt_launcher *launcher, int n, dt_arena *arena, const char **hosts) {
    const char *descriptor = getenv("PMI_FD");
    if (getenv("HYDI_CONTROL_FD") == NULL && getenv("SLURM_STEP_NODELIST") != NULL) return ask_slurm(launcher, n, arena, hosts); /* --mpi=pmi2 */
    int copy = descriptor != NULL ? dup(atoi(descriptor)) : -1;
    hydra it = {.socket = copy >= 0 ? fdopen(copy, "r+") : NULL};
    if (it.socket == NULL) return not_told(launcher, "PMI_FD names no socket");
    bool done = exchange_hosts(&it, launcher, n, arena, hosts);
    fclose(it.socket);
    return done ? NULL : not_told(launcher, dt_arena_format(arena, "it answered \"%.80s\"", it.answer));
}

/* ---- each launcher's way ---- */

dt_status *dt_launcher_find_hosts(const dt_launcher *launcher, int n, dt_arena *arena, const char **hosts) {
    for (int p = 0; p < n; p++) hosts[p] = "";
    switch (launcher->kind) {
    case DT_LAUNCHER_OPEN_MPI:
    case DT_LAUNCHER_PRRTE:
    case DT_LAUNCHER_PMIX: return ask_pmix(launcher, n, arena, hosts);
    case DT_LAUNCHER_PMI: return ask_hydra(launcher, n, arena, hosts);
    case DT_LAUNCHER_SLURM: return ask_slurm(launcher, n, arena, hosts);
    case DT_LAUNCHER_KUBERNETES: return not_told(launcher, "an index is all that a pod knows");
    case DT_LAUNCHER_NONE: break;
    }
    return not_told(launcher, "there is none");
}
