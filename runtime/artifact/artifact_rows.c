/* artifact_rows: the row forms of an artifact, and the program that is made of them. See artifact.h. */
#include "runtime/artifact/artifact_reader.h"

#include <limits.h>
#include <string.h>

/* ---- one form ---- */

static bool is_rows_of(const dt_artifact_tensor *tensor, int64_t row_bytes) {
    return tensor->dtype == DT_F32 && tensor->has_rows && !tensor->has_all_rows && tensor->row_bytes == row_bytes;
}

static bool is_same(const dt_artifact_tensor *a, const dt_artifact_tensor *b) {
    return a->dtype == b->dtype && a->has_rows == b->has_rows && a->has_all_rows == b->has_all_rows && a->row_bytes == b->row_bytes;
}

/* Whether inputs `from` … of the function are the numbers. */
static bool takes_numbers(const dt_artifact *artifact, const dt_artifact_row_form *form, const dt_artifact_function *function, int from) {
    if (function->n_inputs != from + form->n_numbers) return false;
    for (int i = 0; i < form->n_numbers; i++)
        if (!is_same(&function->inputs[from + i], &artifact->functions[form->step].results[form->first_number + i].tensor)) return false;
    return true;
}

static bool begins_alike(const dt_artifact_function *form, const dt_artifact_function *of, bool results) {
    bool fits = form->n_inputs >= of->n_inputs && (!results || form->n_results >= of->n_results);
    for (int i = 0; fits && i < of->n_inputs; i++) fits = is_same(&form->inputs[i], &of->inputs[i]);
    for (int i = 0; fits && results && i < of->n_results; i++) fits = is_same(&form->results[i].tensor, &of->results[i].tensor);
    return fits;
}

/* What it does to the batch's rows. */
static bool step_fits(const dt_artifact *artifact, dt_artifact_row_form *form) {
    const dt_artifact_function *of = &artifact->functions[form->of], *indices = &artifact->functions[form->indices];
    const dt_artifact_function *step = &artifact->functions[form->step];
    const dt_artifact_tensor *table = &artifact->variables[form->table].tensor;
    if (!begins_alike(indices, of, false) || indices->n_inputs != of->n_inputs || !begins_alike(step, of, true)) return false;
    if (table->dtype != DT_F32 || table->n_dims != 2 || table->dims[0] < 1 || table->dims[1] < 1) return false;
    if (form->index >= indices->n_results || form->rows < of->n_inputs || form->rows >= step->n_inputs) return false;
    const dt_artifact_tensor *index = &indices->results[form->index].tensor;
    int64_t width_bytes = table->row_bytes / table->dims[0];
    if (dt_dtype_kind(index->dtype) != 'i' || !index->has_rows || index->has_all_rows) return false;
    form->n_indices = index->row_bytes / (int64_t)dt_dtype_bytes(index->dtype);
    return is_rows_of(&step->inputs[form->rows], form->n_indices * width_bytes);
}

/* And what it does to the table's. */
static bool update_fits(const dt_artifact *artifact, const dt_artifact_row_form *form) {
    const dt_artifact_function *step = &artifact->functions[form->step], *update = &artifact->functions[form->update];
    const dt_artifact_tensor *table = &artifact->variables[form->table].tensor;
    int64_t width_bytes = table->row_bytes / table->dims[0];
    bool fits = form->gradient < step->n_results && form->n_numbers <= step->n_results && form->first_number <= step->n_results - form->n_numbers;
    if (!fits || !is_same(&step->results[form->gradient].tensor, &step->inputs[form->rows])) return false;
    for (int i = 0; fits && i < form->n_numbers; i++) fits = step->results[form->first_number + i].tensor.n_dims == 0;
    for (int s = 0; fits && s < form->n_slots; s++) {
        const dt_artifact_variable *slot = &artifact->variables[form->slots[s]];
        fits = slot->kind == DT_VARIABLE_SLOT && slot->tensor.dtype == DT_F32 && slot->tensor.n_dims == 2 && slot->tensor.dims[0] == table->dims[0] &&
               slot->tensor.dims[1] == table->dims[1];
    }
    fits = fits && update->n_results == 1 + form->n_slots && takes_numbers(artifact, form, update, 2 + form->n_slots);
    for (int i = 0; fits && i < 2 + form->n_slots; i++) fits = is_rows_of(&update->inputs[i], width_bytes);
    for (int r = 0; fits && r < 1 + form->n_slots; r++) fits = is_rows_of(&update->results[r].tensor, width_bytes);
    if (!fits || form->sum < 0) return fits;
    const dt_artifact_function *sum = &artifact->functions[form->sum];
    return sum->n_results == 1 && is_rows_of(&sum->results[0].tensor, width_bytes) && takes_numbers(artifact, form, sum, 1) &&
           is_rows_of(&sum->inputs[0], width_bytes);
}

