/* rendezvous: before a run of several processes begins, they compare what has to be the same, and agree on what may differ. */
#ifndef DT_RUNTIME_RENDEZVOUS_H
#define DT_RUNTIME_RENDEZVOUS_H

#include "base/text.h"
#include "runtime/artifact/kernels.h"
#include "runtime/run.h"

/* Compares the artifact, the options and `command`, which is what is run, of all processes. What differs is everybody's error, with both sides.
 * *level: of the code that all can run, where nobody named one; NULL: it is said already. Where others of its machine could use the same cores, the
 * process has taken its share. A line that is worth saying is appended to `note`. Alone there is nothing to compare. bytes: [n_bytes] of the
 * artifact; NULL: those of its file. */
dt_status *dt_rendezvous(const dt_artifact *artifact, const void *bytes, size_t n_bytes, const char *command, const dt_kernels_options *kernels,
                         const dt_run_options *run, const char **level, dt_text *note);

#endif
