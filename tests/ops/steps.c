/* steps: random training steps through the whole pipeline. A graph of 10 to 40 ops of the table, its loss differentiated, its variables updated; then
 * the same step three ways, with 1 and 3 replicas, full and short batches, replicas and whole batches without a row:
 *
 *     the interpreter on the partitioned function, with replicas        (is partition right?)
 *     its plan, one element at a time                                   (are fusion, schedule and memory right?)
 *     its plan as code of each level of this machine                    (is the code right?)
 *
 * against the interpreter on the function as written, over the global batch; odd seeds in f32, even ones in f64. How much an element may differ
 * follows from how it answers to inputs that are changed a little. STEPS_SEED=n runs one seed and shows it where it fails, STEPS_COUNT=n that many.
 */
#include "compiler/pipeline.h"
#include "ir/text_form.h"
#include "tests/support/compiled.h"
#include "tests/support/random_graph.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum {
    MOST_REPLICAS = 3,
    SEEDS = 40
};

/* One step, as written (but differentiated) and as compiled. */
typedef struct subject {
    dt_arena *arena;
    uint64_t seed;
    dt_dtype real; /* of inputs and variables */
    dt_module *graph;
    dt_compilation compilation;
    compiled_code codes[COMPILED_MOST_LEVELS];
    int n_levels;
    random_source source;
} subject;

/* What one run gives; results of replica r: results[r * n_results + i]. */
typedef struct outcome {
    dt_tensor *results;
    dt_memory memory;
    dt_bad_index bad[MOST_REPLICAS];
} outcome;

typedef struct totals {
    int n_runs, n_refused;
    long n_elements, n_finite, n_loose;
} totals;

static void succeed(const subject *s, const char *what, dt_status *status) {
    if (status != NULL) fail_msg("STEPS_SEED=%" PRIu64 ", %s: %s", s->seed, what, dt_status_message(status));
}

/* ---- random steps ---- */

/* Half of the ops are elementwise rows of the table, half of the forms of random_graph.h. Random numbers, which are f32, go on as the step's type. */
static void add_ops(random_graph *graph, random_source *source, int n_ops) {
    int end = graph->n + n_ops;
    for (int attempts = 0; graph->n < end && attempts < 200 * n_ops; attempts++) {
        const op_form *form = &random_forms[random_below(source, sizeof random_forms / sizeof *random_forms)];
        const dt_op *op = dt_op_at(random_below(source, (uint32_t)dt_n_ops));
        bool elementwise = random_below(source, 2) == 0;
        if (elementwise && (op->class != DT_CLASS_MAP || op->n_attributes > 0)) continue;
        if (!random_graph_add(graph, source, elementwise ? op : dt_op_find(form->op), elementwise ? "" : form->attributes)) continue;
        dt_value **last = &graph->values[graph->n - 1];
        if ((*last)->dtype == DT_F32) dt_status_free(dt_build_convert(&graph->builder, last, *last, graph->real));
    }
}

/* loss + sum(tanh(value)) / global_batch */
static dt_status *add_to_loss(random_graph *graph, dt_value *value, dt_value **loss) {
    const char *const names[] = {"x", "rows", "loss"};
    dt_value *term, *rows;
    int64_t axes[8];
    for (int d = 0; d < value->shape.rank; d++) axes[d] = d;
    DT_TRY(dt_build_unary(&graph->builder, &term, "tanh", value));
    DT_TRY(dt_build_reduce(&graph->builder, &term, "reduce_sum", term, axes, value->shape.rank, false));
    DT_TRY(dt_build_text(&graph->builder, &rows, "launch", NULL, 0, "name=\"global_batch\""));
    DT_TRY(dt_build_convert(&graph->builder, &rows, rows, graph->real));
    return dt_build_expression(&graph->builder, loss, "loss + x / rows", names, (dt_value *[]){term, rows, *loss}, 3);
}

static void add_result(random_graph *graph, const char *name, dt_value *value) {
    if (dt_shape_batch_axis(value->shape) > 0) return; /* a step returns rows */
    dt_list_push(graph->function->module->arena, &graph->function->results, ((dt_result){name, value}));
}

