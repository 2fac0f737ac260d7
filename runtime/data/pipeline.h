/* pipeline: the global batches of an epoch, made ahead by threads of their own.
 *
 * A pipeline is one global stream, whatever the devices: the same seed, epoch and position give the same batch always. Its position is the number
 * of examples handed out, never of those prefetched, so that a checkpoint says where training was and not where the threads were.
 *
 * A process that holds a part of each global batch opens the same pipeline for its rows: it goes through the same order, makes its own rows alone,
 * and reads of the files what these need, where their format and the stages permit. The parts of all processes together are the whole, bit for bit.
 * Threads: one caller at a time. */
#ifndef DT_RUNTIME_DATA_PIPELINE_H
#define DT_RUNTIME_DATA_PIPELINE_H

#include "base/text.h"
#include "runtime/artifact/kernels.h"
#include "runtime/comm/microbatches.h"
#include "runtime/data/given.h"
#include "runtime/data/marks.h"
#include "runtime/data/source.h"
#include "runtime/threads/progress.h"
#include "runtime/threads/timeline.h"

#include <stdatomic.h>

typedef struct dt_pipeline dt_pipeline;

typedef struct dt_pipeline_options {
    const dt_given *given;     /* what is read in place of files, of which the pipeline is then the `written`; NULL: files are */
    const char *folder;        /* where the files are; NULL: their names are paths */
    int64_t replicas;          /* V */
    int64_t rows;              /* rows for each replica; 0: those of the program's batch(n) */
    dt_row_range part;         /* rows of each global batch that are made here; {0}: all */
    bool marks;                /* keep marks (marks.h) of what is read */
    int n_parts;               /* of the process that compares with them those of others: */
    const dt_row_range *parts; /* [n_parts] the rows that each process makes; copied */
    int64_t seed;
    int threads;            /* that make batches; 0: one, or with map, filter and images as many as there are cores, up to four */
    bool ignore_bad_index;  /* in the functions of map and filter */
    const atomic_int *stop; /* not 0: nobody wants to wait for a batch any longer; NULL: everybody does. Outlives the pipeline */
    dt_progress *progress;  /* counts examples; NULL: nobody asks */
    dt_timeline *timeline;  /* gets a thread for each that makes batches, and the main thread's waits; NULL: nothing is recorded */
} dt_pipeline_options;

/* Opens the files of the pipeline that `written` describes (one of the artifact of `kernels`, or the caller's own), and starts to read them. The
 * kernels and the pipeline's name outlive it. */
dt_status *dt_pipeline_open(const dt_kernels *kernels, const dt_artifact_pipeline *written, const dt_pipeline_options *options, dt_pipeline **opened);
void dt_pipeline_close(dt_pipeline *pipeline); /* NULL is allowed; waits for the threads, which leave a batch at the next example */

/* Whether step `step` of the artifact takes what the pipeline gives: number, element types and shapes of the inputs, bound by position. Of given
 * batches each is checked when it comes. */
dt_status *dt_pipeline_check(const dt_pipeline *pipeline, int step);

/* n of its batch(n), without opening any file; 0: it has none. */
int64_t dt_pipeline_rows(const dt_artifact_pipeline *written);

/* Appends one sentence, without its end, that says what a pipeline that makes a part reads or walks whole all the same, and why; nothing where it
 * does not. */
void dt_pipeline_print_whole(const dt_pipeline *pipeline, dt_text *text);

/* Appends what its source says of itself for people, "data train_set: 2 classes: 0 cat, 1 dog"; nothing where it says nothing. */
void dt_pipeline_print_about(const dt_pipeline *pipeline, dt_text *text);

/* What an example has, after all stages: [*n] tensors without rows. */
const dt_column *dt_pipeline_columns(const dt_pipeline *pipeline, int *n);

int64_t dt_pipeline_global_batch(const dt_pipeline *pipeline);
/* Examples of an epoch. Where a filter decides, those of the first epoch: counted when the pipeline is opened. 0: of given batches, not known. */
int64_t dt_pipeline_n_examples(const dt_pipeline *pipeline);
int64_t dt_pipeline_n_batches(const dt_pipeline *pipeline); /* of an epoch; the last may be short. 0: not known */
/* Whether the epoch is known to have no more batches, before one is asked for. */
bool dt_pipeline_is_at_end(const dt_pipeline *pipeline);
/* Whether batches are made ahead. Those that an application gives are asked for one by one. */
bool dt_pipeline_works_ahead(const dt_pipeline *pipeline);

