/* cuda_folds: the functions by which a GPU folds replicas, run by emulation, have the bits of runtime/comm/fold.c. */
#include "base/cpu.h"
#include "base/half.h"
#include "runtime/comm/fold.h"
#include "tests/support/emulated.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    N = 1027, /* elements: some of them behind the last whole vector */
    LEAVES = 3,
    MOST_BYTES = N * 8
};

static const dt_combiner combiners[] = {DT_COMBINE_SUM, DT_COMBINE_MAX, DT_COMBINE_MIN}; /* by dt_fold */

/* A program whose collectives fold each dtype by each combiner. */
static void make(dt_arena *arena, emulated_code *code) {
    dt_function function = {.name = "f"};
    dt_plan plan = {.function = &function, .rows_at_once = true, .n_buffers = DT_N_DTYPES, .n_segments = 1};
    dt_collective collectives[3 * DT_N_DTYPES];
    dt_segment segment = {.collectives = collectives};
    dt_compilation compilation = {.arena = arena, .n_plans = 1, .plans = (dt_plan *[]){&plan}};
    plan.buffers = DT_NEW_ARRAY(arena, dt_buffer, DT_N_DTYPES);
    plan.segments = &segment;
    for (int d = 0; d < DT_N_DTYPES; d++) {
        plan.buffers[d].dtype = (dt_dtype)d;
        for (int c = 0; c < 3; c++)
            if (d != DT_BOOL || c != DT_FOLD_SUM)
                collectives[segment.n_collectives++] = (dt_collective){.kind = "all_reduce", .combiner = combiners[c], .source = d};
    }
    dt_status *status = emulated_make(&compilation, code);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    assert_int_equal(code->program.n_folds, code->program.n_sources);
}

static void launch(emulated_code *code, const char *what, const char *of, const char *dtype, void *const *arguments) {
    char name[64];
    snprintf(name, sizeof name, "dt_%s%s_%s", what, of, dtype);
    const char *wrong = code->launch(name, arguments, 2, 256, code->how, 1);
    if (wrong != NULL) fail_msg("%s: %s", name, wrong);
}

typedef struct block {
    _Alignas(64) char bytes[MOST_BYTES];
} block;

/* ((leaf 0 + leaf 1) + leaf 2), as the tree has it, into `result`. */
static void fold_by_functions(emulated_code *code, dt_fold fold, dt_dtype dtype, const block *leaves, block *result) {
    static block wide[LEAVES];
    static const char *const folds[] = {"sum", "max", "min"};
    bool converts = dtype == DT_F16 || dtype == DT_BF16;
    void *count = (void *)(uintptr_t)N;
    const char *name = dt_dtype_name(dtype), *folded = converts ? "f32" : name;
    char fold_name[16];
    snprintf(fold_name, sizeof fold_name, "fold_%s", folds[fold]);
    for (int l = 0; l < LEAVES; l++) {
        wide[l] = leaves[l];
        if (converts) launch(code, "widen", "", name, (void *[]){wide[l].bytes, (void *)(uintptr_t)leaves[l].bytes, count});
    }
    launch(code, fold_name, "", folded, (void *[]){wide[0].bytes, wide[0].bytes, wide[1].bytes, count});
    launch(code, fold_name, "", folded, (void *[]){converts ? wide[0].bytes : result->bytes, wide[0].bytes, wide[2].bytes, count});
    if (converts) launch(code, "narrow", "", name, (void *[]){result->bytes, wide[0].bytes, count});
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
    static block leaves[LEAVES], want, got;
    static char scratch[1 << 16];
    const void *places[LEAVES] = {leaves[0].bytes, leaves[1].bytes, leaves[2].bytes};
    dt_arena *arena = dt_arena_create();
    emulated_code code;
    unsigned seed = 5;
    make(arena, &code);
    assert_true(dt_fold_scratch_bytes(LEAVES) + 64 <= sizeof scratch);
    for (int d = 0; d < DT_N_DTYPES; d++)
        for (int fold = 0; fold < 3; fold++) {
            if (d == DT_BOOL && fold == DT_FOLD_SUM) continue;
            code.how = fold;
            for (int l = 0; l < LEAVES; l++) fill(&leaves[l], (dt_dtype)d, &seed);
            void *target = want.bytes, *aligned = scratch + 64 - (uintptr_t)scratch % 64;
            dt_fold_leaves((dt_fold)fold, (dt_dtype)d, places, NULL, LEAVES, 0, N, aligned, &target, 1);
            fold_by_functions(&code, (dt_fold)fold, (dt_dtype)d, leaves, &got);
            if (memcmp(want.bytes, got.bytes, N * dt_dtype_bytes((dt_dtype)d)) != 0)
                fail_msg("%s by %s: other bits", dt_dtype_name((dt_dtype)d), dt_combiner_name(combiners[fold]));
        }
    emulated_free(&code);
    dt_arena_destroy(arena);
}

/* Buffers are aligned; what is not would be an error on the device. */
static void an_address_between_is_found(void **state) {
    (void)state;
    static block left, right;
    dt_arena *arena = dt_arena_create();
    emulated_code code;
    make(arena, &code);
    const char *wrong = code.launch("dt_fold_sum_f32", (void *[]){left.bytes, left.bytes + 4, right.bytes, (void *)(uintptr_t)64}, 1, 256, 0, 1);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, "not aligned"));
    emulated_free(&code);
    dt_arena_destroy(arena);
}

int main(void) {
    if (!emulated_is_possible()) return 77;
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_bits_are_those_of_the_cpu), cmocka_unit_test(an_address_between_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
