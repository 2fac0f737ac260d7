/* run_record: a run as the run.jsonl of its --log-dir tells it (runtime/log_folder.h).
 *
 * A line that is no event is left out, and counted; so is the last one of a run that goes on, or was killed while it wrote, which is not. What a
 * resumed run does again takes the place of what was there. Strings are whatever the file says: whoever shows them escapes them. */
#ifndef DT_RUNTIME_REPORT_RUN_RECORD_H
#define DT_RUNTIME_REPORT_RUN_RECORD_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct dt_record_point {
    double number, value; /* after so many steps; finite */
} dt_record_point;

/* What one step of the program reported: at single steps, or of whole epochs. */
typedef struct dt_record_series {
    const char *report, *step; /* "loss", "evaluate" */
    bool of_steps;
    DT_LIST(dt_record_point) points;
    struct dt_record_series *next; /* of its bucket of the index */
} dt_record_series;

/* What a step reported last that has a shape. */
typedef struct dt_record_array {
    const char *report, *step;
    int n_rows, n_columns; /* 0 rows: a vector */
    double *values;        /* [n_rows, n_columns]; NaN where the file has none */
} dt_record_array;

typedef struct dt_record_memory {
    const char *name;
    double bytes;
} dt_record_memory;

typedef struct dt_record_kernel {
    const char *name, *lines, *layers;
    double flops, bytes; /* of a step */
    double seconds;      /* of all steps that were timed, on all cores together */
} dt_record_kernel;

typedef struct dt_record_picture {
    const char *name, *png; /* png: base64, nothing else */
    double number, width, height;
} dt_record_picture;

typedef struct dt_run_record {
    const char *folder;
    const char *program, *step, *level, *compiler, *llvm, *program_hash; /* "": not said */
    const char *source;                                                  /* the program's text; "": not said */
    const char *reason;                                                  /* why it ended; "": it goes on, or was killed */
    const char *devices;                                                 /* "cpu:0, cpu:1" */
    double replicas, global_batch, memory_bytes, epochs, examples, seed, parameters, trainable;
    double first_time, last_time; /* of events, in seconds since 1970 */
    double number;                /* the last step that is known of */
    int n_starts;                 /* 2: it was resumed once */
    int n_bad_lines;
    double timed_steps, timed_seconds, exchanging_seconds;
    DT_LIST(dt_record_series *) series;
    struct dt_record_index *index; /* of series, by what they are of; NULL: none is there */
    DT_LIST(dt_record_array) arrays;
    DT_LIST(dt_record_memory) memory;
    DT_LIST(dt_record_kernel) kernels;
    DT_LIST(dt_record_picture) pictures;
    DT_LIST(const char *) remarks; /* "warning: …" */

    char *text;  /* of the file, while it is read */
    void *event; /* the line that is read; cJSON's */
} dt_run_record;

/* Reads FOLDER/run.jsonl into *record, which is of zeros. All that it makes is the arena's, whose guard it sets; strings may be `folder`.
 * DT_NOT_FOUND: the folder or the file is not there; DT_DATA_LOSS: no line of it says that a run has started; DT_RESOURCE_EXHAUSTED. */
dt_status *dt_run_record_read(const char *folder, dt_arena *arena, dt_run_record *record);

/* NULL: the run has none such. */
const dt_record_series *dt_run_record_find(const dt_run_record *record, const char *report, const char *step, bool of_steps);

#endif
