/* scalar, formula, evaluate: small formats bit by bit, literals that take their neighbour's type, integers that wrap, shared nodes that are shared.
 */
#include "base/half.h"
#include "ir/evaluate.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void half_precision_rounds_to_even_and_comes_back(void **state) {
    (void)state;
    static const struct {
        double value;
        dt_dtype dtype;
        unsigned bits;
    } cases[] = {
        {1, DT_F16, 0x3c00},        {-2, DT_F16, 0xc000},          {65504, DT_F16, 0x7bff},       {65519, DT_F16, 0x7bff},
        {65520, DT_F16, 0x7c00},    {0x1p-24, DT_F16, 0x0001},     {0x1p-25, DT_F16, 0x0000},     {0x1.8p-24, DT_F16, 0x0002},
        {0x1p-14, DT_F16, 0x0400},  {0x1.ff8p-15, DT_F16, 0x03ff}, {1 + 0x1p-11, DT_F16, 0x3c00}, {1 + 0x3p-11, DT_F16, 0x3c02},
        {INFINITY, DT_F16, 0x7c00}, {-0.0, DT_F16, 0x8000},        {1, DT_BF16, 0x3f80},          {0x1p-133, DT_BF16, 0x0001},
        {3.4e38, DT_BF16, 0x7f80},  {1 + 0x1p-8, DT_BF16, 0x3f80}, {1 + 0x3p-8, DT_BF16, 0x3f82}, {-INFINITY, DT_BF16, 0xff80},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t bits, again;
        dt_scalar_store(&bits, cases[i].dtype, (dt_scalar){.f = cases[i].value});
        if (bits != cases[i].bits) fail_msg("%g is 0x%04x, not 0x%04x", cases[i].value, cases[i].bits, bits);
        dt_scalar_store(&again, cases[i].dtype, dt_scalar_load(&bits, cases[i].dtype));
        assert_int_equal(again, bits);
    }
    for (unsigned bits = 0; bits < 0x10000; bits++) /* all of both formats; NaNs become the one quiet NaN */
        for (dt_dtype dtype = DT_F16; dtype <= DT_BF16; dtype++) {
            uint16_t in = (uint16_t)bits, out;
            dt_scalar value = dt_scalar_load(&in, dtype);
            dt_scalar_store(&out, dtype, value);
            assert_true(isnan(value.f) || out == in);
        }
}

