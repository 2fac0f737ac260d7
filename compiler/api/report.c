/* report: what is found and made, given to the caller: findings by its callback, on its thread; results as bytes or files. */
#include "base/file.h"
#include "compiler/api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A callback on its way to the caller's thread. */
typedef struct telling {
    dt_api_call *call;
    const dtc_diagnostic *diagnostic;
} telling;

static void tell(void *argument) {
    telling *telling = argument;
    const dtc_program *program = &telling->call->program;
    if (program->diagnostic(program->context, telling->diagnostic) != 0) telling->call->is_stopped = true;
}

dt_status *dt_api_report(dt_api_call *call, const dtc_diagnostic *diagnostic) {
    if (call->program.diagnostic != NULL && !call->is_stopped) dt_caller_do(call->caller, tell, &(telling){call, diagnostic});
    return call->is_stopped ? dt_error(DT_ABORTED, "%s: stopped by the caller", call->program.path) : NULL;
}

dt_status *dt_api_report_text(dt_api_call *call, dtc_severity severity, const char *text) {
    if (text == NULL) return NULL;
    const char *message = dt_arena_substring(call->arena, text, strcspn(text, "\n"));
    return dt_api_report(call, &(dtc_diagnostic){.severity = severity, .file = "", .message = message, .text = text});
}

static dt_status *report_one(dt_api_call *call, const dt_diagnostics *diagnostics, const dt_diagnostic *found) {
    dt_text text = {.arena = call->arena};
    dt_diagnostics_print_one(&text, found);
    dtc_remark *remarks = DT_NEW_ARRAY(call->arena, dtc_remark, found->remarks.n);
    for (size_t i = 0; i < found->remarks.n; i++) remarks[i] = (dtc_remark){found->remarks.items[i].is_help, found->remarks.items[i].text};
    bool has_place = found->span.line > 0;
    dtc_diagnostic diagnostic = {.severity = found->severity == DT_SEVERITY_ERROR ? DTC_ERROR : DTC_WARNING,
                                 .line = found->span.line,
                                 .column = has_place ? found->span.column : 0,
                                 .length = has_place ? found->span.length : 0,
                                 .file = has_place ? dt_diagnostics_file_name(diagnostics, found->span.file) : "",
                                 .message = found->message,
                                 .remarks = remarks,
                                 .n_remarks = found->remarks.n,
                                 .text = text.data};
    return dt_api_report(call, &diagnostic);
}

dt_status *dt_api_report_all(dt_api_call *call, const dt_diagnostics *diagnostics) {
    size_t n;
    dt_diagnostic *const *sorted = dt_diagnostics_sorted(diagnostics, &n);
    for (size_t i = 0; i < n; i++) DT_TRY(report_one(call, diagnostics, sorted[i]));
    if (!dt_diagnostics_full(diagnostics)) return NULL;
    return dt_api_report_text(call, DTC_ERROR,
                              dt_arena_format(call->arena, "error: %zu errors shown, the rest is left out\n", dt_diagnostics_n_errors(diagnostics)));
}

dt_status *dt_api_check_output(const char *input, const char *output) {
    struct stat from, to;
    if (stat(input, &from) != 0 || stat(output, &to) != 0 || !S_ISREG(from.st_mode) || from.st_dev != to.st_dev || from.st_ino != to.st_ino)
        return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "-o %s: this would overwrite what is read", output);
}

dt_status *dt_api_give(dt_text *text, const char *output, dtc_bytes *bytes) {
    dt_status *status = NULL;
    if (text->data == NULL) dt_text_append(text, "");
    size_t n = text->n;
    if (text->failed)
        status = dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    else if (output != NULL)
        status = dt_file_write_atomic(output, text->data, n);
    if (status == NULL && bytes != NULL) *bytes = (dtc_bytes){dt_text_take(text), n};
    dt_text_free(text);
    return status;
}
