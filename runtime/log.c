/* log: see log.h. A line is put together in one text and written at once, so that lines of a killed run are whole. */
#include "runtime/log.h"

#include "base/memory.h"
#include "base/text.h"
#include "runtime/artifact/json_text.h"
#include "runtime/artifact/type_text.h"
#include "runtime/threads/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define SECONDS_BETWEEN_REDRAWS 0.1

struct dt_log {
    FILE *stream; /* NULL: nothing is said */
    dt_log_format format;
    bool live;       /* the stream is a terminal */
    bool line_shown; /* the live line is on it */
    double drawn_at;
    int failure; /* errno of the first write that failed; 0: none has */
};

dt_status *dt_log_create(FILE *stream, dt_log_format format, bool may_be_live, dt_log **log) {
    dt_log *created = dt_allocate_zeroed(1, sizeof *created);
    *log = created;
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->stream = stream;
    created->format = format;
    created->live = may_be_live && format == DT_LOG_TEXT && stream != NULL && isatty(fileno(stream));
    return NULL;
}

bool dt_log_failed(const dt_log *log) { return log->failure != 0; }

dt_status *dt_log_status(const dt_log *log) {
    return log->failure == 0 ? NULL : dt_error(DT_IO, "cannot write to standard output: %s", strerror(log->failure));
}

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

/* Writes `line` and a newline, and frees it. A line for which there was no memory is left out. */
static void put(dt_log *log, dt_text *line) {
    clear(log);
    dt_text_append(line, "\n");
    if (!line->failed) write_now(log, line->data, line->n);
    dt_text_free(line);
}

/* ---- json ---- */

static void open_event(dt_text *line, const char *event) { dt_text_format(line, "{\"event\":\"%s\"", event); }

static void add_string(dt_text *line, const char *name, const char *value) {
    dt_text_format(line, ",\"%s\":", name);
    if (value != NULL)
        dt_text_append_json_string(line, value);
    else
        dt_text_append(line, "null");
}

static void add_integer(dt_text *line, const char *name, int64_t value) { dt_text_format(line, ",\"%s\":%" PRId64, name, value); }

static void add_number(dt_text *line, const char *name, double value) {
    dt_text_append(line, ",");
    dt_text_append_json_string(line, name);
    dt_text_append(line, ":");
    dt_text_append_json_number(line, value);
}

/* Seconds and shares do not need seventeen digits. */
static void add_rounded(dt_text *line, const char *name, double value, int n_digits) { dt_text_format(line, ",\"%s\":%.*f", name, n_digits, value); }

/* Whether the event has a member of this name. What a string says has its quotes escaped, and is not taken for one. */
static bool has_member(const dt_text *line, const char *name) {
    dt_text key = {0};
    dt_text_append_json_string(&key, name);
    dt_text_append(&key, ":");
    const char *at = key.failed || line->failed ? NULL : strstr(line->data, key.data);
    dt_text_free(&key);
    return at != NULL;
}

/* A report may be called as the event's own members are: then it is "report.steps". */
static void add_values(dt_text *line, const dt_log_values *values) {
    for (int i = 0; i < values->n; i++) {
        dt_text name = {0};
        dt_text_format(&name, "%s%s", has_member(line, values->names[i]) ? "report." : "", values->names[i]);
        if (!name.failed) add_number(line, name.data, values->values[i]);
        dt_text_free(&name);
    }
}

static void close_event(dt_log *log, dt_text *line) {
    dt_text_append(line, "}");
    put(log, line);
}

/* ---- text ---- */

/* Four decimals tell losses apart; a count of examples has none. */
static void say_values(dt_text *line, const dt_log_values *values) {
    for (int i = 0; i < values->n; i++)
        if (isnan(values->values[i]))
            dt_text_format(line, "  %s nan", values->names[i]); /* printf would tell one with a sign */
        else
            dt_text_format(line, "  %s %.*f", values->names[i], fabs(values->values[i]) < 1000 ? 4 : 0, values->values[i]);
}

