/* blocks: see the header. The one place where the size of a block is decided.
 *
 * Three things pull.
 *
 *  - Cores. A core without a block has nothing to do, so blocks are small: MOST_SHARED_ROWS, as long as there are fewer than MOST_CORES of them.
 *    That costs little where kernels go row by row: the CNN of the examples takes 27 to 28 ms on one core with 4, 8, 16, 32 and 64 rows alike.
 *
 *  - What crosses. Each block leaves a copy of all gradients, which is written, read again and summed, and reads all weights. In the second-level
 *    cache that is nearly free, in the third it is not, in memory it is dearer than anything. Dense layers on one core, times of a step of 64 rows in
 *    blocks of 16, 32 and 64, and what a byte that crosses costs at the 100 GFLOP/s of that core:
 *
 *        parameters   gradients    16         32         64 rows
 *             0.1 M      0.4 MB     0.153 ms   0.141 ms   0.141 ms      1.5 flops a byte
 *             0.27 M     1.1 MB     1.53       1.14       0.99         20
 *             0.54 M     2.2 MB     3.1        2.3        2.0          20
 *             2.4 M      9.6 MB    25         14         11            60
 *            10.8 M     43  MB    369        216        115            60 to 180
 *
 *    A block must have twice as much arithmetic as its crossing is worth, so that a core loses a third at the most, while two cores gain.
 *
 *  - Activations. What a block leaves for its later kernels should still be in the second-level cache. Rows beyond MOST_SHARED_ROWS, which save
 *    crossing, are taken as long as it is. */
#include "compiler/blocks.h"

#include "compiler/flops.h"

enum {
    MOST_SHARED_ROWS = 16,
    MOST_CORES = 16,              /* that a replica alone is to keep busy */
    SECOND_LEVEL_BYTES = 1 << 20, /* of a core: half of it for activations, or for gradients beside as many bytes of weights */
    THIRD_LEVEL_BYTES = 4 << 20,  /* a core's share, for its gradients; the weights are there once for all cores */
    LEAST_WORTH = 2               /* arithmetic of a block, in times of what crosses */
};

static double flops_of_crossing(double bytes) {
    double flops_a_byte = bytes <= SECOND_LEVEL_BYTES / 2 ? 1.5 : bytes <= THIRD_LEVEL_BYTES ? 20 : 60;
    return flops_a_byte * bytes;
}

int64_t dt_blocks_of(int64_t rows, int64_t block_rows) {
    int64_t n = 1;
    while (n * block_rows < rows) n *= 2;
    return n;
}

int64_t dt_block_rows(int64_t capacity, const dt_block_costs *costs) {
    double least = LEAST_WORTH * flops_of_crossing(costs->crossing_bytes), fitting = SECOND_LEVEL_BYTES / 2;
    int64_t most = (capacity + MOST_CORES - 1) / MOST_CORES, rows = capacity;
    if ((double)most * costs->activation_per_row > fitting) most = (int64_t)(fitting / costs->activation_per_row);
    if (most < MOST_SHARED_ROWS) most = MOST_SHARED_ROWS;
    for (int64_t n = 2; rows > most; n *= 2) {
        int64_t fewer = (capacity + n - 1) / n;
        if ((double)fewer * costs->flops_per_row < least) break;
        rows = fewer;
    }
    return rows;
}

/* ---- of a program ---- */

static double bytes_of(const dt_value *value) { return (double)dt_shape_elements_per_row(value->shape) * (double)dt_dtype_bytes(value->dtype); }

/* What is elementwise, or moved, or read where it is, is computed where it is used. */
static bool is_kept(const dt_value *value) {
    switch (value->op->class) {
    case DT_CLASS_REDUCE:
    case DT_CLASS_CONTRACT:
    case DT_CLASS_WINDOW:
    case DT_CLASS_INDEX: return dt_shape_batch_axis(value->shape) >= 0;
    default: return false;
    }
}

static dt_block_costs costs_of(dt_arena *arena, const dt_function *step) {
    dt_block_costs costs = {.flops_per_row = dt_flops_of_function(arena, step).per_row};
    for (const dt_value *value = step->first; value != NULL; value = value->next) {
        if (value->op->class == DT_CLASS_COLLECTIVE && dt_shape_batch_axis(value->shape) < 0) costs.crossing_bytes += bytes_of(value);
        if (is_kept(value)) costs.activation_per_row += bytes_of(value);
    }
    return costs;
}

int64_t dt_blocks_choose(const dt_compilation *compilation) {
    const dt_module *module = compilation->module;
    int64_t rows = 0;
    if (!dt_switch_is_on(compilation->off, DT_SWITCH_BLOCKS) || dt_target_runs_rows_at_once(compilation->target)) return module->capacity;
    for (size_t i = 0; i < module->functions.n; i++) {
        if (module->functions.items[i]->kind != DT_FUNCTION_STEP) continue;
        dt_block_costs costs = costs_of(compilation->arena, module->functions.items[i]);
        int64_t wanted = dt_block_rows(module->capacity, &costs);
        if (wanted > rows) rows = wanted;
    }
    return rows > 0 ? rows : module->capacity;
}
