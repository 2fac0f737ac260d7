/* switches: what `dtc compile -O` can switch off, one row each, so that what it is worth can be shown.
 *
 * A pass that only improves is left out by the pipeline; a part of a pass that cannot be left out asks dt_switch_is_on. Another switch is a row here
 * and a question there. */
#ifndef DT_KERNEL_SWITCHES_H
#define DT_KERNEL_SWITCHES_H

#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_SWITCHES(X)                                                                                                                               \
    X(SIMPLIFY, "simplify", "the same values with less to compute")                                                                                  \
    X(SHRINK, "shrink", "only what is read is computed")                                                                                             \
    X(SINK, "sink", "relus after poolings, where fewer elements are left; biases too in steps without gradients")                                    \
    X(HOIST, "hoist", "products that need not be computed in each iteration of a scan leave it")                                                     \
    X(ROWS, "rows", "steps that take rows of a large table have forms that touch these rows alone")                                                  \
    X(FUSE, "fuse", "ops share loops and kernels")                                                                                                   \
    X(LIBRARY, "library", "on GPUs, products and convolutions left to vendors' libraries: --library none")                                           \
    X(EPILOGUES, "epilogues", "after products left to libraries, gelu and gradients too, in the same call")                                          \
    X(REMATERIALIZE, "rematerialize", "what is cheaper computed again than stored and loaded is not stored: of scans, and on GPUs")                  \
    X(WINDOWS, "windows", "gradients of poolings walk windows, not elements")                                                                        \
    X(TILE, "tile", "sums of products in register tiles")                                                                                            \
    X(AHEAD, "ahead", "weights laid out once a step, not once a microbatch")                                                                         \
    X(VECTORIZE, "vectorize", "other loops in vectors")                                                                                              \
    X(SPLIT, "split", "norms in blocks of elements, and on GPUs other long reductions in parts")                                                     \
    X(ZEROS, "zeros", "products with what is mostly zero, as gradients of poolings are, leave zeros out")                                            \
    X(MICROBATCHES, "microbatches", "a replica's rows in microbatches, for several cores")                                                           \
    X(PARTS, "parts", "a replica of one microbatch runs on all cores that have none")                                                                \
    X(REUSE, "reuse", "buffers that never live together share memory")

typedef enum dt_switch {
#define X(enumerator, name, what) DT_SWITCH_##enumerator,
    DT_SWITCHES(X)
#undef X
    DT_N_SWITCHES,
    DT_SWITCH_NONE = DT_N_SWITCHES /* of what cannot be switched off */
} dt_switch;

/* Which are off, a bit each. */
typedef uint32_t dt_switches;
#define DT_SWITCHES_OFF ((dt_switches)((1u << DT_N_SWITCHES) - 1)) /* nothing but what has to be done */
static inline bool dt_switch_is_on(dt_switches off, dt_switch which) { return (off >> which & 1u) == 0; }

/* "no-shrink,no-fuse" switches off, "shrink" on again. The error names the nearest switch. */
dt_status *dt_switches_parse(const char *list, dt_switches *off);
/* The list that switches these off: "no-shrink,no-fuse"; nothing when none is off. */
void dt_switches_print(dt_text *text, dt_switches off);

#endif
