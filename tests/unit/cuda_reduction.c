/* cuda_reduction: the function by which a GPU reduces over replicas, run by emulation, has the bits of runtime/devices/reduce.c; and what the
 * emulation says of an access that is not aligned. */
#include "abi/reduction.h"
#include "base/cpu.h"
#include "base/half.h"
#include "runtime/devices/reduce.h"
#include "tests/support/emulated.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    N = 1027, /* elements: some of them behind the last whole vector */
    LEAVES = 7,
    MOST_BYTES = N * 8
};

static const dt_combiner combiners[] = {DT_COMBINE_SUM, DT_COMBINE_MAX, DT_COMBINE_MIN}; /* by dt_reduction_op */

/* A program whose collectives reduce each dtype by each combiner. */
static void make(dt_arena *arena, emulated_code *code) {
    dt_plan plan = {.name = "f", .batched = true, .n_buffers = DT_N_DTYPES, .n_segments = 1};
    dt_collective collectives[3 * DT_N_DTYPES];
    dt_segment segment = {.collectives = collectives};
    dt_compilation compilation = {.arena = arena, .target = DT_TARGET_CUDA, .n_plans = 1, .plans = (dt_plan *[]){&plan}};
    plan.buffers = DT_NEW_ARRAY(arena, dt_buffer, DT_N_DTYPES);
    plan.segments = &segment;
    for (int d = 0; d < DT_N_DTYPES; d++) {
        plan.buffers[d].dtype = (dt_dtype)d;
        for (int c = 0; c < 3; c++)
            if (d != DT_BOOL || c != DT_REDUCTION_SUM)
                collectives[segment.n_collectives++] = (dt_collective){.kind = DT_COLLECTIVE_ALL_REDUCE, .combiner = combiners[c], .source = d};
    }
    dt_status *status = emulated_make(&compilation, code);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    assert_int_equal(code->program.n_sources, 1);
    assert_string_equal(code->program.sources[code->program.reduction].name, "reduce_replicas");
}

typedef struct block {
    _Alignas(64) char bytes[MOST_BYTES];
} block;

static void launch(emulated_code *code, const dt_reduction_part *parts, int n_parts, int64_t n_elements) {
    dt_reduction_work work = {.parts = (int64_t)(intptr_t)parts, .n_parts = n_parts, .n_elements = n_elements};
    const char *wrong = code->launch("reduce_replicas", (void *[]){&work}, 1, 256, code->how, 1);
    if (wrong != NULL) fail_msg("%s", wrong);
}

static void reduce_on_cpu(dt_reduction_op op, dt_dtype dtype, const dt_tree_source *sources, int n, block *result) {
    _Alignas(64) static char scratch[1 << 16];
    void *target = result->bytes;
    assert_true(dt_reduce_scratch_bytes(n) <= sizeof scratch);
    dt_reduce(
        &(dt_tree_reduction){
            .dtype = dtype, .combine = op, .n_leaves = n, .n_sources = n, .sources = sources, .n_elements = N, .n_targets = 1, .targets = &target},
        scratch);
}

/* Two parts: a copy of leaf 0, and what all leaves give, in three places. Leaves 0 and 1 are reduced to leaf 0 already, where that rounds nothing. */
static void reduce_by_function(emulated_code *code, dt_reduction_op op, dt_dtype dtype, const block *leaves, block *copy, block *result) {
    static block first, again[2];
    dt_reduction_source all[LEAVES];
    bool converts = dtype == DT_F16 || dtype == DT_BF16;
    int n = 0;
    for (int l = 0; l < LEAVES; l++) all[n++] = (dt_reduction_source){(int64_t)(intptr_t)leaves[l].bytes, 1};
    if (!converts) {
        first = leaves[0];
        reduce_on_cpu(op, dtype, (dt_tree_source[]){{first.bytes, 1}, {leaves[1].bytes, 1}}, 2, &first);
        memmove(all + 1, all + 2, (LEAVES - 2) * sizeof *all);
        all[0] = (dt_reduction_source){(int64_t)(intptr_t)first.bytes, 2};
        n--;
    }
    dt_reduction_source alone = {(int64_t)(intptr_t)leaves[0].bytes, 1};
    int64_t others[] = {(int64_t)(intptr_t)again[0].bytes, (int64_t)(intptr_t)again[1].bytes};
    const dt_reduction_part parts[] = {
        {.target = (int64_t)(intptr_t)copy->bytes,
         .sources = (int64_t)(intptr_t)&alone,
         .n_sources = 1,
         .kind = DT_REDUCTION_KIND_COPY(dt_dtype_bytes(dtype))},
        {.target = (int64_t)(intptr_t)result->bytes,
         .others = (int64_t)(intptr_t)others,
         .n_others = 2,
         .sources = (int64_t)(intptr_t)all,
         .n_sources = n,
         .first = N,
         .kind = DT_REDUCTION_KIND(dtype, op, DT_REDUCTION_ALIKE)},
    };
    launch(code, parts, 2, 2 * N);
    for (int t = 0; t < 2; t++) assert_memory_equal(again[t].bytes, result->bytes, N * dt_dtype_bytes(dtype));
}

