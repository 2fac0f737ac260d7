/* metric: see metric.h. */
#include "runtime/metric.h"

#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

static dt_status *refuse(const dt_artifact *artifact, const int steps[2], const char *text) {
    dt_text names = {0};
    for (int s = 0; s < 2; s++)
        for (int r = 0; steps[s] >= 0 && r < artifact->steps[steps[s]].n_reports; r++)
            dt_text_format(&names, "%s%s.%s", names.n > 0 ? ", " : "", artifact->steps[steps[s]].name, artifact->steps[steps[s]].reports[r]);
    dt_status *status = dt_error(DT_NOT_FOUND, "%s is no report of this run; there are: %s",
                                 text != NULL ? text : "what --stop-after-no-gain watches", names.data != NULL ? names.data : "none");
    dt_text_free(&names);
    return status;
}

static bool holds(const char *name, const char *word) { return strstr(name, word) != NULL; }

/* Whether `text` is "step.report". */
static bool names(const char *text, const char *step, const char *report) {
    size_t n = strlen(step);
    return strncmp(text, step, n) == 0 && text[n] == '.' && strcmp(text + n + 1, report) == 0;
}

static dt_status *set(const dt_artifact *artifact, int step, int report, dt_metric *metric) {
    const char *name = artifact->steps[step].reports[report];
    dt_text text = {0};
    dt_text_format(&text, "%s.%s", artifact->steps[step].name, name);
    *metric = (dt_metric){.name = dt_text_take(&text), .step = step, .report = report};
    metric->smaller_is_better = holds(name, "loss") || holds(name, "error") || holds(name, "perplexity");
    return metric->name != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

dt_status *dt_metric_find(const dt_artifact *artifact, int trains, int evaluate, const char *text, bool wanted, dt_metric *metric) {
    const int steps[2] = {evaluate, trains};
    bool minimum = text != NULL && strncmp(text, "min:", 4) == 0, maximum = text != NULL && strncmp(text, "max:", 4) == 0;
    const char *name = minimum || maximum ? text + 4 : text;
    *metric = (dt_metric){0};
    if (text == NULL && !wanted) return NULL;
    for (int s = 0; s < 2 && metric->name == NULL; s++)
        for (int r = 0; steps[s] >= 0 && r < artifact->steps[steps[s]].n_reports && metric->name == NULL; r++)
            if (text == NULL || names(name, artifact->steps[steps[s]].name, artifact->steps[steps[s]].reports[r]))
                DT_TRY(set(artifact, steps[s], r, metric));
    if (metric->name == NULL) return refuse(artifact, steps, text);
    if (minimum || maximum) metric->smaller_is_better = minimum;
    return NULL;
}

void dt_metric_free(dt_metric *metric) {
    dt_release(metric->name);
    *metric = (dt_metric){0};
}

bool dt_metric_is_better(const dt_metric *metric, double value, double best) {
    if (isnan(best) || isnan(value)) return isnan(best) && !isnan(value);
    return metric->smaller_is_better ? value < best : value > best;
}
