/* link: how a device sends bytes to devices of other processes and receives theirs, on its own queue, without the host. An implementation knows the
 * queue of one kind of device (runtime/comm/nccl); that device owns the link and puts on its queue what operations ask for. */
#ifndef DT_RUNTIME_DEVICES_LINK_H
#define DT_RUNTIME_DEVICES_LINK_H

#include "abi/dtype.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Bytes to or from another process. */
typedef struct dt_message {
    int peer;
    bool sends; /* else receives */
    void *data; /* unchanged, or unread, until the round is done */
    size_t bytes;
} dt_message;

typedef struct dt_link dt_link;

typedef struct dt_link_kind {
    const char *name; /* "NCCL 2.27.3" */

    /* Puts a round of messages on the queue, which may be captured: they are under way together, and what follows waits for all of them. What two
     * processes send each other arrives in order. */
    dt_status *(*transfer)(dt_link *link, void *queue, const dt_message *messages, int n);
    /* The same for a round in which n elements of all processes' devices become their sum, added up as the link likes. Of f32, f64, i32 and i64. */
    dt_status *(*all_reduce)(dt_link *link, void *queue, dt_dtype dtype, void *data, size_t n);
    /* What went wrong since, here or at another process; asked while the queue is waited for. */
    dt_status *(*check)(dt_link *link);
    /* What is under way ends, with whatever has arrived. From now on the link can only be closed. Others are not told. */
    void (*abort)(dt_link *link);
    /* When nothing is under way, all processes together, or each on its own after it was aborted. */
    void (*close)(dt_link *link);
} dt_link_kind;

struct dt_link { /* the head of every implementation's own struct */
    const dt_link_kind *kind;
};

static inline dt_status *dt_link_transfer(dt_link *link, void *queue, const dt_message *messages, int n) {
    return link->kind->transfer(link, queue, messages, n);
}
static inline dt_status *dt_link_all_reduce(dt_link *link, void *queue, dt_dtype dtype, void *data, size_t n) {
    return link->kind->all_reduce(link, queue, dtype, data, n);
}
/* NULL is allowed from here on. */
static inline dt_status *dt_link_check(dt_link *link) { return link != NULL ? link->kind->check(link) : NULL; }
static inline void dt_link_abort(dt_link *link) {
    if (link != NULL) link->kind->abort(link);
}
static inline void dt_link_close(dt_link *link) {
    if (link != NULL) link->kind->close(link);
}

#endif
