/* row_steps: see row_steps.h. */
#include "runtime/execution/row_steps.h"

#include "base/arena.h"
#include "base/memory.h"
#include "runtime/comm/delivery.h"
#include "runtime/comm/schedule.h"
#include "runtime/execution/example_function.h"
#include "runtime/execution/session_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NUMBER_BYTES = 128 /* of an input without dimensions: an element, and slack */
};

/* A row form at work. */
typedef struct row_work {
    const dt_artifact_row_form *about;
    int step, indices_step;      /* of the session's program */
    int64_t n_table_rows, width; /* of the table */
    int64_t row_bytes;
    int64_t *indices;         /* [rows of a full batch here, n_indices] of the last batch */
    char *index_bytes;        /* the same, as the step has them */
    int64_t *wanted;          /* [the same] rows of the table, ascending, each once */
    int64_t n_wanted;         /* of the last batch */
    float *rows, *gathers;    /* [the same, width], with slack: of each index its row; of each of `wanted` */
    float *gradients;         /* [the same, width] */
    int64_t *n_asked;         /* [processes] rows of `wanted` that each has */
    int64_t n_gathered;       /* of `gathers`, so far */
    char *numbers;            /* [n_numbers][NUMBER_BYTES] */
    dt_row_sums *own, *all;   /* NULL: the step leaves the table as it is, and there is nothing of what follows */
    dt_example_function *sum; /* NULL: the gradient is what crosses */
    dt_example_function *update;
    float **buffers;     /* [2 + slots] inputs of `update`: of table, slots and sum so many rows as a microbatch has at most */
    const void **inputs; /* of `sum` and `update` */
} row_work;

/* The nodes of the tree that a process's microbatches are. */
typedef struct process_nodes {
    int n;
    const dt_schedule_node *nodes;
} process_nodes;

struct dt_row_steps {
    dt_arena *arena;
    dt_session *session;
    dt_processes *processes;
    dt_row_tables *tables;
    dt_delivery *questions, *answers; /* which rows, and these; gradients go the way of questions */
    const dt_artifact *program;
    bool is_lazy;
    bool is_leased, has_pushed; /* asynchronous servers: a batch is one worker's; it has given what the step gives */
    int number, n_processes;    /* of those that exchange */
    dt_row_request *requests;   /* [works * processes] */
    dt_microbatches microbatches;
    int64_t first_microbatch, n_microbatches, n_all_microbatches; /* of this process; of all */
    process_nodes *nodes;                                         /* [processes] */
    int64_t *expected;                                            /* [processes] bytes of rows that each is to send */
    int n_works;
    row_work *works;
    const void **inputs; /* of a step's row form */
    dt_bad_index bad_index;
    dt_step_context context;
    int64_t n_rows; /* of the batch, here */
    int64_t valid;  /* of all processes */
};

/* ---- which program ---- */

static const dt_artifact_row_form *first_that_moves(const dt_artifact *artifact) {
    for (int i = 0; i < artifact->n_row_forms; i++)
        if (artifact->row_forms[i].moves != NULL) return &artifact->row_forms[i];
    return NULL;
}

dt_status *dt_row_steps_program(const dt_artifact *artifact, const dt_session_options *options, bool is_gpu, const dt_artifact **program) {
    const dt_artifact_row_form *moves = first_that_moves(artifact);
    if (artifact->by_rows == NULL)
        return dt_error(DT_FAILED_PRECONDITION,
                        "%s has no row forms: no step takes rows of a large table that it needs nothing else of; `dtc summary` says more",
                        artifact->path);
    if (is_gpu) return dt_error(DT_FAILED_PRECONDITION, "rows of tables are taken on CPUs; use --devices cpu, or all of each table");
    if (options->forward_only) return dt_error(DT_FAILED_PRECONDITION, "a session that does not train has all of each table");
    if (moves != NULL && options->by_rows != DT_BY_ROWS_LAZILY)
        return dt_error(
            DT_FAILED_PRECONDITION,
            "the update of rows of %s without a gradient %s: with rows alone the bits are others, which `dtrun train --lazy-rows` accepts",
            artifact->variables[moves->table].path, moves->moves);
    *program = artifact->by_rows;
    return NULL;
}

