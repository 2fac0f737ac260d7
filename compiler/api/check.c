/* check: what a program says is checked by its elaboration; what the compiler derives from it, gradients and replicas, by running it. */
#include "compiler/check.h"
#include "base/options.h"
#include "compiler/api/api.h"
#include "ir/flops.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct job job;

/* The checks of a step, in the order in which they are told. */
typedef struct check_row {
    dtc_check_kind kind;
    const char *name, *holds; /* "3 replicas: 7 …" */
    dt_status *(*run)(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding);
} check_row;

static const check_row check_rows[] = {
    {DTC_CHECK_GRADIENTS, "gradients", "are the slopes", dt_check_gradients},
    {DTC_CHECK_REPLICAS, "3 replicas", "results and variables are those of one", dt_check_replicas},
    {DTC_CHECK_PASSES, "passes", "results and variables are those of the step as written", dt_check_passes},
    {DTC_CHECK_BATCH, "batch", "means and results follow its rows", dt_check_batch},
};
enum {
    N_CHECKS = sizeof check_rows / sizeof *check_rows
};

/* One of the checks of one step. */
typedef struct part {
    job *job;
    size_t step;
    const struct check_row *row;
    int64_t rows;
    double work, done; /* about how much there is, in any unit; which share of it is done */
    bool is_finished;
    dtc_finding finding; /* once it is finished */
    dt_text where, text; /* of it */
} part;

/* All parts, which threads take one after another. The thread of the call tells of them, in order. */
struct job {
    dt_api_call *call;
    dtc_check_program_options options;
    dtc_check_result result;
    dt_check check;
    part *parts;
    int n_parts, n_taken, n_told, n_threads; /* threads: that work */
    double told;                             /* how much of all work is done, as the caller knows it */
    dt_status *status;                       /* the first failure, or the caller's wish: no part is begun any more, and those that run end */
    pthread_mutex_t lock;                    /* of all that changes */
    pthread_cond_t changed;
};

/* ---- what is told ---- */

static int tell_finding(void *argument) {
    part *part = argument;
    const dtc_check_program_options *options = &part->job->options;
    return options->finding(options->context, &part->finding);
}

static int tell_progress(void *argument) {
    job *job = argument;
    return job->options.progress(job->options.context, job->told);
}

static dt_status *give(part *part) {
    job *job = part->job;
    dtc_verdict verdict = part->finding.verdict;
    ++*(verdict == DTC_HOLDS ? &job->result.n_held : verdict == DTC_WRONG ? &job->result.n_wrong : &job->result.n_unknown);
    return job->options.finding != NULL ? dt_api_tell(job->call, tell_finding, part) : NULL;
}

/* How much of all parts is done. */
static double share_done(const job *job) {
    double work = 0, all_work = 0;
    for (int i = 0; i < job->n_parts; i++) {
        work += job->parts[i].work * job->parts[i].done;
        all_work += job->parts[i].work;
    }
    return all_work > 0 ? work / all_work : 1;
}

/* Tells of the next part that is finished, and of progress; false: there is nothing new. The lock is held, but not while the caller is told. */
static bool tell_next(job *job) {
    part *next = job->n_told < job->n_parts && job->parts[job->n_told].is_finished ? &job->parts[job->n_told] : NULL;
    double done = share_done(job);
    if (job->status != NULL || (next == NULL && (job->options.progress == NULL || done <= job->told))) return false;
    job->n_told += next != NULL;
    job->told = done;
    pthread_mutex_unlock(&job->lock);
    dt_status *status = next != NULL ? give(next) : NULL;
    if (status == NULL && job->options.progress != NULL) status = dt_api_tell(job->call, tell_progress, job);
    pthread_mutex_lock(&job->lock);
    job->status = dt_status_first(job->status, status);
    return true;
}

/* ---- a part ---- */

