/* run_setup: what training, evaluation and prediction do alike before they begin. */
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "runtime/checkpoint.h"
#include "runtime/data_check.h"
#include "runtime/devices/spec.h"
#include "runtime/execution/launch_values.h"
#include "runtime/run.h"
#include "runtime/weights.h"

#include <inttypes.h>
#include <string.h>

dt_status *dt_run_find_step(const dt_artifact *artifact, const dt_run_options *options, const char *otherwise, int *step) {
    const char *name = options->step != NULL ? options->step : otherwise;
    *step = dt_artifact_find_step(artifact, name);
    if (*step >= 0) return NULL;
    dt_text names = {0};
    for (int i = 0; i < artifact->n_steps; i++) dt_text_format(&names, "%s%s", i > 0 ? ", " : "", artifact->steps[i].name);
    dt_status *status = dt_error_in(DT_NOT_FOUND, artifact->path, 0, "has no step %s; --step picks one of its own: %s", name,
                                    names.data != NULL ? names.data : "none");
    dt_text_free(&names);
    return status;
}

dt_status *dt_run_need_computation(const dt_run_options *options, const char *reason) {
    dt_device_spec spec;
    if (options->on != NULL) return NULL; /* its variables are worth having, whatever computed them */
    DT_TRY(dt_device_spec_parse(options->devices, &spec));
    if (spec.kind != &dt_device_null) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "--devices %s computes nothing: %s", options->devices, reason);
}

/* It looks at one kernel after another: in a session of one core. */
static dt_status *check_numerics(dt_session_options *about) {
    dt_device_spec spec;
    DT_TRY(dt_device_spec_parse(about->devices, &spec));
    if (spec.kind != &dt_device_cpu)
        return dt_error(DT_INVALID_ARGUMENT,
                        "--check-numerics looks at what a CPU computes, not %s: give it --devices cpu, for the same program and data",
                        about->devices);
    about->check_numerics = true;
    about->devices = "cpu:1x1";
    return NULL;
}

dt_status *dt_run_describe_session(const dt_run_options *options, dt_session_options *about) {
    *about = dt_session_options_default();
    about->devices = options->devices;
    about->replicas = options->replicas != 0 ? options->replicas : 1;
    about->seed = options->seed;
    about->deadline_seconds = options->deadline_seconds;
    about->no_libraries = options->no_libraries;
    about->fast_sums = options->fast_sums;
    about->central = options->central;
    about->shard_optimizer = options->shard_optimizer;
    about->shard_parameters = options->shard_parameters;
    about->gather_rounds = options->gather_rounds;
    about->shards_over = options->shards_over;
    about->stages = options->stages;
    about->by_rows = options->by_rows;
    about->processes = options->processes;
    about->timeline = options->timeline;
    return options->check_numerics ? check_numerics(about) : NULL;
}

dt_status *dt_run_find_pipeline(const dt_artifact *artifact, const char *from, int step, int *pipeline) {
    *pipeline = from != NULL ? dt_artifact_find_pipeline(artifact, from) : artifact->steps[step].pipeline;
    if (*pipeline >= 0) return NULL;
    dt_text names = {0};
    for (int i = 0; i < artifact->n_pipelines; i++) dt_text_format(&names, "%s%s", i > 0 ? ", " : "", artifact->pipelines[i].name);
    const char *list = names.data != NULL ? names.data : "none";
    dt_status *status =
        from != NULL ? dt_error_in(DT_NOT_FOUND, artifact->path, 0, "has no data %s; --from picks one of its own: %s", from, list)
                     : dt_error(DT_INVALID_ARGUMENT, "step %s names no data of its own; --from picks one: %s", artifact->steps[step].name, list);
    dt_text_free(&names);
    return status;
}

dt_status *dt_run_find_data(const dt_artifact *artifact, const dt_run_options *options, int step, int *number, const dt_artifact_pipeline **written) {
    if (options->given != NULL) {
        *number = artifact->n_pipelines;
        *written = &options->given->written;
        return options->from == NULL ? NULL : dt_error(DT_INVALID_ARGUMENT, "--from names data of the program, and other data is given");
    }
    DT_TRY(dt_run_find_pipeline(artifact, options->from, step, number));
    *written = &artifact->pipelines[*number];
    return NULL;
}

