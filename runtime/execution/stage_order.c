/* stage_order: see the header. The stages are simulated, with units that take as long as they have arithmetic. */
#include "runtime/execution/stage_order.h"

#include <float.h>
#include <math.h>

typedef struct stage {
    int first, last; /* of its units; -1: it has none */
    DT_LIST(int) units;
    int most; /* microbatches under way */
    int n_begun, n_ended;
    double free; /* from then on */
    double busy;
    int n_in_flight;
    DT_LIST(dt_stage_task) tasks;
} stage;

/* Of the units that a stage can go on with, which one it takes. */
typedef enum preference {
    FURTHEST,
    NEAREST,
    SHORTEST,
    N_PREFERENCES
} preference;

typedef struct simulation {
    const dt_staged_segment *segment;
    int n_stages, n_microbatches;
    preference preference;
    int last_first; /* the furthest unit of those with which stages begin */
    stage *stages;
    int *n_done;   /* [n_units] microbatches */
    double **ends; /* [n_units][n_microbatches] */
} simulation;

/* A unit without arithmetic takes some time as well. */
static double length_of(const dt_stage_unit *unit) { return unit->flops > 0 ? unit->flops : 1; }

/* No more than keep it busy: while one microbatch goes from its first unit to its last one, it can compute that many others. Where it comes by more
 * than forwards and backwards, as to a stage that has both uses of a tied table, units of several lengths meet, and one more keeps them from waiting.
 */
static void limit(const simulation *in, stage *one) {
    double through = 0, own = 0;
    int n_units = 0;
    for (int u = one->first; u <= one->last && one->first >= 0; u++) {
        through += length_of(&in->segment->units[u]);
        if (in->segment->units[u].stage != one - in->stages) continue;
        own += length_of(&in->segment->units[u]);
        n_units++;
    }
    double most = own > 0 ? ceil(through / own * (1 - 1e-9)) : 1;
    one->most = (most < in->n_stages ? (int)most : in->n_stages) + (n_units > 2);
}

/* When others have places for what a stage may have sent of the microbatch in whose place it begins another one (DBL_MAX: not known yet). One that
 * ends before others begin would run ahead of them, who could not take what it sends. */
static double room_from(const simulation *in, int s, int microbatch) {
    double ready = 0;
    for (int r = 0; r < in->n_stages && in->stages[s].last < in->last_first; r++) {
        const stage *other = &in->stages[r];
        int sent = microbatch - in->stages[s].most; /* there is a place for it when the one before begins */
        bool takes = in->segment->takers == NULL || dt_stage_is_in(in->segment->takers[s], r);
        if (!takes || other->first < in->stages[s].last || sent <= other->most) continue;
        if (other->n_begun < sent) return DBL_MAX;
        if (in->ends[other->first][sent - 1] > ready) ready = in->ends[other->first][sent - 1];
    }
    return ready;
}

/* u is not as far as the other one. */
static bool is_preferred(const simulation *in, int u, int other) {
    if (in->preference == SHORTEST) return length_of(&in->segment->units[u]) < length_of(&in->segment->units[other]);
    return in->preference == NEAREST;
}

/* The unit that the stage goes on with at some time; -1: none can be. *soonest: when one may, that waits for another stage. */
static int next_unit(const simulation *in, int s, double now, double *soonest) {
    const stage *one = &in->stages[s];
    int best = -1;
    for (size_t i = one->units.n; i-- > 0;) {
        int u = one->units.items[i], m = in->n_done[u];
        bool begins = u == one->first && one->n_begun - one->n_ended >= one->most;
        if (m == in->n_microbatches || begins) continue;
        if (u > 0 && in->n_done[u - 1] <= m) continue;
        double ready = u > 0 ? in->ends[u - 1][m] : 0, room = u == one->first ? room_from(in, s, m) : 0;
        if (room > ready) ready = room;
        if (ready > now && ready < *soonest) *soonest = ready;
        if (ready <= now && (best < 0 || is_preferred(in, u, best))) best = u;
    }
    return best;
}

