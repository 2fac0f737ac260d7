/* artifact_cuda: what an artifact holds for GPUs: modules, the function that reduces over replicas, and the program's functions with other plans. See
 * artifact.h.
 *
 * The plans are read into a copy of the artifact, by the reader of plans, so that whoever runs them finds everything where it is for processors. */
#include "runtime/artifact/artifact_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_UNITS = 1 << 16,
    MOST_THREADS = 1024 /* of a block */
};

/* ---- modules ---- */

/* sm_90, sm_90a, compute_100 */
static bool parse_architecture(dt_artifact_module *module) {
    const char *name = module->architecture;
    module->is_ptx = strncmp(name, "compute_", 8) == 0;
    const char *digits = module->is_ptx ? name + 8 : strncmp(name, "sm_", 3) == 0 ? name + 3 : "";
    size_t n_digits = strspn(digits, "0123456789");
    if (n_digits < 2 || n_digits > 3) return false;
    int number = atoi(digits);
    module->major = number / 10;
    module->minor = number % 10;
    module->suffix = digits[n_digits];
    return module->suffix == 0 || ((module->suffix == 'a' || module->suffix == 'f') && digits[n_digits + 1] == 0);
}

static dt_status *read_modules(dt_artifact_reader *reader, const dt_json *object, dt_artifact_cuda *cuda) {
    dt_json array;
    DT_TRY(dt_json_array(object, "modules", &array, &cuda->n_modules));
    dt_artifact_module *modules = DT_NEW_ARRAY(reader->arena, dt_artifact_module, cuda->n_modules);
    cuda->modules = modules;
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        dt_artifact_module *module = &modules[item.index];
        const void *bytes;
        int64_t unit;
        DT_TRY(dt_artifact_read_name(reader, &item, "architecture", &module->architecture));
        if (!parse_architecture(module)) return dt_json_wrong(&item, "\"%.40s\" is no architecture", module->architecture);
        DT_TRY(dt_json_integer(&item, "unit", 0, MOST_UNITS - 1, &unit));
        DT_TRY(dt_artifact_read_summed_member(reader, &item, &module->file, &bytes, &module->n_bytes));
        module->unit = (int)unit;
        module->bytes = bytes;
        if (module->unit >= cuda->n_units) cuda->n_units = module->unit + 1;
    }
    return cuda->n_modules > 0 ? NULL : dt_json_wrong(&array, "there is none");
}

/* Each architecture has each unit, once. */
static dt_status *check_units(dt_artifact_reader *reader, const dt_json *object, const dt_artifact_cuda *cuda) {
    int *n_found = DT_NEW_ARRAY(reader->arena, int, cuda->n_units);
    for (int a = 0; a < cuda->n_modules; a++) {
        const char *architecture = cuda->modules[a].architecture;
        memset(n_found, 0, (size_t)cuda->n_units * sizeof *n_found);
        for (int m = 0; m < cuda->n_modules; m++)
            if (strcmp(cuda->modules[m].architecture, architecture) == 0) n_found[cuda->modules[m].unit]++;
        for (int u = 0; u < cuda->n_units; u++)
            if (n_found[u] != 1) return dt_json_wrong(object, "%d modules for unit %d of %s", n_found[u], u, architecture);
    }
    return NULL;
}

/* ---- launches ---- */

static dt_status *read_function(dt_artifact_reader *reader, const dt_json *item, int n_units, dt_artifact_launch *launch) {
    int64_t unit, threads;
    DT_TRY(dt_artifact_read_name(reader, item, "function", &launch->function));
    DT_TRY(dt_json_integer(item, "unit", 0, n_units - 1, &unit));
    DT_TRY(dt_json_integer(item, "threads", 1, MOST_THREADS, &threads));
    launch->unit = (int)unit;
    launch->threads = (int)threads;
    launch->team = 1;
    return NULL;
}

static dt_status *read_if_there(dt_artifact_reader *reader, const dt_json *object, const char *key, int n_units, dt_artifact_launch *launch) {
    dt_json item;
    if (!dt_json_has(object, key)) return NULL;
    DT_TRY(dt_json_member(object, key, &item));
    return read_function(reader, &item, n_units, launch);
}

