/* metric: see metric.h. */
#include "runtime/metric.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
    const dt_artifact *artifact;
    const int *steps;
    int n_steps;
    const char *text; /* without min: and max:; or NULL */
} search;

static int64_t n_numbers(const dt_artifact_step *step, int report) { return step->report_starts[report + 1] - step->report_starts[report]; }

static dt_status *refuse(const search *in) {
    dt_text names = {0};
    for (int s = 0; s < in->n_steps; s++) {
        const dt_artifact_step *step = &in->artifact->steps[in->steps[s]];
        for (int r = 0; r < step->n_reports; r++) {
            dt_text_format(&names, "%s%s.%s", names.n > 0 ? ", " : "", step->name, step->reports[r]);
            if (n_numbers(step, r) != 1) dt_text_format(&names, "[0 to %" PRId64 "]", n_numbers(step, r) - 1);
        }
    }
    dt_status *status = dt_error(DT_NOT_FOUND, "%s is no report of this run; there are: %s",
                                 in->text != NULL ? in->text : "what --stop-after-no-gain watches", names.data != NULL ? names.data : "none");
    dt_text_free(&names);
    return status;
}

static bool holds(const char *name, const char *word) { return strstr(name, word) != NULL; }

/* Whether `text` is "step.report", or "step.report[2]", which sets *element. */
static bool names(const char *text, const char *step, const char *report, int64_t *element) {
    size_t n = strlen(step), n_report = strlen(report);
    if (strncmp(text, step, n) != 0 || text[n] != '.' || strncmp(text + n + 1, report, n_report) != 0) return false;
    const char *rest = text + n + 1 + n_report;
    char *end;
    *element = -1;
    if (*rest == 0) return true;
    if (rest[0] != '[' || rest[1] < '0' || rest[1] > '9') return false;
    *element = strtoll(rest + 1, &end, 10);
    return strcmp(end, "]") == 0;
}

static dt_status *set(const search *in, int s, int report, int64_t element, dt_metric *metric) {
    const dt_artifact_step *step = &in->artifact->steps[in->steps[s]];
    const char *name = step->reports[report];
    dt_text text = {0};
    dt_text_format(&text, "%s.%s", step->name, name);
    if (element >= 0) dt_text_format(&text, "[%" PRId64 "]", element);
    *metric = (dt_metric){.name = dt_text_take(&text), .step = in->steps[s], .value = step->report_starts[report] + (element > 0 ? element : 0)};
    metric->smaller_is_better = holds(name, "loss") || holds(name, "error") || holds(name, "perplexity");
    return metric->name != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

/* Sets *metric where the report is the one. */
static dt_status *try(const search *in, int s, int report, dt_metric *metric) {
    const dt_artifact_step *step = &in->artifact->steps[in->steps[s]];
    int64_t n = n_numbers(step, report), element = -1;
    if (in->text == NULL) return n == 1 ? set(in, s, report, -1, metric) : NULL;
    if (!names(in->text, step->name, step->reports[report], &element) || element >= n) return NULL;
    if (element < 0 && n != 1)
        return dt_error(DT_INVALID_ARGUMENT, "%s has %" PRId64 " numbers: name one of them, as in %s[0]", in->text, n, in->text);
    return set(in, s, report, element, metric);
}

/* Whether the text begins with the word, which is passed over then. */
static bool passes(const char **text, const char *word) {
    bool begins = *text != NULL && strncmp(*text, word, strlen(word)) == 0;
    if (begins) *text += strlen(word);
    return begins;
}

dt_status *dt_metric_find(const dt_artifact *artifact, const int *steps, int n_steps, const char *text, bool wanted, dt_metric *metric) {
    search in = {artifact, steps, n_steps, text};
    bool minimum = passes(&in.text, "min:"), maximum = !minimum && passes(&in.text, "max:");
    *metric = (dt_metric){0};
    if (text == NULL && !wanted) return NULL;
    for (int s = 0; s < n_steps && metric->name == NULL; s++)
        for (int r = 0; r < artifact->steps[steps[s]].n_reports && metric->name == NULL; r++) DT_TRY(try(&in, s, r, metric));
    if (metric->name == NULL) return refuse(&in);
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
