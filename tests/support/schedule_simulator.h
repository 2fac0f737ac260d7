/* schedule_simulator: runs the schedules of all processes in one, message by message, and says what is wrong with them.
 *
 * It knows nothing of algorithms. Each slot has memory, and for every granule of it a tag that says which microbatches it is the sum of; messages and
 * sums move both. So a schedule is wrong if a message has no other end, if something is read that was never written, or is written while it is read,
 * if a sum is not one of the tree, or if the result has other bits than one dt_reduce over all microbatches. */
#ifndef DT_TESTS_SUPPORT_SCHEDULE_SIMULATOR_H
#define DT_TESTS_SUPPORT_SCHEDULE_SIMULATOR_H

#include "runtime/comm/microbatches.h"
#include "runtime/comm/schedule.h"
#include "runtime/devices/reduce.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The sum of microbatches [first, first + span); nothing was written where span is 0. */
typedef dt_schedule_node dt_simulated_tag;

typedef struct dt_simulated_slot {
    char *bytes;
    dt_simulated_tag *tags; /* one a granule */
} dt_simulated_slot;

/* A message, as one of its ends has it. */
typedef struct dt_simulated_end {
    int source, target; /* members */
    int number;         /* of the messages of its process */
    const dt_schedule_message *message;
} dt_simulated_end;

typedef struct dt_simulation {
    const dt_layout *layout;      /* `place` aside */
    const dt_schedule *schedules; /* [n of the layout] */
    const int *member_of;         /* [ranks] */
    dt_arena *arena;
    dt_dtype dtype;
    int64_t granule;           /* bytes: no range ends within one, but for the image's end */
    int64_t n_leaves;          /* of the tree: 1 where nobody contributes, each byte is there once */
    dt_simulated_slot **slots; /* [n][n_slots] */
    void **leaves;             /* [n_leaves] the image that each microbatch leaves; or what owners have, together */
    void *scratch;
    const char *mistake; /* NULL: none yet */
} dt_simulation;

#define DT_SIMULATION_CHECK(s, condition, ...)                                                                                                       \
    do {                                                                                                                                             \
        if (!(condition)) {                                                                                                                          \
            if ((s)->mistake == NULL) (s)->mistake = dt_arena_format((s)->arena, __VA_ARGS__);                                                       \
            return;                                                                                                                                  \
        }                                                                                                                                            \
    } while (0)

/* ---- the tree ---- */

static inline int64_t dt_simulated_left(int64_t n) {
    int64_t left = 1;
    while (left < n - left) left *= 2;
    return left;
}

/* Whether [first, first + n) is a node of the tree over [start, start + all). */
static inline bool dt_simulated_is_node(int64_t first, int64_t n, int64_t start, int64_t all) {
    if (first == start && n == all) return true;
    if (all < 2) return false;
    int64_t left = dt_simulated_left(all);
    return first + n <= start + left ? dt_simulated_is_node(first, n, start, left)
                                     : first >= start + left && dt_simulated_is_node(first, n, start + left, all - left);
}

/* How many of the spans make a tree over n leaves; -1: they don't. */
static inline int dt_simulated_spans(const int64_t *spans, int n_spans, int64_t n) {
    if (n_spans == 0 || spans[0] > n || spans[0] < 1) return -1;
    if (spans[0] == n) return 1;
    int64_t left = dt_simulated_left(n);
    int of_left = dt_simulated_spans(spans, n_spans, left);
    int of_right = of_left < 0 ? -1 : dt_simulated_spans(spans + of_left, n_spans - of_left, n - left);
    return of_right < 0 ? -1 : of_left + of_right;
}

/* ---- values ---- */

/* Floats of mixed magnitudes, so that another order of additions has other bits; bytes where the image is not made of floats. */
static inline void dt_simulated_fill(const dt_simulation *s, uint32_t leaf, void *image) {
    uint32_t state = leaf * 2654435761u + 12345;
    for (int64_t i = 0; i < s->layout->n_bytes / (int64_t)dt_dtype_bytes(s->dtype); i++) {
        state = state * 1664525u + 1013904223u;
        if (s->dtype == DT_F32)
            ((float *)image)[i] = ldexpf((float)(state >> 8), (int)(state % 41) - 44) * (state & 64 ? 1 : -1);
        else
            ((uint8_t *)image)[i] = (uint8_t)(state >> 24);
    }
}

