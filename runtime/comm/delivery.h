/* delivery: what processes have for one another, of lengths that nobody knows before: each posts to whom it likes, all run it, each has what was
 * posted to it. What a process posts to itself it gets like the rest, and one alone needs no other. Where there are parameter servers
 * (microbatches.h), it goes one way alone.
 *
 * Memory grows to what was needed at most, and is used again. Threads: one makes all calls. */
#ifndef DT_RUNTIME_COMM_DELIVERY_H
#define DT_RUNTIME_COMM_DELIVERY_H

#include "runtime/comm/processes.h"

typedef struct dt_delivery dt_delivery;

/* From whom to whom. */
typedef enum dt_delivery_way {
    DT_DELIVERY_TO_OWNERS, /* from processes that hold microbatches to those that own shares */
    DT_DELIVERY_TO_HOLDERS /* the other way */
} dt_delivery_way;

/* All processes create it, in one order with what else has a tag. label: what errors call it, "rows of tables". */
dt_status *dt_delivery_create(dt_processes *processes, dt_delivery_way way, const char *label, dt_delivery **delivery);
void dt_delivery_destroy(dt_delivery *delivery); /* NULL is allowed */

/* Forgets what was posted. */
void dt_delivery_clear(dt_delivery *delivery);
/* Adds so many bytes to what process `to` is to get; *memory is to be filled before the next call. */
dt_status *dt_delivery_post(dt_delivery *delivery, int to, size_t bytes, void **memory);
/* All processes call it. expected [processes]: bytes that each of them is known to have posted to this one; NULL: they are told first. */
dt_status *dt_delivery_run(dt_delivery *delivery, const int64_t *expected, const dt_step_context *context);
/* What `from` had posted, until the next post. */
const void *dt_delivery_from(const dt_delivery *delivery, int from, size_t *bytes);

#endif
