/* given: data of an application's own, for a run that would else read a pipeline of the program: examples that a source gives, which a pipeline deals
 * into batches as it does those of files; or batches, as the application has them. All else of a run is the same. */
#ifndef DT_RUNTIME_DATA_GIVEN_H
#define DT_RUNTIME_DATA_GIVEN_H

#include "runtime/data/source.h"

typedef struct dt_given dt_given;

typedef struct dt_given_batch {
    const void *const *inputs; /* [inputs of the step], as dt_batch wants them, until the next call */
    int64_t rows;              /* of the batch of all processes; 0: the epoch is over */
    bool stops; /* before: the run is to stop, so that no batch is wanted. After: there is none, for the application wants to stop, too */
} dt_given_batch;

/* Either `open`, or `next` and what follows it. Outlives the pipeline. */
struct dt_given {
    dt_artifact_pipeline written; /* its name; of examples the stages too, of which the first is no more than a place for the source */
    int64_t rows;                 /* of a batch, of all processes; the last of an epoch may have fewer, and so may any that is given */
    dt_status *(*open)(const dt_given *self, dt_source **source);

    /* On the thread that asks for the batch. */
    dt_status *(*next)(const dt_given *self, dt_given_batch *batch);
    /* Goes to an epoch, of which `position` examples were consumed. *begun: where it begins, 0 where it cannot be entered there. `place`: what `tell`
     * said there; or NULL. */
    dt_status *(*begin)(const dt_given *self, int64_t epoch, int64_t position, const char *place, int64_t *begun);
    /* Where it is, in words of its own; *place is to be released, NULL: it has none. */
    dt_status *(*tell)(const dt_given *self, char **place);
    int64_t n_batches, n_examples; /* of an epoch; 0: not known */
};

#endif
