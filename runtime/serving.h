/* serving: the steps of an asynchronous parameter server: where dt_runner_step runs the next batch of a pipeline, this applies the next lease
 * (ps/leasing.h), whoever computed it. All servers make the same calls, and get the same outcomes.
 *
 * Leases come in ranges, each of which ends with a barrier: what has been applied then is all that comes before, as after so many steps in order. So
 * a checkpoint, an evaluation and the end of an epoch stand between ranges. */
#ifndef DT_RUNTIME_SERVING_H
#define DT_RUNTIME_SERVING_H

#include "runtime/log.h"
#include "runtime/ps/leasing.h"
#include "runtime/runner.h"

typedef struct dt_serving dt_serving;

typedef struct dt_serving_options {
    dt_ps_team *team;
    dt_session *session;
    dt_processes *processes;
    const atomic_int *stop;
    int step;                   /* of the artifact: the one that trains */
    dt_ps_examples_check check; /* of server 0: of what workers read; .compare NULL: nothing is */
} dt_serving_options;

/* `replicas` is what was asked for. Everything outlives it. DT_FAILED_PRECONDITION: the step does not go with leases. */
dt_status *dt_serving_create(const dt_serving_options *options, int64_t replicas, dt_serving **serving);
void dt_serving_destroy(dt_serving *serving); /* NULL is allowed */

/* In the server that leads: who computed what since the epoch began (epoch from 1), or of the whole run (epoch 0). */
dt_status *dt_serving_say(const dt_serving *serving, int64_t epoch, int64_t epochs, dt_log *log);

/* Where the training is. */
typedef struct dt_serving_place {
    int step; /* of the artifact */
    bool trains;
    int64_t epoch;
    int64_t number; /* training steps that are done */
    int64_t most;   /* batches until the next barrier, at most */
} dt_serving_place;

/* Applies the next lease; the runner has gone to the epoch. DT_RUNNER_STOPPED: all that was leased has been applied. */
dt_status *dt_serving_step(dt_serving *serving, dt_runner *runner, const dt_serving_place *place, dt_runner_outcome *outcome);
/* Where the training ends at a barrier in mid-epoch, whose last lease was applied: waits until workers are done with it. */
dt_status *dt_serving_end(dt_serving *serving, dt_runner *runner);

#endif
