/* checkpoint_writer: checkpoints that threads of all processes write while training goes on.
 *
 * A checkpoint begins on the boundary of a step: each process copies what it is to write (checkpoint_plan.h) to the host's memory. A thread of each
 * then writes the copy into a folder with a temporary name, syncs it, and tells process 0, beside the exchanges of steps, the sums of its ranges.
 * When all have, process 0's thread writes progress.json, gives the folder its name, and removes what is no longer to be kept: no process waits for
 * another one's disk, and a checkpoint is whole or not there. There is one copy, so the next checkpoint waits for the one before. What a thread has
 * done, or how it failed, is told to the caller by its own calls: nobody else's thread is called. Where the processes do not see one folder, process
 * 0 writes everything; what is shared out is collected piece by piece while it is written, and training waits for that.
 *
 * A NULL is a valid writer everywhere here, of a run that writes none. All processes make the same calls. Threads: one caller. */
#ifndef DT_RUNTIME_CHECKPOINT_WRITER_H
#define DT_RUNTIME_CHECKPOINT_WRITER_H

#include "runtime/checkpoint_state.h"
#include "runtime/execution/session.h"

typedef struct dt_checkpoint_writer dt_checkpoint_writer;

typedef struct dt_checkpoint_writer_options {
    const char *folder;    /* exists, and is this run's (dt_checkpoint_prepare) */
    uint64_t mark;         /* of the run, where all processes see the folder (checkpoint_lock.h); 0: they do not */
    int64_t keep;          /* of the newest checkpoints; the others are removed, but for state.best_step */
    dt_progress *progress; /* counts pieces of what is written; NULL: nobody asks */
    dt_timeline *timeline; /* gets a thread; NULL: nothing is recorded */
    /* A checkpoint is whole: in process 0. stall_seconds: how long a step waited for it, in the process where that was longest. */
    void (*written)(void *context, const char *path, int64_t step, double stall_seconds);
    void *context;
} dt_checkpoint_writer_options;

/* Of the host's memory, for the copy of what this process will write of a session with these options. */
int64_t dt_checkpoint_copy_bytes(const dt_artifact *artifact, const dt_session_options *options, bool is_shared);

/* The session and the folder's name outlive the writer. */
dt_status *dt_checkpoint_writer_create(dt_session *session, const dt_checkpoint_writer_options *options, dt_checkpoint_writer **writer);
/* Waits for what is being written; nobody is told any more. */
void dt_checkpoint_writer_destroy(dt_checkpoint_writer *writer);

/* Once the checkpoint before is whole, copies the session's variables and begins to write them. The strings of the state stay as they are until it is
 * written; its totals may change. */
dt_status *dt_checkpoint_writer_begin(dt_checkpoint_writer *writer, const dt_checkpoint_state *state);

/* Both tell what has been written, and return how writing failed, once; then there is nothing to wait for. The first one does not wait. */
dt_status *dt_checkpoint_writer_look(dt_checkpoint_writer *writer);
dt_status *dt_checkpoint_writer_wait(dt_checkpoint_writer *writer);

#endif
