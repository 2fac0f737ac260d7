/* exchange: see exchange.h. */
#include "runtime/comm/exchange.h"

#include "runtime/threads/clock.h"

dt_exchange *dt_exchange_create(const dt_schedule *schedule, int n_regions, const dt_exchange_region *regions, const char *label, int tag,
                                dt_arena *arena) {
    int64_t most_leaves = 1;
    for (int r = 0; r < schedule->n_rounds; r++)
        for (int s = 0; s < schedule->rounds[r].n_sums; s++)
            if (schedule->rounds[r].sums[s].n_leaves > most_leaves) most_leaves = schedule->rounds[r].sums[s].n_leaves;
    dt_exchange *made = DT_NEW(arena, dt_exchange);
    *made = (dt_exchange){.schedule = *schedule,
                          .n_regions = n_regions,
                          .regions = regions,
                          .slots = DT_NEW_ARRAY(arena, char *, schedule->n_slots),
                          .label = label,
                          .tag = tag,
                          .under_way = -1};
    char *scratch = dt_arena_new(arena, dt_reduce_scratch_bytes(most_leaves) + 64);
    made->scratch = (void *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    return made;
}

static int64_t bytes_of(const dt_exchange *exchange, int peer) {
    int64_t bytes = 0;
    for (int r = 0; r < exchange->schedule.n_rounds; r++) {
        const dt_schedule_round *round = &exchange->schedule.rounds[r];
        for (int m = 0; m < round->n_messages; m++)
            if (!round->messages[m].sends && round->messages[m].peer == peer) bytes += round->messages[m].n_bytes;
    }
    return bytes;
}

int64_t dt_exchange_most_of_one(const dt_exchange *exchange) {
    int64_t most = 0;
    int last = -1; /* messages of one peer are side by side */
    for (int r = 0; r < exchange->schedule.n_rounds; r++) {
        const dt_schedule_round *round = &exchange->schedule.rounds[r];
        for (int m = 0; m < round->n_messages; m++) {
            if (round->messages[m].sends || round->messages[m].peer == last) continue;
            last = round->messages[m].peer;
            int64_t bytes = bytes_of(exchange, last);
            if (bytes > most) most = bytes;
        }
    }
    return most;
}

/* Nodes, and slot 0 without any, where that has the same bytes of the image. */
static bool is_of_another(const dt_exchange *exchange, int slot) {
    if (exchange->like == NULL || (slot > 0 && slot >= exchange->schedule.n_nodes)) return false;
    const dt_schedule_slot *own = &exchange->schedule.slots[slot], *other = &exchange->like->schedule.slots[slot];
    return own->first == other->first && own->n_bytes == other->n_bytes;
}

int64_t dt_exchange_bytes(const dt_exchange *exchange) {
    int64_t bytes = 0;
    for (int s = 0; s < exchange->schedule.n_slots; s++)
        if (exchange->slots[s] == NULL && !is_of_another(exchange, s)) bytes += dt_schedule_whole_units(exchange->schedule.slots[s].n_bytes);
    return bytes;
}

void dt_exchange_place(dt_exchange *exchange, char *memory) {
    for (int s = 0; s < exchange->schedule.n_slots; s++) {
        if (is_of_another(exchange, s)) exchange->slots[s] = exchange->like->slots[s];
        if (exchange->slots[s] != NULL) continue;
        exchange->slots[s] = memory;
        memory += dt_schedule_whole_units(exchange->schedule.slots[s].n_bytes);
    }
}

void dt_exchange_land(dt_exchange *exchange, char *image) { exchange->slots[0] = image + exchange->schedule.slots[0].first; }

char *dt_exchange_at(const dt_exchange *exchange, int slot, int64_t offset) {
    return exchange->slots[slot] + (offset - exchange->schedule.slots[slot].first);
}

/* ---- operations ---- */

/* What an engine adds up is all of the image, what lies between tensors too. */
static dt_operation engine_of(const dt_exchange *exchange) {
    const dt_exchange_region *first = &exchange->regions[0], *last = &exchange->regions[exchange->n_regions - 1];
    size_t n = (size_t)(last->first + last->n_bytes) / dt_dtype_bytes(first->dtype);
    return (dt_operation){.kind = DT_OPERATION_ALL_REDUCE, .all_reduce = {first->dtype, exchange->slots[0], n}};
}

static dt_operation transfer_of(const dt_exchange *exchange, const dt_schedule_round *round, dt_arena *arena) {
    dt_message *messages = DT_NEW_ARRAY(arena, dt_message, round->n_messages);
    for (int m = 0; m < round->n_messages; m++) {
        const dt_schedule_message *one = &round->messages[m];
        messages[m] = (dt_message){one->peer, one->sends, dt_exchange_at(exchange, one->slot, one->first), (size_t)one->n_bytes};
    }
    return (dt_operation){.kind = DT_OPERATION_TRANSFER, .transfer = {round->n_messages, messages}};
}

/* Of a sum what lies in a region: of one type. */
static void add_part(const dt_exchange *exchange, const dt_schedule_sum *sum, const dt_exchange_region *region, dt_arena *arena,
                     dt_operation_reduce *reduce, dt_tree_reduction *parts) {
    int64_t first = region->first > sum->first ? region->first : sum->first;
    int64_t region_end = region->first + region->n_bytes, sum_end = sum->first + sum->n_bytes;
    int64_t end = region_end < sum_end ? region_end : sum_end;
    if (first >= end) return;
    dt_tree_source *sources = DT_NEW_ARRAY(arena, dt_tree_source, sum->n_sources);
    void **target = DT_NEW(arena, void *);
    *target = dt_exchange_at(exchange, sum->target, first);
    for (int s = 0; s < sum->n_sources; s++) sources[s] = (dt_tree_source){dt_exchange_at(exchange, sum->sources[s], first), sum->spans[s]};
    parts[reduce->n++] = (dt_tree_reduction){.dtype = region->dtype,
                                             .combine = region->combine,
                                             .n_leaves = sum->n_leaves,
                                             .n_sources = sum->n_sources,
                                             .sources = sources,
                                             .n_elements = (size_t)(end - first) / dt_dtype_bytes(region->dtype),
                                             .n_targets = 1,
                                             .targets = target};
}

static dt_operation sums_of(const dt_exchange *exchange, const dt_schedule_round *round, dt_arena *arena) {
    dt_tree_reduction *parts = DT_NEW_ARRAY(arena, dt_tree_reduction, round->n_sums * exchange->n_regions);
    dt_operation_reduce reduce = {.reductions = parts};
    for (int s = 0; s < round->n_sums; s++)
        for (int r = 0; r < exchange->n_regions; r++) add_part(exchange, &round->sums[s], &exchange->regions[r], arena, &reduce, parts);
    return (dt_operation){.kind = DT_OPERATION_REDUCE, .reduce = reduce};
}

void dt_exchange_lower(dt_exchange *exchange, dt_arena *arena) {
    dt_operation *operations = DT_NEW_ARRAY(arena, dt_operation, 2 * exchange->schedule.n_rounds);
    for (int r = 0; r < exchange->schedule.n_rounds; r++) {
        const dt_schedule_round *round = &exchange->schedule.rounds[r];
        bool is_engine = exchange->schedule.algorithm == DT_SCHEDULE_ENGINE;
        operations[2 * r] = is_engine ? engine_of(exchange) : transfer_of(exchange, round, arena);
        operations[2 * r + 1] = sums_of(exchange, round, arena);
    }
    exchange->operations = operations;
}

/* ---- running ---- */

static dt_status *start_round(dt_exchange *exchange, dt_transport *transport) {
    const dt_operation *one = &exchange->operations[2 * exchange->round];
    exchange->started = dt_seconds_now();
    for (int b = 0; b < exchange->before.n && exchange->round == 0; b++) dt_reduce(&exchange->before.reductions[b], exchange->scratch);
    if (one->kind == DT_OPERATION_TRANSFER)
        return dt_transport_start(transport, exchange->tag, one->transfer.messages, one->transfer.n, &exchange->under_way);
    return transport->kind->all_reduce(transport, one->all_reduce.dtype, one->all_reduce.data, one->all_reduce.n, &exchange->under_way);
}

/* What divides the microbatches starts in one order everywhere, so that some of it is always under way with all. What is of one member alone does
 * not: there has to be room for all of it, whatever else is under way. */
static int most_under_way(const dt_exchange *exchange) { return exchange->axis == DT_AXIS_DATA ? DT_MOST_ROUNDS / 2 : DT_MOST_ROUNDS; }

dt_status *dt_exchange_move(dt_exchange *exchange, dt_transport *transport, int *n_under_way, bool *moved, bool *done) {
    for (*done = false; exchange->round < exchange->schedule.n_rounds; exchange->round++) {
        const dt_operation_reduce *sums = &exchange->operations[2 * exchange->round + 1].reduce;
        bool arrived;
        if (exchange->under_way < 0) {
            if (*n_under_way >= most_under_way(exchange)) return NULL;
            DT_TRY(start_round(exchange, transport));
            ++*n_under_way;
            *moved = true;
        }
        DT_TRY(dt_transport_test(transport, exchange->under_way, &arrived));
        if (!arrived) return NULL;
        exchange->under_way = -1;
        --*n_under_way;
        *moved = true;
        for (int s = 0; s < sums->n; s++) dt_reduce(&sums->reductions[s], exchange->scratch);
    }
    for (int a = 0; a < exchange->after.n; a++) dt_reduce(&exchange->after.reductions[a], exchange->scratch);
    exchange->round = 0;
    *done = true;
    return NULL;
}
