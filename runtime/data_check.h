/* data_check: whether all members of a run read the same examples, and what is said where one does not.
 *
 * Before a run begins, members compare how many examples they find, and of which types and shapes. From then on each compares what it reads with what
 * process 0, or server 0, has there: in each step, before it, by marks (data/marks.h) of the rows that its part of the batch is made from. Process 0
 * is right by definition. What it holds in memory it compares whole; of what would have to be read from files, as much as is cheap. */
#ifndef DT_RUNTIME_DATA_CHECK_H
#define DT_RUNTIME_DATA_CHECK_H

#include "runtime/data/pipeline.h"
#include "runtime/execution/session.h"

#define DT_DATA_CHECK_HELP "--data names a folder that has the same files on all machines"

/* What a process says before each step: with the step before (dt_batch.notices), or else by itself. */
typedef struct dt_step_notice {
    int32_t is_known; /* the batch was there */
    int32_t stops;
    dt_folded_marks marks;
} dt_step_notice;

/* Each process of a session has said whether it is to stop, and what it has read for the batch that its pipeline gave last; where one did not know
 * that yet, all say so now. What they say, told->all, dt_step_notice [processes], is used up. *stopped: one is to stop. DT_FAILED_PRECONDITION, in
 * process 0: another one has read something else; a worker of parameter servers leaves, and everybody else gets DT_ABORTED. */
dt_status *dt_data_check_step(dt_session *session, const dt_pipeline *pipeline, const dt_notices *told, bool *stopped);

/* Before the first step, in all processes: they find the same numbers, types and shapes. */
dt_status *dt_data_check_start(dt_session *session, const dt_pipeline *pipeline);

/* What all processes find out alike of process `process`, a fault of its own: an error in all of them, unless it is a worker of parameter servers.
 * Then it is one there, and to the others the run was interrupted, which goes on without it. */
dt_status *dt_fault_of(dt_session *session, int process, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What is said of somebody who has read `what` otherwise. */
dt_status *dt_data_check_error(const char *who, const char *what, const char *name_of_first);

#endif
