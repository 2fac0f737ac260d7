/* hub: what the members of a local group share; of this folder alone. */
#ifndef DT_RUNTIME_COMM_LOCAL_HUB_H
#define DT_RUNTIME_COMM_LOCAL_HUB_H

#include "runtime/comm/local/local.h"
#include "runtime/threads/event.h"

#include <pthread.h>

/* What one rank shows the others. Cache lines of its own: it is written at each meeting and read by all. */
typedef struct dt_seat {
    _Alignas(128) _Atomic uint32_t n_arrivals; /* meetings that the rank has come to */
    const dt_collective_part *parts;
} dt_seat;

/* Memory that nonblocking collectives take in turn. */
typedef struct dt_local_place {
    char *memory; /* NULL: a device has it, or there is none */
    size_t n_bytes;
} dt_local_place;

/* What crosses processes of collectives that are made together. */
typedef struct dt_crossing dt_crossing;

struct dt_local_hub {
    dt_local_hub_options options;
    bool may_look;     /* each rank has a core of its own */
    dt_event arrivals; /* moves whenever somebody arrives or aborts */
    atomic_bool aborted;
    pthread_mutex_t lock; /* guards what follows */
    char reason[640];     /* why, once aborted */
    int n_users;          /* members not yet closed, and the creator */
    dt_seat *seats;       /* [n_ranks] */
    void *seats_memory;
    dt_processes_watcher watcher;
    int n_parts;            /* that each rank has published */
    dt_crossing *crossings; /* made while members lower, one after the other */
    bool has_nonblocking;   /* what is nonblocking is among them */
    int n_places;
    dt_local_place *places;                                   /* [n_places] of nonblocking sums */
    const dt_layout_member *members[2][DT_NEEDED_BY_ALL + 1]; /* the same: of what is added up, or not, and needed so; NULL: not yet */
    const dt_layout_member *shard_members;                    /* of what combines shards */
};

typedef struct dt_local_member {
    dt_group group;
    dt_local_hub *hub;
    uint32_t n_arrivals; /* own */
} dt_local_member;

/* Part i as rank `rank` published it. */
static inline const dt_collective_part *dt_local_part(const dt_local_hub *hub, int rank, int i) { return &hub->seats[rank].parts[i]; }

/* The same of a rank that names a source: of this one, or else of the first that does. */
const dt_collective_part *dt_local_owner(const dt_local_hub *hub, int rank, int i);

/* Rank r's microbatches, among those of all processes: [first, first of r + 1). */
int dt_local_first_microbatch(const dt_local_hub *hub, int rank);

/* A member's share [*first, *end) of n elements: whole cache lines, so that no two members write one. */
void dt_local_share(const dt_group *group, size_t n, size_t *first, size_t *end);

/* What the members have left of part i, from byte `at` on, of microbatches [first, end) of all, or of such shards: how many sources that are. */
int dt_local_collect_sources(const dt_local_hub *hub, int i, int64_t first, int64_t end, size_t at, dt_tree_source *sources);

/* Where all members want part i, from byte `at` on, each place once. */
void **dt_local_collect_targets(const dt_local_hub *hub, int i, size_t at, dt_arena *arena, int *n);

/* All of them as one operation, if there are any. */
void dt_local_add_reductions(const dt_tree_reductions *reductions, dt_arena *arena, dt_operation_list *operations);

/* Whether part i crosses processes. */
static inline bool dt_local_crosses(const dt_local_hub *hub, int i) {
    const dt_collective_part *part = dt_local_part(hub, 0, i);
    return part->axis != DT_AXIS_DATA || (hub->options.mesh.axes[DT_AXIS_DATA].n_processes > 1 && !part->hands_over);
}

/* Those of a group of several processes (crossing.c). What does not cross is not touched. */
dt_status *dt_crossing_lower(dt_group *group, int first, int n, dt_arena *arena, dt_group_work *work);
size_t dt_crossings_device_bytes(const dt_group *group);
void dt_crossings_place(dt_group *group, void *memory);
void dt_crossings_free(dt_local_hub *hub);

#endif
