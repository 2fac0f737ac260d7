/* bench_profile: where the time of a step goes within kernels, of code that measures itself (`dtc compile --profile`): a tree of the passes forwards
 * and backwards and of the update, of the layers in each, and of the nests in these; as text for people, and as a flame graph. */
#ifndef DT_RUNTIME_BENCH_PROFILE_H
#define DT_RUNTIME_BENCH_PROFILE_H

#include "runtime/bench.h"

/* Nests that are measured together. */
typedef struct dt_bench_timer {
    const dt_artifact_timer *timer;
    const char *kernel;
    double seconds;  /* a step, on all cores together */
    double readings; /* of the clock, a step */
    double flops, bytes;
} dt_bench_timer;

/* Appends the tree; then what takes longest beyond its arithmetic at the peak, equal layers taken together; then what measuring costs. */
void dt_profile_print(dt_text *text, const dt_bench_result *result, const dt_peak *peak);

/* Appends the tree as a picture (SVG): a row for each level, as wide as its time, green at the peak of arithmetic or memory and red far below. */
void dt_profile_draw(dt_text *svg, const char *title, const dt_bench_result *result, const dt_peak *peak);

/* Appends `, "timers": [...]`, an object for each. */
void dt_profile_print_json(dt_text *text, const dt_bench_result *result);

#endif