/* The loss of all that nothing uses, its gradients to inputs and variables, and the variables' next values. */
static dt_status *add_training(random_graph *graph, random_source *source) {
    dt_arena *arena = graph->function->module->arena;
    dt_value *loss, *gradient, *next, *write;
    bool *used = random_graph_used(graph);
    int n = graph->n;
    DT_TRY(dt_build_constant(&graph->builder, &loss, graph->real, 0, dt_shape_scalar()));
    for (int i = 0; i < n; i++)
        if (graph->values[i]->dtype == graph->real && !used[graph->values[i]->id]) DT_TRY(add_to_loss(graph, graph->values[i], &loss));
    add_result(graph, "loss", loss);
    for (int i = 0; i < n; i++)
        if (!used[graph->values[i]->id] || random_below(source, 6) == 0) add_result(graph, dt_arena_format(arena, "r%d", i), graph->values[i]);
    for (int i = 0; i < graph->n_inputs + (int)graph->function->module->variables.n; i++) {
        dt_value *x = graph->values[i];
        if (x->dtype != graph->real) continue;
        DT_TRY(dt_build_binary(&graph->builder, &gradient, "gradient", loss, x));
        if (i < graph->n_inputs) {
            add_result(graph, dt_arena_format(arena, "g%d", i), gradient);
            continue;
        }
        const char *const names[] = {"w", "g"};
        DT_TRY(dt_build_expression(&graph->builder, &next, "w - 0.125 * g", names, (dt_value *[]){x, gradient}, 2));
        DT_TRY(dt_build_text(&graph->builder, &write, "write", &next, 1, "variable=\"w%d\"", i - graph->n_inputs));
    }
    return NULL;
}

static dt_module *random_step(const subject *s, random_source *source) {
    dt_location location = {0, 1, 1};
    random_graph graph = random_graph_begin(s->arena, &location, s->real);
    add_ops(&graph, source, 10 + (int)random_below(source, 31));
    succeed(s, "building", add_training(&graph, source));
    return graph.function->module;
}

/* ---- running ---- */

/* Replica r holds rows r * CAPACITY and on, as many as are valid. */
static void set_launches(int n_replicas, int64_t valid, dt_launch *launches, outcome *o) {
    for (int r = 0; r < n_replicas; r++) {
        int64_t offset = (int64_t)r * RANDOM_CAPACITY, rows = valid - offset;
        rows = rows < 0 ? 0 : rows > RANDOM_CAPACITY ? RANDOM_CAPACITY : rows;
        launches[r] = (dt_launch){.rows = rows,
                                  .row_offset = offset,
                                  .valid = valid,
                                  .global_batch = (int64_t)n_replicas * RANDOM_CAPACITY,
                                  .replicas = n_replicas,
                                  .epochs = 3,
                                  .steps_per_epoch = 5,
                                  .counter = 6,
                                  .seed = 7,
                                  .bad_index = &o->bad[r]};
    }
}

/* The rows of each replica, of inputs over the global batch. */
static dt_tensor *deal(const subject *s, const dt_tensor *inputs, int n_replicas, const dt_launch *launches) {
    size_t n = s->graph->functions.items[0]->inputs.n;
    dt_tensor *dealt = DT_NEW_ARRAY(s->arena, dt_tensor, n * (size_t)n_replicas);
    for (int r = 0; r < n_replicas; r++)
        for (size_t i = 0; i < n; i++) {
            int64_t dims[8];
            memcpy(dims, inputs[i].shape.dims, (size_t)inputs[i].shape.rank * sizeof *dims);
            size_t row = dims[0] == 0 ? 0 : dt_tensor_bytes(&inputs[i]) / (size_t)dims[0];
            dims[0] = launches[r].rows;
            dt_tensor *part = &dealt[(size_t)r * n + i];
            *part = dt_tensor_make(s->arena, inputs[i].dtype, (dt_shape){inputs[i].shape.rank, dims});
            if (dims[0] > 0) memcpy(part->data, (char *)inputs[i].data + (size_t)launches[r].row_offset * row, dt_tensor_bytes(part));
        }
    return dealt;
}

static outcome begin(const subject *s, const dt_tensor *variables, int n_replicas) {
    outcome o = {.results = DT_NEW_ARRAY(s->arena, dt_tensor, s->graph->functions.items[0]->results.n * (size_t)n_replicas)};
    o.memory = dt_memory_create(s->arena, s->graph);
    for (size_t v = 0; v < s->graph->variables.n; v++) memcpy(o.memory.variables[v].data, variables[v].data, dt_tensor_bytes(&variables[v]));
    return o;
}

static outcome run_as_written(const subject *s, int n_replicas, int64_t valid, const dt_tensor *inputs, const dt_tensor *variables) {
    outcome o = begin(s, variables, 1);
    dt_launch launches[MOST_REPLICAS];
    set_launches(n_replicas, valid, launches, &o);
    launches[0].rows = valid;
    succeed(s, "as written", dt_interpret(s->arena, s->graph->functions.items[0], launches, inputs, &o.memory, o.results));
    return o;
}

