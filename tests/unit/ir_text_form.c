/* text_form: what is printed is read back to the same bytes; what is no text form ends in an error that names the place. */
#include "base/memory.h"
#include "ir/text_form.h"
#include "ir/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* All that the form can say, as it is printed. */
static const char everything[] =
    "module fashion_cnn capacity 64\n"
    "shards 4\n"
    "file 0 \"fashion_cnn.dt\"\n"
    "file 1 \"a \\\"quoted\\\"\\n\\x01 name\\\\\"\n"
    "variable \"Cnn/conv2d/bias\": f32[64] parameter trainable shard(axis=0, groups=2) @0:14:9\n"
    "variable \"adam/count\": i64 slot @0:0:0\n"
    "variable \"Cnn/mean\": f32[64] state @1:3:9\n"
    "pipeline train_set = idx(\"train-images-idx3-ubyte.gz\", \"labels\") | shuffle(60000) | map(function train_set/map0) @0:6:3 | "
    "batch(64, drop=0.5) @0:7:3 @0:5:1\n"
    "pipeline \"odd name\" = generate(-1, 1e-30, -inf) @0:6:1\n"
    "layer \"Cnn/conv2d\" conv2d 1 f32[B, 26, 26, 64] parameters 640 trainable 640 @0:14:9\n"
    "step train = train report train/report from train_set every 3 aggregates(sum, min, max, last) trains @0:22:1\n"
    "step predict = predict @0:40:1\n"
    "function init init () {\n"
    "  %0: f32[64] = constant(value=0.1, shape=[64], dtype=f32) @0:14:9\n"
    "  write(%0, variable=\"Cnn/conv2d/bias\") @0:14:9\n"
    "}\n"
    "function train step (%0 image: f32[B, 64] {split(0)} @0:22:12, %1 label: u8[B] @0:22:33) {\n"
    "  %2: f32[64] = read(variable=\"Cnn/conv2d/bias\") {replicated}\n"
    "  %9 hint: f32[64] = all_reduce(%2, kind=\"max\") {partial(max)} sharded @0:14:9 @1:24:5\n"
    "  %10: f32[64] = all_reduce(%9) {replicated}\n"
    "  %3: f64[B, 64] = convert(%0, to=f64) {split(0)}\n"
    "  %4: f32[G, 3] = constant(value=nan, shape=[G, 3], dtype=f32)\n"
    "  write(%10, variable=\"Cnn/conv2d/bias\") @0:24:5\n"
    "  return aggregate0=%2, \"a result\"=%2, aggregate2=%2, aggregate3=%3, probability=%3\n"
    "}\n"
    "function train/report report (%0 a: f64 @0:1:1) {\n"
    "  return loss=%0\n"
    "}\n"
    "function predict step () {\n"
    "}\n"
    "function train_set/map0 example (%0 x: u8[28, 28] @0:1:1) {\n"
    "  %1: f32[28, 28] = convert(%0, to=f32)\n"
    "  return x=%1\n"
    "}\n";

static char *print(const dt_module *module) {
    dt_text text = {0};
    dt_module_print(&text, module);
    char *taken = dt_text_take(&text);
    assert_non_null(taken);
    return taken;
}

static void assert_ok(dt_status *status) {
    if (status != NULL) print_error("%s\n", dt_status_message(status));
    assert_null(status);
}

static void everything_comes_back(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    dt_module *module;
    assert_ok(dt_module_parse(arena, "test.ir", everything, &module));
    assert_ok(dt_verify(module));
    char *again = print(module);
    assert_string_equal(again, everything);
    dt_release(again);

    const dt_pipeline_declaration *pipeline = &module->pipelines.items[0];
    assert_int_equal(pipeline->location.line, 5);
    assert_int_equal(pipeline->stages.items[1].location.line, 5); /* its pipeline's */
    assert_int_equal(pipeline->stages.items[2].location.line, 6);
    assert_int_equal(pipeline->stages.items[3].location.line, 7);
    assert_string_equal(pipeline->stages.items[3].arguments.items[1].name, "drop");
    assert_ptr_equal(module->steps.items[0].report, dt_module_find_function(module, "train/report"));
    assert_string_equal(module->files.items[1], "a \"quoted\"\n\x01 name\\");
    dt_arena_destroy(arena);
}

static void comments_and_layout_are_free(void **state) {
    (void)state;
    dt_arena *arena = dt_arena_create();
    dt_module *module;
    const char *loose = "# a test\nmodule m\nfunction f step(%7 x:f32[B,2])# here\n{ %1:f32[B,2]=add(%7,%7)\n return y = %1 }\n";
    assert_ok(dt_module_parse(arena, "test.ir", loose, &module));
    char *tidy = print(module);
    assert_string_equal(tidy, "module m capacity 0\nfunction f step (%7 x: f32[B, 2]) {\n  %1: f32[B, 2] = add(%7, %7)\n  return y=%1\n}\n");
    dt_function_renumber(module->functions.items[0]);
    dt_release(tidy);
    tidy = print(module);
    assert_string_equal(tidy, "module m capacity 0\nfunction f step (%0 x: f32[B, 2]) {\n  %1: f32[B, 2] = add(%0, %0)\n  return y=%1\n}\n");
    dt_release(tidy);
    dt_arena_destroy(arena);
}