static void run(simulation *in, int s, int u, double now, dt_arena *arena) {
    stage *one = &in->stages[s];
    int m = in->n_done[u]++;
    one->free = in->ends[u][m] = now + length_of(&in->segment->units[u]);
    one->busy += length_of(&in->segment->units[u]);
    one->n_begun += u == one->first;
    if (one->n_begun - one->n_ended > one->n_in_flight) one->n_in_flight = one->n_begun - one->n_ended;
    one->n_ended += u == one->last;
    dt_list_push(arena, &one->tasks, ((dt_stage_task){u, m}));
}

/* The next task of all that begins soonest, of several the one of the first stage. */
static bool advance(simulation *in, dt_arena *arena) {
    int best = -1, best_unit = -1;
    double soonest_begin = DBL_MAX;
    for (int s = 0; s < in->n_stages; s++) {
        double now = in->stages[s].free, soonest = DBL_MAX;
        int u = next_unit(in, s, now, &soonest);
        if (u < 0 && soonest < DBL_MAX) u = next_unit(in, s, now = soonest, &soonest);
        if (u < 0 || now >= soonest_begin) continue;
        best = s;
        best_unit = u;
        soonest_begin = now;
    }
    if (best >= 0) run(in, best, best_unit, soonest_begin, arena);
    return best >= 0;
}

static void begin(simulation *in, const int *most, dt_arena *arena) {
    in->stages = DT_NEW_ARRAY(arena, stage, in->n_stages);
    in->n_done = DT_NEW_ARRAY(arena, int, in->segment->n_units);
    for (int s = 0; s < in->n_stages; s++) {
        stage *one = &in->stages[s];
        one->first = one->last = -1;
        for (int u = 0; u < in->segment->n_units; u++) {
            if (in->segment->units[u].stage != s) continue;
            if (one->first < 0) one->first = u;
            one->last = u;
            dt_list_push(arena, &one->units, u);
        }
        if (one->first > in->last_first) in->last_first = one->first;
        if (most[s] > 0)
            one->most = most[s];
        else
            limit(in, one);
    }
}

/* Stages have places for as many as were under way: again with these, where there were fewer than might be. */
static void simulate(simulation *in, dt_arena *arena) {
    int *most = DT_NEW_ARRAY(arena, int, in->n_stages);
    bool is_fewer = true;
    while (is_fewer) {
        begin(in, most, arena);
        while (advance(in, arena)) {
        }
        is_fewer = false;
        for (int s = 0; s < in->n_stages; s++) {
            most[s] = in->stages[s].n_in_flight > 1 ? in->stages[s].n_in_flight : 1;
            is_fewer |= most[s] < in->stages[s].most;
        }
    }
}

static const dt_stage_order *orders_by(const dt_staged_segment *segment, int n_stages, int n_microbatches, preference by, dt_arena *arena) {
    dt_stage_order *made = DT_NEW_ARRAY(arena, dt_stage_order, n_stages);
    simulation in = {.segment = segment, .n_stages = n_stages, .n_microbatches = n_microbatches, .preference = by};
    double end = 0;
    in.ends = DT_NEW_ARRAY(arena, double *, segment->n_units);
    for (int u = 0; u < segment->n_units; u++) in.ends[u] = DT_NEW_ARRAY(arena, double, n_microbatches);
    simulate(&in, arena);
    for (int s = 0; s < n_stages; s++)
        if (in.stages[s].free > end) end = in.stages[s].free;
    for (int s = 0; s < n_stages; s++) {
        const stage *one = &in.stages[s];
        made[s] = (dt_stage_order){(int)one->tasks.n, one->tasks.items, one->most, one->busy, end};
    }
    return made;
}

const dt_stage_order *dt_stage_orders(const dt_staged_segment *segment, int n_stages, int n_microbatches, dt_arena *arena) {
    const dt_stage_order *best = NULL;
    for (int by = 0; by < N_PREFERENCES; by++) {
        const dt_stage_order *orders = orders_by(segment, n_stages, n_microbatches, (preference)by, arena);
        if (best == NULL || orders[0].end < best[0].end * (1 - 1e-9)) best = orders;
    }
    return best;
}
