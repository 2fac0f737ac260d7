/* pipeline: see pipeline.h. A ring of batches: a thread takes the next one to be made, asks the order for its items while no other thread does,
 * and copies the examples, beside the other threads, to where the devices will read them. The caller takes them in order. */
#include "runtime/data/pipeline.h"

#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "runtime/artifact/type_text.h"
#include "runtime/data/examples.h"
#include "runtime/data/order.h"
#include "runtime/data/source.h"
#include "runtime/data/stages.h"
#include "runtime/data/tokenizer.h"
#include "runtime/threads/clock.h"

#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_THREADS = 4,           /* where the caller leaves the number to us */
    POLL_NANOSECONDS = 50000000 /* between two looks at options.stop, which a signal sets and nobody announces */
};

typedef struct slot {
    void *memory;
    void **inputs;   /* [n_columns], in memory */
    int64_t *items;  /* [rows that are known][words] */
    uint64_t *marks; /* [rows that are known][columns of the source], 0: not known; NULL: none are kept */
    int64_t rows;    /* valid ones of the whole batch */
    int64_t first;   /* its position */
    bool ready;
    dt_status *status; /* of making it */
} slot;

typedef struct worker {
    dt_pipeline *pipeline;
    dt_example_maker *maker;
    dt_recorder *recorder;
    pthread_t thread;
    bool started;
} worker;

struct dt_pipeline {
    const dt_kernels *kernels;
    dt_pipeline_options options;
    const dt_given *batches; /* of the application, as it gives them: then there is no source, and nothing that belongs to one; or NULL */
    int64_t n_given;         /* of this epoch; -1: it was entered in the middle, so that nobody knows */
    int64_t given_rows;      /* of the last one; -1: there was none, because the run stops */
    char *place;             /* where to begin */
    const char *name;
    dt_stages stages;
    dt_source *source;
    dt_examples *examples;
    dt_order *order;
    dt_example_maker *filters; /* for the order's predicate; NULL without filters */
    int64_t global_batch, n_examples, epoch, position;
    int64_t started;                  /* where batches of this epoch begin */
    dt_row_range part;                /* of the global batch */
    dt_row_range known;               /* whose items are: all, where others' parts are compared */
    dt_row_range *parts;              /* [options.n_parts] */
    dt_example_maker *checker;        /* of dt_pipeline_compare_rows; NULL: it was not called yet */
    _Atomic int64_t mark_nanoseconds; /* for others' parts */
    bool failed;
    const dt_column *columns; /* [n_columns], of a finished example */
    int n_columns, n_slots, n_workers;
    slot *slots;
    worker *workers;

    pthread_mutex_t lock;   /* of all below */
    pthread_cond_t changed; /* anything of it */
    bool running, quitting, order_busy, exhausted;
    bool picks;                     /* batches: */
    int64_t picked[DT_MOST_PICKED]; /* by their number of this epoch */
    int64_t n_picked;
    int64_t walked;           /* where the order is, while batches are picked */
    bool ended;               /* no batch is begun any more, and all files are read: */
    dt_status *end_status;    /* whether they are whole */
    int n_busy;               /* workers that make a batch */
    int64_t n_begun, n_taken; /* batches of this epoch */
    bool holding;             /* the caller still has batch n_taken - 1 */
    atomic_bool abandoned;    /* what is being made is thrown away: read without the lock */

    int64_t *past_items; /* as a slot's, of the batch that the caller had before: while it looks at one, it may have taken the next */
    int64_t past_rows;
};

static dt_status *no_memory(const dt_pipeline *pipeline) {
    return dt_error(DT_RESOURCE_EXHAUSTED, "data %s: out of memory for %d batches of %lld examples", pipeline->name, pipeline->n_slots,
                    (long long)(pipeline->part.end - pipeline->part.first));
}

/* The order asks. No worker is inside dt_order_next at the same time, so `filters` has one user. */
static dt_status *passes_filter(void *context, int stage, const int64_t *item, bool *keep) {
    dt_pipeline *pipeline = context;
    if (atomic_load(&pipeline->abandoned)) return dt_error(DT_ABORTED, "data %s: nobody waits for it", pipeline->name);
    dt_progress_count(pipeline->options.progress);
    return dt_example_filter(pipeline->filters, stage, pipeline->epoch, item, keep);
}

/* The row of the source that an item is made from. `below` has room for an item. */
static int64_t source_row(const dt_pipeline *pipeline, const int64_t *item, int64_t *below) {
    if (pipeline->stages.cache < 0) return item[0];
    dt_order_cached_item(pipeline->order, item[0], below);
    return below[0];
}

/* An example of this process's part. Its marks are kept, whatever becomes of it; an index out of range says where it is from. */
static dt_status *make_example(const dt_pipeline *pipeline, dt_example_maker *maker, slot *batch, int64_t row, const dt_component **components) {
    int n_words = dt_order_item_words(pipeline->order), n_columns = pipeline->source->n_columns;
    int64_t at = pipeline->part.first - pipeline->known.first + row, *item = batch->items + at * n_words;
    dt_status *status = dt_example_make(maker, pipeline->epoch, item, components);
    if (batch->marks != NULL) memcpy(batch->marks + at * n_columns, dt_example_marks(maker), (size_t)n_columns * sizeof *batch->marks);
    int64_t *below = dt_status_code(status) == DT_OUT_OF_RANGE ? dt_allocate((size_t)n_words * sizeof *below) : NULL;
    if (below == NULL) return status;
    dt_text place = {0};
    dt_source_name_row(pipeline->source, source_row(pipeline, item, below), &place);
    dt_status *longer = dt_error(DT_OUT_OF_RANGE, "%s; that is %s", dt_status_message(status), place.failed ? "one of its files" : place.data);
    dt_status_free(status);
    dt_text_free(&place);
    dt_release(below);
    return longer;
}

