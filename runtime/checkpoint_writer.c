/* checkpoint_writer: see checkpoint_writer.h. A thread for each checkpoint: starting one costs less than any of the syncs that it waits for. */
#include "runtime/checkpoint_writer.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/thread.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_plan.h"
#include "runtime/devices/host_memory.h"
#include "runtime/execution/launch_values.h"
#include "runtime/threads/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum {
    SPANS = 2 /* of a checkpoint in the timeline */
};

static const double LOOK_SECONDS = 0.05; /* between two looks at what the thread is at, while it is waited for */

/* What a process tells process 0, before the sums of its parts. */
typedef struct report {
    int32_t code; /* of what failed; 0: nothing did */
    char error[508];
    double stall_seconds;
} report;

struct dt_checkpoint_writer {
    dt_session *session;
    dt_processes *processes;
    dt_checkpoint_writer_options options;
    dt_arena *arena; /* of the plan, and what is exchanged */
    dt_checkpoint_plan plan;
    unsigned char (*sums)[DT_SHA256_BYTES]; /* [n parts] */
    dt_exchange *reports;                   /* NULL: one process writes */
    int64_t *ends;                          /* [processes] of each one's report, in process 0 */
    report *mine;
    char *copy;
    uint64_t n_begun; /* checkpoints: the same in all processes */
    dt_checkpoint_state state;
    dt_total *totals;      /* of the state */
    char *place;           /* the same */
    dt_text launch;        /* the same */
    dt_recorder *recorder; /* of the thread */

    pthread_t thread;
    bool is_writing;              /* there is a thread, which has not been joined */
    atomic_bool has_ended;        /* the thread: what follows is the caller's again */
    atomic_bool waits_for_others; /* it has written what it was to write */
    char *path;                   /* of what is whole; NULL: nothing yet */
    double stall_seconds;
    dt_status *status;
};

