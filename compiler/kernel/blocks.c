/* blocks: how a replica's rows are cut into blocks; see dt_block_rows in kernel.h. */
#include "compiler/kernel/kernel.h"

int64_t dt_blocks_of(int64_t rows, int64_t block_rows) {
    int64_t n = 1;
    while (n * block_rows < rows) n *= 2;
    return n;
}

int64_t dt_block_rows(int64_t capacity) {
    int64_t n = dt_blocks_of(capacity, DT_MOST_BLOCK_ROWS);
    return (capacity + n - 1) / n;
}