/* Goes to example `position` of epoch `epoch`, both from 0. Batches begin there; those that an application gives may have to begin at 0, which
 * dt_pipeline_position then is. */
dt_status *dt_pipeline_start(dt_pipeline *pipeline, int64_t epoch, int64_t position);
/* Given batches: what was said of the place where dt_pipeline_start is to begin; NULL: nothing. Copied. And what is to be said of where they are:
 * *place is to be released, NULL: nothing. */
dt_status *dt_pipeline_set_place(dt_pipeline *pipeline, const char *place);
dt_status *dt_pipeline_tell_place(const dt_pipeline *pipeline, char **place);

/* Goes to an epoch of which batches are made that are picked, and no others, in the order of picking. */
dt_status *dt_pipeline_start_picking(dt_pipeline *pipeline, int64_t epoch);
/* Batch `batch` from 0: dt_pipeline_next gives it, once those before are taken; without rows where the epoch has none such. At most DT_MOST_PICKED
 * are picked and not taken. */
void dt_pipeline_pick(dt_pipeline *pipeline, int64_t batch);

enum {
    DT_MOST_PICKED = 4
};

typedef struct dt_pipeline_batch {
    const void *const *inputs; /* [components] each [rows of the part, …], as dt_batch wants them */
    int64_t rows;              /* valid ones of the whole batch, whichever are made here; 0: the epoch is over, the picked batch has none, or: */
    bool stopped;              /* the options' `stop` ended the wait for it */
    double waited;             /* seconds that this call waited for it */
} dt_pipeline_batch;

/* Whether the options' `stop` says so, or the application has given a stop in place of a batch. */
bool dt_pipeline_is_to_stop(const dt_pipeline *pipeline);

/* The next global batch. It is valid until the next call. After one that was stopped the pipeline can be started again, or closed. */
dt_status *dt_pipeline_next(dt_pipeline *pipeline, dt_pipeline_batch *batch);

/* Appends where example `position` of this epoch comes from, and, where one element of the inputs of step `step` alone is `value`, which:
 * "train.txt:14, token[3]". Nothing unless it is an example of this process's part of the batch last taken, or of the one before. */
void dt_pipeline_print_example(dt_pipeline *pipeline, int step, int64_t position, int64_t value, dt_text *text);

/* ---- comparing what members read: with options.marks ---- */

/* A number for what every member must find alike before anything is read: examples of the source, their types and shapes. */
uint64_t dt_pipeline_layout(const dt_pipeline *pipeline);
/* Whether it compares what others read, with options.parts. */
bool dt_pipeline_compares(const dt_pipeline *pipeline);
/* Of this process's part of the batch that it has, or of the one that dt_pipeline_next will give. Returns the batch's rows; 0: the epoch is over; -1:
 * it is not there yet, or it fails. */
int64_t dt_pipeline_fold_marks(dt_pipeline *pipeline, bool ahead, dt_folded_marks *folded);
/* With options.parts: whether process `process` has made its part of the batch that this one has from what is here too. *differs: what of it is not,
 * for people: "row 17 (from 0) of labels.gz". */
void dt_pipeline_compare_part(const dt_pipeline *pipeline, int process, const dt_folded_marks *folded, bool *differs, dt_text *what);
/* Rows of the source, each with the marks of its columns: [*n_words]; to be released. Those of the batch that dt_pipeline_next gave last, or with
 * which it failed, as far as they were read. */
dt_status *dt_pipeline_marks(const dt_pipeline *pipeline, uint64_t **words, size_t *n_words);
/* Whether they are of what is here too, where the pipeline makes no batches. all: of rows that would have to be read from files, all are compared,
 * and not only the first ones, up to DT_MARK_READ_BYTES. DT_DATA_LOSS: these are no such words. */
dt_status *dt_pipeline_compare_rows(dt_pipeline *pipeline, const uint64_t *words, size_t n_words, bool all, bool *differs, dt_text *what);
double dt_pipeline_mark_seconds(const dt_pipeline *pipeline); /* spent on marks, by all threads */

int64_t dt_pipeline_position(const dt_pipeline *pipeline); /* examples of this epoch handed out */
/* In the functions of map and filter so far. Over all parts they add up to those of the whole: what every process meets alike, in a filter, counts in
 * the part that begins with row 0. */
int64_t dt_pipeline_bad_indices(const dt_pipeline *pipeline);

#endif
