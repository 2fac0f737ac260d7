/* program: an artifact that sessions share, as include/dtrt.h gives it to callers. */
#ifndef DT_RUNTIME_DTRT_PROGRAM_H
#define DT_RUNTIME_DTRT_PROGRAM_H

#include "include/dtrt.h"
#include "runtime/rendezvous.h"

const dt_artifact *dt_program_artifact(const dtrt_program *program);

/* Its kernels, loaded when the first session wants them, of `level` (NULL: as it was opened for); and a hold on the program, to be given up with
 * dtrt_close. */
dt_status *dt_program_hold(dtrt_program *program, const char *level, const dt_kernels **kernels);

/* dt_rendezvous, about this program. */
dt_status *dt_program_rendezvous(const dtrt_program *program, const char *command, const dt_run_options *run, dt_agreement *agreed, dt_text *note);

int dt_api_n_launch_values(const dt_artifact *artifact);

/* What is wrong with a pointer that may not be NULL: "path is NULL". */
dt_status *dt_api_need(const void *pointer, const char *name);

/* Fails for what is no index of [0, n): "step 7 of 3". */
dt_status *dt_api_check_index(int index, int n, const char *what);

#endif
