/* schedule: see the header. A schedule is written down round by round: first what all algorithms write with, then each of them. */
#include "runtime/comm/schedule.h"

#include <assert.h>

enum {
    /* AUTO is direct up to so many processes. Both algorithms send the same bytes. A round costs its latency L and, of each process, o for each
     * message: direct 2 (L + (P - 1) o), halving 2 ceil(log2 P) (L + o). They break even at 20 processes where L is 4 o, as between sockets, and at
     * 128 where L is 20 o, as where the network's adapter does the work. */
    MOST_DIRECT = 32,
    MOST_LEVELS = 32 /* of the tree over all processes */
};

typedef dt_image_range range;

typedef DT_LIST(dt_schedule_node) node_list;
typedef DT_LIST(dt_schedule_message) message_list;
typedef DT_LIST(dt_schedule_sum) sum_list;

/* A schedule in the making. */
typedef struct builder {
    const dt_layout *layout;
    dt_arena *arena;
    dt_schedule made;
    DT_LIST(dt_schedule_slot) slots;
    DT_LIST(dt_schedule_round) rounds;
    message_list messages; /* of the round in the making */
    sum_list sums;         /* the same */
    const range *parts;    /* [n] of the members, where the algorithm does not make its own */
} builder;

/* ---- nodes ---- */

/* The largest power of two below n: where the tree over n leaves is split. */
static int64_t left_half(int64_t n) {
    int64_t left = 1;
    while (left < n - left) left *= 2;
    return left;
}

/* Appends the maximal nodes within `of` of the tree over n leaves from `start` on. */
static void append_nodes(node_list *nodes, range of, int64_t start, int64_t n, dt_arena *arena) {
    if (start + n <= of.first || start >= of.end) return;
    if (start >= of.first && start + n <= of.end) {
        dt_list_push(arena, nodes, ((dt_schedule_node){start, n}));
        return;
    }
    append_nodes(nodes, of, start, left_half(n), arena);
    append_nodes(nodes, of, start + left_half(n), n - left_half(n), arena);
}

const dt_schedule_node *dt_schedule_nodes(int64_t first, int64_t end, int64_t n_leaves, dt_arena *arena, int *n) {
    node_list nodes = {0};
    append_nodes(&nodes, (range){first, end}, 0, n_leaves, arena);
    *n = (int)nodes.n;
    return nodes.items;
}

static void append_nodes_of_member(node_list *nodes, const dt_layout *layout, int member, dt_arena *arena) {
    dt_microbatch_range own = layout->members[member].contributes;
    if (own.first < own.end) append_nodes(nodes, (range){own.first, own.end}, 0, layout->n_microbatches, arena);
}

/* What one member has, as if it were a node. */
static void append_own_run(node_list *nodes, const dt_layout *layout, dt_arena *arena) {
    dt_microbatch_range own = layout->members[layout->place].contributes;
    dt_list_push(arena, nodes, ((dt_schedule_node){own.first, own.end - own.first}));
}

/* Whether each member has one node, all of the same span, so that the tree above them is the tree over as many leaves as there are members. */
static bool has_equal_nodes(const dt_layout *layout) {
    int64_t span = layout->n_microbatches / layout->n;
    if (layout->n > 1 && (span < 1 || layout->n_microbatches % layout->n != 0 || (span & (span - 1)) != 0)) return false;
    for (int m = 0; m < layout->n; m++)
        if (layout->members[m].contributes.end - layout->members[m].contributes.first != span) return false;
    return true;
}

static bool all_need(const dt_layout *layout) {
    for (int m = 0; m < layout->n; m++)
        if (!layout->members[m].needs) return false;
    return true;
}

/* ---- writing it down ---- */

static bool is_empty(range r) { return r.first >= r.end; }

/* Units [first, end) in bytes. */
static range range_of_units(const dt_layout *layout, int64_t first, int64_t end) {
    int64_t n = layout->n_bytes;
    first *= DT_SCHEDULE_UNIT;
    end *= DT_SCHEDULE_UNIT;
    return (range){first < n ? first : n, end < n ? end : n};
}

static int64_t n_units(const dt_layout *layout) { return (layout->n_bytes + DT_SCHEDULE_UNIT - 1) / DT_SCHEDULE_UNIT; }

static int add_slot(builder *b, range r) {
    dt_list_push(b->arena, &b->slots, ((dt_schedule_slot){r.first, r.end - r.first}));
    return (int)b->slots.n - 1;
}