static dt_status *read_index(const dt_json *item, const char *key, int64_t least, int64_t most, int *index) {
    int64_t number;
    DT_TRY(dt_json_integer(item, key, least, most, &number));
    *index = (int)number;
    return NULL;
}

static dt_status *read_update(dt_artifact_reader *reader, const dt_json *item, dt_artifact_row_form *form) {
    form->gradient = form->sum = form->update = -1;
    if (!dt_json_has(item, "update")) return NULL;
    DT_TRY(read_index(item, "gradient", 0, INT_MAX, &form->gradient));
    DT_TRY(read_index(item, "first_number", 0, INT_MAX, &form->first_number));
    DT_TRY(read_index(item, "n_numbers", 0, INT_MAX, &form->n_numbers));
    DT_TRY(dt_artifact_read_function_name(reader, item, "update", DT_ROLE_ROWS, &form->update));
    if (dt_json_has(item, "sum")) DT_TRY(dt_artifact_read_function_name(reader, item, "sum", DT_ROLE_ROWS, &form->sum));
    if (dt_json_has(item, "moves")) DT_TRY(dt_artifact_read_name(reader, item, "moves", &form->moves));
    return dt_artifact_read_indices(reader, item, "slots", reader->artifact->n_variables, &form->n_slots, &form->slots);
}

static dt_status *read_form(dt_artifact_reader *reader, const dt_json *item, dt_artifact_row_form *form) {
    const dt_artifact *artifact = reader->artifact;
    DT_TRY(read_index(item, "table", 0, artifact->n_variables - 1, &form->table));
    DT_TRY(read_index(item, "location", -1, artifact->n_locations - 1, &form->location));
    DT_TRY(read_index(item, "index", 0, INT_MAX, &form->index));
    DT_TRY(read_index(item, "rows", 0, INT_MAX, &form->rows));
    DT_TRY(dt_artifact_read_function_name(reader, item, "of", DT_ROLE_STEP, &form->of));
    DT_TRY(dt_artifact_read_function_name(reader, item, "indices", DT_ROLE_ROWS, &form->indices));
    DT_TRY(dt_artifact_read_function_name(reader, item, "step", DT_ROLE_ROWS, &form->step));
    DT_TRY(read_update(reader, item, form));
    if (!step_fits(artifact, form) || (form->update >= 0 && !update_fits(artifact, form)))
        return dt_json_wrong(item, "the functions do not fit the table %s and one another", artifact->variables[form->table].path);
    return NULL;
}

/* ---- the program that is made of them ---- */

static bool is_step(const dt_artifact *program, int function) {
    for (int s = 0; s < program->n_steps; s++)
        if (program->steps[s].function == function) return true;
    return false;
}

/* The step whose function is `of`; it says, too, what its first results are. */
static dt_status *exchange_step(dt_artifact_reader *reader, const dt_json *array, dt_artifact *program, dt_artifact_step *steps,
                                const dt_artifact_row_form *form) {
    for (int s = 0; s < reader->artifact->n_steps; s++) {
        if (reader->artifact->steps[s].function != form->of) continue;
        bool is_exchanged = steps[s].function != form->of, is_same = steps[s].function == form->step; /* for another of its tables */
        if (is_exchanged && is_same && is_step(program, form->indices)) return NULL;
        if (is_exchanged) return dt_json_wrong(array, "two forms of %s do not belong together", steps[s].name);
        steps[s].function = form->step;
        steps[program->n_steps++] = (dt_artifact_step){.name = dt_arena_format(reader->arena, "%s/indices", steps[s].name),
                                                       .function = form->indices,
                                                       .report = -1,
                                                       .pipeline = -1,
                                                       .aggregate_starts = DT_NEW_ARRAY(reader->arena, int64_t, 1),
                                                       .report_starts = DT_NEW_ARRAY(reader->arena, int64_t, 1)};
        return NULL;
    }
    return dt_json_wrong(array, "%s is no step's function", reader->artifact->functions[form->of].name);
}

