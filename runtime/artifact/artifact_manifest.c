/* artifact_manifest: what the program of an artifact is made of: objects, locations, variables, functions, steps, pipelines. See artifact.h.
 *
 * Order matters: functions are read before the steps and pipelines that name them. */
#include "runtime/artifact/artifact_reader.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

dt_status *dt_artifact_read_name(dt_artifact_reader *reader, const dt_json *object, const char *key, const char **name) {
    const char *string;
    DT_TRY(dt_json_string(object, key, &string));
    if (*string == '\0') return dt_json_wrong(object, "\"%s\" is empty", key);
    *name = dt_arena_string(reader->arena, string);
    return NULL;
}

/* A member that may be missing: then `otherwise`. */
static dt_status *read_optional_string(dt_artifact_reader *reader, const dt_json *object, const char *key, const char *otherwise,
                                       const char **string) {
    *string = otherwise;
    if (dt_json_has(object, key)) {
        DT_TRY(dt_json_string(object, key, string));
        *string = dt_arena_string(reader->arena, *string);
    }
    return NULL;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorts `names`, which is the caller's scratch. */
static dt_status *check_unique(const dt_json *array, const char **names, int n) {
    qsort(names, (size_t)n, sizeof *names, compare_names);
    for (int i = 1; i < n; i++)
        if (strcmp(names[i - 1], names[i]) == 0) return dt_json_wrong(array, "%s is there twice", names[i]);
    return NULL;
}

/* ---- tensors ---- */

static dt_status *read_shape(dt_artifact_reader *reader, const dt_json *object, dt_rows_rule rule, dt_artifact_tensor *tensor) {
    dt_json shape;
    DT_TRY(dt_json_array(object, "shape", &shape, &tensor->n_dims));
    int64_t *dims = DT_NEW_ARRAY(reader->arena, int64_t, tensor->n_dims);
    int64_t bytes = (int64_t)dt_dtype_bytes(tensor->dtype);
    tensor->dims = dims;
    for (dt_json item = dt_json_first(&shape); item.value != NULL; dt_json_next(&item)) {
        int64_t *dim = &dims[item.index];
        DT_TRY(dt_json_as_integer(&item, rule == DT_ROWS_ANYWHERE ? DT_ALL_ROWS : rule == DT_ROWS_FIRST ? DT_ROWS : 0, INT64_MAX, dim));
        if (item.index > 0 && (*dim == DT_ALL_ROWS || (*dim == DT_ROWS && rule == DT_ROWS_FIRST)))
            return dt_json_wrong(&item, "the rows of the batch are the first dimension or none");
        if (item.index == 0 && *dim < 0) {
            tensor->has_rows = true;
            tensor->has_all_rows = *dim == DT_ALL_ROWS;
            continue;
        }
        if (__builtin_mul_overflow(bytes, *dim < 0 ? reader->artifact->microbatch_rows : *dim, &bytes) || bytes > DT_MOST_BYTES)
            return dt_json_wrong(&shape, "more elements than any memory holds");
    }
    tensor->row_bytes = bytes;
    int64_t all;
    if (tensor->has_rows && (__builtin_mul_overflow(bytes, reader->artifact->microbatch_rows, &all) || all > DT_MOST_BYTES))
        return dt_json_wrong(&shape, "more elements than any memory holds");
    return NULL;
}

dt_status *dt_artifact_read_tensor(dt_artifact_reader *reader, const dt_json *object, dt_rows_rule rule, dt_artifact_tensor *tensor) {
    const char *dtype;
    *tensor = (dt_artifact_tensor){.name = ""};
    DT_TRY(dt_json_string(object, "dtype", &dtype));
    tensor->dtype = dt_dtype_from_name(dtype);
    if (tensor->dtype == DT_N_DTYPES) return dt_json_wrong(object, "\"%.20s\" is no element type", dtype);
    return read_shape(reader, object, rule, tensor);
}

int64_t dt_artifact_tensor_bytes(const dt_artifact *artifact, const dt_artifact_tensor *tensor) {
    return tensor->has_rows ? tensor->row_bytes * artifact->microbatch_rows : tensor->row_bytes;
}

/* ---- texts, objects, locations, variables ---- */

static dt_status *check_texts(dt_artifact_reader *reader, const dt_json *root) {
    dt_json array;
    int n;
    DT_TRY(dt_json_array(root, "texts", &array, &n));
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) DT_TRY(dt_artifact_check_summed_member(reader, &item));
    return NULL;
}

