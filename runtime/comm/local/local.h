/* local: a group of the members of this process: threads that drive cores or GPUs, which reach one another's memory.
 *
 * What members share is a hub. A session makes one and all its executors join it. Where the process is one of several, the hub sums what is here and
 * has the rest exchanged (runtime/comm/processes.h). */
#ifndef DT_RUNTIME_COMM_LOCAL_LOCAL_H
#define DT_RUNTIME_COMM_LOCAL_LOCAL_H

#include "runtime/comm/group.h"
#include "runtime/comm/processes.h"

typedef struct dt_local_hub dt_local_hub;

typedef struct dt_local_hub_options {
    int n_ranks;
    bool shares_memory;     /* the members: what they name may be one place */
    int first_microbatch;   /* of this process, among those of all */
    int n_idle;             /* ranks that hold no microbatches, the first ones */
    int n_microbatches;     /* of this process; as many as the other ranks at least */
    int n_all_microbatches; /* of all processes */
    dt_microbatches rows;
    double deadline_seconds; /* how long a member waits for the others */
    dt_mesh mesh;            /* where this process is among those of the run */
    int n_all_shards;        /* of the model */
    dt_processes *processes; /* NULL: it is alone, or nothing is run, and what is lowered is only looked at */
    bool fast;               /* sums may be left to the engine of the transport or the link, which promises no bits */
    bool has_link;           /* the device of the one member exchanges with other processes itself */
    /* Memory of the host that the members' devices reach, for what crosses processes without a link. */
    dt_status *(*allocate)(void *context, size_t bytes, void **memory);
    void (*release)(void *context, void *memory, size_t bytes);
    void *context;
} dt_local_hub_options;

dt_status *dt_local_hub_create(const dt_local_hub_options *options, dt_local_hub **hub);
/* A member; each rank joins once. The hub must not have been released. */
dt_status *dt_local_hub_join(dt_local_hub *hub, int rank, dt_group **group);
/* Its creator is done with it: it goes with the last member. NULL is allowed. */
void dt_local_hub_release(dt_local_hub *hub);

#endif
