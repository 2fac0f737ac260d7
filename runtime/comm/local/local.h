/* local: a group within one process: its members are threads, cores or GPUs, which reach one another's memory.
 *
 * What members share is a hub. A session makes one and all its executors join it. Several sessions may join one hub, as the processes of a group do:
 * each of them then holds a part of the replicas, and knows of the others what the group tells it. */
#ifndef DT_RUNTIME_COMM_LOCAL_LOCAL_H
#define DT_RUNTIME_COMM_LOCAL_LOCAL_H

#include "runtime/comm/group.h"

typedef struct dt_local_hub dt_local_hub;

typedef struct dt_local_hub_options {
    int n_ranks;
    int n_processes;    /* divides n_ranks: each has as many */
    bool shares_memory; /* whether the members of a process are one domain; else each is its own */
    int n_microbatches; /* of all ranks; n_ranks at least */
    dt_microbatches rows;
    double deadline_seconds; /* how long a member waits for the others */
} dt_local_hub_options;

dt_status *dt_local_hub_create(const dt_local_hub_options *options, dt_local_hub **hub);
/* A member; each rank joins once. The hub must not have been released. */
dt_status *dt_local_hub_join(dt_local_hub *hub, int rank, dt_group **group);
/* Its creator is done with it: it goes with the last member. NULL is allowed. */
void dt_local_hub_release(dt_local_hub *hub);

#endif
