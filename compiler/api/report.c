/* report: what is found and made, given to the caller: findings by its callback, on its thread; results as bytes, files or structs. */
#include "base/file.h"
#include "compiler/api/api.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what is told ---- */

/* A callback on its way to the caller's thread. */
typedef struct telling {
    int (*task)(void *argument);
    void *argument;
    bool *is_stopped;
} telling;

static void tell(void *argument) {
    telling *telling = argument;
    if (telling->task(telling->argument) != 0) *telling->is_stopped = true;
}

dt_status *dt_api_tell(dt_api_call *call, int (*task)(void *argument), void *argument) {
    if (!call->is_stopped) dt_caller_do(call->caller, tell, &(telling){task, argument, &call->is_stopped});
    return call->is_stopped ? dt_error_in(DT_ABORTED, call->program.path, 0, "stopped by the caller") : NULL;
}

typedef struct report {
    const dtc_program *program;
    const dtc_diagnostic *diagnostic;
} report;

static int call_back(void *argument) {
    report *report = argument;
    return report->program->diagnostic(report->program->context, report->diagnostic);
}

dt_status *dt_api_report(dt_api_call *call, const dtc_diagnostic *diagnostic) {
    if (call->program.diagnostic == NULL && !call->is_stopped) return NULL;
    dt_text json = {.arena = call->arena};
    dt_api_print_json(&json, diagnostic);
    dtc_diagnostic told = *diagnostic;
    told.json = json.data;
    if (told.name == NULL) told.name = "";
    return dt_api_tell(call, call_back, &(report){&call->program, &told});
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
                                 .text = text.data,
                                 .name = found->severity == DT_SEVERITY_WARNING ? dt_warning_name(found->warning) : ""};
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

static dt_status *report_warning(dt_api_call *call, const dt_module *module, const dt_warning *warning) {
    bool has_place = warning->location.file >= 0 && (size_t)warning->location.file < module->files.n;
    dtc_diagnostic diagnostic = {.severity = DTC_WARNING, .file = "", .message = warning->message, .name = dt_warning_name(warning->kind)};
    dt_text text = {.arena = call->arena};
    if (has_place) {
        diagnostic.file = module->files.items[warning->location.file];
        diagnostic.line = warning->location.line;
        diagnostic.column = warning->location.column;
        dt_text_format(&text, "%s:%d:%d: ", diagnostic.file, diagnostic.line, diagnostic.column);
    }
    dt_text_format(&text, "warning: %s [%s]\n", warning->message, diagnostic.name);
    diagnostic.text = text.data;
    return dt_api_report(call, &diagnostic);
}

static bool is_allowed(const dt_module *module, const dt_warning *warning) {
    bool found = false;
    for (size_t i = 0; i < module->allowances.n; i++) {
        dt_allowance *allowance = &module->allowances.items[i];
        if (allowance->warning != warning->kind || allowance->location.file != warning->location.file) continue;
        if (allowance->location.line == warning->location.line) found = allowance->silences = true;
    }
    return found;
}

dt_status *dt_api_report_warnings(dt_api_call *call, const dt_compilation *compilation, bool is_complete) {
    const dt_module *module = compilation->module;
    for (size_t i = 0; i < compilation->warnings.n; i++)
        if (!is_allowed(module, &compilation->warnings.items[i])) DT_TRY(report_warning(call, module, &compilation->warnings.items[i]));
    for (size_t i = 0; is_complete && i < module->allowances.n; i++) {
        const dt_allowance *allowance = &module->allowances.items[i];
        if (allowance->silences) continue;
        const char *message = dt_arena_format(call->arena, DT_NEEDLESS_ALLOW, dt_warning_name(allowance->warning));
        dt_location word = {allowance->location.file, allowance->word_line, allowance->location.column};
        DT_TRY(report_warning(call, module, &(dt_warning){DT_WARN_NEEDLESS_ALLOW, word, message}));
    }
    return NULL;
}

/* ---- what is given ---- */

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

/* Before the struct, at whose alignment it leaves it. */
typedef struct kept {
    _Alignas(16) dt_arena *arena;
} kept;

void *dt_api_kept(dt_arena *arena, size_t bytes) {
    kept *kept = dt_arena_new(arena, sizeof *kept + bytes);
    kept->arena = arena;
    return kept + 1;
}

/* No local of this function changes between setjmp and longjmp. */
dt_status *dt_api_keep(void *(*make)(dt_arena *arena, const void *context), const void *context, void **made) {
    jmp_buf guard;
    dt_arena *arena = dt_arena_create();
    if (arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (setjmp(guard) != 0) {
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    dt_arena_guard(arena, &guard);
    *made = make(arena, context);
    dt_arena_guard(arena, NULL);
    return NULL;
}

void dt_api_release(void *made) {
    if (made != NULL) dt_arena_destroy(((kept *)made - 1)->arena);
}
