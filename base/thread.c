/* thread: see thread.h. */
#include "base/thread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

dt_status *dt_thread_error(int reason) {
    struct rlimit limit;
    char allowed[80] = "";
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(allowed, sizeof allowed, "; `ulimit -v` allows %.0f MiB of memory", (double)limit.rlim_cur / (1 << 20));
    else if (getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        snprintf(allowed, sizeof allowed, "; `ulimit -u` allows %llu threads", (unsigned long long)limit.rlim_cur);
    return dt_error(DT_RESOURCE_EXHAUSTED, "the system gives no thread: %s%s", strerror(reason), allowed);
}

bool dt_thread_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *argument), void *argument) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return false;
    bool started = pthread_attr_setstacksize(&attributes, stack_bytes) == 0 && pthread_create(thread, &attributes, work, argument) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

bool dt_thread_join(pthread_t thread, double seconds) {
#ifdef __SANITIZE_THREAD__ /* GCC 12's does not know the other join */
    for (double waited = 0; pthread_tryjoin_np(thread, NULL) != 0; waited += 1e-3) {
        if (waited >= seconds) return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
    }
    return true;
#else
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    long nanoseconds = end.tv_nsec + (long)((seconds - floor(seconds)) * 1e9);
    end.tv_sec += (time_t)floor(seconds) + nanoseconds / 1000000000;
    end.tv_nsec = nanoseconds % 1000000000;
    return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end) == 0;
#endif
}

struct dt_caller {
    void (*work)(dt_caller *caller, void *argument);
    void *argument;
    bool is_apart; /* `work` has a thread of its own */
    pthread_mutex_t lock;
    pthread_cond_t changed;       /* a task is there or done, or the work is */
    void (*task)(void *argument); /* NULL: none */
    void *task_argument;
    bool is_finished;
};

void dt_caller_do(dt_caller *caller, void (*task)(void *argument), void *argument) {
    if (!caller->is_apart) {
        task(argument);
        return;
    }
    pthread_mutex_lock(&caller->lock);
    caller->task = task;
    caller->task_argument = argument;
    pthread_cond_broadcast(&caller->changed);
    while (caller->task != NULL) pthread_cond_wait(&caller->changed, &caller->lock);
    pthread_mutex_unlock(&caller->lock);
}

static void *work_apart(void *argument) {
    dt_caller *caller = argument;
    caller->work(caller, caller->argument);
    pthread_mutex_lock(&caller->lock);
    caller->is_finished = true;
    pthread_cond_broadcast(&caller->changed);
    pthread_mutex_unlock(&caller->lock);
    return NULL;
}

/* What the caller does meanwhile: tasks, until the work is done. */
static void serve(dt_caller *caller) {
    pthread_mutex_lock(&caller->lock);
    while (!caller->is_finished) {
        if (caller->task == NULL) {
            pthread_cond_wait(&caller->changed, &caller->lock);
            continue;
        }
        pthread_mutex_unlock(&caller->lock);
        caller->task(caller->task_argument);
        pthread_mutex_lock(&caller->lock);
        caller->task = NULL;
        pthread_cond_broadcast(&caller->changed);
    }
    pthread_mutex_unlock(&caller->lock);
}

void dt_run_for_caller(size_t stack_bytes, void (*work)(dt_caller *caller, void *argument), void *argument) {
    dt_caller caller = {.work = work, .argument = argument, .is_apart = true, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    if (!dt_thread_start(&thread, stack_bytes, work_apart, &caller)) {
        caller.is_apart = false;
        work(&caller, argument);
        return;
    }
    serve(&caller);
    pthread_join(thread, NULL);
}
