/* delivery: see delivery.h. An exchange of one round, made for each run. */
#include "runtime/comm/delivery.h"

#include "base/arena.h"
#include "base/memory.h"

#include <string.h>

enum {
    SIZES_OF_A_RECORD = DT_RECORD_BYTES / sizeof(int64_t)
};

typedef struct parcel {
    char *data;
    int64_t n, capacity; /* bytes */
} parcel;

struct dt_delivery {
    dt_processes *processes;
    int number, n, tag;
    const char *label;
    parcel *to, *from; /* [n]; what goes to itself is in `to` alone */
    int64_t *sizes;    /* [n * SIZES_OF_A_RECORD] as they are told */
    dt_arena *arena;   /* of the exchange that is run */
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

dt_status *dt_delivery_create(dt_processes *processes, const char *label, dt_delivery **delivery) {
    dt_delivery *made = dt_allocate_zeroed(1, sizeof *made);
    *delivery = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    *made = (dt_delivery){.processes = processes, .number = dt_processes_number(processes), .n = dt_processes_count(processes), .label = label};
    made->to = dt_allocate_zeroed((size_t)made->n, sizeof *made->to);
    made->from = dt_allocate_zeroed((size_t)made->n, sizeof *made->from);
    made->sizes = dt_allocate_zeroed((size_t)made->n, DT_RECORD_BYTES);
    if (processes != NULL) made->tag = dt_processes_new_tag(processes);
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
    dt_release(delivery->sizes);
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

/* Everybody's sizes to all, as many as a record holds at a time. */
static dt_status *tell_sizes(dt_delivery *delivery, const dt_step_context *context) {
    int64_t *sizes = delivery->sizes;
    for (int first = 0; first < delivery->n; first += SIZES_OF_A_RECORD) {
        int n = delivery->n - first < SIZES_OF_A_RECORD ? delivery->n - first : (int)SIZES_OF_A_RECORD;
        for (int i = 0; i < n; i++) sizes[delivery->number * n + i] = delivery->to[first + i].n;
        DT_TRY(dt_processes_gather(delivery->processes, sizes, (size_t)n * sizeof *sizes, context));
        bool is_here = delivery->number >= first && delivery->number < first + n;
        for (int p = 0; p < delivery->n && is_here; p++) delivery->from[p].n = sizes[p * n + delivery->number - first];
    }
    return NULL;
}

/* Slot p is what comes from process p, slot n + p what goes there. */
static dt_status *exchange(dt_delivery *delivery, const dt_step_context *context) {
    int n = delivery->n;
    int64_t n_sent = 0;
    dt_schedule_slot *slots = DT_NEW_ARRAY(delivery->arena, dt_schedule_slot, 2 * n);
    dt_schedule_message *messages = DT_NEW_ARRAY(delivery->arena, dt_schedule_message, 2 * n);
    dt_schedule_round *round = DT_NEW(delivery->arena, dt_schedule_round);
    *round = (dt_schedule_round){.messages = messages};
    for (int p = 0; p < n; p++) {
        parcel *from = &delivery->from[p], *to = &delivery->to[p];
        if (p == delivery->number) continue;
        DT_TRY(make_room(delivery, from, from->n));
        slots[p] = (dt_schedule_slot){0, from->n};
        slots[n + p] = (dt_schedule_slot){0, to->n};
        if (from->n > 0) messages[round->n_messages++] = (dt_schedule_message){p, false, p, 0, from->n};
        if (to->n > 0) messages[round->n_messages++] = (dt_schedule_message){p, true, n + p, 0, to->n};
        n_sent += to->n;
    }
    dt_schedule schedule = {.n_slots = 2 * n, .slots = slots, .n_rounds = 1, .rounds = round, .n_sent_bytes = n_sent};
    dt_exchange *made = dt_exchange_create(&schedule, 0, NULL, delivery->label, delivery->tag, delivery->arena);
    for (int p = 0; p < n; p++) {
        made->slots[p] = delivery->from[p].data;
        made->slots[n + p] = delivery->to[p].data;
    }
    dt_processes_begin(delivery->processes, made, context);
    return dt_processes_wait(delivery->processes, made, made->n_begun);
}

static dt_status *exchange_guarded(dt_delivery *delivery, const dt_step_context *context) {
    jmp_buf guard;
    dt_arena_destroy(delivery->arena);
    delivery->arena = dt_arena_create();
    if (delivery->arena == NULL || setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for %s", delivery->label);
    dt_arena_guard(delivery->arena, &guard);
    dt_status *status = exchange(delivery, context);
    dt_arena_guard(delivery->arena, NULL);
    if (status != NULL) dt_processes_settle(delivery->processes);
    return status;
}

dt_status *dt_delivery_run(dt_delivery *delivery, const int64_t *expected, const dt_step_context *context) {
    if (delivery->n == 1) return NULL;
    if (expected == NULL) DT_TRY(tell_sizes(delivery, context));
    for (int p = 0; p < delivery->n && expected != NULL; p++) delivery->from[p].n = expected[p];
    return exchange_guarded(delivery, context);
}
