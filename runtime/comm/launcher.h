/* launcher: what started this process, and as which of how many, as the environment tells.
 *
 * mpirun of Open MPI sets OMPI_COMM_WORLD_*, mpirun of MPICH and its relatives PMI_*, srun one of PMI_* and PMIX_RANK beside SLURM_*. Nothing is
 * loaded or asked to find that out, so that a process that nobody launched costs nothing. */
#ifndef DT_RUNTIME_COMM_LAUNCHER_H
#define DT_RUNTIME_COMM_LAUNCHER_H

#include "base/status.h"

typedef enum dt_launcher_kind {
    DT_LAUNCHER_NONE,      /* nothing, or of one process alone */
    DT_LAUNCHER_OPEN_MPI,  /* mpirun, mpiexec or orterun of Open MPI */
    DT_LAUNCHER_PMI,       /* mpirun of MPICH; srun --mpi=pmi2 */
    DT_LAUNCHER_PMIX,      /* srun --mpi=pmix */
    DT_LAUNCHER_SLURM,     /* srun, where it tells processes nothing of MPI */
    DT_LAUNCHER_PRRTE,     /* prterun or prun, of a program that is not Open MPI's */
    DT_LAUNCHER_KUBERNETES /* a Job with an index for each pod */
} dt_launcher_kind;

typedef struct dt_launcher {
    dt_launcher_kind kind;
    int process, n_processes;                 /* 0 of 1 without a launcher; of 0: the launcher does not tell */
    int process_of_host, n_processes_of_host; /* among those of this machine; 0 of 0 where the launcher does not tell */
    char host[256];                           /* the name of this machine */
} dt_launcher;

/* Who started processes that MPI can connect. Returns NULL, or that what the environment says cannot be. */
dt_status *dt_launcher_find(dt_launcher *launcher);
/* The same of processes that need no MPI, but a number. */
dt_status *dt_launcher_find_numbered(dt_launcher *launcher);

const char *dt_launcher_process_variable(const dt_launcher *launcher); /* of the environment: the process's number; NULL without a launcher */
const char *dt_launcher_name(const dt_launcher *launcher);             /* "mpirun of Open MPI" */

/* A sentence for somebody whose processes are each alone: TF_CONFIG is set, as TensorFlow has it, or srun was not told of MPI. NULL where there is
 * nothing to say. */
const char *dt_launcher_note(const dt_launcher *launcher);

#endif
