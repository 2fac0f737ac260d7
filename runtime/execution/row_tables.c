/* row_tables: see row_tables.h. */
#include "runtime/execution/row_tables.h"

#include "base/arena.h"
#include "base/memory.h"
#include "runtime/execution/example_function.h"
#include "runtime/execution/row_sums.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    NUMBER_BYTES = 128 /* of an input without dimensions: an element, and slack */
};

/* A row form at work. */
typedef struct row_work {
    const dt_artifact_row_form *about;
    int step, indices_step;      /* of the session's program */
    int64_t n_table_rows, width; /* of the table */
    int64_t row_bytes;           /* of a row of it */
    int64_t *indices;            /* [rows of a full batch here, n_indices] of the last batch */
    char *index_bytes;           /* the same, as the step has them */
    float *rows, *gradients;     /* [the same, width], with slack */
    char *numbers;               /* [n_numbers][NUMBER_BYTES] */
    dt_row_sums *sums;           /* NULL: the step leaves the table as it is, and there is nothing of what follows */
    dt_example_function *sum;    /* NULL: the gradient is what crosses */
    dt_example_function *update;
    float **buffers;     /* [2 + slots] inputs of `update`: of table, slots and sum so many rows as a microbatch has at most */
    const void **inputs; /* of `sum` and `update` */
} row_work;

struct dt_row_tables {
    dt_arena *arena;
    dt_session *session, *tables; /* tables: has all variables, and runs the initialiser alone */
    const dt_artifact *program;
    bool is_lazy;
    dt_microbatches microbatches;
    int n_microbatches;
    int n_works;
    row_work *works;
    const void **inputs; /* of a step's row form */
    dt_bad_index bad_index;
    int64_t n_rows; /* of the batch, here */
};

/* ---- which program ---- */

static const dt_artifact_row_form *first_that_moves(const dt_artifact *artifact) {
    for (int i = 0; i < artifact->n_row_forms; i++)
        if (artifact->row_forms[i].moves != NULL) return &artifact->row_forms[i];
    return NULL;
}