/* Of the compiled step: code NULL and `plan`: one element at a time; neither: the partitioned graph. */
static outcome run_compiled(const subject *s, const char *way, bool plan, const compiled_code *code, int n_replicas, int64_t valid,
                            const dt_tensor *inputs, const dt_tensor *variables) {
    outcome o = begin(s, variables, n_replicas);
    dt_launch launches[MOST_REPLICAS];
    set_launches(n_replicas, valid, launches, &o);
    const dt_tensor *dealt = deal(s, inputs, n_replicas, launches);
    const dt_plan *compiled = s->compilation.plans[0];
    dt_status *status;
    if (!plan)
        status = dt_interpret_replicas(s->arena, s->compilation.module->functions.items[0], n_replicas, launches, dealt, &o.memory, o.results);
    else
        status = dt_plan_execute(s->arena, &(dt_plan_run){compiled, code != NULL ? compiled_run : NULL, (void *)(uintptr_t)code, n_replicas, launches,
                                                          dealt, &o.memory, o.results});
    succeed(s, way, status);
    return o;
}

/* ---- comparing ---- */

/* `near`: the element as it is for inputs that are changed a little. */
static bool agree(const subject *s, double got, double want, double near, totals *totals) {
    totals->n_elements++;
    if (!isfinite(want) || !isfinite(near)) return !isfinite(want) != !isfinite(near) || !isfinite(got);
    totals->n_finite++;
    double tolerance = (s->real == DT_F64 ? 1e-10 : 1e-5) * (1 + fabs(want)) + 30 * fabs(want - near);
    totals->n_loose += tolerance > 1e-3 * (1 + fabs(want));
    return fabs(got - want) <= tolerance;
}

static const char *differ(const subject *s, const char *name, const dt_tensor *got, const dt_tensor *want, const dt_tensor *near, size_t first,
                          totals *totals) {
    for (size_t i = 0; i < dt_tensor_elements(got); i++) {
        double x = dt_tensor_get(got, i), y = dt_tensor_get(want, first + i);
        if (!agree(s, x, y, dt_tensor_get(near, first + i), totals))
            return dt_arena_format(s->arena, "%s, element %zu is %.17g, should be %.17g", name, first + i, x, y);
    }
    return NULL;
}

/* NULL, or what is wrong. Rows are those of each replica, one behind the other; all else is the same on every replica. */
static const char *compare(const subject *s, const outcome *got, const outcome *want, const outcome *near, int n_replicas, totals *totals) {
    const dt_function *function = s->compilation.module->functions.items[0];
    size_t n_results = function->results.n;
    const char *wrong = NULL;
    for (size_t i = 0; i < n_results && wrong == NULL; i++) {
        dt_shape shape = function->results.items[i].value->shape;
        bool by_rows = shape.rank > 0 && shape.dims[0] == DT_BATCH;
        size_t first = 0;
        for (int r = 0; r < n_replicas && wrong == NULL; r++) {
            const dt_tensor *part = &got->results[(size_t)r * n_results + i];
            if (!by_rows && dt_tensor_elements(part) != dt_tensor_elements(&want->results[i])) return "a result of another size";
            wrong = differ(s, function->results.items[i].name, part, &want->results[i], &near->results[i], first, totals);
            if (by_rows) first += dt_tensor_elements(part);
        }
        if (by_rows && first != dt_tensor_elements(&want->results[i])) return "rows are missing";
    }
    for (size_t v = 0; v < s->graph->variables.n && wrong == NULL; v++)
        wrong = differ(s, s->graph->variables.items[v].path, &got->memory.variables[v], &want->memory.variables[v], &near->memory.variables[v], 0,
                       totals);
    int64_t n_bad = 0;
    for (int r = 0; r < n_replicas; r++) n_bad += got->bad[r].count;
    if (wrong == NULL && (n_bad > 0) != (want->bad[0].count > 0)) wrong = "bad indices are counted by one alone";
    return wrong;
}

static void show(const subject *s) {
    dt_text text = {0};
    dt_module_print(&text, s->graph);
    dt_module_print(&text, s->compilation.module);
    dt_plan_print(s->arena, &text, s->compilation.plans[0], NULL);
    fputs(text.data, stderr);
    dt_text_free(&text);
}

/* ---- all of it ---- */

static dt_tensor *perturbed(const subject *s, random_source *source, const dt_tensor *tensors, size_t n) {
    dt_tensor *changed = DT_NEW_ARRAY(s->arena, dt_tensor, n);
    for (size_t k = 0; k < n; k++) {
        changed[k] = dt_tensor_make(s->arena, tensors[k].dtype, tensors[k].shape);
        for (size_t i = 0; i < dt_tensor_elements(&tensors[k]); i++) {
            double factor = 1 + (s->real == DT_F64 ? 1e-12 : 1e-6) * ((double)random_below(source, 2001) / 1000 - 1);
            dt_tensor_set(&changed[k], i, dt_tensor_get(&tensors[k], i) * (dt_dtype_is_float(tensors[k].dtype) ? factor : 1));
        }
    }
    return changed;
}