/* One line. */
static void print_finding(part *part, const dt_finding *found) {
    dt_text *text = &part->text;
    const dtc_finding *finding = &part->finding;
    dt_text_format(text, "step %s: %s: ", finding->step, part->row->name);
    if (found->is_left_out)
        dt_text_append(text, "left out: the step is too large\n");
    else if (found->n == 0)
        dt_text_append(text, "none\n");
    else if (finding->verdict == DTC_HOLDS)
        dt_text_format(text, "%d %s, at worst %.1g apart\n", found->n, part->row->holds, found->worst);
    if (found->is_left_out || found->n == 0 || finding->verdict == DTC_HOLDS) return;
    dt_text_format(text, "%s: %s", finding->verdict == DTC_WRONG ? "WRONG" : "not known", finding->where);
    if (finding->line > 0) dt_text_format(text, ", %s:%d", finding->file, finding->line);
    if (!found->wrong)
        dt_text_append(text, " or its slope is not finite with the data that was made up\n");
    else
        dt_text_format(text, " is %.2g apart%s\n", found->worst,
                       found->is_stopped ? ": the step has a stop_gradient in a scan, which slopes know nothing of" : "");
}

/* What was found, for the caller: nothing of it lies in the part's arena, which goes with it. */
static dt_status *keep_finding(part *part, const dt_module *module, const dt_finding *found) {
    bool is_unknown = found->wrong ? found->is_stopped : found->is_undefined || found->is_left_out, holds = !found->wrong && !is_unknown;
    dtc_finding *finding = &part->finding;
    dt_location at = found->location;
    *finding = (dtc_finding){.kind = part->row->kind,
                             .verdict = holds        ? DTC_HOLDS
                                        : is_unknown ? DTC_UNKNOWN
                                                     : DTC_WRONG,
                             .step = module->steps.items[part->step].name,
                             .n_compared = found->n,
                             .difference = found->worst,
                             .file = ""};
    if (!holds && found->where != NULL) {
        dt_text_append(&part->where, found->where);
        finding->where = part->where.data;
    }
    if (!holds && at.file >= 0 && (size_t)at.file < module->files.n) {
        finding->file = module->files.items[at.file];
        finding->line = at.line;
    }
    print_finding(part, found);
    finding->text = part->text.data;
    return part->where.failed || part->text.failed ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : NULL;
}

static dt_status *note_progress(void *context, double done) {
    part *part = context;
    job *job = part->job;
    pthread_mutex_lock(&job->lock);
    part->done = done;
    bool is_over = job->status != NULL;
    if (job->options.progress != NULL) pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->lock);
    return is_over ? dt_error(DT_ABORTED, "another check ended it") : NULL;
}

static dt_status *run_part(dt_arena *arena, void *context) {
    part *part = context;
    dt_check check = part->job->check;
    check.progress = note_progress;
    check.context = part;
    dt_finding found = {0};
    DT_TRY(part->row->run(arena, &check, part->step, part->rows, &found));
    return keep_finding(part, check.module, &found);
}

/* ---- all of them ---- */

