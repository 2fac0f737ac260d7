/* choices: what is chosen for each level of a few nests, as text; and that each rule of dt_choices_verify refuses what breaks it. */
#include "compiler/passes/passes.h"
#include "compiler/pipeline.h"
#include "ir/text_form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char long_product[] = "%0 a: f32[B, 1024], %1 b: f32[1024, 160]) {\n  %9: f32[B, 160] = matmul(%0, %1)";
static const char turned_product[] = "%0 a: f64[402, 512], %1 b: f64[402, 80]) {\n  %9: f64[512, 80] = matmul(%0, %1, transpose_a=true)";
static const char batched_product[] = "%0 a: f32[3, 64, 300], %1 b: f32[3, 300, 80]) {\n  %9: f32[3, 64, 80] = matmul(%0, %1)";
static const char short_product[] = "%0 a: f32[3, 40], %1 b: f32[40, 8]) {\n  %9: f32[3, 8] = matmul(%0, %1)";

static const char depthwise[] = "%0 a: f32[B, 14, 14, 64, 1], %1 b: f32[3, 3, 1, 64, 1]) {\n  %9: f32[B, 12, 12, 64, 1] = conv2d(%0, %1)";
static const char long_sum[] = "%0 a: f32[B, 4096], %1 b: f32[B]) {\n  %9: f32[B] = reduce_sum(%0, axes=[1])";
static const char search[] = "%0 a: u8[3, B, 9], %1 b: f32[1]) {\n  %9: i64[3] = argmin(%0, axes=[1, 2])";
static const char spread[] = "%0 a: f32[B, 4, 4, 9], %1 b: f32[3, 3, 11, 9]) {\n  %9: f32[B, 6, 6, 11] = conv2d_input_gradient(%0, %1, size=[6, 6])";
static const char large_map[] = "%0 a: f32[B, 800, 512], %1 b: f32[B, 800, 512]) {\n  %9: f32[B, 800, 512] = add(%0, %1)";
static const char small_map[] = "%0 a: f32[B, 30], %1 b: f32[B, 30]) {\n  %9: f32[B, 30] = add(%0, %1)";
static const char turned_map[] = "%0 a: f32[B, 40, 50], %1 b: f32[B]) {\n  %9: f32[B, 50, 40] = transpose(%0, permutation=[0, 2, 1])";
static const char lookup[] = "%0 a: f32[50, 64], %1 b: i64[B]) {\n  %9: f32[B, 64] = gather(%0, %1)";
static const char convolution[] = "%0 a: f32[B, 14, 14, 64], %1 b: f32[3, 3, 64, 64]) {\n  %9: f32[B, 12, 12, 64] = conv2d(%0, %1)";
static const char two_sums[] = "%0 a: f32[B, 7, 1100], %1 b: f32[B, 7, 200]) {\n  %9: f32[1100, 200] = dot_general(%0, %1, a_batch=[], b_batch=[], "
                               "a_contract=[0, 1], b_contract=[0, 1])";

typedef struct chosen {
    dt_compilation compilation;
    dt_choices *choices;
    dt_nest *nest; /* the last one of the plan */
    dt_nest_choices *of_nest;
} chosen;

static void succeed(dt_status *status) {
    if (status != NULL) fail_msg("%s", dt_status_message(status));
}

/* A function of two operands, given from its inputs to its last value. */
static chosen choose(dt_arena *arena, const char *level, const char *body) {
    chosen c = {.compilation = {.arena = arena, .off = 1u << DT_SWITCH_MICROBATCHES}};
    const char *text = dt_arena_format(arena, "module m capacity 32\nfile 0 \"m\"\nfunction f step (%s\n  return y=%%9\n}\n", body);
    succeed(dt_module_parse(arena, "m", text, &c.compilation.module));
    succeed(dt_passes_run(&c.compilation, &(dt_passes_options){0}));
    c.choices = dt_pass_choose(arena, (const dt_plan *const *)c.compilation.plans, 1, dt_cpu_target_find(level));
    succeed(dt_choices_verify(arena, c.choices));
    const dt_plan *plan = c.compilation.plans[0];
    const dt_kernel_function *kernel = &plan->kernels[plan->n_kernels - 1];
    c.nest = &kernel->nests[kernel->n_nests - 1];
    c.of_nest = &c.choices->nests[0][plan->n_kernels - 1][kernel->n_nests - 1];
    return c;
}

static void expect(const char *level, const char *body, const char *line) {
    dt_arena *arena = dt_arena_create();
    chosen c = choose(arena, level, body);
    dt_text text = {.arena = arena};
    dt_plan_print(c.compilation.arena, &text, c.compilation.plans[0], c.choices);
    if (strstr(text.data, line) == NULL) fail_msg("%s: no \"%s\" in\n%s", level, line, text.data);
    dt_arena_destroy(arena);
}