/* Marks of what another process reads, of what is here: those that cost no reading, and some of the others. */
static dt_status *mark_part(const dt_pipeline *pipeline, dt_example_maker *maker, slot *batch, dt_row_range part, int64_t *below) {
    int n_words = dt_order_item_words(pipeline->order), n_columns = pipeline->source->n_columns;
    int64_t n_rows = dt_row_range_valid(part, batch->rows), n_read = 0;
    for (int64_t index = 0; index < n_rows && n_read < DT_MARK_READ_BYTES && !atomic_load(&pipeline->abandoned); index++) {
        int64_t at = part.first + dt_marks_row(index, n_rows, n_columns, batch->first / pipeline->global_batch);
        int64_t row = source_row(pipeline, batch->items + at * n_words, below);
        DT_TRY(dt_example_mark_row(maker, row, batch->marks + at * n_columns, &n_read));
        dt_progress_count(pipeline->options.progress);
    }
    return NULL;
}

static bool is_part_here(const dt_pipeline *pipeline, dt_row_range part) {
    return part.first == pipeline->part.first && part.end == pipeline->part.end;
}

static dt_status *mark_others(dt_pipeline *pipeline, dt_example_maker *maker, slot *batch) {
    dt_status *status = NULL;
    double began = dt_seconds_now();
    if (pipeline->parts == NULL) return NULL;
    int64_t *below = dt_allocate((size_t)dt_order_item_words(pipeline->order) * sizeof *below);
    if (below == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int p = 0; p < pipeline->options.n_parts && status == NULL; p++)
        if (!is_part_here(pipeline, pipeline->parts[p])) status = mark_part(pipeline, maker, batch, pipeline->parts[p], below);
    dt_release(below);
    atomic_fetch_add(&pipeline->mark_nanoseconds, (int64_t)((dt_seconds_now() - began) * 1e9));
    return status;
}

static dt_status *fill(const dt_pipeline *pipeline, dt_example_maker *maker, slot *batch) {
    int64_t n_rows = dt_row_range_valid(pipeline->part, batch->rows);
    size_t n_marks = (size_t)(pipeline->known.end - pipeline->known.first) * (size_t)pipeline->source->n_columns;
    if (batch->marks != NULL) memset(batch->marks, 0, n_marks * sizeof *batch->marks);
    for (int64_t row = 0; row < n_rows && !atomic_load(&pipeline->abandoned); row++) {
        const dt_component *components;
        DT_TRY(make_example(pipeline, maker, batch, row, &components));
        dt_progress_count(pipeline->options.progress);
        for (int i = 0; i < pipeline->n_columns; i++) {
            size_t row_bytes = (size_t)pipeline->columns[i].tensor.row_bytes;
            memcpy((char *)batch->inputs[i] + (size_t)row * row_bytes, components[i].bytes, row_bytes);
        }
    }
    return NULL;
}

/* The epoch counts as whole when the files are. The lock is held on entry and on return. */
static void end_epoch(dt_pipeline *pipeline) {
    pthread_mutex_unlock(&pipeline->lock);
    dt_status *status = dt_source_wait(pipeline->source, pipeline->source->n_examples);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->end_status = status;
    pipeline->ended = true;
}

/* The order, to a picked batch: one that has to be walked goes on where it is, if that is before. */
static dt_status *go_to(dt_pipeline *pipeline, int64_t position) {
    int64_t from = pipeline->walked, n_given;
    pipeline->walked = position + pipeline->global_batch;
    if (position == from) return NULL;
    if (position < from || !dt_order_is_walked(pipeline->order)) return dt_order_start(pipeline->order, pipeline->epoch, position);
    return dt_order_next(pipeline->order, position - from, (dt_row_range){0}, NULL, &n_given);
}

/* Makes one batch; after the last one, waits for the end of the files. The lock is held on entry and on return, but not in between. */
static void make_batch(dt_pipeline *pipeline, const worker *self) {
    int64_t number = pipeline->n_begun++;
    slot *batch = &pipeline->slots[number % pipeline->n_slots];
    double began = dt_recorder_now(self->recorder);
    bool picks = pipeline->picks;
    batch->first = picks ? pipeline->picked[number % DT_MOST_PICKED] * pipeline->global_batch : pipeline->started + number * pipeline->global_batch;
    pipeline->order_busy = true;
    pipeline->n_busy++;
    pthread_mutex_unlock(&pipeline->lock);
    dt_status *status = picks ? go_to(pipeline, batch->first) : NULL;
    if (status == NULL) status = dt_order_next(pipeline->order, pipeline->global_batch, pipeline->known, batch->items, &batch->rows);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->order_busy = false;
    bool is_last = status != NULL || (!picks && batch->rows < pipeline->global_batch), is_empty = !picks && status == NULL && batch->rows == 0;
    pipeline->exhausted = is_last;
    pipeline->n_begun -= is_empty;
    pthread_cond_broadcast(&pipeline->changed);
    if (status == NULL) {
        pthread_mutex_unlock(&pipeline->lock);
        status = fill(pipeline, self->maker, batch);
        if (status == NULL) status = mark_others(pipeline, self->maker, batch);
        pthread_mutex_lock(&pipeline->lock);
    }
    dt_recorder_end(self->recorder, (dt_span){.began = began, .kind = DT_SPAN_DATA, .name = "make batch", .step = pipeline->name, .number = number});
    batch->status = status;
    batch->ready = !is_empty;
    pthread_cond_broadcast(&pipeline->changed);
    if (is_last) end_epoch(pipeline);
    pipeline->n_busy--;
    pthread_cond_broadcast(&pipeline->changed);
}

static bool can_make(const dt_pipeline *pipeline) {
    int64_t n_kept = pipeline->n_begun - pipeline->n_taken + pipeline->holding;
    bool is_wanted = !pipeline->picks || pipeline->n_begun < pipeline->n_picked;
    return pipeline->running && is_wanted && !pipeline->exhausted && !pipeline->order_busy && n_kept < pipeline->n_slots;
}

