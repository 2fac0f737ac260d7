/* run: training, evaluation, prediction, generation and the data of a step, from beginning to end, as the command line asks for them. */
#ifndef DT_RUNTIME_RUN_H
#define DT_RUNTIME_RUN_H

#include "runtime/checkpoint_state.h"
#include "runtime/data/pipeline.h"
#include "runtime/execution/session.h"
#include "runtime/log.h"
#include "runtime/runner.h"

/* A session of the caller's to run on, and where its training is. */
typedef struct dt_run_session {
    dt_session *session;
    dt_runner **runners;          /* [n_steps] of which a run makes those that it needs and are NULL; they are the caller's */
    dt_checkpoint_state *state;   /* step, epoch, examples, and what is the best so far: where training begins, and then where it ended */
    int trained_step, trained_on; /* the step and the pipeline that `examples` counts in, likewise; -1: none; n_pipelines: data of the application */
    int64_t n_examples;           /* that the pipeline had then; 0: not known */
    const char *log_dir;          /* that has the past of its training; NULL: none has */
    bool is_loaded;               /* its training began elsewhere: whatever folder of logs it names may have its past */
    bool has_logged;              /* this run writes to its folder of logs */
    int64_t pause_after;          /* epochs of training in this run; 0: all that are left */
    int64_t tell_every;           /* steps of training from one that the application is told to the next, besides those that are logged; 0: none */
    int64_t n_steps, n_epochs;    /* that were run */
    char reason[16];              /* why training ended */
} dt_run_session;

/* Strings are the caller's and outlive the run. What a person or an application says is a row of runtime/options.c as well. */
typedef struct dt_run_options {
    dt_run_session *on; /* whose variables the run goes on with, and whose devices, replicas, global batch and seed are those of these options; NULL:
                           the run makes a session of its own */
    const char *step;   /* NULL: "train", "evaluate" or "predict" */
    const char *from;   /* a pipeline; NULL: that of the step */
    const char *data;   /* folder of the data files */
    const dt_given *given;      /* of train and evaluate: what the step runs over in place of a pipeline; or NULL */
    const dt_given *validation; /* of train, with `given`: what `evaluate` runs over after epochs, and nothing else is run then; NULL: nothing is */
    const char *devices;
    bool no_libraries;    /* on a GPU: --library none */
    bool fast_sums;       /* --reduce fast */
    bool central;         /* --placement central */
    bool shard_optimizer; /* of train */
    bool shard_parameters;
    int64_t gather_rounds;            /* 0: not said */
    int64_t shards_over;              /* the same */
    int64_t stages;                   /* the same */
    double flops, bandwidth, latency; /* of info: 0: not said */
    dt_by_rows by_rows;               /* of train */
    double deadline_seconds;          /* 0: not said */
    dt_processes *processes;          /* of the run, each of which makes this call; NULL: this is the only one */
    struct dt_ps_team *team;          /* of an asynchronous parameter server, or a worker of some; NULL: this is neither */
    int64_t timeline_steps;           /* that are to be recorded; 0: none */
    dt_timeline *timeline;            /* of this process, then; NULL: nothing is recorded */
    int64_t replicas;                 /* 0: not said */
    int64_t global_batch;             /* 0: not said */
    bool has_seed;
    int64_t seed;
    bool ignore_bad_index;
    bool no_data_check;         /* what members of a run read is not compared */
    const char *checkpoint_dir; /* or NULL */
    const char *init;           /* safetensors file or checkpoint, or NULL */
    const char *map;            /* of the names in it, or NULL */
    bool allow_missing;         /* variables that it does not give keep their initial values */

    int n_launch_values;
    const char *const *launch_values; /* "rate=3e-4" */

    int64_t epochs;             /* 0: not said */
    int64_t max_steps;          /* -1: not said */
    int64_t checkpoint_every;   /* steps; 0: only at the end of each epoch and of the run */
    int64_t keep;               /* 0: not said */
    const char *keep_best;      /* "evaluate.accuracy", or NULL */
    const char *plateau;        /* --reduce-on-plateau, or NULL */
    int64_t stop_after_no_gain; /* epochs; 0: never */
    bool resume;
    bool check_numerics;
    int64_t log_every;
    const char *log_dir;    /* or NULL */
    int64_t log_histograms; /* epochs; 0: none */

    /* A signal that asks for the end. Until `catch_signals` is called it ends the process as ever, for there is nothing to lose. */
    const atomic_int *stop; /* not 0: finish the step, save, return */
    bool *was_stopped;      /* set where that is why the run ended, in all processes, whichever was asked; may be NULL */
    void (*catch_signals)(void);

    int n_inputs; /* of predict */
    const char *const *inputs;
    const char *output; /* folder, of predict and data */
    const char *png;    /* folder for pictures, of predict */

    const char *prompt; /* of generate; not empty */
    int64_t length;     /* bytes to make */
    bool has_temperature;
    double temperature;                                                   /* 0 or more */
    dt_status *(*made)(void *context, const char *bytes, size_t n_bytes); /* is given the prompt, then what was made */
    void *made_context;

    int (*progress)(void *context, double done); /* of bench: told how much is done, 0 to 1, after each step; other than 0: stop; or NULL */
    void *progress_context;

    int64_t epoch;     /* of data: from 1 */
    int64_t n_batches; /* of data; 0: those of the epoch */
} dt_run_options;