static void each_level_has_its_choices(void **state) {
    (void)state;
    expect(DT_LEVEL_V3, long_product, "vector l1 x 8  tiles of 4 x 3: 4 x 3 by 2, 1 x 3 by 2, 4 x 2 by 4, 1 x 2 by 4  packed l2 by 256\n");
    expect(DT_LEVEL_V4, long_product, "order l1 l0 l2  vector l1 x 16  tiles of 4 x 5: 4 x 5, 1 x 5  packed l2 by 176\n");
    expect(DT_LEVEL_V3, turned_product, "order l1 l0 l2  vector l1 x 4  tiles of 6 x 2: 6 x 2 by 2, 4 x 2 by 4  packed l2 by 208, 72 rows, gap 16\n");
    expect(DT_LEVEL_V4, turned_product, "order l1 l0 l2  vector l1 x 8  tiles of 4 x 5: 4 x 5  packed l2 by 204, 72 rows, gap 16\n");
    expect(DT_LEVEL_V3, short_product, "vector l1 x 8  tiles of 3 x 1: 3 x 1 in 2 chains by 8\n");
    expect(DT_LEVEL_V3, two_sums, "packed l2, l3 by 7, ");
    expect(DT_LEVEL_V3, depthwise, "order l0 l1 l3 l4 l2 l5 l6 l7  vector l3 x 8  jammed l2 by 6  unrolled l5 l6\n");
    expect(DT_LEVEL_V4, depthwise, "order l0 l1 l3 l4 l2 l5 l6 l7  vector l3 x 16  jammed l2 by 6  unrolled l5 l6\n");
    expect(DT_LEVEL_V3, long_sum, "vector l1 x 32\n");
    expect(DT_LEVEL_V4, long_sum, "vector l1 x 64\n");
    expect(DT_LEVEL_V3, large_map, "+ l1] = s2  streaming\n");
    expect(DT_LEVEL_V3, turned_map, "order l0 l2 l1  vector l2 x 8\n");
}

/* ---- what is refused ---- */

static void expect_refused(dt_arena *arena, const chosen *c, const char *rule) {
    dt_status *status = dt_choices_verify(arena, c->choices);
    if (status == NULL || strstr(dt_status_message(status), rule) == NULL)
        fail_msg("\"%s\" was to be said, not \"%s\"", rule, status != NULL ? dt_status_message(status) : "nothing");
    assert_int_equal(dt_status_code(status), DT_INTERNAL);
    dt_status_free(status);
}

/* The choices `n` for x86-64-v3 of the nest `nest` that computes `body`, after `change`, break `rule`. */
#define REFUSED(body, rule, change)                                                                                                                  \
    do {                                                                                                                                             \
        dt_arena *arena = dt_arena_create();                                                                                                         \
        chosen c = choose(arena, DT_LEVEL_V3, body);                                                                                                 \
        dt_nest_choices *n = c.of_nest;                                                                                                              \
        dt_nest *nest = c.nest;                                                                                                                      \
        (void)n, (void)nest;                                                                                                                         \
        change;                                                                                                                                      \
        expect_refused(arena, &c, rule);                                                                                                             \
        dt_arena_destroy(arena);                                                                                                                     \
    } while (0)

static void swap(int *x, int *y) {
    int z = *x;
    *x = *y;
    *y = z;
}

static void orders_are_verified(void **state) {
    (void)state;
    REFUSED(long_product, "the order has each loop once", n->order[0] = n->order[1]);
    REFUSED(long_product, "the order has each loop once", n->order[0] = 3);
    REFUSED(long_product, "reduced loops are inside of outer ones", swap(&n->order[1], &n->order[2]));
    REFUSED(depthwise, "loops that nests share come first", swap(&n->order[0], &n->order[1]));
    REFUSED(search, "a search goes through its loops as they stand", swap(&n->order[1], &n->order[2]));
}

static void vectors_are_verified(void **state) {
    (void)state;
    REFUSED(large_map, "the vector loop is one of the nest's", n->vector_loop = 2);
    REFUSED(large_map, "a vector has a power of two of elements", n->width = 12);
    REFUSED(large_map, "a vector has a power of two of elements", n->width = 64);
    REFUSED(large_map, "vectors need a vector loop", n->vector_loop = -1);
    REFUSED(depthwise, "loops that nests share are no vector loops", n->vector_loop = 0);
    REFUSED(lookup, "an index that is checked differs within a vector", n->vector_loop = 0);
    REFUSED(depthwise, "vectors are stored to neighbours", n->vector_loop = 1);
    REFUSED(lookup, "vectors are stored where one index says",
            (nest->stores[0].address.n_terms = 1, nest->stores[0].address.terms = &nest->stores[0].operand));
}

