/* op_algebra: what rows of the op table say of neutral operands and involutions holds to the bit, for every type and at the edges of each. */
#include "tests/support/op_cases.h"
#include "tests/support/expect.h"

#include <math.h>
#include <stdio.h>

enum {
    N_ELEMENTS = 12
};

/* Numbers that a rule could get wrong: both zeros, infinities, NaN, the smallest, the ends of integers. */
static void fill_with_edges(dt_tensor *x) {
    static const double edges[N_ELEMENTS] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-149, -0x1p-24, 3.3e38, 0.1, -7};
    if (dt_dtype_kind(x->dtype) == 'i') return op_fill_with_extremes(x, 0);
    for (size_t i = 0; i < N_ELEMENTS; i++) dt_tensor_set(x, i, x->dtype == DT_BOOL ? (double)(i % 2) : edges[i]);
}

/* op(operands) must be x, as its type holds it; NaN is NaN. */
static void check_same(dt_arena *arena, const char *text, dt_tensor *operands, bool twice, const dt_tensor *x) {
    dt_module *module = dt_module_create(arena, "case");
    dt_function *function = dt_module_add_function(module, "case", DT_ROLE_STEP);
    dt_launch launch = {.rows = 1};
    dt_value *value;
    dt_tensor result;
    expect_ok(op_case_build(function, text, NULL, NULL, &value));
    dt_list_push(arena, &function->results, ((dt_result){"y", value}));
    for (int i = 0; i < 1 + twice; i++) {
        expect_ok(dt_interpret(arena, function, &launch, operands, NULL, &result));
        if (i < twice) operands[0] = result;
    }
    size_t bytes = dt_dtype_bytes(x->dtype);
    for (size_t i = 0; i < N_ELEMENTS; i++) {
        bool both_nan = isnan(dt_tensor_get(&result, i)) && isnan(dt_tensor_get(x, i));
        if (both_nan || memcmp((char *)result.data + i * bytes, (char *)x->data + i * bytes, bytes) == 0) continue;
        fail_msg("%s: %.17g becomes %.17g", text, dt_tensor_get(x, i), dt_tensor_get(&result, i));
    }
}

/* Operand `side` is x, and the other one, if there is one, `neutral`. */
static void check_rule(const dt_op *op, dt_dtype dtype, int side, double neutral) {
    dt_arena *arena = dt_arena_create();
    const int64_t dims[] = {N_ELEMENTS};
    const char *type = dt_dtype_name(dtype), *one = dt_arena_format(arena, "%s[%d]", type, N_ELEMENTS);
    const char *text = dt_arena_format(arena, op->n_operands == 2 ? "%s(%s, %s; )" : "%s(%s; )", op->name, one, one);
    dt_tensor operands[2];
    for (int k = 0; k < 2; k++) {
        operands[k] = dt_tensor_make(arena, dtype, (dt_shape){1, dims});
        for (size_t i = 0; i < N_ELEMENTS; i++) dt_tensor_set(&operands[k], i, neutral);
    }
    fill_with_edges(&operands[side]);
    check_same(arena, text, operands, op->n_operands == 1, &(dt_tensor){operands[side].dtype, operands[side].shape, operands[side].data});
    dt_arena_destroy(arena);
}

static void neutral_operands_and_involutions_change_nothing(void **state) {
    (void)state;
    static const struct {
        unsigned algebra;
        int n_operands, side;
        double neutral;
    } rules[] = {{DT_OP_ZERO_RIGHT, 2, 0, 0}, {DT_OP_ONE_RIGHT, 2, 0, 1}, {DT_OP_ONE_LEFT, 2, 1, 1}, {DT_OP_INVOLUTION, 1, 0, 0}};
    int n_checked = 0;
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++)
        for (size_t i = 0; i < dt_n_ops; i++) {
            const dt_op *op = dt_op_at(i);
            if (!(op->algebra & rules[r].algebra)) continue;
            assert_int_equal(op->n_operands, rules[r].n_operands);
            for (int d = 0; d < DT_N_DTYPES; d++)
                if (dt_type_word_holds(op->operands[0].type, (dt_dtype)d)) check_rule(op, (dt_dtype)d, rules[r].side, rules[r].neutral), n_checked++;
        }
    assert_true(n_checked > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(neutral_operands_and_involutions_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
