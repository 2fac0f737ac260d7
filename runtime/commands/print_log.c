/* print_log: see print_log.h. A line is put together in one text and written at once, so that lines of a killed run are whole. */
#include "runtime/commands/print_log.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/commands/sparkline.h"
#include "runtime/log_lines.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <unistd.h>

struct dtrun_printer {
    dt_log_listener listener; /* first: it is what is heard */
    dt_log *log;
    FILE *stream;
    dt_log_format format;
    bool live;       /* the stream is a terminal */
    bool line_shown; /* the live line is on it */
    bool has_blocks; /* the terminal has characters to draw with */
    dt_sparkline loss;
    bool has_stepped; /* in this epoch the loss of a step was said */
    bool failed;
};

/* Whether the locale's characters are UTF-8. */
static bool is_utf8(void) {
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale == (locale_t)0) return false;
    bool is = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return is;
}

/* ---- lines ---- */

/* At once, so that a reader sees it. */
static void write_now(dtrun_printer *printer, const char *text, size_t n) {
    if (printer->failed) return;
    errno = 0;
    if (fwrite(text, 1, n, printer->stream) == n && fflush(printer->stream) == 0) return;
    printer->failed = true;
    dt_log_fail(printer->log, dt_error(DT_IO, "cannot write to standard output: %s", strerror(errno != 0 ? errno : EIO)));
}

/* Takes the live line away. */
static void clear(dtrun_printer *printer) {
    static const char erase[] = "\r\033[K";
    if (printer->line_shown) write_now(printer, erase, strlen(erase));
    printer->line_shown = false;
}

/* Adds to the row of blocks what `event` says of the loss, or else of the first report. */
static void watch_loss(dtrun_printer *printer, const dt_log_values *values) {
    int loss = 0;
    for (int i = values->n - 1; i >= 0; i--)
        if (strstr(values->names[i], "loss") != NULL) loss = i;
    if (values->n > 0) dt_sparkline_add(&printer->loss, values->values[loss]);
}

/* On a terminal the live line shows what a step and a checkpoint say, and the line of a trained epoch ends with how the loss went. */
static void say_live(dtrun_printer *printer, const dt_log_event *event, dt_text *line) {
    bool trains = event->kind == DT_LOG_EPOCH_DONE && event->epoch->trains;
    if (event->kind == DT_LOG_STEPPED || (trains && !printer->has_stepped)) watch_loss(printer, event->values);
    printer->has_stepped = event->kind == DT_LOG_STEPPED || (printer->has_stepped && !trains);
    if (event->kind == DT_LOG_STEPPED || event->kind == DT_LOG_CHECKPOINT) return;
    dt_log_append_line(event, line);
    if (!trains || !printer->has_blocks) return;
    dt_text_append(line, "  ");
    dt_sparkline_append(&printer->loss, line);
}

/* A line for which there was no memory is left out. */
static void say(dtrun_printer *printer, const dt_log_event *event) {
    dt_text line = {0};
    if (printer->format == DT_LOG_JSON) {
        dt_text_append(&line, "{");
        dt_log_append_members(event, &line);
        dt_text_append(&line, "}");
    } else if (printer->live)
        say_live(printer, event, &line);
    else
        dt_log_append_line(event, &line);
    if (line.n > 0) {
        clear(printer);
        dt_text_append(&line, "\n");
        if (!line.failed) write_now(printer, line.data, line.n);
    }
    dt_text_free(&line);
}

static void show_progress(dtrun_printer *printer, const dt_log_event *event) {
    dt_text line = {0};
    dt_text_append(&line, "\r");
    dt_log_append_progress(event->epoch, event->values, &line);
    dt_text_append(&line, "\033[K");
    if (!line.failed) write_now(printer, line.data, line.n);
    printer->line_shown = true;
    dt_text_free(&line);
}

static void remark(dtrun_printer *printer, const dt_log_event *event) {
    clear(printer);
    fprintf(stderr, "dtrun: %s: %s\n", event->remark.kind, event->remark.message);
    if (printer->format == DT_LOG_JSON) say(printer, event);
}

static void hear(dt_log_listener *listener, const dt_log_event *event) {
    dtrun_printer *printer = (dtrun_printer *)listener;
    switch (event->kind) {
    case DT_LOG_PROGRESS: show_progress(printer, event); break;
    case DT_LOG_REMARK: remark(printer, event); break;
    default: say(printer, event); break;
    }
}

/* ---- beginning and end ---- */

dt_status *dtrun_printer_create(FILE *stream, dt_log_format format, bool may_be_live, dt_log *log, dtrun_printer **printer) {
    dtrun_printer *created = dt_allocate_zeroed(1, sizeof *created);
    *printer = created;
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->live = may_be_live && format == DT_LOG_TEXT && isatty(fileno(stream));
    created->listener = (dt_log_listener){.hear = hear, .wants_progress = created->live};
    created->log = log;
    created->stream = stream;
    created->format = format;
    created->has_blocks = created->live && is_utf8();
    dt_log_add_listener(log, &created->listener);
    return NULL;
}

void dtrun_printer_destroy(dtrun_printer *printer) {
    if (printer == NULL) return;
    clear(printer);
    dt_log_remove_listener(printer->log, &printer->listener);
    dt_release(printer);
}