dt_status *dt_run_rows(const dt_run_options *options, int64_t otherwise, int64_t *rows) {
    int64_t replicas = options->replicas != 0 ? options->replicas : 1;
    *rows = options->global_batch != 0 ? options->global_batch / replicas : otherwise;
    if (options->global_batch % replicas != 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "a global batch of %" PRId64 " cannot be dealt evenly to %" PRId64
                        " replicas: --global-batch must be a multiple of --replicas",
                        options->global_batch, replicas);
    return NULL;
}

/* Files of one name may differ from machine to machine. */
static dt_status *compare_init(dt_session *session, const dt_run_options *options, uint64_t hash) {
    dt_session_answers hashes;
    DT_TRY(dt_session_ask(session, (int64_t)hash, &hashes));
    if (hashes.other < 0) return NULL;
    char other[160];
    dt_session_print_process(session, hashes.other, other, sizeof other);
    return dt_fault_of(
        session, hashes.other,
        "not all processes find the same in %s%s%s: %s finds other bytes than process 0; --init and --map name files that are the same "
        "on all machines",
        options->init, options->map != NULL ? " and " : "", options->map != NULL ? options->map : "", other);
}

/* A remark for each line of the text, which is freed. */
static void log_lines(dt_log *log, const char *kind, dt_text text) {
    char *rest = text.data;
    for (char *line; rest != NULL && *rest != 0 && (line = strsep(&rest, "\n")) != NULL;) dt_log_remark(log, kind, "%s", line);
    dt_text_free(&text);
}

static dt_status *load_init(dt_session *session, const dt_run_options *options, dt_log *log) {
    dt_weights_options weights = {.path = options->init, .map = options->map, .allow_missing = options->allow_missing};
    dt_weights_report report;
    dt_status *status = dt_weights_load(session, &weights, &report);
    if (status == NULL) status = compare_init(session, options, report.hash);
    if (status == NULL) {
        if (report.lines.n > 0)
            dt_log_remark(log, "note", "weights of %s%s%s:%s", options->init, options->map != NULL ? " by " : "",
                          options->map != NULL ? options->map : "", report.lines.data);
        log_lines(log, "warning", report.warnings);
        report.warnings = (dt_text){0};
    }
    dt_weights_report_free(&report);
    return status;
}

static dt_status *load_checkpoint(dt_session *session, const char *path, int64_t *epoch) {
    dt_checkpoint_state state;
    dt_status *status = dt_checkpoint_read_state(path, &state);
    if (status == NULL) status = dt_checkpoint_load_weights(session, path);
    *epoch = state.epoch;
    dt_checkpoint_state_free(&state);
    return status;
}

/* A training that is at work in the folder may remove the checkpoint that is being read: then there is a newer one. */
static dt_status *load_newest(dt_session *session, const char *folder, bool *found, int64_t *epoch) {
    for (;;) {
        char *path;
        DT_TRY(dt_checkpoint_newest(folder, &path));
        *found = path != NULL;
        dt_status *status = path != NULL ? load_checkpoint(session, path, epoch) : NULL;
        bool is_gone = status != NULL && !dt_file_exists(path);
        dt_release(path);
        if (!is_gone) return status;
        dt_status_free(status);
    }
}

dt_status *dt_run_load_weights(dt_session *session, const dt_run_options *options, dt_log *log, bool *found, int64_t *epoch) {
    *found = options->init != NULL;
    *epoch = 0;
    if (options->init != NULL) return load_init(session, options, log);
    return options->checkpoint_dir != NULL ? load_newest(session, options->checkpoint_dir, found, epoch) : NULL;
}

dt_status *dt_run_check_launch_values(const dt_artifact *artifact, const dt_run_options *options) {
    int variable;
    double value;
    for (int i = 0; i < options->n_launch_values; i++) DT_TRY(dt_launch_parse(artifact, options->launch_values[i], &variable, &value));
    return NULL;
}

dt_status *dt_run_set_launch_values(dt_session *session, const dt_run_options *options, dt_log *log) {
    const dt_artifact *artifact = dt_session_artifact(session);
    for (int i = 0; i < options->n_launch_values; i++) {
        int variable;
        double value, before;
        char now[32], then[32];
        DT_TRY(dt_launch_parse(artifact, options->launch_values[i], &variable, &value));
        DT_TRY(dt_session_get_launch(session, variable, &before));
        DT_TRY(dt_session_set_launch(session, variable, value));
        const dt_artifact_variable *about = &artifact->variables[variable];
        if (strcmp(dt_launch_print(about, value, now), dt_launch_print(about, before, then)) != 0)
            dt_log_remark(log, "note", "launch value %s is %s, as --set says, and no longer %s", about->path, dt_launch_print(about, value, now),
                          dt_launch_print(about, before, then));
    }
    return NULL;
}

