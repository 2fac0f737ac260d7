/* plateau: --reduce-on-plateau, a schedule over a launch value: where a report brings no gain for some epochs, the value is made smaller.
 *
 * It decides as PyTorch's ReduceLROnPlateau does, thresholds being relative: a value is a gain when it is better than the best by `threshold` of
 * that; when more than `patience` epochs in a row bring none, the launch value is multiplied by `factor`, down to `min`, and `cooldown` epochs are
 * not counted. */
#ifndef DT_RUNTIME_PLATEAU_H
#define DT_RUNTIME_PLATEAU_H

#include "runtime/metric.h"

typedef struct dt_plateau {
    dt_metric metric; /* name NULL: nothing is reduced */
    int variable;     /* the launch value, in the artifact */
    char *name;       /* "evaluate.loss:rate": whose state a checkpoint holds; NULL like the metric's */
    double factor, min, threshold;
    int64_t patience, cooldown;
} dt_plateau;

/* What it remembers from epoch to epoch. */
typedef struct dt_plateau_state {
    double best;
    int64_t n_bad;     /* epochs without a gain, since the last gain or reduction */
    int64_t n_cooling; /* epochs that are still not counted */
} dt_plateau_state;

/* `text`: "evaluate.loss:rate,factor=0.1,patience=10,min=0,cooldown=0,threshold=1e-4", what follows the name in any order, or left out: these are the
 * defaults. NULL: none is asked for. `steps` as for dt_metric_find. To be freed after an error too. */
dt_status *dt_plateau_find(const dt_artifact *artifact, const int *steps, int n_steps, const char *text, dt_plateau *plateau);
void dt_plateau_free(dt_plateau *plateau);

dt_plateau_state dt_plateau_begin(const dt_plateau *plateau);

/* After an epoch in which the metric was `value`: what becomes of the launch value, which is `rate`. */
double dt_plateau_next(const dt_plateau *plateau, dt_plateau_state *state, double value, double rate);

#endif
