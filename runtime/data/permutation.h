/* permutation: the shuffle of a whole data set, and the keyed numbers that pipelines draw, as functions of a key.
 *
 * Nothing is stored and nothing is drawn in sequence: position 41,000 of epoch 3 is computed from (key, position) alone. That is why a run that
 * was killed goes on at the same example at once, and why an epoch of a billion examples needs no memory for its order. */
#ifndef DT_RUNTIME_DATA_PERMUTATION_H
#define DT_RUNTIME_DATA_PERMUTATION_H

#include <stdint.h>

/* A key that depends on all bits of both; not symmetric. */
uint64_t dt_key_join(uint64_t key, uint64_t part);

/* Number `index` of the sequence of `key`, in [0, limit); limit >= 1. */
int64_t dt_key_draw(uint64_t key, uint64_t index, int64_t limit);

/* Where the permutation of [0, n) that `key` selects puts `position`; 0 <= position < n. */
int64_t dt_permutation_at(uint64_t key, int64_t n, int64_t position);

#endif