static void errors_name_the_place(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "t.ir:1:1: expected module"},
        {"module m\nfile 1 \"x\"", "t.ir:2:7: files must be numbered"},
        {"module m\nfunction f step () {\n  %0: f32 = frobnicate()\n}", "t.ir:3:23: there is no op frobnicate"},
        {"module m\nfunction f step (%0 x: f32) {\n  %1: f32 = add(%0, %3)\n}", "%3 is not defined"},
        {"module m\nfunction f step (%0 x: f32 recompute 0) {\n}", "numbers from 1"},
        {"module m\nfunction f step (%0 x: f32) {\n  %1: f32 = add(%0)\n}", "add takes 2 operands, here is 1"},
        {"module m\nfunction f step (%0 x: f32, %1 y: i64) {\n  %2: f32 = add(%0, %1)\n}", "add: x is f32 and y is i64"},
        {"module m\nfunction f step (%0 x: i64) {\n  %2: f32 = exp(%0)\n}", "exp: x must be float, it is i64"},
        {"module m\nfunction f step (%0 x: f32) {\n  %0: f32 = exp(%0)\n}", "%0 is defined twice"},
        {"module m\nfunction f step (%0 x: f32) {\n  %1: f32[2] = exp(%0)\n}", "%1 has another type than exp makes"},
        {"module m\nfunction f step (%0 x: f32) {\n  %1: f64 = convert(%0)\n}", "convert: to is missing"},
        {"module m\nfunction f step (%0 x: f32) {\n  %1: f64 = convert(%0, to=f64, to=f32)\n}", "convert: to is given twice"},
        {"module m\nfunction f step (%0 x: f32) {\n  %1: f64 = convert(%0, to=7)\n}", "convert: to must be a dtype"},
        {"module m\nfunction f step (%0 x: f32) {\n  %1: f32 = read(variable=\"v\")\n}", "there is no variable v"},
        {"module m\nfunction f step (%0 x: f32) {\n  exp(%0)\n}", "exp has a value"},
        {"module m\nfunction f step (%0 x: f32 @0:1:1) {\n}", "there is no file 0"},
        {"module m\nfunction f step (%0 x: f32) { return y=%0", "expected }"},
        {"module m\nstep s = t", "a step names the function t"},
        {"module m\nvariable \"unended: f32", "expected the variable's path"},
        {"module m\nshards 3", "t.ir:2:9: expected a number of shards, which is a power of two from 1 to 64"},
        {"module m\nshards 128", "a power of two from 1 to 64"},
        {"module m\nshards 2\nshards 2", "given twice"},
        {"module m\nvariable w: f32[8] parameter shard(groups=1)", "expected axis"},
        {"module m\nvariable w: f32[8] parameter shard(axis=0)", "expected ,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_arena *arena = dt_arena_create();
        dt_module *module;
        dt_status *status = dt_module_parse(arena, "t.ir", cases[i][0], &module);
        assert_non_null(status);
        if (strstr(dt_status_message(status), cases[i][1]) == NULL) fail_msg("case %zu: %s", i, dt_status_message(status));
        dt_status_free(status);
        dt_arena_destroy(arena);
    }
}

static void a_split_that_does_not_fit_is_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"shard(axis=2, groups=1)", "w is split at dimension 2, and has 2"},
        {"shard(axis=0, groups=1)", "dimension 0 of w leaves the last of 4 shards nothing"},
        {"shard(axis=1, groups=3)", "dimension 1 of w is not 3 equal tensors side by side"},
        {"shard(axis=1, groups=0)", "w is split as 0 tensors side by side"},
        {"shard(axis=1, groups=2)", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_arena *arena = dt_arena_create();
        dt_module *module;
        assert_ok(
            dt_module_parse(arena, "t.ir", dt_arena_format(arena, "module m\nshards 4\nvariable w: f32[6, 16] parameter %s", cases[i][0]), &module));
        assert_int_equal(module->n_shards, 4);
        dt_status *status = dt_verify(module);
        if (cases[i][1] == NULL) assert_ok(status);
        if (cases[i][1] != NULL) assert_string_equal(dt_status_message(status), cases[i][1]);
        dt_status_free(status);
        dt_arena_destroy(arena);
    }
}

