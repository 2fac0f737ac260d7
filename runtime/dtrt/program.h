/* program: an artifact that sessions share, as include/dtrt.h gives it to callers. */
#ifndef DT_RUNTIME_DTRT_PROGRAM_H
#define DT_RUNTIME_DTRT_PROGRAM_H

#include "include/dtrt.h"
#include "runtime/artifact/kernels.h"

const dt_artifact *dt_program_artifact(const dtrt_program *program);

/* Its kernels, loaded when the first session wants them; and a hold on the program, to be given up with dtrt_close. */
dt_status *dt_program_hold(dtrt_program *program, const dt_kernels **kernels);

int dt_api_n_launch_values(const dt_artifact *artifact);

/* What is wrong with a pointer that may not be NULL: "path is NULL". */
dt_status *dt_api_need(const void *pointer, const char *name);

/* Fails for what is no index of [0, n): "step 7 of 3". */
dt_status *dt_api_check_index(int index, int n, const char *what);

#endif