dt_status *dt_artifact_read_launches(dt_artifact_reader *reader, const dt_json *item, const dt_artifact_function *function,
                                     dt_artifact_kernel *kernel) {
    dt_json array;
    DT_TRY(dt_json_array(item, "calls", &array, &kernel->n_launches));
    dt_artifact_launch *launches = DT_NEW_ARRAY(reader->arena, dt_artifact_launch, kernel->n_launches);
    kernel->launches = launches;
    for (dt_json call = dt_json_first(&array); call.value != NULL; dt_json_next(&call)) {
        dt_artifact_launch *launch = &launches[call.index];
        int64_t team;
        DT_TRY(read_function(reader, &call, reader->cuda->n_units, launch));
        DT_TRY(dt_json_integer(&call, "team", 1, launch->threads, &team));
        DT_TRY(dt_json_integer(&call, "items", 0, DT_MOST_BYTES, &launch->n_items));
        DT_TRY(dt_artifact_read_indices(reader, &call, "arguments", kernel->n_buffers, &launch->n_arguments, &launch->arguments));
        launch->team = (int)team;
        DT_TRY(dt_artifact_read_library(reader, &call, function, kernel, &launch->library));
    }
    return dt_artifact_check_libraries(&array, kernel);
}

/* ---- the program ---- */

static bool same_tensor(const dt_artifact_tensor *a, const dt_artifact_tensor *b) {
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->n_dims == b->n_dims &&
           memcmp(a->dims, b->dims, (size_t)a->n_dims * sizeof *a->dims) == 0;
}

/* What steps, checkpoints and pipelines know of a function is the same in both programs. */
static bool same_border(const dt_artifact_function *a, const dt_artifact_function *b) {
    bool same = strcmp(a->name, b->name) == 0 && a->role == b->role && a->n_inputs == b->n_inputs && a->n_results == b->n_results;
    for (int i = 0; same && i < a->n_inputs; i++) same = same_tensor(&a->inputs[i], &b->inputs[i]);
    for (int i = 0; same && i < a->n_results; i++) same = same_tensor(&a->results[i].tensor, &b->results[i].tensor);
    return same;
}

/* The same variables, shared out as the plans for GPUs can do it. */
static dt_status *read_variable_shares(dt_artifact_reader *reader, const dt_json *object) {
    dt_artifact *program = reader->artifact;
    dt_artifact_variable *variables = dt_arena_copy(reader->arena, program->variables, (size_t)program->n_variables * sizeof *program->variables);
    dt_json array;
    int n;
    for (int v = 0; v < program->n_variables; v++) variables[v].share = (dt_share){0};
    program->variables = variables;
    if (!dt_json_has(object, "shares")) return NULL;
    DT_TRY(dt_json_array(object, "shares", &array, &n));
    for (dt_json item = dt_json_first(&array); item.value != NULL; dt_json_next(&item)) {
        int64_t v;
        DT_TRY(dt_json_integer(&item, "variable", 0, program->n_variables - 1, &v));
        DT_TRY(dt_artifact_read_variable_share(&item, &variables[v]));
    }
    return NULL;
}

static dt_status *read_program(dt_artifact_reader *reader, const dt_json *object, dt_artifact_cuda *cuda) {
    dt_artifact *all = reader->artifact, *program = DT_NEW(reader->arena, dt_artifact);
    *program = *all;
    program->microbatch_rows = all->capacity;
    cuda->program = program;
    reader->artifact = program;
    reader->cuda = cuda;
    dt_status *status = dt_artifact_read_locations(reader, object);
    if (status == NULL) status = read_variable_shares(reader, object);
    if (status == NULL) status = dt_artifact_read_functions(reader, object);
    reader->artifact = all;
    reader->cuda = NULL;
    DT_TRY(status);
    if (program->n_functions != all->n_functions) return dt_json_wrong(object, "not the functions that there are for processors");
    for (int f = 0; f < all->n_functions; f++)
        if (!same_border(&program->functions[f], &all->functions[f]))
            return dt_json_wrong(object, "%s is not what it is for processors", program->functions[f].name);
    return NULL;
}

dt_status *dt_artifact_read_cuda(dt_artifact_reader *reader, const dt_json *root) {
    dt_artifact_cuda *cuda = DT_NEW(reader->arena, dt_artifact_cuda);
    dt_json object, reduction;
    DT_TRY(dt_json_member(root, "cuda", &object));
    DT_TRY(dt_artifact_read_name(reader, &object, "compiler", &cuda->compiler));
    DT_TRY(read_modules(reader, &object, cuda));
    DT_TRY(check_units(reader, &object, cuda));
    DT_TRY(dt_json_member(&object, "reduction", &reduction));
    DT_TRY(read_function(reader, &reduction, cuda->n_units, &cuda->reduction));
    DT_TRY(read_if_there(reader, &object, "clear_rows", cuda->n_units, &cuda->clear_rows));
    DT_TRY(read_if_there(reader, &object, "transpose", cuda->n_units, &cuda->transpose));
    DT_TRY(read_program(reader, &object, cuda));
    reader->artifact->cuda = cuda;
    return NULL;
}