/* A module of random elementwise ops, so that text, types and names of all rows are met. */
static dt_module *random_module(dt_arena *arena, unsigned seed) {
    srand(seed);
    dt_module *module = dt_module_create(arena, "random");
    dt_list_push(arena, &module->files, "random.dt");
    dt_function *function = dt_module_add_function(module, "f", DT_ROLE_STEP);
    dt_shape shape = dt_shape_make(arena, 2, (int64_t[]){DT_BATCH, 3});
    DT_LIST(dt_value *) values = {0};
    static const dt_dtype dtypes[] = {DT_F32, DT_F64, DT_I64, DT_BOOL, DT_U8};
    for (int i = 0; i < 5; i++) {
        dt_value *input = dt_build_input(function, dt_arena_format(arena, "x%d", i), dtypes[i], shape, (dt_location){0, 1, i});
        dt_list_push(arena, &values, input);
    }
    dt_location where = {0, rand() % 100, rand() % 100};
    dt_builder builder = {.function = function, .n_locations = rand() % 2, .locations = &where};
    while (values.n < 60) {
        const dt_op *op = dt_op_at((size_t)rand() % dt_n_ops);
        dt_value *operands[3], *result;
        if (op->class != DT_CLASS_MAP || op->n_operands > 3) continue;
        for (int k = 0; k < op->n_operands; k++) operands[k] = values.items[(size_t)rand() % values.n];
        dt_attribute *attributes = DT_NEW_ARRAY(arena, dt_attribute, op->n_attributes);
        for (int k = 0; k < op->n_attributes; k++) attributes[k].i = dtypes[rand() % 5];
        dt_status *status = dt_build(&builder, op, operands, op->n_operands, attributes, &result); /* most dtypes do not fit together */
        if (status == NULL) dt_list_push(arena, &values, result);
        dt_status_free(status);
    }
    dt_list_push(arena, &function->results, ((dt_result){"y", values.items[values.n - 1]}));
    if (rand() % 2) dt_function_sweep(function);
    return module;
}

static void random_graphs_come_back(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 50; seed++) {
        dt_arena *arena = dt_arena_create();
        char *first = print(random_module(arena, seed)), *second;
        dt_module *module;
        dt_status *status = dt_module_parse(arena, "random.ir", first, &module);
        if (status != NULL) fail_msg("seed %u: %s", seed, dt_status_message(status));
        assert_ok(dt_verify(module));
        second = print(module);
        if (strcmp(first, second) != 0) fail_msg("seed %u differs", seed);
        dt_release(first);
        dt_release(second);
        dt_arena_destroy(arena);
    }
}

static void damaged_text_is_refused_or_read(void **state) {
    (void)state;
    char text[sizeof everything];
    for (unsigned seed = 0; seed < 2000; seed++) {
        srand(seed);
        memcpy(text, everything, sizeof text);
        for (int i = rand() % 4; i >= 0; i--) text[(size_t)rand() % (sizeof text - 1)] = "%@{}()[]=,:\"# -0123456789Bx\n"[rand() % 28];
        if (rand() % 8 == 0) text[(size_t)rand() % sizeof text] = '\0';
        dt_arena *arena = dt_arena_create();
        dt_module *module;
        dt_status *status = dt_module_parse(arena, "t.ir", text, &module);
        if (status == NULL) {
            dt_status_free(dt_verify(module));
            dt_release(print(module));
        }
        dt_status_free(status);
        dt_arena_destroy(arena);
    }
}

/* NULL when memory was out, as an owner of an arena sees it. */
static dt_module *parse_guarded(dt_arena *arena, jmp_buf *guard) {
    dt_module *module = NULL;
    if (setjmp(*guard)) return NULL;
    dt_arena_guard(arena, guard);
    assert_ok(dt_module_parse(arena, "test.ir", everything, &module));
    return module;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    dt_op_find("add");
    int n_failed = 0;
    for (int n = 0;; n++) {
        dt_memory_fail_after(n);
        dt_arena *arena = dt_arena_create();
        jmp_buf guard;
        dt_module *module = arena != NULL ? parse_guarded(arena, &guard) : NULL;
        dt_status *status = module != NULL ? dt_verify(module) : NULL;
        dt_text text = {0};
        if (module != NULL && status == NULL) dt_module_print(&text, module);
        char *printed = dt_text_take(&text);
        dt_memory_fail_after(-1);
        bool succeeded = module != NULL && status == NULL && printed != NULL;
        if (status != NULL) assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
        if (succeeded) assert_string_equal(printed, everything);
        dt_status_free(status);
        dt_release(printed);
        dt_arena_destroy(arena);
        if (succeeded) break;
        n_failed++;
    }
    assert_true(n_failed > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back),           cmocka_unit_test(comments_and_layout_are_free),
        cmocka_unit_test(errors_name_the_place),           cmocka_unit_test(random_graphs_come_back),
        cmocka_unit_test(damaged_text_is_refused_or_read), cmocka_unit_test(a_split_that_does_not_fit_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
