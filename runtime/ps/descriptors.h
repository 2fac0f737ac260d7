/* descriptors: how many connections a process may have, so that what else it opens (checkpoints, data, logs, devices) finds descriptors left. ZeroMQ
 * takes those that it gets, and aborts the process where it gets none for itself. */
#ifndef DT_RUNTIME_PS_DESCRIPTORS_H
#define DT_RUNTIME_PS_DESCRIPTORS_H

#include "base/status.h"

/* How many a process that connects to so many servers may let in of those who connect to it: each at most what it is on entry. NULL: it does not
 * listen. DT_RESOURCE_EXHAUSTED: too few are left of the limit of the process, with what to do. */
dt_status *dt_ps_bound_connections(int n_servers, int *most_peers, int *most_strangers);

#endif