static void *work(void *argument) {
    worker *self = argument;
    dt_pipeline *pipeline = self->pipeline;
    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->quitting) {
        if (can_make(pipeline))
            make_batch(pipeline, self);
        else
            pthread_cond_wait(&pipeline->changed, &pipeline->lock);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

/* Stops making batches and forgets those that were made. */
static void halt(dt_pipeline *pipeline) {
    pthread_mutex_lock(&pipeline->lock);
    pipeline->running = false;
    atomic_store(&pipeline->abandoned, true);
    while (pipeline->n_busy > 0) pthread_cond_wait(&pipeline->changed, &pipeline->lock);
    atomic_store(&pipeline->abandoned, false);
    dt_status_free(pipeline->end_status);
    pipeline->end_status = NULL;
    for (int i = 0; i < pipeline->n_slots; i++) {
        dt_status_free(pipeline->slots[i].status);
        pipeline->slots[i].status = NULL;
        pipeline->slots[i].ready = false;
    }
    pipeline->n_begun = pipeline->n_taken = pipeline->n_picked = 0;
    pipeline->holding = pipeline->exhausted = pipeline->ended = false;
    pipeline->past_rows = 0;
    pthread_mutex_unlock(&pipeline->lock);
}

/* One block a slot, each component at a multiple of DT_BUFFER_ALIGNMENT and followed by slack. */
static dt_status *make_slots(dt_pipeline *pipeline) {
    int n_words = dt_order_item_words(pipeline->order);
    pipeline->n_slots = (int)(pipeline->stages.prefetch < 1000 ? pipeline->stages.prefetch : 1000) + 1; /* the caller holds one */
    pipeline->slots = dt_allocate_zeroed((size_t)pipeline->n_slots, sizeof *pipeline->slots);
    if (pipeline->slots == NULL) return no_memory(pipeline);
    size_t n_rows = (size_t)(pipeline->part.end - pipeline->part.first), n_bytes = 0, n_item_bytes, n_mark_bytes;
    size_t n_known = (size_t)(pipeline->known.end - pipeline->known.first);
    if (__builtin_mul_overflow(n_known, (size_t)n_words * sizeof(int64_t), &n_item_bytes)) return no_memory(pipeline);
    if (__builtin_mul_overflow(n_known, (size_t)pipeline->source->n_columns * sizeof(uint64_t), &n_mark_bytes)) return no_memory(pipeline);
    for (int i = 0; i < pipeline->n_columns; i++) {
        size_t n;
        if (__builtin_mul_overflow(n_rows, (size_t)pipeline->columns[i].tensor.row_bytes, &n) || n > SIZE_MAX / 4 || n_bytes > SIZE_MAX / 4)
            return no_memory(pipeline);
        n_bytes += (n + DT_SLACK_BYTES + DT_BUFFER_ALIGNMENT - 1) / DT_BUFFER_ALIGNMENT * DT_BUFFER_ALIGNMENT;
    }
    pipeline->past_items = dt_allocate(n_item_bytes);
    if (pipeline->past_items == NULL) return no_memory(pipeline);
    for (int s = 0; s < pipeline->n_slots; s++) {
        slot *batch = &pipeline->slots[s];
        batch->memory = dt_allocate_zeroed(1, n_bytes + DT_BUFFER_ALIGNMENT);
        batch->inputs = dt_allocate_zeroed((size_t)pipeline->n_columns, sizeof *batch->inputs);
        batch->items = dt_allocate(n_item_bytes);
        if (pipeline->options.marks) batch->marks = dt_allocate_zeroed(n_mark_bytes + 1, 1);
        if (batch->memory == NULL || batch->inputs == NULL || batch->items == NULL || (pipeline->options.marks && batch->marks == NULL))
            return no_memory(pipeline);
        char *at = (char *)(((uintptr_t)batch->memory + DT_BUFFER_ALIGNMENT - 1) / DT_BUFFER_ALIGNMENT * DT_BUFFER_ALIGNMENT);
        for (int i = 0; i < pipeline->n_columns; i++) {
            batch->inputs[i] = at;
            at += (n_rows * (size_t)pipeline->columns[i].tensor.row_bytes + DT_SLACK_BYTES + DT_BUFFER_ALIGNMENT - 1) / DT_BUFFER_ALIGNMENT *
                  DT_BUFFER_ALIGNMENT;
        }
    }
    return NULL;
}

/* Those of the first epoch, walked where no stage before it can tell. */
static dt_status *count_examples(dt_pipeline *pipeline) {
    pipeline->n_examples = dt_order_n_examples(pipeline->order);
    if (pipeline->n_examples >= 0) return NULL;
    pipeline->n_examples = 0;
    DT_TRY(dt_order_start(pipeline->order, 0, 0));
    for (int64_t n_given = 1; n_given > 0; pipeline->n_examples += n_given)
        DT_TRY(dt_order_next(pipeline->order, pipeline->global_batch, (dt_row_range){0}, NULL, &n_given));
    if (pipeline->n_examples > 0) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "data %s: no example passes its filters", pipeline->name);
}

static dt_status *start_workers(dt_pipeline *pipeline, int n) {
    pipeline->workers = dt_allocate_zeroed((size_t)n, sizeof *pipeline->workers);
    if (pipeline->workers == NULL) return no_memory(pipeline);
    for (int i = 0; i < n; i++) {
        worker *self = &pipeline->workers[pipeline->n_workers++];
        self->pipeline = pipeline;
        DT_TRY(dt_example_maker_create(pipeline->examples, dt_order_item_words(pipeline->order), true, &self->maker));
        DT_TRY(dt_timeline_add_thread(pipeline->options.timeline, 1, &self->recorder, "data %s, thread %d", pipeline->name, i));
        int reason = pthread_create(&self->thread, NULL, work, self);
        if (reason != 0) return dt_status_annotate(dt_thread_error(reason), "data %s", pipeline->name);
        self->started = true;
    }
    return NULL;
}

static bool makes_all(const dt_pipeline *pipeline) { return pipeline->part.first == 0 && pipeline->part.end == pipeline->global_batch; }

static int count_stages(const dt_pipeline *pipeline, dt_stage_kind kind) {
    int n = 0;
    for (int i = 0; i < pipeline->stages.n; i++) n += pipeline->stages.stages[i].kind == kind;
    return n;
}

static int count_tokenizers(const dt_pipeline *pipeline) {
    int n = 0;
    for (int i = 0; i < pipeline->stages.n; i++) n += dt_tokenizer_opener_of(pipeline->stages.stages[i].kind) != NULL;
    return n;
}