dt_status *dt_row_tables_program(const dt_artifact *artifact, const dt_session_options *options, bool is_gpu, const dt_artifact **program) {
    const dt_artifact_row_form *moves = first_that_moves(artifact);
    if (artifact->by_rows == NULL)
        return dt_error(DT_FAILED_PRECONDITION,
                        "%s has no row forms: no step takes rows of a large table that it needs nothing else of; `dtc summary` says more",
                        artifact->path);
    if (is_gpu) return dt_error(DT_FAILED_PRECONDITION, "rows of tables are taken on CPUs; use --devices cpu, or all of each table");
    if (dt_processes_count(options->processes) > 1)
        return dt_error(DT_FAILED_PRECONDITION, "rows of tables are taken by one process; several have all of each table");
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

static dt_status *create_update(dt_row_tables *rows, const dt_kernels *kernels, row_work *work) {
    const dt_artifact_row_form *about = work->about;
    int64_t rows_at_once = rows->program->microbatch_rows;
    DT_TRY(dt_row_sums_create(rows->n_microbatches, dt_session_n_rows(rows->session) * about->n_indices, work->width, &work->sums));
    if (about->sum >= 0) DT_TRY(dt_example_function_create(kernels, about->sum, &work->sum));
    DT_TRY(dt_example_function_create(kernels, about->update, &work->update));
    work->numbers = take(rows->arena, about->n_numbers, NUMBER_BYTES);
    work->buffers = DT_NEW_ARRAY(rows->arena, float *, 2 + about->n_slots);
    for (int i = 0; i < 2 + about->n_slots; i++) work->buffers[i] = take(rows->arena, rows_at_once, (size_t)work->row_bytes);
    work->inputs = DT_NEW_ARRAY(rows->arena, const void *, 2 + about->n_slots + about->n_numbers);
    return NULL;
}

static dt_status *create_work(dt_row_tables *rows, const dt_kernels *kernels, const dt_artifact_row_form *about, row_work *work) {
    const dt_artifact *program = rows->program;
    const dt_artifact_tensor *table = &program->variables[about->table].tensor;
    int64_t n = dt_session_n_rows(rows->session) * about->n_indices;
    *work = (row_work){.about = about,
                       .step = step_of(program, about->step),
                       .indices_step = step_of(program, about->indices),
                       .n_table_rows = table->dims[0],
                       .width = table->dims[1],
                       .row_bytes = table->row_bytes / table->dims[0]};
    work->indices = take(rows->arena, n, sizeof *work->indices);
    work->index_bytes = take(rows->arena, n, sizeof *work->indices);
    work->rows = take(rows->arena, n, (size_t)work->row_bytes);
    work->gradients = take(rows->arena, n, (size_t)work->row_bytes);
    return about->update >= 0 ? create_update(rows, kernels, work) : NULL;
}

static dt_status *create_guarded(dt_row_tables *rows, const dt_kernels *kernels) {
    jmp_buf guard;
    const dt_session_options *options = dt_session_get_options(rows->session);
    if (setjmp(guard) != 0) return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for rows of tables");
    dt_arena_guard(rows->arena, &guard);
    rows->program = dt_session_artifact(rows->session);
    rows->is_lazy = options->by_rows == DT_BY_ROWS_LAZILY;
    int64_t per_replica = dt_artifact_microbatches(rows->program, options->rows);
    rows->microbatches = (dt_microbatches){options->rows, per_replica, rows->program->microbatch_rows};
    rows->n_microbatches = (int)(per_replica * options->replicas);
    dt_session_options initial = {
        .devices = "cpu", .replicas = 1, .seed = options->seed, .epochs = 1, .deadline_seconds = options->deadline_seconds, .initial_only = true};
    DT_TRY(dt_session_create(kernels, &initial, &rows->tables));
    rows->works = DT_NEW_ARRAY(rows->arena, row_work, rows->program->n_row_forms);
    int most_inputs = 0;
    for (int i = 0; i < rows->program->n_row_forms; i++) {
        DT_TRY(create_work(rows, kernels, &rows->program->row_forms[i], &rows->works[rows->n_works++]));
        int n_inputs = rows->program->functions[rows->program->row_forms[i].step].n_inputs;
        if (n_inputs > most_inputs) most_inputs = n_inputs;
    }
    rows->inputs = DT_NEW_ARRAY(rows->arena, const void *, most_inputs);
    return NULL;
}

dt_status *dt_row_tables_create(const dt_kernels *kernels, dt_session *session, dt_row_tables **rows) {
    dt_row_tables *made = dt_allocate_zeroed(1, sizeof *made);
    dt_arena *arena = dt_arena_create();
    *rows = NULL;
    if (made == NULL || arena == NULL) {
        dt_release(made);
        dt_arena_destroy(arena);
        return dt_error(DT_RESOURCE_EXHAUSTED, "not enough memory for rows of tables");
    }
    *made = (dt_row_tables){.arena = arena, .session = session};
    dt_status *status = create_guarded(made, kernels);
    dt_arena_guard(arena, NULL);
    if (status == NULL)
        *rows = made;
    else
        dt_row_tables_destroy(made);
    return status;
}

void dt_row_tables_destroy(dt_row_tables *rows) {
    if (rows == NULL) return;
    for (int w = 0; w < rows->n_works; w++) {
        dt_row_sums_destroy(rows->works[w].sums);
        dt_example_function_destroy(rows->works[w].sum);
        dt_example_function_destroy(rows->works[w].update);
    }
    dt_session_destroy(rows->tables);
    dt_arena_destroy(rows->arena);
    dt_release(rows);
}

/* ---- variables ---- */

dt_status *dt_row_tables_initialize(dt_row_tables *rows) {
    dt_session_set_seed(rows->tables, dt_session_get_options(rows->session)->seed);
    return dt_session_initialize(rows->tables);
}

dt_session *dt_row_tables_session(const dt_row_tables *rows) { return rows->tables; }

static float *memory_of(const dt_row_tables *rows, int variable) { return (float *)(uintptr_t)dt_session_variable_memory(rows->tables, variable); }

/* ---- before a step ---- */

static int64_t index_at(dt_dtype dtype, const char *bytes, int64_t i) {
    switch (dtype) {
    case DT_I8: return ((const int8_t *)bytes)[i];
    case DT_U8: return ((const uint8_t *)bytes)[i];
    case DT_I32: return ((const int32_t *)bytes)[i];
    default: return ((const int64_t *)bytes)[i];
    }
}

/* As a kernel counts it. */
static void count_bad_index(dt_row_tables *rows, const row_work *work, int64_t i) {
    dt_bad_index one = {.count = 1,
                        .value = work->indices[i],
                        .row = dt_session_first_row(rows->session) + i / work->about->n_indices,
                        .location = work->about->location,
                        .limit = work->n_table_rows};
    dt_bad_index_add(&rows->bad_index, &one);
}

static dt_status *take_rows(dt_row_tables *rows, row_work *work) {
    dt_dtype dtype = rows->program->functions[work->about->indices].results[work->about->index].tensor.dtype;
    const float *table = memory_of(rows, work->about->table);
    DT_TRY(dt_session_result(rows->session, work->indices_step, work->about->index, work->index_bytes));
    for (int64_t i = 0; i < rows->n_rows * work->about->n_indices; i++) {
        int64_t index = work->indices[i] = index_at(dtype, work->index_bytes, i);
        float *row = work->rows + i * work->width;
        if (index >= 0 && index < work->n_table_rows) {
            memcpy(row, table + index * work->width, (size_t)work->row_bytes);
        } else {
            memset(row, 0, (size_t)work->row_bytes);
            count_bad_index(rows, work, i);
        }
    }
    return NULL;
}

dt_status *dt_row_tables_begin(dt_row_tables *rows, int step, dt_batch *batch) {
    bool any = false;
    rows->bad_index = (dt_bad_index){0};
    rows->n_rows = dt_session_own_rows(rows->session, batch->rows);
    for (int w = 0; w < rows->n_works; w++) {
        row_work *work = &rows->works[w];
        if (work->step != step) continue;
        if (!any) {
            int n_inputs = rows->program->functions[work->about->of].n_inputs;
            DT_TRY(dt_session_run(rows->session, work->indices_step, batch, NULL));
            for (int i = 0; i < n_inputs; i++) rows->inputs[i] = batch->inputs[i];
        }
        any = true;
        DT_TRY(take_rows(rows, work));
        rows->inputs[work->about->rows] = work->rows;
    }
    if (any) batch->inputs = rows->inputs;
    return NULL;
}

/* ---- after it ---- */

/* The function on `n` rows of `part`, so many at once; what it gives is the part's. */
static void run_sum(const dt_row_tables *rows, const row_work *work, dt_rows_part part) {
    int64_t most = rows->program->microbatch_rows;
    for (int64_t first = 0, n; first < part.n && work->sum != NULL; first += n) {
        float *values = part.values + first * work->width;
        n = part.n - first < most ? part.n - first : most;
        memcpy(work->buffers[0], values, (size_t)(n * work->row_bytes));
        work->inputs[0] = work->buffers[0];
        for (int i = 0; i < work->about->n_numbers; i++) work->inputs[1 + i] = work->numbers + i * NUMBER_BYTES;
        dt_example_function_call_rows(work->sum, work->inputs, n);
        memcpy(values, dt_example_function_result(work->sum, 0), (size_t)(n * work->row_bytes));
    }
}

/* Copies rows of a variable to `buffer`, or back. */
static void copy_rows(const row_work *work, float *memory, const int64_t *which, int64_t n, float *buffer, bool back) {
    for (int64_t i = 0; i < n; i++) {
        float *row = memory + which[i] * work->width, *copy = buffer + i * work->width;
        memcpy(back ? row : copy, back ? copy : row, (size_t)work->row_bytes);
    }
}

static void run_update(const dt_row_tables *rows, const row_work *work, dt_rows_part part) {
    const dt_artifact_row_form *about = work->about;
    int64_t most = rows->program->microbatch_rows;
    int n_variables = 1 + about->n_slots;
    for (int i = 0; i <= n_variables; i++) work->inputs[i] = work->buffers[i];
    for (int i = 0; i < about->n_numbers; i++) work->inputs[1 + n_variables + i] = work->numbers + i * NUMBER_BYTES;
    for (int64_t first = 0, n; first < part.n; first += n) {
        n = part.n - first < most ? part.n - first : most;
        for (int v = 0; v < n_variables; v++)
            copy_rows(work, memory_of(rows, v == 0 ? about->table : about->slots[v - 1]), part.rows + first, n, work->buffers[v], false);
        memcpy(work->buffers[n_variables], part.values + first * work->width, (size_t)(n * work->row_bytes));
        dt_example_function_call_rows(work->update, work->inputs, n);
        for (int v = 0; v < n_variables; v++) {
            float *result = (float *)(uintptr_t)dt_example_function_result(work->update, v);
            copy_rows(work, memory_of(rows, v == 0 ? about->table : about->slots[v - 1]), part.rows + first, n, result, true);
        }
    }
}

/* That rows without a gradient stay as they are was proved of numbers that are finite and not negative. */
static dt_status *check_number(const dt_row_tables *rows, const row_work *work, dt_dtype dtype, const char *bytes) {
    double number = dtype == DT_F64 ? *(const double *)bytes : dtype == DT_F32 ? (double)*(const float *)bytes : 0;
    if (rows->is_lazy || (isfinite(number) && !signbit(number))) return NULL;
    return dt_error(
        DT_FAILED_PRECONDITION,
        "the update of %s reads the number %g: with one that is negative or not finite, rows without a gradient change as well; train with "
        "all of the table",
        rows->program->variables[work->about->table].path, number);
}

static dt_status *update_table(dt_row_tables *rows, const row_work *work) {
    const dt_artifact_row_form *about = work->about;
    const dt_artifact_function *function = &rows->program->functions[about->step];
    DT_TRY(dt_session_result(rows->session, work->step, about->gradient, work->gradients));
    for (int i = 0; i < about->n_numbers; i++) {
        char *number = work->numbers + i * NUMBER_BYTES;
        DT_TRY(dt_session_result(rows->session, work->step, about->first_number + i, number));
        DT_TRY(check_number(rows, work, function->results[about->first_number + i].tensor.dtype, number));
    }
    const int64_t *indices = work->indices;
    const float *gradients = work->gradients;
    int64_t valid = rows->n_rows;
    dt_row_sums_begin(work->sums);
    for (int m = 0; m < rows->n_microbatches; m++) {
        int64_t n = dt_microbatches_valid_rows(&rows->microbatches, m, valid) * about->n_indices;
        run_sum(rows, work, dt_row_sums_add(work->sums, indices, gradients, n, work->n_table_rows));
        indices += n;
        gradients += n * work->width;
    }
    run_update(rows, work, dt_row_sums_end(work->sums));
    return NULL;
}

dt_status *dt_row_tables_end(dt_row_tables *rows, int step, dt_bad_index *bad_index) {
    dt_bad_index_add(bad_index, &rows->bad_index);
    for (int w = 0; w < rows->n_works; w++)
        if (rows->works[w].step == step && rows->works[w].sums != NULL) DT_TRY(update_table(rows, &rows->works[w]));
    return NULL;
}
