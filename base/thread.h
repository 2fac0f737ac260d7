/* thread: threads whose stack has the size that their work needs, whatever `ulimit -s` says. Address space is taken, memory only where it is used. */
#ifndef DT_BASE_THREAD_H
#define DT_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* false: the system gives no such thread. */
bool dt_thread_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *argument), void *argument);

/* work(argument), on a stack of that size; where the system gives none, on the caller's. */
void *dt_run_on_stack(size_t stack_bytes, void *(*work)(void *argument), void *argument);

#endif