/* The sum of leaves [first, first + n), by one dt_reduce: the naive twin. */
static inline void dt_simulated_sum(const dt_simulation *s, int64_t first, int64_t n, void *target) {
    dt_tree_source *sources = malloc((size_t)n * sizeof *sources);
    for (int64_t i = 0; i < n; i++) sources[i] = (dt_tree_source){s->leaves[first + i], 1};
    size_t n_elements = (size_t)s->layout->n_bytes / dt_dtype_bytes(s->dtype);
    dt_reduce(&(dt_tree_reduction){.dtype = s->dtype,
                                   .combine = DT_REDUCTION_SUM,
                                   .n_leaves = n,
                                   .n_sources = (int)n,
                                   .sources = sources,
                                   .n_elements = n_elements,
                                   .n_targets = 1,
                                   .targets = &target},
              s->scratch);
    free(sources);
}

/* ---- memory ---- */

static inline int64_t dt_simulated_granules(const dt_simulation *s, int64_t n_bytes) { return (n_bytes + s->granule - 1) / s->granule; }

/* The bytes and tags of image byte `at` in a slot. */
static inline char *dt_simulated_bytes(const dt_simulation *s, int process, int slot, int64_t at) {
    return s->slots[process][slot].bytes + (at - s->schedules[process].slots[slot].first);
}
static inline dt_simulated_tag *dt_simulated_tags(const dt_simulation *s, int process, int slot, int64_t at) {
    return s->slots[process][slot].tags + (at - s->schedules[process].slots[slot].first) / s->granule;
}

/* Whether the range lies in a slot that is there, on the borders of granules. */
static inline bool dt_simulated_has(const dt_simulation *s, int process, int slot, int64_t first, int64_t n_bytes) {
    const dt_schedule *schedule = &s->schedules[process];
    if (slot < 0 || slot >= schedule->n_slots || n_bytes < 1) return false;
    const dt_schedule_slot *place = &schedule->slots[slot];
    bool is_aligned = first % s->granule == 0 && (n_bytes % s->granule == 0 || first + n_bytes == s->layout->n_bytes);
    return is_aligned && first >= place->first && first + n_bytes <= place->first + place->n_bytes;
}

static inline bool dt_simulated_is_written(const dt_simulation *s, int process, int slot, int64_t first, int64_t n_bytes) {
    const dt_simulated_tag *tags = dt_simulated_tags(s, process, slot, first);
    for (int64_t g = 0; g < dt_simulated_granules(s, n_bytes); g++)
        if (tags[g].span == 0) return false;
    return true;
}

static inline void dt_simulated_begin(dt_simulation *s, int p) {
    const dt_schedule *schedule = &s->schedules[p];
    const dt_layout_member *member = &s->layout->members[p];
    int64_t n = s->layout->n_microbatches, next = member->contributes.first;
    s->slots[p] = DT_NEW_ARRAY(s->arena, dt_simulated_slot, schedule->n_slots);
    DT_SIMULATION_CHECK(s, schedule->n_slots >= 1 && schedule->n_slots >= schedule->n_nodes, "process %d has too few slots", p);
    for (int i = 0; i < schedule->n_slots; i++) {
        const dt_schedule_slot *slot = &schedule->slots[i];
        DT_SIMULATION_CHECK(s, slot->first % s->granule == 0, "slot %d of process %d begins within a unit", i, p);
        bool is_whole = slot->first == 0 && slot->n_bytes == s->layout->n_bytes, wants_whole = i < schedule->n_nodes || (i == 0 && member->needs);
        DT_SIMULATION_CHECK(s, is_whole || !wants_whole, "slot %d of process %d is not whole", i, p);
        s->slots[p][i] = (dt_simulated_slot){DT_NEW_ARRAY(s->arena, char, slot->n_bytes),
                                             DT_NEW_ARRAY(s->arena, dt_simulated_tag, dt_simulated_granules(s, slot->n_bytes))};
    }
    if (n == 0) {
        int64_t first = s->layout->parts[p].first, n_bytes = s->layout->parts[p].end - first;
        memcpy(dt_simulated_bytes(s, p, 0, first), (char *)s->leaves[0] + first, (size_t)n_bytes);
        for (int64_t g = 0; g < dt_simulated_granules(s, n_bytes); g++) dt_simulated_tags(s, p, 0, first)[g] = (dt_simulated_tag){0, 1};
        return;
    }
    for (int i = 0; i < schedule->n_nodes; i++) {
        const dt_schedule_node *node = &schedule->nodes[i];
        DT_SIMULATION_CHECK(s, node->first == next && dt_simulated_is_node(node->first, node->span, 0, n), "node %d of process %d is none", i, p);
        dt_simulated_sum(s, node->first, node->span, s->slots[p][i].bytes);
        for (int64_t g = 0; g < dt_simulated_granules(s, s->layout->n_bytes); g++) s->slots[p][i].tags[g] = *node;
        next += node->span;
    }
    DT_SIMULATION_CHECK(s, next == member->contributes.end, "the nodes of process %d are not all its microbatches", p);
}