/* Any bits, of floats few that are no numbers: which NaN a sum of two becomes is not the same everywhere. */
static void fill(block *leaf, dt_dtype dtype, unsigned *seed) {
    static const double special[] = {0, -0.0, INFINITY, 1e-40, 3e38};
    for (int i = 0; i < N; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        double x = (*seed >> 8) % 16 == 0 ? special[(*seed >> 12) % 5] : ((double)(*seed >> 8) / (1 << 20) - 8);
        uint64_t bits = (uint64_t)*seed * 0x9e3779b97f4a7c15u;
        float f = (float)x;
        switch (dtype) {
        case DT_F32: memcpy(leaf->bytes + 4 * i, &f, 4); break;
        case DT_F64: memcpy(leaf->bytes + 8 * i, &x, 8); break;
        case DT_F16: bits = dt_f16_from_f32(f), memcpy(leaf->bytes + 2 * i, &bits, 2); break;
        case DT_BF16: bits = dt_bf16_from_f32(f), memcpy(leaf->bytes + 2 * i, &bits, 2); break;
        case DT_BOOL: leaf->bytes[i] = (char)(bits >> 20 & 1); break;
        default: memcpy(leaf->bytes + (size_t)i * dt_dtype_bytes(dtype), &bits, dt_dtype_bytes(dtype)); break;
        }
    }
}

static void the_bits_are_those_of_the_cpu(void **state) {
    (void)state;
    static block leaves[LEAVES], want, got, copy;
    dt_tree_source places[LEAVES];
    for (int l = 0; l < LEAVES; l++) places[l] = (dt_tree_source){leaves[l].bytes, 1};
    dt_arena *arena = dt_arena_create();
    emulated_code code;
    unsigned seed = 5;
    make(arena, &code);
    for (int d = 0; d < DT_N_DTYPES; d++)
        for (int op = 0; op < 3; op++) {
            if (d == DT_BOOL && op == DT_REDUCTION_SUM) continue;
            code.how = op;
            for (int l = 0; l < LEAVES; l++) fill(&leaves[l], (dt_dtype)d, &seed);
            reduce_on_cpu((dt_reduction_op)op, (dt_dtype)d, places, LEAVES, &want);
            reduce_by_function(&code, (dt_reduction_op)op, (dt_dtype)d, leaves, &copy, &got);
            assert_memory_equal(copy.bytes, leaves[0].bytes, N * dt_dtype_bytes((dt_dtype)d));
            if (memcmp(want.bytes, got.bytes, N * dt_dtype_bytes((dt_dtype)d)) != 0)
                fail_msg("%s by %s: other bits", dt_dtype_name((dt_dtype)d), dt_combiner_name(combiners[op]));
        }
    emulated_free(&code);
    dt_arena_destroy(arena);
}

