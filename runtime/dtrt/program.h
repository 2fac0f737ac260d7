/* program: an artifact that sessions share, as include/dtrt.h gives it to callers. */
#ifndef DT_RUNTIME_DTRT_PROGRAM_H
#define DT_RUNTIME_DTRT_PROGRAM_H

#include "include/dtrt.h"
#include "runtime/bench.h"
#include "runtime/rendezvous.h"

const dt_artifact *dt_program_artifact(const dtrt_program *program);

/* Its kernels, loaded when the first session wants them, of `level` (NULL: as it was opened for); and a hold on the program, until
 * dt_program_release. */
dt_status *dt_program_hold(dtrt_program *program, const char *level, const dt_kernels **kernels);
void dt_program_release(dtrt_program *program); /* NULL is allowed */

/* For dtrun: `command`, which is `run`, on a session of the run's own, whose shape and seed may be those of the checkpoint that it goes on from. The
 * processes of `options` meet before; `timeline` is the file that says afterwards what they did, or NULL. */
dt_status *dt_program_run(dtrt_program *program, const char *command, dt_run_options *options, const char *timeline, dt_run_function *run,
                          dt_log *log);

/* Measures steps of the n programs, 1 or 2, in turn (runtime/bench.h), with the code of `level`. */
dt_status *dt_program_bench(dtrt_program *const programs[], int n, const char *level, const dt_run_options *options, const dt_bench_wishes *wishes,
                            dt_text *text);

/* dt_rendezvous, about this program. */
dt_status *dt_program_rendezvous(const dtrt_program *program, const char *command, const dt_run_options *run, const char **level, dt_text *note);

int dt_api_n_launch_values(const dt_artifact *artifact);

/* What is wrong with a pointer that may not be NULL: "path is NULL". */
dt_status *dt_api_need(const void *pointer, const char *name);

/* Fails for what is no index of [0, n): "step 7 of 3". */
dt_status *dt_api_check_index(int index, int n, const char *what);

#endif
