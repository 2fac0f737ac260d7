/* ranges: bytes of a session's variables, by variable and range, wherever they lie: whole or a share of them in the memory of devices, part by part
 * where a variable is split over shards of the model (shard_pieces.h), or in a table's rows. Checkpoints, weights, what servers give to workers,
 * launch values and applications read and write variables by these calls alone.
 *
 * Each process has one range of each variable: all of it, its share, its rows, or nothing. Those of all processes in order are the variable, once,
 * where they are shared out; else each has all. Where processes have some shards each of a variable that is split, its range is all, but what it
 * reads and writes of that is the pieces of its own shards; dt_ranges_collect knows the others. Threads: those of the session. */
#ifndef DT_RUNTIME_EXECUTION_RANGES_H
#define DT_RUNTIME_EXECUTION_RANGES_H

#include "runtime/execution/session.h"

/* What a process has of a variable in a session with these options, and whether nobody has all of it. */
dt_byte_range dt_ranges_of(const dt_session_options *options, const dt_artifact_variable *variable, int process);
bool dt_ranges_are_shared_out(const dt_session_options *options, const dt_artifact_variable *variable);
/* What this one has; and whether that is all, of all shards. */
dt_byte_range dt_ranges_own(const dt_session *session, int variable);
bool dt_ranges_have_all(const dt_session *session, int variable);

/* Bytes of what this process has, dense, to `data`, as `device` sees them: all devices see the same bits between steps, and what one does not have is
 * the central one's. From `data` those of any range that this process has are taken, to all devices. */
dt_status *dt_ranges_read(dt_session *session, int device, int variable, dt_byte_range range, void *data);
dt_status *dt_ranges_write(dt_session *session, int variable, dt_byte_range range, const void *data);

/* Any bytes, whoever has them, in the process that leads; elsewhere `data` may be NULL. All processes call it for the same ranges in the same order;
 * `context` says what for, where one waits for another. */
dt_status *dt_ranges_collect(dt_session *session, int variable, dt_byte_range range, const dt_step_context *context, void *data);

/* Where all of a variable is, valid as long as the session; NULL where the host cannot read the device's memory, where
 * shards have its parts, or where this process has not all. */
const void *dt_ranges_memory(const dt_session *session, int variable);

#endif