typedef dt_status *dt_run_function(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);
dt_status *dt_run_train(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);
/* In a worker of asynchronous parameter servers: computes what they lease, until their run is over, or `stop` says so. */
dt_status *dt_run_lease(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);
dt_status *dt_run_evaluate(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);
dt_status *dt_run_predict(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);
dt_status *dt_run_generate(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);
dt_status *dt_run_data(const dt_kernels *kernels, const dt_run_options *options, dt_log *log);

/* ---- what they share ---- */

/* The step that the options name, or `otherwise`; DT_NOT_FOUND lists those there are. */
dt_status *dt_run_find_step(const dt_artifact *artifact, const dt_run_options *options, const char *otherwise, int *step);

/* Refuses devices that compute nothing to those who want something of what is computed: `reason` says what for. */
dt_status *dt_run_need_computation(const dt_run_options *options, const char *reason);

/* What session the options ask for, but for its rows. */
dt_status *dt_run_describe_session(const dt_run_options *options, dt_session_options *about);

/* The pipeline that `from` names, or the step's own. `from` may be NULL. */
dt_status *dt_run_find_pipeline(const dt_artifact *artifact, const char *from, int step, int *pipeline);

/* The same; or options->given, whose *number is n_pipelines: then `from` names none. *written: what it is like. */
dt_status *dt_run_find_data(const dt_artifact *artifact, const dt_run_options *options, int step, int *number, const dt_artifact_pipeline **written);

/* Rows for each replica: of --global-batch, or `otherwise`. */
dt_status *dt_run_rows(const dt_run_options *options, int64_t otherwise, int64_t *rows);

/* Sets the parameters and states from --init or else the newest checkpoint. *found is false where neither was named. *epoch: of the checkpoint. */
dt_status *dt_run_load_weights(dt_session *session, const dt_run_options *options, dt_log *log, bool *found, int64_t *epoch);

/* The same for a step that makes no weights of its own: none are an error, unless the program has neither parameters nor states. Then --set. */
dt_status *dt_run_need_weights(dt_session *session, const dt_run_options *options, dt_log *log, int64_t *epoch);

/* Whether the program has the launch values of --set, and they can be that. */
dt_status *dt_run_check_launch_values(const dt_artifact *artifact, const dt_run_options *options);
/* Sets them, once the weights are loaded, and says what changes. */
dt_status *dt_run_set_launch_values(dt_session *session, const dt_run_options *options, dt_log *log);

/* What a checkpoint says of the session whatever its training has done, in a state of zeros. data: the pipeline's name. */
dt_status *dt_run_describe(const dt_session *session, const char *data, dt_checkpoint_state *state);

/* Which rows of each global batch this process holds, {0} where all: options->on's session, or one that is to be created with `about`. */
dt_status *dt_run_find_rows(const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about, dt_row_range *rows);
/* The same for a pipeline: which rows this process makes, and which of others it is to compare. data->parts is to be released once pipelines are
 * open. */
dt_status *dt_run_share_data(const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about, dt_pipeline_options *data);

/* As dt_pipeline_open. An error names the process: files of others may be as they should be. */
dt_status *dt_run_open_pipeline(const dt_kernels *kernels, const dt_run_options *options, const dt_artifact_pipeline *written,
                                const dt_pipeline_options *data, dt_pipeline **pipeline);
/* The same of data of the application's, in place of what else `data` names. */
dt_status *dt_run_open_given(const dt_kernels *kernels, const dt_run_options *options, const dt_given *given, const dt_pipeline_options *data,
                             dt_pipeline **pipeline);

/* options->on's session, or a new one, which dt_run_free_session frees. */
dt_status *dt_run_open_session(const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about, dt_session **session);
void dt_run_free_session(const dt_run_options *options, dt_session *session);

/* Runs the program's initialisers, and sets the weights that were packed into the artifact. */
dt_status *dt_run_initialize(dt_session *session);

/* Gives a new session its variables, as dt_run_need_weights does; one of the caller's has them. */
dt_status *dt_run_prepare_weights(dt_session *session, const dt_run_options *options, dt_log *log, int64_t *epoch);

/* The runner of a step on `session`: one of options->on, or a new one, which dt_run_free_runner frees. */
dt_status *dt_run_open_runner(const dt_kernels *kernels, dt_session *session, const dt_run_options *options, int step, dt_runner **runner);
void dt_run_free_runner(const dt_run_options *options, dt_runner *runner);

/* Says what `then`, a checkpoint's, was written with and `now` is not. */
void dt_run_warn_of_differences(dt_log *log, const dt_checkpoint_state *then, const dt_checkpoint_state *now);

/* Whether this process writes what is written once: checkpoints, results, the log. */
bool dt_run_leads(const dt_run_options *options);

/* Says what each process reads whole, though it makes a part of the batches. */
void dt_run_log_reading(dt_log *log, const dt_pipeline *pipeline);

/* The start event, and that. `pipeline` may be NULL. */
void dt_run_log_started(dt_log *log, const dt_kernels *kernels, dt_session *session, const dt_pipeline *pipeline, int step, dt_log_start start);

#endif
