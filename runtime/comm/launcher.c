/* launcher: see the header. */
#include "runtime/comm/launcher.h"

#include "runtime/comm/slurm_nodes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a launcher calls its numbers. A second name of n_processes is tried where the first is not set. */
typedef struct variables {
    const char *name, *process, *n_processes[2], *process_of_host, *n_processes_of_host;
    dt_launcher_kind kind;
    bool is_without_mpi; /* its processes have numbers, and MPI knows nothing of them */
} variables;

static const variables launchers[] = {
    {.kind = DT_LAUNCHER_OPEN_MPI,
     .name = "mpirun of Open MPI",
     .process = "OMPI_COMM_WORLD_RANK",
     .n_processes = {"OMPI_COMM_WORLD_SIZE"},
     .process_of_host = "OMPI_COMM_WORLD_LOCAL_RANK",
     .n_processes_of_host = "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {.kind = DT_LAUNCHER_PMI,
     .name = "mpirun of MPICH",
     .process = "PMI_RANK",
     .n_processes = {"PMI_SIZE"},
     .process_of_host = "MPI_LOCALRANKID",
     .n_processes_of_host = "MPI_LOCALNRANKS"},
    {.kind = DT_LAUNCHER_PMIX,
     .name = "srun",
     .process = "PMIX_RANK",
     .n_processes = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     .process_of_host = "SLURM_LOCALID"},
    {.kind = DT_LAUNCHER_SLURM,
     .name = "srun",
     .process = "SLURM_PROCID",
     .n_processes = {"SLURM_STEP_NUM_TASKS"},
     .process_of_host = "SLURM_LOCALID",
     .is_without_mpi = true},
    {.kind = DT_LAUNCHER_PRRTE, .name = "prterun", .process = "PMIX_RANK", .is_without_mpi = true},
    {.kind = DT_LAUNCHER_KUBERNETES, .name = "Kubernetes", .process = "JOB_COMPLETION_INDEX", .is_without_mpi = true},
};

static const char *value_of(const char *variable) {
    const char *value = variable != NULL ? getenv(variable) : NULL;
    return value != NULL && *value != 0 ? value : NULL;
}

/* The number in a variable, `least` at least and below `end`. */
static dt_status *read_number(const char *variable, int least, int end, int *number) {
    const char *text = value_of(variable);
    char *rest = NULL;
    errno = 0;
    long value = strtol(text, &rest, 10);
    if (errno != 0 || *rest != 0 || value < least || value >= end)
        return dt_error(DT_INVALID_ARGUMENT, "%s=%s: the launcher should have set a whole number from %d to %d", variable, text, least, end - 1);
    *number = (int)value;
    return NULL;
}

/* srun says how many processes a machine has in a list of all. */
static dt_status *read_slurm_host(dt_launcher *launcher) {
    const char *list = value_of("SLURM_STEP_TASKS_PER_NODE");
    int node, n, process;
    if (list == NULL || value_of("SLURM_NODEID") == NULL || value_of("SLURM_LOCALID") == NULL) return NULL;
    DT_TRY(read_number("SLURM_NODEID", 0, INT_MAX, &node));
    n = dt_slurm_tasks_of_node(list, node);
    if (n == 0) return NULL;
    DT_TRY(read_number("SLURM_LOCALID", 0, n, &process));
    launcher->process_of_host = process;
    launcher->n_processes_of_host = n;
    return NULL;
}

static dt_status *read_launcher(const variables *names, const char *n_processes, dt_launcher *launcher) {
    launcher->kind = names->kind;
    launcher->n_processes = 0;
    if (n_processes != NULL) DT_TRY(read_number(n_processes, 1, INT_MAX, &launcher->n_processes));
    DT_TRY(read_number(names->process, 0, n_processes != NULL ? launcher->n_processes : INT_MAX, &launcher->process));
    if (value_of(names->process_of_host) == NULL || value_of(names->n_processes_of_host) == NULL) return read_slurm_host(launcher);
    DT_TRY(read_number(names->n_processes_of_host, 1, launcher->n_processes + 1, &launcher->n_processes_of_host));
    return read_number(names->process_of_host, 0, launcher->n_processes_of_host, &launcher->process_of_host);
}

static dt_status *find(dt_launcher *launcher, bool without_mpi) {
    *launcher = (dt_launcher){.kind = DT_LAUNCHER_NONE, .n_processes = 1, .n_processes_of_host = 1};
    if (gethostname(launcher->host, sizeof launcher->host - 1) != 0) strcpy(launcher->host, "an unnamed host");
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const variables *names = &launchers[i];
        bool counts = names->n_processes[0] != NULL;
        const char *n_processes = value_of(names->n_processes[0]) != NULL ? names->n_processes[0] : names->n_processes[1];
        if (value_of(names->process) == NULL || (counts && value_of(n_processes) == NULL) || (names->is_without_mpi && !without_mpi)) continue;
        launcher->n_processes_of_host = 0;
        DT_TRY(read_launcher(names, n_processes, launcher));
        if (launcher->n_processes == 1) launcher->kind = DT_LAUNCHER_NONE, launcher->n_processes_of_host = 1;
        return NULL;
    }
    return NULL;
}

dt_status *dt_launcher_find(dt_launcher *launcher) { return find(launcher, false); }
dt_status *dt_launcher_find_numbered(dt_launcher *launcher) { return find(launcher, true); }

const char *dt_launcher_process_variable(const dt_launcher *launcher) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (launchers[i].kind == launcher->kind) return launchers[i].process;
    return NULL;
}

const char *dt_launcher_name(const dt_launcher *launcher) {
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (launchers[i].kind == launcher->kind) return launchers[i].name;
    return "no launcher";
}

/* Whether srun started this process with others, and told none of them of the others. */
static bool is_alone_under_srun(void) {
    const char *n = value_of("SLURM_STEP_NUM_TASKS");
    return n != NULL && strcmp(n, "1") != 0;
}

const char *dt_launcher_note(const dt_launcher *launcher) {
    if (launcher->kind != DT_LAUNCHER_NONE) return NULL;
    if (is_alone_under_srun())
        return "srun started several processes that know nothing of each other: each runs alone. Those of one run are started with "
               "srun --mpi=pmix dtrun train …";
    if (value_of("TF_CONFIG") == NULL) return NULL;
    return "TF_CONFIG is set, and not read: this process trains alone. A launcher starts the processes of a run and numbers them, "
           "on one machine as on many: mpirun -n 4 dtrun train …";
}
