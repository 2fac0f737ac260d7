/* exchange: an image of memory that crosses processes again and again, once a step: a schedule (schedule.h) with memory, and with the types of what
 * lies in it.
 *
 * It is lowered to operations, round by round, once its memory is known: those are what the queue of a device with a link runs (link.h), or the
 * thread that owns the host's transport (processes.h), where whoever has filled its nodes begins it. Then the result is in slot 0. */
#ifndef DT_RUNTIME_COMM_EXCHANGE_H
#define DT_RUNTIME_COMM_EXCHANGE_H

#include "runtime/comm/mesh.h"
#include "runtime/comm/schedule.h"
#include "runtime/comm/transport.h"
#include "runtime/devices/operation.h"

#include <stdatomic.h>

/* Which step, for messages. */
typedef struct dt_step_context {
    const char *step;
    int64_t number;
    int segment;
} dt_step_context;

/* A tensor in the image. Its elements there are as wide as sums are: f16 and bf16 cross as f32. */
typedef struct dt_exchange_region {
    dt_dtype dtype; /* of the elements in the image */
    dt_reduction_op combine;
    int64_t first, n_bytes; /* first: a whole unit */
} dt_exchange_region;

typedef struct dt_exchange {
    dt_schedule schedule;
    int n_regions;
    const dt_exchange_region *regions; /* in order; what lies between them is nothing */
    char **slots;                      /* [n_slots of the schedule] where the first byte of each is; NULL: nowhere yet */
    const struct dt_exchange *like;    /* whose slots of nodes it uses; it is placed before. NULL: it has its own */
    dt_collective_kind kind;           /* of what crosses in a step, */
    dt_mesh_axis axis;                 /* and along which axis */
    const char *label;                 /* for messages */
    int tag;                           /* the same in all processes, and of no other exchange */
    const dt_operation *operations;    /* [2 * n_rounds of the schedule] each round's TRANSFER, or ALL_REDUCE, and its REDUCE, which may be of none */
    dt_operation_reduce before, after; /* all rounds, each time: what it fills its slots with itself, and what it copies from them */

    uint32_t n_begun;
    _Atomic uint32_t n_done; /* as often as it was begun, in the end: then nobody touches it any more */
    dt_step_context context; /* of the last time */
    double began;            /* then, where it is recorded: dt_seconds_now */

    /* the transport's thread's own */
    int round;      /* of the schedule */
    int under_way;  /* the transport's number of it; -1: the round is not started */
    double started; /* the round: dt_seconds_now */
    void *scratch;  /* for sums */
    struct dt_exchange *next;
} dt_exchange;

/* All but `slots`, which the caller sets before it is lowered; everything is the arena's. The regions are the caller's and stay. */
dt_exchange *dt_exchange_create(const dt_schedule *schedule, int n_regions, const dt_exchange_region *regions, const char *label, int tag,
                                dt_arena *arena);

int64_t dt_exchange_most_of_one(const dt_exchange *exchange);        /* bytes that one process sends to this one, at most */
int64_t dt_exchange_bytes(const dt_exchange *exchange);              /* of its own slots that are nowhere yet, each rounded up to whole units */
void dt_exchange_place(dt_exchange *exchange, char *memory);         /* sets those slots to that memory */
void dt_exchange_land(dt_exchange *exchange, char *image);           /* sets slot 0, of an image that begins there */
char *dt_exchange_at(const dt_exchange *, int slot, int64_t offset); /* where byte `offset` of the image is in a slot */

/* Sets its operations, once all slots are somewhere, and again if they move. */
void dt_exchange_lower(dt_exchange *exchange, dt_arena *arena);

/* Moves it on as far as it goes without waiting: *moved whether anything happened, *done whether it is over. The transport's thread alone. */
dt_status *dt_exchange_move(dt_exchange *exchange, dt_transport *transport, int *n_under_way, bool *moved, bool *done);

#endif