static bool is_weight(dt_variable_kind kind) { return kind == DT_VARIABLE_PARAMETER || kind == DT_VARIABLE_STATE; }

dt_status *dt_run_need_weights(dt_session *session, const dt_run_options *options, dt_log *log, int64_t *epoch) {
    const dt_artifact *artifact = dt_session_artifact(session);
    bool found, needed = false;
    DT_TRY(dt_run_load_weights(session, options, log, &found, epoch));
    if (options->init != NULL && options->checkpoint_dir != NULL)
        dt_log_remark(log, "note", "--checkpoint-dir %s is not read: --init names the weights", options->checkpoint_dir);
    for (int v = 0; v < artifact->n_variables; v++) needed |= is_weight(artifact->variables[v].kind) && artifact->weights == NULL;
    DT_TRY(dt_run_set_launch_values(session, options, log));
    if (found || !needed) return NULL;
    if (options->checkpoint_dir == NULL)
        return dt_error(DT_INVALID_ARGUMENT, "no weights: name a folder of checkpoints with --checkpoint-dir, or a file with --init");
    return dt_error_in(DT_NOT_FOUND, options->checkpoint_dir, 0, "holds no checkpoint; train first, or name a file of weights with --init");
}

bool dt_run_leads(const dt_run_options *options) { return dt_processes_number(options->processes) == 0; }

void dt_run_log_reading(dt_log *log, const dt_pipeline *pipeline) {
    dt_text about = {0}, whole = {0};
    dt_pipeline_print_about(pipeline, &about);
    dt_pipeline_print_whole(pipeline, &whole);
    if (about.n > 0) dt_log_remark(log, "note", "%s", about.data);
    if (whole.n > 0) dt_log_remark(log, "note", "%s", whole.data);
    dt_text_free(&about);
    dt_text_free(&whole);
}

/* A line for each library that a GPU's work is left to, what each device has and does in central storage, how several processes exchange, and what
 * they share out. */
static void log_libraries(dt_log *log, const dt_session *session) {
    dt_text libraries = {0}, placement = {0}, crossing = {0}, sharing = {0};
    dt_session_print_libraries(session, false, &libraries);
    dt_session_print_crossing(session, &crossing);
    log_lines(log, "library", libraries);
    dt_session_print_placement(session, &placement);
    dt_session_print_sharing(session, &sharing);
    log_lines(log, "note", placement);
    log_lines(log, "note", crossing);
    log_lines(log, "note", sharing);
}

void dt_run_log_started(dt_log *log, const dt_kernels *kernels, dt_session *session, const dt_pipeline *pipeline, int step, dt_log_start start) {
    const dt_artifact *artifact = dt_kernels_artifact(kernels);
    int n_devices = dt_session_n_devices(session);
    const char **devices = dt_allocate((size_t)n_devices * sizeof *devices);
    for (int i = 0; devices != NULL && i < n_devices; i++) devices[i] = dt_session_device_name(session, i);
    start.program = artifact->name;
    start.step = artifact->steps[step].name;
    start.level = dt_session_level(session);
    start.n_parameters = artifact->n_parameters;
    start.n_trainable = artifact->steps[step].trains ? artifact->steps[step].n_trained : artifact->n_trainable;
    start.replicas = dt_session_replicas(session);
    start.global_batch = dt_session_global_batch(session);
    start.memory_bytes = dt_session_memory_bytes(session);
    start.n_examples = pipeline != NULL ? dt_pipeline_n_examples(pipeline) : 0;
    start.steps_per_epoch = pipeline != NULL ? dt_pipeline_n_batches(pipeline) : 0;
    start.n_devices = devices != NULL ? n_devices : 0;
    start.devices = devices;
    dt_log_started(log, &start);
    if (dt_session_n_spare(session) > 0)
        dt_log_remark(log, "note", "%d of %d GPUs have nothing to do: there are %" PRId64 " replicas; --replicas %d uses all of them",
                      dt_session_n_spare(session), dt_session_n_spare(session) + n_devices, start.replicas,
                      dt_session_n_spare(session) + dt_session_n_computing(session));
    log_libraries(log, session);
    if (pipeline != NULL) dt_run_log_reading(log, pipeline);
    dt_release(devices);
}

/* ---- a session of the caller's ---- */

dt_status *dt_run_find_rows(const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about, dt_row_range *rows) {
    if (options->on == NULL) return dt_session_find_rows(kernels, about, rows);
    *rows = dt_session_rows_here(options->on->session);
    return NULL;
}

