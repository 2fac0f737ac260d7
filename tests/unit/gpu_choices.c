/* gpu_choices: what is chosen for a GPU for a few nests, as text; that warps and all that is measured are the target's; and that each rule of
 * dt_gpu_choices_verify refuses what breaks it. */
#include "compiler/kernel/plan_text.h"
#include "compiler/pipeline.h"
#include "ir/text_form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char map[] = "%0 a: f32[B, 40], %1 b: f32[B, 40]) {\n  %9: f32[B, 40] = add(%0, %1)";
static const char line[] = "%0 a: f32[40], %1 b: f32[40]) {\n  %9: f32[40] = add(%0, %1)";
static const char product[] = "%0 a: f32[B, 64, 48], %1 b: f32[B, 48, 80]) {\n  %9: f32[B, 64, 80] = matmul(%0, %1)";
static const char rounded[] = "%0 a: f32[B, 64, 48], %1 b: f32[B, 48, 80]) {\n  %9: f32[B, 64, 80] = matmul(%0, %1, precision=\"tf32\")";
static const char sums[] = "%0 a: f32[B, 500], %1 b: f32[B]) {\n  %9: f32[B] = reduce_sum(%0, axes=[1])";
static const char scatter[] = "%0 a: f32[90, 37], %1 b: i32[90]) {\n  %9: f32[7, 37] = scatter_add(%0, %1, axis=0, size=7)";

typedef struct chosen {
    dt_compilation compilation;
    dt_gpu_choices *choices;
    dt_nest *nest; /* the last one of the plan */
    dt_gpu_function *function;
    dt_gpu_nest *how;
} chosen;

static void succeed(dt_status *status) {
    if (status != NULL) fail_msg("%s", dt_status_message(status));
}

/* A function of two operands, given from its inputs to its last value. */
static chosen choose(dt_arena *arena, dt_target target, const char *body) {
    chosen c = {.compilation = {.arena = arena, .target = target}};
    const char *text = dt_arena_format(arena, "module m capacity 32\nfile 0 \"m\"\nfunction f step (%s\n  return y=%%9\n}\n", body);
    succeed(dt_module_parse(arena, "m", text, &c.compilation.module));
    succeed(dt_passes_run(&c.compilation, &(dt_passes_options){0}));
    succeed(dt_passes_choose_gpu(&c.compilation, &c.choices));
    dt_gpu_kernel *kernel = &c.choices->kernels[0][c.compilation.plans[0]->n_kernels - 1];
    c.function = &kernel->functions[kernel->n_functions - 1];
    c.nest = &kernel->divided.nests[c.function->first];
    c.how = c.function->nests;
    return c;
}

/* Plan and choices read back, and print the same. */
static void reads_back(dt_arena *arena, const chosen *c, const char *choices) {
    dt_plan_sets sets;
    dt_text text = {.arena = arena}, again = {.arena = arena};
    dt_plan_print(arena, &text, c->compilation.plans[0], NULL);
    dt_text_append(&text, choices);
    succeed(dt_plans_parse(arena, "m.plan", text.data, &sets));
    dt_plan_sets_print(arena, &again, &sets);
    assert_string_equal(again.data, text.data);
}

static void expect(dt_target target, const char *body, const char *lines) {
    dt_arena *arena = dt_arena_create();
    chosen c = choose(arena, target, body);
    dt_text text = {.arena = arena};
    dt_gpu_choices_print(&text, c.choices, 0);
    if (strstr(text.data, lines) == NULL) fail_msg("no \"%s\" in\n%s", lines, text.data);
    reads_back(arena, &c, text.data);
    dt_arena_destroy(arena);
}

static void each_form_is_chosen(void **state) {
    (void)state;
    expect(DT_TARGET_CUDA, map, "elements by thread   # 320 threads\n      nest 0  dealt l0 l1  by 4 l1\n");
    expect(DT_TARGET_CUDA, product, "tiles by block  or product   # 64 blocks, 17408 bytes shared; or cuBLASLt\n");
    expect(DT_TARGET_CUDA, product, "rows of 64: s0  over l1  term by term  by 4 l3\n");
    expect(DT_TARGET_CUDA, rounded, "stages of 16 terms  padding of 8  tensor cores 4 down\n");
    expect(DT_TARGET_CUDA, sums, "teams by warp   # 32 warps\n      nest 0  shared l0  reduced together l1\n");
    expect(DT_TARGET_CUDA, scatter, "owners of 1  in groups of 2  with 8 indices at once   # s2 below 7\n");
}

