/* progress.json from anywhere: what is accepted has ranges that are each file, once, and printed it is accepted again and prints the same. */
#include "runtime/checkpoint_state.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_ranges(const dt_file_ranges *ranges) {
    int64_t end = 0;
    if (ranges->n < 1) abort();
    for (int r = 0; r < ranges->n; r++) {
        if (ranges->items[r].first != end || ranges->items[r].n_bytes < 1 || ranges->items[r].n_bytes > INT64_MAX - end) abort();
        end += ranges->items[r].n_bytes;
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
