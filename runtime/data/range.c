/* range: a source without files: example i is the number i. What map makes of it, of its random numbers above all, is data that nobody has to bring.
 */
#include "base/memory.h"
#include "runtime/data/source.h"

static dt_status *range_read(const dt_source *base, int column, int64_t row, int64_t n_rows, void *into) {
    (void)base, (void)column;
    for (int64_t i = 0; i < n_rows; i++) ((int64_t *)into)[i] = row + i;
    return NULL;
}

static void range_close(dt_source *base) { dt_release(base); }

dt_status *dt_source_open_range(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source) {
    static const dt_column number = {
        .path = "range()", .tensor = {.name = "", .dtype = DT_I64, .row_bytes = sizeof(int64_t)}, .stride = sizeof(int64_t)};
    (void)folder, (void)by_row;
    *source = NULL;
    int64_t n = dt_source_option_int(stage, "n", 0);
    if (n < 1) return dt_error(DT_INVALID_ARGUMENT, "range() takes a whole number, 1 or more");
    dt_source *opened = dt_allocate_zeroed(1, sizeof *opened);
    if (opened == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    *opened = (dt_source){.n_examples = n, .n_columns = 1, .columns = &number, .read = range_read, .close = range_close};
    *source = opened;
    return NULL;
}
