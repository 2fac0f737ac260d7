/* status: see status.h. One heap block a status; when there is none to be had, a constant one that says so, which nobody writes or frees. */
#include "base/status.h"

#include "base/memory.h"
#include "base/option_names.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a status is. In `of.message` options are members of structs. */
typedef struct own_status {
    dt_status of;
    const char *typed; /* the same sentence, with options as they are typed */
} own_status;

static const own_status out_of_memory = {{.code = DT_RESOURCE_EXHAUSTED, .message = "out of memory", .file = "", .variable = ""}, "out of memory"};

/* A status like `of` with another sentence; NULL when memory is out. */
static dt_status *status_like(const dt_status *of, const char *typed) {
    size_t n_typed = strlen(typed) + 1, n_file = strlen(of->file) + 1, n_variable = strlen(of->variable) + 1;
    own_status *status = dt_allocate(sizeof *status + n_typed + dt_option_names_to_members(typed, NULL) + n_file + n_variable);
    if (status == NULL) return NULL;
    char *own = (char *)(status + 1), *file = own + n_typed, *variable = file + n_file, *message = variable + n_variable;
    *status = (own_status){{of->code, of->line, of->column, message, file, variable}, own};
    memcpy(own, typed, n_typed);
    memcpy(file, of->file, n_file);
    memcpy(variable, of->variable, n_variable);
    dt_option_names_to_members(typed, message);
    return &status->of;
}

/* The same with the formatted head, `separator` and `tail` for its sentence. */
static dt_status *status_new(const dt_status *of, const char *separator, const char *tail, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int n_formatted = vsnprintf(NULL, 0, format, again);
    va_end(again);

    size_t n_head = n_formatted > 0 ? (size_t)n_formatted : 0, n_separator = strlen(separator), n_tail = strlen(tail);
    char *typed = dt_allocate(n_head + n_separator + n_tail + 1);
    if (typed == NULL) return NULL;
    if (n_head != 0) vsnprintf(typed, n_head + 1, format, arguments);
    memcpy(typed + n_head, separator, n_separator);
    memcpy(typed + n_head + n_separator, tail, n_tail + 1);
    dt_status *status = status_like(of, typed);
    dt_release(typed);
    return status;
}

/* The longer one, for which the shorter is freed; where there is no memory for it, the shorter. */
static dt_status *replace(dt_status *status, dt_status *longer) {
    if (longer == NULL) return status;
    dt_status_free(status);
    return longer;
}

dt_status *dt_error(dt_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dt_status *status = status_new(&(dt_status){.code = code, .file = "", .variable = ""}, "", "", format, arguments);
    va_end(arguments);
    return status != NULL ? status : (dt_status *)&out_of_memory.of;
}

dt_status *dt_error_in(dt_code code, const char *file, int64_t line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dt_status *status = status_new(&(dt_status){.code = code, .line = (int)line, .file = file, .variable = ""}, "", "", format, arguments);
    va_end(arguments);
    if (status == NULL) status = (dt_status *)&out_of_memory.of;
    status = line > 0 ? dt_status_annotate(status, "%s:%" PRId64, file, line) : dt_status_annotate(status, "%s", file);
    return status;
}

dt_status *dt_status_annotate(dt_status *status, const char *format, ...) {
    if (status == NULL) return NULL;
    va_list arguments;
    va_start(arguments, format);
    dt_status *longer = status_new(status, ": ", dt_status_message(status), format, arguments);
    va_end(arguments);
    return replace(status, longer);
}

/* The sentence of `status`, with the rest of `like`. */
static dt_status *restate(dt_status *status, const dt_status *like) { return replace(status, status_like(like, dt_status_message(status))); }

dt_status *dt_status_at(dt_status *status, const char *file, int line, int column) {
    if (status == NULL) return NULL;
    return restate(status, &(dt_status){.code = status->code, .line = line, .column = column, .file = file, .variable = status->variable});
}

dt_status *dt_status_about(dt_status *status, const char *variable) {
    if (status == NULL) return NULL;
    dt_status about = *status;
    about.variable = variable;
    return restate(status, &about);
}

dt_code dt_status_code(const dt_status *status) { return status != NULL ? status->code : DT_OK; }

const char *dt_status_message(const dt_status *status) { return status != NULL ? ((const own_status *)status)->typed : ""; }

const char *dt_code_name(dt_code code) {
    switch (code) {
    case DT_OK: return "ok";
    case DT_INVALID_ARGUMENT: return "invalid argument";
    case DT_NOT_FOUND: return "not found";
    case DT_ALREADY_EXISTS: return "already exists";
    case DT_OUT_OF_RANGE: return "out of range";
    case DT_DATA_LOSS: return "data loss";
    case DT_FAILED_PRECONDITION: return "failed precondition";
    case DT_RESOURCE_EXHAUSTED: return "resource exhausted";
    case DT_UNIMPLEMENTED: return "unimplemented";
    case DT_ABORTED: return "aborted";
    case DT_IO: return "input/output error";
    case DT_INTERNAL: return "internal error";
    }
    return "unknown code";
}

void dt_status_free(dt_status *status) {
    if (status != &out_of_memory.of) dt_release(status);
}

dt_status *dt_status_first(dt_status *first, dt_status *second) {
    if (first == NULL) return second;
    dt_status_free(second);
    return first;
}
