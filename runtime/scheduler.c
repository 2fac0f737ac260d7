/* scheduler: see scheduler.h. Here: all processes together. */
#include "runtime/scheduler.h"

#include "base/memory.h"
#include "runtime/threads/clock.h"

#include <inttypes.h>

typedef struct together {
    dt_scheduler base;
    dt_processes *processes;
    dt_log *log;
    int64_t epoch;
    double began, idle_before; /* the epoch; of dt_processes_idle_seconds then */
    bool said_who_is_slow;
} together;

static dt_status *begin(dt_scheduler *base, dt_runner *runner, dt_pipeline *data, int64_t epoch, int64_t position) {
    together *self = (together *)base;
    self->epoch = epoch;
    self->began = dt_seconds_now();
    self->idle_before = dt_processes_idle_seconds(self->processes);
    return dt_runner_begin(runner, data, epoch, position);
}

static dt_status *step(dt_scheduler *self, dt_runner *runner, const dt_scheduler_place *place, dt_runner_outcome *outcome) {
    (void)self;
    return dt_runner_step(runner, place->counter, place->stops, outcome);
}

/* Says once which process all others have waited for in the epoch, where there is such a one. */
static dt_status *end(dt_scheduler *base, dt_runner *runner) {
    (void)runner;
    static const double LEAST_SECONDS = 1, LEAST_TIMES = 3;
    together *self = (together *)base;
    dt_processes *processes = self->processes;
    int n = dt_processes_count(processes), slowest = 0;
    if (n == 1) return NULL;
    double seconds = dt_seconds_now() - self->began, idle = dt_processes_idle_seconds(processes) - self->idle_before, others = 0;
    double *busy = dt_allocate_zeroed((size_t)n, sizeof *busy);
    if (busy == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    busy[dt_processes_number(processes)] = seconds - idle;
    dt_status *status = dt_processes_allgather(processes, busy, sizeof *busy, &(dt_step_context){.step = "epoch", .number = self->epoch});
    for (int p = 1; p < n; p++) slowest = busy[p] > busy[slowest] ? p : slowest;
    for (int p = 0; p < n; p++) others = p != slowest && busy[p] > others ? busy[p] : others;
    if (status == NULL && !self->said_who_is_slow && busy[slowest] > LEAST_TIMES * others && busy[slowest] - others > LEAST_SECONDS) {
        char name[160];
        dt_processes_print_name(processes, slowest, name, sizeof name);
        dt_log_remark(self->log, "warning",
                      "%s was at work for %.1f s of epoch %" PRId64
                      ", the others for %.1f s at most: they wait for it; look at what else runs there, or go on "
                      "without that machine",
                      name, busy[slowest], self->epoch + 1, others);
        self->said_who_is_slow = true;
    }
    dt_release(busy);
    return status;
}

static dt_status *say(const dt_scheduler *self, int64_t epoch, int64_t epochs) { return (void)self, (void)epoch, (void)epochs, NULL; }
static dt_status *sync(const dt_scheduler *self) { return (void)self, NULL; }
static void outdate(const dt_scheduler *self) { (void)self; }

dt_status *dt_scheduler_create(const dt_run_options *options, dt_session *session, int of, dt_log *log, dt_scheduler **scheduler) {
    static const dt_scheduler_kind kind = {begin, step, end, say, sync, outdate};
    if (options->team != NULL) return dt_scheduler_create_leases(options, session, of, log, scheduler);
    together *made = dt_allocate_zeroed(1, sizeof *made);
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    *made = (together){.base = {&kind}, .processes = options->processes, .log = log};
    *scheduler = &made->base;
    return NULL;
}
