/* same_bits: the plans of a compilation run several ways with the same choices: as LLVM's code, as C that `cc` compiles, and one element at a time
 * (kernel/execute.h). All that any of them leaves is to have the same bits; NaN equals NaN. */
#ifndef DT_TESTS_SUPPORT_SAME_BITS_H
#define DT_TESTS_SUPPORT_SAME_BITS_H

#include "tests/support/compiled.h"
#include "tests/support/expect.h"
#include "tests/support/two_ways.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

enum {
    SAME_BITS_MOST_WAYS = 5
};

typedef struct same_bits_way {
    const char *name;
    dt_kernel_runner run;
    dt_object *object;         /* LLVM's code */
    void *library;             /* C */
    const dt_choices *choices; /* of the executor */
    double tolerance;          /* 0: the same bits are asked for */
    dt_arena *arena;           /* of a step, for the executor */
    dt_memory memory;
    double seconds; /* in kernels */
} same_bits_way;

typedef struct same_bits {
    const char *name; /* of the program, for messages */
    dt_arena *arena;
    const dt_compilation *compilation;
    random_source random;
    bool has_edges; /* infinities, NaN and zeros of either sign are among the numbers that it draws */
    bool is_coarse; /* they are quarters, so that most sums are exact in any order */
    int n_ways;
    same_bits_way ways[SAME_BITS_MOST_WAYS];
    long n_elements; /* compared */
} same_bits;

/* ---- ways ---- */

static inline void same_bits_run_object(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    dt_kernel_entry entry = (dt_kernel_entry)dt_object_find(((same_bits_way *)context)->object, plan->kernels[kernel].name);
    double start = dt_seconds();
    if (entry != NULL) entry(buffers, launch); /* without it, results keep the pattern of memory that was never written */
    ((same_bits_way *)context)->seconds += dt_seconds() - start;
}

static inline void same_bits_run_library(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    dt_kernel_entry entry = (dt_kernel_entry)(uintptr_t)dlsym(((same_bits_way *)context)->library, plan->kernels[kernel].name);
    double start = dt_seconds();
    if (entry != NULL) entry(buffers, launch);
    ((same_bits_way *)context)->seconds += dt_seconds() - start;
}

static inline void same_bits_run_naively(void *context, const dt_plan *plan, int kernel, void *const *buffers, const dt_launch *launch) {
    same_bits_way *way = context;
    double start = dt_seconds();
    dt_kernel_execute(way->arena, plan, &plan->kernels[kernel], way->choices, buffers, launch);
    way->seconds += dt_seconds() - start;
}

/* The choices for `level` of all plans. */
static inline const dt_choices *same_bits_choose(const dt_compilation *compilation, const char *level) {
    const dt_cpu_target *target;
    const dt_choices *choices;
    expect_ok(dt_codegen_target(level, &target));
    expect_ok(dt_passes_choose(compilation, target, &choices));
    return choices;
}

static inline same_bits_way *same_bits_add(same_bits *s, const char *name, dt_kernel_runner run) {
    assert_true(s->n_ways < SAME_BITS_MOST_WAYS);
    same_bits_way *way = &s->ways[s->n_ways++];
    *way = (same_bits_way){.name = name, .run = run, .memory = dt_memory_create(s->arena, s->compilation->module)};
    return way;
}

/* In the order of the plan. */
static inline void same_bits_add_plan(same_bits *s, double tolerance) { same_bits_add(s, "the plan", same_bits_run_naively)->tolerance = tolerance; }

static inline void same_bits_add_naive(same_bits *s, const dt_choices *choices) {
    same_bits_add(s, "one element at a time", same_bits_run_naively)->choices = choices;
}

/* With the choices for whatever target, as code of `level`. */
static inline void same_bits_add_llvm(same_bits *s, const char *level, const dt_choices *choices) {
    dt_codegen_object object = {.level = level, .choices = choices};
    const dt_compilation *c = s->compilation;
    same_bits_way *way = same_bits_add(s, dt_arena_format(s->arena, "LLVM's code of %s", level), same_bits_run_object);
    expect_ok(dt_codegen_llvm((const dt_plan *const *)c->plans, c->n_plans, &(dt_codegen_options){.check = true}, &object, 1));
    expect_ok(dt_object_load(level, object.bytes, object.n_bytes, &way->object));
    dt_release(object.bytes);
}

