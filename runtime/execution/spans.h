/* spans: what an executor records for a timeline: what its thread did, and what a device that works ahead did on its queues. */
#ifndef DT_RUNTIME_EXECUTION_SPANS_H
#define DT_RUNTIME_EXECUTION_SPANS_H

#include "runtime/execution/executor.h"

dt_span dt_executor_span(dt_span_kind kind, const char *name, const char *detail, const dt_step_context *context, double began);

/* Operations that the thread has measured one after another, from `began` on. */
void dt_executor_record_measured(dt_executor *executor, const dt_sequence *sequence, const char *label, const dt_step_context *context, double began);

/* What its device has done of the run that has just been waited for. Nothing, where its clock is not read. */
dt_status *dt_executor_record_device(dt_executor *executor, const dt_run_values *values);

#endif