static dt_status *find_rows(dt_pipeline *pipeline) {
    const dt_pipeline_options *options = &pipeline->options;
    int64_t rows = options->rows != 0 ? options->rows : pipeline->stages.rows;
    if (rows < 1 || options->replicas < 1 || __builtin_mul_overflow(rows, options->replicas, &pipeline->global_batch))
        return dt_error(DT_INVALID_ARGUMENT, "data %s: %lld rows for each of %lld replicas make no batch", pipeline->name, (long long)rows,
                        (long long)options->replicas);
    pipeline->part = options->part.end != 0 ? options->part : (dt_row_range){0, pipeline->global_batch};
    pipeline->known = pipeline->part;
    if (!options->marks || options->n_parts == 0) return NULL;
    pipeline->parts = dt_allocate((size_t)options->n_parts * sizeof *pipeline->parts);
    if (pipeline->parts == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    memcpy(pipeline->parts, options->parts, (size_t)options->n_parts * sizeof *pipeline->parts);
    pipeline->options.parts = NULL; /* the caller's */
    pipeline->known = (dt_row_range){0, pipeline->global_batch};
    return NULL;
}

static dt_status *open_source(dt_pipeline *pipeline, const dt_artifact_pipeline *written, bool by_row) {
    const dt_given *given = pipeline->options.given;
    dt_status *status =
        given != NULL ? given->open(given, &pipeline->source) : dt_source_open_pipeline(written, pipeline->options.folder, by_row, &pipeline->source);
    if (status == NULL && pipeline->stages.window.n != 0) status = dt_source_window(pipeline->source, &pipeline->stages.window, &pipeline->source);
    return dt_status_annotate(status, "data %s", pipeline->name);
}

/* Of batches that the application gives, nothing is to be opened. */
static dt_status *open_parts(dt_pipeline *pipeline, const dt_artifact_pipeline *written) {
    if (pipeline->batches != NULL) {
        pipeline->n_examples = pipeline->batches->n_examples;
        pipeline->global_batch = pipeline->options.rows * pipeline->options.replicas;
        pipeline->part = (dt_row_range){0, pipeline->global_batch};
        return NULL;
    }
    DT_TRY(dt_stages_parse(written, &pipeline->stages));
    DT_TRY(find_rows(pipeline));
    int n_maps = count_stages(pipeline, DT_STAGE_MAP), n_filters = count_stages(pipeline, DT_STAGE_FILTER);
    int n_words = 1 + n_maps + count_stages(pipeline, DT_STAGE_ENUMERATE); /* of an item */
    bool by_row = !makes_all(pipeline) && n_filters == 0;                  /* a filter looks at all examples */
    DT_TRY(open_source(pipeline, written, by_row));
    uint64_t seed = (uint64_t)pipeline->options.seed;
    DT_TRY(dt_examples_create(pipeline->kernels, &pipeline->stages, pipeline->source, pipeline->options.folder, seed,
                              pipeline->options.ignore_bad_index, pipeline->options.marks, &pipeline->examples));
    if (n_filters > 0) DT_TRY(dt_example_maker_create(pipeline->examples, n_words, pipeline->part.first == 0, &pipeline->filters));
    dt_order_options order = {.stages = &pipeline->stages,
                              .n_source = pipeline->source->n_examples,
                              .n_files = pipeline->source->n_files,
                              .file_ends = pipeline->source->file_ends,
                              .seed = seed,
                              .predicate = passes_filter,
                              .context = pipeline};
    DT_TRY(dt_order_create(&order, &pipeline->order));
    DT_TRY(dt_examples_attach(pipeline->examples, pipeline->order));
    if (pipeline->parts != NULL) DT_TRY(dt_examples_remember_marks(pipeline->examples));
    pipeline->columns = dt_examples_columns(pipeline->examples, &pipeline->n_columns);
    DT_TRY(make_slots(pipeline));
    DT_TRY(count_examples(pipeline));
    long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    bool computes = n_maps + n_filters + count_tokenizers(pipeline) > 0 || pipeline->source->computes;
    int n_threads = !computes || n_cores < 1 ? 1 : n_cores < MOST_THREADS ? (int)n_cores : MOST_THREADS;
    return start_workers(pipeline, pipeline->options.threads > 0 ? pipeline->options.threads : n_threads);
}

dt_status *dt_pipeline_open(const dt_kernels *kernels, const dt_artifact_pipeline *written, const dt_pipeline_options *options,
                            dt_pipeline **opened) {
    *opened = NULL;
    dt_pipeline *created = dt_allocate_zeroed(1, sizeof *created);
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->kernels = kernels;
    created->options = *options;
    created->batches = options->given != NULL && options->given->next != NULL ? options->given : NULL;
    created->name = written->name;
    pthread_condattr_t steady;
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_mutex_init(&created->lock, NULL);
    pthread_cond_init(&created->changed, &steady);
    pthread_condattr_destroy(&steady);
    dt_status *status = open_parts(created, written);
    created->options.folder = NULL; /* the caller's, and no longer needed */
    if (status != NULL) {
        dt_pipeline_close(created);
        return status;
    }
    *opened = created;
    return NULL;
}

void dt_pipeline_close(dt_pipeline *pipeline) {
    if (pipeline == NULL) return;
    pthread_mutex_lock(&pipeline->lock);
    pipeline->quitting = true;
    atomic_store(&pipeline->abandoned, true);
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    dt_source_cancel(pipeline->source);
    for (int i = 0; i < pipeline->n_workers; i++) {
        if (pipeline->workers[i].started) pthread_join(pipeline->workers[i].thread, NULL);
        dt_example_maker_destroy(pipeline->workers[i].maker);
    }
    for (int i = 0; pipeline->slots != NULL && i < pipeline->n_slots; i++) {
        dt_status_free(pipeline->slots[i].status);
        dt_release(pipeline->slots[i].memory);
        dt_release(pipeline->slots[i].inputs);
        dt_release(pipeline->slots[i].items);
        dt_release(pipeline->slots[i].marks);
    }
    dt_status_free(pipeline->end_status);
    dt_release(pipeline->past_items);
    dt_release(pipeline->slots);
    dt_release(pipeline->workers);
    dt_example_maker_destroy(pipeline->filters);
    dt_example_maker_destroy(pipeline->checker);
    dt_release(pipeline->parts);
    dt_examples_destroy(pipeline->examples);
    dt_order_destroy(pipeline->order);
    dt_source_close(pipeline->source);
    dt_stages_free(&pipeline->stages);
    dt_release(pipeline->place);
    pthread_mutex_destroy(&pipeline->lock);
    pthread_cond_destroy(&pipeline->changed);
    dt_release(pipeline);
}

static bool fits_input(const dt_artifact_tensor *given, const dt_artifact_tensor *input) {
    if (!input->has_rows || input->n_dims != given->n_dims + 1 || input->dtype != given->dtype) return false;
    for (int i = 0; i < given->n_dims; i++)
        if (given->dims[i] != input->dims[i + 1]) return false;
    return true;
}

dt_status *dt_pipeline_check(const dt_pipeline *pipeline, int step) {
    const dt_artifact *artifact = dt_kernels_artifact(pipeline->kernels);
    const dt_artifact_function *function = &artifact->functions[artifact->steps[step].function];
    const char *name = artifact->steps[step].name;
    if (pipeline->batches != NULL) return NULL;
    if (function->n_inputs != pipeline->n_columns)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: an example has %d component%s, but step %s takes %d input%s", pipeline->name,
                        pipeline->n_columns, dt_plural(pipeline->n_columns), name, function->n_inputs, dt_plural(function->n_inputs));
    for (int i = 0; i < pipeline->n_columns; i++) {
        const dt_artifact_tensor *given = &pipeline->columns[i].tensor, *input = &function->inputs[i];
        if (fits_input(given, input)) continue;
        dt_text is = {0}, wanted = {0};
        dt_text_append_type(&is, given->dtype, given->n_dims, given->dims);
        dt_text_append_type(&wanted, input->dtype, input->n_dims, input->dims);
        dt_status *status =
            dt_error_in(DT_INVALID_ARGUMENT, pipeline->columns[i].path, 0, "an example of data %s is %s here, but step %s takes %s: %s",
                        pipeline->name, is.data != NULL ? is.data : "", name, input->name, wanted.data != NULL ? wanted.data : "");
        dt_text_free(&is);
        dt_text_free(&wanted);
        return status;
    }
    return NULL;
}