static void warps_are_the_targets(void **state) {
    (void)state;
    expect(DT_TARGET_WARPS_OF_64, sums, "for warps of 64   # blocks of 256, warps of 64\n");
    expect(DT_TARGET_WARPS_OF_64, sums, "teams by warp   # 32 warps\n");
    expect(DT_TARGET_WARPS_OF_64, scatter, "owners of 1  in groups of 1  with 8 indices at once");
    expect(DT_TARGET_WARPS_OF_64, rounded, "tensor cores 4 down\n");
}

/* ---- what is refused ---- */

/* The choices for CUDA of the last nest that computes `body`, after `change`, break `rule`. */
#define REFUSED(body, rule, change)                                                                                                                  \
    do {                                                                                                                                             \
        dt_arena *arena = dt_arena_create();                                                                                                         \
        chosen c = choose(arena, DT_TARGET_CUDA, body);                                                                                              \
        dt_gpu_function *f = c.function;                                                                                                             \
        dt_gpu_nest *n = c.how;                                                                                                                      \
        dt_nest *nest = c.nest;                                                                                                                      \
        (void)f, (void)n, (void)nest;                                                                                                                \
        change;                                                                                                                                      \
        dt_status *status = dt_gpu_choices_verify(arena, c.choices);                                                                                 \
        if (status == NULL || strstr(dt_status_message(status), rule) == NULL)                                                                       \
            fail_msg("\"%s\" was to be said, not \"%s\"", rule, status != NULL ? dt_status_message(status) : "nothing");                             \
        dt_status_free(status);                                                                                                                      \
        dt_arena_destroy(arena);                                                                                                                     \
    } while (0)

static void functions_are_verified(void **state) {
    (void)state;
    REFUSED(sums, "a team is a thread, a warp or a block", f->team = 16);
    REFUSED(map, "elements are for threads", f->team = 32);
    REFUSED(product, "a tile is for a block", f->team = 32);
    REFUSED(scatter, "targets are owned by warps", f->team = 1);
    REFUSED(product, "what a block shares fits its memory", f->tiles.terms = 64);
    REFUSED(map, "indices of 32 bits count all that there is", f->n_items = INT64_C(1) << 31);
    REFUSED(sums, "teams share outer loops", f->n_shared = 2);
    REFUSED(map, "a library computes one sum of products", f->library = &(dt_library_call){.class = DT_LIBRARY_PRODUCT});
    REFUSED(map, "each nest is in one function, in order", f->first = 1);
    REFUSED(map, "goes through its rows in order", c.compilation.plans[0]->batched = false);
}

static void loops_are_verified(void **state) {
    (void)state;
    REFUSED(sums, "reduced loops are those of the nest", n->reduced = 0);
    REFUSED(map, "each outer loop is shared by a team, dealt to threads, or walked in order", n->dealt = 1);
    REFUSED(map, "each outer loop is shared by a team, dealt to threads, or walked in order", n->serial = 1);
    REFUSED(scatter, "iterations that run at the same time have nothing to do with each other", (n->dealt |= n->serial, n->serial = 0));
    REFUSED(sums, "teams share the first loops", (n->dealt = n->shared, n->shared = 0));
    REFUSED(map, "threads that share loops are a team", (n->shared = 1, n->dealt = 2));
    REFUSED(product, "is not walked in order", (n->serial = 2, n->dealt = 4));
    REFUSED(map, "or of what processes share out, is not walked in order",
            (nest->share = (dt_nest_share){.n_units = 2, .unit_iterations = 4}, n->serial = n->dealt, n->dealt = 0));
    REFUSED(sums, "a team reduces together", f->team = 1);
    REFUSED(product, "a team reduces together", n->together = true);
    REFUSED(sums, "is not read in a later one", (n->serial = n->shared, n->shared = 0, f->n_shared = 0, nest->stores[0].address.buffer = 0));
    REFUSED(product, "what processes share out is for elements or teams", nest->share.n_units = 2);
    REFUSED(map, "what processes share out has one outer loop", nest->share.n_units = 2);
    REFUSED(line, "a vector is of one unit", nest->share = ((dt_nest_share){.n_units = 2, .unit_iterations = 2}));
    REFUSED(map, "loops that are reduced in order are written out once or more", n->unrolled[1] = 2);
}

