/* roll_call: which processes of a run this machine has, as the system tells: for when they have not found one another, and nobody can be asked.
 *
 * A launcher gives each process its number, the run's name and its size in the environment, which the system shows to whoever it belongs to, also of
 * a process that is stopped, or has not become dtrun yet. */
#ifndef DT_RUNTIME_COMM_ROLL_CALL_H
#define DT_RUNTIME_COMM_ROLL_CALL_H

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct dt_roll_call dt_roll_call;

/* Of the run that a launcher has started this process in; NULL: in none, or there is no memory. */
dt_roll_call *dt_roll_call_take(void);
void dt_roll_call_free(dt_roll_call *call); /* NULL is allowed */

/* Whether process `process` is on this machine; *is_stopped: by a signal. */
bool dt_roll_call_has(const dt_roll_call *call, int process, int64_t *pid, bool *is_stopped);

/* Appends who is missing, as far as this machine knows: "of node7, process 3 (pid 4711) is stopped; process 5 has not begun; process 6 is on another
 * machine, or has not begun"; "process 2 (pid 5) is still sh", which has not become what this process is. */
void dt_roll_call_print_missing(const dt_roll_call *call, dt_text *text);

/* Whether this process speaks for its machine: of those that are not stopped it is the first. */
bool dt_roll_call_leads(const dt_roll_call *call);

#endif