static void run_batch(subject *s, int n_replicas, int64_t valid, totals *totals) {
    const dt_function *function = s->graph->functions.items[0];
    size_t n_inputs = function->inputs.n, n_variables = s->graph->variables.n;
    dt_tensor *inputs = DT_NEW_ARRAY(s->arena, dt_tensor, n_inputs), *variables = DT_NEW_ARRAY(s->arena, dt_tensor, n_variables);
    for (size_t i = 0; i < n_inputs; i++)
        inputs[i] = random_tensor(s->arena, &s->source, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, valid);
    for (size_t v = 0; v < n_variables; v++)
        variables[v] = random_tensor(s->arena, &s->source, s->graph->variables.items[v].dtype, s->graph->variables.items[v].shape, 0);
    outcome want = run_as_written(s, n_replicas, valid, inputs, variables);
    outcome near = run_as_written(s, n_replicas, valid, perturbed(s, &s->source, inputs, n_inputs), perturbed(s, &s->source, variables, n_variables));
    for (int way = 0; way < 2 + s->n_levels; way++) {
        const compiled_code *code = way < 2 ? NULL : &s->codes[way - 2];
        const char *name = way == 0 ? "the partitioned graph" : way == 1 ? "the plan" : code->level;
        outcome got = run_compiled(s, name, way > 0, code, n_replicas, valid, inputs, variables);
        const char *wrong = compare(s, &got, &want, &near, n_replicas, totals);
        totals->n_runs++;
        if (wrong == NULL) continue;
        if (getenv("STEPS_SEED") != NULL) show(s);
        fail_msg("STEPS_SEED=%" PRIu64 ", %d replicas, %" PRId64 " rows, %s: %s", s->seed, n_replicas, valid, name, wrong);
    }
}

static void run_seed(uint64_t seed, const char *const *levels, int n_levels, totals *totals) {
    static const int64_t alone[] = {RANDOM_CAPACITY, 1, 0}, three[] = {3 * RANDOM_CAPACITY, 2 * RANDOM_CAPACITY + 1, RANDOM_CAPACITY + 1, 0};
    subject s = {.arena = dt_arena_create(), .seed = seed, .real = seed % 2 ? DT_F32 : DT_F64, .n_levels = n_levels, .source = {seed}};
    dt_compilation written = {.arena = s.arena, .module = random_step(&s, &(random_source){seed}), .off = DT_SWITCHES_OFF};
    s.graph = written.module;
    succeed(&s, "autodiff", dt_passes_run(&written, &(dt_passes_options){.stop_after = "autodiff"}));
    s.compilation = (dt_compilation){.arena = s.arena, .module = random_step(&s, &(random_source){seed})};
    dt_status *status = dt_passes_run(&s.compilation, &(dt_passes_options){0});
    if (dt_status_code(status) == DT_UNIMPLEMENTED) { /* rows of all replicas beside those of one, which kernels do not hold */
        dt_status_free(status);
        totals->n_refused++;
    } else {
        succeed(&s, "compiling", status);
        succeed(&s, "code", compiled_make(&s.compilation, levels, n_levels, s.codes));
        for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) run_batch(&s, 1, alone[i], totals);
        for (size_t i = 0; i < sizeof three / sizeof *three; i++) run_batch(&s, 3, three[i], totals);
        compiled_free(s.codes, n_levels);
    }
    dt_arena_destroy(s.arena);
}

static void random_steps(void **state) {
    (void)state;
    const char *only = getenv("STEPS_SEED"), *count = getenv("STEPS_COUNT"), *levels[COMPILED_MOST_LEVELS];
    uint64_t first = only ? strtoull(only, NULL, 10) : 1, n = count ? strtoull(count, NULL, 10) : only ? 1 : SEEDS;
    int n_levels = compiled_levels(levels);
    totals totals = {0};
    for (uint64_t seed = first; seed < first + n; seed++) run_seed(seed, levels, n_levels, &totals);
    print_message("%d runs, %d steps refused, %ld elements compared, %ld of them finite, %ld loosely; STEPS_SEED=%" PRIu64 "\n", totals.n_runs,
                  totals.n_refused, totals.n_elements, totals.n_finite, totals.n_loose, first);
    assert_true(only != NULL || 10 * totals.n_refused < (int)n);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
