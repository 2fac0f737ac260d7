/* metric: the number that --keep-best and --stop-after-no-gain watch: "evaluate.accuracy", "min:train.error", "check.recall[3]". */
#ifndef DT_RUNTIME_METRIC_H
#define DT_RUNTIME_METRIC_H

#include "runtime/artifact/artifact.h"

typedef struct dt_metric {
    char *name; /* "evaluate.accuracy", without min: or max:; NULL: nothing is watched */
    int step;
    int64_t value; /* number among the values of the step's reports (dt_artifact_step.report_starts) */
    bool smaller_is_better;
} dt_metric;

/* Which one `text` names: a report of the n_steps `steps`, or element [i] of one with a shape. Without min: or max: a report whose name holds loss,
 * error or perplexity is better when it is smaller. text NULL: where `wanted`, the first report of one number, in the order of `steps`.
 * DT_NOT_FOUND lists what can be named; DT_INVALID_ARGUMENT: a report is named whole that has several numbers. */
dt_status *dt_metric_find(const dt_artifact *artifact, const int *steps, int n_steps, const char *text, bool wanted, dt_metric *metric);
void dt_metric_free(dt_metric *metric);

/* A number is better than none. */
bool dt_metric_is_better(const dt_metric *metric, double value, double best);

#endif
