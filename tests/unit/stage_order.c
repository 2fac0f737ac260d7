/* stage_order: one forward, one backward, on any stages; and no stage ever waits for itself, however messages wait for their receivers. */
#include "runtime/execution/stage_order.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    MOST_UNITS = 2 * DT_MOST_STAGES
};

/* Through all stages, and back again, the last one of which goes both ways at once. */
static dt_staged_segment straight(dt_stage_unit *units, int n_stages, double forwards, double backwards) {
    int n = 2 * n_stages - 1;
    for (int u = 0; u < n; u++) {
        units[u] = (dt_stage_unit){.stage = u < n_stages ? u : n - 1 - u, .flops = u < n_stages ? forwards : backwards};
        if (u == n_stages - 1) units[u].flops = forwards + backwards;
    }
    return (dt_staged_segment){.n_units = n, .units = units};
}

static void forwards_and_backwards(void **state) {
    (void)state;
    dt_stage_unit units[MOST_UNITS];
    for (int n = 1; n <= DT_MOST_STAGES; n = n < 8 ? n + 1 : 2 * n)
        for (int m = 1; m <= 64; m = m < 9 ? m + 1 : 2 * m) {
            dt_arena *arena = dt_arena_create();
            dt_staged_segment segment = straight(units, n, 1, 2);
            const dt_stage_order *orders = dt_stage_orders(&segment, n, m, arena);
            for (int s = 0; s < n; s++) {
                double idle = (orders[s].end - orders[s].busy) / orders[s].busy, wanted = (double)(n - 1) / m;
                assert_int_equal(orders[s].n, s == n - 1 ? m : 2 * m);
                assert_int_equal(orders[s].n_in_flight, m < n - s ? m : n - s);
                if (m >= n) assert_true(fabs(idle - wanted) < 1e-9);
            }
            dt_arena_destroy(arena);
        }
}

/* ---- messages that wait for their receivers ---- */

typedef struct run {
    const dt_staged_segment *segment;
    const dt_stage_order *orders;
    int n_stages, n_microbatches;
    int at[DT_MOST_STAGES];   /* tasks that a stage has begun */
    int done[MOST_UNITS];     /* microbatches that went through */
    int most[DT_MOST_STAGES]; /* in flight, found */
    int flying[DT_MOST_STAGES];
} run;

static bool crosses(const run *r, int unit) {
    return unit + 1 < r->segment->n_units && r->segment->units[unit].stage != r->segment->units[unit + 1].stage;
}

/* What unit `unit` has sent of a microbatch has come: the receiver takes one ahead, when it goes on with the one before. */
static bool has_come(const run *r, int unit, int microbatch) {
    return !crosses(r, unit) || (r->done[unit] > microbatch && (microbatch == 0 || r->done[unit + 1] >= microbatch));
}

static int first_unit(const run *r, int stage) {
    int u = 0;
    while (r->segment->units[u].stage != stage) u++;
    return u;
}

/* A stage sends, and goes on; before it does more with a microbatch, or with another one in its place, what it has sent of it has come. */
static bool can_begin(const run *r, int s, dt_stage_task task) {
    int place_of = task.unit == first_unit(r, s) ? task.microbatch - r->orders[s].n_in_flight : task.microbatch;
    if (task.unit > 0 && r->done[task.unit - 1] <= task.microbatch) return false;
    for (int u = 0; u < r->segment->n_units && place_of >= 0; u++)
        if (r->segment->units[u].stage == s && r->done[u] > place_of && !has_come(r, u, place_of)) return false;
    return true;
}

static void run_all(const dt_staged_segment *segment, int n_stages, int n_microbatches) {
    dt_arena *arena = dt_arena_create();
    run r = {.segment = segment,
             .orders = dt_stage_orders(segment, n_stages, n_microbatches, arena),
             .n_stages = n_stages,
             .n_microbatches = n_microbatches};
    bool moved = true;
    while (moved) {
        moved = false;
        for (int s = 0; s < n_stages; s++) {
            if (r.at[s] == r.orders[s].n || !can_begin(&r, s, r.orders[s].tasks[r.at[s]])) continue;
            dt_stage_task task = r.orders[s].tasks[r.at[s]++];
            bool ends = true;
            for (int u = task.unit + 1; u < segment->n_units; u++) ends = ends && segment->units[u].stage != s;
            assert_int_equal(r.done[task.unit], task.microbatch); /* in their order */
            r.flying[s] += task.unit == first_unit(&r, s);
            if (r.flying[s] > r.most[s]) r.most[s] = r.flying[s];
            r.flying[s] -= ends;
            r.done[task.unit]++;
            moved = true;
        }
    }
    for (int u = 0; u < segment->n_units; u++) assert_int_equal(r.done[u], n_microbatches);
    for (int s = 0; s < n_stages; s++) {
        assert_int_equal(r.most[s] > 1 ? r.most[s] : 1, r.orders[s].n_in_flight);
        assert_true(r.orders[s].n_in_flight <= n_stages + 1);
    }
    dt_arena_destroy(arena);
}

static void nobody_waits_for_ever(void **state) {
    (void)state;
    dt_stage_unit units[MOST_UNITS];
    for (int n = 1; n <= DT_MOST_STAGES; n *= 2) {
        dt_staged_segment segment = straight(units, n, 1, 2);
        run_all(&segment, n, 3 * n);
    }
    srand(7);
    for (int i = 0; i < 3000; i++) { /* any paths, of any lengths, on which every stage stands */
        int n = 2 + rand() % 7, n_units = n;
        for (int u = 0; u < n; u++) units[u] = (dt_stage_unit){.stage = u, .flops = rand() % 20};
        for (int more = rand() % (3 * n); more > 0; more--) {
            int stage = rand() % n;
            if (units[n_units - 1].stage != stage) units[n_units++] = (dt_stage_unit){.stage = stage, .flops = rand() % 20};
        }
        dt_staged_segment segment = {.n_units = n_units, .units = units};
        run_all(&segment, n, 1 + rand() % 24);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forwards_and_backwards),
        cmocka_unit_test(nobody_waits_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