/* Microbatches are summed in f32 in two parts, as two processes do, and the sum of those in f32 becomes f16 or bf16: the bits of one sum of all. */
static void sums_of_halves_cross_in_f32(void **state) {
    (void)state;
    enum {
        FIRST = 4 /* leaves of the first part */
    };
    static block leaves[LEAVES], parts[2], got, want;
    dt_tree_source places[LEAVES];
    dt_reduction_source sources[LEAVES];
    for (int l = 0; l < LEAVES; l++) {
        places[l] = (dt_tree_source){leaves[l].bytes, 1};
        sources[l] = (dt_reduction_source){(int64_t)(intptr_t)leaves[l].bytes, 1};
    }
    const dt_reduction_source nodes[] = {{(int64_t)(intptr_t)parts[0].bytes, FIRST}, {(int64_t)(intptr_t)parts[1].bytes, LEAVES - FIRST}};
    dt_reduction_source sum = {(int64_t)(intptr_t)parts[0].bytes, LEAVES};
    dt_arena *arena = dt_arena_create();
    emulated_code code;
    unsigned seed = 7;
    make(arena, &code);
    static const dt_dtype halves[] = {DT_F16, DT_BF16};
    for (int h = 0; h < 2; h++)
        for (int op = 0; op < 3; op++) {
            const dt_reduction_part local[] = {{.target = nodes[0].values,
                                                .sources = (int64_t)(intptr_t)sources,
                                                .n_sources = FIRST,
                                                .kind = DT_REDUCTION_KIND(halves[h], op, DT_REDUCTION_WIDE_TARGETS)},
                                               {.target = nodes[1].values,
                                                .sources = (int64_t)(intptr_t)(sources + FIRST),
                                                .n_sources = LEAVES - FIRST,
                                                .first = N,
                                                .kind = DT_REDUCTION_KIND(halves[h], op, DT_REDUCTION_WIDE_TARGETS)}};
            const dt_reduction_part across = {.target = nodes[0].values,
                                              .sources = (int64_t)(intptr_t)nodes,
                                              .n_sources = 2,
                                              .kind = DT_REDUCTION_KIND(DT_F32, op, DT_REDUCTION_ALIKE)};
            const dt_reduction_part rounded = {.target = (int64_t)(intptr_t)got.bytes,
                                               .sources = (int64_t)(intptr_t)&sum,
                                               .n_sources = 1,
                                               .kind = DT_REDUCTION_KIND(halves[h], op, DT_REDUCTION_WIDE_SOURCES)};
            for (int l = 0; l < LEAVES; l++) fill(&leaves[l], halves[h], &seed);
            reduce_on_cpu((dt_reduction_op)op, halves[h], places, LEAVES, &want);
            launch(&code, local, 2, 2 * N);
            launch(&code, &across, 1, N);
            launch(&code, &rounded, 1, N);
            assert_memory_equal(got.bytes, want.bytes, N * dt_dtype_bytes(halves[h]));
        }
    emulated_free(&code);
    dt_arena_destroy(arena);
}

/* Spans of 2^19 to 1: no two of them become one before the last is there. */
static void as_many_sums_are_open_as_may_be(void **state) {
    (void)state;
    static float values[DT_REDUCTION_DEPTH][N], got[N];
    dt_reduction_source leaves[DT_REDUCTION_DEPTH];
    dt_arena *arena = dt_arena_create();
    emulated_code code;
    make(arena, &code);
    for (int l = 0; l < DT_REDUCTION_DEPTH; l++) {
        leaves[l] = (dt_reduction_source){(int64_t)(intptr_t)values[l], (int64_t)1 << (DT_REDUCTION_DEPTH - 1 - l)};
        for (int i = 0; i < N; i++) values[l][i] = (float)(l + 1) / (float)(i + 3);
    }
    const dt_reduction_part part = {.target = (int64_t)(intptr_t)got,
                                    .sources = (int64_t)(intptr_t)leaves,
                                    .n_sources = DT_REDUCTION_DEPTH,
                                    .kind = DT_REDUCTION_KIND(DT_F32, DT_REDUCTION_SUM, DT_REDUCTION_ALIKE)};
    launch(&code, &part, 1, N);
    for (int i = 0; i < N; i++) {
        float want = values[DT_REDUCTION_DEPTH - 1][i];
        for (int l = DT_REDUCTION_DEPTH - 1; l-- > 0;) want = values[l][i] + want;
        assert_memory_equal(&got[i], &want, sizeof want);
    }
    emulated_free(&code);
    dt_arena_destroy(arena);
}

/* Buffers are aligned; what is not would be an error on the device. */
static void an_address_between_is_found(void **state) {
    (void)state;
    static block x;
    static const char *const names[] = {"twice"};
    dt_arena *arena = dt_arena_create();
    emulated_code code, reading = {0};
    make(arena, &code);
    const char *text = dt_arena_format(arena, "%sextern \"C\" __global__ void twice(float *x) { store<4>(x, load<4>(x)); }\n", code.program.head);
    dt_status *status = emulated_compile(text, names, 1, "", &reading);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    assert_null(reading.launch("twice", (void *[]){x.bytes}, 1, 1, 0, 1));
    const char *wrong = reading.launch("twice", (void *[]){x.bytes + 4}, 1, 1, 0, 1);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "not aligned"));
    emulated_free(&reading);
    emulated_free(&code);
    dt_arena_destroy(arena);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_bits_are_those_of_the_cpu), cmocka_unit_test(sums_of_halves_cross_in_f32),
                                       cmocka_unit_test(as_many_sums_are_open_as_may_be), cmocka_unit_test(an_address_between_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
