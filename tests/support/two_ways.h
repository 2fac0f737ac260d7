/* two_ways: a random function on random inputs and variables, run by the interpreter and another way, and all that comes out compared. */
#ifndef DT_TESTS_SUPPORT_TWO_WAYS_H
#define DT_TESTS_SUPPORT_TWO_WAYS_H

#include "compiler/kernel/compilation.h"
#include "compiler/kernel/execute.h"
#include "ir/interpret.h"
#include "ir/text_form.h"
#include "tests/support/expect.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <stdio.h>

enum {
    TWO_WAYS_REPLICAS = 3,
    TWO_WAYS_MOST_ROWS = TWO_WAYS_REPLICAS * RANDOM_CAPACITY
};

/* The first function of a compilation that has a plan for it. What either way is given and leaves: */
typedef struct two_ways {
    const dt_compilation *compilation;
    const dt_function *function;
    int n_replicas;
    dt_tensor *inputs;      /* [n_replicas * inputs], the same for both */
    dt_launch *launches[2]; /* [n_replicas], the same but for their bad_index */
    dt_tensor *results[2];  /* [n_replicas * results] */
    dt_memory memories[2];
} two_ways;

static inline two_ways two_ways_make(dt_arena *arena, random_source *source, const dt_compilation *compilation, int n_replicas,
                                     const dt_launch *launches) {
    const dt_module *module = compilation->module;
    const dt_function *function = module->functions.items[0];
    size_t n = function->inputs.n;
    two_ways ways = {.compilation = compilation, .function = function, .n_replicas = n_replicas};
    ways.inputs = DT_NEW_ARRAY(arena, dt_tensor, (size_t)n_replicas * n);
    for (int r = 0; r < n_replicas; r++)
        for (size_t i = 0; i < n; i++) {
            const dt_value *input = function->inputs.items[i];
            ways.inputs[(size_t)r * n + i] = random_tensor(arena, source, input->dtype, input->shape, launches[r].rows);
        }
    for (int way = 0; way < 2; way++) {
        ways.launches[way] = dt_arena_copy(arena, launches, sizeof *launches * (size_t)n_replicas);
        for (int r = 0; r < n_replicas; r++) ways.launches[way][r].bad_index = DT_NEW(arena, dt_bad_index);
        ways.results[way] = DT_NEW_ARRAY(arena, dt_tensor, (size_t)n_replicas * function->results.n);
    }
    random_memories(arena, source, module, ways.memories);
    return ways;
}

static inline void two_ways_show(const dt_compilation *compilation) {
    dt_text text = {0};
    dt_module_print(&text, compilation->module);
    dt_plan_print(compilation->arena, &text, compilation->plans[0], NULL);
    fputs(text.data, stderr);
    dt_text_free(&text);
}

static inline bool two_ways_close(double x, double y, double tolerance) {
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    return x == y || fabs(x - y) <= tolerance * (1 + fabs(x)) || (fabs(x) > 1e9 && fabs(x - y) <= 1e-5 * fabs(x));
}

/* Random numbers are f32: what comes of them is as rough. */
static inline double two_ways_tolerance(const dt_function *function) {
    for (const dt_value *value = function->first; value != NULL; value = value->next)
        if (value->dtype == DT_F32) return 1e-5;
    return 1e-9;
}

static inline void two_ways_compare_one(const two_ways *ways, const char *other, const char *what, const dt_tensor *x, const dt_tensor *y) {
    double tolerance = two_ways_tolerance(ways->function);
    if (!dt_shape_equal(x->shape, y->shape)) fail_msg("%s: shapes differ", what);
    for (size_t i = 0; i < dt_tensor_elements(x); i++)
        if (!two_ways_close(dt_tensor_get(x, i), dt_tensor_get(y, i), tolerance)) {
            two_ways_show(ways->compilation);
            fail_msg("%s[%zu]: the graph gives %.17g, the %s %.17g", what, i, dt_tensor_get(x, i), other, dt_tensor_get(y, i));
        }
}

/* Results, variables, and whether there were bad indices in any replica: what is replicated a plan computes once, for the first of them. `other`:
 * what the second way is called. */
