/* run_record: see run_record.h. */
#include "runtime/report/run_record.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

enum {
    MOST_ARRAYS = 100,
    MOST_NUMBERS = 1 << 16 /* of one */
};

typedef struct reader {
    dt_arena *arena;
    dt_run_record *run;
} reader;

/* ---- members ---- */

static const char *string_of(const reader *in, const cJSON *object, const char *name) {
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(member) ? dt_arena_string(in->arena, member->valuestring) : "";
}

static double number_of(const cJSON *object, const char *name) {
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(member) && isfinite(member->valuedouble) ? member->valuedouble : 0;
}

static const char *joined(const reader *in, const cJSON *array) {
    dt_text all = {.arena = in->arena};
    const cJSON *item;
    cJSON_ArrayForEach(item, array) {
        if (cJSON_IsString(item)) dt_text_format(&all, "%s%s", all.n > 0 ? ", " : "", item->valuestring);
    }
    return all.n > 0 ? all.data : "";
}

/* ---- series ---- */

/* A file may name as many reports as it likes. */
typedef struct dt_record_index {
    dt_record_series *buckets[4096]; /* each a list */
} dt_record_index;

static dt_record_series **bucket_of(dt_record_index *index, const char *report, const char *step, bool of_steps) {
    uint64_t hash = dt_hash_bytes(report, strlen(report) + 1, DT_HASH_SEED + of_steps);
    return &index->buckets[dt_hash_bytes(step, strlen(step), hash) % (sizeof index->buckets / sizeof *index->buckets)];
}

static dt_record_series *find(const dt_run_record *run, const char *report, const char *step, bool of_steps) {
    dt_record_series *series = run->index != NULL ? *bucket_of(run->index, report, step, of_steps) : NULL;
    while (series != NULL && (series->of_steps != of_steps || strcmp(series->report, report) != 0 || strcmp(series->step, step) != 0))
        series = series->next;
    return series;
}

const dt_record_series *dt_run_record_find(const dt_run_record *record, const char *report, const char *step, bool of_steps) {
    return find(record, report, step, of_steps);
}

static void add_point(const reader *in, const char *report, const char *step, bool of_steps, double number, const cJSON *value) {
    if (!cJSON_IsNumber(value) || !isfinite(value->valuedouble)) return;
    dt_record_series *series = find(in->run, report, step, of_steps);
    if (series == NULL) {
        series = DT_NEW(in->arena, dt_record_series);
        series->report = dt_arena_string(in->arena, report);
        series->step = dt_arena_string(in->arena, step);
        series->of_steps = of_steps;
        if (in->run->index == NULL) in->run->index = DT_NEW(in->arena, dt_record_index);
        dt_record_series **bucket = bucket_of(in->run->index, report, step, of_steps);
        series->next = *bucket;
        *bucket = series;
        dt_list_push(in->arena, &in->run->series, series);
    }
    dt_list_push(in->arena, &series->points, ((dt_record_point){number, value->valuedouble}));
}

