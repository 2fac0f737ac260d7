/* metric: the report that --keep-best and --stop-after-no-gain watch: "evaluate.accuracy", "min:train.error". */
#ifndef DT_RUNTIME_METRIC_H
#define DT_RUNTIME_METRIC_H

#include "runtime/artifact/artifact.h"

typedef struct dt_metric {
    char *name; /* "evaluate.accuracy", without min: or max:; NULL: nothing is watched */
    int step, report;
    bool smaller_is_better;
} dt_metric;

/* Which one `text` names: a report of the step that trains or of `evaluate` (-1: there is none). Without min: or max: a report whose name holds
 * loss, error or perplexity is better when it is smaller. text NULL: where `wanted`, the first report of evaluate, or else of the step that trains.
 * DT_NOT_FOUND lists what can be named. */
dt_status *dt_metric_find(const dt_artifact *artifact, int trains, int evaluate, const char *text, bool wanted, dt_metric *metric);
void dt_metric_free(dt_metric *metric);

/* A number is better than none. */
bool dt_metric_is_better(const dt_metric *metric, double value, double best);

#endif
