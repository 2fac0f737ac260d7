/* watch: the processes of a run, seen by somebody who is none of them: by the states that they keep in files (process_state.h), and, on this machine,
 * by whether they are there. */
#ifndef DT_RUNTIME_COMMANDS_WATCH_H
#define DT_RUNTIME_COMMANDS_WATCH_H

#include "base/text.h"
#include "runtime/comm/process_state.h"

typedef struct dt_watch dt_watch;

/* Of n processes, whose states come to lie in `folder`, which outlives it. Somebody has to get on every `deadline_seconds`; all have to have come
 * after `start_seconds`. `elsewhere`: processes may be on other machines, all of them too, whose states nobody sees here. */
dt_status *dt_watch_create(const char *folder, int n, bool elsewhere, double start_seconds, double deadline_seconds, dt_watch **watch);
void dt_watch_destroy(dt_watch *watch); /* NULL is allowed */

/* Returns when something may have changed, after `milliseconds` at the latest. */
void dt_watch_look(dt_watch *watch, int milliseconds);

typedef enum dt_watch_outlook {
    DT_WATCH_RUNS,  /* as far as anybody knows */
    DT_WATCH_FAILS, /* a process says that the run has failed, or has disappeared */
    DT_WATCH_ENDS,  /* all processes that were seen have ended */
    DT_WATCH_STALLS /* none has come, or got on, in time */
} dt_watch_outlook;
dt_watch_outlook dt_watch_find_outlook(const dt_watch *watch);

/* Appends why a run of that outlook failed: who disappeared, or does not get on, and what it did last; or the reason that the processes give, unless
 * one of them has said it. Nothing, where nobody knows. */
void dt_watch_explain(dt_watch *watch, dt_watch_outlook outlook, dt_text *text);

/* Sends a signal to one of the processes of this machine, which tells all others; false: there is none. */
bool dt_watch_signal(const dt_watch *watch, int number);

#endif