static void send_to(builder *b, int member, int slot, range r) {
    if (is_empty(r)) return;
    dt_list_push(b->arena, &b->messages, ((dt_schedule_message){b->layout->members[member].rank, true, slot, r.first, r.end - r.first}));
    b->made.n_sent_bytes += r.end - r.first;
}

static void receive_from(builder *b, int member, int slot, range r) {
    if (is_empty(r)) return;
    dt_list_push(b->arena, &b->messages, ((dt_schedule_message){b->layout->members[member].rank, false, slot, r.first, r.end - r.first}));
}

/* Into slot 0. */
static void add_sum(builder *b, range r, int64_t n_leaves, int n_sources, const int *sources, const int64_t *spans) {
    if (is_empty(r)) return;
    dt_list_push(b->arena, &b->sums, ((dt_schedule_sum){0, r.first, r.end - r.first, n_leaves, n_sources, sources, spans}));
}

static void end_round(builder *b) {
    dt_schedule_round round = {(int)b->messages.n, b->messages.items, (int)b->sums.n, b->sums.items};
    dt_list_push(b->arena, &b->rounds, round);
    b->messages = (message_list){0};
    b->sums = (sum_list){0};
}

static const dt_layout_member *self_of(const builder *b) { return &b->layout->members[b->layout->place]; }

/* What each member owns. */
static const range *parts_of(const dt_layout *layout, dt_arena *arena) {
    if (layout->parts != NULL) return layout->parts;
    range *parts = DT_NEW_ARRAY(arena, range, layout->n);
    int64_t n = n_units(layout), n_owners = 0, before = 0;
    for (int m = 0; m < layout->n; m++) n_owners += layout->members[m].owns;
    for (int m = 0; m < layout->n; m++)
        if (layout->members[m].owns) parts[m] = range_of_units(layout, n * before / n_owners, n * (before + 1) / n_owners), before++;
    return parts;
}

/* ---- direct ---- */

/* Each owner's part of everybody's nodes goes to it, which adds them up. All begin with the member after their own, so that no member is everybody's
 * first. */
static void scatter_directly(builder *b) {
    const dt_layout *layout = b->layout;
    int self = layout->place;
    int *first_node = DT_NEW_ARRAY(b->arena, int, layout->n + 1);
    node_list nodes = {0};
    for (int m = 0; m < layout->n; m++) {
        append_nodes_of_member(&nodes, layout, m, b->arena);
        first_node[m + 1] = (int)nodes.n;
    }
    int *sources = DT_NEW_ARRAY(b->arena, int, nodes.n);
    int64_t *spans = DT_NEW_ARRAY(b->arena, int64_t, nodes.n);
    const range *parts = b->parts;
    range own = parts[self];
    for (int i = 1; i < layout->n; i++) {
        int peer = (self + i) % layout->n;
        for (int slot = 0; slot < b->made.n_nodes; slot++) send_to(b, peer, slot, parts[peer]);
        for (int node = first_node[peer]; node < first_node[peer + 1] && !is_empty(own); node++) {
            sources[node] = add_slot(b, own);
            receive_from(b, peer, sources[node], own);
        }
    }
    for (int slot = 0; slot < b->made.n_nodes; slot++) sources[first_node[self] + slot] = slot;
    for (size_t node = 0; node < nodes.n; node++) spans[node] = nodes.items[node].span;
    add_sum(b, own, layout->n_microbatches, (int)nodes.n, sources, spans);
    end_round(b);
}

static void gather_directly(builder *b) {
    int self = b->layout->place, n = b->layout->n;
    for (int i = 1; i < n; i++) {
        int peer = (self + i) % n;
        if (b->layout->members[peer].needs) send_to(b, peer, 0, b->parts[self]);
        if (self_of(b)->needs) receive_from(b, peer, 0, b->parts[peer]);
    }
    end_round(b);
}

/* Whether somebody contributes to what somebody else owns. One who has the whole sum, and owns it, only tells the others. */
static bool has_to_scatter(const dt_layout *layout) {
    int n_contribute = 0;
    bool owners_alone = true;
    for (int m = 0; m < layout->n; m++) {
        const dt_layout_member *one = &layout->members[m];
        bool contributes = one->contributes.first < one->contributes.end;
        n_contribute += contributes;
        owners_alone = owners_alone && contributes == one->owns;
    }
    return n_contribute > 1 || (n_contribute == 1 && !owners_alone);
}

