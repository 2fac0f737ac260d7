/* dtrun_report: folders of --log-dir in, one HTML page out. */
#include "base/file.h"
#include "base/memory.h"
#include "runtime/dtrun.h"
#include "runtime/report/page.h"

static dt_status *read_runs(const dtrun_call *call, dt_arena *arena, dt_run_record *runs) {
    for (int r = 0; r < call->run.n_inputs; r++) DT_TRY(dt_run_record_read(call->run.inputs[r], arena, &runs[r]));
    return NULL;
}

static dt_status *write_page(const dtrun_call *call, dt_arena *arena, const dt_run_record *runs) {
    jmp_buf guard;
    dt_text page = {.arena = arena};
    if (setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "%s: not enough memory for the page", call->run.output);
    dt_arena_guard(arena, &guard);
    dt_report_page(&page, runs, call->run.n_inputs, arena);
    return dt_file_write_atomic(call->run.output, page.data, page.n);
}

dt_status *dtrun_report(const dtrun_call *call) {
    dt_arena *arena = dt_arena_create();
    dt_run_record *runs = dt_allocate_zeroed((size_t)call->run.n_inputs, sizeof *runs);
    dt_status *status = arena == NULL || runs == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : read_runs(call, arena, runs);
    if (status == NULL) status = write_page(call, arena, runs);
    dt_arena_destroy(arena);
    dt_release(runs);
    return status;
}
