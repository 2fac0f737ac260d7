/* program: how every call of the library gets from a program's text to a module, and how it is left when memory is out. */
#include "abi/precision.h"
#include "abi/version.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/options.h"
#include "compiler/api/api.h"
#include "frontends/dsl/dsl.h"
#include "ir/text_form.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

const char *dtc_version(void) { return DT_COMPILER_NAME; }
void dtc_status_free(dt_status *status) { dt_status_free(status); }
void dtc_free(void *memory) { dt_release(memory); }

/* ---- a call ---- */

/* No local of this function changes between setjmp and longjmp. */
dt_status *dt_api_in_arena(const char *out_of_memory, dt_status *(*work)(dt_arena *arena, void *context), void *context) {
    jmp_buf guard;
    dt_arena *arena = dt_arena_create();
    if (arena == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "%s", out_of_memory);
    if (setjmp(guard) != 0) {
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "%s", out_of_memory);
    }
    dt_arena_guard(arena, &guard);
    dt_status *status = work(arena, context);
    dt_arena_destroy(arena);
    return status;
}

typedef struct run {
    dt_api_call call;
    dt_api_work work;
    void *context;
    dt_status *status;
} run;

static dt_status *run_in_arena(dt_arena *arena, void *context) {
    run *run = context;
    run->call.arena = arena;
    return run->work(&run->call, run->context);
}

static void run_for_caller(dt_caller *caller, void *argument) {
    run *run = argument;
    run->call.caller = caller;
    run->status = dt_api_in_arena("out of memory", run_in_arena, run);
}

dt_status *dt_api_run(const dtc_program *program, dt_api_work work, void *context) {
    run run = {.work = work, .context = context};
    DT_TRY(dt_options_read(program, &run.call.program, sizeof run.call.program, "dtc_program"));
    DT_TRY(dt_api_check_program(&run.call.program));
    if (run.call.program.path == NULL) run.call.program.path = "program.dt";
    run.call.source = run.call.program.source;
    dt_run_for_caller(DT_API_STACK_BYTES, run_for_caller, &run);
    free(run.call.file_text);
    return run.status;
}

/* ---- the program ---- */

static dt_status *check_defines(const dtc_program *program) {
    if (program->n_defines > 0 && program->defines == NULL) return dt_error(DT_INVALID_ARGUMENT, "dtc_program: n_defines without defines");
    for (size_t i = 0; i < program->n_defines; i++) {
        const dtc_define *define = &program->defines[i];
        if (define->name == NULL || define->value == NULL || *define->name == 0)
            return dt_error(DT_INVALID_ARGUMENT, "dtc_program: a define needs a name and a value");
        for (size_t k = 0; k < i; k++)
            if (strcmp(program->defines[k].name, define->name) == 0)
                return dt_error(DT_INVALID_ARGUMENT, "-D %s=%s: %s is set twice, to %s before", define->name, define->value, define->name,
                                program->defines[k].value);
    }
    return NULL;
}

dt_status *dt_api_check_program(const dtc_program *program) {
    if (program->path == NULL && program->source == NULL) return dt_error(DT_INVALID_ARGUMENT, "dtc_program: it needs a path or a source");
    if (program->batch < 0 || program->batch > INT32_MAX)
        return dt_error(DT_INVALID_ARGUMENT, "--batch takes a number of rows, from 1 to %" PRId32 ", not %" PRId64, INT32_MAX, program->batch);
    if (program->precision != NULL && !dt_is_precision_option(program->precision))
        return dt_error(DT_INVALID_ARGUMENT, "--precision takes " DT_PRECISION_CHOICES ", not \"%s\"%s", program->precision,
                        strcmp(program->precision, "f16") == 0 ? ", whose small range needs losses that are scaled, as mixed_f16 does" : "");
    return check_defines(program);
}

/* ---- its text ---- */

dt_status *dt_api_read_source(dt_api_call *call) {
    const char *path = call->program.path;
    if (call->source != NULL) return NULL;
    size_t n_bytes;
    DT_TRY(dt_file_read(path, &call->file_text, &n_bytes));
    if (strncmp(call->file_text, "PK\3\4", 4) == 0)
        return dt_error(DT_INVALID_ARGUMENT,
                        "%s is an artifact, or another zip file: dtrun runs artifacts, dtc takes programs and graphs in text form", path);
    size_t n_text = strlen(call->file_text);
    if (n_text < n_bytes) return dt_error(DT_INVALID_ARGUMENT, "%s is no text: byte %zu is 0", path, n_text);
    call->source = call->file_text;
    return NULL;
}

/* ---- its module ---- */

/* The caller's callback for a module's text, on its way to the caller's thread. */
typedef struct question {
    dt_api_call *call;
    const char *name;
    const char *text;
} question;

static int ask(void *argument) {
    question *question = argument;
    const dtc_program *program = &question->call->program;
    return program->module(program->context, question->name, &question->text);
}

static dt_status *find_module(void *context, const char *name, const char **text) {
    question question = {.call = context, .name = name};
    dt_status *status = dt_api_tell(context, ask, &question);
    *text = question.text;
    return status;
}

dt_status *dt_api_mistakes(dt_api_call *call, const dt_diagnostics *diagnostics) {
    size_t n, n_errors = dt_diagnostics_n_errors(diagnostics);
    dt_diagnostic *const *sorted = dt_diagnostics_sorted(diagnostics, &n);
    const dt_diagnostic *first = sorted[0];
    for (size_t i = n; i-- > 0;)
        if (sorted[i]->severity == DT_SEVERITY_ERROR) first = sorted[i];
    dt_text text = {.arena = call->arena};
    if (call->program.diagnostic == NULL)
        dt_diagnostics_print(&text, diagnostics);
    else
        dt_text_format(&text, "%s: %zu error%s\n", call->program.path, n_errors, dt_plural((int64_t)n_errors));
    dt_status *status = dt_error(DT_INVALID_ARGUMENT, "%.*s", (int)text.n - 1, text.data);
    if (first->span.line == 0) return status;
    return dt_status_at(status, dt_diagnostics_file_name(diagnostics, first->span.file), first->span.line, first->span.column);
}

