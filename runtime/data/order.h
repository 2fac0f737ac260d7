/* order: which example comes when.
 *
 * The stages of a pipeline do two separate things: they decide the order of examples, and they compute on them. Here is the first, in numbers
 * alone: an *item* says what an example is made of, and making it is left to the threads of the pipeline (examples.h). So the order is cheap to
 * walk, and where every stage can say what stands at a position (all but filter and a shuffle with a buffer) it need not be walked at all: going on
 * in the middle of an epoch costs nothing.
 *
 * An item is a row of words: the row of the source (or of the cache, where there is one), then for each stage that numbers its examples the example's
 * number there: for a map, whose random numbers depend on it, over all passes of an epoch, for enumerate in each pass. Threads: one at a time. */
#ifndef DT_RUNTIME_DATA_ORDER_H
#define DT_RUNTIME_DATA_ORDER_H

#include "runtime/comm/microbatches.h"
#include "runtime/data/stages.h"

typedef struct dt_order dt_order;

/* Whether the filter that is stage `stage` lets pass what `item` says of the stages before it. */
typedef dt_status *dt_order_predicate(void *context, int stage, const int64_t *item, bool *keep);

typedef struct dt_order_options {
    const dt_stages *stages; /* outlives the order */
    int64_t n_source;        /* rows of the source */
    int64_t n_files;         /* of the source, for interleave(), and where they end: */
    const int64_t *file_ends;
    uint64_t seed;
    dt_order_predicate *predicate; /* called within dt_order_create (a filter before a cache), dt_order_start and dt_order_next */
    void *context;
} dt_order_options;

dt_status *dt_order_create(const dt_order_options *options, dt_order **order);
void dt_order_destroy(dt_order *order); /* NULL is allowed */

int dt_order_item_words(const dt_order *order);
int64_t dt_order_n_examples(const dt_order *order); /* of an epoch; -1: known only at its end */
int64_t dt_order_n_cached(const dt_order *order);   /* rows of the cache; 0 without one */

/* Goes to example `position` of `epoch`, both from 0. */
dt_status *dt_order_start(dt_order *order, int64_t epoch, int64_t position);

/* Goes over the next `n` items, and writes those of them that `wanted` counts into items[wanted.end - wanted.first][words]. *n_given, of all `n`, is
 * less only at the end of the epoch. */
dt_status *dt_order_next(dt_order *order, int64_t n, dt_row_range wanted, int64_t *items, int64_t *n_given);

/* Whether the order is walked, one example after the other: so a process that wants a part of them goes over all. */
bool dt_order_is_walked(const dt_order *order);

/* The item, in terms of the source, that row `row` of the cache is made from. This one may be called from any thread. */
void dt_order_cached_item(const dt_order *order, int64_t row, int64_t *item);

#endif
