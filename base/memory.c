/* memory: see memory.h. The hook is mutable state of the process, which tests alone set; where nobody did it costs one relaxed load. */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static _Atomic int64_t n_left = -1; /* allocations that still succeed; negative: no limit */
static _Atomic bool once;           /* one fails, not all from there on */

static bool refused(void) {
    int64_t n = atomic_load_explicit(&n_left, memory_order_relaxed);
    while (n > 0)
        if (atomic_compare_exchange_weak(&n_left, &n, n - 1)) return false;
    return n == 0 && (!atomic_load(&once) || atomic_compare_exchange_strong(&n_left, &n, -1));
}

void *dt_allocate(size_t bytes) { return refused() ? NULL : malloc(bytes != 0 ? bytes : 1); }

void *dt_allocate_zeroed(size_t n, size_t bytes) { return refused() ? NULL : calloc(n != 0 ? n : 1, bytes != 0 ? bytes : 1); }

void *dt_reallocate(void *memory, size_t bytes) { return refused() ? NULL : realloc(memory, bytes); }

void dt_release(void *memory) { free(memory); }

static void fail(int64_t n, bool is_once) {
    atomic_store(&n_left, -1);
    atomic_store(&once, is_once);
    atomic_store(&n_left, n);
}

void dt_memory_fail_after(int64_t n) { fail(n, false); }
void dt_memory_fail_once(int64_t n) { fail(n, true); }
