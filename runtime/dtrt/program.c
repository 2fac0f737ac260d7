/* program: see program.h. */
#include "runtime/dtrt/program.h"

#include "abi/version.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "base/options.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

struct dtrt_program {
    atomic_int n_holders, n_users; /* users: those who hold its kernels */
    dt_artifact *artifact;
    void *bytes; /* [n_bytes] the file, where it was in memory; NULL: it is at the artifact's path */
    size_t n_bytes;
    struct stat file; /* as it was opened, where it is at that path */
    dt_kernels_options options;
    char *level;          /* options.level */
    pthread_mutex_t lock; /* of `kernels` while they are loaded */
    dt_kernels *kernels;
};

#define X(enumerator, name, bytes, safetensors, kind, is_signed)                                                                                     \
    _Static_assert((int)DTRT_##enumerator == (int)DT_##enumerator, "the types of the header are those of artifacts");
DT_DTYPES(X)
#undef X
/* NOLINTNEXTLINE(misc-redundant-expression): that they are the same is what it asserts */
_Static_assert(DTRT_ROWS == DT_ROWS, "a dimension of rows is the same one in the header");

dt_status *dt_api_need(const void *pointer, const char *name) { return pointer != NULL ? NULL : dt_error(DT_INVALID_ARGUMENT, "%s is NULL", name); }

dt_status *dt_api_check_index(int index, int n, const char *what) {
    if (index >= 0 && index < n) return NULL;
    return dt_error(DT_OUT_OF_RANGE, "there is no %s %d: they are numbered from 0, and there %s %d", what, index, n == 1 ? "is" : "are", n);
}

/* ---- what belongs to nothing ---- */

void dtrt_status_free(dt_status *status) { dt_status_free(status); }
const char *dtrt_code_name(dt_code code) { return dt_code_name(code); }
const char *dtrt_version(void) { return DT_VERSION; }
const char *dtrt_dtype_name(dtrt_dtype dtype) { return (unsigned)dtype < DT_N_DTYPES ? dt_dtype_name((dt_dtype)dtype) : NULL; }
size_t dtrt_dtype_bytes(dtrt_dtype dtype) { return (unsigned)dtype < DT_N_DTYPES ? dt_dtype_bytes((dt_dtype)dtype) : 0; }
void dtrt_free(void *memory) { dt_release(memory); }

/* ---- opening ---- */

static void destroy(dtrt_program *program) {
    dt_kernels_free(program->kernels);
    dt_artifact_close(program->artifact);
    pthread_mutex_destroy(&program->lock);
    dt_release(program->level);
    dt_release(program->bytes);
    dt_release(program);
}

static dt_status *create(const dtrt_open_options *given, dtrt_program **program) {
    dtrt_open_options options;
    DT_TRY(dt_options_read(given, &options, sizeof options, "dtrt_open_options"));
    dtrt_program *made = dt_allocate_zeroed(1, sizeof *made);
    size_t level_bytes = options.level != NULL ? strlen(options.level) + 1 : 1;
    char *level = dt_allocate_zeroed(1, level_bytes);
    if (made == NULL || level == NULL) {
        dt_release(made);
        dt_release(level);
        return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    }
    if (options.level != NULL) memcpy(level, options.level, level_bytes);
    made->level = level;
    made->options = (dt_kernels_options){.level = options.level != NULL ? level : NULL, .perf_map = options.perf_map != 0};
    atomic_init(&made->n_holders, 1);
    pthread_mutex_init(&made->lock, NULL);
    *program = made;
    return NULL;
}

static dt_status *open_copy(dtrt_program *program, const char *name, const void *bytes, size_t n_bytes) {
    program->bytes = dt_allocate(n_bytes);
    if (program->bytes == NULL) return dt_error_in(DT_RESOURCE_EXHAUSTED, name, 0, "no memory for %zu bytes", n_bytes);
    program->n_bytes = n_bytes;
    memcpy(program->bytes, bytes, n_bytes);
    return dt_artifact_open_memory(name, program->bytes, n_bytes, &program->artifact);
}

/* `bytes` NULL: they are those of the file. */
static dt_status *open_program(const char *path, const void *bytes, size_t n_bytes, const dtrt_open_options *options, dtrt_program **program) {
    DT_TRY(dt_api_need(program, "program"));
    *program = NULL;
    dtrt_program *made;
    DT_TRY(create(options, &made));
    if (bytes == NULL) stat(path, &made->file); /* where it is not there, opening says so */
    dt_status *status = bytes != NULL ? open_copy(made, path, bytes, n_bytes) : dt_artifact_open(path, &made->artifact);
    if (status == NULL)
        *program = made;
    else
        destroy(made);
    return status;
}

dt_status *dtrt_open(const char *path, const dtrt_open_options *options, dtrt_program **program) {
    DT_TRY(dt_api_need(path, "path"));
    return open_program(path, NULL, 0, options, program);
}

dt_status *dtrt_open_memory(const char *name, const void *bytes, size_t n_bytes, const dtrt_open_options *options, dtrt_program **program) {
    DT_TRY(dt_api_need(name, "name"));
    DT_TRY(dt_api_need(bytes, "bytes"));
    return open_program(name, bytes, n_bytes, options, program);
}

void dtrt_close(dtrt_program *program) {
    if (program != NULL && atomic_fetch_sub(&program->n_holders, 1) == 1) destroy(program);
}

/* Whether the code that is loaded is not what a session with this level would load, and none runs it. */
static bool is_outdated(const dtrt_program *program, const char *level) {
    const char *wanted = level != NULL ? level : program->options.level;
    int best = wanted == NULL ? dt_kernels_best_level(program->artifact) : 0;
    if (program->kernels == NULL || atomic_load(&program->n_users) > 0) return false;
    if (best > 0) wanted = dt_cpu_level_name(best);
    return wanted != NULL && strcmp(dt_kernels_level(program->kernels), wanted) != 0;
}

static dt_status *load_kernels(dtrt_program *program, const char *level) {
    dt_kernels_options options = program->options;
    if (level != NULL) options.level = level;
    if (is_outdated(program, level)) {
        dt_kernels_free(program->kernels);
        program->kernels = NULL;
    }
    if (program->kernels == NULL) return dt_kernels_load(program->artifact, &options, &program->kernels);
    if (level == NULL || strcmp(dt_kernels_level(program->kernels), level) == 0) return NULL;
    return dt_error_in(
        DT_FAILED_PRECONDITION, program->artifact->path, 0,
        "all processes are to run the code for %s, and a session of this one runs that for %s: open the program again, for the session "
        "with processes",
        level, dt_kernels_level(program->kernels));
}

dt_status *dt_program_hold(dtrt_program *program, const char *level, const dt_kernels **kernels) {
    pthread_mutex_lock(&program->lock);
    dt_status *status = load_kernels(program, level);
    if (status == NULL) atomic_fetch_add(&program->n_users, 1);
    if (status == NULL) atomic_fetch_add(&program->n_holders, 1);
    *kernels = program->kernels;
    pthread_mutex_unlock(&program->lock);
    return status;
}

void dt_program_release(dtrt_program *program) {
    if (program == NULL) return;
    atomic_fetch_sub(&program->n_users, 1);
    dtrt_close(program);
}

dt_status *dt_program_rendezvous(const dtrt_program *program, const char *command, const dt_run_options *run, const char **level, dt_text *note) {
    return dt_rendezvous(program->artifact, program->bytes, program->n_bytes, command, &program->options, run, level, note);
}

/* ---- asking ---- */

const dt_artifact *dt_program_artifact(const dtrt_program *program) { return program->artifact; }

/* The function of a step; NULL: there is no such step. */
static const dt_artifact_function *function_of(const dtrt_program *program, int step) {
    if (program == NULL || step < 0 || step >= program->artifact->n_steps) return NULL;
    return &program->artifact->functions[program->artifact->steps[step].function];
}

int dtrt_find_step(const dtrt_program *program, const char *name) {
    return program != NULL && name != NULL ? dt_artifact_find_step(program->artifact, name) : -1;
}

int dtrt_find_variable(const dtrt_program *program, const char *path) {
    return program != NULL && path != NULL ? dt_artifact_find_variable(program->artifact, path) : -1;
}

int dtrt_find_pipeline(const dtrt_program *program, const char *name) {
    return program != NULL && name != NULL ? dt_artifact_find_pipeline(program->artifact, name) : -1;
}

int dtrt_find_input(const dtrt_program *program, int step, const char *name) {
    const dt_artifact_function *function = function_of(program, step);
    for (int i = 0; function != NULL && name != NULL && i < function->n_inputs; i++)
        if (strcmp(function->inputs[i].name, name) == 0) return i;
    return -1;
}

/* Aggregates come before the results that a program names. */
int dtrt_find_result(const dtrt_program *program, int step, const char *name) {
    const dt_artifact_function *function = function_of(program, step);
    if (function == NULL || name == NULL) return -1;
    int n_aggregates = program->artifact->steps[step].n_aggregates;
    for (int i = n_aggregates; i < function->n_results; i++)
        if (strcmp(function->results[i].tensor.name, name) == 0) return i - n_aggregates;
    return -1;
}

int dtrt_find_report(const dtrt_program *program, int step, const char *name) {
    if (function_of(program, step) == NULL || name == NULL) return -1;
    const dt_artifact_step *about = &program->artifact->steps[step];
    for (int i = 0; i < about->n_reports; i++)
        if (strcmp(about->reports[i], name) == 0) return i;
    return -1;
}

dt_status *dtrt_program_describe(const dtrt_program *program, dtrt_program_info *info) {
    DT_TRY(dt_api_need(program, "program"));
    const dt_artifact *artifact = program->artifact;
    dtrt_program_info about = {.name = artifact->name,
                               .path = artifact->path,
                               .compiler = artifact->compiler,
                               .hash = artifact->program_hash,
                               .capacity = artifact->capacity,
                               .n_parameters = artifact->n_parameters,
                               .n_trainable = artifact->n_trainable,
                               .n_variables = artifact->n_variables,
                               .n_steps = artifact->n_steps,
                               .n_pipelines = artifact->n_pipelines,
                               .has_weights = artifact->weights != NULL,
                               .n_launch_values = dt_api_n_launch_values(artifact)};
    return dt_options_write(info, &about, sizeof about, "dtrt_program_info");
}

dt_status *dtrt_describe_step(const dtrt_program *program, int step, dtrt_step_info *info) {
    DT_TRY(dt_api_need(program, "program"));
    const dt_artifact *artifact = program->artifact;
    DT_TRY(dt_api_check_index(step, artifact->n_steps, "step"));
    const dt_artifact_step *of = &artifact->steps[step];
    const dt_artifact_function *function = &artifact->functions[of->function];
    dtrt_step_info about = {.name = of->name,
                            .trains = of->trains,
                            .n_inputs = function->n_inputs,
                            .n_results = function->n_results - of->n_aggregates,
                            .n_reports = of->n_reports,
                            .pipeline = of->pipeline >= 0 ? artifact->pipelines[of->pipeline].name : NULL};
    return dt_options_write(info, &about, sizeof about, "dtrt_step_info");
}

static dtrt_tensor tensor_of(const dt_artifact_tensor *tensor) {
    return (dtrt_tensor){.name = tensor->name,
                         .dtype = (dtrt_dtype)tensor->dtype,
                         .n_dims = tensor->n_dims,
                         .dims = tensor->dims,
                         .row_bytes = (size_t)tensor->row_bytes};
}

dt_status *dtrt_describe_variable(const dtrt_program *program, int variable, dtrt_tensor *tensor) {
    DT_TRY(dt_api_need(program, "program"));
    DT_TRY(dt_api_check_index(variable, program->artifact->n_variables, "variable"));
    const dt_artifact_variable *of = &program->artifact->variables[variable];
    dtrt_tensor about = tensor_of(&of->tensor);
    about.name = of->path;
    about.row_bytes = (size_t)of->bytes;
    about.kind = dt_variable_kind_names()[of->kind];
    about.trainable = of->trainable;
    return dt_options_write(tensor, &about, sizeof about, "dtrt_tensor");
}

static dt_status *find_function(const dtrt_program *program, int step, const dt_artifact_function **function) {
    DT_TRY(dt_api_need(program, "program"));
    DT_TRY(dt_api_check_index(step, program->artifact->n_steps, "step"));
    *function = function_of(program, step);
    return NULL;
}

dt_status *dtrt_describe_input(const dtrt_program *program, int step, int input, dtrt_tensor *tensor) {
    const dt_artifact_function *function;
    DT_TRY(find_function(program, step, &function));
    DT_TRY(dt_api_check_index(input, function->n_inputs, "input"));
    dtrt_tensor about = tensor_of(&function->inputs[input]);
    return dt_options_write(tensor, &about, sizeof about, "dtrt_tensor");
}

dt_status *dtrt_describe_result(const dtrt_program *program, int step, int result, dtrt_tensor *tensor) {
    const dt_artifact_function *function;
    DT_TRY(find_function(program, step, &function));
    int n_aggregates = program->artifact->steps[step].n_aggregates;
    DT_TRY(dt_api_check_index(result, function->n_results - n_aggregates, "result"));
    dtrt_tensor about = tensor_of(&function->results[n_aggregates + result].tensor);
    return dt_options_write(tensor, &about, sizeof about, "dtrt_tensor");
}

dt_status *dtrt_describe_report(const dtrt_program *program, int step, int report, const char **name) {
    const dt_artifact_function *function;
    DT_TRY(dt_api_need(name, "name"));
    *name = NULL;
    DT_TRY(find_function(program, step, &function));
    DT_TRY(dt_api_check_index(report, program->artifact->steps[step].n_reports, "report"));
    *name = program->artifact->steps[step].reports[report];
    return NULL;
}

dt_status *dtrt_describe_report_shape(const dtrt_program *program, int step, int report, dtrt_tensor *tensor) {
    const dt_artifact_function *function;
    DT_TRY(find_function(program, step, &function));
    const dt_artifact_step *about = &program->artifact->steps[step];
    DT_TRY(dt_api_check_index(report, about->n_reports, "report"));
    dtrt_tensor shape = tensor_of(&program->artifact->functions[about->report].results[report].tensor);
    shape.name = about->reports[report];
    return dt_options_write(tensor, &shape, sizeof shape, "dtrt_tensor");
}

dt_status *dtrt_describe_pipeline(const dtrt_program *program, int pipeline, const char **name) {
    DT_TRY(dt_api_need(program, "program"));
    DT_TRY(dt_api_need(name, "name"));
    *name = NULL;
    DT_TRY(dt_api_check_index(pipeline, program->artifact->n_pipelines, "pipeline"));
    *name = program->artifact->pipelines[pipeline].name;
    return NULL;
}

/* Whether the artifact's file is the one that was opened. */
static bool is_unchanged(const dtrt_program *program) {
    struct stat now;
    const struct stat *then = &program->file;
    return stat(program->artifact->path, &now) == 0 && now.st_dev == then->st_dev && now.st_ino == then->st_ino && now.st_size == then->st_size &&
           now.st_mtim.tv_sec == then->st_mtim.tv_sec && now.st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}

dt_status *dtrt_program_text(const dtrt_program *program, const char *member, char **text) {
    DT_TRY(dt_api_need(text, "text"));
    *text = NULL;
    DT_TRY(dt_api_need(program, "program"));
    DT_TRY(dt_api_need(member, "member"));
    const char *path = program->artifact->path;
    dt_status *status = program->bytes != NULL ? dt_artifact_read_text_memory(path, program->bytes, program->n_bytes, member, text)
                                               : dt_artifact_read_text(path, member, text);
    if (program->bytes == NULL && dt_status_code(status) != DT_NOT_FOUND && !is_unchanged(program)) {
        dt_status_free(status);
        dt_release(*text);
        *text = NULL;
        return dt_error_in(DT_FAILED_PRECONDITION, path, 0, "is another file than the one that was opened: open it again");
    }
    if (dt_status_code(status) != DT_DATA_LOSS) return status;
    dt_status_free(status); /* the artifact as a whole has been read: it is sound */
    return dt_error_in(DT_NOT_FOUND, path, 0, "holds no text %s; there are program.dt, program.ir and plan.txt", member);
}