static bool take_numbers(const cJSON *array, double *values) {
    const cJSON *item;
    cJSON_ArrayForEach(item, array) {
        if (!cJSON_IsNumber(item) && !cJSON_IsNull(item)) return false;
        *values++ = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    return true;
}

/* A vector, or a matrix of rows of one length; anything else is left out. */
static void add_array(const reader *in, const char *report, const char *step, const cJSON *value) {
    int n = cJSON_GetArraySize(value);
    bool has_rows = cJSON_IsArray(value->child);
    dt_record_array made = {.n_rows = has_rows ? n : 0, .n_columns = has_rows ? cJSON_GetArraySize(value->child) : n};
    if (n == 0 || made.n_columns == 0 || (int64_t)n * made.n_columns > MOST_NUMBERS) return;
    made.values = DT_NEW_ARRAY(in->arena, double, (size_t)made.n_columns *(size_t)(has_rows ? n : 1));
    bool fits = has_rows || take_numbers(value, made.values);
    double *row = made.values;
    for (const cJSON *item = value->child; has_rows && fits && item != NULL; item = item->next, row += made.n_columns)
        fits = cJSON_IsArray(item) && cJSON_GetArraySize(item) == made.n_columns && take_numbers(item, row);
    if (!fits) return;
    dt_run_record *run = in->run;
    size_t at = 0;
    while (at < run->arrays.n && (strcmp(run->arrays.items[at].report, report) != 0 || strcmp(run->arrays.items[at].step, step) != 0)) at++;
    made.report = at < run->arrays.n ? run->arrays.items[at].report : dt_arena_string(in->arena, report);
    made.step = at < run->arrays.n ? run->arrays.items[at].step : dt_arena_string(in->arena, step);
    if (at < run->arrays.n)
        run->arrays.items[at] = made;
    else if (at < MOST_ARRAYS)
        dt_list_push(in->arena, &run->arrays, made);
}

/* Members of an event that are no reports. */
static bool is_own(const char *name) {
    static const char *const own[] = {"time",     "event",    "step",      "number",  "epoch",           "steps",
                                      "examples", "complete", "data_wait", "seconds", "seconds_per_step"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return true;
    return false;
}

/* Throughput is a number beside the program's reports; a first step alone has none. */
static void add_reports(const reader *in, const cJSON *event, const char *step, bool of_steps) {
    static const char prefix[] = "report."; /* of a report that is called as a member */
    double number = number_of(event, "number");
    const cJSON *member;
    cJSON_ArrayForEach(member, event) {
        bool is_rate = strcmp(member->string, "examples_per_second") == 0;
        if (is_own(member->string) || (is_rate && member->valuedouble <= 0)) continue;
        bool is_prefixed = strncmp(member->string, prefix, strlen(prefix)) == 0;
        const char *report = member->string + (is_prefixed ? strlen(prefix) : 0);
        if (cJSON_IsArray(member) && !of_steps) add_array(in, report, step, member);
        add_point(in, report, step, of_steps, number, member);
    }
    in->run->number = fmax(in->run->number, number);
}

/* ---- events ---- */

/* What was done after `first_step` is done again. */
static void forget_after(dt_run_record *run, double first_step) {
    for (size_t i = 0; i < run->series.n; i++) {
        dt_record_series *series = run->series.items[i];
        while (series->points.n > 0 && series->points.items[series->points.n - 1].number > first_step) series->points.n--;
    }
    while (run->pictures.n > 0 && run->pictures.items[run->pictures.n - 1].number > first_step) run->pictures.n--;
    run->number = fmin(run->number, first_step);
}

static void start(const reader *in, const cJSON *event) {
    dt_run_record *run = in->run;
    forget_after(run, number_of(event, "first_step"));
    run->n_starts++;
    run->reason = "";
    run->program = string_of(in, event, "program");
    run->step = string_of(in, event, "step");
    run->level = string_of(in, event, "level");
    run->devices = joined(in, cJSON_GetObjectItemCaseSensitive(event, "devices"));
    run->replicas = number_of(event, "replicas");
    run->global_batch = number_of(event, "global_batch");
    run->memory_bytes = number_of(event, "memory_bytes");
    run->epochs = number_of(event, "epochs");
    run->examples = number_of(event, "examples");
    run->seed = number_of(event, "seed");
    run->parameters = number_of(event, "parameters");
    run->trainable = number_of(event, "trainable");
}

/* The plan of the last start: times are of its kernels alone. */
static void plan(const reader *in, const cJSON *event) {
    dt_run_record *run = in->run;
    const cJSON *item;
    run->compiler = string_of(in, event, "compiler");
    run->llvm = string_of(in, event, "llvm");
    run->program_hash = string_of(in, event, "program_hash");
    run->source = string_of(in, event, "source");
    run->memory.n = run->kernels.n = 0;
    run->timed_steps = run->timed_seconds = run->exchanging_seconds = 0;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(event, "memory")) {
        dt_list_push(in->arena, &run->memory, ((dt_record_memory){string_of(in, item, "name"), fmax(number_of(item, "bytes"), 0)}));
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(event, "kernels")) {
        dt_record_kernel kernel = {.name = string_of(in, item, "name"),
                                   .lines = string_of(in, item, "lines"),
                                   .layers = string_of(in, item, "layers"),
                                   .flops = number_of(item, "flops"),
                                   .bytes = number_of(item, "bytes")};
        dt_list_push(in->arena, &run->kernels, kernel);
    }
}

static void times(const reader *in, const cJSON *event) {
    dt_run_record *run = in->run;
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(event, "kernels"), *item;
    size_t k = 0;
    if ((size_t)cJSON_GetArraySize(kernels) != run->kernels.n) return; /* of another plan */
    cJSON_ArrayForEach(item, kernels) run->kernels.items[k++].seconds += cJSON_IsNumber(item) ? fmax(item->valuedouble, 0) : 0;
    run->timed_steps += number_of(event, "steps");
    run->timed_seconds += fmax(number_of(event, "seconds"), 0);
    run->exchanging_seconds += fmax(number_of(event, "exchanging"), 0);
}

static bool is_base64(const char *text) {
    static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
    return text[0] != 0 && text[strspn(text, characters)] == 0;
}

static void picture(const reader *in, const cJSON *event) {
    dt_record_picture made = {.name = string_of(in, event, "name"),
                              .png = string_of(in, event, "png"),
                              .number = number_of(event, "number"),
                              .width = number_of(event, "width"),
                              .height = number_of(event, "height")};
    if (is_base64(made.png) && made.width >= 1 && made.height >= 1) dt_list_push(in->arena, &in->run->pictures, made);
}

static void take(const reader *in, const cJSON *event, const char *kind) {
    dt_run_record *run = in->run;
    double time = number_of(event, "time");
    if (run->first_time == 0) run->first_time = time;
    run->last_time = fmax(run->last_time, time);
    if (strcmp(kind, "start") == 0) start(in, event);
    if (strcmp(kind, "plan") == 0) plan(in, event);
    if (strcmp(kind, "times") == 0) times(in, event);
    if (strcmp(kind, "picture") == 0) picture(in, event);
    if (strcmp(kind, "step") == 0) add_reports(in, event, run->step, true);
    if (strcmp(kind, "launch") == 0 || strcmp(kind, "scalar") == 0) add_reports(in, event, run->step, false);
    if (strcmp(kind, "epoch") == 0) add_reports(in, event, string_of(in, event, "step"), false);
    if (strcmp(kind, "end") == 0) run->reason = string_of(in, event, "reason");
    if (strcmp(kind, "warning") == 0) {
        const char *remark = dt_arena_format(in->arena, "warning: %s", string_of(in, event, "message"));
        dt_list_push(in->arena, &run->remarks, remark);
    }
}

/* ---- the file ---- */

static void drop_event(dt_run_record *run) {
    cJSON_Delete(run->event);
    run->event = NULL;
}

static bool take_line(const reader *in, const char *line, size_t n) {
    in->run->event = cJSON_ParseWithLength(line, n);
    const cJSON *kind = cJSON_GetObjectItemCaseSensitive(in->run->event, "event");
    bool is_event = cJSON_IsString(kind);
    if (is_event) take(in, in->run->event, kind->valuestring);
    drop_event(in->run);
    return is_event;
}

static dt_status *read_lines(const reader *in, const char *path) {
    dt_run_record *run = in->run;
    size_t n_bytes;
    DT_TRY(dt_file_read(path, &run->text, &n_bytes));
    const char *line = run->text, *end = line + n_bytes;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((newline != NULL ? newline : end) - line);
        if (n > 0 && !take_line(in, line, n) && newline != NULL) run->n_bad_lines++;
        line += n + 1;
    }
    if (run->n_starts > 0) return NULL;
    return dt_error_in(DT_DATA_LOSS, path, 0, "holds no run: not one line of it says that a training has started");
}