static void factors_are_rounded_as_their_precision_says(void **state) {
    (void)state;
    static const struct {
        double factor, tf32, bf16;
    } cases[] = {
        {1, 1, 1},
        {1 + 0x1p-11, 1 + 0x1p-10, 1}, /* the middle: away from 0 in tf32 */
        {-1 - 0x1p-11, -1 - 0x1p-10, -1},
        {1 + 0x3p-11, 1 + 0x1p-9, 1},
        {1 + 0x1p-11 - 0x1p-23, 1, 1},
        {1 + 0x1p-8, 1 + 0x1p-8, 1}, /* the middle: to even in bf16 */
        {1 + 0x3p-8, 1 + 0x3p-8, 1 + 0x1p-6},
        {1 + 0x1p-8 + 0x1p-23, 1 + 0x1p-8, 1 + 0x1p-7},
        {0x1p-149, 0, 0},
        {0x1p-137, 0x1p-136, 0},
        {-0x1p-133, -0x1p-133, -0x1p-133},
        {FLT_MAX, INFINITY, INFINITY},
        {-0x1.fep127, -0x1.fep127, -0x1.fep127},
        {-INFINITY, -INFINITY, -INFINITY},
        {NAN, NAN, NAN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double factor = cases[i].factor, tf32 = dt_factor_round(factor, DT_PRECISION_TF32), bf16 = dt_factor_round(factor, DT_PRECISION_BF16);
        bool right = isnan(factor) ? isnan(tf32) && isnan(bf16) : tf32 == cases[i].tf32 && bf16 == cases[i].bf16;
        if (!right) fail_msg("%a becomes %a in tf32 and %a in bf16", factor, tf32, bf16);
        assert_true(dt_factor_round(factor, DT_PRECISION_F32) == factor || isnan(factor));
    }
    for (uint32_t bits = 0; bits < 0xff000000u; bits += 0x7ff) { /* as bits are rounded */
        float factor = dt_f32_from_bits(bits), tf32 = dt_tf32_from_f32(factor), bf16 = dt_f32_from_bf16(dt_bf16_from_f32(factor));
        bool same = dt_factor_round(factor, DT_PRECISION_TF32) == tf32 && dt_factor_round(factor, DT_PRECISION_BF16) == bf16;
        if (!same && !(isnan(factor) && isnan(tf32) && isnan(bf16))) fail_msg("%a is rounded in two ways", factor);
    }
}

static void conversions_truncate_and_saturate(void **state) {
    (void)state;
    assert_int_equal(dt_scalar_convert((dt_scalar){.f = -1.9}, DT_F32, DT_I32).i, -1);
    assert_int_equal(dt_scalar_convert((dt_scalar){.f = 300}, DT_F32, DT_U8).i, 255);
    assert_int_equal(dt_scalar_convert((dt_scalar){.f = -3}, DT_F32, DT_U8).i, 0);
    assert_int_equal(dt_scalar_convert((dt_scalar){.f = NAN}, DT_F64, DT_I64).i, 0);
    assert_true(dt_scalar_convert((dt_scalar){.f = 1e30}, DT_F64, DT_I64).i == INT64_MAX);
    assert_true(dt_scalar_convert((dt_scalar){.f = -1e30}, DT_F64, DT_I64).i == INT64_MIN);
    assert_int_equal(dt_scalar_convert((dt_scalar){.i = 257}, DT_I64, DT_U8).i, 1);
    assert_int_equal(dt_scalar_convert((dt_scalar){.f = 0.5}, DT_F64, DT_BOOL).i, 1);
}

/* Two values side by side: what a compiler vectorises must still be rounded. */
static void rounding_to_f32_is_not_optimised_away(void **state) {
    (void)state;
    volatile double in[2] = {0.1, 1e300};
    double x = in[0], y = in[1];
    double rounded[2] = {(double)(float)x, (double)(float)y};
    assert_true(rounded[0] == 0x1.99999ap-4 && isinf(rounded[1]));
}

/* The value of `text` for x and y, which have dtype. */
static dt_scalar value_of(const char *text, dt_dtype dtype, dt_scalar x, dt_scalar y) {
    dt_arena *arena = dt_arena_create();
    dt_formula *formula;
    dt_evaluation *evaluation = NULL;
    dt_dtype dtypes[] = {dtype, dtype};
    dt_status *status = dt_formula_parse(arena, text, (const char *[]){"x", "y"}, 2, NULL, 0, &formula);
    if (status == NULL) status = dt_evaluation_prepare(arena, formula, dtypes, dtype, DT_ARITHMETIC_ORACLE, &evaluation);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    dt_scalar operands[] = {x, y};
    dt_launch launch = {.rows = 11, .seed = 13};
    int64_t loops[] = {5, 7};
    dt_scalar value = dt_evaluate(evaluation, &(dt_evaluation_context){.operands = operands, .loops = loops, .launch = &launch});
    dt_arena_destroy(arena);
    return value;
}

static double of_floats(const char *text, double x, double y) { return value_of(text, DT_F64, (dt_scalar){.f = x}, (dt_scalar){.f = y}).f; }
static int64_t of_integers(const char *text, int64_t x, int64_t y) { return value_of(text, DT_I64, (dt_scalar){.i = x}, (dt_scalar){.i = y}).i; }

static void precedence_is_that_of_c(void **state) {
    (void)state;
    assert_true(of_floats("x + y * 2", 3, 4) == 11);
    assert_true(of_floats("x - y - 2", 3, 4) == -3);
    assert_true(of_floats("-x * y", 3, 4) == -12);
    assert_true(of_floats("x / y / 2", 8, 2) == 2);
    assert_true(of_floats("where((x > 2) & (y >= 4) | (x == 100), 1, 0.5)", 3, 4) == 1);
    assert_true(of_floats("where(x > 2 & y < 4, 1, 0.5)", 3, 4) == 0.5);
    assert_true(of_floats("e = x * x; f = e + 1; e / f", 3, 0) == 0.9);
    assert_true(of_floats("x = x + 1; x * x", 3, 0) == 16);
    assert_true(isnan(of_floats("max(x, y)", 1, NAN)) && isnan(of_floats("min(x, y)", NAN, 1)));
    assert_true(of_floats("where(x < inf, -inf, nan)", 1, 0) == -INFINITY);
    assert_true(of_floats("f64(loop(1)) + f64(launch(seed)) + f64(inside(x))", 0, 0) == 21);
}

static void integers_wrap_and_divide_by_0(void **state) {
    (void)state;
    assert_true(of_integers("x * y", INT64_MAX, 2) == -2);
    assert_int_equal(of_integers("x / y", 7, 0), 0);
    assert_int_equal(of_integers("rem(x, y)", -7, 2), -1);
    assert_true(of_integers("x / y", INT64_MIN, -1) == INT64_MIN);
    assert_int_equal(of_integers("i64(mulhi(i32(x), i32(y)))", 0xffffffff, 0xffffffff), (int32_t)0xfffffffe);
    assert_int_equal(of_integers("i64(shr(i32(x), 28))", -1, 0), 15);
    assert_true(of_integers("shl(x, 63)", 3, 0) == INT64_MIN);
    assert_true(of_integers("x ^ 0xffffffffffffffff", 5, 0) == ~INT64_C(5));
    assert_int_equal(of_integers("bits_i64(bits_f64(x)) + i64(bits_i32(f32(1)))", 5, 0), 5 + 0x3f800000);
}

static void wrong_formulas_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "", "x +", "(x", "x y", "z", "nosuch(x)", "max(x)", "fma(x, x, x, x)", "e = x", "loop(x)", "launch(nosuch)", "1 = x; x", "x @ y"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dt_arena *arena = dt_arena_create();
        dt_formula *formula;
        dt_status *status = dt_formula_parse(arena, wrong[i], (const char *[]){"x", "y"}, 2, NULL, 0, &formula);
        if (status == NULL) fail_msg("\"%s\" was accepted", wrong[i]);
        dt_status_free(status);
        dt_arena_destroy(arena);
    }
}

