/* run_details: what a training says of itself beside its events, to those who ask for details: the plan, where the time goes, histograms of weights,
 * pictures of what it makes.
 *
 * All processes make the same calls, and the one that leads emits. Without --log-dir nothing is done. */
#ifndef DT_RUNTIME_RUN_DETAILS_H
#define DT_RUNTIME_RUN_DETAILS_H

#include "runtime/run.h"

typedef struct dt_run_details dt_run_details;

/* Sets what the session is to measure. */
void dt_run_details_want(const dt_run_options *options, dt_session_options *about);

/* Of the training of `step` in `session`, which was created with `about`; all outlive it. *details is NULL where nothing is wanted. */
dt_status *dt_run_details_create(const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about, dt_session *session,
                                 int step, dt_log *log, dt_run_details **details);
void dt_run_details_destroy(dt_run_details *details); /* NULL is allowed, here and below */

/* After the start event: the plan, and launch values, which are those after `number` steps. */
dt_status *dt_run_details_started(dt_run_details *details, int64_t number);
void dt_run_details_step(dt_run_details *details);    /* before a step */
void dt_run_details_stepped(dt_run_details *details); /* after it */
/* After an epoch, from 1, and `number` steps: the times of its steps, launch values, weights, pictures. */
dt_status *dt_run_details_epoch_done(dt_run_details *details, int64_t epoch, int64_t number);

#endif
