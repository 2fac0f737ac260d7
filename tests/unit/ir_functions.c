/* functions: every expansion, computed as kernels do, against libm: over its domain within the stated error, and right at the edges. */
#include "ir/evaluate.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static dt_evaluation *prepare(dt_arena *arena, size_t function, dt_dtype dtype) {
    dt_formula *expansion;
    dt_evaluation *evaluation = NULL;
    dt_dtype dtypes[] = {dtype, dtype};
    dt_status *status = dt_scalar_function_expansion(arena, function, dtype, &expansion);
    if (status == NULL) status = dt_evaluation_prepare(arena, expansion, dtypes, dtype, DT_ARITHMETIC_KERNEL, &evaluation);
    if (status != NULL) fail_msg("%s: %s", dt_scalar_function_at(function)->name, dt_status_message(status));
    return evaluation;
}

static double compute(const dt_evaluation *evaluation, double x, double y) {
    dt_scalar operands[] = {{.f = x}, {.f = y}};
    return dt_evaluate(evaluation, &(dt_evaluation_context){.operands = operands}).f;
}

/* The distance of two neighbours of dtype near `value`. */
static double unit_of(double value, dt_dtype dtype) {
    double size = fabs(value);
    if (dtype == DT_F32) return size < (double)FLT_MIN ? 0x1p-149 : ldexp(1, ilogb(size) - 23);
    return size < DBL_MIN ? 0x1p-1074 : ldexp(1, ilogb(size) - 52);
}

/* In units of the last place; 0 where both are the same infinity or both NaN. Results below the normal numbers may be flushed to 0. */
static double error_of(double value, double wanted, dt_dtype dtype) {
    double largest = dtype == DT_F32 ? (double)FLT_MAX : DBL_MAX, least = dtype == DT_F32 ? (double)FLT_MIN : DBL_MIN;
    if (isnan(wanted) || isnan(value)) return isnan(wanted) && isnan(value) ? 0 : INFINITY;
    if (fabs(wanted) > largest) return fabs(value) >= largest && signbit(value) == signbit(wanted) ? 0 : INFINITY;
    if (fabs(wanted) < least && fabs(value) <= least) return 0;
    return fabs(value - wanted) / unit_of(wanted, dtype);
}

static double as_stored(double value, dt_dtype dtype) { return dt_scalar_round((dt_scalar){.f = value}, dtype).f; }

/* The i-th of n points: half of them even over [low, high], half spread over the magnitudes. */
static double point(double low, double high, int i, int n, dt_dtype dtype) {
    double even = low + (high - low) * (i / 2) / (n / 2.0 - 1);
    double x = i % 2 ? even : even * exp2(-30.0 * rand() / RAND_MAX);
    return as_stored(x, dtype);
}

static void expansions_are_as_good_as_stated(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    for (size_t f = 0; f < dt_n_scalar_functions; f++) {
        const dt_scalar_function *function = dt_scalar_function_at(f);
        double x_low, x_high, y_low = 0, y_high = 0;
        int n_read = sscanf(function->domain, "%lf, %lf; %lf, %lf", &x_low, &x_high, &y_low, &y_high);
        assert_int_equal(n_read, 2 * function->n_arguments);
        for (dt_dtype dtype = DT_F32; dtype <= DT_F64; dtype += DT_F64 - DT_F32) {
            dt_evaluation *evaluation = prepare(arena, f, dtype);
            double worst = 0, worst_x = 0, worst_y = 0;
            enum {
                N = 100000
            };
            for (int i = 0; i < N; i++) {
                double x = point(x_low, x_high, i, N, dtype), y = point(y_low, y_high, (int)((long)i * 7919 % N), N, dtype);
                double error = error_of(compute(evaluation, x, y), function->oracle(x, y), dtype);
                if (!(error > worst)) continue;
                worst = error, worst_x = x, worst_y = y;
            }
            print_message("%-6s %s  %.3f ulp at %.17g, %.17g\n", function->name, dt_dtype_name(dtype), worst, worst_x, worst_y);
            double stated = dtype == DT_F32 ? function->f32_ulp : function->f64_ulp;
            if (!(worst <= stated)) print_error("%s: stated are %g ulp\n", function->name, stated);
            assert_true(worst <= stated);
        }
    }
    dt_arena_destroy(arena);
}

static void edges_are_right(void **state) {
    (void)state;
    static const double edges[] = {0,    -0.0, 1,    -1,    INFINITY, -INFINITY, NAN,   0x1p-149, 0x1p-126, -0x1p-126, 0.5,
                                   2,    88.7, 88.8, -87.3, -104,     -200,      200,   3e38,     -3e38,    1e-30,     -1e-30,
                                   -0.5, 3,    -1.5, -2,    -3,       709.7,     710.5, 1e300,    -1e300,   1e-300};
    enum {
        N = sizeof edges / sizeof *edges
    };
    dt_arena *arena = dt_arena_create();
    for (size_t f = 0; f < dt_n_scalar_functions; f++) {
        const dt_scalar_function *function = dt_scalar_function_at(f);
        bool periodic = strcmp(function->name, "sin") == 0 || strcmp(function->name, "cos") == 0;
        for (dt_dtype dtype = DT_F32; dtype <= DT_F64; dtype += DT_F64 - DT_F32) {
            dt_evaluation *evaluation = prepare(arena, f, dtype);
            for (int i = 0; i < N * (function->n_arguments == 2 ? N : 1); i++) {
                double x = as_stored(edges[i % N], dtype), y = as_stored(edges[i / N], dtype);
                if (periodic && fabs(x) > 1e5 && !isinf(x)) continue;
                double value = compute(evaluation, x, y), wanted = function->oracle(x, y);
                bool negative_zero = function->n_arguments == 2 && x == 0 && signbit(x);
                if (!negative_zero && !(error_of(value, wanted, dtype) <= 1e4))
                    fail_msg("%s %s of %g, %g is %g, not %g", function->name, dt_dtype_name(dtype), x, y, value, wanted);
            }
        }
    }
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expansions_are_as_good_as_stated),
        cmocka_unit_test(edges_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
