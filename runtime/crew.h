/* crew: one thread for each device, each waiting for the next piece of work.
 *
 * Member 0 is whoever calls dt_crew_run: with one device there is no other thread and nothing to hand over. The others wait at a gate; between
 * the steps of a small model they are still looking at it when the next one comes. */
#ifndef DT_RUNTIME_CREW_H
#define DT_RUNTIME_CREW_H

#include "base/status.h"

typedef struct dt_crew dt_crew;

/* What each member does; `member` is 0 to n-1. */
typedef dt_status *(*dt_crew_work)(void *context, int member);

/* n >= 1 members. `begin`, which may be NULL, is called by each thread but the caller's before its first work. */
dt_status *dt_crew_create(int n, void (*begin)(void *context, int member), void *context, dt_crew **crew);
void dt_crew_destroy(dt_crew *crew); /* NULL is allowed */

/* All members work at once. Returns when all have finished: NULL, or the failure that the others' (DT_ABORTED) came from.
 * One caller at a time; it may be another thread each time. */
dt_status *dt_crew_run(dt_crew *crew, dt_crew_work work, void *context);

#endif
