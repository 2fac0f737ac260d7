/* check: data that fits what a step does with it, and mistakes of each kind that dtc check looks for, planted into gradients and passes.
 *
 * The test holds the pass simplify and ir/gradient.c itself, under other names, and puts its own before them: after the real one a mistake is made.
 */
#define dt_pass_simplify simplified
#include "compiler/passes/simplify.c"
#undef dt_pass_simplify

#define dt_op_gradient row_gradient
#include "ir/gradient.c"
#undef dt_op_gradient

#include "compiler/check.h"
#include "frontends/dsl/dsl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

typedef enum mistake {
    NONE,
    WRAPS,    /* max(x + c) of integers as max(x) + c */
    NARROW,   /* a sum in f32 of f16 as one in f16 */
    BRANCHES, /* the gradient of a square is no more differentiated where an element is 0 */
} mistake;
static mistake planted;

/* ---- mistakes ---- */

static dt_status *wrap(dt_value *value) {
    dt_value *sum = value->operands[0], *most, *constant, *wrong;
    dt_builder builder = {value->function, value->next, value->n_locations, value->locations, NULL};
    dt_value *operands[] = {sum->operands[0]};
    DT_TRY(dt_build(&builder, value->op, operands, 1, value->attributes, &most));
    DT_TRY(dt_build_constant_like(&builder, &constant, sum->operands[1], most->shape));
    DT_TRY(dt_build_binary(&builder, &wrong, "add", most, constant));
    dt_value_replace(value, wrong);
    return NULL;
}

static dt_status *narrow(dt_value *value) {
    dt_value *narrow, *wrong;
    dt_builder builder = {value->function, value->next, value->n_locations, value->locations, NULL};
    dt_value *operands[] = {value->operands[0]->operands[0]};
    DT_TRY(dt_build(&builder, value->op, operands, 1, value->attributes, &narrow));
    DT_TRY(dt_build_convert(&builder, &wrong, narrow, value->dtype));
    dt_value_replace(value, wrong);
    return NULL;
}

dt_status *dt_pass_simplify(dt_compilation *compilation) {
    DT_TRY(simplified(compilation));
    for (size_t f = 0; f < compilation->module->functions.n; f++) {
        dt_function *function = compilation->module->functions.items[f];
        for (dt_value *value = function->first, *next; value != NULL; value = next) {
            next = value->next;
            const dt_value *x = value->n_operands > 0 ? value->operands[0] : NULL;
            if (planted == WRAPS && dt_value_is(value, "reduce_max") && dt_value_is(x, "add")) DT_TRY(wrap(value));
            if (planted == NARROW && dt_value_is(value, "reduce_sum") && dt_value_is(x, "convert") && x->operands[0]->dtype == DT_F16)
                DT_TRY(narrow(value));
        }
        dt_function_sweep(function);
        dt_function_renumber(function);
    }
    return NULL;
}

dt_status *dt_op_gradient(dt_builder *builder, dt_value *value, dt_value *g, const bool *wanted, dt_value **gradients) {
    DT_TRY(row_gradient(builder, value, g, wanted, gradients));
    if (planted != BRANCHES || !dt_value_is(value, "square") || gradients[0] == NULL) return NULL;
    dt_value *zero, *is_zero, *stopped;
    DT_TRY(dt_build_constant(builder, &zero, gradients[0]->dtype, 0, gradients[0]->shape));
    DT_TRY(dt_build_binary(builder, &is_zero, "equal", value->operands[0], zero));
    DT_TRY(dt_build_unary(builder, &stopped, "stop_gradient", gradients[0]));
    return dt_build(builder, dt_op_find("where"), (dt_value *[]){is_zero, stopped, gradients[0]}, 3, NULL, &gradients[0]);
}

/* ---- what is found ---- */

static dt_module *elaborate(dt_arena *arena, const char *source) {
    dt_diagnostics *diagnostics = dt_diagnostics_create(arena);
    dt_module *module = NULL;
    dt_status *status = dt_dsl_compile(arena, "t.dt", source, NULL, diagnostics, &module);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    if (module == NULL) fail_msg("not elaborated: %s", source);
    return module;
}

typedef dt_status *(*check_function)(dt_arena *arena, const dt_check *check, size_t step, int64_t rows, dt_finding *finding);

static bool is_wrong(const char *source, check_function run, mistake mistake) {
    dt_arena *arena = dt_arena_create();
    dt_check check = {0};
    dt_finding finding = {0};
    planted = NONE;
    dt_status *status = dt_check_prepare(arena, elaborate(arena, source), &check);
    planted = mistake;
    if (status == NULL) status = run(arena, &check, 0, 2, &finding);
    planted = NONE;
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    assert_true(finding.n > 0);
    dt_arena_destroy(arena);
    return finding.wrong;
}