static inline void two_ways_compare(const two_ways *ways, const char *other) {
    const dt_module *module = ways->compilation->module;
    size_t n = ways->function->results.n;
    for (size_t i = 0; i < (size_t)ways->n_replicas * n; i++)
        two_ways_compare_one(ways, other, ways->function->results.items[i % n].name, &ways->results[0][i], &ways->results[1][i]);
    for (size_t v = 0; v < module->variables.n; v++)
        two_ways_compare_one(ways, other, module->variables.items[v].path, &ways->memories[0].variables[v], &ways->memories[1].variables[v]);
    bool bad[2] = {false, false};
    for (int way = 0; way < 2; way++)
        for (int r = 0; r < ways->n_replicas; r++) bad[way] |= ways->launches[way][r].bad_index->count > 0;
    assert_int_equal(bad[0], bad[1]);
}

/* One replica's step of `rows` valid rows, by the interpreter and by the plan, whose kernels `run` runs. */
static inline void two_ways_run_plan(random_source source, const dt_compilation *compilation, int64_t rows, dt_kernel_runner run, void *context,
                                     const char *other) {
    dt_arena *arena = dt_arena_create();
    dt_launch launch = {.rows = rows,
                        .valid = rows,
                        .global_batch = compilation->module->capacity,
                        .replicas = 1,
                        .epochs = 3,
                        .steps_per_epoch = 5,
                        .counter = 6,
                        .seed = 7};
    two_ways ways = two_ways_make(arena, &source, compilation, 1, &launch);
    expect_ok(dt_interpret(arena, ways.function, ways.launches[0], ways.inputs, &ways.memories[0], ways.results[0]));
    dt_plan_run plan_run = {compilation->plans[0], run, context, 1, ways.launches[1], ways.inputs, &ways.memories[1], ways.results[1]};
    expect_ok(dt_plan_execute(arena, &plan_run));
    two_ways_compare(&ways, other);
    dt_arena_destroy(arena);
}

/* A step of `valid` rows on several replicas, by the interpreter and by the plan: what is partitioned meets others. */
static inline void two_ways_run_replicas(random_source source, const dt_compilation *compilation, int64_t valid, dt_kernel_runner run, void *context,
                                         const char *other) {
    dt_arena *arena = dt_arena_create();
    dt_launch launches[TWO_WAYS_REPLICAS];
    for (int r = 0; r < TWO_WAYS_REPLICAS; r++) {
        int64_t left = valid - r * RANDOM_CAPACITY, rows = left < 0 ? 0 : left < RANDOM_CAPACITY ? left : RANDOM_CAPACITY;
        launches[r] = (dt_launch){.rows = rows,
                                  .row_offset = r * RANDOM_CAPACITY,
                                  .valid = valid,
                                  .global_batch = TWO_WAYS_REPLICAS * RANDOM_CAPACITY,
                                  .replicas = TWO_WAYS_REPLICAS,
                                  .epochs = 1,
                                  .steps_per_epoch = 1,
                                  .counter = 2,
                                  .seed = 3};
    }
    two_ways ways = two_ways_make(arena, &source, compilation, TWO_WAYS_REPLICAS, launches);
    expect_ok(dt_interpret_replicas(arena, ways.function, TWO_WAYS_REPLICAS, ways.launches[0], ways.inputs, &ways.memories[0], ways.results[0]));
    dt_plan_run plan_run = {compilation->plans[0], run,         context,           TWO_WAYS_REPLICAS,
                            ways.launches[1],      ways.inputs, &ways.memories[1], ways.results[1]};
    expect_ok(dt_plan_execute(arena, &plan_run));
    two_ways_compare(&ways, other);
    dt_arena_destroy(arena);
}

/* The seeds to run: `n` of them from 1 on, or DT_COUNT from DT_SEED on. */
static inline uint64_t two_ways_seeds(uint64_t n, uint64_t *end) {
    const char *only = getenv("DT_SEED"), *count = getenv("DT_COUNT");
    uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    *end = first + (count ? strtoull(count, NULL, 10) : only ? 1 : n);
    return first;
}

#endif
