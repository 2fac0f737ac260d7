/* checkpoint_writer: see checkpoint_writer.h. A thread for each checkpoint: starting one costs less than any of the syncs that it waits for. */
#include "runtime/checkpoint_writer.h"

#include "base/memory.h"
#include "base/thread.h"
#include "runtime/checkpoint.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    ALIGNMENT = 64, /* of each variable in the copy */
    SPANS = 2       /* of a checkpoint in the timeline */
};

struct dt_checkpoint_writer {
    dt_session *session;
    dt_checkpoint_writer_options options;
    char *memory;           /* the copy */
    const void **variables; /* [n_variables] in it; NULL: what is collected in parts */
    bool in_parts;          /* there are such */
    int64_t copy_bytes;
    dt_checkpoint_state state;
    dt_total *totals;      /* of the state */
    dt_recorder *recorder; /* of the thread */

    pthread_t thread;
    bool is_writing;       /* there is a thread, which has not been joined */
    atomic_bool has_ended; /* the thread: what follows is the caller's again */
    char *path;            /* of what is whole; NULL: nothing yet */
    dt_status *status;
};

static int64_t aligned(int64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

int64_t dt_checkpoint_copy_bytes(const dt_artifact *artifact, const dt_session_options *options) {
    int64_t bytes = 0;
    for (int v = 0; v < artifact->n_variables; v++)
        if (!dt_session_collects_in_parts(&artifact->variables[v], options)) bytes += aligned(artifact->variables[v].bytes);
    return bytes;
}

dt_status *dt_checkpoint_writer_create(dt_session *session, const dt_checkpoint_writer_options *options, dt_checkpoint_writer **writer) {
    const dt_artifact *artifact = dt_session_artifact(session);
    dt_checkpoint_writer *made = dt_allocate_zeroed(1, sizeof *made);
    *writer = NULL;
    if (made == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    made->session = session;
    made->options = *options;
    for (int v = 0; v < artifact->n_variables; v++) made->in_parts |= dt_session_is_in_parts(session, v);
    made->copy_bytes = dt_checkpoint_copy_bytes(artifact, dt_session_get_options(session));
    made->memory = dt_allocate((size_t)made->copy_bytes);
    made->variables = dt_allocate_zeroed((size_t)artifact->n_variables, sizeof *made->variables);
    dt_status *status = dt_timeline_add_thread(options->timeline, SPANS, &made->recorder, "checkpoints");
    if (status == NULL && (made->memory == NULL || made->variables == NULL))
        status = dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for the copy of all variables that checkpoints are written from");
    if (status != NULL) {
        dt_checkpoint_writer_destroy(made);
        return status;
    }
    int64_t place = 0;
    for (int v = 0; v < artifact->n_variables; v++) {
        if (dt_session_is_in_parts(session, v)) continue;
        made->variables[v] = made->memory + place;
        place += aligned(artifact->variables[v].bytes);
    }
    *writer = made;
    return NULL;
}

void dt_checkpoint_writer_destroy(dt_checkpoint_writer *writer) {
    if (writer == NULL) return;
    if (writer->is_writing) pthread_join(writer->thread, NULL);
    dt_status_free(writer->status);
    dt_release(writer->path);
    dt_release(writer->totals);
    dt_release(writer->variables);
    dt_release(writer->memory);
    dt_release(writer);
}

static void record(dt_checkpoint_writer *writer, dt_recorder *recorder, dt_span_kind kind, const char *name, double began) {
    dt_span span = {.began = began, .kind = kind, .name = name, .step = "train", .number = writer->state.step - 1};
    if (kind == DT_SPAN_CHECKPOINT) span.bytes = writer->copy_bytes;
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

static void *write_copy(void *argument) {
    dt_checkpoint_writer *self = argument;
    const dt_checkpoint_writer_options *options = &self->options;
    dt_checkpoint_state *state = &self->state;
    dt_checkpoint_source source = {dt_session_artifact(self->session), self->variables, self->session, options->progress};
    double began = dt_recorder_now(self->recorder);
    self->status = dt_checkpoint_save(&source, options->folder, state, &self->path);
    if (self->status == NULL) self->status = dt_checkpoint_prune(options->folder, options->keep, state->has_best ? state->best_step : -1);
    if (self->status != NULL) self->status = advise(self->status, options->folder);
    record(self, self->recorder, DT_SPAN_CHECKPOINT, "write checkpoint", began);
    atomic_store(&self->has_ended, true);
    return NULL;
}

static dt_status *copy_state(dt_checkpoint_writer *writer, const dt_checkpoint_state *state) {
    size_t bytes = (size_t)state->n_totals * sizeof *state->totals;
    dt_total *totals = bytes > 0 ? dt_reallocate(writer->totals, bytes) : writer->totals;
    if (bytes > 0 && totals == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    if (bytes > 0) memcpy(totals, state->totals, bytes);
    writer->totals = totals;
    writer->state = *state;
    writer->state.totals = totals;
    return NULL;
}

/* Tells what was written, or how that failed. */
static dt_status *conclude(dt_checkpoint_writer *writer) {
    if (writer->path != NULL) writer->options.written(writer->options.context, writer->path, writer->state.step);
    dt_release(writer->path);
    writer->path = NULL;
    dt_status *status = writer->status;
    writer->status = NULL;
    return status;
}

/* By the caller's thread, which is the one that collects. */
static dt_status *write_in_parts(dt_checkpoint_writer *writer) {
    dt_progress_set(writer->options.progress, DT_ACTIVITY_WRITING);
    write_copy(writer);
    dt_progress_set(writer->options.progress, DT_ACTIVITY_COMPUTING);
    return conclude(writer);
}

dt_status *dt_checkpoint_writer_give(dt_session *session) {
    for (int v = 0; v < dt_session_artifact(session)->n_variables; v++)
        if (!dt_session_is_in_parts(session, v)) DT_TRY(dt_session_collect_variable(session, v, NULL));
    return dt_checkpoint_give_parts(session);
}

dt_status *dt_checkpoint_writer_begin(dt_checkpoint_writer *writer, const dt_checkpoint_state *state) {
    if (writer == NULL) return NULL;
    DT_TRY(dt_checkpoint_writer_wait(writer));
    double began = dt_recorder_now(main_recorder(writer));
    DT_TRY(copy_state(writer, state));
    for (int v = 0; v < dt_session_artifact(writer->session)->n_variables; v++)
        if (writer->variables[v] != NULL) DT_TRY(dt_session_collect_variable(writer->session, v, (void *)(uintptr_t)writer->variables[v]));
    record(writer, main_recorder(writer), DT_SPAN_CHECKPOINT, "copy variables", began);
    if (writer->in_parts) return write_in_parts(writer);
    atomic_store(&writer->has_ended, false);
    int reason = pthread_create(&writer->thread, NULL, write_copy, writer);
    if (reason != 0) return dt_status_annotate(dt_thread_error(reason), "writing checkpoints");
    writer->is_writing = true;
    return NULL;
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
    pthread_join(writer->thread, NULL);
    if (waits) dt_progress_set(progress, DT_ACTIVITY_COMPUTING);
    if (waits) record(writer, main_recorder(writer), DT_SPAN_WAIT, "wait for checkpoint", began);
    writer->is_writing = false;
    return conclude(writer);
}
