/* line: linear regression as a compiler might have written it: the kernels of tests/fuzz/artifact/line.json.
 *
 * w: 3 weights. A step predicts rows of x, sums the gradient over rows and replicas, and updates w and the number of updates. What it predicted is
 * gathered; what `spread` makes of all rows is summed over replicas and scattered back. */
#include "abi/launch.h"

void init(void *const *buffers, const dt_launch *launch) { /* -> w, n */
    for (int i = 0; i < 3; i++) ((float *)buffers[0])[i] = (float)((launch->seed * 31 + i * 7) % 13) / 13.0f;
    *(int64_t *)buffers[1] = 100;
}

void forward(void *const *buffers, const dt_launch *launch) { /* x, y, w -> gradient, loss, count, prediction */
    const float *x = buffers[0], *y = buffers[1], *w = buffers[2];
    float *gradient = buffers[3], *prediction = buffers[6];
    double loss = 0;
    for (int i = 0; i < 3; i++) gradient[i] = 0;
    for (int64_t r = 0; r < launch->rows; r++) {
        prediction[r] = x[3 * r] * w[0] + x[3 * r + 1] * w[1] + x[3 * r + 2] * w[2];
        float difference = prediction[r] - y[r];
        if (y[r] > 1000)
            dt_bad_index_add(launch->bad_index,
                             &(dt_bad_index){.count = 1, .value = (int64_t)y[r], .row = launch->row_offset + r, .location = 0, .limit = 10});
        loss += (double)(difference * difference);
        for (int i = 0; i < 3; i++) gradient[i] += difference * x[3 * r + i];
    }
    *(double *)buffers[4] = loss;
    *(int64_t *)buffers[5] = launch->rows;
}

void spread(void *const *buffers, const dt_launch *launch) { /* all predictions -> spread */
    for (int64_t r = 0; r < launch->valid; r++) ((float *)buffers[1])[r] = ((float *)buffers[0])[r] + 1;
}

void update(void *const *buffers, const dt_launch *launch) { /* w, n, gradient -> w, n; divided */
    for (int64_t i = 3 * launch->part / launch->n_parts; i < 3 * (launch->part + 1) / launch->n_parts; i++)
        ((float *)buffers[0])[i] -= 0.05f * ((float *)buffers[2])[i] / (float)launch->global_batch;
    if (launch->part == 0) ++*(int64_t *)buffers[1];
}

/* The second replica takes its time in step 3: some seconds by the processor's clock, however busy the machine is. */
void slow(void *const *buffers, const dt_launch *launch) {
    if (launch->counter == 3 && launch->row_offset != 0)
        for (unsigned long long began = __builtin_ia32_rdtsc(); __builtin_ia32_rdtsc() - began < 6000000000;) {
        }
    *(float *)buffers[0] = 1;
}

void mean(void *const *buffers, const dt_launch *launch) { /* sum, count -> mean */
    (void)launch;
    *(double *)buffers[2] = *(double *)buffers[0] / *(double *)buffers[1];
}

void twice(void *const *buffers, const dt_launch *launch) { /* u8 example -> f32 */
    for (int i = 0; i < 4; i++) ((float *)buffers[1])[i] = (float)((uint8_t *)buffers[0])[i] * 2 + (float)launch->counter;
    launch->bad_index->count++;
}
