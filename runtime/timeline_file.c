/* timeline_file: see timeline_file.h. */
#include "runtime/timeline_file.h"

#include "base/file.h"
#include "base/memory.h"
#include "runtime/artifact/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- clocks ---- */

typedef struct reading { /* of this process's clock */
    double entered;      /* the gather */
    double left;         /* the one before */
} reading;

/* In true time everybody enters a gather before anybody leaves it. So process 0 entered before this one left, and this one before process 0 left:
 * each gather bounds how far the clocks differ from both sides. */
dt_status *dt_timeline_align(dt_processes *processes, dt_timeline_clock *clock) {
    enum {
        GATHERS = 32
    };
    static const dt_step_context context = {.step = "start"};
    int n = dt_processes_count(processes), here = dt_processes_number(processes);
    double zero = 0, least = -INFINITY, most = INFINITY, entered = 0, left = 0;
    *clock = (dt_timeline_clock){.zero = dt_seconds_now()};
    if (n == 1) return NULL;
    reading *all = dt_allocate_zeroed((size_t)n, sizeof *all);
    dt_status *status = all == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    for (int g = 0; g < GATHERS && status == NULL; g++) {
        double entered_before = entered;
        entered = dt_seconds_now();
        all[here] = (reading){entered, left};
        status = dt_processes_allgather(processes, all, sizeof *all, &context);
        left = dt_seconds_now();
        if (status != NULL) break;
        if (g == 0) zero = all[0].entered;
        if (g > 0) least = fmax(least, entered_before - all[0].left);
        most = fmin(most, left - all[0].entered);
    }
    double error = here == 0 ? 0 : (most - least) / 2;
    clock->zero = here == 0 ? zero : zero + (least + most) / 2;
    if (status == NULL) {
        all[here].entered = error;
        status = dt_processes_allgather(processes, all, sizeof *all, &context);
    }
    for (int p = 0; p < n && status == NULL; p++) clock->error_seconds = fmax(clock->error_seconds, all[p].entered);
    dt_release(all);
    return status;
}

/* ---- events ---- */

static const char *const kinds[] = {
#define X(name, text) text,
    DT_SPAN_KINDS(X)
#undef X
};

/* The events of a process, on the way. */
typedef struct writer {
    dt_text *text;
    int process;
    double zero, since; /* spans that ended before `since` are not of the steps that are kept */
} writer;

/* Numbers of processes and threads are from 1: viewers take 0 for the system's own. */
static void begin_event(writer *in, const char *phase, int thread, const char *name) {
    dt_text_format(in->text, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d,\"name\":", in->text->n > 0 ? "," : "", phase, in->process + 1, thread + 1);
    dt_text_append_json_string(in->text, name);
}

static void add_name(writer *in, const char *what, int thread, const char *name) {
    begin_event(in, "M", thread, what);
    dt_text_append(in->text, ",\"args\":{\"name\":");
    dt_text_append_json_string(in->text, name);
    dt_text_append(in->text, "}}");
}

static void add_order(writer *in, const char *what, int thread, int order) {
    begin_event(in, "M", thread, what);
    dt_text_format(in->text, ",\"args\":{\"sort_index\":%d}}", order);
}

/* Nanoseconds: rounded alike wherever it occurs, so that what nested still does. */
static int64_t since_zero(const writer *in, double seconds) { return llround((seconds - in->zero) * 1e9); }

static void add_microseconds(writer *in, const char *name, int64_t nanoseconds) {
    uint64_t size = nanoseconds < 0 ? -(uint64_t)nanoseconds : (uint64_t)nanoseconds;
    dt_text_format(in->text, ",\"%s\":%s%" PRIu64 ".%03d", name, nanoseconds < 0 ? "-" : "", size / 1000, (int)(size % 1000));
}

static void add_arguments(writer *in, const dt_span *span) {
    const char *before = "";
    dt_text_append(in->text, ",\"args\":{");
    if (span->step != NULL) {
        bool is_data = span->kind == DT_SPAN_DATA;
        dt_text_append(in->text, is_data ? "\"data\":" : "\"function\":");
        dt_text_append_json_string(in->text, span->step);
        dt_text_format(in->text, ",\"%s\":%" PRId64, is_data ? "batch" : "step", span->number + 1);
        if (!is_data) dt_text_format(in->text, ",\"segment\":%d", span->segment);
        before = ",";
    }
    if (span->kind == DT_SPAN_EXCHANGE) {
        dt_text_format(in->text, "%s\"tag\":%d", before, span->tag);
        before = ",";
    }
    if (span->bytes > 0) dt_text_format(in->text, "%s\"bytes\":%" PRId64, before, span->bytes);
    dt_text_append(in->text, "}}");
}

