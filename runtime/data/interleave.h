/* interleave: rows of files that lie one after the other, taken from several of them in turn, as tf.data's Dataset.interleave does.
 *
 * `cycle` files are open at a time, each at a place of its own; `block` rows of one are followed by those of the next place. A file that ends leaves
 * its place to the next file that was not open yet, from the next time on that the place has its turn. Which row stands at a position is computed,
 * from a table that grows with files and cycle and not with rows, so that an epoch may be entered anywhere. */
#ifndef DT_RUNTIME_DATA_INTERLEAVE_H
#define DT_RUNTIME_DATA_INTERLEAVE_H

#include "base/status.h"

#include <stdint.h>

typedef struct dt_interleave dt_interleave;

/* ends: [n_files], the row after the last one of each; they do not fall. cycle, block >= 1. */
dt_status *dt_interleave_create(int64_t n_files, const int64_t *ends, int64_t cycle, int64_t block, dt_interleave **interleave);
void dt_interleave_destroy(dt_interleave *interleave); /* NULL is allowed */

/* The row at `position`, which is less than the number of rows. Any thread. */
int64_t dt_interleave_row(const dt_interleave *interleave, int64_t position);

#endif
