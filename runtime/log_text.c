/* log_text: an event as a line for people. */
#include "runtime/log_lines.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_IN_LINE = 12, /* numbers of a vector that a line shows, */
    SHOWN_OF_MORE = 8, /* and of a longer one */
    MOST_IN_TABLE = 24 /* rows and columns of a matrix that is shown */
};

/* ---- reports ---- */

static void say_number(dt_text *line, double value, int decimals, int width) {
    if (isnan(value))
        dt_text_format(line, "%*s", width, "nan"); /* printf would tell one with a sign */
    else
        dt_text_format(line, "%*.*f", width, decimals, value);
}

/* Four decimals tell losses apart; a count of examples has none. */
static int decimals_of(double value) { return fabs(value) < 1000 ? 4 : 0; }

static int64_t n_of(const dtrt_report_array *array) {
    int64_t n = 1;
    for (int d = 0; d < array->n_dims; d++) n *= array->dims[d];
    return n;
}

/* Counts have none, whatever their size. */
static int decimals_of_all(const dtrt_report_array *array) {
    int decimals = 0;
    for (int64_t i = 0; i < n_of(array); i++)
        if (isfinite(array->values[i]) && array->values[i] != floor(array->values[i])) decimals = 4;
    return decimals;
}

/* "  recall [0.8125 0.9000 0.7500]" */
static void say_vector(dt_text *line, const dtrt_report_array *array) {
    int64_t n = array->dims[0], shown = n > MOST_IN_LINE ? SHOWN_OF_MORE : n;
    dt_text_format(line, "  %s [", array->name);
    for (int64_t i = 0; i < shown; i++) {
        if (i > 0) dt_text_append(line, " ");
        say_number(line, array->values[i], decimals_of_all(array), 0);
    }
    if (shown < n) dt_text_format(line, " … %" PRId64 " in all", n);
    dt_text_append(line, "]");
}

static void say_shape(dt_text *line, const dtrt_report_array *array) {
    dt_text_format(line, "  %s [", array->name);
    for (int d = 0; d < array->n_dims; d++) dt_text_format(line, d > 0 ? " × %" PRId64 : "%" PRId64, array->dims[d]);
    dt_text_append(line, "]");
}

static bool is_table(const dtrt_report_array *array) {
    return array->n_dims == 2 && array->dims[0] <= MOST_IN_TABLE && array->dims[1] <= MOST_IN_TABLE;
}

/* On lines of its own, a row each. */
static void say_table(dt_text *line, const dtrt_report_array *array) {
    int decimals = decimals_of_all(array), width = 0;
    char text[400];
    for (int64_t i = 0; i < n_of(array); i++) {
        int n = isfinite(array->values[i]) ? snprintf(text, sizeof text, "%.*f", decimals, array->values[i]) : 4;
        if (n > width) width = n;
    }
    dt_text_format(line, "\n%s:", array->name);
    for (int64_t i = 0; i < n_of(array); i++) {
        dt_text_append(line, i % array->dims[1] == 0 ? "\n  " : "  ");
        say_number(line, array->values[i], decimals, width);
    }
}

static void say_values(dt_text *line, const dt_log_values *values) {
    for (int i = 0; i < values->n; i++) {
        dt_text_format(line, "  %s ", values->names[i]);
        say_number(line, values->values[i], decimals_of(values->values[i]), 0);
    }
    for (int i = 0; i < values->n_arrays; i++)
        if (values->arrays[i].n_dims == 1)
            say_vector(line, &values->arrays[i]);
        else if (!is_table(&values->arrays[i]))
            say_shape(line, &values->arrays[i]);
}

/* What a line has no room for. */
static void say_tables(dt_text *line, const dt_log_values *values) {
    for (int i = 0; i < values->n_arrays; i++)
        if (is_table(&values->arrays[i])) say_table(line, &values->arrays[i]);
}

/* ---- events ---- */

