/* mailbox: what has come for the exchanges of one process, and what they wait for.
 *
 * An exchange says what it is to receive, from which process, under which tag, and where to; messages come when they come. What two processes send
 * each other under one tag is received in the order of sending. What comes before anybody waits for it is kept, up to a bound for each process.
 * Threads: one makes all calls. */
#ifndef DT_RUNTIME_PS_MAILBOX_H
#define DT_RUNTIME_PS_MAILBOX_H

#include "runtime/comm/transport.h"
#include "runtime/ps/message.h"

enum {
    DT_PS_MOST_EARLY = 1 << 16 /* messages of one process that nobody waits for yet */
};

/* What somebody waits for, or what nobody waits for yet. */
typedef struct dt_ps_expected {
    int peer, tag, round;
    void *data;
    size_t bytes;
} dt_ps_expected;

typedef struct dt_ps_early {
    int peer, tag;
    dt_ps_payload payload;
} dt_ps_early;

/* Of one process. */
typedef struct dt_ps_early_sum {
    int peer;
    size_t n, bytes;
} dt_ps_early_sum;

typedef struct dt_ps_mailbox { /* starts as {0} */
    struct {
        bool is_under_way;
        int n_open; /* receives */
    } rounds[DT_MOST_ROUNDS];
    dt_ps_expected *expected; /* [n_expected] in the order of asking */
    size_t n_expected, expected_capacity;
    dt_ps_early *early; /* [n_early] in the order of coming */
    size_t n_early, early_capacity;
    dt_ps_early_sum *sums; /* [n_sums] of all of them; none is of nothing */
    size_t n_sums, sum_capacity;
} dt_ps_mailbox;

void dt_ps_mailbox_clear(dt_ps_mailbox *box); /* it is {0} again */

/* Receives of a round; messages that send are passed over. */
dt_status *dt_ps_mailbox_expect(dt_ps_mailbox *box, int tag, const dt_message *messages, int n, int *round);
/* Something came: the payload is taken. DT_DATA_LOSS: it is not as long as was expected, or nobody waits for it, and the peer would have more than
 * DT_PS_MOST_EARLY messages or `most_early_bytes` for which that is so. */
dt_status *dt_ps_mailbox_deliver(dt_ps_mailbox *box, int peer, int tag, uint64_t most_early_bytes, dt_ps_payload *payload);
/* What has come from a peer early is released. */
void dt_ps_mailbox_forget(dt_ps_mailbox *box, int peer);
/* Whether something is waited for from it. */
bool dt_ps_mailbox_expects(const dt_ps_mailbox *box, int peer);
/* Whether all of a round has come; it is free then. */
bool dt_ps_mailbox_has_all(dt_ps_mailbox *box, int round);

#endif
