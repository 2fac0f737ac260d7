/* conformance FOLDER best|all: ops on given operands, by the interpreter and by compiled code, with first and second gradients; what
 * tests/ops/conformance.py compares.
 *
 * A line of standard input is a case: "ID case n", as in op_cases.h, on n sets of operands, or "ID case n gradients". Neighbouring cases with ids
 * "OP.…" are compiled together. Elements are raw files in FOLDER, the sets of one operand after the other:
 *
 *   ID.x0 …           read: the operands
 *   ID.w, ID.v0 …     read, for gradients: what the result is weighed with, and what the gradient of each operand is
 *   ID.WAY.y          written: the result. WAY is "interpreter" or the level of the compiled code
 *   ID.WAY.g0 …       gradients of sum(w * result) with respect to each float operand
 *   ID.WAY.h0 …       gradients of the sum of sum(v * g) over all operands
 *
 * Written is a line "ID WAY ok", or the error. best: the level that runs on this machine; all: every one that it has. */
#include "compiler/pipeline.h"
#include "tests/support/compiled.h"
#include "tests/support/op_cases.h"

#include <stdio.h>

enum {
    MOST_OPERANDS = 8
};

typedef struct line {
    const char *id, *text;
    int n_sets;
    bool has_gradients;
    int n_inputs, n_results;
    const char *inputs[2 * MOST_OPERANDS + 1], *results[2 * MOST_OPERANDS + 1]; /* suffixes of files */
} line;

typedef struct group {
    dt_arena *arena;
    const char *folder;
    DT_LIST(line *) lines;
} group;

static dt_status *add_weighed(dt_builder *builder, dt_value *weight, dt_value *value, dt_value **sum) {
    dt_value *product, *part;
    int64_t axes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    DT_TRY(dt_build_binary(builder, &product, "multiply", weight, value));
    DT_TRY(dt_build_reduce(builder, &part, "reduce_sum", product, axes, product->shape.rank, false));
    if (*sum == NULL)
        *sum = part;
    else
        DT_TRY(dt_build_binary(builder, sum, "add", *sum, part));
    return NULL;
}

static dt_value *add_input(dt_function *function, line *line, const char *name, const dt_value *like) {
    line->inputs[line->n_inputs++] = name;
    return dt_build_input(function, name, like->dtype, like->shape, (dt_location){0});
}

static void add_result(dt_function *function, line *line, const char *name, dt_value *value) {
    line->results[line->n_results++] = name;
    dt_list_push(function->module->arena, &function->results, ((dt_result){name, value}));
}

static dt_status *add_gradients(dt_function *function, line *line, const dt_value *value) {
    dt_arena *arena = function->module->arena;
    dt_builder builder = {.function = function};
    dt_value *first = NULL, *second = NULL, *gradients[MOST_OPERANDS] = {NULL};
    DT_TRY(add_weighed(&builder, add_input(function, line, "w", value), (dt_value *)value, &first));
    for (int k = 0; k < value->n_operands; k++) {
        if (!dt_dtype_is_float(value->operands[k]->dtype)) continue;
        DT_TRY(dt_build_binary(&builder, &gradients[k], "gradient", first, value->operands[k]));
        add_result(function, line, dt_arena_format(arena, "g%d", k), gradients[k]);
        DT_TRY(add_weighed(&builder, add_input(function, line, dt_arena_format(arena, "v%d", k), gradients[k]), gradients[k], &second));
    }
    for (int k = 0; k < value->n_operands; k++) {
        dt_value *gradient;
        if (gradients[k] == NULL) continue;
        DT_TRY(dt_build_binary(&builder, &gradient, "gradient", second, value->operands[k]));
        add_result(function, line, dt_arena_format(arena, "h%d", k), gradient);
    }
    return NULL;
}

/* A function for each line, in its order. */
static dt_status *build(const group *group, dt_module **module) {
    *module = dt_module_create(group->arena, "conformance");
    (*module)->capacity = 1;
    dt_list_push(group->arena, &(*module)->files, "conformance.dt");
    for (size_t i = 0; i < group->lines.n; i++) {
        line *line = group->lines.items[i];
        dt_value *value;
        dt_function *function = dt_module_add_function(*module, dt_arena_format(group->arena, "case%zu", i), DT_ROLE_STEP);
        DT_TRY(op_case_build(function, line->text, NULL, NULL, &value));
        line->n_inputs = line->n_results = 0;
        for (int k = 0; k < value->n_operands; k++) line->inputs[line->n_inputs++] = dt_arena_format(group->arena, "x%d", k);
        add_result(function, line, "y", value);
        if (line->has_gradients) DT_TRY(add_gradients(function, line, value));
    }
    return NULL;
}

static FILE *open_file(const group *group, const line *line, const char *way, const char *suffix, const char *mode) {
    const char *path = dt_arena_format(group->arena, "%s/%s.%s%s%s", group->folder, line->id, way, *way != 0 ? "." : "", suffix);
    FILE *file = fopen(path, mode);
    if (file == NULL) {
        fprintf(stderr, "conformance: cannot open %s\n", path);
        exit(1);
    }
    return file;
}

