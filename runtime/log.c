/* log: see log.h. A line is put together in one text and written at once, so that lines of a killed run are whole. */
#include "runtime/log.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/type_text.h"
#include "runtime/log_lines.h"
#include "runtime/sparkline.h"
#include "runtime/threads/clock.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_BETWEEN_REDRAWS 0.1

struct dt_log {
    FILE *stream; /* NULL: nothing is said */
    dt_log_format format;
    bool live;       /* the stream is a terminal */
    bool line_shown; /* the live line is on it */
    bool has_blocks; /* the terminal has characters to draw with */
    dt_sparkline loss;
    bool has_stepped; /* in this epoch the loss of a step was said */
    double drawn_at;
    int failure; /* errno of the first write that failed; 0: none has */
    dt_log_listener *listeners;
};

/* Whether the locale's characters are UTF-8. */
static bool is_utf8(void) {
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale == (locale_t)0) return false;
    bool is = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return is;
}

dt_status *dt_log_create(FILE *stream, dt_log_format format, bool may_be_live, dt_log **log) {
    dt_log *created = dt_allocate_zeroed(1, sizeof *created);
    *log = created;
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->stream = stream;
    created->format = format;
    created->live = may_be_live && format == DT_LOG_TEXT && stream != NULL && isatty(fileno(stream));
    created->has_blocks = created->live && is_utf8();
    return NULL;
}

bool dt_log_failed(const dt_log *log) { return log->failure != 0; }

dt_status *dt_log_status(const dt_log *log) {
    return log->failure == 0 ? NULL : dt_error(DT_IO, "cannot write to standard output: %s", strerror(log->failure));
}

/* ---- standard output ---- */

/* At once, so that a reader sees it. */
static void write_now(dt_log *log, const char *text, size_t n) {
    if (log->stream == NULL || log->failure != 0) return;
    errno = 0;
    if (fwrite(text, 1, n, log->stream) != n || fflush(log->stream) != 0) log->failure = errno != 0 ? errno : EIO;
}

/* Takes the live line away. */
static void clear(dt_log *log) {
    static const char erase[] = "\r\033[K";
    if (log->line_shown) write_now(log, erase, strlen(erase));
    log->line_shown = false;
}

void dt_log_destroy(dt_log *log) {
    if (log == NULL) return;
    clear(log);
    dt_release(log);
}

/* Adds to the row of blocks what `event` says of the loss, or else of the first report. */
static void watch_loss(dt_log *log, const dt_log_values *values) {
    int loss = 0;
    for (int i = values->n - 1; i >= 0; i--)
        if (strstr(values->names[i], "loss") != NULL) loss = i;
    if (values->n > 0) dt_sparkline_add(&log->loss, values->values[loss]);
}

/* On a terminal the live line shows what a step and a checkpoint say, and the line of a trained epoch ends with how the loss went. */
static void say_live(dt_log *log, const dt_log_event *event, dt_text *line) {
    bool trains = event->kind == DT_LOG_EPOCH_DONE && event->epoch->trains;
    if (event->kind == DT_LOG_STEPPED || (trains && !log->has_stepped)) watch_loss(log, event->values);
    log->has_stepped = event->kind == DT_LOG_STEPPED || (log->has_stepped && !trains);
    if (event->kind == DT_LOG_STEPPED || event->kind == DT_LOG_CHECKPOINT) return;
    dt_log_append_line(event, line);
    if (!trains || !log->has_blocks) return;
    dt_text_append(line, "  ");
    dt_sparkline_append(&log->loss, line);
}

/* A line for which there was no memory is left out. */
static void say(dt_log *log, const dt_log_event *event) {
    dt_text line = {0};
    if (log->format == DT_LOG_JSON) {
        dt_text_append(&line, "{");
        dt_log_append_members(event, &line);
        dt_text_append(&line, "}");
    } else if (log->live)
        say_live(log, event, &line);
    else
        dt_log_append_line(event, &line);
    if (line.n > 0) {
        clear(log);
        dt_text_append(&line, "\n");
        if (!line.failed) write_now(log, line.data, line.n);
    }
    dt_text_free(&line);
}

/* ---- events ---- */

void dt_log_add_listener(dt_log *log, dt_log_listener *listener) {
    listener->next = log->listeners;
    log->listeners = listener;
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

static void happen(dt_log *log, const dt_log_event *event) {
    say(log, event);
    tell(log, event);
}

void dt_log_started(dt_log *log, const dt_log_start *start) { happen(log, &(dt_log_event){.kind = DT_LOG_STARTED, .start = start}); }

void dt_log_stepped(dt_log *log, const dt_log_step *step, const dt_log_values *values) {
    happen(log, &(dt_log_event){.kind = DT_LOG_STEPPED, .step = step, .values = values});
}

void dt_log_epoch_done(dt_log *log, const dt_log_epoch *epoch, const dt_log_values *values) {
    happen(log, &(dt_log_event){.kind = DT_LOG_EPOCH_DONE, .epoch = epoch, .values = values});
}

void dt_log_checkpoint(dt_log *log, const char *path, int64_t number) {
    happen(log, &(dt_log_event){.kind = DT_LOG_CHECKPOINT, .file = {.path = path, .number = number}});
}

void dt_log_written(dt_log *log, const char *path, dt_dtype dtype, int n_dims, const int64_t *dims) {
    dt_text type = {0};
    dt_text_append_type(&type, dtype, n_dims, dims);
    happen(log, &(dt_log_event){.kind = DT_LOG_WRITTEN, .file = {.path = path, .type = type.data != NULL ? type.data : ""}});
    dt_text_free(&type);
}

void dt_log_ended(dt_log *log, const dt_log_end *end) { happen(log, &(dt_log_event){.kind = DT_LOG_ENDED, .end = end}); }

void dt_log_detail(dt_log *log, const dt_log_event *event) { tell(log, event); }

static bool tells_progress(const dt_log *log) {
    for (const dt_log_listener *listener = log->listeners; listener != NULL; listener = listener->next)
        if (listener->wants_progress) return true;
    return false;
}

bool dt_log_wants_progress(dt_log *log) {
    if (!log->live && !tells_progress(log)) return false;
    double now = dt_seconds_now();
    if (now < log->drawn_at + SECONDS_BETWEEN_REDRAWS) return false;
    log->drawn_at = now;
    return true;
}

void dt_log_progress(dt_log *log, const dt_log_epoch *so_far, const dt_log_values *values) {
    dt_text line = {0};
    tell(log, &(dt_log_event){.kind = DT_LOG_PROGRESS, .epoch = so_far, .values = values});
    if (log->stream == NULL) return;
    dt_text_append(&line, "\r");
    dt_log_append_progress(so_far, values, &line);
    dt_text_append(&line, "\033[K");
    if (!line.failed) write_now(log, line.data, line.n);
    log->line_shown = true;
    dt_text_free(&line);
}

void dt_log_remark(dt_log *log, const char *kind, const char *format, ...) {
    dt_text message = {0};
    va_list arguments;
    va_start(arguments, format);
    dt_text_vformat(&message, format, arguments);
    va_end(arguments);
    dt_log_event event = {.kind = DT_LOG_REMARK, .remark = {.kind = kind, .message = message.data}};
    if (!message.failed) {
        if (log->stream != NULL) {
            clear(log);
            fprintf(stderr, "dtrun: %s: %s\n", kind, message.data);
            if (log->format == DT_LOG_JSON) say(log, &event);
        }
        tell(log, &event);
    }
    dt_text_free(&message);
}
