/* partial_sums: see the header. */
#include "runtime/execution/partial_sums.h"

#include <stdint.h>

/* Sums that are there, in the order of their microbatches: microbatch numbers are the executor's own. */
typedef struct counter {
    dt_partial_sums *sums;
    int first_microbatch, n_all_microbatches;
    int n_open;
    int *open;      /* [n_microbatches] the first microbatch of each */
    bool *is_used;  /* [n_microbatches] slots */
    int first_free; /* or less */
} counter;

static int take_slot(counter *c) {
    int slot = c->first_free;
    while (c->is_used[slot]) slot++;
    c->is_used[slot] = true;
    c->first_free = slot + 1;
    if (slot >= c->sums->n_slots) c->sums->n_slots = slot + 1;
    return slot;
}

static void begin(counter *c, int microbatch) {
    c->sums->slots[microbatch] = take_slot(c);
    c->sums->spans[microbatch] = 1;
}

/* Whether the last two sums are the halves of a subtree. The tree splits at powers of two, so its nodes are all runs of 2^k microbatches that begin
 * at a multiple of 2^k and end within it; and runs to its end, which are left to the exchange. */
static bool can_merge(const counter *c) {
    if (c->n_open < 2) return false;
    int left = c->open[c->n_open - 2], right = c->open[c->n_open - 1], n = c->sums->spans[left];
    int64_t start = c->first_microbatch + left;
    return n == c->sums->spans[right] && start % (2 * (int64_t)n) == 0 && start + 2 * (int64_t)n <= c->n_all_microbatches;
}

static void merge(counter *c, int after) {
    int left = c->open[c->n_open - 2], right = c->open[c->n_open - 1];
    c->sums->merges[c->sums->n_merges++] = (dt_partial_merge){after, c->sums->slots[left], c->sums->slots[right]};
    c->is_used[c->sums->slots[right]] = false;
    if (c->sums->slots[right] < c->first_free) c->first_free = c->sums->slots[right];
    c->sums->spans[left] *= 2;
    c->sums->spans[right] = 0;
    c->n_open--;
}

dt_partial_sums dt_partial_sums_plan(dt_arena *arena, int first_microbatch, int n_microbatches, int n_together, int n_at_once,
                                     int n_all_microbatches) {
    dt_partial_sums sums = {.slots = DT_NEW_ARRAY(arena, int, n_microbatches),
                            .spans = DT_NEW_ARRAY(arena, int, n_microbatches),
                            .merges = DT_NEW_ARRAY(arena, dt_partial_merge, n_microbatches)};
    counter c = {.sums = &sums,
                 .first_microbatch = first_microbatch,
                 .n_all_microbatches = n_all_microbatches,
                 .open = DT_NEW_ARRAY(arena, int, n_microbatches),
                 .is_used = DT_NEW_ARRAY(arena, bool, n_microbatches)};
    for (int microbatch = 0; microbatch < n_microbatches; microbatch++) {
        if (microbatch == 0)
            for (int m = 0; m < n_at_once && m < n_microbatches; m++) begin(&c, m);
        c.open[c.n_open++] = microbatch;
        while (microbatch + n_together < n_microbatches && can_merge(&c)) merge(&c, microbatch);
        if (microbatch + n_at_once < n_microbatches) begin(&c, microbatch + n_at_once);
    }
    return sums;
}
