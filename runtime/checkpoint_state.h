/* checkpoint_state: where training was, as progress.json says it beside the tensors of a checkpoint.
 *
 * What is needed to go on as if nothing had happened, and nothing else: tensors are in the two tensor files, the sums of whose ranges are here.
 * Floating-point totals are written in the shortest form that reads back as the same bits, 64-bit integers as strings. */
#ifndef DT_RUNTIME_CHECKPOINT_STATE_H
#define DT_RUNTIME_CHECKPOINT_STATE_H

#include "runtime/data/safetensors.h"
#include "runtime/execution/reports.h"
#include "runtime/plateau.h"

/* The files of tensors: parameters and states, and slots. */
enum {
    DT_CHECKPOINT_MODEL,
    DT_CHECKPOINT_OPTIMIZER,
    DT_CHECKPOINT_FILES
};

/* Steps, epochs and examples are counted up to here: a double holds all whole numbers that far, and whoever adds to them needs no second look. */
#define DT_MOST_COUNT (INT64_C(1) << 53)

typedef struct dt_checkpoint_state {
    char *program_hash; /* of the artifact */
    char *level;        /* instruction-set level that the kernels were compiled for: other bits on another one */
    char *libraries;    /* what vendors' libraries did of a GPU's work, and how, in lines; "": nothing; NULL: it was not noted */
    char *launch;       /* values of the program's `launch` declarations: NAME=VALUE, in lines; NULL: none */
    char *data;         /* name of the pipeline that `examples` counts in */
    char *place;        /* where batches that an application gives are, in its words; NULL: it has said none */
    int64_t step;       /* training steps done */
    int64_t epoch;      /* epochs done */
    int64_t examples;   /* consumed in the epoch that is under way */
    int64_t seed, replicas, global_batch;
    int64_t epochs, steps_per_epoch; /* launch values */
    int64_t n_added;                 /* steps that are in the totals */
    int n_totals;
    dt_total *totals; /* [n_totals] aggregates of the epoch that is under way */

    char *metric; /* that `best` is of: "evaluate.accuracy"; NULL: none is watched */
    bool has_best;
    double best;
    int64_t best_step;           /* of the checkpoint that reached it */
    int64_t epochs_without_gain; /* since then */

    char *plateau; /* whose state this is: "evaluate.loss:rate"; NULL: nothing is reduced */
    dt_plateau_state plateau_state;

    dt_file_ranges files[DT_CHECKPOINT_FILES]; /* as they were written, by where they begin: all of the file, without a gap */
} dt_checkpoint_state;

const char *dt_checkpoint_file_name(int file);                   /* "model.safetensors" */
int dt_checkpoint_file_of(const dt_artifact_variable *variable); /* whose values it holds; DT_CHECKPOINT_FILES: none does */

/* `path` is for messages. DT_DATA_LOSS for what is truncated or altered, DT_FAILED_PRECONDITION for another format. After an error too the state
 * is to be freed. */
dt_status *dt_checkpoint_state_parse(const char *path, const char *text, size_t n, dt_checkpoint_state *state);

/* The text of progress.json; NULL when memory is out. The caller frees it. */
char *dt_checkpoint_state_print(const dt_checkpoint_state *state);

void dt_checkpoint_state_free(dt_checkpoint_state *state); /* what it owns, not itself */

/* A copy of `string` for one of its members, in place of what was there; NULL stays NULL. */
dt_status *dt_checkpoint_state_set(char **member, const char *string);

#endif
