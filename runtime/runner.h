/* runner: one step of the program over batches, of a pipeline an epoch at a time, or of the caller's: totals, times and mistakes come out. What
 * train, evaluate and an application's own loop share.
 *
 * Where the session is one of several processes, each has a runner, with the pipeline of its part: all make the same calls, and get the same
 * outcomes. */
#ifndef DT_RUNTIME_RUNNER_H
#define DT_RUNTIME_RUNNER_H

#include "runtime/data/pipeline.h"
#include "runtime/execution/reports.h"
#include "runtime/execution/session.h"
#include "runtime/log.h"

typedef struct dt_runner dt_runner;

/* Both outlive the runner; the session is that of `kernels`. ignore_bad_index: an index out of range is counted, and reported at the end of the
 * epoch. */
dt_status *dt_runner_create(const dt_kernels *kernels, dt_session *session, int step, bool ignore_bad_index, dt_runner **runner);
void dt_runner_destroy(dt_runner *runner); /* NULL is allowed */

/* Goes to example `position` of epoch `epoch` of the pipeline, both from 0, with totals of nothing; after an error they are what they were. Batches
 * that an application gives may begin at 0, as dt_runner_position then says. The pipeline gives what the step takes (dt_pipeline_check), and outlives
 * its use here. */
dt_status *dt_runner_begin(dt_runner *runner, dt_pipeline *pipeline, int64_t epoch, int64_t position);

typedef enum dt_runner_outcome {
    DT_RUNNER_RAN,        /* a batch */
    DT_RUNNER_EPOCH_OVER, /* there was none left */
    DT_RUNNER_STOPPED     /* a process said so, or its pipeline's `stop` ended the wait for one; dt_runner_begin may follow */
} dt_runner_outcome;

/* The same for batches that dt_runner_run_at runs, in any order: the pipeline is not started. */
void dt_runner_go_to(dt_runner *runner, dt_pipeline *pipeline, int64_t epoch, int64_t position);
/* Runs a batch that stands at example `first` of the epoch; its rows count as consumed. Fails as dt_runner_step does. */
dt_status *dt_runner_run_at(dt_runner *runner, const dt_batch *batch, int64_t first);

/* Runs a batch of the caller's. Fails as dt_runner_step does. */
dt_status *dt_runner_run(dt_runner *runner, const dt_batch *batch);

/* Runs the next batch of the pipeline, if there is one and no process says `stop`, or has a pipeline that says so. Fails for an index out of range
 * (unless ignored) and for a report that is not a number: with step and example, or step and report; the batch then has run, and counts. `counter` is
 * launch.counter. */
dt_status *dt_runner_step(dt_runner *runner, int64_t counter, bool stop, dt_runner_outcome *outcome);

int dt_runner_of(const dt_runner *runner);           /* which step, in the artifact */
int64_t dt_runner_n_run(const dt_runner *runner);    /* batches that have run, also where what they left was an error; from 1 on there are values */
dt_reports *dt_runner_reports(dt_runner *runner);    /* totals of the epoch; to be restored after begin */
int64_t dt_runner_position(const dt_runner *runner); /* examples of the epoch that were consumed */
int64_t dt_runner_n_examples(const dt_runner *runner);
dt_status *dt_runner_bad_indices(dt_runner *runner, int64_t *n); /* ignored in this epoch, by all processes: each calls it */
void dt_runner_add_bad_indices(dt_runner *runner, int64_t n);    /* those of leases, which other sessions compute: told to this process alone */

/* Valid until the next call of either. */
dt_log_values dt_runner_step_values(dt_runner *runner);  /* of the last step alone */
dt_log_values dt_runner_epoch_values(dt_runner *runner); /* of the epoch so far */
/* All reports of the step one after the other, as dt_artifact_step.report_starts says. */
const double *dt_runner_step_reports(dt_runner *runner);
const double *dt_runner_epoch_reports(dt_runner *runner);
double dt_runner_value(dt_runner *runner, int64_t value); /* one of the last */

/* All but epoch and epochs. */
dt_log_epoch dt_runner_summary(const dt_runner *runner, bool complete);

#endif