/* All plans as C, with `more` behind it, compiled by `compiler`, a command with its own options, into a file of a folder of its own. Returns the
 * file, for same_bits_remove_c. */
static inline const char *same_bits_compile_c(same_bits *s, const dt_choices *choices, const char *more, const char *compiler) {
    char *folder = dt_arena_string(s->arena, "/tmp/dt-same-bits-XXXXXX");
    dt_text text = {.arena = s->arena};
    dt_codegen_c(s->arena, (const dt_plan *const *)s->compilation->plans, s->compilation->n_plans, choices, &text);
    dt_text_append(&text, more);
    assert_non_null(mkdtemp(folder));
    const char *path = dt_arena_format(s->arena, "%s/kernels.c", folder), *made = dt_arena_format(s->arena, "%s/kernels", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text.data, file);
    fclose(file);
    const char *command = dt_arena_format(
        s->arena, "%s -O2 -ffp-contract=off -fwrapv -fno-math-errno -fno-trapping-math -fopenmp-simd -Wno-psabi %s -o %s -lm", compiler, path, made);
    if (system(command) != 0) fail_msg("%s: %s failed", s->name, command);
    unlink(path);
    return made;
}

static inline void same_bits_remove_c(const char *made) {
    char folder[64];
    unlink(made);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(made, '/') - made), made);
    rmdir(folder);
}

static inline void same_bits_add_c(same_bits *s, const char *level, const dt_choices *choices) {
    same_bits_way *way = same_bits_add(s, dt_arena_format(s->arena, "C of %s", level), same_bits_run_library);
    const char *library = same_bits_compile_c(s, choices, "", dt_arena_format(s->arena, "cc -march=%s -fPIC -shared", level));
    way->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (way->library == NULL) fail_msg("%s: %s", s->name, dlerror());
    same_bits_remove_c(library);
}

static inline same_bits same_bits_make(const char *name, const dt_compilation *compilation) {
    return (same_bits){.name = name, .arena = compilation->arena, .compilation = compilation, .random = {7}};
}

static inline void same_bits_free(same_bits *s) {
    for (int w = 0; w < s->n_ways; w++) {
        dt_object_free(s->ways[w].object);
        if (s->ways[w].library != NULL) dlclose(s->ways[w].library);
    }
}

/* ---- numbers ---- */

/* Floats of as many digits as they have, so that sums show their order. */
static inline dt_tensor same_bits_tensor(same_bits *s, dt_arena *arena, dt_dtype dtype, dt_shape shape, int64_t rows) {
    static const double edges[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e-40, 3e38, 1e300, 1 + 0x1p-11 + 0x1p-40};
    dt_tensor tensor = random_tensor(arena, &s->random, dtype, shape, rows);
    for (size_t i = 0; i < dt_tensor_elements(&tensor) && dt_dtype_is_float(dtype) && !s->is_coarse; i++) {
        double coarse = (double)random_below(&s->random, 1 << 24) / (1 << 22) - 2, fine = 1.1 + (double)random_below(&s->random, 1 << 24) * 0x1p-30;
        bool is_edge = s->has_edges && random_below(&s->random, 20) == 0;
        dt_tensor_set(&tensor, i, is_edge ? edges[random_below(&s->random, sizeof edges / sizeof *edges)] : coarse * fine);
    }
    return tensor;
}

/* Gives the variables random values, the same for all ways. */
static inline void same_bits_set_variables(same_bits *s) {
    for (size_t v = 0; v < s->compilation->module->variables.n; v++) {
        const dt_variable *variable = &s->compilation->module->variables.items[v];
        dt_tensor values = same_bits_tensor(s, s->arena, variable->dtype, variable->shape, 0);
        for (int w = 0; w < s->n_ways; w++) memcpy(s->ways[w].memory.variables[v].data, values.data, dt_tensor_bytes(&values));
    }
}

