/* launch_values: the scalars that a program declares with `launch`, and that a run is given.
 *
 * Each is a variable of the program that no step writes: memory holds it beside the parameters, kernels read it as they read those, and the program's
 * own value is what the initialiser writes. So setting one needs no compilation, and costs a write of a few bytes between two steps. As text it is
 * "rate=0.0003": on the command line, and in a checkpoint. */
#ifndef DT_RUNTIME_EXECUTION_LAUNCH_VALUES_H
#define DT_RUNTIME_EXECUTION_LAUNCH_VALUES_H

#include "runtime/execution/session.h"

/* The variable of a launch value. DT_NOT_FOUND lists what there is. */
dt_status *dt_launch_find(const dt_artifact *artifact, const char *name, int *variable);

/* Whether the launch value can hold `value`: an f32 is finite, a whole number within 2^53, a bool 0 or 1. DT_INVALID_ARGUMENT. */
dt_status *dt_launch_check(const dt_artifact_variable *variable, double value);

/* Of "rate=3e-4" the variable and the value, checked. DT_NOT_FOUND, DT_INVALID_ARGUMENT. */
dt_status *dt_launch_parse(const dt_artifact *artifact, const char *text, int *variable, double *value);

/* "0.0003", "12", "true". buffer: 32 bytes. */
const char *dt_launch_print(const dt_artifact_variable *variable, double value, char buffer[32]);

/* Between two steps; all processes of a run set the same. What the next dt_session_run reads. Errors of dt_launch_check, and of the device. */
dt_status *dt_session_set_launch(dt_session *session, int variable, double value);
dt_status *dt_session_get_launch(dt_session *session, int variable, double *value);

/* A line "rate=0.0003" for each launch value; nothing where the program has none. */
dt_status *dt_session_print_launch(dt_session *session, dt_text *lines);

/* Sets those of `lines` that the program has; NULL are none. DT_DATA_LOSS where a line is no launch value, and none is set: `path` is for the
 * message.
 */
dt_status *dt_session_restore_launch(dt_session *session, const char *lines, const char *path);

#endif