static void say_duration(dt_text *line, double seconds) {
    int64_t s = (int64_t)(fmin(fmax(seconds, 0), 1e9) + 0.5);
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

static void say_start(dt_text *line, const dt_log_start *start) {
    char commas[4][32];
    dt_text_format(line, "%s, step %s: %s parameters, %s of them trained\n", start->program, start->step,
                   dt_text_with_commas(start->n_parameters, commas[0]), dt_text_with_commas(start->n_trainable, commas[1]));
    dt_text_format(line, "%" PRId64 " replica%s on", start->replicas, dt_plural(start->replicas));
    for (int i = 0; i < start->n_devices; i++) dt_text_format(line, " %s", start->devices[i]);
    dt_text_format(line, " (%s), global batch %" PRId64 ", %.1f MiB of memory\n", start->level, start->global_batch,
                   (double)start->memory_bytes / (1 << 20));
    dt_text_format(line, "%s example%s, %s step%s an epoch, seed %" PRId64, dt_text_with_commas(start->n_examples, commas[2]),
                   dt_plural(start->n_examples), dt_text_with_commas(start->steps_per_epoch, commas[3]), dt_plural(start->steps_per_epoch),
                   start->seed);
    if (start->resumed_from != NULL) dt_text_format(line, "\ngoing on from %s", start->resumed_from);
}

static void say_end_of_epoch(dt_text *line, const dt_log_epoch *epoch) {
    char commas[2][32];
    say_epoch(line, epoch);
    dt_text_format(line, "%s step%s", dt_text_with_commas(epoch->steps, commas[0]), dt_plural(epoch->steps));
    if (!epoch->complete) dt_text_format(line, " of %" PRId64, epoch->n_steps);
    dt_text_format(line, "  %s example%s  %.2f s", dt_text_with_commas(epoch->examples, commas[1]), dt_plural(epoch->examples), epoch->seconds);
    say_rate(line, epoch);
    dt_text_format(line, "  data wait %.1f %%", 100 * epoch->data_wait);
}

static void say_end(dt_text *line, const dt_log_end *end) {
    const char *because = strcmp(end->reason, "signal") == 0    ? ", stopped by a signal"
                          : strcmp(end->reason, "no_gain") == 0 ? ", stopped: no gain any more"
                                                                : "";
    bool regroups = strcmp(end->reason, "regroup") == 0;
    char commas[32];
    dt_text_format(line, "%s%s step%s in ", regroups ? "workers have come or gone: " : "done: ", dt_text_with_commas(end->steps, commas),
                   dt_plural(end->steps));
    say_duration(line, end->seconds);
    if (end->data_check_seconds > 0) dt_text_format(line, ", data compared in %.3f s", end->data_check_seconds);
    dt_text_append(line, because);
}

static void say_leases(dt_text *line, const dt_log_leases *leases) {
    char commas[32];
    if (leases->epoch > 0)
        dt_text_format(line, "epoch %" PRId64 "/%" PRId64 "  ", leases->epoch, leases->epochs);
    else
        dt_text_append(line, "all  ");
    dt_text_format(line, "%s lease%s of %d worker%s  %s examples/s", dt_text_with_commas(leases->leases, commas), dt_plural(leases->leases),
                   leases->n_workers, dt_plural(leases->n_workers), dt_text_with_commas((int64_t)leases->examples_per_second, (char[32]){0}));
    if (leases->returned > 0) dt_text_format(line, "  %" PRId64 " leased again", leases->returned);
    dt_text_append(line, "  lag");
    for (int i = 0; i < leases->n_lags; i++)
        if (leases->lags[i].leases > 0) dt_text_format(line, " %s: %s", leases->lags[i].name, dt_text_with_commas(leases->lags[i].leases, commas));
    for (int i = 0; i < leases->n_workers; i++) {
        const dt_log_worker *worker = &leases->workers[i];
        dt_text_format(line, "\n  %s%s: %s leases", worker->name, worker->is_gone ? ", gone" : "", dt_text_with_commas(worker->leases, commas));
        dt_text_format(line, "  %s examples/s", dt_text_with_commas((int64_t)worker->examples_per_second, commas));
    }
}

void dt_log_append_line(const dt_log_event *event, dt_text *line) {
    switch (event->kind) {
    case DT_LOG_STARTED: say_start(line, event->start); break;
    case DT_LOG_STEPPED: dt_text_format(line, "step %" PRId64, event->step->number); break;
    case DT_LOG_EPOCH_DONE: say_end_of_epoch(line, event->epoch); break;
    case DT_LOG_CHECKPOINT: dt_text_format(line, "checkpoint %s (%.1f ms of the step)", event->file.path, event->file.seconds * 1e3); break;
    case DT_LOG_WRITTEN: dt_text_format(line, "%s  %s", event->file.path, event->file.type); break;
    case DT_LOG_ENDED: say_end(line, event->end); break;
    case DT_LOG_LEASES: say_leases(line, event->leases); break;
    case DT_LOG_REMARK: dt_text_format(line, "%s: %s", event->remark.kind, event->remark.message); break;
    default: break; /* details */
    }
    if (event->values != NULL) say_values(line, event->values);
    if (event->values != NULL && event->kind == DT_LOG_EPOCH_DONE) say_tables(line, event->values);
}

void dt_log_append_progress(const dt_log_epoch *so_far, const dt_log_values *values, dt_text *line) {
    say_epoch(line, so_far);
    dt_text_format(line, "step %" PRId64 "/%" PRId64, so_far->steps, so_far->n_steps);
    say_rate(line, so_far);
    if (so_far->examples_per_second > 0 && so_far->steps > 0) {
        double examples_a_step = (double)so_far->examples / (double)so_far->steps;
        dt_text_append(line, "  ");
        say_duration(line, ((double)so_far->n_steps - (double)so_far->steps) * examples_a_step / so_far->examples_per_second);
        dt_text_append(line, " left");
    }
    dt_log_values numbers = {.n = values->n, .names = values->names, .values = values->values}; /* the live line stays one line */
    say_values(line, &numbers);
}
