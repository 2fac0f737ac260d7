/* lease_steps: what a step's plan means for leases (leasing.h), whose worker has no slots: servers have them.
 *
 * A worker runs the whole step, updates with it. What servers share out of an update it gets from them, as a gather of the step. Of the rest, small
 * tensors and those of optimizers without slots, its update is that of its own leases alone: of no use, and replaced by the servers'. */
#ifndef DT_RUNTIME_PS_LEASE_STEPS_H
#define DT_RUNTIME_PS_LEASE_STEPS_H

#include "runtime/artifact/artifact.h"

/* is_own[n_variables]: which variables, but slots, a worker has of its own update when the step is over. */
void dt_ps_find_own_updates(const dt_artifact *artifact, int step, bool *is_own);

/* DT_FAILED_PRECONDITION: examples go through parameters that an update with slots has changed before in the same step. */
dt_status *dt_ps_check_step(const dt_artifact *artifact, int step);

#endif