/* ---- steps ---- */

static inline void same_bits_compare(same_bits *s, int way, const char *what, const dt_tensor *first, const dt_tensor *other) {
    size_t bytes = dt_dtype_bytes(first->dtype);
    for (size_t i = 0; i < dt_tensor_elements(first); i++, s->n_elements++) {
        if (memcmp((const char *)first->data + i * bytes, (const char *)other->data + i * bytes, bytes) == 0) continue;
        double x = dt_tensor_get(first, i), y = dt_tensor_get(other, i);
        bool is_near = s->ways[way].tolerance > 0 && two_ways_close(x, y, s->ways[way].tolerance);
        if (!is_near && (!isnan(x) || !isnan(y)))
            fail_msg("%s: %s[%zu]: %s gives %.17g, %s %.17g", s->name, what, i, s->ways[0].name, x, s->ways[way].name, y);
    }
}

static inline void same_bits_run(same_bits *s, dt_arena *arena, int way, int f, int n_replicas, dt_launch *launches, const dt_tensor *inputs,
                                 dt_bad_index *bad, dt_tensor *results) {
    for (int r = 0; r < n_replicas; r++) launches[r].bad_index = &bad[r];
    s->ways[way].arena = arena;
    dt_plan_run run = {s->compilation->plans[f], s->ways[way].run, &s->ways[way], n_replicas, launches, inputs, &s->ways[way].memory, results};
    expect_ok(dt_plan_execute(arena, &run));
}

/* Function f all ways, on the same random inputs, of `rows` rows for each of the replicas, or as many as a microbatch has. */
static inline void same_bits_step(same_bits *s, int f, int64_t counter, int n_replicas, int64_t rows) {
    const dt_module *module = s->compilation->module;
    const dt_function *function = module->functions.items[f];
    if (rows > s->compilation->plans[f]->microbatch_rows) rows = s->compilation->plans[f]->microbatch_rows;
    size_t n_inputs = function->inputs.n, n_results = function->results.n;
    dt_arena *arena = dt_arena_create();
    dt_launch *launches = DT_NEW_ARRAY(arena, dt_launch, n_replicas);
    dt_tensor *inputs = DT_NEW_ARRAY(arena, dt_tensor, n_inputs * (size_t)n_replicas), *results[SAME_BITS_MOST_WAYS];
    dt_bad_index *bad[SAME_BITS_MOST_WAYS];
    for (int r = 0; r < n_replicas; r++) {
        launches[r] = (dt_launch){.rows = rows,
                                  .row_offset = r * module->capacity,
                                  .valid = rows * n_replicas,
                                  .global_batch = module->capacity * n_replicas,
                                  .replicas = n_replicas,
                                  .epochs = 1,
                                  .steps_per_epoch = 100,
                                  .counter = counter,
                                  .seed = 42};
        for (size_t i = 0; i < n_inputs; i++)
            inputs[(size_t)r * n_inputs + i] = same_bits_tensor(s, arena, function->inputs.items[i]->dtype, function->inputs.items[i]->shape, rows);
    }
    for (int w = 0; w < s->n_ways; w++) {
        bad[w] = DT_NEW_ARRAY(arena, dt_bad_index, n_replicas);
        results[w] = DT_NEW_ARRAY(arena, dt_tensor, n_results * (size_t)n_replicas);
        same_bits_run(s, arena, w, f, n_replicas, launches, inputs, bad[w], results[w]);
        for (size_t i = 0; i < n_results * (size_t)n_replicas && w > 0; i++)
            same_bits_compare(s, w, function->results.items[i % n_results].name, &results[0][i], &results[w][i]);
        for (size_t v = 0; v < module->variables.n && w > 0; v++)
            same_bits_compare(s, w, module->variables.items[v].path, &s->ways[0].memory.variables[v], &s->ways[w].memory.variables[v]);
        assert_memory_equal(bad[0], bad[w], sizeof **bad * (size_t)n_replicas);
    }
    dt_arena_destroy(arena);
}

#endif
