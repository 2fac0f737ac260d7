/* source: the first stage of a pipeline, where examples come from.
 *
 * A source is a table: rows are examples, columns the components of an example: tensors of one shape, or texts of any length. Opening reads
 * what is needed to know how many there are and of which shape, and returns while threads of the source still read the rest: that is what makes the
 * first batch come soon.
 *
 * Who needs only some of the rows opens it `by_row`: then nothing is kept of a column whose rows lie at fixed places of a file, and each row is read
 * when it is wanted. Memory does not grow with the files, and of a file that many processes have parts of each reads its own.
 *
 * A new source is a file here with a function of type dt_source_opener, and a row in abi/pipeline.h. */
#ifndef DT_RUNTIME_DATA_SOURCE_H
#define DT_RUNTIME_DATA_SOURCE_H

#include "abi/pipeline.h"
#include "base/status.h"
#include "base/text.h"
#include "runtime/artifact/artifact.h"

typedef struct dt_column {
    const char *path;           /* of the file that it comes from, for messages */
    dt_artifact_tensor tensor;  /* of one example; no rows. Not of a text */
    bool is_text;               /* rows are UTF-8 and differ in length */
    const unsigned char *bytes; /* of all rows, element aligned, with DT_SLACK_BYTES readable bytes after them; NULL: read by row */
    int64_t stride;             /* from one row's first byte to the next one's; less than row_bytes where rows share bytes */
    const uint64_t *offsets;    /* [n_examples + 1] of a text: where its rows begin, and the last one ends */
} dt_column;

/* What an example has at one of its components: a tensor, or a text, whose length may be any. DT_SLACK_BYTES readable bytes follow. */
typedef struct dt_component {
    const void *bytes;
    size_t n_bytes;
} dt_component;

/* Row `row` of a column that has bytes. */
static inline dt_component dt_column_row(const dt_column *column, int64_t row) {
    if (!column->is_text) return (dt_component){column->bytes + row * column->stride, (size_t)column->tensor.row_bytes};
    return (dt_component){column->bytes + column->offsets[row], (size_t)(column->offsets[row + 1] - column->offsets[row])};
}

typedef struct dt_source dt_source;

struct dt_source {
    int64_t n_examples; /* >= 1 */
    int n_columns;
    const dt_column *columns;
    int64_t n_files;                                       /* that lie one after the other, for interleave(); 0: it has no such */
    const int64_t *file_ends;                              /* [n_files]: the example after the last one of each */
    const char *about;                                     /* what people should see of it besides, "2 classes: …"; NULL: nothing */
    bool computes;                                         /* reading a row is work, which is worth several threads, and a cache */
    dt_status *(*wait)(dt_source *source, int64_t n_rows); /* see dt_source_wait; NULL: all is there */
    dt_status *(*read)(const dt_source *source, int column, int64_t row, int64_t n_rows,
                       void *bytes);                                       /* see dt_source_read; NULL: none is read by row */
    void (*name_row)(const dt_source *source, int64_t row, dt_text *text); /* see dt_source_name_row; NULL: by its number and the files */
    void (*cancel)(dt_source *source);                                     /* see dt_source_cancel; NULL: nobody waits */
    void (*close)(dt_source *source);
};

/* The arguments of `stage` are files, then options, as abi/pipeline.h has them: dt_source_open has checked that. */
typedef dt_status *dt_source_opener(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source);
#define X(name, most_files, fewest, most) dt_source_opener dt_source_open_##name;
DT_SOURCES(X)
#undef X
dt_source_opener dt_source_open_files;

/* Opens the source that `stage` names, its files found in `folder`. by_row: read by row what can be. DT_NOT_FOUND, DT_DATA_LOSS, DT_UNIMPLEMENTED (no
 * such source), … */
dt_status *dt_source_open(const dt_artifact_stage *stage, const char *folder, bool by_row, dt_source **source);

/* The source of a pipeline: its first stage, and what zip() joins to it. */
dt_status *dt_source_open_pipeline(const dt_artifact_pipeline *pipeline, const char *folder, bool by_row, dt_source **source);

/* Those of `a` and `b` side by side, as many as there are of the shorter one. It owns both, also after an error. */
dt_status *dt_source_zip(dt_source *a, dt_source *b, dt_source **source);

/* What option `name` of the source was given, or `otherwise`. */
int64_t dt_source_option_int(const dt_artifact_stage *stage, const char *name, int64_t otherwise);
const char *dt_source_option_choice(const dt_artifact_stage *stage, const char *name, const char *otherwise);

typedef struct dt_window {
    int64_t first, most; /* of the examples those from `first` on, `most` at most */
    int64_t n, shift;    /* n neighbouring ones each, one every `shift`; 0: no windows */
} dt_window;

/* The source whose examples are windows of `of`; those at the end that do not fill one are left out. It owns `of`, also after an error. */
dt_status *dt_source_window(dt_source *of, const dt_window *window, dt_source **source);

/* Rows `row` to row + n_rows - 1 of a column that is read by row, into `bytes`, which has room for n_rows * tensor.row_bytes. Any thread. */
dt_status *dt_source_read(const dt_source *source, int column, int64_t row, int64_t n_rows, void *bytes);

/* Appends where a row is, for people: "part-2.txt:14", "row 77 (from 0) of labels.gz". Any thread. */
void dt_source_name_row(const dt_source *source, int64_t row, dt_text *text);

/* Waits until the first `n_rows` rows of all columns that have bytes may be read there. Fails, again for each call, when one cannot be read, even a
 * later one. Any thread.
 */
dt_status *dt_source_wait(dt_source *source, int64_t n_rows);

/* Nobody wants the rest: who waits for rows that are not there gets DT_ABORTED, now and later. Any thread. */
void dt_source_cancel(dt_source *source); /* NULL is allowed */

void dt_source_close(dt_source *source); /* NULL is allowed */

#endif