int64_t dt_pipeline_rows(const dt_artifact_pipeline *written) {
    dt_stages stages;
    dt_status *status = dt_stages_parse(written, &stages);
    int64_t rows = status == NULL ? stages.rows : 0;
    dt_status_free(status);
    dt_stages_free(&stages);
    return rows;
}

/* The files that a pipeline without filters keeps, though it makes a part. */
static void print_whole_files(const dt_pipeline *pipeline, dt_text *text) {
    const char *before = NULL;
    for (int i = 0; i < pipeline->source->n_columns; i++) {
        const dt_column *column = &pipeline->source->columns[i];
        if (column->bytes == NULL || (before != NULL && strcmp(before, column->path) == 0)) continue;
        dt_text_format(text, "%s%s", before != NULL ? ", " : "", column->path);
        before = column->path;
    }
    if (before != NULL) dt_text_append(text, " (single rows can be read from idx, npy and bytes that are not compressed)");
}

void dt_pipeline_print_whole(const dt_pipeline *pipeline, dt_text *text) {
    dt_text files = {0};
    if (makes_all(pipeline) || pipeline->options.given != NULL) return;
    if (count_stages(pipeline, DT_STAGE_FILTER) > 0)
        dt_text_append(&files, "all its files (filter() is applied to every example)");
    else
        print_whole_files(pipeline, &files);
    bool walks = dt_order_is_walked(pipeline->order);
    if (files.n > 0) dt_text_format(text, "data %s: each process reads the whole of %s", pipeline->name, files.data);
    if (walks && files.n > 0) dt_text_append(text, ", and");
    if (walks && files.n == 0) dt_text_format(text, "data %s: each process", pipeline->name);
    if (walks) dt_text_append(text, " walks the order of all examples (no position in it can be computed)");
    dt_text_free(&files);
}

void dt_pipeline_print_about(const dt_pipeline *pipeline, dt_text *text) {
    if (pipeline->source != NULL && pipeline->source->about != NULL) dt_text_format(text, "data %s: %s", pipeline->name, pipeline->source->about);
}

const dt_column *dt_pipeline_columns(const dt_pipeline *pipeline, int *n) {
    *n = pipeline->n_columns;
    return pipeline->columns;
}

int64_t dt_pipeline_global_batch(const dt_pipeline *pipeline) { return pipeline->global_batch; }

int64_t dt_pipeline_n_examples(const dt_pipeline *pipeline) { return pipeline->n_examples; }

int64_t dt_pipeline_n_batches(const dt_pipeline *pipeline) {
    return pipeline->batches != NULL ? pipeline->batches->n_batches : (pipeline->n_examples - 1) / pipeline->global_batch + 1;
}

bool dt_pipeline_is_at_end(const dt_pipeline *pipeline) {
    bool has_all_batches = pipeline->batches != NULL && pipeline->batches->n_batches > 0 && pipeline->n_given >= pipeline->batches->n_batches;
    return has_all_batches || (pipeline->n_examples > 0 && pipeline->position >= pipeline->n_examples);
}

bool dt_pipeline_works_ahead(const dt_pipeline *pipeline) { return pipeline->batches == NULL; }

bool dt_pipeline_is_to_stop(const dt_pipeline *pipeline) {
    return pipeline->given_rows < 0 || (pipeline->options.stop != NULL && atomic_load(pipeline->options.stop) != 0);
}

/* ---- batches that the application gives ---- */

