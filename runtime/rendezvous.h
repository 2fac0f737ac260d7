/* rendezvous: before a run of several processes begins, they compare what has to be the same, and agree on what may differ. */
#ifndef DT_RUNTIME_RENDEZVOUS_H
#define DT_RUNTIME_RENDEZVOUS_H

#include "base/text.h"
#include "runtime/artifact/kernels.h"
#include "runtime/run.h"

/* What was agreed on. */
typedef struct dt_agreement {
    const char *level; /* of the code that all can run, where nobody named one; NULL: it is said already */
    int n_cores;       /* of this process: its share, which it has taken, where others of its machine could use the same */
} dt_agreement;

/* Compares the artifact, the options and `command`, which is what is run, of all processes. What differs is everybody's error, with both sides. A
 * line that is worth saying is appended to `note`. Alone there is nothing to compare. bytes: [n_bytes] of the artifact; NULL: those of its file. */
dt_status *dt_rendezvous(const dt_artifact *artifact, const void *bytes, size_t n_bytes, const char *command, const dt_kernels_options *kernels,
                         const dt_run_options *run, dt_agreement *agreed, dt_text *note);

#endif
