/* The gradient of every row against central differences, in double: of sum(c * op(x)) for a random c, at random elements of each operand.
 *
 * The op and what dt_op_gradient builds for it are evaluated by the interpreter, so a row is wrong here when its gradient is not that of what its
 * loops compute. Rows without a gradient must not depend smoothly on their operands. OPS_SEED=n reruns with other numbers. */
#include "ir/gradient.h"
#include "ir/verify.h"
#include "tests/support/op_cases.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum {
    ROWS = 5,
    MOST_ELEMENTS = 24 /* of an operand, that are varied */
};

/* One case, ready to run: operands x0 …, the cotangent c; results: the op's and the gradients that exist. */
typedef struct subject {
    dt_arena *arena;
    const char *text;
    dt_function *forward, *backward;
    dt_value *value;      /* in `forward` */
    dt_value **gradients; /* [n_operands], in `backward` */
    dt_tensor *operands;  /* [n_operands] and behind them the cotangent */
    dt_launch launch;
    dt_bad_index bad;
    uint64_t random;
} subject;

static void assert_ok(const subject *subject, dt_status *status) {
    if (status != NULL) fail_msg("%s: %s", subject->text, dt_status_message(status));
}

static dt_tensor run(subject *subject, const dt_function *function, int result) {
    dt_tensor *results = DT_NEW_ARRAY(subject->arena, dt_tensor, function->results.n);
    assert_ok(subject, dt_interpret(subject->arena, function, &subject->launch, subject->operands, NULL, results));
    return results[result];
}

/* Second derivatives: all that a gradient is made of has gradients in its turn. That those are right is checked where their rows are. */
static void differentiate_again(subject *subject, dt_builder *builder, dt_value *last) {
    const bool wanted[8] = {true, true, true, true, true, true, true, true};
    dt_value *gradients[8], *g;
    for (dt_value *value = subject->backward->first;; value = value->next) {
        if (dt_dtype_is_float(value->dtype) && value->n_operands > 0) {
            assert_ok(subject, dt_build_constant(builder, &g, value->dtype, 1, value->shape));
            assert_ok(subject, dt_op_gradient(builder, value, g, wanted, gradients));
        }
        if (value == last) return;
    }
}

static void prepare(subject *subject) {
    dt_module *module = dt_module_create(subject->arena, "case");
    dt_list_push(subject->arena, &module->files, "case.dt");
    subject->launch = (dt_launch){.rows = ROWS, .valid = ROWS, .global_batch = ROWS, .replicas = 1, .bad_index = &subject->bad};
    subject->forward = dt_module_add_function(module, "forward", DT_ROLE_STEP);
    assert_ok(subject, op_case_build(subject->forward, subject->text, "f32", "f64", &subject->value));
    dt_list_push(subject->arena, &subject->forward->results, ((dt_result){"y", subject->value}));

    dt_value *value, *c;
    int n = subject->value->n_operands;
    subject->backward = dt_module_add_function(module, "backward", DT_ROLE_STEP);
    assert_ok(subject, op_case_build(subject->backward, subject->text, "f32", "f64", &value));
    c = dt_build_input(subject->backward, "c", value->dtype, value->shape, (dt_location){0});
    bool *wanted = DT_NEW_ARRAY(subject->arena, bool, n);
    for (int k = 0; k < n; k++) wanted[k] = true;
    subject->gradients = DT_NEW_ARRAY(subject->arena, dt_value *, n);
    dt_builder builder = {.function = subject->backward};
    assert_ok(subject, dt_op_gradient(&builder, value, c, wanted, subject->gradients));
    differentiate_again(subject, &builder, subject->backward->last);
    subject->operands = DT_NEW_ARRAY(subject->arena, dt_tensor, n + 1);
    for (int k = 0; k < n; k++) {
        subject->operands[k] = op_random_operand(subject->arena, subject->value, k, ROWS, true, &subject->random);
        if (subject->gradients[k] != NULL) dt_list_push(subject->arena, &subject->backward->results, ((dt_result){"g", subject->gradients[k]}));
    }
    dt_tensor y = run(subject, subject->forward, 0);
    subject->operands[n] = dt_tensor_make(subject->arena, y.dtype, y.shape);
    for (size_t i = 0; i < dt_tensor_elements(&y); i++) dt_tensor_set(&subject->operands[n], i, next_uniform(&subject->random) * 2 - 1);
    assert_ok(subject, dt_verify(module));
}

