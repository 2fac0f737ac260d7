/* local: ranks that are threads of one process. See comm.h for the contract.
 *
 * Every rank folds its share of the elements over all leaves, reading them where they are, and writes the result to every target: each byte of
 * the work is divided among the devices, and there is no message. Two waits an exchange: before it until all sources are complete, after it until
 * all targets are. With one rank there is none. */
#ifndef DT_RUNTIME_COMM_LOCAL_LOCAL_H
#define DT_RUNTIME_COMM_LOCAL_LOCAL_H

#include "runtime/comm/comm.h"

/* A group of n_ranks over n_leaves >= n_ranks; comms [n_ranks] receives its members. */
dt_status *dt_comm_local_open(int n_ranks, int n_leaves, double deadline_seconds, dt_comm **comms);

#endif
