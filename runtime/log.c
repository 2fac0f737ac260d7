/* log: see log.h. */
#include "runtime/log.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/type_text.h"
#include "runtime/threads/clock.h"

#include <stdarg.h>

#define SECONDS_BETWEEN_REDRAWS 0.1

struct dt_log {
    double drawn_at;    /* when progress was told last */
    dt_status *failure; /* the first of a listener; NULL: none */
    dt_log_listener *listeners;
};

dt_status *dt_log_create(dt_log **log) {
    *log = dt_allocate_zeroed(1, sizeof **log);
    return *log != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

void dt_log_destroy(dt_log *log) {
    if (log == NULL) return;
    dt_status_free(log->failure);
    dt_release(log);
}

void dt_log_fail(dt_log *log, dt_status *status) { log->failure = dt_status_first(log->failure, status); }

bool dt_log_failed(const dt_log *log) { return log->failure != NULL; }

dt_status *dt_log_status(const dt_log *log) {
    return log->failure == NULL ? NULL : dt_error(dt_status_code(log->failure), "%s", dt_status_message(log->failure));
}

void dt_log_add_listener(dt_log *log, dt_log_listener *listener) {
    dt_log_listener **last = &log->listeners;
    while (*last != NULL) last = &(*last)->next;
    listener->next = NULL;
    *last = listener;
}

void dt_log_remove_listener(dt_log *log, dt_log_listener *listener) {
    for (dt_log_listener **at = &log->listeners; *at != NULL; at = &(*at)->next)
        if (*at == listener) {
            *at = listener->next;
            return;
        }
}

static void tell(const dt_log *log, const dt_log_event *event) {
    for (dt_log_listener *listener = log->listeners; listener != NULL; listener = listener->next)
        if (event->kind == DT_LOG_PROGRESS ? listener->wants_progress : event->kind < DT_LOG_PLAN || listener->wants_details)
            listener->hear(listener, event);
}

void dt_log_started(dt_log *log, const dt_log_start *start) { tell(log, &(dt_log_event){.kind = DT_LOG_STARTED, .start = start}); }

void dt_log_stepped(dt_log *log, const dt_log_step *step, const dt_log_values *values) {
    tell(log, &(dt_log_event){.kind = DT_LOG_STEPPED, .step = step, .values = values});
}

void dt_log_epoch_done(dt_log *log, const dt_log_epoch *epoch, const dt_log_values *values) {
    tell(log, &(dt_log_event){.kind = DT_LOG_EPOCH_DONE, .epoch = epoch, .values = values});
}

void dt_log_checkpoint(dt_log *log, const char *path, int64_t number, double stall_seconds) {
    tell(log, &(dt_log_event){.kind = DT_LOG_CHECKPOINT, .file = {.path = path, .number = number, .seconds = stall_seconds}});
}

void dt_log_written(dt_log *log, const char *path, dt_dtype dtype, int n_dims, const int64_t *dims) {
    dt_text type = {0};
    dt_text_append_type(&type, dtype, n_dims, dims);
    tell(log, &(dt_log_event){.kind = DT_LOG_WRITTEN, .file = {.path = path, .type = type.data != NULL ? type.data : ""}});
    dt_text_free(&type);
}

void dt_log_leased(dt_log *log, const dt_log_leases *leases) { tell(log, &(dt_log_event){.kind = DT_LOG_LEASES, .leases = leases}); }

void dt_log_ended(dt_log *log, const dt_log_end *end) { tell(log, &(dt_log_event){.kind = DT_LOG_ENDED, .end = end}); }

void dt_log_detail(dt_log *log, const dt_log_event *event) { tell(log, event); }

static bool wants_progress(const dt_log *log) {
    for (const dt_log_listener *listener = log->listeners; listener != NULL; listener = listener->next)
        if (listener->wants_progress) return true;
    return false;
}

bool dt_log_wants_progress(dt_log *log) {
    if (!wants_progress(log)) return false;
    double now = dt_seconds_now();
    if (now < log->drawn_at + SECONDS_BETWEEN_REDRAWS) return false;
    log->drawn_at = now;
    return true;
}

void dt_log_progress(dt_log *log, const dt_log_epoch *so_far, const dt_log_values *values) {
    tell(log, &(dt_log_event){.kind = DT_LOG_PROGRESS, .epoch = so_far, .values = values});
}

/* One for which there is no memory is left out. */
void dt_log_remark(dt_log *log, const char *kind, const char *format, ...) {
    dt_text message = {0};
    va_list arguments;
    va_start(arguments, format);
    dt_text_vformat(&message, format, arguments);
    va_end(arguments);
    if (!message.failed) tell(log, &(dt_log_event){.kind = DT_LOG_REMARK, .remark = {.kind = kind, .message = message.data}});
    dt_text_free(&message);
}
