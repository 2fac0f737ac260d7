/* thread: threads whose stack has the size that their work needs, whatever `ulimit -s` says. Address space is taken, memory only where it is used. */
#ifndef DT_BASE_THREAD_H
#define DT_BASE_THREAD_H

#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* DT_RESOURCE_EXHAUSTED: pthread_create gave `reason`. The message has the limit of the process that it may have met. */
dt_status *dt_thread_error(int reason);

/* false: the system gives no such thread. */
bool dt_thread_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *argument), void *argument);

/* Waits for the thread to end, for at most that long, whatever happens to the time of day; false: it has not, and can still be joined. */
bool dt_thread_join(pthread_t thread, double seconds);

/* work(argument) on a stack of that size, while the calling thread waits and does what `work` asks of it by dt_caller_do: so what belongs to the
 * caller's thread, such as its callbacks, runs there. Where the system gives no such thread, all is done on the caller's. */
typedef struct dt_caller dt_caller;
void dt_run_for_caller(size_t stack_bytes, void (*work)(dt_caller *caller, void *argument), void *argument);
/* Called by `work`: task(argument) on the thread that waits for it, which is over on return. */
void dt_caller_do(dt_caller *caller, void (*task)(void *argument), void *argument);

#endif
