/* shards: a net of one hidden layer, split into four shards: the kernels of tests/fuzz/artifact/shards.json.
 *
 * w [3, 16] is two groups of columns side by side, v [16] one; a shard has two columns of each group of w, and four elements of v. A shard's hidden
 * units give its part of the prediction; the parts of all are summed, so are the squares of the gradients of w. */
#include "abi/launch.h"

enum {
    IN = 3,
    UNITS = 4 /* of a shard */
};

void init(void *const *buffers, const dt_launch *launch) { /* -> w, v */
    float *w = buffers[0], *v = buffers[1];
    for (int64_t i = 0; i < IN; i++)
        for (int64_t u = 0; u < UNITS; u++) {
            int64_t column = u / 2 * 8 + launch->shard * 2 + u % 2;
            w[i * UNITS + u] = (float)((launch->seed + 16 * i + column) * 7 % 23 - 11) / 23.0f;
        }
    for (int64_t u = 0; u < UNITS; u++) v[u] = (float)((launch->seed + launch->shard * UNITS + u) * 5 % 17 - 8) / 17.0f;
}

void forward(void *const *buffers, const dt_launch *launch) { /* x, w, v -> h, part */
    const float *x = buffers[0], *w = buffers[1], *v = buffers[2];
    float *h = buffers[3], *part = buffers[4];
    for (int64_t r = 0; r < launch->rows; r++) {
        part[r] = 0;
        for (int u = 0; u < UNITS; u++) {
            float sum = 0;
            for (int i = 0; i < IN; i++) sum += x[IN * r + i] * w[i * UNITS + u];
            h[UNITS * r + u] = sum;
            part[r] += sum * v[u];
        }
    }
}

void difference(void *const *buffers, const dt_launch *launch) { /* prediction, y -> difference, loss */
    const float *prediction = buffers[0], *y = buffers[1];
    float *difference = buffers[2];
    double loss = 0;
    for (int64_t r = 0; r < launch->rows; r++) {
        difference[r] = prediction[r] - y[r];
        loss += (double)difference[r] * (double)difference[r];
    }
    *(double *)buffers[3] = loss;
}

void backward(void *const *buffers, const dt_launch *launch) { /* x, v, h, difference -> gradients of w and v */
    const float *x = buffers[0], *v = buffers[1], *h = buffers[2], *difference = buffers[3];
    float *gw = buffers[4], *gv = buffers[5];
    for (int i = 0; i < IN * UNITS; i++) gw[i] = 0;
    for (int u = 0; u < UNITS; u++) gv[u] = 0;
    for (int64_t r = 0; r < launch->rows; r++)
        for (int u = 0; u < UNITS; u++) {
            gv[u] += difference[r] * h[UNITS * r + u];
            for (int i = 0; i < IN; i++) gw[i * UNITS + u] += difference[r] * v[u] * x[IN * r + i];
        }
}

void square(void *const *buffers, const dt_launch *launch) { /* gradient of w -> sum of its squares */
    const float *gw = buffers[0];
    float sum = 0;
    (void)launch;
    for (int i = 0; i < IN * UNITS; i++) sum += gw[i] * gw[i];
    *(float *)buffers[1] = sum;
}

void update(void *const *buffers, const dt_launch *launch) { /* w, v, gradients, norm -> w, v; divided */
    float *w = buffers[0], *v = buffers[1];
    const float *gw = buffers[2], *gv = buffers[3], *norm = buffers[4];
    float rate = 0.125f / (float)launch->global_batch / (1 + *norm);
    for (int64_t i = IN * UNITS * launch->part / launch->n_parts; i < IN * UNITS * (launch->part + 1) / launch->n_parts; i++) w[i] -= rate * gw[i];
    for (int64_t u = UNITS * launch->part / launch->n_parts; u < UNITS * (launch->part + 1) / launch->n_parts; u++) v[u] -= rate * gv[u];
}

void count(void *const *buffers, const dt_launch *launch) { /* n -> n */
    (void)launch;
    ++*(int64_t *)buffers[0];
}
