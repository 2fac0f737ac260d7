/* thread: see thread.h. */
#include "base/thread.h"

bool dt_thread_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *argument), void *argument) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    bool started = pthread_attr_setstacksize(&attributes, stack_bytes) == 0 && pthread_create(thread, &attributes, work, argument) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

void *dt_run_on_stack(size_t stack_bytes, void *(*work)(void *argument), void *argument) {
    pthread_t thread;
    void *result = NULL;
    if (!dt_thread_start(&thread, stack_bytes, work, argument)) return work(argument);
    pthread_join(thread, &result);
    return result;
}
