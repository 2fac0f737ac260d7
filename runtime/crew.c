/* crew: see crew.h. */
#include "runtime/crew.h"

#include "base/memory.h"
#include "runtime/gate.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

typedef struct member {
    dt_crew *crew;
    int number;
    pthread_t thread;
    dt_status *status; /* of its last work */
} member;

struct dt_crew {
    int n, n_started; /* threads: members 1 to n_started */
    bool may_look;
    member *members; /* [n] */
    void (*begin)(void *context, int member);
    void *begin_context;
    dt_gate given;    /* advances with each work */
    dt_gate finished; /* advances with each member that has finished one */
    _Atomic int n_unfinished;
    dt_crew_work work; /* NULL: go home */
    void *context;
};

static void *run_member(void *argument) {
    member *self = argument;
    dt_crew *crew = self->crew;
    if (crew->begin != NULL) crew->begin(crew->begin_context, self->number);
    for (uint32_t seen = 0;; seen++) {
        while (dt_gate_value(&crew->given) == seen) dt_gate_wait(&crew->given, seen, crew->may_look, INFINITY);
        if (crew->work == NULL) return NULL;
        self->status = crew->work(crew->context, self->number);
        if (atomic_fetch_sub(&crew->n_unfinished, 1) == 1) dt_gate_advance(&crew->finished);
    }
}

dt_status *dt_crew_create(int n, void (*begin)(void *context, int member), void *context, dt_crew **crew) {
    dt_crew *made = dt_allocate_zeroed(1, sizeof *made);
    member *members = dt_allocate_zeroed((size_t)n, sizeof *members);
    *crew = NULL;
    if (made == NULL || members == NULL) {
        dt_release(made);
        dt_release(members);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %d threads", n);
    }
    *made = (dt_crew){.n = n, .may_look = n <= dt_n_cores(), .members = members, .begin = begin, .begin_context = context};
    for (int i = 1; i < n; i++) {
        members[i] = (member){.crew = made, .number = i};
        int reason = pthread_create(&members[i].thread, NULL, run_member, &members[i]);
        if (reason != 0) {
            dt_crew_destroy(made);
            return dt_error(DT_RESOURCE_EXHAUSTED, "cannot start thread %d of %d: %s", i, n, strerror(reason));
        }
        made->n_started = i;
    }
    *crew = made;
    return NULL;
}

void dt_crew_destroy(dt_crew *crew) {
    if (crew == NULL) return;
    crew->work = NULL;
    dt_gate_advance(&crew->given);
    for (int i = 1; i <= crew->n_started; i++) pthread_join(crew->members[i].thread, NULL);
    dt_release(crew->members);
    dt_release(crew);
}

/* The failure that caused the others: a member that was only told to stop says DT_ABORTED. */
static dt_status *collect(dt_crew *crew) {
    dt_status *cause = NULL;
    for (int i = 0; i < crew->n; i++) {
        dt_status *status = crew->members[i].status;
        crew->members[i].status = NULL;
        bool better = dt_status_code(cause) == DT_ABORTED && status != NULL && dt_status_code(status) != DT_ABORTED;
        cause = better ? dt_status_first(status, cause) : dt_status_first(cause, status);
    }
    return cause;
}

dt_status *dt_crew_run(dt_crew *crew, dt_crew_work work, void *context) {
    if (crew->n == 1) return work(context, 0);
    uint32_t seen = dt_gate_value(&crew->finished);
    crew->work = work;
    crew->context = context;
    atomic_store(&crew->n_unfinished, crew->n - 1);
    dt_gate_advance(&crew->given);
    crew->members[0].status = work(context, 0);
    while (dt_gate_value(&crew->finished) == seen) dt_gate_wait(&crew->finished, seen, crew->may_look, INFINITY);
    return collect(crew);
}