static dt_status *elaborate(dt_api_call *call, dt_module **module) {
    const dtc_program *program = &call->program;
    DT_TRY(dt_api_read_source(call));
    dt_dsl_define *defines = DT_NEW_ARRAY(call->arena, dt_dsl_define, program->n_defines);
    for (size_t i = 0; i < program->n_defines; i++) defines[i] = (dt_dsl_define){program->defines[i].name, program->defines[i].value};
    dt_dsl_options options = {.defines = defines,
                              .n_defines = program->n_defines,
                              .capacity = program->batch,
                              .precision = program->precision,
                              .folder = program->folder,
                              .find_module = program->module != NULL ? find_module : NULL,
                              .context = call,
                              .sources = &call->sources};
    dt_diagnostics *diagnostics = dt_diagnostics_create(call->arena);
    dt_status *status = dt_dsl_compile(call->arena, program->path, call->source, &options, diagnostics, module);
    status = dt_status_first(status, dt_api_report_all(call, diagnostics));
    return status != NULL || *module != NULL ? status : dt_api_mistakes(call, diagnostics);
}

bool dt_api_ends_in(const char *path, const char *suffix) {
    size_t n = strlen(path), n_suffix = strlen(suffix);
    return n >= n_suffix && strcmp(path + n - n_suffix, suffix) == 0;
}

static bool is_graph(const char *path) { return dt_api_ends_in(path, ".ir"); }
bool dt_api_is_plan(const dt_api_call *call) { return dt_api_ends_in(call->program.path, ".plan"); }

dt_status *dt_api_run_passes(dt_api_call *call, dt_compilation *compilation, const dt_passes_options *options) {
    return dt_api_refused(call, compilation->module, dt_passes_run(compilation, options));
}

dt_status *dt_api_refused(dt_api_call *call, const dt_module *module, dt_status *status) {
    if (status == NULL || status->line == 0) return status;
    bool is_program = !is_graph(call->program.path) && module->files.n > 0 && strcmp(status->file, module->files.items[0]) == 0;
    const char *place = dt_arena_format(call->arena, "%s:%d:%d: ", status->file, status->line, status->column);
    const char *file = is_program ? call->program.path : dt_arena_string(call->arena, status->file);
    dt_diagnostics *diagnostics = dt_diagnostics_create(call->arena);
    dt_span span = {dt_diagnostics_add_file(diagnostics, file, is_program ? call->source : NULL), status->line, status->column, 1};
    bool says_place = strncmp(status->message, place, strlen(place)) == 0; /* a diagnostic says it anyway */
    dt_diagnostics_add(diagnostics, span, "%s", status->message + (says_place ? strlen(place) : 0));
    dt_status_free(status);
    DT_TRY(dt_api_report_all(call, diagnostics));
    return dt_api_mistakes(call, diagnostics);
}

/* What is set for programs, and is decided in what was made of one. */
static dt_status *refuse_settings(const dtc_program *program, const char *what) {
    if (program->n_defines) return dt_error_in(DT_INVALID_ARGUMENT, program->path, 0, "a %s has no options left to set with -D", what);
    if (program->precision)
        return dt_error_in(DT_INVALID_ARGUMENT, program->path, 0, "--precision is for programs: in a %s each product says its own", what);
    return NULL;
}

dt_status *dt_api_load_graph(dt_api_call *call, dt_module **module) {
    const dtc_program *program = &call->program;
    DT_TRY(dt_api_read_source(call));
    DT_TRY(refuse_settings(program, "graph"));
    DT_TRY(dt_module_parse(call->arena, program->path, call->source, module));
    if (program->batch) (*module)->capacity = program->batch;
    return NULL;
}

dt_status *dt_api_load_plans(dt_api_call *call, dt_plan_sets *sets) {
    const dtc_program *program = &call->program;
    DT_TRY(dt_api_read_source(call));
    DT_TRY(refuse_settings(program, "plan"));
    if (program->batch) return dt_error_in(DT_INVALID_ARGUMENT, program->path, 0, "--batch is for programs: a plan says its rows");
    return dt_plans_parse(call->arena, program->path, call->source, sets);
}

dt_status *dt_api_check_placed(const dt_api_call *call, const dt_plan *plan) {
    if (plan->is_placed) return NULL;
    return dt_error_in(DT_INVALID_ARGUMENT, call->program.path, 0, "the plan %s has no memory yet: `dtc opt --pass plan_memory` plans it",
                       plan->name);
}

dt_status *dt_api_load(dt_api_call *call, dt_module **module) {
    if (dt_api_is_plan(call))
        return dt_error_in(DT_INVALID_ARGUMENT, call->program.path, 0, "this needs a program or a graph: a plan is what became of one");
    DT_TRY((is_graph(call->program.path) ? dt_api_load_graph : elaborate)(call, module));
    int64_t rows = (*module)->capacity;
    if (rows < 0 || rows > INT32_MAX)
        return dt_error_in(DT_INVALID_ARGUMENT, call->program.path, 0,
                           "memory is planned for 1 to %" PRId32 " rows for each replica, not for %" PRId64 "; --batch says for how many", INT32_MAX,
                           rows);
    return NULL;
}
