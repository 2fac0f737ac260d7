/* ir/body: loops that are not what ir/body.h says are refused; what they are is kept by sweeping and by the text form. */
#include "ir/body.h"
#include "ir/text_form.h"
#include "ir/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const char head[] = "module m\nfunction f step (%0 x: f32[B, 4, 2], %1 s: f32[B, 2]) {\n";

static dt_module *parse(dt_arena *arena, const char *text) {
    dt_module *module;
    dt_status *status = dt_module_parse(arena, "t.ir", text, &module);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    return module;
}

static void what_is_no_loop_is_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"  %2: i64 = begin_loop(trips=4)\n", "a loop has no end"},
        {"  end_loop()\n", "it ends no loop"},
        {"  %2: f32[B, 2] = carry(%1)\n", "it is in no loop's body"},
        {"  %2: i64 = begin_loop(trips=4)\n  %3: f32[B, 2] = carry(%1)\n  end_loop()\n", "the carry never advances"},
        {"  %2: i64 = begin_loop(trips=4)\n  %3: f32[B, 2] = carry(%1)\n  advance(%3, %1)\n  advance(%3, %3)\n  end_loop()\n", "the carry advances twice"},
        {"  %2: i64 = begin_loop(trips=4)\n  %3: f32[B, 2] = exp(%1)\n  advance(%3, %1)\n  end_loop()\n", "it advances no carry of its body"},
        {"  %2: i64 = begin_loop(trips=3)\n  %3: f32[B, 2] = scanned(%0, axis=1)\n  end_loop()\n", "the axis is not as long as the loop"},
        {"  %2: i64 = begin_loop(trips=4)\n  %3: f32[B, 2] = exp(%1)\n  %4: f32[B, 2] = carry(%3)\n  advance(%4, %3)\n  end_loop()\n",
         "its operand is of the same body"},
        {"  %2: i64 = begin_loop(trips=4)\n  %3: f32[B, 2] = exp(%1)\n  end_loop()\n  %4: f32[B, 2] = tanh(%3)\n",
         "an operand is of the body of a loop that it is not in"},
        {"  %2: i64 = begin_loop(trips=4)\n  %3: f32[B, 2] = exp(%1)\n  end_loop()\n  %4: f32[B, 3, 2] = stack(%3, %2, axis=1, size=3)\n",
         "size is not the trip count"},
        {"  %2: i64 = begin_loop(trips=4)\n  %3: f32[B, 2] = exp(%1)\n  end_loop()\n  %4: i64 = begin_loop(trips=4)\n  end_loop()\n"
         "  %5: f32[B, 2] = accumulate(%3, %4)\n",
         "an operand is of the body of a loop that it is not in"},
        {"  %2: i64 = begin_loop(trips=4)\n  %3: i64 = begin_loop(trips=2)\n  %4: f32[B, 2] = exp(%1)\n  end_loop()\n  end_loop()\n"
         "  %5: f32[B, 2] = accumulate(%4, %3)\n",
         "of a loop that it is not in"},
        {"  %2: f32[B, 2] = final(%1)\n", "it takes nothing out of a loop that stands beside it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_arena *arena = dt_arena_create();
        dt_module *module = parse(arena, dt_arena_format(arena, "%s%s  return s=%%1\n}\n", head, cases[i][0]));
        dt_status *status = dt_verify(module);
        if (status == NULL || strstr(dt_status_message(status), cases[i][1]) == NULL)
            fail_msg("case %zu: %s", i, status != NULL ? dt_status_message(status) : "accepted");
        dt_status_free(status);
        dt_arena_destroy(arena);
    }
}

static const char nested[] = "module m capacity 0\n"
                             "function f step (%0 x: f32[B, 4, 3, 2], %1 s: f32[B, 2]) {\n"
                             "  %2: i64 = begin_loop(trips=4)\n"
                             "  %3: f32[B, 2] = carry(%1)\n"
                             "  %4: f32[B, 3, 2] = scanned(%0, axis=1, reverse=true)\n"
                             "  %5: i64 = begin_loop(trips=3)\n"
                             "  %6: f32[B, 2] = carry(%3)\n"
                             "  %7: f32[B, 2] = scanned(%4, axis=1)\n"
                             "  %8: f32[B, 2] = add(%6, %7)\n"
                             "  advance(%6, %8)\n"
                             "  end_loop()\n"
                             "  %11: f32[B, 2] = final(%6)\n"
                             "  advance(%3, %11)\n"
                             "  end_loop()\n"
                             "  %14: f32[B, 2] = final(%3)\n"
                             "  return s=%14\n"
                             "}\n";

static void loops_nest_and_come_back_from_text(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    dt_module *module = parse(arena, nested);
    dt_function *function = module->functions.items[0];
    assert_null(dt_verify(module));
    dt_function_sweep(function);
    dt_function_renumber(function);
    dt_text text = {.arena = arena};
    dt_module_print(&text, module);
    assert_string_equal(text.data, nested);

    dt_value **bodies = DT_NEW_ARRAY(arena, dt_value *, function->next_id), *values[16] = {0};
    dt_function_find_bodies(function, bodies);
    for (dt_value *value = function->first; value != NULL; value = value->next) values[value->id] = value;
    assert_ptr_equal(bodies[8], values[5]);
    assert_ptr_equal(bodies[5], values[2]);
    assert_ptr_equal(bodies[11], values[2]);
    assert_null(bodies[14]);
    assert_true(dt_body_is_within(bodies, values[5], values[2]) && dt_body_is_within(bodies, values[5], NULL));
    assert_false(dt_body_is_within(bodies, values[2], values[5]));
    assert_ptr_equal(dt_loop_end(values[2]), values[13]);
    assert_ptr_equal(dt_loop_left(bodies, values[11]), values[5]);
    dt_arena_destroy(arena);
}

static void a_loop_of_which_nothing_is_read_is_swept(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    dt_module *module = parse(arena, nested);
    dt_function *function = module->functions.items[0];
    function->results.items[0].value = function->inputs.items[1];
    dt_function_sweep(function);
    assert_null(dt_verify(module));
    assert_ptr_equal(function->last, function->inputs.items[1]);
    dt_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_no_loop_is_refused), cmocka_unit_test(loops_nest_and_come_back_from_text),
                                       cmocka_unit_test(a_loop_of_which_nothing_is_read_is_swept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