static dt_status *read_objects(dt_artifact_reader *reader, const dt_json *root) {
    dt_json array;
    DT_TRY(dt_json_array(root, "objects", &array, &reader->artifact->n_objects));
    dt_artifact_object *objects = DT_NEW_ARRAY(reader->arena, dt_artifact_object, reader->artifact->n_objects);
    reader->artifact->objects = objects;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_object *object = &objects[item.index];
        DT_TRY(dt_artifact_read_name(reader, &item, "level", &object->level));
        DT_TRY(read_optional_string(reader, &item, "cpu", "", &object->cpu));
        DT_TRY(dt_artifact_read_summed_member(reader, &item, &object->file, &object->bytes, &object->n_bytes));
    }
    return NULL;
}

static dt_status *read_constants(dt_artifact_reader *reader, const dt_json *root) {
    dt_json member;
    const char *file;
    size_t n_bytes;
    if (!dt_json_has(root, "constants")) return NULL;
    DT_TRY(dt_json_member(root, "constants", &member));
    DT_TRY(dt_artifact_read_summed_member(reader, &member, &file, &reader->artifact->constants, &n_bytes));
    reader->artifact->constant_bytes = (int64_t)n_bytes;
    return NULL;
}

dt_status *dt_artifact_read_locations(dt_artifact_reader *reader, const dt_json *root) {
    dt_json array;
    DT_TRY(dt_json_array(root, "locations", &array, &reader->artifact->n_locations));
    dt_artifact_location *locations = DT_NEW_ARRAY(reader->arena, dt_artifact_location, reader->artifact->n_locations);
    reader->artifact->locations = locations;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_location *location = &locations[item.index];
        DT_TRY(dt_artifact_read_name(reader, &item, "file", &location->file));
        DT_TRY(dt_json_integer(&item, "line", 0, INT_MAX, &location->line));
        DT_TRY(dt_json_integer(&item, "column", 0, INT_MAX, &location->column));
    }
    return NULL;
}

static dt_status *read_launch(const dt_json *item, dt_artifact_variable *variable) {
    dt_dtype dtype = variable->tensor.dtype;
    if (variable->tensor.n_dims != 0 || (dtype != DT_F32 && dtype != DT_I64 && dtype != DT_BOOL))
        return dt_json_wrong(item, "a launch value is an f32, i64 or bool, and has no dimensions");
    return dt_json_number(item, "default", &variable->launch_default);
}

dt_status *dt_artifact_read_variable_share(const dt_json *object, dt_artifact_variable *variable) {
    DT_TRY(dt_artifact_read_share(object, variable->bytes / (int64_t)dt_dtype_bytes(variable->tensor.dtype), &variable->share));
    if (variable->share.unit > 0 && variable->kind == DT_VARIABLE_LAUNCH) return dt_json_wrong(object, "launch values are not shared out");
    return NULL;
}

/* "shard": every shard has a part of each group. */
static dt_status *read_split(const dt_artifact *artifact, const dt_json *object, dt_artifact_variable *variable) {
    dt_json item;
    int64_t axis, groups;
    const dt_artifact_tensor *tensor = &variable->tensor;
    if (!dt_json_has(object, "shard")) return NULL;
    DT_TRY(dt_json_member(object, "shard", &item));
    DT_TRY(dt_json_integer(&item, "axis", 0, tensor->n_dims - 1, &axis));
    DT_TRY(dt_json_integer(&item, "groups", 1, INT_MAX, &groups));
    if (artifact->n_shards == 1) return dt_json_wrong(object, "%s is split, and the program has one shard", variable->path);
    if (variable->bytes == 0 || tensor->dims[axis] % groups != 0 || !dt_shards_all_have(tensor->dims[axis] / groups, artifact->n_shards))
        return dt_json_wrong(object, "dimension %" PRId64 " of %s is not %" PRId64 " equal groups, of each of which %d shards have a part", axis,
                             variable->path, groups, artifact->n_shards);
    variable->split = (dt_artifact_split){(int)axis, (int)groups};
    return NULL;
}