/* A nest without tiles, in the order of the plan. */
static void make_loops(const dt_nest *nest, dt_nest_choices *n) {
    *n = (dt_nest_choices){n->order,          n->unrolled, n->jammed,         .stores = n->stores,
                           .vector_loop = -1, .width = 1,  .packed_loop = -1, .packed_around = -1};
    for (int l = 0; l < nest->n_loops; l++) n->order[l] = l, n->unrolled[l] = false, n->jammed[l] = 0;
    for (int i = 0; i < nest->n_stores; i++) n->stores[i] = DT_STORE_ORDINARY;
}

static void unrolling_is_verified(void **state) {
    (void)state;
    REFUSED(large_map, "unrolled loops are of constant extent", n->unrolled[0] = true);
    REFUSED(large_map, "unrolled loops are of constant extent", n->unrolled[1] = true);
    REFUSED(depthwise, "unrolled loops are of constant extent", n->unrolled[2] = true);
    REFUSED(large_map, "jammed loops are neither shared", n->jammed[1] = 2);
    REFUSED(depthwise, "jammed loops are neither shared", n->jammed[0] = 2);
    REFUSED(depthwise, "jammed loops are outer ones of constant extent", (n->unrolled[5] = false, n->jammed[5] = 3));
    REFUSED(turned_map, "jammed loops are around reduced ones", n->jammed[1] = 2);
    REFUSED(depthwise, "jammed loops are neither shared", (nest->part_iterations = 1, n->jammed[nest->in_rows] = 2));
    REFUSED(depthwise, "a nest that checks an index has no jammed loops", nest->instructions[3].kind = DT_INSTRUCTION_CHECK);
    REFUSED(depthwise, "two iterations of a loop are jammed, or more", n->jammed[2] = 13);
    REFUSED(depthwise, "two iterations of a loop are jammed, or more", n->jammed[2] = 1);
}

static void sums_in_memory_are_verified(void **state) {
    (void)state;
    REFUSED(spread, "iterations that are added to one place keep their order",
            (make_loops(nest, n), n->jammed[4] = 2, swap(&n->order[2], &n->order[3]), swap(&n->order[3], &n->order[4])));
    REFUSED(spread, "iterations that are added to one place keep their order",
            (make_loops(nest, n), n->vector_loop = 4, n->width = 8, nest->stores[0].address.coefficients[4] = 1));
}

/* Of operand a. */
static void add_check(dt_arena *arena, dt_nest *nest) {
    dt_instruction *instructions = DT_NEW_ARRAY(arena, dt_instruction, nest->n_instructions + 1);
    memcpy(instructions, nest->instructions, (size_t)nest->n_instructions * sizeof *instructions);
    instructions[nest->n_instructions] = (dt_instruction){.kind = DT_INSTRUCTION_CHECK, .dtype = DT_BOOL, .n_operands = 1, .guard = -1};
    nest->instructions = instructions;
    nest->n_instructions++;
}

/* What dt_tiles_need asks of the nest. */
static void nests_of_tiles_are_verified(void **state) {
    (void)state;
    REFUSED(long_sum, "tiles are for one sum of products", n->tiled = true);
    REFUSED(long_product, "the operands of tiles are the factors of the products", nest->tiling.a = nest->tiling.b);
    REFUSED(long_product, "tiles have no vectors over the rows of all replicas", nest->loops[1].extent = DT_GATHERED);
    REFUSED(long_product, "tiles are of results, not along reduced loops", nest->tiling.row_loop = 2);
    REFUSED(long_product, "tiles have no part in the loop that nests share", (nest->in_rows = true, swap(&n->order[0], &n->order[1])));
    REFUSED(long_product, "tiles have no part in the loop that a nest's parts share out",
            (nest->part_iterations = 1, swap(&n->order[0], &n->order[1])));
    REFUSED(long_product, "the operands of tiles are loads without guard", nest->instructions[1].guard = nest->instructions[1].otherwise = 0);
    REFUSED(long_product, "vectors are neighbours in operand b of tiles", nest->instructions[nest->tiling.b].address.coefficients[1] = 2);
    REFUSED(long_product, "operand b is the same for all rows of a tile", nest->instructions[nest->tiling.b].address.coefficients[0] = 1);
    REFUSED(long_product, "an index that is checked differs within a tile", add_check(arena, nest));
    REFUSED(long_product, "vectors of tiles are stored to neighbours", nest->stores[0].address.coefficients[1] = 2);
}

