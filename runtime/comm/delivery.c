/* delivery: see delivery.h. Exchanges of one round, made for each run: of sizes, and of what they are of. */
#include "runtime/comm/delivery.h"

#include "base/arena.h"
#include "base/memory.h"

#include <string.h>

typedef struct parcel {
    char *data;
    int64_t n, capacity; /* bytes */
} parcel;

struct dt_delivery {
    dt_processes *processes;
    dt_delivery_way way;
    int number, n, tag;
    const char *label;
    parcel *to, *from; /* [n]; what goes to itself is in `to` alone */
    int64_t *sizes;    /* [2][n] as they are told, and heard */
    dt_arena *arena;   /* of the exchanges that are run */
};

/* ---- memory ---- */

static void release(void *memory, size_t bytes) {
    (void)bytes;
    dt_release(memory);
}

static dt_status *make_room(dt_delivery *delivery, parcel *parcel, int64_t n) {
    if (n <= parcel->capacity) return NULL;
    int64_t capacity = n > 2 * parcel->capacity ? n : 2 * parcel->capacity;
    char *grown = dt_reallocate(parcel->data, (size_t)capacity);
    if (grown == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %s", delivery->label);
    parcel->data = grown;
    parcel->capacity = capacity;
    return NULL;
}

dt_status *dt_delivery_create(dt_processes *processes, dt_delivery_way way, const char *label, dt_delivery **delivery) {
    dt_delivery *made = dt_allocate_zeroed(1, sizeof *made);
    *delivery = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_process_roles roles = dt_processes_roles(processes);
    *made = (dt_delivery){.processes = processes, .way = way, .number = roles.process, .n = roles.n_processes, .label = label};
    made->to = dt_allocate_zeroed((size_t)made->n, sizeof *made->to);
    made->from = dt_allocate_zeroed((size_t)made->n, sizeof *made->from);
    made->sizes = dt_allocate_zeroed(2 * (size_t)made->n, sizeof *made->sizes);
    made->tag = dt_processes_new_tag(processes);
    if (made->to != NULL && made->from != NULL && made->sizes != NULL) {
        *delivery = made;
        return NULL;
    }
    dt_delivery_destroy(made);
    return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

void dt_delivery_destroy(dt_delivery *delivery) {
    if (delivery == NULL) return;
    for (int p = 0; p < delivery->n; p++) {
        if (delivery->to != NULL) dt_processes_release(delivery->processes, release, delivery->to[p].data, 1);
        if (delivery->from != NULL) dt_processes_release(delivery->processes, release, delivery->from[p].data, 1);
    }
    dt_release(delivery->to);
    dt_release(delivery->from);
    dt_processes_release(delivery->processes, release, delivery->sizes, 1);
    dt_arena_destroy(delivery->arena);
    dt_release(delivery);
}

/* ---- posting ---- */

void dt_delivery_clear(dt_delivery *delivery) {
    for (int p = 0; p < delivery->n; p++) delivery->to[p].n = 0;
}

dt_status *dt_delivery_post(dt_delivery *delivery, int to, size_t bytes, void **memory) {
    parcel *parcel = &delivery->to[to];
    DT_TRY(make_room(delivery, parcel, parcel->n + (int64_t)bytes + 1)); /* one more: there is memory, even for nothing */
    *memory = parcel->data + parcel->n;
    parcel->n += (int64_t)bytes;
    return NULL;
}

const void *dt_delivery_from(const dt_delivery *delivery, int from, size_t *bytes) {
    const parcel *parcel = from == delivery->number ? &delivery->to[from] : &delivery->from[from];
    *bytes = (size_t)parcel->n;
    return parcel->data;
}

/* ---- running ---- */

/* Whether one process may have something for another one. */
static bool goes(const dt_delivery *delivery, int from, int to) {
    dt_process_roles roles = dt_processes_roles(delivery->processes);
    int holder = delivery->way == DT_DELIVERY_TO_OWNERS ? from : to, owner = delivery->way == DT_DELIVERY_TO_OWNERS ? to : from;
    return from != to && dt_process_holds(roles, holder) && dt_process_owns(roles, owner);
}

/* To each what is in `to`, from each what `from` has room for. */
static dt_status *exchange(dt_delivery *delivery, const parcel *to, const parcel *from, const dt_step_context *context) {
    int n = delivery->n;
    int64_t *sends = DT_NEW_ARRAY(delivery->arena, int64_t, n), *receives = DT_NEW_ARRAY(delivery->arena, int64_t, n);
    for (int p = 0; p < n; p++) {
        receives[p] = goes(delivery, p, delivery->number) ? from[p].n : 0;
        sends[p] = goes(delivery, delivery->number, p) ? to[p].n : 0;
    }
    dt_schedule schedule = dt_schedule_all_to_all(n, sends, receives, delivery->arena);
    dt_exchange *made = dt_exchange_create(&schedule, 0, NULL, delivery->label, delivery->tag, delivery->arena);
    for (int p = 0; p < n; p++) {
        made->slots[p] = from[p].data;
        made->slots[n + p] = to[p].data;
    }
    dt_exchange_lower(made, delivery->arena);
    dt_processes_begin(delivery->processes, made, context);
    return dt_processes_wait(delivery->processes, made, made->n_begun);
}

/* Each hears from each how much there will be. */
static dt_status *tell_sizes(dt_delivery *delivery, const dt_step_context *context) {
    int n = delivery->n;
    int64_t *told = delivery->sizes, *heard = told + n;
    parcel *to = DT_NEW_ARRAY(delivery->arena, parcel, n), *from = DT_NEW_ARRAY(delivery->arena, parcel, n);
    for (int p = 0; p < n; p++) {
        told[p] = delivery->to[p].n;
        heard[p] = 0;
        to[p] = (parcel){.data = (char *)&told[p], .n = sizeof *told};
        from[p] = (parcel){.data = (char *)&heard[p], .n = sizeof *heard};
    }
    DT_TRY(exchange(delivery, to, from, context));
    for (int p = 0; p < n; p++) {
        if (heard[p] < 0) return dt_error(DT_DATA_LOSS, "process %d has %lld bytes of %s", p, (long long)heard[p], delivery->label);
        delivery->from[p].n = heard[p];
    }
    return NULL;
}

static dt_status *run(dt_delivery *delivery, const int64_t *expected, const dt_step_context *context) {
    if (expected == NULL) DT_TRY(tell_sizes(delivery, context));
    for (int p = 0; p < delivery->n && expected != NULL; p++) delivery->from[p].n = expected[p];
    for (int p = 0; p < delivery->n; p++) DT_TRY(make_room(delivery, &delivery->from[p], delivery->from[p].n));
    return exchange(delivery, delivery->to, delivery->from, context);
}

dt_status *dt_delivery_run(dt_delivery *delivery, const int64_t *expected, const dt_step_context *context) {
    jmp_buf guard;
    if (delivery->n == 1) return NULL;
    dt_arena_destroy(delivery->arena);
    delivery->arena = dt_arena_create();
    if (delivery->arena == NULL || setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %s", delivery->label);
    dt_arena_guard(delivery->arena, &guard);
    dt_status *status = run(delivery, expected, context);
    dt_arena_guard(delivery->arena, NULL);
    if (status != NULL) dt_processes_settle(delivery->processes);
    return status;
}
