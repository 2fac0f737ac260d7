/* same_bits_programs: what the tests of renderers run several ways (support/same_bits.h): programs of the project's folder, and random functions. */
#ifndef DT_TESTS_OPS_SAME_BITS_PROGRAMS_H
#define DT_TESTS_OPS_SAME_BITS_PROGRAMS_H

#include "base/file.h"
#include "compiler/passes/passes.h"
#include "frontends/dsl/dsl.h"
#include "tests/support/same_bits.h"

/* Adds the ways that are to be compared, with the choices for the level. */
typedef void same_bits_ways(same_bits *s, const char *level);

static inline void llvm_and_c(same_bits *s, const char *level) {
    const dt_choices *choices = same_bits_choose(s->compilation, level);
    same_bits_add_llvm(s, level, choices);
    same_bits_add_c(s, level, choices);
}

/* Choices for x86-64-v4 as code of x86-64-v3 too. */
static inline void naive_and_llvm(same_bits *s, const char *level) {
    const dt_choices *choices = same_bits_choose(s->compilation, level);
    same_bits_add_naive(s, choices);
    same_bits_add_llvm(s, DT_LEVEL_V3, choices);
    if (strcmp(level, DT_LEVEL_V4) == 0 && dt_cpu_level() >= 4) same_bits_add_llvm(s, DT_LEVEL_V4, choices);
}

static inline int function_named(const dt_module *module, const char *name) {
    for (size_t f = 0; f < module->functions.n; f++)
        if (strcmp(module->functions.items[f]->name, name) == 0) return (int)f;
    return -1;
}

/* A program for a batch of `capacity` rows a replica: initial values, and two steps of each function that trains, one of each other. */
static inline void run_program(const char *name, int64_t capacity, int n_replicas, const char *level, same_bits_ways *add_ways) {
    dt_arena *arena = dt_arena_create();
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    char path[4096], *source;
    size_t n_bytes;
    snprintf(path, sizeof path, "%s/%s.dt", getenv("DT_SOURCE"), name);
    expect_ok(dt_file_read(path, &source, &n_bytes));
    dt_compilation compilation = {.arena = arena};
    expect_ok(dt_dsl_compile(arena, path, source, &(dt_dsl_options){.capacity = capacity}, diagnostics, &compilation.module));
    if (compilation.module == NULL) fail_msg("%s does not compile", name);
    expect_ok(dt_passes_run(&compilation, &(dt_passes_options){0}));
    same_bits s = same_bits_make(name, &compilation);
    add_ways(&s, level);
    const dt_module *module = compilation.module;
    int init = function_named(module, "init");
    same_bits_set_variables(&s);
    if (init >= 0) same_bits_step(&s, init, 0, 1, 0);
    for (size_t f = 0; f < module->steps.n; f++)
        for (int k = 0; k < (module->steps.items[f].trains ? 2 : 1); k++)
            same_bits_step(&s, function_named(module, module->steps.items[f].function->name), k, n_replicas, capacity - k);
    print_message("%s, choices for %s: %ld elements compared;", name, level, s.n_elements);
    for (int w = 0; w < s.n_ways; w++) print_message(" %s %.3f s%s", s.ways[w].name, s.ways[w].seconds, w + 1 < s.n_ways ? "," : "\n");
    same_bits_free(&s);
    dt_arena_destroy(arena);
    free(source);
}

static inline void run_at_both_levels(const char *name, int64_t capacity, int n_replicas) {
    run_program(name, capacity, n_replicas, DT_LEVEL_V3, naive_and_llvm);
    run_program(name, capacity, n_replicas, DT_LEVEL_V4, naive_and_llvm);
}

/* The random function of a seed, every second one of f32, with a plan. */
static inline dt_compilation random_compilation(dt_arena *arena, random_source *source, uint64_t seed) {
    static dt_pass_function const passes[] = {dt_pass_fuse, dt_pass_schedule, dt_pass_late_writes, dt_pass_plan_memory};
    dt_compilation compilation = {.arena = arena};
    compilation.module = random_module_in(arena, source, 12 + (int)random_below(source, 30), seed % 2 == 0 ? DT_F32 : DT_F64);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) expect_ok(passes[i](&compilation));
    return compilation;
}

/* Seeds from 1 to n, or those that DT_SEED and DT_COUNT name, each with the choices for the level. */
static inline void run_random_functions(uint64_t n, const char *level, same_bits_ways *add_ways) {
    uint64_t end;
    for (uint64_t seed = two_ways_seeds(n, &end); seed < end; seed++) {
        dt_arena *arena = dt_arena_create();
        random_source source = {seed};
        dt_compilation compilation = random_compilation(arena, &source, seed);
        same_bits s = same_bits_make(dt_arena_format(arena, "DT_SEED=%llu, choices for %s", (unsigned long long)seed, level), &compilation);
        s.has_edges = seed % 5 == 0;
        s.random = source;
        add_ways(&s, level);
        same_bits_set_variables(&s);
        for (int64_t rows = 0; rows <= RANDOM_CAPACITY; rows += 2) same_bits_step(&s, 0, 6, 1, rows);
        same_bits_free(&s);
        dt_arena_destroy(arena);
    }
}

#endif
