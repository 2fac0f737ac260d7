/* given: data of a caller's own as a run takes it (runtime/data/given.h). */
#ifndef DT_RUNTIME_DTRT_GIVEN_H
#define DT_RUNTIME_DTRT_GIVEN_H

#include "runtime/dtrt/processes.h"

/* What a caller has given for a step, until the run is over. */
typedef struct dt_api_given {
    dt_given base;
    dtrt_session *session;
    int step;
    dtrt_given callers;
    dtrt_array *arrays; /* [inputs of the step] of the caller, or of its last batch */
    dt_artifact_stage stages[3];
    dt_artifact_argument counts[2];
} dt_api_given;

/* Checks what is given for step `step`, NULL: nothing is, which leaves *given NULL. *given is to be freed, after an error too. *hash: of what is the
 * same in all processes. */
dt_status *dt_api_take_given(dtrt_session *session, int step, const dtrt_given *callers, dt_api_given **given, uint64_t *hash);
void dt_api_free_given(dt_api_given *given); /* NULL is allowed */

/* Whether data of that name, as a checkpoint has it, was given. */
bool dt_given_is_name(const char *name);

#endif