static dt_status *read_n_shards(const dt_json *root, dt_artifact *artifact) {
    int64_t n = 1;
    if (dt_json_has(root, "shards")) DT_TRY(dt_json_integer(root, "shards", 1, DT_MOST_SHARDS, &n));
    artifact->n_shards = (int)n;
    return dt_shards_are_valid(n) ? NULL : dt_json_wrong(root, "\"shards\": %" PRId64 " is no power of two", n);
}

static dt_status *read_variables(dt_artifact_reader *reader, const dt_json *root) {
    dt_artifact *artifact = reader->artifact;
    dt_json array;
    DT_TRY(dt_json_array(root, "variables", &array, &artifact->n_variables));
    dt_artifact_variable *variables = DT_NEW_ARRAY(reader->arena, dt_artifact_variable, artifact->n_variables);
    const char **paths = DT_NEW_ARRAY(reader->arena, const char *, artifact->n_variables);
    int64_t total = 0;
    artifact->variables = variables;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_variable *variable = &variables[item.index];
        int kind;
        DT_TRY(dt_artifact_read_name(reader, &item, "path", &variable->path));
        DT_TRY(dt_json_word(&item, "kind", dt_variable_kind_names(), DT_N_VARIABLE_KINDS, &kind));
        DT_TRY(dt_artifact_read_tensor(reader, &item, DT_ROWS_NEVER, &variable->tensor));
        if (dt_json_has(&item, "trainable")) DT_TRY(dt_json_bool(&item, "trainable", &variable->trainable));
        variable->kind = (dt_variable_kind)kind;
        variable->row_init = -1;
        variable->bytes = variable->tensor.row_bytes;
        paths[item.index] = variable->path;
        DT_TRY(dt_artifact_read_variable_share(&item, variable));
        DT_TRY(read_split(artifact, &item, variable));
        if (variable->kind == DT_VARIABLE_LAUNCH) DT_TRY(read_launch(&item, variable));
        if ((total += variable->bytes) > DT_MOST_BYTES) return dt_json_wrong(&item, "more elements than any memory holds");
        if (variable->kind != DT_VARIABLE_PARAMETER) continue;
        int64_t n_elements = variable->bytes / (int64_t)dt_dtype_bytes(variable->tensor.dtype);
        artifact->n_parameters += n_elements;
        if (variable->trainable) artifact->n_trainable += n_elements;
    }
    return check_unique(&array, paths, artifact->n_variables);
}

/* ---- functions ---- */

dt_status *dt_artifact_read_functions(dt_artifact_reader *reader, const dt_json *root) {
    dt_artifact *artifact = reader->artifact;
    dt_json array;
    DT_TRY(dt_json_array(root, "functions", &array, &artifact->n_functions));
    dt_artifact_function *functions = DT_NEW_ARRAY(reader->arena, dt_artifact_function, artifact->n_functions);
    const char **names = DT_NEW_ARRAY(reader->arena, const char *, artifact->n_functions);
    artifact->functions = functions;
    int n_init = 0;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_function *function = &functions[item.index];
        int role;
        DT_TRY(dt_artifact_read_name(reader, &item, "name", &function->name));
        DT_TRY(dt_json_word(&item, "kind", dt_function_role_names(), DT_N_FUNCTION_ROLES, &role));
        function->role = (dt_function_role)role;
        if (function->role == DT_ROLE_INIT && ++n_init > 1) return dt_json_wrong(&item, "a second init function");
        DT_TRY(dt_artifact_read_function(reader, &item, function));
        names[item.index] = function->name;
    }
    return check_unique(&array, names, artifact->n_functions);
}

dt_status *dt_artifact_read_function_name(const dt_artifact_reader *reader, const dt_json *object, const char *key, dt_function_role role,
                                          int *function) {
    const char *name;
    DT_TRY(dt_json_string(object, key, &name));
    *function = dt_artifact_find_function(reader->artifact, name);
    if (*function < 0 || reader->artifact->functions[*function].role != role)
        return dt_json_wrong(object, "\"%s\" names %.80s, which is no such function", key, name);
    return NULL;
}

