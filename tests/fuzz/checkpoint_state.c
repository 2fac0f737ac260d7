/* progress.json from anywhere: what is accepted has ranges that are each file, once, and printed it is accepted again and prints the same. */
#include "runtime/checkpoint_state.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* Byte by byte, of what is short. */
static void check_ranges(const dt_file_ranges *ranges) {
    static unsigned char seen[1 << 16];
    int64_t n_all = 0;
    if (ranges->n < 1) abort();
    for (int r = 0; r < ranges->n; r++) {
        const dt_file_range *one = &ranges->items[r];
        if (one->first < 0 || one->n_bytes < 1 || one->times < 1 || one->n_bytes > (INT64_MAX - n_all) / one->times) abort();
        n_all += one->n_bytes * one->times;
    }
    if (n_all > (int64_t)sizeof seen) return;
    memset(seen, 0, sizeof seen);
    for (int r = 0; r < ranges->n; r++)
        for (int64_t i = 0; i < ranges->items[r].n_bytes * ranges->items[r].times; i++) {
            int64_t at = ranges->items[r].first + i / ranges->items[r].n_bytes * ranges->items[r].stride + i % ranges->items[r].n_bytes;
            if (at >= n_all || seen[at]++ != 0) abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    dt_checkpoint_state state, again;
    dt_status *status = dt_checkpoint_state_parse("fuzz", (const char *)bytes, n, &state);
    if (status == NULL) {
        for (int f = 0; f < DT_CHECKPOINT_FILES; f++) check_ranges(&state.files[f]);
        char *once = dt_checkpoint_state_print(&state);
        if (once == NULL) abort();
        dt_status *second = dt_checkpoint_state_parse("fuzz", once, strlen(once), &again);
        if (second != NULL) abort();
        char *twice = dt_checkpoint_state_print(&again);
        if (twice == NULL || strcmp(once, twice) != 0) abort();
        dt_release(once);
        dt_release(twice);
        dt_checkpoint_state_free(&again);
    }
    dt_checkpoint_state_free(&state);
    dt_status_free(status);
    return 0;
}