/* All sets of a line in one way: `code` is NULL for the interpreter, whose `function` it is; else the plan runs. */
static dt_status *run_line(const group *group, const line *line, const char *way, const dt_function *function, const dt_plan *plan,
                           compiled_code *code) {
    FILE *inputs[2 * MOST_OPERANDS + 1], *results[2 * MOST_OPERANDS + 1];
    for (int k = 0; k < line->n_inputs; k++) inputs[k] = open_file(group, line, "", line->inputs[k], "rb");
    for (int k = 0; k < line->n_results; k++) results[k] = open_file(group, line, way, line->results[k], "wb");
    dt_status *status = NULL;
    for (int set = 0; set < line->n_sets && status == NULL; set++) {
        dt_tensor given[2 * MOST_OPERANDS + 1], got[2 * MOST_OPERANDS + 1];
        dt_bad_index bad = {0};
        dt_launch launch = {
            .rows = 1, .valid = 1, .global_batch = 1, .replicas = 1, .epochs = 2, .steps_per_epoch = 7, .counter = 11, .seed = 5, .bad_index = &bad};
        for (int k = 0; k < line->n_inputs; k++) {
            const dt_value *input = function->inputs.items[k];
            given[k] = dt_tensor_make(group->arena, input->dtype, input->shape);
            if (fread(given[k].data, 1, dt_tensor_bytes(&given[k]), inputs[k]) != dt_tensor_bytes(&given[k]))
                status = dt_status_first(status, dt_error(DT_DATA_LOSS, "%s.%s is too short", line->id, line->inputs[k]));
        }
        if (status == NULL && code == NULL) status = dt_interpret(group->arena, function, &launch, given, NULL, got);
        if (status == NULL && code != NULL) {
            dt_plan_run run = {plan, compiled_run, code, 1, &launch, given, NULL, got};
            status = dt_plan_execute(group->arena, &run);
        }
        for (int k = 0; k < line->n_results && status == NULL; k++)
            if (fwrite(got[k].data, 1, dt_tensor_bytes(&got[k]), results[k]) != dt_tensor_bytes(&got[k]))
                status = dt_error(DT_RESOURCE_EXHAUSTED, "%s.%s cannot be written", line->id, line->results[k]);
    }
    for (int k = 0; k < line->n_inputs; k++) fclose(inputs[k]);
    for (int k = 0; k < line->n_results; k++) fclose(results[k]);
    return status;
}

static void say(const line *line, const char *way, dt_status *status) {
    printf("%s %s %s\n", line->id, way, status != NULL ? dt_status_message(status) : "ok");
    dt_status_free(status);
}

static dt_status *run_group(const group *group, const char *const *levels, int n_levels) {
    dt_module *module, *graph;
    DT_TRY(build(group, &graph));
    dt_compilation interpreted = {.arena = group->arena, .module = graph};
    DT_TRY(dt_passes_run(&interpreted, &(dt_passes_options){.stop_after = "autodiff"}));
    for (size_t i = 0; i < group->lines.n; i++)
        say(group->lines.items[i], "interpreter", run_line(group, group->lines.items[i], "interpreter", graph->functions.items[i], NULL, NULL));
    DT_TRY(build(group, &module));
    dt_compilation compilation = {.arena = group->arena, .module = module};
    DT_TRY(dt_passes_run(&compilation, &(dt_passes_options){0}));
    compiled_code codes[COMPILED_MOST_LEVELS] = {0};
    dt_status *status = compiled_make(&compilation, levels, n_levels, codes);
    for (int level = 0; level < n_levels && status == NULL; level++)
        for (size_t i = 0; i < group->lines.n; i++)
            say(group->lines.items[i], levels[level],
                run_line(group, group->lines.items[i], levels[level], graph->functions.items[i], compilation.plans[i], &codes[level]));
    compiled_free(codes, n_levels);
    return status;
}

/* The next case of standard input, NULL at its end. */
static line *read_line(dt_arena *arena) {
    char text[4096], gradients[16] = "", *at;
    if (fgets(text, sizeof text, stdin) == NULL) return NULL;
    char *id = strtok_r(text, "\t\n", &at), *op_case = strtok_r(NULL, "\t\n", &at), *rest = strtok_r(NULL, "\n", &at);
    line *line = DT_NEW(arena, struct line);
    if (rest == NULL || sscanf(rest, "%d %15s", &line->n_sets, gradients) < 1) {
        fprintf(stderr, "conformance: a line is \"ID<tab>case<tab>n gradients\"\n");
        exit(2);
    }
    line->id = dt_arena_string(arena, id), line->text = dt_arena_string(arena, op_case), line->has_gradients = gradients[0] != 0;
    return line;
}

int main(int argc, char **argv) {
    if (argc != 3 || (strcmp(argv[2], "best") != 0 && strcmp(argv[2], "all") != 0)) return fputs("usage: conformance FOLDER best|all\n", stderr), 2;
    const char *levels[COMPILED_MOST_LEVELS];
    int n_levels = compiled_levels(levels);
    bool best = strcmp(argv[2], "best") == 0;
    dt_arena *arena = dt_arena_create();
    line *next = read_line(arena);
    while (next != NULL) {
        group group = {.arena = dt_arena_create(), .folder = argv[1]};
        size_t length = strcspn(next->id, ".") + 1;
        const line *first = next;
        for (; next != NULL && strncmp(next->id, first->id, length) == 0; next = read_line(arena)) dt_list_push(group.arena, &group.lines, next);
        dt_status *status = run_group(&group, best && n_levels > 0 ? &levels[n_levels - 1] : levels, best && n_levels > 1 ? 1 : n_levels);
        for (size_t i = 0; i < group.lines.n && status != NULL; i++) printf("%s compiling %s\n", group.lines.items[i]->id, dt_status_message(status));
        dt_status_free(status);
        dt_arena_destroy(group.arena);
    }
    dt_arena_destroy(arena);
    return 0;
}