/* ---- creating ---- */

static void *take(dt_arena *arena, int64_t n, size_t bytes) { return dt_arena_new(arena, (size_t)n * bytes + DT_SLACK_BYTES); }

static int step_of(const dt_artifact *program, int function) {
    for (int s = 0; s < program->n_steps; s++)
        if (program->steps[s].function == function) return s;
    return -1;
}

static dt_status *create_update(dt_row_steps *steps, const dt_kernels *kernels, row_work *work) {
    const dt_artifact_row_form *about = work->about;
    DT_TRY(dt_row_sums_create(work->width, &work->own));
    DT_TRY(dt_row_sums_create(work->width, &work->all));
    if (about->sum >= 0) DT_TRY(dt_example_function_create(kernels, about->sum, &work->sum));
    DT_TRY(dt_example_function_create(kernels, about->update, &work->update));
    work->numbers = take(steps->arena, about->n_numbers, NUMBER_BYTES);
    work->buffers = DT_NEW_ARRAY(steps->arena, float *, 2 + about->n_slots);
    for (int i = 0; i < 2 + about->n_slots; i++) work->buffers[i] = take(steps->arena, steps->program->microbatch_rows, (size_t)work->row_bytes);
    work->inputs = DT_NEW_ARRAY(steps->arena, const void *, 2 + about->n_slots + about->n_numbers);
    return NULL;
}

static dt_status *create_work(dt_row_steps *steps, const dt_kernels *kernels, const dt_artifact_row_form *about, row_work *work) {
    const dt_artifact *program = steps->program;
    const dt_artifact_tensor *table = &program->variables[about->table].tensor;
    int64_t n = dt_session_n_rows(steps->session) * about->n_indices;
    *work = (row_work){.about = about,
                       .step = step_of(program, about->step),
                       .indices_step = step_of(program, about->indices),
                       .n_table_rows = table->dims[0],
                       .width = table->dims[1],
                       .row_bytes = table->row_bytes / table->dims[0]};
    work->indices = take(steps->arena, n, sizeof *work->indices);
    work->index_bytes = take(steps->arena, n, sizeof *work->indices);
    work->wanted = take(steps->arena, n, sizeof *work->wanted);
    work->rows = take(steps->arena, n, (size_t)work->row_bytes);
    work->gathers = take(steps->arena, n, (size_t)work->row_bytes);
    work->gradients = take(steps->arena, n, (size_t)work->row_bytes);
    work->n_asked = DT_NEW_ARRAY(steps->arena, int64_t, steps->n_processes);
    return about->update >= 0 ? create_update(steps, kernels, work) : NULL;
}

static process_nodes maximal_nodes(dt_arena *arena, dt_microbatch_range has, int n_all) {
    process_nodes made;
    made.nodes = dt_schedule_nodes(has.first, has.end, n_all, arena, &made.n);
    return made;
}

/* What is made of gradients is made of each microbatch's, by whoever has the numbers. */
static process_nodes leaves(dt_arena *arena, dt_microbatch_range has) {
    dt_schedule_node *nodes = DT_NEW_ARRAY(arena, dt_schedule_node, has.end - has.first);
    for (int i = 0; i < has.end - has.first; i++) nodes[i] = (dt_schedule_node){.first = has.first + i, .span = 1};
    return (process_nodes){has.end - has.first, nodes};
}

static void find_microbatches(dt_row_steps *steps) {
    const dt_session_options *options = dt_session_get_options(steps->session);
    int64_t per_replica = dt_artifact_microbatches(steps->program, options->rows);
    int n_all = (int)(per_replica * options->replicas);
    steps->microbatches = (dt_microbatches){options->rows, per_replica, steps->program->microbatch_rows};
    steps->n_all_microbatches = n_all;
    steps->nodes = DT_NEW_ARRAY(steps->arena, process_nodes, steps->n_processes);
    steps->expected = DT_NEW_ARRAY(steps->arena, int64_t, steps->n_processes);
    for (int p = 0; p < steps->n_processes; p++) {
        dt_microbatch_range has = dt_microbatches_of_process(dt_processes_roles(steps->processes), p, n_all);
        steps->nodes[p] = steps->is_leased ? leaves(steps->arena, has) : maximal_nodes(steps->arena, has, n_all);
        if (p != steps->number) continue;
        steps->first_microbatch = has.first;
        steps->n_microbatches = has.end - has.first;
    }
}

