/* schedule: see the header. A schedule is written down round by round: first what both algorithms write with, then each of them. */
#include "runtime/comm/schedule.h"

#include "runtime/comm/microbatches.h"

enum {
    /* AUTO is direct up to so many processes. Both algorithms send the same bytes. A round costs its latency L and, of each process, o for each
     * message: direct 2 (L + (P - 1) o), halving 2 ceil(log2 P) (L + o). They break even at 20 processes where L is 4 o, as between sockets, and at
     * 128 where L is 20 o, as where the network's adapter does the work. */
    MOST_DIRECT = 32,
    MOST_LEVELS = 32 /* of the tree over all processes */
};

typedef struct range {
    int64_t first, end;
} range;

typedef DT_LIST(dt_schedule_node) node_list;
typedef DT_LIST(dt_schedule_message) message_list;
typedef DT_LIST(dt_schedule_sum) sum_list;

/* A schedule in the making. */
typedef struct builder {
    const dt_schedule_options *options;
    dt_arena *arena;
    dt_schedule made;
    DT_LIST(dt_schedule_slot) slots;
    DT_LIST(dt_schedule_round) rounds;
    message_list messages; /* of the round in the making */
    sum_list sums;         /* the same */
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

static dt_process_roles roles_of(const dt_schedule_options *options) {
    return (dt_process_roles){.n_processes = options->n_processes, .n_servers = options->n_servers};
}

static void append_nodes_of_process(node_list *nodes, const dt_schedule_options *options, int process, dt_arena *arena) {
    int n = (int)options->n_microbatches;
    dt_microbatch_range own = dt_microbatches_of_process(roles_of(options), process, n);
    append_nodes(nodes, (range){own.first, own.end}, 0, n, arena);
}

/* What one process has, as if it were a node. */
static void append_own_run(node_list *nodes, const dt_schedule_options *options, dt_arena *arena) {
    dt_microbatch_range own = dt_microbatches_of_process(roles_of(options), options->process, (int)options->n_microbatches);
    dt_list_push(arena, nodes, ((dt_schedule_node){own.first, own.end - own.first}));
}

/* Whether each process has one node, all of the same span, so that the tree above them is the tree over as many leaves as there are processes. */
static bool has_equal_nodes(const dt_schedule_options *options) {
    int64_t span = options->n_microbatches / options->n_processes;
    return options->n_processes == 1 || (options->n_microbatches % options->n_processes == 0 && (span & (span - 1)) == 0);
}

/* ---- writing it down ---- */

static bool is_empty(range r) { return r.first >= r.end; }

/* Units [first, end) in bytes. */
static range range_of_units(const dt_schedule_options *options, int64_t first, int64_t end) {
    int64_t n = options->n_bytes;
    first *= DT_SCHEDULE_UNIT;
    end *= DT_SCHEDULE_UNIT;
    return (range){first < n ? first : n, end < n ? end : n};
}

static int64_t n_units(const dt_schedule_options *options) { return (options->n_bytes + DT_SCHEDULE_UNIT - 1) / DT_SCHEDULE_UNIT; }

static int add_slot(builder *b, range r) {
    dt_list_push(b->arena, &b->slots, ((dt_schedule_slot){r.first, r.end - r.first}));
    return (int)b->slots.n - 1;
}

static void send_to(builder *b, int peer, int slot, range r) {
    if (is_empty(r)) return;
    dt_list_push(b->arena, &b->messages, ((dt_schedule_message){peer, true, slot, r.first, r.end - r.first}));
    b->made.n_sent_bytes += r.end - r.first;
}

static void receive_from(builder *b, int peer, int slot, range r) {
    if (is_empty(r)) return;
    dt_list_push(b->arena, &b->messages, ((dt_schedule_message){peer, false, slot, r.first, r.end - r.first}));
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

/* ---- direct ---- */

static range share_of(const dt_schedule_options *options, int process) {
    if (options->parts != NULL) return (range){options->parts[process], options->ends != NULL ? options->ends[process] : options->parts[process + 1]};
    dt_process_roles roles = roles_of(options);
    int64_t n = n_units(options), n_owners = dt_process_n_owners(roles);
    return range_of_units(options, n * dt_process_bound(roles, process) / n_owners, n * dt_process_bound(roles, process + 1) / n_owners);
}

dt_schedule_slot dt_schedule_share(const dt_schedule_options *options, int process) {
    range share = share_of(options, process);
    return (dt_schedule_slot){share.first, share.end - share.first};
}

/* Each process's share of everybody's nodes goes to it, which adds them up. All begin with the process after their own, so that no process is
 * everybody's first. */
static void scatter_directly(builder *b) {
    const dt_schedule_options *options = b->options;
    int self = options->process, n_processes = options->n_processes;
    int *first_node = DT_NEW_ARRAY(b->arena, int, n_processes + 1);
    node_list nodes = {0};
    for (int p = 0; p < n_processes; p++) {
        append_nodes_of_process(&nodes, options, p, b->arena);
        first_node[p + 1] = (int)nodes.n;
    }
    int *sources = DT_NEW_ARRAY(b->arena, int, nodes.n);
    int64_t *spans = DT_NEW_ARRAY(b->arena, int64_t, nodes.n);
    range own = share_of(options, self);
    for (int i = 1; i < n_processes; i++) {
        int peer = (self + i) % n_processes;
        for (int slot = 0; slot < b->made.n_nodes; slot++) send_to(b, peer, slot, share_of(options, peer));
        for (int node = first_node[peer]; node < first_node[peer + 1] && !is_empty(own); node++) {
            sources[node] = add_slot(b, own);
            receive_from(b, peer, sources[node], own);
        }
    }
    for (int slot = 0; slot < b->made.n_nodes; slot++) sources[first_node[self] + slot] = slot;
    for (size_t node = 0; node < nodes.n; node++) spans[node] = nodes.items[node].span;
    add_sum(b, own, options->n_microbatches, (int)nodes.n, sources, spans);
    end_round(b);
}

static bool is_given(const dt_schedule_options *options, int process) {
    return !options->for_workers || dt_process_holds(roles_of(options), process);
}

static void gather_directly(builder *b) {
    int self = b->options->process, n_processes = b->options->n_processes;
    for (int i = 1; i < n_processes; i++) {
        int peer = (self + i) % n_processes;
        if (is_given(b->options, peer)) send_to(b, peer, 0, share_of(b->options, self));
        if (is_given(b->options, self)) receive_from(b, peer, 0, share_of(b->options, peer));
    }
    end_round(b);
}

/* All microbatches are one worker's: the servers are told their sum. */
static void tell_servers(builder *b) {
    const dt_schedule_options *options = b->options;
    range all = {0, options->n_bytes};
    for (int server = 0; server < options->n_servers && options->process == options->n_servers; server++) send_to(b, server, 0, all);
    if (options->process < options->n_servers) receive_from(b, options->n_servers, 0, all);
    end_round(b);
}

/* ---- halving ---- */

/* A node of the tree over all processes that this process is below. */
typedef struct subtree {
    int first, n; /* processes; 0: there is none */
} subtree;

/* The share of process `index` of n, a power of two: of each pair of neighbours the first takes the first half, then pairs of pairs halve what they
 * have, and so on. */
static range halves_of(const dt_schedule_options *options, int index, int n) {
    int64_t first = 0, end = n_units(options);
    for (int bit = 1; bit < n; bit *= 2) {
        int64_t middle = first + (end - first) / 2;
        if ((index & bit) != 0)
            first = middle;
        else
            end = middle;
    }
    return range_of_units(options, first, end);
}

/* With one peer. There, this process gives up a range of its node and takes over another, of which it has the sum then; on the way back it is the
 * other way around. */
static void exchange_with(builder *b, int peer, range gives, range takes, bool back) {
    send_to(b, peer, 0, back ? takes : gives);
    receive_from(b, peer, back ? 0 : 1, back ? gives : takes);
}

/* What a process takes over is added to what it has. The other half of the subtree is the later one, unless this process is in that itself. */
static void add_other_half(builder *b, range takes, int64_t left, int64_t right, bool is_left) {
    int64_t leaves = b->options->n_microbatches / b->options->n_processes; /* of a process */
    const int sources[] = {is_left ? 0 : 1, is_left ? 1 : 0};
    const int64_t spans[] = {left * leaves, right * leaves};
    add_sum(b, takes, (left + right) * leaves, 2, dt_arena_copy(b->arena, sources, sizeof sources), dt_arena_copy(b->arena, spans, sizeof spans));
}

/* Between the halves of a subtree. Of each half, the first processes up to a power of two share the sum of it. Where both are as large, a process
 * halves its share with the one at its place in the other half. Else those of the left half, the larger one, keep their shares, and those of the
 * right half give up theirs, each to all of the left half who share what it has. */
static void exchange_halves(builder *b, subtree all, bool back) {
    const dt_schedule_options *options = b->options;
    const range nothing = {0, 0};
    int left = (int)left_half(all.n), right = all.n - left, index = options->process - all.first;
    bool is_left = index < left;
    if (left == right) {
        int other = index ^ left;
        range takes = halves_of(options, index, all.n);
        exchange_with(b, all.first + other, halves_of(options, other, all.n), takes, back);
        if (!back) add_other_half(b, takes, left, right, is_left);
        return;
    }
    int n_sharing = 1; /* of the right half */
    while (2 * n_sharing <= right) n_sharing *= 2;
    if (is_left) {
        range takes = halves_of(options, index, left);
        exchange_with(b, all.first + left + index % n_sharing, nothing, takes, back);
        if (!back) add_other_half(b, takes, left, right, true);
    } else if (index - left < n_sharing) {
        for (int peer = index - left; peer < left; peer += n_sharing)
            exchange_with(b, all.first + peer, halves_of(options, peer, left), nothing, back);
    }
}

/* Up the tree, a level a round, and down again. */
static void halve(builder *b) {
    const dt_schedule_options *options = b->options;
    subtree levels[MOST_LEVELS] = {{0, 0}}; /* from the leaves on */
    int n_levels = 0;
    while ((int64_t)1 << n_levels < options->n_processes) n_levels++;
    for (subtree all = {0, options->n_processes}; all.n > 1;) {
        int left = (int)left_half(all.n), level = 0;
        while ((int64_t)2 << level < all.n) level++;
        levels[level] = all;
        all = options->process < all.first + left ? (subtree){all.first, left} : (subtree){all.first + left, all.n - left};
    }
    if (levels[0].n > 0) { /* all that is received later is within what is received first */
        range takes = halves_of(options, options->process - levels[0].first, 2);
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

static dt_schedule_algorithm choose(const dt_schedule_options *options) {
    if (options->algorithm == DT_SCHEDULE_ENGINE) return DT_SCHEDULE_ENGINE;
    if (options->goal != DT_SCHEDULE_ALL_REDUCE || options->n_servers > 0 || !has_equal_nodes(options)) return DT_SCHEDULE_DIRECT;
    if (options->algorithm != DT_SCHEDULE_AUTO) return options->algorithm;
    return options->n_processes <= MOST_DIRECT ? DT_SCHEDULE_DIRECT : DT_SCHEDULE_HALVING;
}

dt_schedule dt_schedule_of(const dt_schedule_options *options, dt_arena *arena) {
    builder b = {.options = options, .arena = arena, .made.algorithm = choose(options)};
    bool reduces = options->goal != DT_SCHEDULE_ALL_GATHER, gathers = options->goal != DT_SCHEDULE_REDUCE_SCATTER;
    node_list nodes = {0};
    if (b.made.algorithm == DT_SCHEDULE_ENGINE)
        append_own_run(&nodes, options, arena);
    else if (reduces)
        append_nodes_of_process(&nodes, options, options->process, arena);
    b.made.n_nodes = (int)nodes.n;
    b.made.nodes = nodes.items;
    for (int slot = 0; slot < b.made.n_nodes || slot < 1; slot++) add_slot(&b, (range){0, options->n_bytes});
    if (options->n_processes > 1) {
        if (b.made.algorithm == DT_SCHEDULE_ENGINE) {
            end_round(&b);
        } else if (b.made.algorithm == DT_SCHEDULE_HALVING) {
            halve(&b);
        } else if (options->goal == DT_SCHEDULE_ALL_REDUCE && options->n_servers > 0 && dt_process_n_workers(roles_of(options)) == 1) {
            tell_servers(&b);
        } else {
            if (reduces) scatter_directly(&b);
            if (gathers) gather_directly(&b);
        }
    }
    b.made.n_slots = (int)b.slots.n;
    b.made.slots = b.slots.items;
    b.made.n_rounds = (int)b.rounds.n;
    b.made.rounds = b.rounds.items;
    return b.made;
}
