/* ledger: a file that accounts for each batch of an asynchronous training: one JSON object a line, only ever appended to.
 *
 *   {"event":"opened","epoch":1,"first":1,"last":100,"version":0}                   batches `first` to `last` are leased from here on
 *   {"event":"applied","epoch":1,"batch":3,"version":0,"lag":0,"worker":"host, pid 7"}
 *   {"event":"returned","epoch":1,"batch":4,"worker":"host, pid 7"}                 its worker is gone: it is leased again
 *   {"event":"double","epoch":1,"batch":3,"worker":null}                            came once more, and was dropped; null: from nobody who is known
 *   {"event":"lost","epoch":1,"batch":3,"version":0}                                no longer applied: the training goes on from before it
 *
 * Epochs and batches count from 1 in the file, as in other logs, and from 0 here. The version is how often variables had been updated before. A range
 * may begin with a version that is past: all that was applied from that version on is lost, and stands before its line one by one. So the net of
 * applied and lost lines is what is in the variables, and its versions are 0, 1, 2, … (or go on from the version of the first range).
 *
 * A line is on its way to the disk when its function returns, so it outlives the process, and is there after dt_ps_ledger_sync. A last line that was
 * cut, and lost lines without the range that they belong to, are taken away when a training goes on.
 *
 * Threads: one makes all calls, but dt_ps_ledger_sync, which another one may make meanwhile. All but open allow a ledger that is NULL, and do nothing
 * then. After an error a ledger may only be closed. */
#ifndef DT_RUNTIME_PS_LEDGER_H
#define DT_RUNTIME_PS_LEDGER_H

#include "base/status.h"

#include <stdint.h>

typedef struct dt_ps_ledger dt_ps_ledger;

/* resumes: the file is there and goes on; *version is that which it ends with, -1 if it has no range. DT_NOT_FOUND: it is not there. DT_DATA_LOSS:
 * it is no ledger, or damaged. Else it must not be there, DT_ALREADY_EXISTS. DT_IO: another process has it open. */
dt_status *dt_ps_ledger_open(const char *path, bool resumes, dt_ps_ledger **ledger, int64_t *version);
void dt_ps_ledger_close(dt_ps_ledger *ledger);

/* Batches [first, end) are leased from now on; version: of the variables then. */
dt_status *dt_ps_ledger_opened(dt_ps_ledger *ledger, int64_t epoch, int64_t first, int64_t end, int64_t version);
/* worker: its name. */
dt_status *dt_ps_ledger_applied(dt_ps_ledger *ledger, int64_t epoch, int64_t batch, int64_t version, int64_t lag, const char *worker);
dt_status *dt_ps_ledger_returned(dt_ps_ledger *ledger, int64_t epoch, int64_t batch, const char *worker);
dt_status *dt_ps_ledger_double(dt_ps_ledger *ledger, int64_t epoch, int64_t batch, const char *worker); /* NULL: nobody who is known */
dt_status *dt_ps_ledger_sync(dt_ps_ledger *ledger);

#endif
