/* about: texts for people of what a program and a machine are, as `dtrun info`, `dtrun devices` and include/dtrt.h give them. Nothing of a program is
 * run. */
#ifndef DT_RUNTIME_ABOUT_H
#define DT_RUNTIME_ABOUT_H

#include "base/text.h"
#include "runtime/run.h"

/* What the artifact holds: variables, steps, data, code, memory. */
void dt_about_artifact(const dt_artifact *artifact, dt_text *text);

/* What its steps exchange between so many processes, and what that costs. Of the options it takes: replicas, global_batch, devices, shard_optimizer.
 */
dt_status *dt_about_exchange(const dt_artifact *artifact, int64_t n_processes, const dt_run_options *options, dt_text *text);

/* Processors, memory and GPUs of this machine, and the kinds of devices. */
void dt_about_devices(dt_text *text);

#endif