/* ---- a round ---- */

static inline int dt_simulated_by_place(const void *a, const void *b) {
    const dt_schedule_message *x = *(const dt_schedule_message *const *)a, *y = *(const dt_schedule_message *const *)b;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* The messages of one process by themselves: places that are there, sent when written, and nothing overlaps what is received. */
static inline void dt_simulated_check_messages(dt_simulation *s, int p, const dt_schedule_round *round) {
    const dt_schedule_message **sorted = malloc(((size_t)round->n_messages + 1) * sizeof *sorted);
    bool overlap = false;
    for (int m = 0; m < round->n_messages; m++) {
        const dt_schedule_message *message = sorted[m] = &round->messages[m];
        bool is_there = message->peer != s->layout->members[p].rank && dt_simulated_has(s, p, message->slot, message->first, message->n_bytes);
        bool is_sound = is_there && (!message->sends || dt_simulated_is_written(s, p, message->slot, message->first, message->n_bytes));
        if (!is_sound) free(sorted);
        DT_SIMULATION_CHECK(s, is_there, "process %d has a message out of bounds", p);
        DT_SIMULATION_CHECK(s, is_sound, "process %d sends to %d what was never written", p, message->peer);
    }
    qsort(sorted, (size_t)round->n_messages, sizeof *sorted, dt_simulated_by_place);
    int64_t received = 0, sent = 0; /* ends of what was met in the slot */
    for (int m = 0; m < round->n_messages; m++) {
        const dt_schedule_message *message = sorted[m];
        if (m == 0 || sorted[m - 1]->slot != message->slot) received = sent = 0;
        overlap = overlap || message->first < received || (!message->sends && message->first < sent);
        int64_t *end = message->sends ? &sent : &received;
        if (*end < message->first + message->n_bytes) *end = message->first + message->n_bytes;
    }
    free(sorted);
    DT_SIMULATION_CHECK(s, !overlap, "process %d receives where it sends or receives something else", p);
}

static inline int dt_simulated_by_pair(const void *a, const void *b) {
    const dt_simulated_end *x = a, *y = b;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    if (x->target != y->target) return x->target < y->target ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

/* What one process sends in the round, another one receives, in the same order; then it is there. */
static inline void dt_simulated_deliver(dt_simulation *s, int round) {
    size_t n[2] = {0, 0}; /* receives, sends */
    dt_simulated_end *ends[2];
    for (int p = 0; p < s->layout->n; p++) n[0] += (size_t)s->schedules[p].rounds[round].n_messages;
    for (int i = 0; i < 2; i++) ends[i] = DT_NEW_ARRAY(s->arena, dt_simulated_end, n[0]);
    n[0] = 0;
    for (int p = 0; p < s->layout->n; p++) {
        const dt_schedule_round *own = &s->schedules[p].rounds[round];
        for (int m = 0; m < own->n_messages; m++) {
            const dt_schedule_message *message = &own->messages[m];
            int peer = s->member_of[message->peer], source = message->sends ? p : peer, target = message->sends ? peer : p;
            ends[message->sends][n[message->sends]++] = (dt_simulated_end){source, target, m, message};
        }
    }
    for (int i = 0; i < 2; i++) qsort(ends[i], n[i], sizeof **ends, dt_simulated_by_pair);
    DT_SIMULATION_CHECK(s, n[0] == n[1], "round %d: %zu messages are sent and %zu received", round, n[1], n[0]);
    for (size_t m = 0; m < n[0]; m++) {
        const dt_simulated_end *to = &ends[0][m], *from = &ends[1][m];
        bool fits = to->source == from->source && to->target == from->target && to->message->first == from->message->first &&
                    to->message->n_bytes == from->message->n_bytes;
        DT_SIMULATION_CHECK(s, fits, "round %d: what %d sends to %d is not what %d receives from %d", round, from->source, from->target, to->target,
                            to->source);
        int64_t first = to->message->first, n_bytes = to->message->n_bytes;
        memcpy(dt_simulated_bytes(s, to->target, to->message->slot, first), dt_simulated_bytes(s, from->source, from->message->slot, first),
               (size_t)n_bytes);
        memcpy(dt_simulated_tags(s, to->target, to->message->slot, first), dt_simulated_tags(s, from->source, from->message->slot, first),
               (size_t)dt_simulated_granules(s, n_bytes) * sizeof(dt_simulated_tag));
    }
}

/* The sources of each granule are neighbours, in order, and together a node of the tree. */
static inline void dt_simulated_add_up(dt_simulation *s, int p, const dt_schedule_sum *sum) {
    bool is_there = sum->n_sources > 0 && dt_simulated_has(s, p, sum->target, sum->first, sum->n_bytes);
    for (int i = 0; i < sum->n_sources && is_there; i++) is_there = dt_simulated_has(s, p, sum->sources[i], sum->first, sum->n_bytes);
    DT_SIMULATION_CHECK(s, is_there, "process %d has a sum out of bounds", p);
    bool is_tree = dt_simulated_spans(sum->spans, sum->n_sources, sum->n_leaves) == sum->n_sources;
    DT_SIMULATION_CHECK(s, is_tree, "process %d has a sum whose spans are no tree", p);
    for (int64_t g = 0; g < dt_simulated_granules(s, sum->n_bytes); g++) {
        int64_t first = dt_simulated_tags(s, p, sum->sources[0], sum->first)[g].first, next = first;
        for (int i = 0; i < sum->n_sources; i++) {
            const dt_simulated_tag *tag = &dt_simulated_tags(s, p, sum->sources[i], sum->first)[g];
            DT_SIMULATION_CHECK(s, tag->span == sum->spans[i] && tag->first == next, "process %d adds up what is not the next subtree", p);
            next += tag->span;
        }
        DT_SIMULATION_CHECK(s, dt_simulated_is_node(first, next - first, 0, s->n_leaves), "process %d has a sum that is not of the tree", p);
        dt_simulated_tags(s, p, sum->target, sum->first)[g] = (dt_simulated_tag){first, next - first};
    }
    dt_tree_source *sources = DT_NEW_ARRAY(s->arena, dt_tree_source, sum->n_sources);
    for (int i = 0; i < sum->n_sources; i++) sources[i] = (dt_tree_source){dt_simulated_bytes(s, p, sum->sources[i], sum->first), sum->spans[i]};
    void *target = dt_simulated_bytes(s, p, sum->target, sum->first);
    dt_tree_reduction reduction = {.dtype = s->dtype,
                                   .combine = DT_REDUCTION_SUM,
                                   .n_leaves = sum->n_leaves,
                                   .n_sources = sum->n_sources,
                                   .sources = sources,
                                   .n_elements = (size_t)sum->n_bytes / dt_dtype_bytes(s->dtype),
                                   .n_targets = 1,
                                   .targets = &target};
    dt_reduce(&reduction, s->scratch);
}

/* ---- all of it ---- */

static inline void dt_simulated_check_result(dt_simulation *s, int p, const void *wanted) {
    const dt_schedule *schedule = &s->schedules[p];
    bool is_part = !s->layout->members[p].needs;
    int64_t first = is_part ? s->layout->parts[p].first : 0, n_bytes = (is_part ? s->layout->parts[p].end : s->layout->n_bytes) - first, n_sent = 0;
    for (int64_t g = 0; g < dt_simulated_granules(s, n_bytes); g++) {
        const dt_simulated_tag *tag = &dt_simulated_tags(s, p, 0, first)[g];
        DT_SIMULATION_CHECK(s, tag->first == 0 && tag->span == s->n_leaves, "process %d does not have the whole sum", p);
    }
    bool same = memcmp(dt_simulated_bytes(s, p, 0, first), (const char *)wanted + first, (size_t)n_bytes) == 0;
    DT_SIMULATION_CHECK(s, same, "the result of process %d has other bits", p);
    for (int r = 0; r < schedule->n_rounds; r++)
        for (int m = 0; m < schedule->rounds[r].n_messages; m++)
            n_sent += schedule->rounds[r].messages[m].sends ? schedule->rounds[r].messages[m].n_bytes : 0;
    DT_SIMULATION_CHECK(s, n_sent == schedule->n_sent_bytes, "process %d sends other bytes than it says", p);
}

static inline void dt_simulated_run(dt_simulation *s) {
    const dt_schedule *schedules = s->schedules;
    int n_processes = s->layout->n;
    for (int p = 0; p < n_processes && s->mistake == NULL; p++) {
        DT_SIMULATION_CHECK(s, schedules[p].n_rounds == schedules[0].n_rounds && schedules[p].algorithm == schedules[0].algorithm,
                            "processes 0 and %d have other rounds", p);
        dt_simulated_begin(s, p);
    }
    for (int round = 0; round < schedules[0].n_rounds && s->mistake == NULL; round++) {
        for (int p = 0; p < n_processes && s->mistake == NULL; p++) dt_simulated_check_messages(s, p, &schedules[p].rounds[round]);
        if (s->mistake == NULL) dt_simulated_deliver(s, round);
        for (int p = 0; p < n_processes; p++)
            for (int i = 0; i < schedules[p].rounds[round].n_sums && s->mistake == NULL; i++)
                dt_simulated_add_up(s, p, &schedules[p].rounds[round].sums[i]);
    }
    void *wanted = dt_arena_new(s->arena, (size_t)s->layout->n_bytes);
    dt_simulated_sum(s, 0, s->n_leaves, wanted);
    for (int p = 0; p < n_processes && s->mistake == NULL; p++) dt_simulated_check_result(s, p, wanted);
}

/* The schedules of all members. */
static inline dt_schedule *dt_schedules_of(const dt_layout *layout, dt_schedule_algorithm algorithm, dt_arena *arena) {
    dt_schedule *schedules = DT_NEW_ARRAY(arena, dt_schedule, layout->n);
    for (int p = 0; p < layout->n; p++) {
        dt_layout own = *layout;
        own.place = p;
        schedules[p] = dt_schedule_of(&own, algorithm, arena);
    }
    return schedules;
}

/* NULL, or the first thing that is wrong with the schedules of all members. */
static inline const char *dt_simulate(const dt_layout *layout, const dt_schedule *schedules, dt_arena *arena) {
    bool has_floats = layout->n_bytes % 4 == 0;
    dt_simulation s = {.layout = layout, .schedules = schedules, .arena = arena, .granule = DT_SCHEDULE_UNIT};
    int most_rank = 0, *member_of;
    for (int p = 0; layout->parts != NULL && p < layout->n; p++) {
        if (layout->parts[p].first % DT_SCHEDULE_UNIT != 0) s.granule = 1;
        has_floats = has_floats && layout->parts[p].first % 4 == 0;
    }
    for (int p = 0; p < layout->n; p++)
        if (most_rank < layout->members[p].rank) most_rank = layout->members[p].rank;
    s.member_of = member_of = DT_NEW_ARRAY(arena, int, most_rank + 1);
    for (int p = 0; p < layout->n; p++) member_of[layout->members[p].rank] = p;
    s.dtype = has_floats ? DT_F32 : DT_U8;
    s.n_leaves = layout->n_microbatches > 0 ? layout->n_microbatches : 1;
    s.slots = DT_NEW_ARRAY(arena, dt_simulated_slot *, layout->n);
    s.leaves = DT_NEW_ARRAY(arena, void *, s.n_leaves);
    s.scratch = (void *)(((uintptr_t)dt_arena_new(arena, dt_reduce_scratch_bytes(s.n_leaves) + 64) + 63) & ~(uintptr_t)63);
    for (int64_t leaf = 0; leaf < s.n_leaves; leaf++) {
        s.leaves[leaf] = dt_arena_new(arena, (size_t)layout->n_bytes);
        dt_simulated_fill(&s, (uint32_t)leaf, s.leaves[leaf]);
    }
    dt_simulated_run(&s);
    return s.mistake;
}

#endif