/* What one process can send this one about a table in a step: as many rows as all batches name, which ones and what they are, and then once more with
 * their gradients; and how many that is, of each node. */
static int64_t most_bytes(const dt_row_steps *steps, const row_work *work) {
    int64_t n = dt_session_global_batch(steps->session) * work->about->n_indices, number = sizeof n;
    return 2 * n * (number + work->row_bytes) + (3 + 2 * (int64_t)steps->n_all_microbatches) * number;
}

static dt_status *create_guarded(dt_row_steps *steps, const dt_kernels *kernels) {
    jmp_buf guard;
    if (setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for rows of tables");
    dt_arena_guard(steps->arena, &guard);
    DT_TRY(dt_row_tables_create(kernels, steps->program, steps->processes, &steps->tables));
    DT_TRY(dt_delivery_create(steps->processes, DT_DELIVERY_TO_OWNERS, "which rows of tables, and their gradients", &steps->questions));
    DT_TRY(dt_delivery_create(steps->processes, DT_DELIVERY_TO_HOLDERS, "rows of tables", &steps->answers));
    find_microbatches(steps);
    steps->works = DT_NEW_ARRAY(steps->arena, row_work, steps->program->n_row_forms);
    int most_inputs = 0;
    for (int i = 0; i < steps->program->n_row_forms; i++) {
        const dt_artifact_row_form *form = &steps->program->row_forms[i];
        DT_TRY(create_work(steps, kernels, form, &steps->works[steps->n_works++]));
        dt_processes_expect(steps->processes, most_bytes(steps, &steps->works[steps->n_works - 1]));
        if (steps->program->functions[form->step].n_inputs > most_inputs) most_inputs = steps->program->functions[form->step].n_inputs;
    }
    steps->inputs = DT_NEW_ARRAY(steps->arena, const void *, most_inputs);
    steps->requests = DT_NEW_ARRAY(steps->arena, dt_row_request, steps->n_works * steps->n_processes);
    return NULL;
}

dt_status *dt_row_steps_create(const dt_kernels *kernels, dt_session *session, dt_row_steps **steps) {
    const dt_session_options *options = dt_session_get_options(session);
    dt_row_steps *made = dt_allocate_zeroed(1, sizeof *made);
    dt_arena *arena = dt_arena_create();
    *steps = NULL;
    if (made == NULL || arena == NULL) {
        dt_release(made);
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for rows of tables");
    }
    dt_process_roles roles = dt_processes_roles(options->processes);
    *made = (dt_row_steps){.arena = arena,
                           .session = session,
                           .processes = options->processes,
                           .program = dt_session_artifact(session),
                           .is_lazy = options->by_rows == DT_BY_ROWS_LAZILY,
                           .is_leased = roles.n_processes != dt_processes_count(options->processes),
                           .number = roles.process,
                           .n_processes = roles.n_processes};
    dt_status *status = create_guarded(made, kernels);
    dt_arena_guard(arena, NULL);
    if (status == NULL)
        *steps = made;
    else
        dt_row_steps_destroy(made);
    return status;
}

void dt_row_steps_destroy(dt_row_steps *steps) {
    if (steps == NULL) return;
    for (int w = 0; w < steps->n_works; w++) {
        dt_row_sums_destroy(steps->works[w].own);
        dt_row_sums_destroy(steps->works[w].all);
        dt_example_function_destroy(steps->works[w].sum);
        dt_example_function_destroy(steps->works[w].update);
    }
    dt_delivery_destroy(steps->questions);
    dt_delivery_destroy(steps->answers);
    dt_row_tables_destroy(steps->tables);
    dt_arena_destroy(steps->arena);
    dt_release(steps);
}

dt_row_tables *dt_row_steps_tables(const dt_row_steps *steps) { return steps->tables; }

/* ---- what processes post to one another: of each table of a step, in order ---- */

static bool has_rows(const dt_row_steps *steps, const row_work *work, int process) {
    dt_row_range has = dt_row_tables_of_process(steps->tables, work->about->table, process);
    return has.end > has.first;
}

/* Whether one process names rows to another: it has microbatches, and the other has rows. */
static bool names_rows(const dt_row_steps *steps, const row_work *work, int process, int to) {
    return steps->nodes[process].n > 0 && has_rows(steps, work, to);
}

/* Rows of a table for the process that has them: how many, which, and what is said of each; values NULL: nothing. */
static dt_status *post_rows(dt_row_steps *steps, const row_work *work, int process, const int64_t *rows, const float *values, int64_t n) {
    size_t head = sizeof n, named = (size_t)n * sizeof *rows, said = values != NULL ? (size_t)(n * work->row_bytes) : 0, pad = said % sizeof n;
    void *memory;
    DT_TRY(dt_delivery_post(steps->questions, process, head + named + said + pad, &memory));
    memcpy(memory, &n, head);
    if (n > 0) memcpy((char *)memory + head, rows, named);
    if (said > 0) memcpy((char *)memory + head + named, values, said);
    memset((char *)memory + head + named + said, 0, pad);
    return NULL;
}

/* What is left to read of what a process has posted. */
typedef struct posted {
    int from;
    const char *at;
    size_t bytes;
} posted;

static posted posted_by(const dt_row_steps *steps, int from) {
    posted all = {.from = from};
    all.at = dt_delivery_from(steps->questions, from, &all.bytes);
    return all;
}

/* What came is what another process says: it is looked at before it is used. Ascending rows of this process, each once. */
static dt_status *check_rows(const dt_row_steps *steps, const row_work *work, int from, const int64_t *rows, int64_t n) {
    dt_row_range own = dt_row_tables_of_process(steps->tables, work->about->table, steps->number);
    for (int64_t i = 0; i < n; i++)
        if (rows[i] < own.first || rows[i] >= own.end || (i > 0 && rows[i] <= rows[i - 1]))
            return dt_error(DT_DATA_LOSS, "process %d names row %" PRId64 " of %s, where this one has rows %" PRId64 " to %" PRId64 ", in order",
                            from, rows[i], steps->program->variables[work->about->table].path, own.first, own.end - 1);
    return NULL;
}

static dt_status *read_rows(const dt_row_steps *steps, const row_work *work, posted *left, bool has_values, dt_rows_part *part) {
    size_t row_bytes = sizeof *part->rows + (has_values ? (size_t)work->row_bytes : 0);
    bool fits = left->bytes >= sizeof part->n;
    *part = (dt_rows_part){0};
    if (fits) memcpy(&part->n, left->at, sizeof part->n);
    if (!fits || part->n < 0 || (uint64_t)part->n > (left->bytes - sizeof part->n) / row_bytes)
        return dt_error(DT_DATA_LOSS, "process %d sent too few bytes about rows of %s: %zu", left->from,
                        steps->program->variables[work->about->table].path, left->bytes);
    size_t named = (size_t)part->n * sizeof *part->rows, said = (size_t)part->n * row_bytes - named;
    size_t all = sizeof part->n + named + said + said % sizeof part->n;
    part->rows = (int64_t *)(uintptr_t)(left->at + sizeof part->n);
    if (has_values) part->values = (float *)(uintptr_t)(left->at + sizeof part->n + named);
    left->at += all;
    left->bytes -= all < left->bytes ? all : left->bytes;
    return check_rows(steps, work, left->from, part->rows, part->n);
}

/* ---- fetching rows ---- */

static int64_t index_at(dt_dtype dtype, const char *bytes, int64_t i) {
    switch (dtype) {
    case DT_I8: return ((const int8_t *)bytes)[i];
    case DT_U8: return ((const uint8_t *)bytes)[i];
    case DT_I32: return ((const int32_t *)bytes)[i];
    default: return ((const int64_t *)bytes)[i];
    }
}

static bool is_row(const row_work *work, int64_t index) { return index >= 0 && index < work->n_table_rows; }

/* As a kernel counts it. */
static void count_bad_index(dt_row_steps *steps, const row_work *work, int64_t i) {
    dt_bad_index one = {.count = 1,
                        .value = work->indices[i],
                        .row = dt_session_first_row(steps->session) + i / work->about->n_indices,
                        .location = work->about->location,
                        .limit = work->n_table_rows};
    dt_bad_index_add(&steps->bad_index, &one);
}

static int compare_rows(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Which rows the batch names. */
static dt_status *find_wanted(dt_row_steps *steps, row_work *work) {
    dt_dtype dtype = steps->program->functions[work->about->indices].results[work->about->index].tensor.dtype;
    int64_t n = 0;
    DT_TRY(dt_session_result(steps->session, work->indices_step, work->about->index, work->index_bytes));
    for (int64_t i = 0; i < steps->n_rows * work->about->n_indices; i++) {
        work->indices[i] = index_at(dtype, work->index_bytes, i);
        if (is_row(work, work->indices[i]))
            work->wanted[n++] = work->indices[i];
        else
            count_bad_index(steps, work, i);
    }
    if (n > 0) qsort(work->wanted, (size_t)n, sizeof *work->wanted, compare_rows);
    work->n_wanted = 0;
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || work->wanted[i] != work->wanted[i - 1]) work->wanted[work->n_wanted++] = work->wanted[i];
    return NULL;
}

/* Of rows in ascending order, how many of those from `at` on are below `end`. */
static int64_t n_below(const int64_t *rows, int64_t at, int64_t n, int64_t end) {
    int64_t first = at;
    while (at < n && rows[at] < end) at++;
    return at - first;
}

/* Each process which of its rows are wanted. */
static dt_status *ask(dt_row_steps *steps, int step) {
    dt_delivery_clear(steps->questions);
    for (int p = 0; p < steps->n_processes; p++) steps->expected[p] = 0;
    for (int w = 0; w < steps->n_works; w++) {
        row_work *work = &steps->works[w];
        if (work->step != step) continue;
        for (int64_t p = 0, at = 0, n; p < steps->n_processes; p++, at += n) {
            n = n_below(work->wanted, at, work->n_wanted, dt_row_tables_of_process(steps->tables, work->about->table, (int)p).end);
            work->n_asked[p] = n;
            steps->expected[p] += n * work->row_bytes;
            if (names_rows(steps, work, steps->number, (int)p)) DT_TRY(post_rows(steps, work, (int)p, work->wanted + at, NULL, n));
        }
    }
    return dt_delivery_run(steps->questions, NULL, &steps->context);
}

static dt_status *answer(dt_row_steps *steps, int step) {
    dt_delivery_clear(steps->answers);
    for (int p = 0; p < steps->n_processes; p++) {
        posted left = posted_by(steps, p);
        for (int w = 0; w < steps->n_works; w++) {
            const row_work *work = &steps->works[w];
            dt_rows_part part;
            void *memory;
            if (work->step != step || !names_rows(steps, work, p, steps->number)) continue;
            DT_TRY(read_rows(steps, work, &left, false, &part));
            DT_TRY(dt_delivery_post(steps->answers, p, (size_t)(part.n * work->row_bytes), &memory));
            dt_row_tables_take(steps->tables, work->about->table, part.rows, part.n, memory);
        }
    }
    return dt_delivery_run(steps->answers, steps->expected, &steps->context);
}

/* The same of asynchronous servers. */
static dt_status *fetch(dt_row_steps *steps, int step) {
    const dt_row_source *source = &dt_session_get_options(steps->session)->rows_from;
    int n_requests = 0;
    for (int w = 0; w < steps->n_works; w++) {
        row_work *work = &steps->works[w];
        if (work->step != step) continue;
        for (int64_t p = 0, at = 0, n; p < steps->n_processes; p++, at += n) {
            n = n_below(work->wanted, at, work->n_wanted, dt_row_tables_of_process(steps->tables, work->about->table, (int)p).end);
            if (n == 0) continue;
            steps->requests[n_requests++] = (dt_row_request){.process = (int)p,
                                                             .table = work->about->table,
                                                             .rows = work->wanted + at,
                                                             .n = n,
                                                             .values = work->gathers + at * work->width,
                                                             .bytes = (size_t)(n * work->row_bytes)};
        }
    }
    return n_requests > 0 ? source->fetch(source->context, steps->requests, n_requests) : NULL;
}

/* Takes the answers apart. */
static void gather(dt_row_steps *steps, int step) {
    for (int w = 0; w < steps->n_works; w++) steps->works[w].n_gathered = 0;
    for (int p = 0; p < steps->n_processes; p++) {
        size_t bytes;
        const char *at = dt_delivery_from(steps->answers, p, &bytes);
        for (int w = 0; w < steps->n_works; w++) {
            row_work *work = &steps->works[w];
            if (work->step != step || work->n_asked[p] == 0) continue;
            size_t n = (size_t)(work->n_asked[p] * work->row_bytes);
            memcpy(work->gathers + work->n_gathered * work->width, at, n);
            work->n_gathered += work->n_asked[p];
            at += n;
        }
    }
}

/* Gives each index its row; zeros, where there is none. */
static void spread(const dt_row_steps *steps, row_work *work) {
    for (int64_t i = 0; i < steps->n_rows * work->about->n_indices; i++) {
        float *row = work->rows + i * work->width;
        const int64_t *found = bsearch(&work->indices[i], work->wanted, (size_t)work->n_wanted, sizeof *work->wanted, compare_rows);
        if (found != NULL)
            memcpy(row, work->gathers + (found - work->wanted) * work->width, (size_t)work->row_bytes);
        else
            memset(row, 0, (size_t)work->row_bytes);
    }
}

/* Of asynchronous servers only the worker whose lease it is looks at what the batch names. */
static bool looks(const dt_row_steps *steps) { return !steps->is_leased || steps->nodes[steps->number].n > 0; }

/* As the step's row form has it. */
static void take_batch(dt_row_steps *steps, const row_work *work, const dt_batch *batch) {
    int n_inputs = steps->program->functions[work->about->of].n_inputs;
    for (int i = 0; i < n_inputs; i++) steps->inputs[i] = batch->inputs[i];
    steps->context = (dt_step_context){.step = steps->program->steps[work->step].name, .number = batch->counter};
    steps->n_rows = dt_session_own_rows(steps->session, batch->rows);
    steps->valid = batch->rows;
    steps->has_pushed = false;
}

/* The step of indices, of which the step has one for all its tables. */
static dt_status *run_indices(dt_row_steps *steps, const row_work *work, const dt_batch *batch) {
    DT_TRY(dt_session_run_within(steps->session, work->indices_step, batch));
    bool carries_on = dt_processes_number(steps->processes) == 0; /* it is of all processes */
    if (carries_on) steps->bad_index = *dt_session_bad_index(steps->session);
    return NULL;
}

/* Each of `wanted` to its place in `gathers`. */
static dt_status *bring_rows(dt_row_steps *steps, int step) {
    if (steps->is_leased) return fetch(steps, step);
    DT_TRY(ask(steps, step));
    DT_TRY(answer(steps, step));
    gather(steps, step);
    return NULL;
}

dt_status *dt_row_steps_begin(dt_row_steps *steps, int step, dt_batch *batch) {
    bool any = false;
    steps->bad_index = (dt_bad_index){0};
    for (int w = 0; w < steps->n_works; w++) {
        row_work *work = &steps->works[w];
        if (work->step != step) continue;
        if (!any) take_batch(steps, work, batch);
        if (!any && looks(steps)) DT_TRY(run_indices(steps, work, batch));
        any = true;
        if (looks(steps)) DT_TRY(find_wanted(steps, work));
        steps->inputs[work->about->rows] = work->rows;
    }
    if (!any) return NULL;
    batch->inputs = steps->inputs;
    if (!looks(steps)) return NULL;
    DT_TRY(bring_rows(steps, step));
    for (int w = 0; w < steps->n_works; w++)
        if (steps->works[w].step == step) spread(steps, &steps->works[w]);
    return NULL;
}

const dt_bad_index *dt_row_steps_bad_index(const dt_row_steps *steps) { return &steps->bad_index; }

/* ---- adding up ---- */

/* That rows without a gradient stay as they are was proved of numbers that are finite and not negative. */
static dt_status *check_number(const dt_row_steps *steps, const row_work *work, dt_dtype dtype, const char *bytes) {
    double number = dtype == DT_F64 ? *(const double *)bytes : dtype == DT_F32 ? (double)*(const float *)bytes : 0;
    if (steps->is_lazy || (isfinite(number) && !signbit(number))) return NULL;
    return dt_error(
        DT_FAILED_PRECONDITION,
        "the update of %s reads the number %g: with one that is negative or not finite, rows without a gradient change as well; train with "
        "all of the table",
        steps->program->variables[work->about->table].path, number);
}

static dt_status *read_numbers(const dt_row_steps *steps, const row_work *work) {
    const dt_artifact_row_form *about = work->about;
    for (int i = 0; i < about->n_numbers; i++) {
        char *number = work->numbers + i * NUMBER_BYTES;
        DT_TRY(dt_session_result(steps->session, work->step, about->first_number + i, number));
        dt_dtype dtype = steps->program->functions[about->step].results[about->first_number + i].tensor.dtype;
        DT_TRY(check_number(steps, work, dtype, number));
    }
    return NULL;
}

/* The function on a microbatch's gradients, so many rows at once; what it gives takes their place. */
static void run_sum(const dt_row_steps *steps, const row_work *work, dt_rows_part part) {
    int64_t most = steps->program->microbatch_rows;
    for (int64_t first = 0, n; first < part.n && work->sum != NULL; first += n) {
        float *values = part.values + first * work->width;
        n = part.n - first < most ? part.n - first : most;
        memcpy(work->buffers[0], values, (size_t)(n * work->row_bytes));
        work->inputs[0] = work->buffers[0];
        for (int i = 0; i < work->about->n_numbers; i++) work->inputs[1 + i] = work->numbers + i * NUMBER_BYTES;
        dt_example_function_call_rows(work->sum, work->inputs, 0, n, 0);
        memcpy(values, dt_example_function_result(work->sum, 0), (size_t)(n * work->row_bytes));
    }
}

static dt_status *add_own(dt_row_steps *steps, row_work *work) {
    const int64_t *indices = work->indices;
    const float *gradients = work->gradients;
    DT_TRY(dt_session_result(steps->session, work->step, work->about->gradient, work->gradients));
    dt_row_sums_clear(work->own);
    for (int64_t m = 0; m < steps->n_microbatches; m++) {
        int64_t n = dt_microbatches_valid_rows(&steps->microbatches, steps->first_microbatch + m, steps->valid) * work->about->n_indices;
        dt_rows_part part;
        DT_TRY(dt_row_sums_add(work->own, indices, gradients, n, work->n_table_rows, &part));
        if (!steps->is_leased) run_sum(steps, work, part);
        indices += n;
        gradients += n * work->width;
    }
    return NULL;
}

static bool updates(const row_work *work, int step) { return work->step == step && work->own != NULL; }

static dt_status *post_sums(dt_row_steps *steps, const row_work *work) {
    const process_nodes *own = &steps->nodes[steps->number];
    for (int k = 0; k < own->n; k++) {
        dt_rows_part part = dt_row_sums_reduce(work->own, own->nodes[k].first - steps->first_microbatch, own->nodes[k].span);
        for (int64_t p = 0, at = 0, n; p < steps->n_processes; p++, at += n) {
            n = n_below(part.rows, at, part.n, dt_row_tables_of_process(steps->tables, work->about->table, (int)p).end);
            if (names_rows(steps, work, steps->number, (int)p))
                DT_TRY(post_rows(steps, work, (int)p, part.rows + at, part.values + at * work->width, n));
        }
    }
    return NULL;
}

/* The parts that a process has posted, one for each of its nodes. */
static dt_status *read_sums(const dt_row_steps *steps, const row_work *work, posted *left) {
    for (int k = 0; k < steps->nodes[left->from].n; k++) {
        dt_rows_part part;
        DT_TRY(read_rows(steps, work, left, true, &part));
        if (steps->is_leased) run_sum(steps, work, part);
        DT_TRY(dt_row_sums_put(work->all, steps->nodes[left->from].nodes[k].span, &part));
    }
    return NULL;
}

/* ---- updating ---- */

static void run_update(dt_row_steps *steps, const row_work *work, dt_rows_part part) {
    const dt_artifact_row_form *about = work->about;
    int64_t most = steps->program->microbatch_rows;
    int n_variables = 1 + about->n_slots;
    for (int i = 0; i <= n_variables; i++) work->inputs[i] = work->buffers[i];
    for (int i = 0; i < about->n_numbers; i++) work->inputs[1 + n_variables + i] = work->numbers + i * NUMBER_BYTES;
    for (int64_t first = 0, n; first < part.n; first += n) {
        const int64_t *rows = part.rows + first;
        n = part.n - first < most ? part.n - first : most;
        for (int v = 0; v < n_variables; v++)
            dt_row_tables_take(steps->tables, v == 0 ? about->table : about->slots[v - 1], rows, n, work->buffers[v]);
        memcpy(work->buffers[n_variables], part.values + first * work->width, (size_t)(n * work->row_bytes));
        dt_example_function_call_rows(work->update, work->inputs, 0, n, 0);
        for (int v = 0; v < n_variables; v++)
            dt_row_tables_put(steps->tables, v == 0 ? about->table : about->slots[v - 1], rows, n, dt_example_function_result(work->update, v));
    }
}

/* What this process's microbatches give all tables that the step updates. */
static dt_status *post_all(dt_row_steps *steps, int step, bool *any) {
    *any = false;
    dt_delivery_clear(steps->questions);
    for (int w = 0; w < steps->n_works; w++) {
        row_work *work = &steps->works[w];
        if (!updates(work, step)) continue;
        *any = true;
        DT_TRY(add_own(steps, work));
        DT_TRY(post_sums(steps, work));
    }
    return NULL;
}

dt_status *dt_row_steps_push(dt_row_steps *steps, int step) {
    bool any, is_workers = steps->is_leased && looks(steps);
    if (!is_workers || steps->has_pushed) return NULL;
    DT_TRY(post_all(steps, step, &any));
    steps->has_pushed = any;
    return any ? dt_delivery_run(steps->questions, NULL, &steps->context) : NULL;
}

/* What all have posted to this process. */
static dt_status *read_all(dt_row_steps *steps, int step) {
    for (int p = 0; p < steps->n_processes; p++) {
        posted left = posted_by(steps, p);
        for (int w = 0; w < steps->n_works; w++)
            if (updates(&steps->works[w], step) && names_rows(steps, &steps->works[w], p, steps->number))
                DT_TRY(read_sums(steps, &steps->works[w], &left));
    }
    return NULL;
}

dt_status *dt_row_steps_end(dt_row_steps *steps, int step) {
    bool any;
    if (steps->is_leased && looks(steps)) return dt_row_steps_push(steps, step);
    for (int w = 0; w < steps->n_works; w++) {
        row_work *work = &steps->works[w];
        if (!updates(work, step)) continue;
        DT_TRY(read_numbers(steps, work));
        dt_row_sums_clear(work->all);
    }
    DT_TRY(post_all(steps, step, &any));
    if (!any) return NULL;
    DT_TRY(dt_delivery_run(steps->questions, NULL, &steps->context));
    DT_TRY(read_all(steps, step));
    for (int w = 0; w < steps->n_works; w++)
        if (updates(&steps->works[w], step) && has_rows(steps, &steps->works[w], steps->number))
            run_update(steps, &steps->works[w], dt_row_sums_reduce(steps->works[w].all, 0, steps->n_all_microbatches));
    return NULL;
}
