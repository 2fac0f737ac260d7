/* report: folders of --log-dir in, one HTML page out. */
#include "base/file.h"
#include "base/memory.h"
#include "runtime/report/page.h"

static dt_status *read_runs(const char *const *folders, int n, dt_arena *arena, dt_run_record *runs) {
    for (int r = 0; r < n; r++) DT_TRY(dt_run_record_read(folders[r], arena, &runs[r]));
    return NULL;
}

static dt_status *write_page(const dt_run_record *runs, int n, dt_arena *arena, const char *path) {
    jmp_buf guard;
    dt_text page = {.arena = arena};
    if (setjmp(guard) != 0) return dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory for the page");
    dt_arena_guard(arena, &guard);
    dt_report_page(&page, runs, n, arena);
    return dt_file_write_atomic(path, page.data, page.n);
}

dt_status *dt_report_write(const char *const *folders, int n, const char *path) {
    dt_arena *arena = dt_arena_create();
    dt_run_record *runs = dt_allocate_zeroed((size_t)n, sizeof *runs);
    dt_status *status = arena == NULL || runs == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : read_runs(folders, n, arena, runs);
    if (status == NULL) status = write_page(runs, n, arena, path);
    dt_arena_destroy(arena);
    dt_release(runs);
    return status;
}
