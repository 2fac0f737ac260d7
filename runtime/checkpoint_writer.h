/* checkpoint_writer: checkpoints that a thread writes while training goes on.
 *
 * A checkpoint begins on the boundary of a step: the variables are copied to the host's memory. A thread then writes the copy (checkpoint.h) and
 * removes what is no longer to be kept. There is one copy, so the next checkpoint waits for the one before. What the thread has done, or how it
 * failed, is told to the caller by its own calls: nobody else's thread is called. What may be too large for one process, tables of which processes
 * have rows, and what parameter servers have shares of, is collected part by part while it is written, and training waits for that.
 *
 * A NULL is a valid writer everywhere here, of a run that writes none. Threads: one caller. */
#ifndef DT_RUNTIME_CHECKPOINT_WRITER_H
#define DT_RUNTIME_CHECKPOINT_WRITER_H

#include "runtime/checkpoint_state.h"
#include "runtime/execution/session.h"

typedef struct dt_checkpoint_writer dt_checkpoint_writer;

typedef struct dt_checkpoint_writer_options {
    const char *folder;                                             /* exists, and is this run's (dt_checkpoint_prepare) */
    int64_t keep;                                                   /* of the newest checkpoints; the others are removed, but for state.best_step */
    dt_progress *progress;                                          /* counts pieces of what is written; NULL: nobody asks */
    dt_timeline *timeline;                                          /* gets a thread; NULL: nothing is recorded */
    void (*written)(void *context, const char *path, int64_t step); /* a checkpoint is whole */
    void *context;
} dt_checkpoint_writer_options;

/* Of the host's memory, for the copy that a session with these options will be written from. */
int64_t dt_checkpoint_copy_bytes(const dt_artifact *artifact, const dt_session_options *options);

/* The session and the folder's name outlive the writer. */
dt_status *dt_checkpoint_writer_create(dt_session *session, const dt_checkpoint_writer_options *options, dt_checkpoint_writer **writer);
/* Waits for what is being written; nobody is told any more. */
void dt_checkpoint_writer_destroy(dt_checkpoint_writer *writer);

/* What the processes without a writer do while the one that has it begins: they give it what it does not have. */
dt_status *dt_checkpoint_writer_give(dt_session *session);

/* Once the checkpoint before is whole, copies the session's variables and begins to write them. The strings of the state stay as they are until it is
 * written; its totals may change. */
dt_status *dt_checkpoint_writer_begin(dt_checkpoint_writer *writer, const dt_checkpoint_state *state);

/* Both tell what has been written, and return how writing failed, once; then there is nothing to wait for. The first one does not wait. */
dt_status *dt_checkpoint_writer_look(dt_checkpoint_writer *writer);
dt_status *dt_checkpoint_writer_wait(dt_checkpoint_writer *writer);

#endif
