/* graph: a picture of a step, as text for Graphviz or drawn by it. */
#include "base/options.h"
#include "compiler/api/api.h"
#include "compiler/picture.h"
#include "compiler/pipeline.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The options as they are read, and what comes out. */
typedef struct job {
    dtc_graph_options options;
    bool is_text;
    dt_text output;
    dtc_bytes *bytes;
} job;

static dt_status *read_options(job *job, const dtc_graph_options *options) {
    static const char *const formats[] = {"dot", "svg", "pdf", "png"};
    DT_TRY(dt_options_read(options, &job->options, sizeof job->options, "dtc_graph_options"));
    if (job->options.n_levels < 0) return dt_error(DT_INVALID_ARGUMENT, "dtc_graph_options: n_levels is %d", job->options.n_levels);
    if (job->options.format == NULL) job->options.format = formats[0];
    job->is_text = strcmp(job->options.format, formats[0]) == 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(job->options.format, formats[i]) == 0) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "there is no format \"%s\" for a picture: there are dot, svg, pdf and png", job->options.format);
}

/* ---- drawing ---- */

/* What dot reads and writes: files without names, so that no pipe can be full while both wait. */
typedef struct drawing {
    int input, output, errors;
} drawing;

static dt_status *open_files(drawing *drawing) {
    drawing->input = memfd_create("dot", MFD_CLOEXEC);
    drawing->output = memfd_create("picture", MFD_CLOEXEC);
    drawing->errors = memfd_create("errors", MFD_CLOEXEC);
    if (drawing->input >= 0 && drawing->output >= 0 && drawing->errors >= 0) return NULL;
    return dt_error(errno == ENOMEM || errno == EMFILE || errno == ENFILE ? DT_RESOURCE_EXHAUSTED : DT_IO, "cannot make a file in memory: %s",
                    strerror(errno));
}

static void close_files(const drawing *drawing) {
    if (drawing->input >= 0) close(drawing->input);
    if (drawing->output >= 0) close(drawing->output);
    if (drawing->errors >= 0) close(drawing->errors);
}

static dt_status *write_all(int file, const char *data, size_t n) {
    for (ssize_t written; n > 0; data += written, n -= (size_t)written) {
        written = write(file, data, n);
        if (written < 0 && errno == EINTR) written = 0;
        if (written < 0) return dt_error(DT_IO, "cannot write a file in memory: %s", strerror(errno));
    }
    return lseek(file, 0, SEEK_SET) == 0 ? NULL : dt_error(DT_IO, "cannot read a file in memory: %s", strerror(errno));
}

static dt_status *read_all(int file, dt_text *text) {
    char part[1 << 16];
    ssize_t n;
    if (lseek(file, 0, SEEK_SET) != 0) return dt_error(DT_IO, "cannot read a file in memory: %s", strerror(errno));
    while ((n = read(file, part, sizeof part)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) dt_text_append_bytes(text, part, (size_t)n);
    return n == 0 ? NULL : dt_error(DT_IO, "cannot read a file in memory: %s", strerror(errno));
}

/* *how: of waitpid; 0 where the process ignores SIGCHLD, and only what was written tells. */
static dt_status *run_dot(const drawing *drawing, const dtc_graph_options *options, int *how) {
    char type[16];
    snprintf(type, sizeof type, "-T%s", options->format);
    char *arguments[] = {(char[]){"dot"}, type, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    if (posix_spawn_file_actions_init(&actions) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    int reason = posix_spawn_file_actions_adddup2(&actions, drawing->input, STDIN_FILENO);
    if (reason == 0) reason = posix_spawn_file_actions_adddup2(&actions, drawing->output, STDOUT_FILENO);
    if (reason == 0) reason = posix_spawn_file_actions_adddup2(&actions, drawing->errors, STDERR_FILENO);
    if (reason == 0) reason = posix_spawnp(&child, "dot", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (reason == ENOENT)
        return dt_error(DT_NOT_FOUND,
                        "%s is drawn by Graphviz's dot, which is not installed: apt-get install graphviz, or write text with -o FILE.dot",
                        options->output != NULL ? options->output : options->format);
    if (reason != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "cannot start dot: %s", strerror(reason));
    *how = 0;
    while (waitpid(child, how, 0) < 0 && errno == EINTR) continue;
    return NULL;
}

static dt_status *draw_in(const drawing *drawing, const dt_text *text, job *job) {
    int how;
    DT_TRY(write_all(drawing->input, text->data, text->n));
    DT_TRY(run_dot(drawing, &job->options, &how));
    DT_TRY(read_all(drawing->output, &job->output));
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0 && job->output.n > 0) return NULL;
    dt_text errors = {0};
    dt_status *status = read_all(drawing->errors, &errors);
    const char *said = errors.n > 0 ? errors.data : "it says nothing";
    if (status == NULL) status = dt_error(DT_IO, "dot could not draw it: %.*s", (int)strcspn(said, "\n"), said);
    dt_text_free(&errors);
    return status;
}

/* The text, drawn. Nothing in here takes memory of the arena, which may be out: then the files would stay open. */
static dt_status *draw(const dt_text *text, job *job) {
    drawing drawing;
    dt_status *status = open_files(&drawing);
    if (status == NULL) status = draw_in(&drawing, text, job);
    close_files(&drawing);
    return status;
}

/* ---- the call ---- */

static dt_status *find_step(const dt_module *module, const char *name, const dt_step **step) {
    dt_text names = {.arena = module->arena};
    *step = module->steps.n > 0 ? &module->steps.items[0] : NULL;
    for (size_t i = 0; i < module->steps.n; i++) {
        dt_text_format(&names, "%s%s", i > 0 ? ", " : "", module->steps.items[i].name);
        if (strcmp(module->steps.items[i].name, name != NULL ? name : "train") != 0) continue;
        *step = &module->steps.items[i];
        return NULL;
    }
    if (name == NULL && *step != NULL) return NULL;
    return dt_error(DT_NOT_FOUND, "there is no step %s; --step picks one of: %s", name != NULL ? name : "train",
                    names.data != NULL ? names.data : "none");
}

static dt_status *work(dt_api_call *call, void *context) {
    job *job = context;
    const dtc_graph_options *options = &job->options;
    dt_module *module;
    const dt_step *step;
    dt_picture picture;
    if (options->output != NULL) DT_TRY(dt_api_check_output(call->program.path, options->output));
    DT_TRY(dt_api_load(call, &module));
    DT_TRY(find_step(module, options->step, &step));
    dt_picture_make(call->arena, module, step, options->n_levels - 1, &picture);
    dt_compilation compilation = {.arena = call->arena, .module = module};
    DT_TRY(dt_api_run_passes(call, &compilation, &(dt_passes_options){0}));
    dt_picture_mark_crossing(&picture, &compilation);
    dt_text text = {.arena = call->arena};
    dt_picture_print(call->arena, &picture, &text);
    if (job->is_text)
        dt_text_append_bytes(&job->output, text.data, text.n);
    else
        DT_TRY(draw(&text, job));
    return dt_api_give(&job->output, options->output, job->bytes);
}

dt_status *dtc_graph(const dtc_program *program, const dtc_graph_options *options, dtc_bytes *bytes) {
    job job = {.bytes = bytes};
    if (bytes != NULL) *bytes = (dtc_bytes){0};
    DT_TRY(read_options(&job, options));
    dt_status *status = dt_api_run(program, work, &job);
    dt_text_free(&job.output);
    return status;
}