dt_status *dt_pipeline_set_place(dt_pipeline *pipeline, const char *place) {
    char *copy = NULL;
    if (place != NULL) {
        copy = dt_allocate(strlen(place) + 1);
        if (copy == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
        memcpy(copy, place, strlen(place) + 1);
    }
    dt_release(pipeline->place);
    pipeline->place = copy;
    return NULL;
}

dt_status *dt_pipeline_tell_place(const dt_pipeline *pipeline, char **place) {
    *place = NULL;
    return pipeline->batches != NULL && pipeline->position > 0 ? pipeline->batches->tell(pipeline->batches, place) : NULL;
}

static dt_status *begin_given(dt_pipeline *pipeline, int64_t epoch, int64_t position) {
    DT_TRY(pipeline->batches->begin(pipeline->batches, epoch, position, pipeline->place, &pipeline->position));
    pipeline->epoch = epoch;
    pipeline->n_given = pipeline->position > 0 ? -1 : 0;
    pipeline->given_rows = 0;
    return dt_pipeline_set_place(pipeline, NULL);
}

static dt_status *next_given(dt_pipeline *pipeline, dt_pipeline_batch *batch) {
    dt_given_batch given = {.stops = dt_pipeline_is_to_stop(pipeline)};
    dt_progress_set(pipeline->options.progress, DT_ACTIVITY_READING);
    dt_status *status = pipeline->batches->next(pipeline->batches, &given);
    dt_progress_set(pipeline->options.progress, DT_ACTIVITY_COMPUTING);
    pipeline->given_rows = given.stops ? -1 : given.rows;
    batch->stopped = given.stops;
    if (status != NULL || given.stops) return status;
    batch->inputs = given.inputs;
    batch->rows = given.rows;
    pipeline->position += given.rows;
    if (pipeline->n_given >= 0) pipeline->n_given++;
    return NULL;
}

/* ---- going through it ---- */

static dt_status *start(dt_pipeline *pipeline, int64_t epoch, int64_t position, bool picks) {
    if (pipeline->batches != NULL) return begin_given(pipeline, epoch, position);
    halt(pipeline);
    pipeline->epoch = epoch;
    pipeline->position = pipeline->started = position;
    DT_TRY(dt_order_start(pipeline->order, epoch, position));
    pthread_mutex_lock(&pipeline->lock);
    pipeline->running = true;
    pipeline->picks = picks;
    pipeline->walked = position;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

dt_status *dt_pipeline_start(dt_pipeline *pipeline, int64_t epoch, int64_t position) { return start(pipeline, epoch, position, false); }

dt_status *dt_pipeline_start_picking(dt_pipeline *pipeline, int64_t epoch) { return start(pipeline, epoch, 0, true); }

void dt_pipeline_pick(dt_pipeline *pipeline, int64_t batch) {
    pthread_mutex_lock(&pipeline->lock);
    pipeline->picked[pipeline->n_picked++ % DT_MOST_PICKED] = batch;
    pthread_cond_broadcast(&pipeline->changed);
    pthread_mutex_unlock(&pipeline->lock);
}

static bool is_over(const dt_pipeline *pipeline) { return pipeline->ended && pipeline->n_taken == pipeline->n_begun; }

/* Until something has changed, or it is time to look whether the caller is to stop. The lock is held. */
static void wait_for_change(dt_pipeline *pipeline) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += POLL_NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&pipeline->changed, &pipeline->lock, &until);
}

/* The caller gives back the batch that it has; which examples it was made of stays known. The lock is held. */
static void give_back(dt_pipeline *pipeline) {
    if (!pipeline->holding) return;
    slot *held = &pipeline->slots[(pipeline->n_taken - 1) % pipeline->n_slots];
    int64_t *items = held->items;
    held->items = pipeline->past_items;
    held->ready = pipeline->holding = false;
    pipeline->past_items = items;
    pipeline->past_rows = pipeline->picks ? 0 : held->rows;
    pthread_cond_broadcast(&pipeline->changed);
}

/* Waits for the batch after the one that the caller held. *batch is NULL at the end of the epoch, and when the wait was stopped. The lock is held. */
static dt_status *take(dt_pipeline *pipeline, slot **batch, bool *stopped) {
    *batch = NULL;
    give_back(pipeline);
    slot *wanted = &pipeline->slots[pipeline->n_taken % pipeline->n_slots];
    bool waits = !wanted->ready && !is_over(pipeline);
    if (waits) dt_progress_set(pipeline->options.progress, DT_ACTIVITY_READING);
    while (!wanted->ready && !is_over(pipeline) && !dt_pipeline_is_to_stop(pipeline)) wait_for_change(pipeline);
    if (waits) dt_progress_set(pipeline->options.progress, DT_ACTIVITY_COMPUTING);
    *stopped = !wanted->ready && !is_over(pipeline);
    if (*stopped) return NULL;
    dt_status **kept = wanted->ready ? &wanted->status : &pipeline->end_status, *status = *kept;
    *kept = NULL;
    if (status != NULL || !wanted->ready) return status;
    pipeline->n_taken++;
    pipeline->holding = true;
    *batch = wanted;
    return NULL;
}

dt_status *dt_pipeline_next(dt_pipeline *pipeline, dt_pipeline_batch *batch) {
    *batch = (dt_pipeline_batch){0};
    if (pipeline->failed) return dt_error(DT_FAILED_PRECONDITION, "data %s: failed before", pipeline->name);
    double start = dt_seconds_now();
    slot *taken = NULL;
    dt_status *status;
    if (pipeline->batches != NULL) {
        status = next_given(pipeline, batch);
    } else {
        pthread_mutex_lock(&pipeline->lock);
        status = take(pipeline, &taken, &batch->stopped);
        pthread_mutex_unlock(&pipeline->lock);
    }
    dt_recorder_end(dt_timeline_main(pipeline->options.timeline),
                    (dt_span){.began = start, .kind = DT_SPAN_WAIT, .name = "wait for data", .detail = pipeline->name});
    batch->waited = dt_seconds_now() - start;
    if (status != NULL) {
        pipeline->failed = true;
        return status;
    }
    if (taken == NULL) return NULL; /* or it is one that was given */
    pipeline->position = (pipeline->picks ? taken->first : pipeline->position) + taken->rows;
    batch->inputs = (const void *const *)taken->inputs;
    batch->rows = taken->rows;
    return NULL;
}

int64_t dt_pipeline_position(const dt_pipeline *pipeline) { return pipeline->position; }

int64_t dt_pipeline_bad_indices(const dt_pipeline *pipeline) { return pipeline->examples != NULL ? dt_examples_bad_indices(pipeline->examples) : 0; }

/* ---- comparing what members read ---- */

uint64_t dt_pipeline_layout(const dt_pipeline *pipeline) {
    const dt_source *source = pipeline->source;
    if (source == NULL) return 0;
    uint64_t layout = dt_mark_of(&source->n_examples, sizeof source->n_examples);
    for (int i = 0; i < source->n_columns; i++) {
        const dt_column *column = &source->columns[i];
        uint64_t about[] = {layout, column->is_text, column->is_text ? 0 : (uint64_t)column->tensor.dtype + 1};
        layout = dt_mark_of(about, sizeof about);
        if (!column->is_text) layout ^= dt_mark_of(column->tensor.dims, (size_t)column->tensor.n_dims * sizeof *column->tensor.dims);
    }
    return layout;
}