/* ---- pipelines ---- */

static dt_status *read_argument(dt_artifact_reader *reader, const dt_json *item, dt_artifact_argument *argument) {
    if (dt_json_has(item, "name")) DT_TRY(dt_artifact_read_name(reader, item, "name", &argument->name));
    if (dt_json_has(item, "int")) {
        argument->kind = DT_ARGUMENT_INT;
        DT_TRY(dt_json_integer(item, "int", INT64_MIN, INT64_MAX, &argument->integer));
        argument->number = (double)argument->integer;
    } else if (dt_json_has(item, "float")) {
        argument->kind = DT_ARGUMENT_FLOAT;
        DT_TRY(dt_json_number(item, "float", &argument->number));
    } else if (dt_json_has(item, "function")) {
        argument->kind = DT_ARGUMENT_FUNCTION;
        DT_TRY(dt_artifact_read_name(reader, item, "function", &argument->string));
        DT_TRY(dt_artifact_read_function_name(reader, item, "function", DT_ROLE_EXAMPLE, &argument->function));
    } else {
        argument->kind = DT_ARGUMENT_STRING;
        DT_TRY(dt_json_string(item, "string", &argument->string));
        argument->string = dt_arena_string(reader->arena, argument->string);
    }
    return NULL;
}

static dt_status *read_stage(dt_artifact_reader *reader, const dt_json *item, dt_artifact_stage *stage) {
    dt_json array;
    DT_TRY(dt_artifact_read_name(reader, item, "kind", &stage->kind));
    if (dt_json_has(item, "line")) DT_TRY(dt_json_integer(item, "line", 0, INT_MAX, &stage->line));
    DT_TRY(dt_json_array(item, "arguments", &array, &stage->n_arguments));
    dt_artifact_argument *arguments = DT_NEW_ARRAY(reader->arena, dt_artifact_argument, stage->n_arguments);
    stage->arguments = arguments;
    for (dt_json argument = dt_json_first(&array); argument.value != NULL; dt_json_next(&argument))
        DT_TRY(read_argument(reader, &argument, &arguments[argument.index]));
    return NULL;
}

static dt_status *read_pipelines(dt_artifact_reader *reader, const dt_json *root) {
    dt_artifact *artifact = reader->artifact;
    dt_json array;
    DT_TRY(dt_json_array(root, "pipelines", &array, &artifact->n_pipelines));
    dt_artifact_pipeline *pipelines = DT_NEW_ARRAY(reader->arena, dt_artifact_pipeline, artifact->n_pipelines);
    const char **names = DT_NEW_ARRAY(reader->arena, const char *, artifact->n_pipelines);
    artifact->pipelines = pipelines;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_pipeline *pipeline = &pipelines[item.index];
        dt_json stages;
        DT_TRY(dt_artifact_read_name(reader, &item, "name", &pipeline->name));
        DT_TRY(dt_json_array(&item, "stages", &stages, &pipeline->n_stages));
        if (pipeline->n_stages == 0) return dt_json_wrong(&stages, "a pipeline starts with a source, this one is empty");
        dt_artifact_stage *copy = DT_NEW_ARRAY(reader->arena, dt_artifact_stage, pipeline->n_stages);
        pipeline->stages = copy;
        for (dt_json stage = dt_json_first(&stages); stage.value != NULL; dt_json_next(&stage))
            DT_TRY(read_stage(reader, &stage, &copy[stage.index]));
        names[item.index] = pipeline->name;
    }
    return check_unique(&array, names, artifact->n_pipelines);
}

/* ---- steps ---- */

enum {
    MOST_NUMBERS = 1 << 30 /* of the aggregates of a step, and of its reports */
};

static bool is_fixed(const dt_artifact_tensor *tensor) { return !tensor->has_rows && !tensor->has_all_rows; }

static bool is_fixed_f64(const dt_artifact_tensor *tensor) { return tensor->dtype == DT_F64 && is_fixed(tensor); }

static int64_t n_numbers(const dt_artifact_tensor *tensor) { return tensor->row_bytes / (int64_t)dt_dtype_bytes(tensor->dtype); }