static bool has_to_gather(const dt_layout *layout) {
    for (int m = 0; m < layout->n; m++)
        if (layout->members[m].needs) return true;
    return false;
}

/* ---- small parts ---- */

/* After each round, twice as many are here: those of the members behind this one. */
static void double_parts(builder *b) {
    int self = b->layout->place, n = b->layout->n;
    for (int here = 1; here < n; here *= 2) {
        int count = here < n - here ? here : n - here, to = (self - here + n) % n, from = (self + here) % n;
        for (int sends = 0; sends < 2; sends++) {
            int first = sends ? self : from, until_end = n - first < count ? n - first : count;
            range ranges[] = {{b->parts[first].first, b->parts[first + until_end - 1].end}, {0, 0}};
            if (until_end < count) ranges[1] = (range){b->parts[0].first, b->parts[count - until_end - 1].end};
            for (int r = 0; r < 2; r++) (sends ? send_to : receive_from)(b, sends ? to : from, 0, ranges[r]);
        }
        end_round(b);
    }
}

static void go_by_way_of_first(builder *b) {
    range all = {0, b->layout->n_bytes};
    int self = b->layout->place;
    for (int other = 1; other < b->layout->n; other++) {
        if (self == 0) receive_from(b, other, 0, b->parts[other]);
        if (self == other) send_to(b, 0, 0, b->parts[other]);
    }
    end_round(b);
    for (int other = 1; other < b->layout->n && self == 0; other++) send_to(b, other, 0, all);
    if (self != 0) receive_from(b, 0, 0, all);
    end_round(b);
}

/* ---- halving ---- */

/* A node of the tree over all processes that this process is below. */
typedef struct subtree {
    int first, n; /* processes; 0: there is none */
} subtree;

/* The share of process `index` of n, a power of two: of each pair of neighbours the first takes the first half, then pairs of pairs halve what they
 * have, and so on. */
static range halves_of(const dt_layout *layout, int index, int n) {
    int64_t first = 0, end = n_units(layout);
    for (int bit = 1; bit < n; bit *= 2) {
        int64_t middle = first + (end - first) / 2;
        if ((index & bit) != 0)
            first = middle;
        else
            end = middle;
    }
    return range_of_units(layout, first, end);
}

/* With one peer. There, this process gives up a range of its node and takes over another, of which it has the sum then; on the way back it is the
 * other way around. */
static void exchange_with(builder *b, int peer, range gives, range takes, bool back) {
    send_to(b, peer, 0, back ? takes : gives);
    receive_from(b, peer, back ? 0 : 1, back ? gives : takes);
}

/* What a process takes over is added to what it has. The other half of the subtree is the later one, unless this process is in that itself. */
static void add_other_half(builder *b, range takes, int64_t left, int64_t right, bool is_left) {
    int64_t leaves = b->layout->n_microbatches / b->layout->n; /* of a process */
    const int sources[] = {is_left ? 0 : 1, is_left ? 1 : 0};
    const int64_t spans[] = {left * leaves, right * leaves};
    add_sum(b, takes, (left + right) * leaves, 2, dt_arena_copy(b->arena, sources, sizeof sources), dt_arena_copy(b->arena, spans, sizeof spans));
}

/* Between the halves of a subtree. Of each half, the first processes up to a power of two share the sum of it. Where both are as large, a process
 * halves its share with the one at its place in the other half. Else those of the left half, the larger one, keep their shares, and those of the
 * right half give up theirs, each to all of the left half who share what it has. */
static void exchange_halves(builder *b, subtree all, bool back) {
    const dt_layout *layout = b->layout;
    const range nothing = {0, 0};
    int left = (int)left_half(all.n), right = all.n - left, index = layout->place - all.first;
    bool is_left = index < left;
    if (left == right) {
        int other = index ^ left;
        range takes = halves_of(layout, index, all.n);
        exchange_with(b, all.first + other, halves_of(layout, other, all.n), takes, back);
        if (!back) add_other_half(b, takes, left, right, is_left);
        return;
    }
    int n_sharing = 1; /* of the right half */
    while (2 * n_sharing <= right) n_sharing *= 2;
    if (is_left) {
        range takes = halves_of(layout, index, left);
        exchange_with(b, all.first + left + index % n_sharing, nothing, takes, back);
        if (!back) add_other_half(b, takes, left, right, true);
    } else if (index - left < n_sharing) {
        for (int peer = index - left; peer < left; peer += n_sharing)
            exchange_with(b, all.first + peer, halves_of(layout, peer, left), nothing, back);
    }
}