static dt_status *read_folder(const reader *in, const char *folder) {
    const char *path = dt_arena_format(in->arena, "%s/run.jsonl", folder);
    if (!dt_file_exists(folder)) return dt_error_in(DT_NOT_FOUND, folder, 0, "there is no such folder");
    if (!dt_file_exists(path))
        return dt_error_in(DT_NOT_FOUND, folder, 0, "holds no run.jsonl: name a folder that `dtrun train --log-dir` has written");
    return read_lines(in, path);
}

dt_status *dt_run_record_read(const char *folder, dt_arena *arena, dt_run_record *record) {
    jmp_buf guard;
    dt_status *status;
    *record = (dt_run_record){.folder = folder,
                              .program = "",
                              .step = "",
                              .level = "",
                              .compiler = "",
                              .llvm = "",
                              .program_hash = "",
                              .source = "",
                              .reason = "",
                              .devices = ""};
    if (setjmp(guard) == 0) {
        dt_arena_guard(arena, &guard);
        status = read_folder(&(reader){arena, record}, folder);
    } else
        status = dt_error_in(DT_RESOURCE_EXHAUSTED, folder, 0, "not enough memory to read it");
    drop_event(record); /* where memory was out */
    dt_release(record->text);
    record->text = NULL;
    return status;
}
