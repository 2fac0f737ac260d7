/* thread_pool: one thread for each executor, each waiting for the next piece of work.
 *
 * Member 0 is whoever calls dt_thread_pool_run: with one executor there is no other thread and nothing to hand over. The others wait for an event;
 * between the steps of a small model they are still looking at it when the next one comes. */
#ifndef DT_RUNTIME_THREADS_THREAD_POOL_H
#define DT_RUNTIME_THREADS_THREAD_POOL_H

#include "base/status.h"

typedef struct dt_thread_pool dt_thread_pool;

/* What each member does; `member` is 0 to n-1. */
typedef dt_status *(*dt_thread_pool_work)(void *context, int member);

/* n >= 1 members. `begin`, which may be NULL, is called by each thread but the caller's before its first work. */
dt_status *dt_thread_pool_create(int n, void (*begin)(void *context, int member), void *context, dt_thread_pool **pool);
void dt_thread_pool_destroy(dt_thread_pool *pool); /* NULL is allowed */

/* All members work at once. Returns when all have finished: NULL, or the failure that the others' (DT_ABORTED) came from.
 * One caller at a time; it may be another thread each time. */
dt_status *dt_thread_pool_run(dt_thread_pool *pool, dt_thread_pool_work work, void *context);

#endif