static dt_status *no_memory(void) { return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory"); }

/* ---- creating ---- */

int64_t dt_checkpoint_copy_bytes(const dt_artifact *artifact, const dt_session_options *options, bool is_shared) {
    jmp_buf guard;
    dt_checkpoint_plan plan;
    dt_arena *arena = dt_arena_create();
    if (arena == NULL || setjmp(guard) != 0) {
        dt_arena_destroy(arena);
        return INT64_MAX;
    }
    dt_arena_guard(arena, &guard);
    dt_status *status = dt_checkpoint_plan_make(artifact, options, is_shared, arena, &plan);
    dt_arena_destroy(arena);
    dt_status_free(status); /* the session says it */
    return plan.copy_bytes;
}

/* What other processes tell process 0; of those that write nothing, nothing. */
static void make_reports(dt_checkpoint_writer *writer) {
    int n = dt_processes_count(writer->processes);
    int64_t bytes = 0, mine = 0;
    writer->ends = DT_NEW_ARRAY(writer->arena, int64_t, n);
    for (int p = 0; p < n; p++) {
        int64_t own = (int64_t)sizeof(report) + (int64_t)dt_checkpoint_plan_n_parts(&writer->plan, p) * DT_SHA256_BYTES;
        if (p < writer->plan.n_writers) bytes += own;
        if (p == writer->plan.process) mine = own;
        writer->ends[p] = bytes;
    }
    writer->mine = dt_arena_new(writer->arena, (size_t)mine);
    if (writer->plan.n_writers > 1)
        writer->reports = dt_processes_new_gatherv(writer->processes, writer->mine, writer->ends, "what was written", writer->arena);
}

static dt_status *start_thread(dt_checkpoint_writer *writer, void *work(void *)) {
    atomic_store(&writer->has_ended, false);
    int reason = pthread_create(&writer->thread, NULL, work, writer);
    if (reason != 0) return dt_status_annotate(dt_thread_error(reason), "writing checkpoints");
    writer->is_writing = true;
    return NULL;
}

/* While the first steps run: no step waits for the system to find its pages. */
static void *touch_copy(void *argument) {
    dt_checkpoint_writer *self = argument;
    memset(self->copy, 0, (size_t)self->plan.copy_bytes);
    atomic_store(&self->has_ended, true);
    return NULL;
}

static dt_status *create_guarded(dt_checkpoint_writer *writer) {
    jmp_buf guard;
    writer->arena = dt_arena_create();
    if (writer->arena == NULL || setjmp(guard) != 0) return no_memory();
    dt_arena_guard(writer->arena, &guard);
    DT_TRY(dt_checkpoint_plan_make(dt_session_artifact(writer->session), dt_session_get_options(writer->session), writer->options.mark != 0,
                                   writer->arena, &writer->plan));
    writer->sums = dt_arena_new_array(writer->arena, writer->plan.parts.n, sizeof *writer->sums);
    make_reports(writer);
    dt_arena_guard(writer->arena, NULL);
    writer->copy = dt_host_memory_allocate((size_t)writer->plan.copy_bytes);
    if (writer->copy == NULL)
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the copy of the variables that checkpoints are written from");
    DT_TRY(dt_timeline_add_thread(writer->options.timeline, SPANS, &writer->recorder, "checkpoints"));
    return writer->plan.copy_bytes > 0 ? start_thread(writer, touch_copy) : NULL;
}

dt_status *dt_checkpoint_writer_create(dt_session *session, const dt_checkpoint_writer_options *options, dt_checkpoint_writer **writer) {
    dt_checkpoint_writer *made = dt_allocate_zeroed(1, sizeof *made);
    *writer = NULL;
    if (made == NULL) return no_memory();
    made->session = session;
    made->processes = dt_session_get_options(session)->processes;
    made->options = *options;
    dt_status *status = create_guarded(made);
    if (status == NULL)
        *writer = made;
    else
        dt_checkpoint_writer_destroy(made);
    return status;
}

static void destroy_arena(void *arena, size_t bytes) {
    (void)bytes;
    dt_arena_destroy(arena);
}

void dt_checkpoint_writer_destroy(dt_checkpoint_writer *writer) {
    if (writer == NULL) return;
    if (writer->is_writing) pthread_join(writer->thread, NULL);
    if (writer->reports != NULL) dt_processes_settle(writer->processes);
    if (writer->arena != NULL) dt_processes_release(writer->processes, destroy_arena, writer->arena, 0);
    dt_status_free(writer->status);
    for (int f = 0; f < DT_CHECKPOINT_FILES; f++) dt_release(writer->state.files[f].items);
    dt_text_free(&writer->launch);
    dt_release(writer->place);
    dt_release(writer->path);
    dt_release(writer->totals);
    dt_host_memory_release(writer->copy, (size_t)writer->plan.copy_bytes);
    dt_release(writer);
}

/* ---- writing ---- */

static void record(dt_checkpoint_writer *writer, dt_recorder *recorder, dt_span_kind kind, const char *name, double began) {
    dt_span span = {.began = began, .kind = kind, .name = name, .step = "train", .number = writer->state.step - 1};
    if (kind == DT_SPAN_CHECKPOINT) span.bytes = writer->plan.copy_bytes;
    dt_recorder_end(recorder, span);
}

static dt_recorder *main_recorder(const dt_checkpoint_writer *writer) { return dt_timeline_main(writer->options.timeline); }

/* What the run can go on from, though this checkpoint was not written. */
static dt_status *advise(dt_status *status, const char *folder) {
    dt_code code = dt_status_code(status);
    char *newest = NULL;
    if (code != DT_IO && code != DT_RESOURCE_EXHAUSTED && code != DT_NOT_FOUND) return status;
    dt_status *unknown = dt_checkpoint_newest(folder, &newest);
    dt_status *advised = newest != NULL ? dt_error(code, "%s; then --resume goes on from %s", dt_status_message(status), newest) : NULL;
    dt_status_free(unknown);
    dt_release(newest);
    if (advised == NULL) return status;
    dt_status_free(status);
    return advised;
}

/* What a process says, `said`, as process 0 has it. */
static dt_status *hear(dt_checkpoint_writer *self, int process, const report *said) {
    const unsigned char(*sums)[DT_SHA256_BYTES] = (const void *)(said + 1);
    if (said->stall_seconds > self->stall_seconds) self->stall_seconds = said->stall_seconds;
    for (size_t i = 0, n = 0; i < self->plan.parts.n; i++)
        if (self->plan.parts.items[i].writer == process) memcpy(self->sums[i], sums[n++], sizeof *sums);
    if (said->code == 0) return NULL;
    char name[160];
    dt_processes_print_name(self->processes, process, name, sizeof name);
    return dt_error((dt_code)said->code, "%s: %.*s", name, (int)sizeof said->error, said->error);
}

/* All tell process 0 how they got on, who tells it of its own, and of what failed anywhere. */
static dt_status *exchange_reports(dt_checkpoint_writer *self, dt_status *status) {
    unsigned char(*sums)[DT_SHA256_BYTES] = (void *)(self->mine + 1);
    bool leads = self->plan.process == 0;
    if (self->reports == NULL) return status;
    *self->mine = (report){.code = (int32_t)dt_status_code(status), .stall_seconds = self->stall_seconds};
    if (status != NULL) snprintf(self->mine->error, sizeof self->mine->error, "%s", dt_status_message(status));
    for (size_t i = 0, n = 0; i < self->plan.parts.n && !leads; i++)
        if (self->plan.parts.items[i].writer == self->plan.process) memcpy(sums[n++], self->sums[i], sizeof *sums);
    atomic_store(&self->waits_for_others, true);
    dt_processes_begin(self->processes, self->reports, &(dt_step_context){.step = "checkpoint", .number = self->state.step - 1});
    status = dt_status_first(status, dt_processes_wait(self->processes, self->reports, self->reports->n_begun));
    atomic_store(&self->waits_for_others, false);
    for (int p = 1; p < self->plan.n_writers && leads && status == NULL; p++)
        status = hear(self, p, (const report *)(const void *)dt_exchange_at(self->reports, 0, self->ends[p - 1]));
    return status;
}

/* For progress.json. */
static dt_status *list_ranges(dt_checkpoint_writer *self) {
    for (int f = 0; f < DT_CHECKPOINT_FILES; f++) {
        dt_file_ranges *ranges = &self->state.files[f];
        dt_file_range *items = dt_reallocate(ranges->items, self->plan.parts.n * sizeof *items);
        if (items == NULL) return no_memory();
        *ranges = (dt_file_ranges){.items = items};
        for (size_t i = 0; i < self->plan.parts.n; i++) {
            const dt_checkpoint_part *part = &self->plan.parts.items[i];
            if (part->file != f) continue;
            items[ranges->n] = (dt_file_range){part->bytes.first, part->bytes.n_bytes, part->bytes.stride, part->bytes.times, {0}};
            memcpy(items[ranges->n++].sha256, self->sums[i], sizeof *self->sums);
        }
    }
    return NULL;
}

static dt_status *finish(dt_checkpoint_writer *self, const char *unfinished) {
    const dt_checkpoint_writer_options *options = &self->options;
    const dt_checkpoint_state *state = &self->state;
    DT_TRY(list_ranges(self));
    DT_TRY(dt_checkpoint_publish(options->folder, unfinished, state, &self->path));
    return dt_checkpoint_prune(options->folder, options->keep, state->has_best ? state->best_step : -1);
}

static void *write_copy(void *argument) {
    dt_checkpoint_writer *self = argument;
    const dt_checkpoint_writer_options *options = &self->options;
    char *unfinished = NULL;
    double began = dt_recorder_now(self->recorder);
    uint64_t mark = options->mark != 0 ? options->mark + 2 * self->n_begun : 0; /* odd: two of one step are two folders */
    dt_status *status = dt_checkpoint_make_unfinished(options->folder, self->state.step, mark, &unfinished);
    if (status == NULL)
        status = dt_checkpoint_plan_write(&self->plan, self->session, self->copy, unfinished, self->state.step, options->progress, self->sums);
    status = exchange_reports(self, status);
    if (status == NULL && self->plan.process == 0) status = finish(self, unfinished);
    if (status != NULL && self->plan.process == 0 && unfinished != NULL) dt_status_free(dt_file_remove_tree(unfinished));
    self->status = status != NULL ? advise(status, options->folder) : NULL;
    dt_release(unfinished);
    record(self, self->recorder, DT_SPAN_CHECKPOINT, "write checkpoint", began);
    atomic_store(&self->has_ended, true);
    return NULL;
}

/* ---- the caller's side ---- */

static dt_status *copy_state(dt_checkpoint_writer *writer, const dt_checkpoint_state *state) {
    size_t bytes = (size_t)state->n_totals * sizeof *state->totals;
    dt_total *totals = bytes > 0 ? dt_reallocate(writer->totals, bytes) : writer->totals;
    dt_file_ranges files[DT_CHECKPOINT_FILES];
    if (bytes > 0 && totals == NULL) return no_memory();
    if (bytes > 0) memcpy(totals, state->totals, bytes);
    writer->totals = totals;
    memcpy(files, writer->state.files, sizeof files);
    writer->state = *state;
    memcpy(writer->state.files, files, sizeof files);
    writer->state.totals = totals;
    DT_TRY(dt_checkpoint_state_set(&writer->place, state->place));
    writer->state.place = writer->place;
    dt_text_free(&writer->launch);
    DT_TRY(dt_session_print_launch(writer->session, &writer->launch));
    writer->state.launch = writer->launch.data;
    return NULL;
}

static dt_status *copy_variables(dt_checkpoint_writer *writer) {
    for (size_t i = 0; i < writer->plan.pieces.n; i++) {
        const dt_checkpoint_piece *piece = &writer->plan.pieces.items[i];
        if (piece->copied < 0) continue;
        const dt_strided_range *bytes = &piece->bytes;
        for (int64_t time = 0; time < bytes->times; time++) {
            dt_byte_range one = {bytes->first + time * bytes->stride, bytes->n_bytes};
            DT_TRY(dt_ranges_read(writer->session, 0, piece->variable, one, writer->copy + piece->copied + time * bytes->n_bytes));
        }
    }
    return NULL;
}

/* Tells what was written, or how that failed. */
static dt_status *conclude(dt_checkpoint_writer *writer) {
    if (writer->path != NULL) writer->options.written(writer->options.context, writer->path, writer->state.step, writer->stall_seconds);
    dt_release(writer->path);
    writer->path = NULL;
    dt_status *status = writer->status;
    writer->status = NULL;
    return status;
}

/* Where something is collected, which the caller's thread does. */
static dt_status *write_at_once(dt_checkpoint_writer *writer, double began) {
    if (writer->plan.process != 0) return dt_checkpoint_plan_give(&writer->plan, writer->session, writer->state.step);
    dt_progress_set(writer->options.progress, DT_ACTIVITY_WRITING);
    write_copy(writer);
    dt_progress_set(writer->options.progress, DT_ACTIVITY_COMPUTING);
    writer->stall_seconds = dt_seconds_now() - began;
    return conclude(writer);
}

dt_status *dt_checkpoint_writer_begin(dt_checkpoint_writer *writer, const dt_checkpoint_state *state) {
    if (writer == NULL) return NULL;
    double began = dt_seconds_now();
    DT_TRY(dt_checkpoint_writer_wait(writer));
    double copying = dt_recorder_now(main_recorder(writer));
    writer->n_begun++;
    DT_TRY(copy_state(writer, state));
    DT_TRY(copy_variables(writer));
    record(writer, main_recorder(writer), DT_SPAN_CHECKPOINT, "copy variables", copying);
    if (writer->plan.collects) return write_at_once(writer, began);
    if (writer->plan.process >= writer->plan.n_writers) return NULL;
    writer->stall_seconds = dt_seconds_now() - began;
    return start_thread(writer, write_copy);
}

dt_status *dt_checkpoint_writer_look(dt_checkpoint_writer *writer) {
    return writer != NULL && writer->is_writing && atomic_load(&writer->has_ended) ? dt_checkpoint_writer_wait(writer) : NULL;
}

dt_status *dt_checkpoint_writer_wait(dt_checkpoint_writer *writer) {
    if (writer == NULL || !writer->is_writing) return NULL;
    dt_progress *progress = writer->options.progress;
    bool waits = !atomic_load(&writer->has_ended);
    double began = dt_recorder_now(main_recorder(writer));
    if (waits) dt_progress_set(progress, DT_ACTIVITY_WRITING);
    /* Who waits for the others' reports is not to blame for what they take. */
    for (bool for_others = false; !dt_thread_join(writer->thread, LOOK_SECONDS);) {
        if (atomic_load(&writer->waits_for_others) == for_others) continue;
        for_others = !for_others;
        dt_progress_set(progress, for_others ? DT_ACTIVITY_WAITING : DT_ACTIVITY_WRITING);
    }
    if (waits) dt_progress_set(progress, DT_ACTIVITY_COMPUTING);
    if (waits) record(writer, main_recorder(writer), DT_SPAN_WAIT, "wait for checkpoint", began);
    writer->is_writing = false;
    return conclude(writer);
}
