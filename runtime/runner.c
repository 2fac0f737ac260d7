/* runner: see runner.h. Where the session gains by it, the next batch is taken from the pipeline and handed over while a step runs; where training is
 * in the data counts batches that have run. */
#include "runtime/runner.h"

#include "base/memory.h"
#include "runtime/data_check.h"
#include "runtime/threads/clock.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct dt_runner {
    dt_session *session;
    dt_pipeline *pipeline; /* NULL until dt_runner_begin */
    dt_reports *reports;
    int step;
    const dt_artifact_step *about;
    bool ignore_bad_index;
    dt_total *aggregates;      /* [n_totals] of the last step */
    double *values;            /* [n_values] of all reports */
    const char **names;        /* [n_numbers] of the reports of one number each */
    double *numbers;           /* [n_numbers] these */
    dtrt_report_array *arrays; /* [n_arrays] the others */
    int n_numbers, n_arrays;
    dt_step_notice *notices; /* [processes] of the next step, */
    dt_notices told;         /* which go with the one before */
    bool stops;              /* the caller said so last */

    dt_pipeline_batch next; /* fetched ahead */
    bool has_next;
    bool staged;            /* its inputs are the session's already */
    dt_status *next_status; /* of fetching it, or of staging it */
    int64_t position;       /* examples of the epoch that were consumed */

    int64_t epoch, n_bad, n_bad_before;  /* bad indices in the step; in the pipeline when the epoch began */
    int64_t n_bad_told;                  /* of leases: dt_runner_add_bad_indices */
    int64_t n_run;                       /* batches, ever */
    int64_t n_steps, n_examples;         /* since dt_runner_begin */
    int64_t n_first;                     /* examples of the first of them */
    double began, first_done, last_done; /* the epoch; its first and last step so far */
    double now, waited;                  /* when it was last at work; of that time, waiting for data */
};

/* Which reports are one number, and which have a shape. */
static void sort_reports(dt_runner *runner, const dt_artifact *artifact) {
    const dt_artifact_step *about = runner->about;
    for (int i = 0; i < about->n_reports; i++) {
        const dt_artifact_tensor *tensor = &artifact->functions[about->report].results[i].tensor;
        if (tensor->n_dims == 0)
            runner->names[runner->n_numbers++] = about->reports[i];
        else
            runner->arrays[runner->n_arrays++] =
                (dtrt_report_array){about->reports[i], tensor->n_dims, tensor->dims, runner->values + about->report_starts[i]};
    }
}

/* What is said before a step, with the one before it where its batch was fetched ahead, or lies ready. At the end of an epoch nobody stops. */
static void tell(void *context, void *notice) {
    dt_runner *runner = context;
    dt_step_notice *mine = notice;
    int64_t rows = dt_pipeline_fold_marks(runner->pipeline, !runner->has_next, &mine->marks);
    mine->is_known = rows >= 0;
    mine->stops = rows != 0 && (runner->stops || dt_pipeline_is_to_stop(runner->pipeline));
}

static dt_status *fill(dt_runner *runner, const dt_kernels *kernels) {
    size_t n = (size_t)runner->about->n_reports;
    DT_TRY(dt_reports_create(kernels, runner->step, &runner->reports));
    runner->aggregates = dt_allocate_zeroed((size_t)dt_reports_n_totals(runner->reports), sizeof *runner->aggregates);
    runner->values = dt_allocate_zeroed((size_t)dt_reports_n_values(runner->reports), sizeof *runner->values);
    runner->names = dt_allocate_zeroed(n, sizeof *runner->names);
    runner->numbers = dt_allocate_zeroed(n, sizeof *runner->numbers);
    runner->arrays = dt_allocate_zeroed(n, sizeof *runner->arrays);
    runner->notices = dt_allocate_zeroed((size_t)dt_session_n_processes(runner->session), sizeof *runner->notices);
    runner->told = (dt_notices){.write = tell, .context = runner, .all = runner->notices};
    bool complete = runner->aggregates != NULL && runner->values != NULL && runner->names != NULL && runner->numbers != NULL &&
                    runner->arrays != NULL && runner->notices != NULL;
    if (!complete) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    sort_reports(runner, dt_kernels_artifact(kernels));
    return NULL;
}

