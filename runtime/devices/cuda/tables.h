/* tables: reductions as a GPU's function reads them (abi/reduction.h): in its memory, made once.
 *
 * All that is reduced together is one work, one launch. A reduction is a part of it. */
#ifndef DT_RUNTIME_DEVICES_CUDA_TABLES_H
#define DT_RUNTIME_DEVICES_CUDA_TABLES_H

#include "abi/reduction.h"
#include "runtime/devices/operation.h"

#include <stddef.h>
#include <stdint.h>

typedef struct dt_cuda_tables {
    size_t n_works, n_parts, n_sources, n_others;
    char *host; /* works | parts | sources | addresses of other targets, as they lie on the GPU */
} dt_cuda_tables;

/* How much there is to say of these sequences, in their order. */
dt_cuda_tables dt_cuda_tables_count(const dt_sequence *const *sequences, size_t n);
size_t dt_cuda_tables_bytes(const dt_cuda_tables *tables);

/* Says it, for tables that will lie at `address` of the GPU's memory. DT_RESOURCE_EXHAUSTED. */
dt_status *dt_cuda_tables_fill(dt_cuda_tables *tables, const dt_sequence *const *sequences, size_t n, uint64_t address);
void dt_cuda_tables_free(dt_cuda_tables *tables); /* one of zeros is allowed */

/* Work number w: where it is, of tables at `address`, and how many elements it has. */
static inline uint64_t dt_cuda_tables_work(uint64_t address, size_t w) { return address + w * sizeof(dt_reduction_work); }
int64_t dt_cuda_tables_n_elements(const dt_cuda_tables *tables, size_t w);

#endif
