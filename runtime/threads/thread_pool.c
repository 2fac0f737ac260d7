/* thread_pool: see thread_pool.h. */
#include "runtime/threads/thread_pool.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "base/thread.h"
#include "runtime/threads/event.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

typedef struct member {
    dt_thread_pool *pool;
    int number;
    pthread_t thread;
    dt_status *status; /* of its last work */
} member;

struct dt_thread_pool {
    int n, n_started; /* threads: members 1 to n_started */
    bool may_look;
    member *members; /* [n] */
    void (*begin)(void *context, int member);
    void *begin_context;
    dt_event given;    /* advances with each work */
    dt_event finished; /* advances with each member that has finished one */
    _Atomic int n_unfinished;
    dt_thread_pool_work work; /* NULL: the thread ends */
    void *context;
};

static void *run_member(void *argument) {
    member *self = argument;
    dt_thread_pool *pool = self->pool;
    if (pool->begin != NULL) pool->begin(pool->begin_context, self->number);
    for (uint32_t seen = 0;; seen++) {
        while (dt_event_value(&pool->given) == seen) dt_event_wait(&pool->given, seen, pool->may_look, INFINITY);
        if (pool->work == NULL) return NULL;
        self->status = pool->work(pool->context, self->number);
        if (atomic_fetch_sub(&pool->n_unfinished, 1) == 1) dt_event_advance(&pool->finished);
    }
}

dt_status *dt_thread_pool_create(int n, void (*begin)(void *context, int member), void *context, dt_thread_pool **pool) {
    dt_thread_pool *made = dt_allocate_zeroed(1, sizeof *made);
    member *members = dt_allocate_zeroed((size_t)n, sizeof *members);
    *pool = NULL;
    if (made == NULL || members == NULL) {
        dt_release(made);
        dt_release(members);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %d threads", n);
    }
    *made = (dt_thread_pool){.n = n, .may_look = n <= dt_cpu_n_cores(), .members = members, .begin = begin, .begin_context = context};
    for (int i = 1; i < n; i++) {
        members[i] = (member){.pool = made, .number = i};
        int reason = pthread_create(&members[i].thread, NULL, run_member, &members[i]);
        if (reason != 0) {
            dt_thread_pool_destroy(made);
            return dt_status_annotate(dt_thread_error(reason), "device %d of %d", i, n);
        }
        made->n_started = i;
    }
    *pool = made;
    return NULL;
}

void dt_thread_pool_destroy(dt_thread_pool *pool) {
    if (pool == NULL) return;
    pool->work = NULL;
    dt_event_advance(&pool->given);
    for (int i = 1; i <= pool->n_started; i++) pthread_join(pool->members[i].thread, NULL);
    dt_release(pool->members);
    dt_release(pool);
}

/* The failure that caused the others: a member that was only told to stop says DT_ABORTED. */
static dt_status *collect(dt_thread_pool *pool) {
    dt_status *cause = NULL;
    for (int i = 0; i < pool->n; i++) {
        dt_status *status = pool->members[i].status;
        pool->members[i].status = NULL;
        bool better = dt_status_code(cause) == DT_ABORTED && status != NULL && dt_status_code(status) != DT_ABORTED;
        cause = better ? dt_status_first(status, cause) : dt_status_first(cause, status);
    }
    return cause;
}

dt_status *dt_thread_pool_run(dt_thread_pool *pool, dt_thread_pool_work work, void *context) {
    if (pool->n == 1) return work(context, 0);
    uint32_t seen = dt_event_value(&pool->finished);
    pool->work = work;
    pool->context = context;
    atomic_store(&pool->n_unfinished, pool->n - 1);
    dt_event_advance(&pool->given);
    pool->members[0].status = work(context, 0);
    while (dt_event_value(&pool->finished) == seen) dt_event_wait(&pool->finished, seen, pool->may_look, INFINITY);
    return collect(pool);
}
