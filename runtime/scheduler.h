/* scheduler: who computes which batch of a step that a training runs. All processes together compute the next batch of the pipeline, each its part of
 * it (scheduler.c); or each worker of asynchronous parameter servers computes a batch that is leased to it, and the servers, who run the training,
 * apply what it gives (scheduler_leases.c). All processes make the same calls, and get the same outcomes. */
#ifndef DT_RUNTIME_SCHEDULER_H
#define DT_RUNTIME_SCHEDULER_H

#include "runtime/run.h"

/* Where the training is. */
typedef struct dt_scheduler_place {
    int64_t epoch;
    int64_t number;  /* training steps that are done */
    int64_t counter; /* launch.counter of the next batch, where batches are in order */
    bool stops;      /* the run is to stop, whatever the pipelines' `stop` says */
} dt_scheduler_place;

typedef struct dt_scheduler dt_scheduler;

typedef struct dt_scheduler_kind {
    /* Goes to example `position` of an epoch of the data. */
    dt_status *(*begin)(dt_scheduler *self, dt_runner *runner, dt_pipeline *data, int64_t epoch, int64_t position);
    dt_status *(*step)(dt_scheduler *self, dt_runner *runner, const dt_scheduler_place *place, dt_runner_outcome *outcome);
    /* After the last step of an epoch of training, or of the run. */
    dt_status *(*end)(dt_scheduler *self, dt_runner *runner);
    /* Who computed what since the epoch began (epoch from 1), or in the whole run (epoch 0). */
    dt_status *(*say)(const dt_scheduler *self, int64_t epoch, int64_t epochs);
    dt_status *(*sync)(const dt_scheduler *self); /* before a checkpoint is written */
    void (*outdate)(const dt_scheduler *self);    /* between epochs: a launch value is about to be set */
} dt_scheduler_kind;

/* To be released, and nothing else. */
struct dt_scheduler {
    const dt_scheduler_kind *kind;
};

/* Of step `step`, which trains, and those that evaluate, as the options say; all of it outlives the scheduler. DT_FAILED_PRECONDITION: the step does
 * not go with leases. */
dt_status *dt_scheduler_create(const dt_run_options *options, dt_session *session, int step, dt_log *log, dt_scheduler **scheduler);
dt_status *dt_scheduler_create_leases(const dt_run_options *options, dt_session *session, int step, dt_log *log, dt_scheduler **scheduler);

#endif