dt_status *dt_run_share_data(const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about, dt_pipeline_options *data) {
    int n = dt_processes_count(options->processes);
    DT_TRY(dt_run_find_rows(kernels, options, about, &data->part));
    data->marks = !options->no_data_check && (n > 1 || options->team != NULL);
    if (!data->marks || options->team != NULL || !dt_run_leads(options)) return NULL;
    dt_row_range *parts = dt_allocate((size_t)n * sizeof *parts);
    if (parts == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    dt_status *status = dt_session_find_parts(kernels, options->on != NULL ? dt_session_get_options(options->on->session) : about, parts);
    data->parts = parts;
    data->n_parts = n;
    return status;
}

dt_status *dt_run_open_pipeline(const dt_kernels *kernels, const dt_run_options *options, const dt_artifact_pipeline *written,
                                const dt_pipeline_options *data, dt_pipeline **pipeline) {
    return dt_processes_sign(options->processes, dt_pipeline_open(kernels, written, data, pipeline));
}

dt_status *dt_run_open_given(const dt_kernels *kernels, const dt_run_options *options, const dt_given *given, const dt_pipeline_options *data,
                             dt_pipeline **pipeline) {
    dt_pipeline_options own = *data;
    own.given = given;
    own.rows = given->rows;
    own.replicas = 1;
    return dt_run_open_pipeline(kernels, options, &given->written, &own, pipeline);
}

dt_status *dt_run_open_session(const dt_kernels *kernels, const dt_run_options *options, const dt_session_options *about, dt_session **session) {
    if (options->on == NULL) return dt_session_create(kernels, about, session);
    *session = options->on->session;
    return NULL;
}

void dt_run_free_session(const dt_run_options *options, dt_session *session) {
    if (options->on == NULL) dt_session_destroy(session);
}

dt_status *dt_run_initialize(dt_session *session) {
    const dt_artifact *artifact = dt_session_artifact(session);
    dt_weights_report report;
    DT_TRY(dt_session_initialize(session));
    if (artifact->weights == NULL) return NULL;
    dt_weights_options weights = {.path = artifact->path, .bytes = artifact->weights, .n_bytes = artifact->weight_bytes};
    dt_status *status = dt_weights_load(session, &weights, &report);
    dt_weights_report_free(&report);
    return status;
}

dt_status *dt_run_prepare_weights(dt_session *session, const dt_run_options *options, dt_log *log, int64_t *epoch) {
    *epoch = options->on != NULL ? options->on->state->epoch : 0;
    if (options->on != NULL) return NULL;
    DT_TRY(dt_run_initialize(session));
    return dt_run_need_weights(session, options, log, epoch);
}

dt_status *dt_run_open_runner(const dt_kernels *kernels, dt_session *session, const dt_run_options *options, int step, dt_runner **runner) {
    if (options->on == NULL) return dt_runner_create(kernels, session, step, options->ignore_bad_index, runner);
    dt_runner **callers = &options->on->runners[step];
    if (*callers == NULL) DT_TRY(dt_runner_create(kernels, session, step, options->ignore_bad_index, callers));
    *runner = *callers;
    return NULL;
}

void dt_run_free_runner(const dt_run_options *options, dt_runner *runner) {
    if (options->on == NULL) dt_runner_destroy(runner);
}

/* ---- what a checkpoint says ---- */

static dt_status *describe_libraries(const dt_session *session, dt_checkpoint_state *state) {
    dt_text lines = {0};
    dt_text_append(&lines, "");
    dt_session_print_libraries(session, true, &lines);
    dt_status *status = lines.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : dt_checkpoint_state_set(&state->libraries, lines.data);
    dt_text_free(&lines);
    return status;
}

dt_status *dt_run_describe(const dt_session *session, const char *data, dt_checkpoint_state *state) {
    const dt_session_options *options = dt_session_get_options(session);
    DT_TRY(dt_checkpoint_state_set(&state->program_hash, dt_session_artifact(session)->program_hash));
    DT_TRY(dt_checkpoint_state_set(&state->level, dt_session_level(session)));
    DT_TRY(describe_libraries(session, state));
    DT_TRY(dt_checkpoint_state_set(&state->data, data));
    state->seed = options->seed;
    state->replicas = options->replicas;
    state->global_batch = dt_session_global_batch(session);
    state->epochs = options->epochs;
    state->steps_per_epoch = options->steps_per_epoch;
    return NULL;
}
