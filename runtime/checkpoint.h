/* checkpoint: a session's variables and where training was, in folders that are whole or not there.
 *
 *   ck/step-469/model.safetensors        parameters and states, by path
 *   ck/step-469/optimizer.safetensors    slots
 *   ck/step-469/progress.json            checkpoint_state.h; launch values
 *   ck/.lock                             checkpoint_lock.h
 *
 * A checkpoint is written under a temporary name (checkpoint_writer.h), its files synced, the folder renamed, the parent synced: killed at any
 * moment, the run leaves the checkpoints that were there. Loading takes the newest and believes nothing of it that its sums do not confirm. Neither
 * depends on the number of replicas, devices or processes. */
#ifndef DT_RUNTIME_CHECKPOINT_H
#define DT_RUNTIME_CHECKPOINT_H

#include "runtime/checkpoint_lock.h"
#include "runtime/checkpoint_state.h"
#include "runtime/execution/session.h"

/* Makes a folder for the unfinished checkpoint of a step, whose name the caller frees. Where several processes write into it all make it, with a
 * mark, not 0, that no other checkpoint has, be it of this run or what another one left. */
dt_status *dt_checkpoint_make_unfinished(const char *folder, int64_t step, uint64_t mark, char **unfinished);
/* Writes `state` beside the files of tensors, which are whole and synced, and gives the folder its name, *path, which the caller frees. A checkpoint
 * of the same step is replaced, in one move. */
dt_status *dt_checkpoint_publish(const char *folder, const char *unfinished, const dt_checkpoint_state *state, char **path);

/* Removes all but the newest `keep` checkpoints and the one of step `best_step` (-1: none). */
dt_status *dt_checkpoint_prune(const char *folder, int64_t keep, int64_t best_step);

/* Makes the folder where it is missing, takes it for this process (checkpoint_lock.h: the caller unlocks *lock), sees that it can be written, and
 * removes what a run that was killed left half written. */
dt_status *dt_checkpoint_prepare(const char *folder, int *lock);

/* The newest checkpoint; *path is NULL where there is none, also where there is no folder. The caller frees it. */
dt_status *dt_checkpoint_newest(const char *folder, char **path);

/* DT_ALREADY_EXISTS: there is a checkpoint, so no new run may write there. */
dt_status *dt_checkpoint_check_new(const char *folder);

/* Where the run was that wrote the checkpoint at `path`. The state is to be freed, after an error too. */
dt_status *dt_checkpoint_read_state(const char *path, dt_checkpoint_state *state);

/* Checks all of the checkpoint at `path`, then sets all variables of the session. DT_DATA_LOSS for a damaged one: the message says which other one is
 * there. DT_FAILED_PRECONDITION for one of another model: the message lists both sides. The session is unchanged after either. */
dt_status *dt_checkpoint_load(dt_session *session, const char *path, dt_checkpoint_state *state);

/* Sets parameters, states and launch values from the checkpoint at `path`. Slots stay as they are. Errors as of dt_checkpoint_load. */
dt_status *dt_checkpoint_load_weights(dt_session *session, const char *path);

/* Reads the parameters and states of what `dtrun --init` names: a checkpoint, or a safetensors file. The caller frees *weights. */
dt_status *dt_checkpoint_read_weights(const char *path, dt_safetensors **weights);

#endif