static double objective(subject *subject) {
    dt_tensor y = run(subject, subject->forward, 0), *c = &subject->operands[subject->value->n_operands];
    double sum = 0;
    for (size_t i = 0; i < dt_tensor_elements(&y); i++) sum += dt_tensor_get(&y, i) * dt_tensor_get(c, i);
    return sum;
}

static double difference(subject *subject, int k, size_t element) {
    dt_tensor *x = &subject->operands[k];
    double at = dt_tensor_get(x, element), step = 1e-5, sums[2];
    for (int side = 0; side < 2; side++) {
        dt_tensor_set(x, element, side == 0 ? at - step : at + step);
        sums[side] = objective(subject);
    }
    dt_tensor_set(x, element, at);
    return (sums[1] - sums[0]) / (2 * step);
}

static bool agree(double a, double b) { return fabs(a - b) <= 1e-6 * fmax(1, fmax(fabs(a), fabs(b))); }

/* Returns how many elements it compared. */
static int check_operand(subject *subject, int k, const dt_tensor *gradient) {
    const dt_value *operand = subject->value->operands[k];
    size_t n = dt_tensor_elements(&subject->operands[k]);
    int n_compared = 0;
    for (size_t i = 0; i < n && n_compared < MOST_ELEMENTS; i++, n_compared++) {
        size_t element = n <= MOST_ELEMENTS ? i : (size_t)(next_uniform(&subject->random) * (double)n);
        double expected = difference(subject, k, element), got = gradient != NULL ? dt_tensor_get(gradient, element) : 0;
        if (!agree(expected, got))
            fail_msg("%s, %s, element %zu: the gradient is %.9g, differences say %.9g", subject->text, operand->name, element, got, expected);
        if (fabs(expected) > 1e-2) assert_false(agree(expected, got * 1.001)); /* the comparison can fail */
    }
    return n_compared;
}

static int check_case(const char *text, uint64_t seed) {
    subject subject = {.arena = dt_arena_create(), .text = text, .random = seed};
    int n_compared = 0, result = 0;
    prepare(&subject);
    bool stops = dt_value_is(subject.value, "stop_gradient"); /* depends smoothly on x, and says that it does not */
    for (int k = 0; k < subject.value->n_operands && !stops; k++) {
        if (!dt_dtype_is_float(subject.value->operands[k]->dtype) || !dt_dtype_is_float(subject.value->dtype)) continue;
        if (subject.gradients[k] == NULL) {
            n_compared += check_operand(&subject, k, NULL);
            continue;
        }
        assert_int_equal(subject.gradients[k]->dtype, subject.value->operands[k]->dtype);
        assert_true(dt_shape_equal(subject.gradients[k]->shape, subject.value->operands[k]->shape));
        dt_tensor gradient = run(&subject, subject.backward, result++);
        n_compared += check_operand(&subject, k, &gradient);
    }
    assert_int_equal(subject.bad.count, 0);
    dt_arena_destroy(subject.arena);
    return n_compared;
}

/* Only the cases that f64 can stand for: no half precision, whose steps are larger than the difference, and no rounding of factors. */
static bool is_double(const char *text) {
    static const char *const others[] = {"f16", "i8[", "u8[17", "to=f32", "to=i", "to=u", "to=b", "precision="};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strstr(text, others[i]) != NULL) return false;
    return strstr(text, "f32") != NULL;
}

static void every_row(void **state) {
    (void)state;
    uint64_t seed = getenv("OPS_SEED") != NULL ? strtoull(getenv("OPS_SEED"), NULL, 10) : 1;
    int n_rows = 0, n_compared = 0;
    for (size_t i = 0; i < dt_n_ops; i++) {
        const dt_op *op = dt_op_at(i);
        dt_arena *arena = dt_arena_create();
        op_case_list list = {0};
        bool differentiable = op->gradient[0] != '\0' || op->gradient_function != NULL;
        int n_row = 0;
        op_cases(arena, &list, op);
        for (size_t c = 0; c < list.texts.n; c++)
            if (is_double(list.texts.items[c])) n_row += check_case(list.texts.items[c], seed + c);
        if (differentiable && n_row == 0) fail_msg("%s has a gradient that no case checks", op->name);
        n_rows += differentiable;
        n_compared += n_row;
        dt_arena_destroy(arena);
    }
    print_message("%d gradients, %d derivatives, seed %" PRIu64 "\n", n_rows, n_compared, seed);
    assert_true(n_rows > 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
