/* log_json: an event as members of a JSON object. */
#include "runtime/log_lines.h"

#include "base/memory.h"
#include "runtime/artifact/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <nettle/base64.h>
#include <string.h>

static void open_event(dt_text *line, const char *event) {
    dt_text_append(line, "\"event\":");
    dt_text_append_json_string(line, event);
}

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
static void add_rounded(dt_text *line, const char *name, double value, int n_digits) {
    if (isfinite(value))
        dt_text_format(line, ",\"%s\":%.*f", name, n_digits, value);
    else
        add_number(line, name, value);
}

/* Whether the event has a member of this name. What a string says has its quotes escaped, and is not taken for one. */
static bool has_member(const dt_text *line, const char *name) {
    dt_text key = {0};
    dt_text_append_json_string(&key, name);
    dt_text_append(&key, ":");
    const char *at = key.failed || line->failed ? NULL : strstr(line->data, key.data);
    dt_text_free(&key);
    return at != NULL;
}

/* Nested as the dimensions are: [[5, 1], [0, 7]]. Returns what follows the values that it took. */
static const double *add_array(dt_text *line, const double *values, int n_dims, const int64_t *dims) {
    dt_text_append(line, "[");
    for (int64_t i = 0; i < dims[0]; i++) {
        if (i > 0) dt_text_append(line, ",");
        if (n_dims > 1)
            values = add_array(line, values, n_dims - 1, dims + 1);
        else
            dt_text_append_json_number(line, *values++);
    }
    dt_text_append(line, "]");
    return values;
}

/* A report may be called as the event's own members are: then it is "report.steps". */
static void open_report(dt_text *line, const char *report) {
    dt_text name = {0};
    dt_text_format(&name, "%s%s", has_member(line, report) ? "report." : "", report);
    dt_text_append(line, ",");
    dt_text_append_json_string(line, name.failed ? report : name.data);
    dt_text_append(line, ":");
    dt_text_free(&name);
}

static void add_values(dt_text *line, const dt_log_values *values) {
    for (int i = 0; i < values->n; i++) {
        open_report(line, values->names[i]);
        dt_text_append_json_number(line, values->values[i]);
    }
    for (int i = 0; i < values->n_arrays; i++) {
        open_report(line, values->arrays[i].name);
        add_array(line, values->arrays[i].values, values->arrays[i].n_dims, values->arrays[i].dims);
    }
}

static void add_start(dt_text *line, const dt_log_start *start) {
    open_event(line, "start");
    add_string(line, "program", start->program);
    add_string(line, "step", start->step);
    add_integer(line, "parameters", start->n_parameters);
    add_integer(line, "trainable", start->n_trainable);
    add_integer(line, "replicas", start->replicas);
    dt_text_append(line, ",\"devices\":[");
    for (int i = 0; i < start->n_devices; i++) {
        if (i > 0) dt_text_append(line, ",");
        dt_text_append_json_string(line, start->devices[i]);
    }
    dt_text_append(line, "]");
    add_integer(line, "global_batch", start->global_batch);
    add_integer(line, "memory_bytes", start->memory_bytes);
    add_integer(line, "epochs", start->epochs);
    add_integer(line, "steps_per_epoch", start->steps_per_epoch);
    add_integer(line, "examples", start->n_examples);
    add_integer(line, "seed", start->seed);
    add_string(line, "level", start->level);
    add_integer(line, "first_step", start->first_step);
    add_string(line, "resumed_from", start->resumed_from);
}

static void add_epoch(dt_text *line, const char *event, const dt_log_epoch *epoch) {
    open_event(line, event);
    add_string(line, "step", epoch->step);
    add_integer(line, "epoch", epoch->epoch);
    add_integer(line, "number", epoch->number);
    add_integer(line, "steps", epoch->steps);
    add_integer(line, "examples", epoch->examples);
    dt_text_format(line, ",\"complete\":%s", epoch->complete ? "true" : "false");
    add_rounded(line, "seconds", epoch->seconds, 6);
    add_rounded(line, "examples_per_second", epoch->examples_per_second, 1);
    add_rounded(line, "seconds_per_step", epoch->seconds_per_step, 9);
    add_rounded(line, "data_wait", epoch->data_wait, 6);
}

static void add_end(dt_text *line, const dt_log_end *end) {
    open_event(line, "end");
    add_string(line, "reason", end->reason);
    add_integer(line, "steps", end->steps);
    add_integer(line, "epochs", end->epochs);
    add_rounded(line, "seconds", end->seconds, 6);
    if (end->first_step_seconds >= 0) add_rounded(line, "first_step_seconds", end->first_step_seconds, 6);
    if (end->data_check_seconds > 0) add_rounded(line, "data_check_seconds", end->data_check_seconds, 6);
}