/* The report function takes a float64 tensor an aggregate, of its shape, and gives one a report. */
static dt_status *check_report(dt_artifact_reader *reader, const dt_json *item, dt_artifact_step *step) {
    const dt_artifact_function *report = &reader->artifact->functions[step->report];
    const dt_artifact_result *aggregates = reader->artifact->functions[step->function].results;
    bool fits = report->n_inputs == step->n_aggregates && report->n_results == step->n_reports;
    for (int i = 0; fits && i < report->n_inputs; i++)
        fits = is_fixed_f64(&report->inputs[i]) && n_numbers(&report->inputs[i]) == n_numbers(&aggregates[i].tensor);
    for (int i = 0; fits && i < report->n_results; i++) fits = is_fixed_f64(&report->results[i].tensor);
    if (!fits) return dt_json_wrong(item, "%s does not take the step's aggregates and give its reports", report->name);
    int64_t *starts = DT_NEW_ARRAY(reader->arena, int64_t, step->n_reports + 1);
    for (int i = 0; i < step->n_reports; i++) {
        starts[i + 1] = starts[i] + n_numbers(&report->results[i].tensor);
        if (starts[i + 1] > MOST_NUMBERS) return dt_json_wrong(item, "%s gives too many numbers", report->name);
    }
    step->report_starts = starts;
    return NULL;
}

static dt_status *read_aggregates(dt_artifact_reader *reader, const dt_json *item, dt_artifact_step *step) {
    const dt_artifact_function *function = &reader->artifact->functions[step->function];
    dt_json array;
    DT_TRY(dt_json_array(item, "aggregates", &array, &step->n_aggregates));
    if (step->n_aggregates > function->n_results)
        return dt_json_wrong(&array, "%d aggregates, but %s has %d results", step->n_aggregates, function->name, function->n_results);
    dt_aggregate_kind *aggregates = DT_NEW_ARRAY(reader->arena, dt_aggregate_kind, step->n_aggregates);
    int64_t *starts = DT_NEW_ARRAY(reader->arena, int64_t, step->n_aggregates + 1);
    step->aggregates = aggregates;
    step->aggregate_starts = starts;
    for (dt_json kind = dt_json_first(&array); kind.value != NULL; dt_json_next(&kind)) {
        int choice;
        DT_TRY(dt_json_as_word(&kind, dt_aggregate_names(), DT_N_AGGREGATES, &choice));
        aggregates[kind.index] = (dt_aggregate_kind)choice;
        const dt_artifact_result *result = &function->results[kind.index];
        if (!is_fixed(&result->tensor)) return dt_json_wrong(&kind, "result %d of %s is of the batch", kind.index, function->name);
        starts[kind.index + 1] = starts[kind.index] + n_numbers(&result->tensor);
        if (starts[kind.index + 1] > MOST_NUMBERS) return dt_json_wrong(&kind, "%s has too many totals", function->name);
    }
    return NULL;
}

static dt_status *read_reports(dt_artifact_reader *reader, const dt_json *item, dt_artifact_step *step) {
    dt_json array;
    DT_TRY(dt_json_array(item, "reports", &array, &step->n_reports));
    const char **reports = DT_NEW_ARRAY(reader->arena, const char *, step->n_reports);
    step->reports = reports;
    for (dt_json name = dt_json_first(&array); name.value != NULL; dt_json_next(&name)) {
        const char *string;
        DT_TRY(dt_json_as_string(&name, &string));
        reports[name.index] = dt_arena_string(reader->arena, string);
    }
    step->report = -1;
    step->report_starts = DT_NEW_ARRAY(reader->arena, int64_t, 1);
    if (!dt_json_has(item, "report")) return step->n_reports == 0 ? NULL : dt_json_wrong(item, "reports, but no report function");
    DT_TRY(dt_artifact_read_function_name(reader, item, "report", DT_ROLE_REPORT, &step->report));
    return check_report(reader, item, step);
}

