/* ranges: bytes of a session's variables, by variable and range, wherever they lie: whole or a share of them in the memory of devices, part by part
 * where a variable is split over shards of the model (shard_pieces.h), or in a table's rows. Checkpoints, weights, what servers give to workers,
 * launch values and applications read and write variables by these calls alone.
 *
 * Bytes of a variable that one process has side by side are a run. All runs of all processes are the variable, where these share it out: each has its
 * share, its rows, its shards' pieces, its share of each of these, or what belongs to its stage. Else each has all. Threads: those of the session. */
#ifndef DT_RUNTIME_EXECUTION_RANGES_H
#define DT_RUNTIME_EXECUTION_RANGES_H

#include "base/arena.h"
#include "runtime/execution/session.h"
#include "runtime/execution/shard_pieces.h"
#include "runtime/execution/stages.h"

/* Who has what of the variables of a program, in sessions with such options. */
typedef struct dt_ranges_layout {
    const dt_artifact *artifact;
    const dt_session_options *options;
    const dt_stages *stages; /* NULL: the model is not cut into stages */
} dt_ranges_layout;

/* For all that a training runs; what is allocated is the arena's. Errors: those of dt_stages_of. */
dt_status *dt_ranges_layout_of(const dt_artifact *artifact, const dt_session_options *options, dt_arena *arena, dt_ranges_layout *layout);

/* Whether nobody has all of a variable, or not all processes do. */
bool dt_ranges_are_shared_out(const dt_ranges_layout *layout, int variable);

/* What process `process` of the run gives of a variable that is shared out, where each byte is given by one of those that have it: added to `given`,
 * which is the arena's. */
typedef DT_LIST(dt_strided_range) dt_strided_ranges;
void dt_ranges_give(const dt_ranges_layout *layout, int variable, int process, dt_arena *arena, dt_strided_ranges *given);

/* From the first to the last byte that this process has; and whether that is all, in one piece of its own. */
dt_byte_range dt_ranges_own(const dt_session *session, int variable);
bool dt_ranges_have_all(const dt_session *session, int variable);

/* Bytes that this process has, each in its place of `data`, as `device` sees them: all devices see the same bits between steps, and what one does not
 * have is the central one's. From `data` those of any range that this process has are taken, to all devices. What another process has is left alone.
 */
dt_status *dt_ranges_read(dt_session *session, int device, int variable, dt_byte_range range, void *data);
dt_status *dt_ranges_write(dt_session *session, int variable, dt_byte_range range, const void *data);

/* Any bytes, whoever has them, in the process that leads; elsewhere `data` may be NULL. All processes call it for the same ranges in the same order;
 * `context` says what for, where one waits for another. */
dt_status *dt_ranges_collect(dt_session *session, int variable, dt_byte_range range, const dt_step_context *context, void *data);

/* Where all of a variable is, valid as long as the session; NULL where the host cannot read the device's memory, where
 * shards have its parts, or where this process has not all. */
const void *dt_ranges_memory(const dt_session *session, int variable);

#endif