static void vectors_are_verified(void **state) {
    (void)state;
    REFUSED(map, "vectors have a power of two of elements", n->vectors.width = 3);
    REFUSED(map, "a thread takes no more elements side by side", n->vectors.width = 16);
    REFUSED(sums, "vectors are of elements that are dealt", n->vectors.width = 4);
    REFUSED(map, "a loop has whole vectors", nest->loops[1].extent = 38);
    REFUSED(map, "what is computed ahead of a vector is one for all of it", n->vectors.ahead[0] = true);
    REFUSED(product, "results are stored in vectors of all that are neighbours", n->vectors.width = 2);
    REFUSED(map, "vectors lie along the last of the loops that are counted together", n->vectors.along = 2);
    REFUSED(map, "vectors lie along the last of the loops that are counted together", n->vectors.along = 0);
    REFUSED(map, "vectors are stored to whole vectors, without guard", nest->stores[0].address.offset = 1);
    REFUSED(map, "a vector is of loads that lie side by side", nest->instructions[0].address.offset = 2);
}

static void tiles_and_scatters_are_verified(void **state) {
    (void)state;
    REFUSED(product, "tiles are for one sum of products", (nest->reductions[0].dtype = DT_F64, f->library = NULL));
    REFUSED(product, "rows and columns of tiles are dealt", f->tiles.rows.loops = 0);
    REFUSED(product, "a stage has sixteen terms", f->tiles.terms = 8);
    REFUSED(product, "rows in shared memory have whole vectors", f->tiles.padding = 2);
    REFUSED(product, "tensor cores multiply rounded factors", f->tiles.n_down = 4);
    REFUSED(rounded, "tensor cores add sixteen terms of bf16", (f->tiles.precision = DT_PRECISION_BF16, f->tiles.terms = 32));
    REFUSED(product, "the sides of a tile are of the factors", f->tiles.rows.factor = 2);
    REFUSED(product, "the sides of a tile are of the factors", f->tiles.rows.factor = f->tiles.columns.factor);
    REFUSED(product, "a factor differs with the loops of its side",
            (f->tiles.rows.factor = f->tiles.columns.factor, f->tiles.columns.factor = 1 - f->tiles.rows.factor));
    REFUSED(product, "a factor is read in vectors that lie along terms or results", (f->tiles.rows.vectors.width = 8, f->tiles.terms = 16));
    REFUSED(product, "vectors lie along the last of the loops that are counted together", f->tiles.rows.by_terms = !f->tiles.rows.by_terms);
    REFUSED(product, "results of a thread are neighbours", (f->tiles.rows.results = 48, f->tiles.rows.own = 3));
    REFUSED(product, "all threads read as much of a stage", (f->tiles.rows.results = 32, f->tiles.rows.own = 2, f->tiles.terms = 48));
    REFUSED(product, "the results of a tile are dealt to all threads alike", f->tiles.rows.own = 1);
    REFUSED(scatter, "a scatter stores once, where one index says", f->scatter.index = 0);
    REFUSED(scatter, "a scatter stores once, where one index says", nest->stores[0].address.term_coefficients[0] = 0);
    REFUSED(scatter, "a scatter stores in the slice that its index selects", (n->serial |= n->dealt, n->dealt = 0));
    REFUSED(scatter, "a scatter does not read what it stores",
            (n->serial = 3, n->dealt = 0, nest->stores[0].address.coefficients[1] = 0,
             nest->stores[0].address.buffer = nest->instructions[0].address.buffer));
    REFUSED(scatter, "a check holds the index below the targets", f->scatter.targets = 9);
    REFUSED(scatter, "each target has an owner", f->scatter.n_owners = 1);
    REFUSED(scatter, "a lane reads some indices at a time", f->scatter.at_once = 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_is_chosen), cmocka_unit_test(warps_are_the_targets), cmocka_unit_test(functions_are_verified),
        cmocka_unit_test(loops_are_verified),  cmocka_unit_test(vectors_are_verified),  cmocka_unit_test(tiles_and_scatters_are_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
