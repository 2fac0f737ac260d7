/* example_columns: see example_columns.h. */
#include "runtime/data/example_columns.h"

#include "base/memory.h"
#include "runtime/artifact/type_text.h"

#include <assert.h>

static bool same_type(const dt_artifact_tensor *a, const dt_artifact_tensor *b) {
    if (a->dtype != b->dtype || a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

static void append_type(dt_text *text, const dt_column *column) {
    if (column->is_text)
        dt_text_append(text, "a text");
    else
        dt_text_append_type(text, column->tensor.dtype, column->tensor.n_dims, column->tensor.dims);
}

/* "data train_set: map(f)" refuses component `i` as its input `input`. */
static dt_status *refuse(const char *pipeline, const dt_stage *stage, const dt_columns *given, int i, const dt_artifact_tensor *input) {
    dt_text is = {0}, wanted = {0};
    append_type(&is, &given->items[i]);
    dt_text_append_type(&wanted, input->dtype, input->n_dims, input->dims);
    dt_status *status =
        dt_error_in(DT_INVALID_ARGUMENT, given->items[i].path, 0, "component %d of an example is %s, but %s() of data %s takes %s: %s", i + 1,
                    is.data != NULL ? is.data : "", dt_stage_name(stage->kind), pipeline, input->name, wanted.data != NULL ? wanted.data : "");
    dt_text_free(&is);
    dt_text_free(&wanted);
    return status;
}

static dt_status *too_few(const char *pipeline, const dt_stage *stage, int n_taken, const dt_columns *given) {
    return dt_error(DT_INVALID_ARGUMENT, "data %s: %s() takes %d components, an example has %d here", pipeline, dt_stage_name(stage->kind), n_taken,
                    given->n);
}

/* A component with functions of text to apply, what they give is `dtype`. */
static dt_status *check_chain(const char *pipeline, const dt_stage *stage, const dt_stage_operand *operand, const dt_columns *given, dt_dtype *dtype,
                              bool *gives_text) {
    dt_status *status = dt_text_chain_check(&operand->chain, dtype, gives_text);
    DT_TRY(dt_status_annotate(status, "data %s: %s()", pipeline, dt_stage_name(stage->kind)));
    if (given->items[operand->index].is_text) return NULL;
    return dt_error_in(DT_INVALID_ARGUMENT, given->items[operand->index].path, 0,
                       "component %d of an example is no text, but %s() of data %s takes one", operand->index + 1, dt_stage_name(stage->kind),
                       pipeline);
}

static dt_status *check_operand(const char *pipeline, const dt_stage *stage, const dt_stage_operand *operand, const dt_columns *given,
                                const dt_artifact_tensor *input) {
    if (operand->index >= given->n) return too_few(pipeline, stage, operand->index + 1, given);
    const dt_column *column = &given->items[operand->index];
    if (operand->chain.n == 0)
        return !column->is_text && same_type(input, &column->tensor) ? NULL : refuse(pipeline, stage, given, operand->index, input);
    dt_dtype dtype;
    bool gives_text;
    DT_TRY(check_chain(pipeline, stage, operand, given, &dtype, &gives_text));
    if (!gives_text && input->dtype == dtype && input->n_dims == 0) return NULL;
    return dt_error(DT_INVALID_ARGUMENT, "data %s: the function of %s() does not take what is computed for it", pipeline, dt_stage_name(stage->kind));
}

static dt_status *check_function(const char *pipeline, const dt_stage *stage, const dt_columns *given, const dt_artifact_function *function) {
    int n_inputs = stage->operands != NULL ? stage->n_inputs : given->n;
    if (stage->operands == NULL && function->n_inputs != given->n) return too_few(pipeline, stage, function->n_inputs, given);
    if (function->n_inputs != n_inputs)
        return dt_error(DT_INVALID_ARGUMENT, "data %s: the function of %s() takes %d inputs, not %d", pipeline, dt_stage_name(stage->kind),
                        function->n_inputs, n_inputs);
    for (int i = 0; i < n_inputs; i++) {
        dt_stage_operand in_order = {.index = i};
        DT_TRY(check_operand(pipeline, stage, stage->operands != NULL ? &stage->operands[i] : &in_order, given, &function->inputs[i]));
    }
    if (stage->kind == DT_STAGE_FILTER &&
        (function->n_results != 1 || function->results[0].tensor.dtype != DT_BOOL || function->results[0].tensor.n_dims != 0))
        return dt_error(DT_INVALID_ARGUMENT, "data %s: the function of filter() must give one bool", pipeline);
    return NULL;
}

static dt_status *reserve(dt_columns *columns, int n) {
    columns->items = dt_allocate_zeroed((size_t)n, sizeof *columns->items);
    columns->n = n;
    return columns->items != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "out of memory");
}

static dt_status *map_columns(const char *pipeline, const dt_stage *stage, const dt_columns *before, const dt_artifact_function *function,
                              dt_columns *after) {
    int n_results = function != NULL ? function->n_results : 0, n = stage->n_outputs > 0 ? stage->n_outputs : n_results;
    if (n == 0) return dt_error(DT_INVALID_ARGUMENT, "data %s: the function of map() gives nothing", pipeline);
    DT_TRY(reserve(after, n));
    for (int i = 0; i < n; i++) {
        dt_stage_operand in_order = {.is_result = true, .index = i};
        const dt_stage_operand *output = stage->n_outputs > 0 ? &stage->operands[stage->n_inputs + i] : &in_order;
        assert(output->index >= 0); /* a manifest says nothing else: parse_operands */
        if (output->index >= (output->is_result ? n_results : before->n))
            return dt_error(DT_INVALID_ARGUMENT, "data %s: map() gives what is not there", pipeline);
        after->items[i] = (dt_column){.path = before->items[0].path, .is_text = !output->is_result};
        if (output->is_result) {
            after->items[i].tensor = function->results[output->index].tensor;
            continue;
        }
        dt_dtype dtype;
        bool gives_text;
        DT_TRY(check_chain(pipeline, stage, output, before, &dtype, &gives_text));
        if (!gives_text) return dt_error(DT_INVALID_ARGUMENT, "data %s: map() gives a number as a text", pipeline);
    }
    return NULL;
}

static dt_status *token_columns(const char *pipeline, const dt_stage *stage, const dt_tokenizer *tokenizer, const dt_columns *before,
                                dt_columns *after) {
    int n_texts = 0;
    DT_TRY(reserve(after, before->n));
    after->length = tokenizer->length;
    for (int i = 0; i < before->n; i++) {
        after->items[i] = before->items[i];
        if (!before->items[i].is_text) continue;
        after->items[i].is_text = false;
        after->items[i].tensor = (dt_artifact_tensor){
            .name = "", .dtype = DT_I32, .n_dims = 1, .dims = &after->length, .row_bytes = after->length * (int64_t)sizeof(int32_t)};
        n_texts++;
    }
    if (n_texts > 0) return NULL;
    return dt_error_in(DT_INVALID_ARGUMENT, before->items[0].path, 0, "an example has no text here, but %s() of data %s takes one",
                       dt_stage_name(stage->kind), pipeline);
}

/* The number comes first, as in Python and tf.data. */
static dt_status *enumerated_columns(const dt_columns *before, dt_columns *after) {
    DT_TRY(reserve(after, before->n + 1));
    after->items[0] = (dt_column){.path = before->items[0].path, .tensor = {.name = "", .dtype = DT_I64, .row_bytes = sizeof(int64_t)}};
    for (int i = 0; i < before->n; i++) after->items[1 + i] = before->items[i];
    return NULL;
}

dt_status *dt_columns_of_source(const dt_source *source, dt_columns *columns) {
    *columns = (dt_columns){0};
    DT_TRY(reserve(columns, source->n_columns));
    for (int i = 0; i < source->n_columns; i++) columns->items[i] = source->columns[i];
    return NULL;
}

dt_status *dt_columns_after(const dt_artifact *artifact, const char *pipeline, const dt_stage *stage, const dt_tokenizer *tokenizer,
                            const dt_columns *before, dt_columns *after) {
    *after = (dt_columns){0};
    const dt_artifact_function *function = stage->function >= 0 ? &artifact->functions[stage->function] : NULL;
    if (function != NULL) DT_TRY(check_function(pipeline, stage, before, function));
    if (stage->kind == DT_STAGE_MAP) return map_columns(pipeline, stage, before, function, after);
    if (stage->kind == DT_STAGE_ENUMERATE) return enumerated_columns(before, after);
    if (tokenizer != NULL) return token_columns(pipeline, stage, tokenizer, before, after);
    DT_TRY(reserve(after, before->n));
    for (int i = 0; i < before->n; i++) after->items[i] = before->items[i];
    return NULL;
}

void dt_columns_free(dt_columns *columns) { dt_release(columns->items); }

dt_status *dt_columns_check_batch(const char *pipeline, const dt_columns *columns) {
    for (int i = 0; i < columns->n; i++)
        if (columns->items[i].is_text)
            return dt_error_in(DT_INVALID_ARGUMENT, columns->items[i].path, 0,
                               "component %d of an example of data %s is a text at batch(): a stage such as wordpiece() or pad() makes numbers of it",
                               i + 1, pipeline);
    return NULL;
}
