/* format: dtc_format, a program as everybody writes it. */
#include "frontends/dsl/format.h"
#include "base/options.h"
#include "compiler/api/api.h"

typedef struct job {
    dtc_format_options options;
    dt_text output;
    dtc_bytes *bytes;
} job;

static dt_status *work(dt_api_call *call, void *context) {
    job *job = context;
    const char *formatted;
    DT_TRY(dt_api_read_source(call));
    dt_diagnostics *diagnostics = dt_diagnostics_create(call->arena);
    dt_status *status = dt_dsl_format(call->arena, call->program.path, call->source, diagnostics, &formatted);
    DT_TRY(dt_status_first(status, dt_api_report_all(call, diagnostics)));
    if (formatted == NULL) return dt_api_mistakes(call, diagnostics);
    dt_text_append(&job->output, formatted);
    return dt_api_give(&job->output, job->options.output, job->bytes);
}

dt_status *dtc_format(const dtc_program *program, const dtc_format_options *options, dtc_bytes *bytes) {
    job job = {.bytes = bytes};
    if (bytes != NULL) *bytes = (dtc_bytes){0};
    DT_TRY(dt_options_read(options, &job.options, sizeof job.options, "dtc_format_options"));
    dt_status *status = dt_api_run(program, work, &job);
    dt_text_free(&job.output);
    return status;
}