bool dt_pipeline_compares(const dt_pipeline *pipeline) { return pipeline->parts != NULL; }

static const slot *held(const dt_pipeline *pipeline) {
    return pipeline->holding ? &pipeline->slots[(pipeline->n_taken - 1) % pipeline->n_slots] : NULL;
}

static void fold(const dt_pipeline *pipeline, const slot *batch, dt_row_range part, dt_folded_marks *folded) {
    int n_columns = pipeline->source->n_columns;
    int64_t n_rows = batch != NULL && batch->marks != NULL ? dt_row_range_valid(part, batch->rows) : 0;
    const uint64_t *marks = n_rows > 0 ? batch->marks + (part.first - pipeline->known.first) * n_columns : NULL;
    dt_marks_fold(marks, n_rows, n_columns, n_rows > 0 ? batch->first / pipeline->global_batch : 0, folded);
}

int64_t dt_pipeline_fold_marks(dt_pipeline *pipeline, bool ahead, dt_folded_marks *folded) {
    if (pipeline->batches != NULL) {
        *folded = (dt_folded_marks){0};
        return ahead ? -1 : pipeline->given_rows;
    }
    pthread_mutex_lock(&pipeline->lock);
    const slot *batch = held(pipeline), *next = &pipeline->slots[pipeline->n_taken % pipeline->n_slots];
    if (ahead) batch = next->ready && next->status == NULL ? next : NULL;
    bool ends = is_over(pipeline) && pipeline->end_status == NULL && !pipeline->failed;
    pthread_mutex_unlock(&pipeline->lock);
    fold(pipeline, batch, pipeline->part, folded);
    return batch != NULL ? batch->rows : ends ? 0 : -1;
}

/* Of rows [n] of the source, of which one differs, in one of some columns. */
static void print_rows(const dt_pipeline *pipeline, const int64_t *rows, int64_t n, const dt_marks_place *place, dt_text *text) {
    enum {
        MOST_NAMED = 3
    };
    const dt_source *source = pipeline->source;
    bool by_number = source->name_row == NULL && place->n_columns == 1;
    int64_t n_named = n < MOST_NAMED ? n : MOST_NAMED;
    if (n > 1) dt_text_append(text, "one of ");
    if (by_number) dt_text_append(text, n > 1 ? "rows " : "row ");
    for (int64_t i = 0; i < n_named; i++) {
        if (i > 0) dt_text_append(text, i + 1 == n ? " and " : ", ");
        if (by_number)
            dt_text_format(text, "%lld", (long long)rows[i]);
        else
            dt_source_name_row(source, rows[i], text);
    }
    if (n > n_named) dt_text_format(text, " and %lld others", (long long)(n - n_named));
    if (by_number) dt_text_format(text, " (from 0) of %s", source->columns[place->column].path);
}

/* Rows of the source in the order of their buckets, from `first` on, as many as are named and one more. */
static dt_status *find_rows_of(const dt_pipeline *pipeline, dt_row_range part, int64_t n_valid, const dt_marks_place *place, int64_t *rows,
                               int64_t n) {
    const slot *batch = held(pipeline);
    int n_words = dt_order_item_words(pipeline->order);
    int64_t *below = dt_allocate((size_t)n_words * sizeof *below);
    if (below == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int64_t i = 0; i < n; i++) {
        int64_t at = part.first + dt_marks_row(place->first + i, n_valid, pipeline->source->n_columns, batch->first / pipeline->global_batch);
        rows[i] = source_row(pipeline, batch->items + (at - pipeline->known.first) * n_words, below);
    }
    dt_release(below);
    return NULL;
}

void dt_pipeline_compare_part(const dt_pipeline *pipeline, int process, const dt_folded_marks *folded, bool *differs, dt_text *what) {
    dt_folded_marks here;
    dt_marks_place place;
    dt_row_range part = pipeline->parts[process];
    const slot *batch = held(pipeline);
    int64_t n_valid = batch != NULL ? dt_row_range_valid(part, batch->rows) : 0, rows[4];
    fold(pipeline, batch, part, &here);
    *differs = dt_marks_differ(&here, folded, n_valid, pipeline->source->n_columns, &place);
    if (!*differs) return;
    int64_t n = place.end - place.first, n_found = n < 4 ? n : 4;
    dt_status *status = find_rows_of(pipeline, part, n_valid, &place, rows, n_found);
    if (status == NULL) print_rows(pipeline, rows, n, &place, what);
    dt_status_free(status);
}

