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

/* Forwards alone, each stage handing on to the next one: nobody waits for those far behind. */
static void forwards_alone(void **state) {
    (void)state;
    dt_stage_unit units[MOST_UNITS];
    dt_stage_set takers[DT_MOST_STAGES] = {0};
    for (int n = 2; n <= DT_MOST_STAGES; n *= 2) {
        dt_arena *arena = dt_arena_create();
        for (int s = 0; s < n; s++) {
            units[s] = (dt_stage_unit){.stage = s, .flops = 1};
            takers[s] = s + 1 < n ? dt_stage_only(s + 1) : 0;
        }
        dt_staged_segment segment = {.n_units = n, .units = units, .takers = takers};
        const dt_stage_order *orders = dt_stage_orders(&segment, n, 32, arena);
        for (int s = 0; s < n; s++) {
            assert_int_equal(orders[s].n_in_flight, 1);
            assert_true(fabs((orders[s].end - orders[s].busy) / orders[s].busy - (n - 1) / 32.0) < 1e-9);
        }
        dt_arena_destroy(arena);
    }
}

/* A tied table: the first stage has the logits too, which are short, between the forwards and backwards of two layers of 1 and 2. What waits for them
 * is not to wait for a long unit before. */
static void there_and_back_and_there(void **state) {
    (void)state;
    dt_stage_unit units[] = {
        {.stage = 0, .flops = 37}, {.stage = 1, .flops = 34}, {.stage = 0, .flops = 4}, {.stage = 1, .flops = 72}, {.stage = 0, .flops = 73}};
    dt_staged_segment segment = {.n_units = 5, .units = units};
    for (int m = 8; m <= 32; m *= 4) {
        dt_arena *arena = dt_arena_create();
        const dt_stage_order *orders = dt_stage_orders(&segment, 2, m, arena);
        double busy = orders[0].busy + orders[1].busy, imbalance = 2 * 114.0 / 220 - 1;
        assert_true((2 * orders[0].end - busy) / busy < 1.0 / m + imbalance + 0.05);
        assert_true(orders[0].n_in_flight <= 3 && orders[1].n_in_flight <= 3);
        dt_arena_destroy(arena);
    }
}

/* ---- messages that wait for their receivers ---- */

/* What a stage makes of a microbatch in unit `after`, and another one needs for unit `before`. */
typedef struct crossing {
    int after, before;
} crossing;

typedef struct run {
    const dt_staged_segment *segment;
    const crossing *crossings;
    int n_crossings;
    const dt_stage_order *orders;
    int n_stages, n_microbatches;
    int at[DT_MOST_STAGES];   /* tasks that a stage has begun */
    int done[MOST_UNITS];     /* microbatches that went through */
    int most[DT_MOST_STAGES]; /* in flight, found */
    int flying[DT_MOST_STAGES];
} run;

static int stage_of(const run *r, int unit) { return r->segment->units[unit].stage; }

static int first_unit(const run *r, int stage) {
    int u = 0;
    while (stage_of(r, u) != stage) u++;
    return u;
}

/* The receiver has places for one more than are in flight, and takes one ahead when it begins the one before. */
static bool has_come(const run *r, const crossing *c, int microbatch) {
    int to = stage_of(r, c->before);
    return r->done[c->after] > microbatch && (microbatch <= r->orders[to].n_in_flight || r->done[first_unit(r, to)] >= microbatch);
}

/* A stage sends, and goes on. What it has sent of a microbatch has come before it does what is after the unit that needs it, or puts another one in
 * its place. */
static bool can_begin(const run *r, int s, dt_stage_task task) {
    bool is_first = task.unit == first_unit(r, s);
    int place_of = is_first ? task.microbatch - r->orders[s].n_in_flight : task.microbatch;
    if (task.unit > 0 && r->done[task.unit - 1] <= task.microbatch) return false;
    for (int c = 0; c < r->n_crossings && place_of >= 0; c++) {
        const crossing *one = &r->crossings[c];
        bool is_sent = stage_of(r, one->after) == s && r->done[one->after] > place_of;
        if (is_sent && (is_first || one->before < task.unit) && !has_come(r, one, place_of)) return false;
    }
    return true;
}

/* From each unit to the next one on another stage, and some past others. */
static int make_crossings(const dt_staged_segment *segment, crossing *made) {
    int n = 0;
    for (int after = 0; after < segment->n_units; after++)
        for (int before = after + 1; before < segment->n_units; before++)
            if (segment->units[after].stage != segment->units[before].stage && (before == after + 1 || rand() % 4 == 0))
                made[n++] = (crossing){after, before};
    return n;
}

static void run_all(const dt_staged_segment *given, int n_stages, int n_microbatches, bool knows_takers) {
    dt_arena *arena = dt_arena_create();
    static crossing crossings[MOST_UNITS * MOST_UNITS];
    dt_stage_set takers[DT_MOST_STAGES] = {0};
    dt_staged_segment told = *given, *segment = &told;
    int n_crossings = make_crossings(segment, crossings);
    for (int c = 0; c < n_crossings; c++)
        takers[segment->units[crossings[c].after].stage] |= dt_stage_only(segment->units[crossings[c].before].stage);
    if (knows_takers) segment->takers = takers;
    run r = {.segment = segment,
             .crossings = crossings,
             .n_crossings = n_crossings,
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
        run_all(&segment, n, 3 * n, true);
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
        run_all(&segment, n, 1 + rand() % 24, i % 2 == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forwards_and_backwards),
        cmocka_unit_test(forwards_alone),
        cmocka_unit_test(there_and_back_and_there),
        cmocka_unit_test(nobody_waits_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