/* Up the tree, a level a round, and down again. */
static void halve(builder *b) {
    const dt_layout *layout = b->layout;
    subtree levels[MOST_LEVELS] = {{0, 0}}; /* from the leaves on */
    int n_levels = 0;
    while ((int64_t)1 << n_levels < layout->n) n_levels++;
    for (subtree all = {0, layout->n}; all.n > 1;) {
        int left = (int)left_half(all.n), level = 0;
        while ((int64_t)2 << level < all.n) level++;
        levels[level] = all;
        all = layout->place < all.first + left ? (subtree){all.first, left} : (subtree){all.first + left, all.n - left};
    }
    if (levels[0].n > 0) { /* all that is received later is within what is received first */
        range takes = halves_of(layout, layout->place - levels[0].first, 2);
        if (!is_empty(takes)) add_slot(b, takes);
    }
    for (int level = 0; level < n_levels; level++) {
        if (levels[level].n > 0) exchange_halves(b, levels[level], false);
        end_round(b);
    }
    for (int level = n_levels; level-- > 0;) {
        if (levels[level].n > 0) exchange_halves(b, levels[level], true);
        end_round(b);
    }
}

/* ---- all of it ---- */

static dt_schedule_algorithm choose(const dt_layout *layout, dt_schedule_algorithm algorithm) {
    if (algorithm != DT_SCHEDULE_AUTO && algorithm != DT_SCHEDULE_HALVING) return algorithm;
    if (layout->n_microbatches == 0 || layout->parts != NULL || !all_need(layout) || !has_equal_nodes(layout)) return DT_SCHEDULE_DIRECT;
    return algorithm == DT_SCHEDULE_HALVING || layout->n > MOST_DIRECT ? DT_SCHEDULE_HALVING : DT_SCHEDULE_DIRECT;
}

static dt_schedule finish(builder *b) {
    b->made.n_slots = (int)b->slots.n;
    b->made.slots = b->slots.items;
    b->made.n_rounds = (int)b->rounds.n;
    b->made.rounds = b->rounds.items;
    return b->made;
}

dt_schedule dt_schedule_of(const dt_layout *layout, dt_schedule_algorithm algorithm, dt_arena *arena) {
    builder b = {.layout = layout, .arena = arena, .made.algorithm = choose(layout, algorithm)};
    node_list nodes = {0};
    b.parts = b.made.algorithm != DT_SCHEDULE_HALVING ? parts_of(layout, arena) : NULL;
    if (b.made.algorithm == DT_SCHEDULE_ENGINE)
        append_own_run(&nodes, layout, arena);
    else
        append_nodes_of_member(&nodes, layout, layout->place, arena);
    b.made.n_nodes = (int)nodes.n;
    b.made.nodes = nodes.items;
    for (int slot = 0; slot < b.made.n_nodes; slot++) add_slot(&b, (range){0, layout->n_bytes});
    assert(b.parts != NULL || self_of(&b)->needs); /* who halves needs all */
    if (nodes.n == 0) add_slot(&b, self_of(&b)->needs ? (range){0, layout->n_bytes} : b.parts[layout->place]);
    if (layout->n == 1) return finish(&b);
    switch (b.made.algorithm) {
    case DT_SCHEDULE_ENGINE: end_round(&b); break;
    case DT_SCHEDULE_HALVING: halve(&b); break;
    case DT_SCHEDULE_DOUBLING: double_parts(&b); break;
    case DT_SCHEDULE_STAR: go_by_way_of_first(&b); break;
    default:
        if (has_to_scatter(layout)) scatter_directly(&b);
        if (has_to_gather(layout)) gather_directly(&b);
    }
    return finish(&b);
}

dt_schedule dt_schedule_all_to_all(int n, const int64_t *to, const int64_t *from, dt_arena *arena) {
    dt_layout_member *everybody = DT_NEW_ARRAY(arena, dt_layout_member, n);
    builder b = {.layout = &(dt_layout){.n = n, .members = everybody}, .arena = arena, .made.algorithm = DT_SCHEDULE_DIRECT};
    for (int p = 0; p < n; p++) everybody[p].rank = p;
    for (int p = 0; p < n; p++) add_slot(&b, (range){0, from[p]});
    for (int p = 0; p < n; p++) {
        add_slot(&b, (range){0, to[p]});
        receive_from(&b, p, p, (range){0, from[p]});
        send_to(&b, p, n + p, (range){0, to[p]});
    }
    end_round(&b);
    return finish(&b);
}
