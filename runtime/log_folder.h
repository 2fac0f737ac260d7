/* log_folder: the events of a training as files, in the folder of --log-dir.
 *
 *   events.out.tfevents.*  what TensorBoard shows: scalars, histograms of weights, pictures. A file for each run, which may go on from another
 *   run.jsonl              all events but weights, a JSON object a line, each with its time: what `dtrun report` reads. Runs that go on append
 *
 * It is a listener of the log. A write that fails ends the writing with a warning, and not the training. */
#ifndef DT_RUNTIME_LOG_FOLDER_H
#define DT_RUNTIME_LOG_FOLDER_H

#include "runtime/log.h"

#define DT_LOG_FOLDER_EVENTS "run.jsonl"

typedef struct dt_log_folder dt_log_folder;

/* Makes the folder and listens to `log`, which outlives it. goes_on: the events of a run that are there already are this one's past; else they are an
 * error (DT_ALREADY_EXISTS). DT_IO: the folder cannot be written to, or another run writes there. clock: seconds since 1970. name: what the names of
 * event files end with; NULL: "HOST.PID". Both strings outlive the folder. */
dt_status *dt_log_folder_open(const char *path, bool goes_on, double (*clock)(void), const char *name, dt_log *log, dt_log_folder **folder);
void dt_log_folder_close(dt_log_folder *folder); /* NULL is allowed */

#endif