static dt_status *read_steps(dt_artifact_reader *reader, const dt_json *root) {
    dt_artifact *artifact = reader->artifact;
    dt_json array;
    DT_TRY(dt_json_array(root, "steps", &array, &artifact->n_steps));
    dt_artifact_step *steps = DT_NEW_ARRAY(reader->arena, dt_artifact_step, artifact->n_steps);
    const char **names = DT_NEW_ARRAY(reader->arena, const char *, artifact->n_steps);
    artifact->steps = steps;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_step *step = &steps[item.index];
        DT_TRY(dt_artifact_read_name(reader, &item, "name", &step->name));
        DT_TRY(dt_artifact_read_function_name(reader, &item, "function", DT_ROLE_STEP, &step->function));
        DT_TRY(read_aggregates(reader, &item, step));
        DT_TRY(read_reports(reader, &item, step));
        DT_TRY(dt_json_bool(&item, "trains", &step->trains));
        step->n_trained = step->trains ? artifact->n_trainable : 0;
        if (dt_json_has(&item, "trained")) DT_TRY(dt_json_integer(&item, "trained", 0, artifact->n_parameters, &step->n_trained));
        if (dt_json_has(&item, "every")) DT_TRY(dt_json_integer(&item, "every", 1, INT32_MAX, &step->every));
        step->pipeline = -1;
        if (dt_json_has(&item, "data")) {
            const char *name;
            DT_TRY(dt_json_string(&item, "data", &name));
            step->pipeline = dt_artifact_find_pipeline(artifact, name);
            if (step->pipeline < 0) return dt_json_wrong(&item, "\"data\" names the pipeline %.80s, which is not there", name);
        }
        names[item.index] = step->name;
    }
    return check_unique(&array, names, artifact->n_steps);
}

/* ---- the whole ---- */

static dt_status *read_hash(dt_artifact_reader *reader, const dt_json *root, const char *key, const char **hash) {
    DT_TRY(dt_artifact_read_name(reader, root, key, hash));
    if (strlen(*hash) != 16 || strspn(*hash, "0123456789abcdef") != 16) return dt_json_wrong(root, "\"%s\" is not 16 hexadecimal digits", key);
    return NULL;
}

dt_status *dt_artifact_read_flags(dt_artifact_reader *reader, const dt_json *root) {
    dt_json array;
    DT_TRY(dt_json_array(root, "flags", &array, &reader->artifact->n_flags));
    const char **flags = DT_NEW_ARRAY(reader->arena, const char *, reader->artifact->n_flags);
    reader->artifact->flags = flags;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        const char *flag;
        DT_TRY(dt_json_as_string(&item, &flag));
        flags[item.index] = dt_arena_string(reader->arena, flag);
    }
    return NULL;
}

dt_status *dt_artifact_read_manifest(dt_artifact_reader *reader, const dt_json *root) {
    dt_artifact *artifact = reader->artifact;
    DT_TRY(dt_artifact_read_name(reader, root, "name", &artifact->name));
    DT_TRY(dt_artifact_read_name(reader, root, "compiler", &artifact->compiler));
    DT_TRY(read_optional_string(reader, root, "llvm", "", &artifact->llvm));
    DT_TRY(dt_artifact_read_flags(reader, root));
    DT_TRY(read_hash(reader, root, "source_hash", &artifact->source_hash));
    DT_TRY(read_hash(reader, root, "program_hash", &artifact->program_hash));
    DT_TRY(dt_json_integer(root, "capacity", 1, INT_MAX, &artifact->capacity));
    DT_TRY(dt_json_integer(root, "microbatch_rows", 1, artifact->capacity, &artifact->microbatch_rows));
    DT_TRY(read_n_shards(root, artifact));
    DT_TRY(read_objects(reader, root));
    DT_TRY(check_texts(reader, root));
    DT_TRY(read_constants(reader, root));
    DT_TRY(dt_artifact_read_locations(reader, root));
    DT_TRY(read_variables(reader, root));
    DT_TRY(dt_artifact_read_functions(reader, root));
    DT_TRY(read_pipelines(reader, root));
    DT_TRY(read_steps(reader, root));
    DT_TRY(dt_artifact_read_rows(reader, root));
    return dt_json_has(root, "cuda") ? dt_artifact_read_cuda(reader, root) : NULL;
}
