/* plateau: see plateau.h. */
#include "runtime/plateau.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/execution/launch_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST_CHANGE = 1e-8; /* a smaller one is not made */

/* X(member, least, greatest, whole) */
#define SETTINGS(X)                                                                                                                                  \
    X(factor, 0, 1, false)                                                                                                                           \
    X(patience, 0, 1e9, true)                                                                                                                        \
    X(min, -HUGE_VAL, HUGE_VAL, false)                                                                                                               \
    X(cooldown, 0, 1e9, true)                                                                                                                        \
    X(threshold, 0, 1, false)

static dt_status *set(dt_plateau *plateau, const char *setting) {
    size_t n = strcspn(setting, "=");
    char *end = NULL;
    double value = setting[n] == '=' ? strtod(setting + n + 1, &end) : 0;
    bool is_number = end != NULL && end != setting + n + 1 && *end == 0 && isfinite(value);
#define X(member, least, greatest, whole)                                                                                                            \
    if (n == strlen(#member) && strncmp(setting, #member, n) == 0) {                                                                                 \
        if (!is_number || value < (least) || value > (greatest) || ((whole) && value != trunc(value)))                                               \
            return dt_error(DT_INVALID_ARGUMENT, "--reduce-on-plateau: %s is not a value of %s", setting[n] != 0 ? setting + n + 1 : "nothing",      \
                            #member);                                                                                                                \
        plateau->member = (__typeof__(plateau->member))value;                                                                                        \
        return NULL;                                                                                                                                 \
    }
    SETTINGS(X)
#undef X
    return dt_error(DT_INVALID_ARGUMENT,
                    "--reduce-on-plateau has no setting \"%s\": there are factor, patience, min, cooldown and threshold, as in "
                    "patience=3",
                    setting);
}

/* Writes into `text`: "evaluate.loss:rate,factor=0.1". */
static dt_status *parse(const dt_artifact *artifact, const int *steps, int n_steps, char *text, dt_plateau *plateau) {
    char *rest = text, *names = strsep(&rest, ","), *colon = strrchr(names, ':');
    dt_text name = {0};
    if (colon == NULL || colon == names || colon[1] == 0 || strcmp(names, "min:") == 0)
        return dt_error(DT_INVALID_ARGUMENT, "--reduce-on-plateau takes a report and a launch value, as in evaluate.loss:rate, not %s", names);
    *colon = 0;
    DT_TRY(dt_launch_find(artifact, colon + 1, &plateau->variable));
    if (artifact->variables[plateau->variable].tensor.dtype != DT_F32)
        return dt_error(DT_INVALID_ARGUMENT, "--reduce-on-plateau reduces an f32, launch value %s is %s", colon + 1,
                        dt_dtype_name(artifact->variables[plateau->variable].tensor.dtype));
    DT_TRY(dt_metric_find(artifact, steps, n_steps, names, true, &plateau->metric));
    dt_text_format(&name, "%s:%s", plateau->metric.name, colon + 1);
    plateau->name = dt_text_take(&name);
    if (plateau->name == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    while (rest != NULL) DT_TRY(set(plateau, strsep(&rest, ",")));
    return NULL;
}

dt_status *dt_plateau_find(const dt_artifact *artifact, const int *steps, int n_steps, const char *text, dt_plateau *plateau) {
    *plateau = (dt_plateau){.factor = 0.1, .patience = 10, .threshold = 1e-4};
    if (text == NULL) return NULL;
    char *copy = dt_allocate(strlen(text) + 1);
    if (copy == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    strcpy(copy, text);
    dt_status *status = parse(artifact, steps, n_steps, copy, plateau);
    dt_release(copy);
    return status;
}

void dt_plateau_free(dt_plateau *plateau) {
    dt_metric_free(&plateau->metric);
    dt_release(plateau->name);
    *plateau = (dt_plateau){0};
}

dt_plateau_state dt_plateau_begin(const dt_plateau *plateau) {
    return (dt_plateau_state){.best = plateau->metric.smaller_is_better ? HUGE_VAL : -HUGE_VAL};
}

double dt_plateau_next(const dt_plateau *plateau, dt_plateau_state *state, double value, double rate) {
    bool is_gain =
        plateau->metric.smaller_is_better ? value < state->best * (1 - plateau->threshold) : value > state->best * (1 + plateau->threshold);
    state->n_bad = is_gain ? 0 : state->n_bad + 1;
    if (is_gain) state->best = value;
    if (state->n_cooling > 0) {
        state->n_cooling--;
        state->n_bad = 0;
    }
    if (state->n_bad <= plateau->patience) return rate;
    state->n_bad = 0;
    state->n_cooling = plateau->cooldown;
    double reduced = fmax(rate * plateau->factor, plateau->min);
    return rate - reduced > LEAST_CHANGE ? reduced : rate;
}
