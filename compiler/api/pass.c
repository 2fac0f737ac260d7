/* pass: one pass, text in and text out. What the tests of the passes use, and a way to look at one pass alone. */
#include "base/options.h"
#include "compiler/api/api.h"
#include "compiler/pipeline.h"

#include <string.h>

const char *dtc_pass_name(int i) { return i >= 0 ? dt_pass_name(i) : NULL; }

/* The options as they are read, and what comes out. */
typedef struct job {
    dtc_pass_options options;
    dt_text output;
    dtc_bytes *bytes;
} job;

/* The same for plans in text form, which are all that there is of a program then. */
static dt_status *work_on_plans(dt_api_call *call, job *job) {
    dt_plan_sets sets;
    DT_TRY(dt_api_load_plans(call, &sets));
    for (int s = 0; s < sets.n; s++) {
        dt_compilation compilation = {.arena = call->arena, .plans = sets.items[s].plans, .n_plans = sets.items[s].n_plans};
        if (compilation.plans[0]->batched) compilation.target = DT_TARGET_CUDA;
        if (sets.items[s].choices != NULL && job->options.pass != NULL)
            return dt_error_in(DT_INVALID_ARGUMENT, call->program.path, 0, "choices have been made for these plans: passes run before that");
        if (job->options.pass != NULL) DT_TRY(dt_pass_run_on_plans(&compilation, job->options.pass));
        dt_plan_sets one = {1, &sets.items[s]};
        dt_plan_sets_print(call->arena, &job->output, &one);
    }
    return dt_api_give(&job->output, job->options.output, job->bytes);
}

static dt_status *work(dt_api_call *call, void *context) {
    job *job = context;
    const dtc_pass_options *options = &job->options;
    dt_module *module;
    if (options->output != NULL) DT_TRY(dt_api_check_output(call->program.path, options->output));
    if (dt_api_is_plan(call)) return work_on_plans(call, job);
    DT_TRY(dt_api_load_graph(call, &module));
    dt_compilation compilation = {.arena = call->arena, .module = module};
    dt_status *status = options->pass != NULL ? dt_pass_run(&compilation, options->pass) : NULL;
    DT_TRY(dt_status_first(status, dt_api_report_warnings(call, &compilation, false)));
    dt_compilation_print(&job->output, &compilation);
    return dt_api_give(&job->output, options->output, job->bytes);
}

dt_status *dtc_run_pass(const dtc_program *program, const dtc_pass_options *options, dtc_bytes *bytes) {
    job job = {.bytes = bytes};
    if (bytes != NULL) *bytes = (dtc_bytes){0};
    DT_TRY(dt_options_read(options, &job.options, sizeof job.options, "dtc_pass_options"));
    if (job.options.pass != NULL && !dt_pass_exists(job.options.pass)) return dt_error(DT_NOT_FOUND, "there is no pass \"%s\"", job.options.pass);
    dt_status *status = dt_api_run(program, work, &job);
    dt_text_free(&job.output);
    return status;
}