dt_status *dt_runner_create(const dt_kernels *kernels, dt_session *session, int step, bool ignore_bad_index, dt_runner **runner) {
    *runner = NULL;
    dt_runner *created = dt_allocate_zeroed(1, sizeof *created);
    if (created == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    created->session = session;
    created->step = step;
    created->about = &dt_kernels_artifact(kernels)->steps[step];
    created->ignore_bad_index = ignore_bad_index;
    dt_status *status = fill(created, kernels);
    if (status != NULL) {
        dt_runner_destroy(created);
        return status;
    }
    *runner = created;
    return NULL;
}

void dt_runner_destroy(dt_runner *runner) {
    if (runner == NULL) return;
    dt_status_free(runner->next_status);
    dt_reports_destroy(runner->reports);
    dt_release(runner->aggregates);
    dt_release(runner->values);
    dt_release(runner->names);
    dt_release(runner->numbers);
    dt_release(runner->arrays);
    dt_release(runner->notices);
    dt_release(runner);
}

void dt_runner_go_to(dt_runner *runner, dt_pipeline *pipeline, int64_t epoch, int64_t position) {
    runner->pipeline = pipeline;
    dt_status_free(runner->next_status);
    runner->next_status = NULL;
    runner->has_next = runner->staged = false;
    runner->notices[0].is_known = false;
    runner->position = position;
    runner->epoch = epoch;
    runner->n_steps = runner->n_examples = runner->n_first = runner->n_bad = runner->n_bad_told = 0;
    runner->n_bad_before = dt_pipeline_bad_indices(runner->pipeline);
    runner->began = runner->first_done = runner->last_done = runner->now = dt_seconds_now();
    runner->waited = 0;
    dt_reports_reset(runner->reports);
}

dt_status *dt_runner_begin(dt_runner *runner, dt_pipeline *pipeline, int64_t epoch, int64_t position) {
    int64_t n_bad = dt_pipeline_bad_indices(pipeline); /* before it begins to make batches */
    DT_TRY(dt_pipeline_start(pipeline, epoch, position));
    dt_runner_go_to(runner, pipeline, epoch, dt_pipeline_position(pipeline));
    runner->n_bad_before = n_bad;
    return NULL;
}

/* What a process says of an example, for people. */
typedef struct dt_place {
    char text[DT_RECORD_BYTES];
} dt_place;

/* Where the example of the first bad index comes from, which the process that made it knows, and which process that is. */
static dt_status *find_place(dt_runner *runner, int64_t before, dt_text *holder, dt_text *place) {
    const dt_bad_index *bad = dt_session_bad_index(runner->session);
    int n = dt_session_n_processes(runner->session), holds = dt_session_process_of_row(runner->session, bad->row);
    dt_pipeline_print_example(runner->pipeline, runner->step, before + bad->row, bad->value, place);
    if (n == 1) return NULL;
    char name[160];
    dt_place *places = dt_allocate_zeroed((size_t)n, sizeof *places);
    if (places == NULL) return dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
    for (int p = 0; p < n; p++) snprintf(places[p].text, sizeof places[p].text, "%s", place->n > 0 ? place->data : "");
    dt_status *status = dt_session_gather_records(runner->session, places, sizeof *places);
    dt_text_free(place);
    dt_session_print_process(runner->session, holds, name, sizeof name);
    dt_text_format(holder, ", in %s", name);
    if (status == NULL) dt_text_append(place, places[holds].text);
    dt_release(places);
    return status;
}

/* `before`: the pipeline's position before this batch; -1: it was the caller's. */
static dt_status *check_indices(dt_runner *runner, int64_t before) {
    const dt_bad_index *bad = dt_session_bad_index(runner->session);
    if (bad->count == 0) return NULL;
    runner->n_bad += bad->count;
    if (runner->ignore_bad_index) return NULL;
    dt_status *status = dt_session_bad_index_status(runner->session);
    if (bad->row < 0 || before < 0) return status;
    dt_text place = {0}, holder = {0};
    dt_status *failed = find_place(runner, before, &holder, &place);
    dt_status *longer = dt_error(dt_status_code(status), "%s; that is example %lld of epoch %lld, both from 0%s%s%s. --bad-index=ignore goes on",
                                 dt_status_message(status), (long long)(before + bad->row), (long long)runner->epoch, holder.n > 0 ? holder.data : "",
                                 place.n > 0 ? ": " : "", place.n > 0 ? place.data : "");
    dt_status_free(failed); /* what it would have said is only lacking */
    dt_text_free(&place);
    dt_text_free(&holder);
    dt_status_free(status);
    return longer;
}

static bool holds_nan(const dt_runner *runner, int report) {
    for (int64_t i = runner->about->report_starts[report]; i < runner->about->report_starts[report + 1]; i++)
        if (isnan(runner->values[i])) return true;
    return false;
}

/* An aggregate that is not a number makes a report that is not one. A report can also be 0 / 0 for a batch without weight: that is no failure. */
static dt_status *check_numbers(dt_runner *runner, int64_t counter) {
    bool wrong = false;
    const dt_artifact_step *about = runner->about;
    for (int64_t i = 0; i < dt_reports_n_totals(runner->reports); i++)
        wrong = wrong || (!runner->aggregates[i].is_integer && isnan(runner->aggregates[i].number));
    if (!wrong) return NULL;
    dt_reports_evaluate(runner->reports, runner->aggregates, runner->values);
    int report = 0;
    while (report + 1 < about->n_reports && !holds_nan(runner, report)) report++;
    return dt_error(DT_OUT_OF_RANGE, "%s step %lld: %s is not a number (NaN)%s", about->name, (long long)counter + 1,
                    about->n_reports > 0 ? about->reports[report] : "what it reports",
                    about->trains ? "; a smaller learning rate may help, and --check-numerics says where it came from" : "");
}

static dt_status *fetch(dt_runner *runner) {
    runner->has_next = true;
    return dt_processes_sign(dt_session_get_options(runner->session)->processes, dt_pipeline_next(runner->pipeline, &runner->next));
}

/* While a step runs, for the one of `counter`. What is wrong with the data is told by the next step; when the session fails, this one has failed too.
 */
static dt_status *fetch_ahead(dt_runner *runner, int64_t counter) {
    runner->next_status = fetch(runner);
    if (runner->next_status != NULL || runner->next.rows == 0) return NULL;
    dt_batch batch = {.inputs = runner->next.inputs, .rows = runner->next.rows, .counter = counter};
    DT_TRY(dt_session_stage(runner->session, runner->step, &batch));
    runner->staged = true;
    return NULL;
}

/* Runs a batch, and fetches the next one meanwhile, where that gains something. The wait for it cost nothing if the device still had to be waited
 * for.
 */
static dt_status *run_and_fetch(dt_runner *runner, const dt_batch *batch) {
    static const double HARDLY_SECONDS = 20e-6;
    DT_TRY(dt_session_start(runner->session, runner->step, batch));
    if (dt_session_stages(runner->session, runner->step) && dt_pipeline_works_ahead(runner->pipeline))
        DT_TRY(fetch_ahead(runner, batch->counter + 1));
    double fetched = dt_seconds_now();
    DT_TRY(dt_session_finish(runner->session, runner->aggregates));
    if (dt_seconds_now() - fetched > HARDLY_SECONDS) runner->next.waited = 0;
    return NULL;
}

/* What follows a batch that has run: it counts, whatever is wrong with it. */
static dt_status *account(dt_runner *runner, int64_t rows, int64_t counter, int64_t before) {
    runner->n_run++;
    if (before >= 0) {
        runner->position += rows;
        runner->now = runner->last_done = dt_seconds_now();
    }
    if (runner->n_steps++ == 0) {
        runner->first_done = runner->now;
        runner->n_first = rows;
    }
    runner->n_examples += rows;
    dt_reports_add(runner->reports, runner->aggregates);
    DT_TRY(dt_session_numerics_status(runner->session));
    DT_TRY(check_indices(runner, before));
    return check_numbers(runner, counter);
}

dt_status *dt_runner_run(dt_runner *runner, const dt_batch *batch) {
    DT_TRY(dt_session_run(runner->session, runner->step, batch, runner->aggregates));
    return account(runner, batch->rows, batch->counter, -1);
}

dt_status *dt_runner_run_at(dt_runner *runner, const dt_batch *batch, int64_t first) {
    runner->now = dt_seconds_now();
    DT_TRY(dt_session_run(runner->session, runner->step, batch, runner->aggregates));
    return account(runner, batch->rows, batch->counter, first);
}

dt_status *dt_runner_step(dt_runner *runner, int64_t counter, bool stop, dt_runner_outcome *outcome) {
    int64_t before = runner->position;
    *outcome = DT_RUNNER_RAN;
    runner->stops = stop;
    bool stopped;
    dt_status *status = runner->has_next ? runner->next_status : fetch(runner);
    runner->next_status = NULL;
    DT_TRY(status);
    dt_pipeline_batch batch = runner->next;
    /* No process runs a step that another one does not run, or on other data. */
    DT_TRY(dt_data_check_step(runner->session, runner->pipeline, &runner->told, &stopped));
    dt_batch run = {.inputs = runner->staged ? NULL : batch.inputs, .rows = batch.rows, .counter = counter, .notices = &runner->told};
    runner->has_next = runner->staged = false;
    runner->waited += batch.waited;
    runner->now = dt_seconds_now();
    if (stopped || batch.rows == 0) {
        *outcome = stopped ? DT_RUNNER_STOPPED : DT_RUNNER_EPOCH_OVER;
        return NULL;
    }
    DT_TRY(run_and_fetch(runner, &run));
    return account(runner, batch.rows, counter, before);
}

int dt_runner_of(const dt_runner *runner) { return runner->step; }

int64_t dt_runner_n_run(const dt_runner *runner) { return runner->n_run; }

dt_reports *dt_runner_reports(dt_runner *runner) { return runner->reports; }

int64_t dt_runner_position(const dt_runner *runner) { return runner->position; }

int64_t dt_runner_n_examples(const dt_runner *runner) { return dt_pipeline_n_examples(runner->pipeline); }

dt_status *dt_runner_bad_indices(dt_runner *runner, int64_t *n) {
    dt_session_answers all;
    DT_TRY(dt_session_ask(runner->session, runner->n_bad_told + dt_pipeline_bad_indices(runner->pipeline) - runner->n_bad_before, &all));
    *n = runner->n_bad + all.sum;
    return NULL;
}

void dt_runner_add_bad_indices(dt_runner *runner, int64_t n) { runner->n_bad_told += n; }

const double *dt_runner_step_reports(dt_runner *runner) {
    dt_reports_evaluate(runner->reports, runner->aggregates, runner->values);
    return runner->values;
}

const double *dt_runner_epoch_reports(dt_runner *runner) {
    dt_reports_evaluate(runner->reports, NULL, runner->values);
    return runner->values;
}

/* Of the values that were worked out last. */
static dt_log_values sorted_values(dt_runner *runner) {
    for (int i = 0, k = 0; i < runner->about->n_reports && k < runner->n_numbers; i++)
        if (runner->names[k] == runner->about->reports[i]) runner->numbers[k++] = runner->values[runner->about->report_starts[i]];
    return (dt_log_values){
        .n = runner->n_numbers, .names = runner->names, .values = runner->numbers, .n_arrays = runner->n_arrays, .arrays = runner->arrays};
}

dt_log_values dt_runner_step_values(dt_runner *runner) {
    dt_runner_step_reports(runner);
    return sorted_values(runner);
}

dt_log_values dt_runner_epoch_values(dt_runner *runner) {
    dt_runner_epoch_reports(runner);
    return sorted_values(runner);
}

double dt_runner_value(dt_runner *runner, int64_t value) { return dt_runner_epoch_reports(runner)[value]; }

dt_log_epoch dt_runner_summary(const dt_runner *runner, bool complete) {
    double seconds = runner->now - runner->began, after_first = runner->last_done - runner->first_done;
    return (dt_log_epoch){
        .step = runner->about->name,
        .trains = runner->about->trains,
        .steps = dt_reports_n_added(runner->reports),
        .n_steps = dt_pipeline_n_batches(runner->pipeline),
        .examples = runner->position,
        .complete = complete,
        .seconds = seconds,
        .examples_per_second = after_first > 0 ? (double)(runner->n_examples - runner->n_first) / after_first : 0,
        .seconds_per_step = runner->n_steps > 1 ? after_first / (double)(runner->n_steps - 1) : 0,
        .data_wait = seconds > 0 ? runner->waited / seconds : 0,
    };
}
