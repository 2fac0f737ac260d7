/* timeline_file: the timelines of all processes in one file, in the trace event format that Perfetto and chrome://tracing open.
 *
 * A process of the file is a process of the run, a thread one of its threads. Spans of a thread nest or follow one another; exchanges, of which
 * several are under way at a time, are asynchronous events with their tag as id. All times are of process 0's clock. That of another process differs
 * by what gathers at the start bound: nobody leaves one before everybody has entered it. */
#ifndef DT_RUNTIME_TIMELINE_FILE_H
#define DT_RUNTIME_TIMELINE_FILE_H

#include "base/text.h"
#include "runtime/comm/processes.h"
#include "runtime/threads/timeline.h"

/* What this process's clock says where that of process 0 says 0, which is when the run began. */
typedef struct dt_timeline_clock {
    double zero;
    double error_seconds; /* at most, at the start, of all processes */
} dt_timeline_clock;

/* All processes call it. */
dt_status *dt_timeline_align(dt_processes *processes, dt_timeline_clock *clock);

/* Whether a file can be made there; an error where not. */
dt_status *dt_timeline_check_place(const char *path);

/* What crosses processes is no longer recorded, and no other thread records any more. All processes call it, and process 0 writes; or, where `alone`,
 * this one writes what it has itself. `note` is appended a sentence, without its end, for people. */
dt_status *dt_timeline_write(const dt_timeline *timeline, const dt_timeline_clock *clock, dt_processes *processes, bool alone, const char *program,
                             const char *path, dt_text *note);

#endif