/* Parts, until none is left. */
static void *work_on_parts(void *context) {
    job *job = context;
    pthread_mutex_lock(&job->lock);
    while (job->status == NULL && job->n_taken < job->n_parts) {
        part *part = &job->parts[job->n_taken++];
        pthread_mutex_unlock(&job->lock);
        dt_status *status = dt_api_in_arena("out of memory: take fewer --rows", run_part, part);
        pthread_mutex_lock(&job->lock);
        part->is_finished = status == NULL;
        part->done = 1;
        job->status = dt_status_first(job->status, dt_status_annotate(status, "step %s", job->check.module->steps.items[part->step].name));
        pthread_cond_signal(&job->changed);
    }
    job->n_threads--;
    pthread_cond_signal(&job->changed);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

/* A thread for each processor, while this one tells of what they find; where there are none to be had this one works first and tells then. */
static void run_parts(job *job) {
    enum {
        MOST_THREADS = 64
    };
    pthread_t threads[MOST_THREADS];
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 0;
    pthread_mutex_lock(&job->lock);
    while (n < MOST_THREADS && n < n_processors && n < job->n_parts && dt_thread_start(&threads[n], DT_API_STACK_BYTES, work_on_parts, job)) n++;
    job->n_threads = n;
    if (n == 0) {
        job->n_threads = 1;
        pthread_mutex_unlock(&job->lock);
        work_on_parts(job);
        pthread_mutex_lock(&job->lock);
    }
    while (true) {
        if (tell_next(job)) continue;
        if (job->n_threads == 0) break;
        pthread_cond_wait(&job->changed, &job->lock);
    }
    pthread_mutex_unlock(&job->lock);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
}

/* The parts of the steps that are asked for. */
static dt_status *list_parts(dt_arena *arena, job *job) {
    const dt_module *module = job->check.module;
    const dtc_check_program_options *options = &job->options;
    const double many = 5e7; /* scalar operations of a row, forwards: some hundredths of a second */
    part *parts = DT_NEW_ARRAY(arena, part, N_CHECKS * module->steps.n);
    int n = 0;
    for (size_t s = 0; s < module->steps.n; s++) {
        const dt_step *step = &module->steps.items[s];
        if (options->step != NULL && strcmp(options->step, step->name) != 0) continue;
        dt_flops flops = dt_flops_of_function(arena, step->function);
        int64_t rows = options->rows > 0 ? options->rows : flops.per_row + 2 * flops.per_pair > many ? 1 : 2;
        for (int c = 0; c < N_CHECKS; c++)
            parts[n++] = (part){.job = job, .step = s, .row = &check_rows[c], .rows = rows, .work = 1 + flops.per_row * (double)rows + flops.fixed};
    }
    job->parts = parts;
    job->n_parts = n;
    if (options->step == NULL || n > 0) return NULL;
    return dt_error(DT_NOT_FOUND, "%s has no step %s", job->call->program.path, options->step);
}

static dt_status *give_program(job *job, const dt_module *module) {
    size_t n_steps = module->steps.n, n_variables = module->variables.n;
    const char *text = dt_arena_format(job->call->arena, "%s: types and shapes agree: %zu step%s, %zu variable%s\n", job->call->program.path, n_steps,
                                       dt_plural((int64_t)n_steps), n_variables, dt_plural((int64_t)n_variables));
    return give(&(part){.job = job, .finding = {.kind = DTC_CHECK_PROGRAM, .verdict = DTC_HOLDS, .file = "", .text = text}});
}

static dt_status *check_all(dt_api_call *call, void *context) {
    job *job = context;
    dt_module *module;
    job->call = call;
    DT_TRY(dt_api_load(call, &module));
    DT_TRY(give_program(job, module));
    DT_TRY(dt_check_prepare(call->arena, module, &job->check));
    DT_TRY(list_parts(call->arena, job));
    run_parts(job);
    for (int i = 0; i < job->n_parts; i++) {
        dt_text_free(&job->parts[i].where);
        dt_text_free(&job->parts[i].text);
    }
    return job->status;
}

dt_status *dtc_check_program(const dtc_program *program, const dtc_check_program_options *options, dtc_check_result *result) {
    static const char name[] = "dtc_check_result";
    job job = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    if (result != NULL) DT_TRY(dt_options_write(result, &job.result, sizeof job.result, name));
    DT_TRY(dt_options_read(options, &job.options, sizeof job.options, "dtc_check_program_options"));
    if (job.options.rows < 0 || job.options.rows > 1024)
        return dt_error(DT_INVALID_ARGUMENT, "--rows takes a number of rows, 1 to 1024, not %lld", (long long)job.options.rows);
    DT_TRY(dt_api_run(program, check_all, &job));
    return result != NULL ? dt_options_write(result, &job.result, sizeof job.result, name) : NULL;
}