static void passes_may_not_let_integers_wrap(void **state) {
    (void)state;
    static const char source[] = "step s(x: u8[B, 4]) { return y: max(x + 200, axis: 1) }";
    assert_false(is_wrong(source, dt_check_passes, NONE));
    assert_true(is_wrong(source, dt_check_passes, WRAPS));
}

static void passes_may_not_narrow_sums(void **state) {
    (void)state;
    static const char source[] = "step s(x: f16[B, 8]) { return y: sum(f32(x * x), axis: 1) }";
    assert_false(is_wrong(source, dt_check_passes, NONE));
    assert_true(is_wrong(source, dt_check_passes, NARROW));
}

static void gradients_of_gradients_hold_at_zeros(void **state) {
    (void)state;
    static const char source[] = "step s(x: f32[B, 3]) {\n    g = grad(sum(square(square(x) + x)), x)\n    return h: grad(sum(g), x)\n}";
    assert_false(is_wrong(source, dt_check_gradients, NONE));
    assert_true(is_wrong(source, dt_check_gradients, BRANCHES));
}

/* Slopes are taken with what stop_gradient gives held still: what it hides is no mistake, and hides none. */
static void stopped_gradients_are_held_still(void **state) {
    (void)state;
    static const char source[] = "step s(x: f32[B, 3]) {\n    y = stop_gradient(x + 1) * square(square(x) + x)\n    return g: grad(sum(y), x), "
                                 "h: grad(sum(grad(sum(y), x)), x)\n}";
    assert_false(is_wrong(source, dt_check_gradients, NONE));
    assert_true(is_wrong(source, dt_check_gradients, BRANCHES));
}

/* ---- data ---- */

static void whole_numbers_fit_their_use(void **state) {
    (void)state;
    static const char source[] =
        "use nn, losses\n"
        "model Net(x: f32[B, 4], id: i32[B, T]) -> f32[B, 7] { return dense(x, units: 7) + sum(embedding(id, rows: 33, width: 7), axis: 1) }\n"
        "step s(x: f32[B, 4], id: i32[B, 5], label: u8[B], guess: i64[B], mask: u8[B, 5, 5], kept: u8[B, 2, 2], image: u8[B, 6, 6], word: i32[B], "
        "class: "
        "i32[B], flag: bool[B], wide: u8[B]) {\n"
        "    logits = Net(x, id)\n"
        "    weight = x[:, :1, newaxis] * f32(mask)\n"
        "    report loss: mean(sparse_categorical_crossentropy(label, logits)), right: mean(argmax(logits) == guess), weight: sum(weight),\n"
        "           kept: sum(where(kept != 0, 1.0, 0.0)), light: mean(f32(image) / 255), words: mean(word == 9), hot: sum(one_hot(class, 11)),\n"
        "           flag: mean(flag), wrapped: max(wide + 3)\n"
        "}";
    static const int64_t wanted[] = {2, 33, 7, 7, 2, 2, 256, 10, 11, 2, 256};
    dt_arena *arena = dt_arena_create();
    const dt_function *function = elaborate(arena, source)->steps.items[0].function;
    dt_check_data data = dt_check_data_of(arena, function, DT_CHECK_PLAIN);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const dt_value *input = function->inputs.items[i];
        if (data.n_values[i] != wanted[i]) fail_msg("%s: %lld values, not %lld", input->name, (long long)data.n_values[i], (long long)wanted[i]);
        dt_tensor tensor = dt_check_input(arena, &data, input, (int)i, 0, 64);
        double greatest = 0;
        for (size_t e = 0; e < dt_tensor_elements(&tensor); e++) {
            assert_true(dt_tensor_get(&tensor, e) >= 0);
            greatest = dt_tensor_get(&tensor, e) > greatest ? dt_tensor_get(&tensor, e) : greatest;
        }
        if (!dt_dtype_is_float(input->dtype)) assert_true(greatest < (double)wanted[i] && greatest >= 0.6 * (double)(wanted[i] - 1));
    }
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_may_not_let_integers_wrap),     cmocka_unit_test(passes_may_not_narrow_sums),
        cmocka_unit_test(gradients_of_gradients_hold_at_zeros), cmocka_unit_test(stopped_gradients_are_held_still),
        cmocka_unit_test(whole_numbers_fit_their_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