static void say_duration(dt_text *line, double seconds) {
    int64_t s = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;
    if (s >= 3600)
        dt_text_format(line, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    else
        dt_text_format(line, "%" PRId64 ":%02d", s / 60, (int)(s % 60));
}

static void say_epoch(dt_text *line, const dt_log_epoch *epoch) {
    if (epoch->epoch > 0 && epoch->epochs > 0) dt_text_format(line, "epoch %" PRId64 "/%" PRId64 "  ", epoch->epoch, epoch->epochs);
    dt_text_format(line, "%-8s  ", epoch->step);
}

static void say_rate(dt_text *line, const dt_log_epoch *epoch) {
    char commas[32];
    if (epoch->examples_per_second > 0 && epoch->examples_per_second < 1e15)
        dt_text_format(line, "  %s examples/s", dt_text_with_commas((int64_t)epoch->examples_per_second, commas));
    double ms = 1e3 * epoch->seconds_per_step;
    if (ms > 0) dt_text_format(line, "  %.*f ms/step", ms < 10 ? 2 : ms < 100 ? 1 : 0, ms);
}

/* ---- events ---- */

static void started_json(dt_log *log, const dt_log_start *start) {
    dt_text line = {0};
    open_event(&line, "start");
    add_string(&line, "program", start->program);
    add_string(&line, "step", start->step);
    add_integer(&line, "parameters", start->n_parameters);
    add_integer(&line, "trainable", start->n_trainable);
    add_integer(&line, "replicas", start->replicas);
    dt_text_append(&line, ",\"devices\":[");
    for (int i = 0; i < start->n_devices; i++) {
        if (i > 0) dt_text_append(&line, ",");
        dt_text_append_json_string(&line, start->devices[i]);
    }
    dt_text_append(&line, "]");
    add_integer(&line, "global_batch", start->global_batch);
    add_integer(&line, "memory_bytes", start->memory_bytes);
    add_integer(&line, "epochs", start->epochs);
    add_integer(&line, "steps_per_epoch", start->steps_per_epoch);
    add_integer(&line, "examples", start->n_examples);
    add_integer(&line, "seed", start->seed);
    add_string(&line, "level", start->level);
    add_integer(&line, "first_step", start->first_step);
    add_string(&line, "resumed_from", start->resumed_from);
    close_event(log, &line);
}

void dt_log_started(dt_log *log, const dt_log_start *start) {
    if (log->format == DT_LOG_JSON) {
        started_json(log, start);
        return;
    }
    char commas[4][32];
    dt_text line = {0};
    dt_text_format(&line, "%s, step %s: %s parameters, %s of them trained\n", start->program, start->step,
                   dt_text_with_commas(start->n_parameters, commas[0]), dt_text_with_commas(start->n_trainable, commas[1]));
    dt_text_format(&line, "%" PRId64 " replica%s on", start->replicas, dt_plural(start->replicas));
    for (int i = 0; i < start->n_devices; i++) dt_text_format(&line, " %s", start->devices[i]);
    dt_text_format(&line, " (%s), global batch %" PRId64 ", %.1f MiB of memory\n", start->level, start->global_batch,
                   (double)start->memory_bytes / (1 << 20));
    dt_text_format(&line, "%s example%s, %s step%s an epoch, seed %" PRId64, dt_text_with_commas(start->n_examples, commas[2]),
                   dt_plural(start->n_examples), dt_text_with_commas(start->steps_per_epoch, commas[3]), dt_plural(start->steps_per_epoch),
                   start->seed);
    if (start->resumed_from != NULL) dt_text_format(&line, "\ngoing on from %s", start->resumed_from);
    put(log, &line);
}

void dt_log_stepped(dt_log *log, int64_t number, const dt_log_values *values) {
    dt_text line = {0};
    if (log->format == DT_LOG_JSON) {
        open_event(&line, "step");
        add_integer(&line, "number", number);
        add_values(&line, values);
        close_event(log, &line);
        return;
    }
    if (log->live) return; /* the live line shows it */
    dt_text_format(&line, "step %" PRId64, number);
    say_values(&line, values);
    put(log, &line);
}

void dt_log_epoch_done(dt_log *log, const dt_log_epoch *epoch, const dt_log_values *values) {
    dt_text line = {0};
    if (log->format == DT_LOG_JSON) {
        open_event(&line, "epoch");
        add_string(&line, "step", epoch->step);
        add_integer(&line, "epoch", epoch->epoch);
        add_integer(&line, "steps", epoch->steps);
        add_integer(&line, "examples", epoch->examples);
        dt_text_format(&line, ",\"complete\":%s", epoch->complete ? "true" : "false");
        add_rounded(&line, "seconds", epoch->seconds, 6);
        add_rounded(&line, "examples_per_second", epoch->examples_per_second, 1);
        add_rounded(&line, "seconds_per_step", epoch->seconds_per_step, 9);
        add_rounded(&line, "data_wait", epoch->data_wait, 6);
        add_values(&line, values);
        close_event(log, &line);
        return;
    }
    char commas[2][32];
    say_epoch(&line, epoch);
    dt_text_format(&line, "%s step%s", dt_text_with_commas(epoch->steps, commas[0]), dt_plural(epoch->steps));
    if (!epoch->complete) dt_text_format(&line, " of %" PRId64, epoch->n_steps);
    dt_text_format(&line, "  %s example%s  %.2f s", dt_text_with_commas(epoch->examples, commas[1]), dt_plural(epoch->examples), epoch->seconds);
    say_rate(&line, epoch);
    dt_text_format(&line, "  data wait %.1f %%", 100 * epoch->data_wait);
    say_values(&line, values);
    put(log, &line);
}

void dt_log_checkpoint(dt_log *log, const char *path, int64_t number) {
    dt_text line = {0};
    if (log->format == DT_LOG_JSON) {
        open_event(&line, "checkpoint");
        add_string(&line, "path", path);
        add_integer(&line, "number", number);
        close_event(log, &line);
        return;
    }
    if (log->live) return;
    dt_text_format(&line, "checkpoint %s", path);
    put(log, &line);
}

void dt_log_written(dt_log *log, const char *path, dt_dtype dtype, int n_dims, const int64_t *dims) {
    dt_text line = {0}, type = {0};
    dt_text_append_type(&type, dtype, n_dims, dims);
    if (log->format == DT_LOG_JSON) {
        open_event(&line, "result");
        add_string(&line, "path", path);
        add_string(&line, "type", type.data);
        close_event(log, &line);
    } else {
        dt_text_format(&line, "%s  %s", path, type.data != NULL ? type.data : "");
        put(log, &line);
    }
    dt_text_free(&type);
}

void dt_log_ended(dt_log *log, const char *reason, int64_t steps, int64_t epochs, double seconds, double first_step_seconds) {
    dt_text line = {0};
    if (log->format == DT_LOG_JSON) {
        open_event(&line, "end");
        add_string(&line, "reason", reason);
        add_integer(&line, "steps", steps);
        add_integer(&line, "epochs", epochs);
        add_rounded(&line, "seconds", seconds, 6);
        if (first_step_seconds >= 0) add_rounded(&line, "first_step_seconds", first_step_seconds, 6);
        close_event(log, &line);
        return;
    }
    const char *because = strcmp(reason, "signal") == 0    ? ", stopped by a signal"
                          : strcmp(reason, "no_gain") == 0 ? ", stopped: no gain any more"
                                                           : "";
    char commas[32];
    dt_text_format(&line, "done: %s step%s in ", dt_text_with_commas(steps, commas), dt_plural(steps));
    say_duration(&line, seconds);
    dt_text_append(&line, because);
    put(log, &line);
}

bool dt_log_wants_progress(dt_log *log) {
    if (!log->live) return false;
    double now = dt_seconds_now();
    if (now < log->drawn_at + SECONDS_BETWEEN_REDRAWS) return false;
    log->drawn_at = now;
    return true;
}

void dt_log_progress(dt_log *log, const dt_log_epoch *so_far, const dt_log_values *values) {
    dt_text line = {0};
    dt_text_append(&line, "\r");
    say_epoch(&line, so_far);
    dt_text_format(&line, "step %" PRId64 "/%" PRId64, so_far->steps, so_far->n_steps);
    say_rate(&line, so_far);
    if (so_far->examples_per_second > 0 && so_far->steps > 0) {
        double examples_a_step = (double)so_far->examples / (double)so_far->steps;
        dt_text_append(&line, "  ");
        say_duration(&line, (double)(so_far->n_steps - so_far->steps) * examples_a_step / so_far->examples_per_second);
        dt_text_append(&line, " left");
    }
    say_values(&line, values);
    dt_text_append(&line, "\033[K");
    if (!line.failed) write_now(log, line.data, line.n);
    log->line_shown = true;
    dt_text_free(&line);
}

void dt_log_remark(dt_log *log, const char *kind, const char *format, ...) {
    dt_text message = {0}, line = {0};
    va_list arguments;
    if (log->stream == NULL) return;
    va_start(arguments, format);
    dt_text_vformat(&message, format, arguments);
    va_end(arguments);
    if (!message.failed) {
        clear(log);
        fprintf(stderr, "dtrun: %s: %s\n", kind, message.data);
        if (log->format == DT_LOG_JSON) {
            open_event(&line, kind);
            add_string(&line, "message", message.data);
            close_event(log, &line);
        }
    }
    dt_text_free(&message);
}
