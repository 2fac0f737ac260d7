/* status: see status.h. One heap block a status; when there is none to be had, a constant one that says so, which nobody writes or frees. */
#include "base/status.h"

#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct dt_status {
    dt_code code;
    char *message; /* inside the block, or the literal of out_of_memory */
};

static const dt_status out_of_memory = {DT_RESOURCE_EXHAUSTED, "out of memory"};

/* The formatted head, `separator` and `tail` as one message; NULL when memory is out. */
static dt_status *status_new(dt_code code, const char *separator, const char *tail, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int n_formatted = vsnprintf(NULL, 0, format, again);
    va_end(again);

    size_t n_head = n_formatted > 0 ? (size_t)n_formatted : 0, n_separator = strlen(separator), n_tail = strlen(tail);
    dt_status *status = dt_allocate(sizeof *status + n_head + n_separator + n_tail + 1);
    if (status == NULL) return NULL;
    status->code = code;
    status->message = (char *)(status + 1);
    if (n_head != 0) vsnprintf(status->message, n_head + 1, format, arguments);
    memcpy(status->message + n_head, separator, n_separator);
    memcpy(status->message + n_head + n_separator, tail, n_tail + 1);
    return status;
}

dt_status *dt_error(dt_code code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dt_status *status = status_new(code, "", "", format, arguments);
    va_end(arguments);
    return status != NULL ? status : (dt_status *)&out_of_memory;
}

dt_status *dt_status_annotate(dt_status *status, const char *format, ...) {
    if (status == NULL) return NULL;
    va_list arguments;
    va_start(arguments, format);
    dt_status *longer = status_new(status->code, ": ", status->message, format, arguments);
    va_end(arguments);
    if (longer == NULL) return status;
    dt_status_free(status);
    return longer;
}

dt_code dt_status_code(const dt_status *status) { return status != NULL ? status->code : DT_OK; }

const char *dt_status_message(const dt_status *status) { return status != NULL ? status->message : ""; }

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
    if (status != &out_of_memory) dt_release(status);
}

dt_status *dt_status_first(dt_status *first, dt_status *second) {
    if (first == NULL) return second;
    dt_status_free(second);
    return first;
}