dt_status *dt_pipeline_marks(const dt_pipeline *pipeline, uint64_t **words, size_t *n_words) {
    const slot *batch = pipeline->failed ? &pipeline->slots[pipeline->n_taken % pipeline->n_slots] : held(pipeline);
    int n_columns = pipeline->source->n_columns, n_item = dt_order_item_words(pipeline->order);
    int64_t n_rows = batch != NULL && batch->marks != NULL ? dt_row_range_valid(pipeline->part, batch->rows) : 0;
    int64_t *below = dt_allocate((size_t)n_item * sizeof *below);
    *n_words = 0;
    *words = dt_allocate((size_t)(n_rows * (1 + n_columns)) * sizeof **words + 1);
    if (below == NULL || *words == NULL) {
        dt_release(below);
        dt_release(*words);
        *words = NULL;
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    for (int64_t row = 0; row < n_rows; row++) {
        int64_t at = pipeline->part.first - pipeline->known.first + row;
        const uint64_t *marks = batch->marks + at * n_columns;
        if (marks[0] == 0) break; /* it was not read: another one before has failed */
        (*words)[(*n_words)++] = (uint64_t)source_row(pipeline, batch->items + at * n_item, below);
        for (int i = 0; i < n_columns; i++) (*words)[(*n_words)++] = marks[i];
    }
    dt_release(below);
    return NULL;
}

/* Those of one row. */
static dt_status *compare_row(dt_pipeline *pipeline, const uint64_t *words, uint64_t *marks, int64_t *n_read, bool *differs, dt_text *what) {
    int n_columns = pipeline->source->n_columns;
    int64_t row = (int64_t)words[0];
    if (words[0] >= (uint64_t)pipeline->source->n_examples)
        return dt_error(DT_DATA_LOSS, "data %s: it has read row %llu, and there are %lld", pipeline->name, (unsigned long long)words[0],
                        (long long)pipeline->source->n_examples);
    DT_TRY(dt_example_mark_row(pipeline->checker, row, marks, n_read));
    for (int i = 0; i < n_columns && !*differs; i++) {
        *differs = marks[i] != words[1 + i];
        if (*differs) print_rows(pipeline, &row, 1, &(dt_marks_place){.column = i, .n_columns = 1}, what);
    }
    return NULL;
}

dt_status *dt_pipeline_compare_rows(dt_pipeline *pipeline, const uint64_t *words, size_t n_words, bool all, bool *differs, dt_text *what) {
    size_t n_columns = (size_t)pipeline->source->n_columns;
    int64_t n_read = 0;
    double began = dt_seconds_now();
    *differs = false;
    if (n_words % (1 + n_columns) != 0) return dt_error(DT_DATA_LOSS, "marks of other columns than data %s has", pipeline->name);
    if (n_words == 0) return NULL;
    if (pipeline->checker == NULL) DT_TRY(dt_examples_remember_marks(pipeline->examples));
    if (pipeline->checker == NULL)
        DT_TRY(dt_example_maker_create(pipeline->examples, dt_order_item_words(pipeline->order), false, &pipeline->checker));
    uint64_t *marks = dt_allocate(n_columns * sizeof *marks);
    dt_status *status = marks == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
    for (size_t at = 0; at < n_words && status == NULL && !*differs && (all || n_read < DT_MARK_READ_BYTES); at += 1 + n_columns)
        status = compare_row(pipeline, words + at, marks, &n_read, differs, what);
    dt_release(marks);
    atomic_fetch_add(&pipeline->mark_nanoseconds, (int64_t)((dt_seconds_now() - began) * 1e9));
    return status;
}

double dt_pipeline_mark_seconds(const dt_pipeline *pipeline) {
    if (pipeline->examples == NULL) return 0;
    return dt_examples_mark_seconds(pipeline->examples) + (double)atomic_load(&pipeline->mark_nanoseconds) * 1e-9;
}

/* ---- where an example comes from ---- */

/* The item of an example of the batch that the caller has, or had before; NULL: of neither, or made elsewhere. */
static const int64_t *find_item(const dt_pipeline *pipeline, int64_t position) {
    const slot *held = pipeline->holding ? &pipeline->slots[(pipeline->n_taken - 1) % pipeline->n_slots] : NULL;
    int64_t first = pipeline->position - (held != NULL ? held->rows : 0), past = first - pipeline->past_rows;
    bool is_held = held != NULL && position >= first && position < pipeline->position;
    if (!is_held && (position < past || position >= first)) return NULL;
    int64_t row = position - (is_held ? first : past) - pipeline->known.first;
    if (row < 0 || row >= pipeline->known.end - pipeline->known.first) return NULL;
    return (is_held ? held->items : pipeline->past_items) + row * dt_order_item_words(pipeline->order);
}

static bool is_value(dt_dtype dtype, const unsigned char *element, int64_t value) {
    float single;
    int64_t wide = 0;
    memcpy(&wide, element, dt_dtype_kind(dtype) == 'i' ? dt_dtype_bytes(dtype) : 0); /* little endian */
    switch (dtype) {
    case DT_F32: return memcpy(&single, element, sizeof single), (double)single == (double)value;
    case DT_I8: return (int8_t)wide == value;
    case DT_I32: return (int32_t)wide == value;
    case DT_U8:
    case DT_I64: return wide == value;
    default: return false;
    }
}

/* ", token[3, 4]": element `number` of an input. */
static void print_element(const dt_artifact_tensor *input, int64_t number, dt_text *text) {
    dt_text_format(text, ", %s", input->name);
    int64_t stride = 1;
    for (int d = 1; d < input->n_dims; d++) stride *= input->dims[d];
    for (int d = 1; d < input->n_dims; d++) {
        stride /= input->dims[d];
        dt_text_format(text, "%s%lld", d == 1 ? "[" : ", ", (long long)(number / stride % input->dims[d]));
    }
    if (input->n_dims > 1) dt_text_append(text, "]");
}

/* The element of the inputs that is `value`, unless there are several. */
static void print_value(const dt_pipeline *pipeline, int step, const dt_component *components, int64_t value, dt_text *text) {
    const dt_artifact *artifact = dt_kernels_artifact(pipeline->kernels);
    const dt_artifact_tensor *inputs = artifact->functions[artifact->steps[step].function].inputs;
    int64_t n_found = 0, input = 0, number = 0;
    for (int i = 0; i < pipeline->n_columns; i++) {
        const dt_artifact_tensor *tensor = &pipeline->columns[i].tensor;
        int64_t element_bytes = (int64_t)dt_dtype_bytes(tensor->dtype);
        for (int64_t k = 0; k < tensor->row_bytes / element_bytes; k++) {
            if (!is_value(tensor->dtype, (const unsigned char *)components[i].bytes + k * element_bytes, value)) continue;
            n_found++;
            input = i;
            number = k;
        }
    }
    if (n_found == 1) print_element(&inputs[input], number, text);
}

void dt_pipeline_print_example(dt_pipeline *pipeline, int step, int64_t position, int64_t value, dt_text *text) {
    if (pipeline->batches != NULL) return;
    const int64_t *item = find_item(pipeline, position), *below = item;
    int n_words = dt_order_item_words(pipeline->order);
    int64_t *cached = item != NULL && pipeline->stages.cache >= 0 ? dt_allocate((size_t)n_words * sizeof *cached) : NULL;
    if (item == NULL || (pipeline->stages.cache >= 0 && cached == NULL)) return;
    if (cached != NULL) dt_order_cached_item(pipeline->order, item[0], cached), below = cached;
    dt_source_name_row(pipeline->source, below[0], text);
    dt_release(cached);
    dt_example_maker *maker;
    const dt_component *components;
    dt_status *status = dt_example_maker_create(pipeline->examples, n_words, false, &maker);
    if (status == NULL) status = dt_example_make(maker, pipeline->epoch, item, &components);
    if (status == NULL) print_value(pipeline, step, components, value, text);
    dt_status_free(status); /* what it would have said is only lacking */
    dt_example_maker_destroy(maker);
}
