/* mailbox: see the header. */
#include "runtime/ps/mailbox.h"

#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

void dt_ps_mailbox_clear(dt_ps_mailbox *box) {
    for (size_t i = 0; i < box->n_early; i++) dt_ps_payload_release(&box->early[i].payload);
    dt_release(box->expected);
    dt_release(box->early);
    dt_release(box->sums);
    *box = (dt_ps_mailbox){0};
}

/* An array of at least n + 1 items. */
static dt_status *make_room(void **items, size_t item_bytes, size_t n, size_t *capacity) {
    if (n < *capacity) return NULL;
    void *grown = dt_reallocate(*items, item_bytes * (2 * n + 64));
    if (grown == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "no memory for %zu messages", n);
    *items = grown;
    *capacity = 2 * n + 64;
    return NULL;
}

static dt_status *put_in_place(const dt_ps_expected *wanted, dt_ps_payload *payload) {
    size_t bytes = payload->bytes;
    if (bytes == wanted->bytes && bytes > 0) memcpy(wanted->data, payload->data, bytes);
    dt_ps_payload_release(payload);
    if (bytes == wanted->bytes) return NULL;
    return dt_error(DT_DATA_LOSS, "process %d sent %zu bytes under tag %d, and %zu were expected", wanted->peer, bytes, wanted->tag, wanted->bytes);
}

/* ---- what came early ---- */

static dt_ps_early_sum *sum_of(dt_ps_mailbox *box, int peer) {
    for (size_t i = 0; i < box->n_sums; i++)
        if (box->sums[i].peer == peer) return &box->sums[i];
    return NULL;
}

/* It is in the box no more. */
static void subtract(dt_ps_mailbox *box, const dt_ps_early *one) {
    dt_ps_early_sum *sum = sum_of(box, one->peer);
    sum->bytes -= one->payload.bytes;
    if (--sum->n == 0) *sum = box->sums[--box->n_sums];
}

static dt_status *add_early(dt_ps_mailbox *box, const dt_ps_early *one, uint64_t most_bytes) {
    dt_ps_early_sum *sum = sum_of(box, one->peer);
    size_t n = sum != NULL ? sum->n : 0, bytes = sum != NULL ? sum->bytes : 0;
    if (n == DT_PS_MOST_EARLY)
        return dt_error(DT_DATA_LOSS, "process %d sends more than %d messages that nobody waits for", one->peer, DT_PS_MOST_EARLY);
    if (one->payload.bytes > most_bytes || bytes > most_bytes - one->payload.bytes)
        return dt_error(DT_DATA_LOSS,
                        "process %d sends %zu bytes that nobody waits for, beside %zu, and the run's exchanges have %" PRIu64 " at most", one->peer,
                        one->payload.bytes, bytes, most_bytes);
    DT_TRY(make_room((void **)&box->early, sizeof *box->early, box->n_early, &box->early_capacity));
    if (sum == NULL) {
        DT_TRY(make_room((void **)&box->sums, sizeof *box->sums, box->n_sums, &box->sum_capacity));
        sum = &box->sums[box->n_sums++];
    }
    *sum = (dt_ps_early_sum){one->peer, n + 1, bytes + one->payload.bytes};
    box->early[box->n_early++] = *one;
    return NULL;
}

/* What has come already, if it has. */
static dt_status *take_early(dt_ps_mailbox *box, const dt_ps_expected *wanted, bool *found) {
    *found = false;
    for (size_t i = 0; i < box->n_early; i++) {
        dt_ps_early one = box->early[i];
        if (one.peer != wanted->peer || one.tag != wanted->tag) continue;
        *found = true;
        subtract(box, &one);
        memmove(&box->early[i], &box->early[i + 1], (--box->n_early - i) * sizeof one);
        return put_in_place(wanted, &one.payload);
    }
    return NULL;
}

/* ---- all of it ---- */

dt_status *dt_ps_mailbox_expect(dt_ps_mailbox *box, int tag, const dt_message *messages, int n, int *round) {
    for (*round = 0; *round < DT_MOST_ROUNDS && box->rounds[*round].is_under_way; ++*round) {
    }
    if (*round == DT_MOST_ROUNDS) return dt_error(DT_INTERNAL, "more than %d rounds are under way", DT_MOST_ROUNDS);
    box->rounds[*round].is_under_way = true;
    box->rounds[*round].n_open = 0;
    for (int m = 0; m < n; m++) {
        bool found;
        if (messages[m].sends) continue;
        dt_ps_expected wanted = {.peer = messages[m].peer, .tag = tag, .round = *round, .data = messages[m].data, .bytes = messages[m].bytes};
        DT_TRY(take_early(box, &wanted, &found));
        if (found) continue;
        DT_TRY(make_room((void **)&box->expected, sizeof *box->expected, box->n_expected, &box->expected_capacity));
        box->expected[box->n_expected++] = wanted;
        box->rounds[*round].n_open++;
    }
    return NULL;
}

dt_status *dt_ps_mailbox_deliver(dt_ps_mailbox *box, int peer, int tag, uint64_t most_early_bytes, dt_ps_payload *payload) {
    for (size_t i = 0; i < box->n_expected; i++) {
        dt_ps_expected wanted = box->expected[i];
        if (wanted.peer != peer || wanted.tag != tag) continue;
        memmove(&box->expected[i], &box->expected[i + 1], (--box->n_expected - i) * sizeof wanted);
        box->rounds[wanted.round].n_open--;
        return put_in_place(&wanted, payload);
    }
    dt_status *status = add_early(box, &(dt_ps_early){peer, tag, *payload}, most_early_bytes);
    if (status != NULL)
        dt_ps_payload_release(payload);
    else
        *payload = (dt_ps_payload){0};
    return status;
}

void dt_ps_mailbox_forget(dt_ps_mailbox *box, int peer) {
    size_t n = 0;
    for (size_t i = 0; i < box->n_early; i++) {
        if (box->early[i].peer != peer) {
            box->early[n++] = box->early[i];
            continue;
        }
        subtract(box, &box->early[i]);
        dt_ps_payload_release(&box->early[i].payload);
    }
    box->n_early = n;
}

bool dt_ps_mailbox_expects(const dt_ps_mailbox *box, int peer) {
    for (size_t i = 0; i < box->n_expected; i++)
        if (box->expected[i].peer == peer) return true;
    return false;
}

bool dt_ps_mailbox_has_all(dt_ps_mailbox *box, int round) {
    bool has_all = box->rounds[round].n_open == 0;
    if (has_all) box->rounds[round].is_under_way = false;
    return has_all;
}