static void shared_nodes_cost_once(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    dt_formula *formula;
    dt_evaluation *evaluation;
    char text[1024] = "";
    size_t n = 0;
    for (int i = 0; i < 60; i++) n += (size_t)snprintf(text + n, sizeof text - n, "x = x * x; ");
    snprintf(text + n, sizeof text - n, "x + x"); /* 2^61 operations, were nodes not shared */
    assert_null(dt_formula_parse(arena, text, (const char *[]){"x"}, 1, NULL, 0, &formula));
    assert_true(formula->arguments[0] == formula->arguments[1]);
    assert_null(dt_evaluation_prepare(arena, formula, (dt_dtype[]){DT_F32}, DT_F32, DT_ARITHMETIC_ORACLE, &evaluation));
    assert_true(dt_evaluate(evaluation, &(dt_evaluation_context){.operands = &(dt_scalar){.f = 1}}).f == 2);
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_precision_rounds_to_even_and_comes_back),
        cmocka_unit_test(factors_are_rounded_as_their_precision_says),
        cmocka_unit_test(conversions_truncate_and_saturate),
        cmocka_unit_test(rounding_to_f32_is_not_optimised_away),
        cmocka_unit_test(precedence_is_that_of_c),
        cmocka_unit_test(integers_wrap_and_divide_by_0),
        cmocka_unit_test(wrong_formulas_are_refused),
        cmocka_unit_test(shared_nodes_cost_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