static void add_span(writer *in, const dt_span *span, int thread) {
    char name[200];
    int64_t began = since_zero(in, span->began), ended = since_zero(in, span->ended);
    snprintf(name, sizeof name, span->detail != NULL && *span->detail != 0 ? "%s (%s)" : "%s", span->name, span->detail);
    bool overlaps = span->kind == DT_SPAN_EXCHANGE;
    for (int end = 0; end <= overlaps; end++) {
        begin_event(in, !overlaps ? "X" : end ? "e" : "b", thread, name);
        dt_text_format(in->text, ",\"cat\":\"%s\"", kinds[span->kind]);
        if (overlaps) dt_text_format(in->text, ",\"id2\":{\"local\":\"0x%x\"}", span->tag);
        add_microseconds(in, "ts", end ? ended : began);
        if (!overlaps) add_microseconds(in, "dur", ended - began);
        add_arguments(in, end ? &(dt_span){.kind = DT_SPAN_STEP} : span);
    }
}

/* When the first of the last steps began of which all is kept, and how many these are. */
static double first_kept(const dt_timeline *timeline, int64_t *n) {
    const dt_recorder *main = timeline->first;
    double since = -INFINITY;
    *n = 0;
    for (int64_t i = main != NULL ? main->n_added : 0; main != NULL && i-- > dt_recorder_first(main) && *n < timeline->n_steps;) {
        const dt_span *span = &main->spans[i % main->capacity];
        if (span->kind != DT_SPAN_STEP) continue;
        ++*n;
        since = span->began;
    }
    return *n < timeline->n_steps_run ? since : -INFINITY;
}

static void add_thread(writer *in, const dt_recorder *recorder, int number) {
    add_name(in, "thread_name", number, recorder->name);
    add_order(in, "thread_sort_index", number, number);
    for (int64_t i = dt_recorder_first(recorder); i < recorder->n_added; i++) {
        const dt_span *span = &recorder->spans[i % recorder->capacity];
        if (span->ended > in->since) add_span(in, span, number);
    }
}

/* Of this process; *n_kept: steps. */
static void print_events(const dt_timeline *timeline, const dt_timeline_clock *clock, int process, dt_text *text, int64_t *n_kept) {
    char host[65] = "?", name[120], labels[80];
    writer in = {.text = text, .process = process, .zero = clock->zero, .since = first_kept(timeline, n_kept)};
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "rank %d, %s, pid %d", process, host, (int)getpid());
    snprintf(labels, sizeof labels, "the last %" PRId64 " of %" PRId64 " steps", *n_kept, timeline->n_steps_run);
    add_name(&in, "process_name", 0, name);
    add_order(&in, "process_sort_index", 0, process);
    begin_event(&in, "M", 0, "process_labels");
    dt_text_format(text, ",\"args\":{\"labels\":\"%s\"}}", labels);
    int number = 0;
    for (const dt_recorder *one = timeline->first; one != NULL; one = one->next) add_thread(&in, one, number++);
}

/* ---- the file ---- */

dt_status *dt_timeline_check_place(const char *path) {
    char *place;
    bool is_plain;
    DT_TRY(dt_file_find_place(path, &place, &is_plain));
    char *end = strrchr(place, '/');
    if (end != NULL) end[end == place] = 0;
    bool writable = !is_plain || access(end != NULL ? place : ".", W_OK | X_OK) == 0;
    dt_status *status = writable ? NULL : dt_file_error("write to its folder", path);
    dt_release(place);
    return status;
}

static dt_status *write_file(const dt_timeline *timeline, const dt_timeline_clock *clock, const char *events, int n_processes, int64_t n_kept,
                             const char *program, const char *path) {
    dt_text text = {0};
    dt_text_append(&text, "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"program\":");
    dt_text_append_json_string(&text, program);
    dt_text_format(&text, ",\"processes\":%d,\"steps_kept\":%" PRId64 ",\"steps_run\":%" PRId64 ",\"clock_error_microseconds\":%.1f},\n", n_processes,
                   n_kept, timeline->n_steps_run, clock->error_seconds * 1e6);
    dt_text_append(&text, "\"traceEvents\":[");
    dt_text_append(&text, events);
    dt_text_append(&text, "\n]}\n");
    dt_status *status =
        text.failed ? dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory to write it") : dt_file_write_atomic(path, text.data, text.n);
    dt_text_free(&text);
    return status;
}

dt_status *dt_timeline_write(const dt_timeline *timeline, const dt_timeline_clock *clock, dt_processes *processes, bool alone, const char *program,
                             const char *path, dt_text *note) {
    dt_text mine = {0}, all = {0};
    int here = dt_processes_number(processes), n = alone ? 1 : dt_processes_count(processes);
    int64_t n_kept;
    print_events(timeline, clock, here, &mine, &n_kept);
    dt_text_append(&mine, n > 1 && here + 1 < n ? "," : "");
    dt_status *status = mine.failed ? dt_error_in(DT_RESOURCE_EXHAUSTED, path, 0, "not enough memory for the timeline") : NULL;
    if (status == NULL) status = dt_processes_gatherv(alone ? NULL : processes, mine.data, mine.n, &(dt_step_context){.step = "timeline"}, &all);
    dt_text_free(&mine);
    if (status == NULL && (here == 0 || alone)) {
        dt_text_append(&all, "");
        status = write_file(timeline, clock, all.data, n, n_kept, program, path);
        dt_text_format(note, "timeline %s: the last %" PRId64 " of %" PRId64 " step%s", path, n_kept, timeline->n_steps_run,
                       dt_plural(timeline->n_steps_run));
    }
    dt_text_free(&all);
    return status;
}
