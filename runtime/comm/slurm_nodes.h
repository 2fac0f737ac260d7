/* slurm_nodes: lists as srun writes them into the environment: nodes as "node[1-3,07],gpu1", processes of each node as "2(x3),1". */
#ifndef DT_RUNTIME_COMM_SLURM_NODES_H
#define DT_RUNTIME_COMM_SLURM_NODES_H

#include "base/arena.h"
#include "base/status.h"

/* Entry `node` of a list of processes; 0: there is none. */
int dt_slurm_tasks_of_node(const char *list, int node);

/* The machines of processes 0 to n - 1, to hosts [n]. `order`: SLURM_DISTRIBUTION: "block", NULL for the same, or "cyclic"; what follows a colon is
 * about sockets. DT_INVALID_ARGUMENT: a list that Slurm does not write, or another order. */
dt_status *dt_slurm_hosts(const char *nodes, const char *tasks, const char *order, int n, dt_arena *arena, const char **hosts);

#endif