static void add_leases(dt_text *line, const dt_log_leases *leases) {
    open_event(line, "leases");
    add_integer(line, "epoch", leases->epoch);
    add_integer(line, "leases", leases->leases);
    add_integer(line, "returned", leases->returned);
    add_integer(line, "doubles", leases->doubles);
    add_rounded(line, "examples_per_second", leases->examples_per_second, 1);
    dt_text_append(line, ",\"lags\":{");
    for (int i = 0; i < leases->n_lags; i++)
        dt_text_format(line, "%s\"%s\":%" PRId64, i > 0 ? "," : "", leases->lags[i].name, leases->lags[i].leases);
    dt_text_append(line, "},\"workers\":[");
    for (int i = 0; i < leases->n_workers; i++) {
        const dt_log_worker *worker = &leases->workers[i];
        dt_text_append(line, i > 0 ? ",{\"name\":" : "{\"name\":");
        dt_text_append_json_string(line, worker->name);
        add_integer(line, "leases", worker->leases);
        add_rounded(line, "examples_per_second", worker->examples_per_second, 1);
        dt_text_format(line, ",\"gone\":%s}", worker->is_gone ? "true" : "false");
    }
    dt_text_append(line, "]");
}

static void add_plan(dt_text *line, const dt_log_plan *plan) {
    open_event(line, "plan");
    add_string(line, "compiler", plan->compiler);
    add_string(line, "llvm", plan->llvm);
    add_string(line, "program_hash", plan->program_hash);
    dt_text_append(line, ",\"memory\":[");
    for (int i = 0; i < plan->n_memory; i++) {
        dt_text_append(line, i > 0 ? ",{\"name\":" : "{\"name\":");
        dt_text_append_json_string(line, plan->memory[i].name);
        add_integer(line, "bytes", plan->memory[i].bytes);
        dt_text_append(line, "}");
    }
    dt_text_append(line, "],\"kernels\":[");
    for (int k = 0; k < plan->n_kernels; k++) {
        const dt_log_kernel *kernel = &plan->kernels[k];
        dt_text_append(line, k > 0 ? ",{\"name\":" : "{\"name\":");
        dt_text_append_json_string(line, kernel->name);
        add_string(line, "lines", kernel->lines);
        add_string(line, "layers", kernel->layers);
        add_number(line, "flops", kernel->flops);
        add_number(line, "bytes", kernel->bytes);
        dt_text_append(line, "}");
    }
    dt_text_append(line, "]");
    add_string(line, "source", plan->source);
}

static void add_times(dt_text *line, const dt_log_times *times) {
    open_event(line, "times");
    add_integer(line, "number", times->number);
    add_integer(line, "steps", times->n_steps);
    add_number(line, "seconds", times->seconds);
    add_number(line, "exchanging", times->exchanging);
    dt_text_append(line, ",\"kernels\":[");
    for (int k = 0; k < times->n_kernels; k++) {
        if (k > 0) dt_text_append(line, ",");
        dt_text_append_json_number(line, times->kernel_seconds[k]);
    }
    dt_text_append(line, "]");
}

static void add_picture(dt_text *line, const dt_log_picture *picture) {
    size_t n = BASE64_ENCODE_RAW_LENGTH(picture->n_bytes);
    char *base64 = dt_allocate(n + 1);
    if (base64 == NULL) return;
    base64_encode_raw(base64, picture->n_bytes, picture->png);
    base64[n] = 0;
    open_event(line, "picture");
    add_string(line, "name", picture->name);
    add_integer(line, "number", picture->number);
    add_integer(line, "width", picture->width);
    add_integer(line, "height", picture->height);
    add_string(line, "png", base64);
    dt_release(base64);
}

void dt_log_append_members(const dt_log_event *event, dt_text *line) {
    switch (event->kind) {
    case DT_LOG_STARTED: add_start(line, event->start); break;
    case DT_LOG_STEPPED:
        open_event(line, "step");
        add_integer(line, "number", event->step->number);
        add_integer(line, "epoch", event->step->epoch);
        add_rounded(line, "examples_per_second", event->step->examples_per_second, 1);
        break;
    case DT_LOG_EPOCH_DONE: add_epoch(line, "epoch", event->epoch); break;
    case DT_LOG_PROGRESS: add_epoch(line, "progress", event->epoch); break;
    case DT_LOG_CHECKPOINT:
        open_event(line, "checkpoint");
        add_string(line, "path", event->file.path);
        add_integer(line, "number", event->file.number);
        add_rounded(line, "stall_seconds", event->file.seconds, 6);
        break;
    case DT_LOG_WRITTEN:
        open_event(line, "result");
        add_string(line, "path", event->file.path);
        add_string(line, "type", event->file.type);
        break;
    case DT_LOG_ENDED: add_end(line, event->end); break;
    case DT_LOG_REMARK:
        open_event(line, event->remark.kind);
        add_string(line, "message", event->remark.message);
        break;
    case DT_LOG_LEASES: add_leases(line, event->leases); break;
    case DT_LOG_PLAN: add_plan(line, event->plan); break;
    case DT_LOG_LAUNCH:
        open_event(line, "launch");
        add_integer(line, "number", event->step->number);
        break;
    case DT_LOG_TIMES: add_times(line, event->times); break;
    case DT_LOG_PICTURE: add_picture(line, event->picture); break;
    case DT_LOG_SCALAR:
        open_event(line, "scalar");
        add_integer(line, "number", event->scalar->number);
        add_values(line, &(dt_log_values){.n = 1, .names = &event->scalar->name, .values = &event->scalar->value});
        break;
    case DT_LOG_WEIGHTS: break;
    }
    if (event->values != NULL) add_values(line, event->values);
}