static dt_status *make_program(dt_artifact_reader *reader, const dt_json *array, int row_init) {
    dt_artifact *all = reader->artifact, *program = DT_NEW(reader->arena, dt_artifact);
    *program = *all;
    dt_artifact_variable *variables = dt_arena_copy(reader->arena, all->variables, (size_t)all->n_variables * sizeof *variables);
    dt_artifact_function *functions = dt_arena_copy(reader->arena, all->functions, (size_t)all->n_functions * sizeof *functions);
    dt_artifact_step *steps = DT_NEW_ARRAY(reader->arena, dt_artifact_step, all->n_steps + all->n_row_forms);
    memcpy(steps, all->steps, (size_t)all->n_steps * sizeof *steps);
    for (int v = 0; v < all->n_variables; v++) variables[v].by_rows = variables[v].row_init >= 0;
    program->variables = variables;
    program->functions = functions;
    program->steps = steps;
    for (int i = 0; i < all->n_row_forms; i++) {
        const dt_artifact_row_form *form = &all->row_forms[i];
        DT_TRY(exchange_step(reader, array, program, steps, form));
        functions[form->of].role = DT_ROLE_ROWS;
        functions[form->step].role = functions[form->indices].role = DT_ROLE_STEP;
    }
    for (int f = 0; f < all->n_functions; f++) {
        if (functions[f].role == DT_ROLE_INIT) functions[f].role = DT_ROLE_ROWS;
        if (f == row_init) functions[f].role = DT_ROLE_INIT;
        bool is_run = functions[f].role == DT_ROLE_INIT || functions[f].role == DT_ROLE_STEP;
        for (int b = 0; b < functions[f].n_buffers && is_run; b++) {
            const dt_artifact_buffer *buffer = &functions[f].buffers[b];
            if (buffer->space == DT_MEMORY_VARIABLE && variables[buffer->variable].by_rows)
                return dt_json_wrong(array, "%s needs all of %s", functions[f].name, variables[buffer->variable].path);
        }
    }
    all->by_rows = program;
    return NULL;
}

/* ---- initial values ---- */

static dt_status *read_row_variables(dt_artifact_reader *reader, const dt_json *root) {
    dt_artifact *artifact = reader->artifact;
    dt_artifact_variable *variables = dt_arena_copy(reader->arena, artifact->variables, (size_t)artifact->n_variables * sizeof *variables);
    dt_json array;
    int n;
    artifact->variables = variables;
    DT_TRY(dt_json_array(root, "row_variables", &array, &n));
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        int v;
        DT_TRY(read_index(&item, "variable", 0, artifact->n_variables - 1, &v));
        DT_TRY(dt_artifact_read_function_name(reader, &item, "init", DT_ROLE_ROWS, &variables[v].row_init));
        const dt_artifact_function *init = &artifact->functions[variables[v].row_init];
        const dt_artifact_tensor *tensor = &variables[v].tensor;
        bool fits = tensor->n_dims == 2 && tensor->dims[0] > 0 && init->n_inputs == 0 && init->n_results == 1 &&
                    is_rows_of(&init->results[0].tensor, tensor->row_bytes / tensor->dims[0]);
        if (!fits) return dt_json_wrong(&item, "%s does not give rows of %s", init->name, variables[v].path);
    }
    for (int i = 0; i < artifact->n_row_forms; i++) {
        bool all = variables[artifact->row_forms[i].table].row_init >= 0;
        for (int s = 0; s < artifact->row_forms[i].n_slots; s++) all &= variables[artifact->row_forms[i].slots[s]].row_init >= 0;
        if (!all) return dt_json_wrong(&array, "%s, or a slot of it, is not there", variables[artifact->row_forms[i].table].path);
    }
    return NULL;
}

dt_status *dt_artifact_read_rows(dt_artifact_reader *reader, const dt_json *root) {
    dt_json array;
    int row_init;
    if (!dt_json_has(root, "row_forms")) return NULL;
    DT_TRY(dt_artifact_read_function_name(reader, root, "row_init", DT_ROLE_ROWS, &row_init));
    DT_TRY(dt_json_array(root, "row_forms", &array, &reader->artifact->n_row_forms));
    dt_artifact_row_form *forms = DT_NEW_ARRAY(reader->arena, dt_artifact_row_form, reader->artifact->n_row_forms);
    reader->artifact->row_forms = forms;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) DT_TRY(read_form(reader, &item, &forms[item.index]));
    DT_TRY(read_row_variables(reader, root));
    return make_program(reader, &array, row_init);
}
