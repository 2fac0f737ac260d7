/* checkpoint_plan: which bytes of a checkpoint's files which process writes.
 *
 * What processes share out is written by those that have it. The rest, which all have alike, is divided evenly: of the bytes of a file that are not
 * shared out, process p of P writes the p-th of P parts; what a group of processes has alike, such as a stage, these divide likewise. Where the
 * folder is not one that all see, process 0 writes everything, and collects what is shared out piece by piece. The files are the same, to the byte,
 * however they are divided. A plan is a function of the artifact, the session's options and the number of processes: all make the same. */
#ifndef DT_RUNTIME_CHECKPOINT_PLAN_H
#define DT_RUNTIME_CHECKPOINT_PLAN_H

#include "runtime/checkpoint_state.h"
#include "runtime/execution/ranges.h"

/* Bytes that lie alike in a variable and in the file: side by side, or, of a shard, as often as it has some, each time so far behind the last. */
typedef struct dt_checkpoint_piece {
    int variable;           /* -1: the file's head */
    dt_strided_range bytes; /* of the variable */
    int64_t offset;         /* of the first in the file */
    int64_t copied;         /* where they begin in this process's copy; -1: they are not in it, but another's to write, the head, or collected */
    bool is_collected;
} dt_checkpoint_piece;

/* Bytes of a file that one process writes, and sums up: of several pieces, which then lie side by side, or of one. */
typedef struct dt_checkpoint_part {
    int file, writer;
    int first_piece, end_piece;
    dt_strided_range bytes; /* of the file */
} dt_checkpoint_part;

typedef struct dt_checkpoint_plan {
    int process, n_writers; /* this one; processes 0 to n_writers - 1 write */
    dt_text heads[DT_CHECKPOINT_FILES];
    int64_t n_bytes[DT_CHECKPOINT_FILES];
    DT_LIST(dt_checkpoint_piece) pieces;
    DT_LIST(dt_checkpoint_part) parts; /* those of a file by where they begin */
    int64_t copy_bytes;                /* of the copy of what this process writes */
    bool collects;
} dt_checkpoint_plan;

/* is_shared: all processes see the folder. What is allocated is the arena's; artifact and options are not kept. Errors: those of dt_stages_of. */
dt_status *dt_checkpoint_plan_make(const dt_artifact *artifact, const dt_session_options *options, bool is_shared, dt_arena *arena,
                                   dt_checkpoint_plan *plan);

int dt_checkpoint_plan_n_parts(const dt_checkpoint_plan *plan, int writer);

/* Writes this process's parts into `folder` and syncs them: sums [n parts], of which those are set. `copy` has what is copied. What is not a number
 * (NaN) is not written: DT_OUT_OF_RANGE. */
dt_status *dt_checkpoint_plan_write(const dt_checkpoint_plan *plan, dt_session *session, const char *copy, const char *folder, int64_t step,
                                    dt_progress *progress, unsigned char (*sums)[DT_SHA256_BYTES]);
/* What the other processes do meanwhile, where something is collected. */
dt_status *dt_checkpoint_plan_give(const dt_checkpoint_plan *plan, dt_session *session, int64_t step);

#endif
