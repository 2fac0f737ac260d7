/* microbatches: see the header. The one place where the rows of a microbatch are decided.
 *
 * Three considerations compete.
 *
 *  - Cores. A core without a microbatch has nothing to do, so a replica should have MOST_CORES of them. Down to SHARED_ROWS rows that is taken for
 *    free: a weight that is read is still used for several rows. Fewer rows must each be much work, a sequence or a large image whose products reuse
 *    a weight within the row: a microbatch below SHARED_ROWS has at least ENOUGH_FLOPS. That costs little where kernels go row by row. Times of a
 *    step on one core, with microbatches of 16, 8, 4, 2 and 1 rows, are alike within what they vary: fashion_cnn (54 MFLOP a row, 64 rows) 27 to
 *    28 ms down to 4 rows, gpt (0.74 GFLOP, 32 rows) 460 to 500 ms down to 2, bert_mlm (4.4 GFLOP, 8 rows of 512 tokens) 590 to 860 ms down to 1.
 *
 *  - What crosses. Each microbatch leaves a copy of all gradients, which is written, read again and summed, and reads all weights. In the
 *    second-level cache that is nearly free, in the third it is not, in memory it is dearer than anything. Dense layers on one core, times of a step
 *    of 64 rows in microbatches of 16, 32 and 64, and what a byte that crosses costs at the 100 GFLOP/s of that core:
 *
 *        parameters   gradients    16         32         64 rows
 *             0.1 M      0.4 MB     0.153 ms   0.141 ms   0.141 ms      1.5 flops a byte
 *             0.27 M     1.1 MB     1.53       1.14       0.99         20
 *             0.54 M     2.2 MB     3.1        2.3        2.0          20
 *             2.4 M      9.6 MB    25         14         11            60
 *            10.8 M     43  MB    369        216        115            60 to 180
 *
 *    The same for bert_mlm with 20 predictions of 128 tokens, 4.4 M parameters with a table of 30,522 tokens, 17 MB of gradients: time of two cores
 *    for a step of 32 rows in microbatches of 2, 4, 8 and 16: 261, 214, 202 and 217 ms.
 *
 *    A microbatch must have twice as much arithmetic as its crossing is worth, so that a core loses a third at the most, while two cores gain.
 *
 *  - Activations. What a microbatch leaves for its later kernels should still be in the second-level cache. Rows beyond SHARED_ROWS, which save
 *    crossing, are taken as long as it is. */
#include "compiler/kernel/microbatches.h"

#include "ir/body.h"
#include "ir/flops.h"

enum {
    SHARED_ROWS = 16,             /* that use a weight while it is at hand */
    MOST_CORES = 16,              /* that a replica alone is to keep busy */
    ENOUGH_FLOPS = 1 << 29,       /* of fewer rows: 5 ms of a core */
    SECOND_LEVEL_BYTES = 1 << 20, /* of a core: half of it for activations, or for gradients beside as many bytes of weights */
    THIRD_LEVEL_BYTES = 4 << 20,  /* a core's share, for its gradients; the weights are there once for all cores */
    MEMORY_BYTES = 16 << 20,      /* beyond that not even the sum and what is added to it stay in a third level */
    LEAST_WORTH = 2               /* arithmetic of a microbatch, in times of what crosses */
};

static double flops_of_crossing(double bytes) {
    double flops_a_byte = bytes <= SECOND_LEVEL_BYTES / 2.0 ? 1.5 : bytes <= THIRD_LEVEL_BYTES ? 20 : bytes <= MEMORY_BYTES ? 60 : 120;
    return flops_a_byte * bytes;
}

int64_t dt_microbatches_of(int64_t rows, int64_t microbatch_rows) {
    int64_t n = 1;
    while (n * microbatch_rows < rows) n *= 2;
    return n;
}

int64_t dt_microbatch_rows(int64_t capacity, const dt_microbatch_costs *costs) {
    double least = LEAST_WORTH * flops_of_crossing(costs->crossing_bytes), fitting = SECOND_LEVEL_BYTES / 2.0;
    int64_t most = (capacity + MOST_CORES - 1) / MOST_CORES, rows = capacity;
    if ((double)most * costs->activation_per_row > fitting) most = (int64_t)(fitting / costs->activation_per_row);
    for (int64_t n = 2; rows > 1; n *= 2) {
        int64_t fewer = (capacity + n - 1) / n;
        double flops = (double)fewer * costs->flops_per_row;
        bool for_cores = rows > SHARED_ROWS ? rows > most : n <= MOST_CORES && flops >= ENOUGH_FLOPS;
        if (!for_cores || flops < least) break;
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
    case DT_CLASS_LOOP: return dt_value_leaves(value) && dt_shape_batch_axis(value->shape) >= 0;
    default: return false;
    }
}

static dt_microbatch_costs costs_of(dt_arena *arena, const dt_function *step) {
    dt_flops flops = dt_flops_of_function(arena, step);
    dt_microbatch_costs costs = {.flops_per_row = flops.per_row + (double)step->module->capacity * flops.per_pair};
    for (const dt_value *value = step->first; value != NULL; value = value->next) {
        if (value->op->class == DT_CLASS_COLLECTIVE && dt_shape_batch_axis(value->shape) < 0) costs.crossing_bytes += bytes_of(value);
        if (is_kept(value)) costs.activation_per_row += bytes_of(value);
    }
    return costs;
}

int64_t dt_microbatches_choose(const dt_compilation *compilation) {
    const dt_module *module = compilation->module;
    dt_microbatch_costs most = {0};
    if (!dt_switch_is_on(compilation->off, DT_SWITCH_MICROBATCHES) || dt_gpu_target_of(compilation->target) != NULL) return module->capacity;
    for (size_t i = 0; i < module->functions.n; i++) {
        if (module->functions.items[i]->role != DT_ROLE_STEP) continue;
        dt_microbatch_costs costs = costs_of(compilation->arena, module->functions.items[i]);
        if (costs.flops_per_row > most.flops_per_row) most = costs;
    }
    return dt_microbatch_rows(module->capacity, &most);
}
