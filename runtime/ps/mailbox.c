/* mailbox: see the header. */
#include "runtime/ps/mailbox.h"

#include "base/memory.h"

#include <string.h>

void dt_ps_mailbox_clear(dt_ps_mailbox *box) {
    for (size_t i = 0; i < box->n_early; i++) dt_ps_payload_release(&box->early[i].payload);
    dt_release(box->expected);
    dt_release(box->early);
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

/* What has come already, if it has. */
static dt_status *take_early(dt_ps_mailbox *box, const dt_ps_expected *wanted, bool *found) {
    *found = false;
    for (size_t i = 0; i < box->n_early; i++) {
        dt_ps_early one = box->early[i];
        if (one.peer != wanted->peer || one.tag != wanted->tag) continue;
        *found = true;
        memmove(&box->early[i], &box->early[i + 1], (--box->n_early - i) * sizeof one);
        return put_in_place(wanted, &one.payload);
    }
    return NULL;
}

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

dt_status *dt_ps_mailbox_deliver(dt_ps_mailbox *box, int peer, int tag, dt_ps_payload *payload) {
    for (size_t i = 0; i < box->n_expected; i++) {
        dt_ps_expected wanted = box->expected[i];
        if (wanted.peer != peer || wanted.tag != tag) continue;
        memmove(&box->expected[i], &box->expected[i + 1], (--box->n_expected - i) * sizeof wanted);
        box->rounds[wanted.round].n_open--;
        return put_in_place(&wanted, payload);
    }
    dt_status *status = box->n_early < DT_PS_MOST_EARLY
                            ? make_room((void **)&box->early, sizeof *box->early, box->n_early, &box->early_capacity)
                            : dt_error(DT_DATA_LOSS, "process %d sends more than %d messages that nobody waits for", peer, DT_PS_MOST_EARLY);
    if (status != NULL) {
        dt_ps_payload_release(payload);
        return status;
    }
    box->early[box->n_early++] = (dt_ps_early){peer, tag, *payload};
    *payload = (dt_ps_payload){0};
    return NULL;
}

void dt_ps_mailbox_forget(dt_ps_mailbox *box, int peer) {
    size_t n = 0;
    for (size_t i = 0; i < box->n_early; i++) {
        if (box->early[i].peer == peer)
            dt_ps_payload_release(&box->early[i].payload);
        else
            box->early[n++] = box->early[i];
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