static void tiles_are_verified(void **state) {
    (void)state;
    REFUSED(long_sum, "without tiles there are no kinds of them", n->n_tiles = 1);
    REFUSED(long_product, "the vector loop of tiles is the one of the plan", n->vector_loop = 0);
    REFUSED(long_product, "a vector of tiles is one register", n->width = 16);
    REFUSED(long_product, "the rows of tiles are the innermost of the outer loops", swap(&n->order[0], &n->order[1]));
    REFUSED(long_product, "a tile has a row or more, and one to eight vectors", n->tile_vectors = 9);
    REFUSED(long_product, "a tile has a row or more, and one to eight vectors", n->tile_rows = 0);
    REFUSED(long_product, "without a loop over rows, a tile has one", nest->tiling.row_loop = -1);
    REFUSED(long_product, "there is a kind of tiles for each size", n->n_tiles--);
    REFUSED(long_product, "the chains of a tile are a power of two", n->tiles[0].chains = 3);
    REFUSED(long_product, "the iterations that are one have a product for each chain", n->tiles[0].chains = 8);
}

static void packing_is_verified(void **state) {
    (void)state;
    REFUSED(turned_product, "a is packed where b is", n->packed_loop = -1);
    REFUSED(turned_product, "the packed loop is the innermost of the reduced ones", n->packed_loop = 0);
    REFUSED(convolution, "of several reduced loops two at most are packed",
            (n->packed_loop = n->order[nest->n_loops - 1], n->unrolled[n->packed_loop] = false));
    REFUSED(batched_product, "a packed block serves all loops inside of its own", swap(&n->order[0], &n->order[1]));
    REFUSED(turned_product, "the loop around the packed one is reduced", n->packed_around = 0);
    REFUSED(turned_product, "a packed loop runs in parts where the sum is stored as it is", nest->stores[0].guard = 0);
    REFUSED(turned_product, "a packed loop runs in parts where the sum is stored as it is", n->depth = 0);
    REFUSED(turned_product, "a packed block fits its memory", n->depth = 1025);
    REFUSED(long_product, "packed blocks are of whole registers, of a loop of constant extent",
            (nest->loops[1].extent = DT_BATCH, n->tile_vectors = n->tiles[0].vectors = n->tiles[1].vectors = 1));
    REFUSED(turned_product, "rows that are packed are those of all blocks",
            (nest->tiling.row_loop = -1, n->tile_rows = n->tiles[0].rows = 1, n->packed_rows = 72));
    REFUSED(turned_product, "where rows are packed, the sums are stored as they are", (nest->loops[2].extent = n->depth, nest->stores[0].guard = 0));
    REFUSED(two_sums, "rows that are packed over two loops are neighbours",
            nest->instructions[nest->tiling.a].address.coefficients[nest->tiling.row_loop] = 2);
    REFUSED(turned_product, "rows are packed for whole tiles", n->packed_rows = 127);
    REFUSED(turned_product, "no more rows are packed than there are", (n->packed_rows = 516, n->tiles[1].rows = 5));
    REFUSED(turned_product, "packed rows, or their elements, are neighbours", nest->instructions[nest->tiling.a].address.coefficients[0] = 2);
    REFUSED(turned_product, "between packed rows there is room for the end of a vector", n->packed_gap = 0);
    REFUSED(turned_product, "packed rows fit their memory", n->packed_rows = 504);
}

/* Makes the result a part of operand a: a column, somewhere between two lines. */
static void make_view_of_result(const chosen *c) {
    static const int64_t strides[] = {800 * 512, 512, 1};
    static dt_view view = {.axis = 2, .strides = strides};
    const dt_plan *plan = c->compilation.plans[0];
    const dt_kernel_function *kernel = &plan->kernels[plan->n_kernels - 1];
    view.of = kernel->buffers[c->nest->instructions[0].address.buffer];
    plan->buffers[kernel->buffers[c->nest->stores[0].address.buffer]].view = &view;
}

static void stores_are_verified(void **state) {
    (void)state;
    REFUSED(long_sum, "a streaming store writes whole vectors, of a map", n->stores[0] = DT_STORE_STREAMING);
    REFUSED(large_map, "a buffer of streaming stores begins at a line", make_view_of_result(&c));
    REFUSED(small_map, "vectors of streaming stores begin at lines", n->stores[0] = DT_STORE_STREAMING);
    REFUSED(large_map, "what streaming stores write, no nest of the kernel loads",
            nest->instructions[0].address.buffer = nest->stores[0].address.buffer);
    REFUSED(large_map, "what tiles are stored over is prefetched", n->stores[0] = DT_STORE_PREFETCHED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_level_has_its_choices), cmocka_unit_test(orders_are_verified),         cmocka_unit_test(vectors_are_verified),
        cmocka_unit_test(unrolling_is_verified),      cmocka_unit_test(nests_of_tiles_are_verified), cmocka_unit_test(tiles_are_verified),
        cmocka_unit_test(packing_is_verified),        cmocka_unit_test(stores_are_verified),         cmocka_unit_test(sums_in_memory_are_verified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
