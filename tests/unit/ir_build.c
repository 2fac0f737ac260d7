/* op, graph, build, verify: rows say what their text says, builders infer and refuse, changes keep a function whole, verify sees broken ones. */
#include "base/memory.h"
#include "ir/loops.h"
#include "ir/ops.h"
#include "ir/text_form.h"
#include "ir/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    dt_arena *arena;
    dt_module *module;
    dt_builder b;
    dt_value *x, *y; /* f32[B, 3] */
} fixture;

static void assert_ok(dt_status *status) {
    if (status != NULL) print_error("%s\n", dt_status_message(status));
    assert_null(status);
}

static void assert_error(dt_status *status, const char *part) {
    assert_non_null(status);
    if (strstr(dt_status_message(status), part) == NULL) fail_msg("\"%s\" lacks \"%s\"", dt_status_message(status), part);
    dt_status_free(status);
}

static fixture make(void) {
    static const dt_location where = {0, 3, 7};
    fixture f = {.arena = dt_arena_create()};
    f.module = dt_module_create(f.arena, "m");
    dt_list_push(f.arena, &f.module->files, "m.dt");
    f.b = (dt_builder){.function = dt_module_add_function(f.module, "f", DT_ROLE_STEP), .n_locations = 1, .locations = &where};
    dt_shape shape = dt_shape_make(f.arena, 2, (int64_t[]){DT_BATCH, 3});
    f.x = dt_build_input(f.b.function, "x", DT_F32, shape, where);
    f.y = dt_build_input(f.b.function, "y", DT_F32, shape, where);
    return f;
}

static void assert_prints(const fixture *f, const char *expected) {
    dt_text text = {0};
    dt_function_print(&text, f->b.function);
    assert_string_equal(text.data, expected);
    dt_text_free(&text);
}

static void rows_say_what_their_text_says(void **state) {
    (void)state;
    const dt_op *sum = dt_op_find("reduce_sum");
    assert_int_equal(sum->class, DT_CLASS_REDUCE);
    assert_int_equal(sum->n_operands, 1);
    assert_string_equal(sum->operands[0].name, "x");
    assert_int_equal(sum->attributes[dt_op_attribute_index(sum, "axes")].kind, DT_ATTR_INTS);
    assert_false(sum->attributes[dt_op_attribute_index(sum, "axes")].has_default);
    assert_true(sum->attributes[dt_op_attribute_index(sum, "keep")].has_default);
    assert_int_equal(dt_op_attribute_index(sum, "nosuch"), -1);
    assert_string_equal(dt_op_find("less")->result_type, "bool");
    assert_string_equal(dt_op_find("convert")->result_type, "to");
    assert_true(dt_op_find("concatenate")->variadic);
    assert_string_equal(dt_op_find("all_reduce")->attributes[0].standard.s, "sum");
    assert_null(dt_op_find("nosuch"));
}

/* The formula of every elementwise row parses and has types, for the dtypes that fit the row. */
static void all_formulas_have_types(void **state) {
    (void)state;
    fixture f = make();
    for (size_t i = 0; i < dt_n_ops; i++) {
        const dt_op *op = dt_op_at(i);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(op->name, dt_op_at(j)->name);
        assert_true(op->doc[0] != '\0');
        if (op->class != DT_CLASS_MAP) continue;
        for (dt_dtype dtype = 0; dtype < DT_N_DTYPES; dtype++) {
            dt_value *operands[8], *value;
            for (int k = 0; k < op->n_operands; k++)
                assert_ok(dt_build_constant(&f.b, &operands[k], strcmp(op->operands[k].type, "bool") == 0 ? DT_BOOL : dtype, 1, f.x->shape));
            dt_attribute *attributes = DT_NEW_ARRAY(f.arena, dt_attribute, op->n_attributes);
            dt_status *status = dt_build(&f.b, op, operands, op->n_operands, attributes, &value);
            if (status == NULL) assert_non_null(dt_value_loops(f.arena, value)->body);
            dt_status_free(status);
        }
    }
    dt_arena_destroy(f.arena);
}

static void builders_infer_and_refuse(void **state) {
    (void)state;
    fixture f = make();
    dt_value *sum, *wide, *flag, *back;
    assert_ok(dt_build_reduce(&f.b, &sum, "reduce_sum", f.x, (int64_t[]){1}, 1, false));
    assert_int_equal(sum->shape.rank, 1);
    assert_ok(dt_build_broadcast(&f.b, &wide, sum, f.x->shape, (int64_t[]){0}));
    assert_true(dt_shape_equal(wide->shape, f.x->shape));
    assert_ok(dt_build_binary(&f.b, &flag, "less", f.x, wide));
    assert_int_equal(flag->dtype, DT_BOOL);
    assert_ok(dt_build_convert(&f.b, &back, f.x, DT_F32));
    assert_ptr_equal(back, f.x);
    assert_error(dt_build_binary(&f.b, &back, "add", f.x, flag), "bool");
    assert_error(dt_build_binary(&f.b, &back, "add", f.x, sum), "add");
    assert_error(dt_build_unary(&f.b, &back, "nosuch", f.x), "there is no op nosuch");
    assert_error(dt_build_text(&f.b, &back, "reduce_sum", &f.x, 1, "axes=[%d", 1), "axes");
    assert_error(dt_build_text(&f.b, &back, "read", NULL, 0, "variable=\"v\""), "there is no variable v");
    assert_int_equal(wide->n_locations, 1);
    assert_ok(dt_verify(f.module));
    dt_arena_destroy(f.arena);
}

static void expressions_become_ops(void **state) {
    (void)state;
    fixture f = make();
    dt_value *result, *values[] = {f.x, f.y};
    const char *const names[] = {"x", "y"};
    assert_ok(dt_build_expression(&f.b, &result, "e = exp(-x); where(y > 0, 1, 0.5) * e / (1 + e)", names, values, 2));
    dt_list_push(f.arena, &f.b.function->results, ((dt_result){"r", result}));
    assert_prints(&f, "function f step (%0 x: f32[B, 3] @0:3:7, %1 y: f32[B, 3] @0:3:7) {\n"
                      "  %2: f32[B, 3] = constant(value=0.0, shape=[B, 3], dtype=f32) @0:3:7\n"
                      "  %3: bool[B, 3] = less(%2, %1) @0:3:7\n"
                      "  %4: f32[B, 3] = constant(value=1.0, shape=[B, 3], dtype=f32) @0:3:7\n"
                      "  %5: f32[B, 3] = constant(value=0.5, shape=[B, 3], dtype=f32) @0:3:7\n"
                      "  %6: f32[B, 3] = where(%3, %4, %5) @0:3:7\n"
                      "  %7: f32[B, 3] = negate(%0) @0:3:7\n"
                      "  %8: f32[B, 3] = exp(%7) @0:3:7\n"
                      "  %9: f32[B, 3] = multiply(%6, %8) @0:3:7\n"
                      "  %10: f32[B, 3] = constant(value=1.0, shape=[B, 3], dtype=f32) @0:3:7\n"
                      "  %11: f32[B, 3] = add(%10, %8) @0:3:7\n"
                      "  %12: f32[B, 3] = divide(%9, %11) @0:3:7\n"
                      "  return r=%12\n}\n");
    static const char *const operators[] = {"x + y",
                                            "x - y",
                                            "x * y",
                                            "x / y",
                                            "-x",
                                            "x == y",
                                            "x != y",
                                            "x < y",
                                            "x <= y",
                                            "x > y",
                                            "x >= y",
                                            "(x < y) & (y < x)",
                                            "(x < y) | (y < x)",
                                            "(x < y) ^ (y < x)",
                                            "min(x, y)",
                                            "max(x, y)",
                                            "abs(x)",
                                            "f64(x)",
                                            "2"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) assert_ok(dt_build_expression(&f.b, &result, operators[i], names, values, 2));
    assert_error(dt_build_expression(&f.b, &result, "z + 1", names, values, 2), "nothing is called z");
    assert_error(dt_build_expression(&f.b, &result, "nosuch(x)", names, values, 2), "there is no op nosuch");
    dt_arena_destroy(f.arena);
}

static void changes_keep_a_function_whole(void **state) {
    (void)state;
    fixture f = make();
    dt_value *a, *b, *c, *extra;
    static const dt_location elsewhere = {0, 9, 9};
    assert_ok(dt_build_binary(&f.b, &a, "add", f.x, f.y));
    assert_ok(dt_build_unary(&f.b, &b, "exp", a));
    dt_builder before = {.function = f.b.function, .before = b, .n_locations = 1, .locations = &elsewhere};
    assert_ok(dt_build_unary(&before, &c, "tanh", a));
    assert_ok(dt_build_unary(&f.b, &extra, "log", b));
    dt_list_push(f.arena, &f.b.function->results, ((dt_result){"r", b}));
    dt_value_replace(a, f.x);
    dt_value_replace(b, c);
    dt_value_add_locations(c, b);
    dt_value_add_locations(c, b);
    dt_function_sweep(f.b.function);
    dt_function_renumber(f.b.function);
    assert_prints(&f, "function f step (%0 x: f32[B, 3] @0:3:7, %1 y: f32[B, 3] @0:3:7) {\n"
                      "  %2: f32[B, 3] = tanh(%0) @0:9:9 @0:3:7\n"
                      "  return r=%2\n}\n");
    assert_ok(dt_verify(f.module));
    dt_arena_destroy(f.arena);
}

static void verify_sees_what_is_broken(void **state) {
    (void)state;
    fixture f = make();
    dt_value *a, *b;
    assert_ok(dt_build_unary(&f.b, &a, "exp", f.x));
    assert_ok(dt_build_unary(&f.b, &b, "exp", a));
    assert_ok(dt_verify(f.module));
    a->operands[0] = b;
    assert_error(dt_verify(f.module), "function f, %2 = exp: an operand is not defined before it");
    a->operands[0] = f.x;
    a->dtype = DT_F64;
    assert_error(dt_verify(f.module), "another dtype");
    a->dtype = DT_F32;
    a->shape = dt_shape_scalar();
    assert_error(dt_verify(f.module), "another shape");
    a->shape = f.x->shape;
    b->id = a->id;
    assert_error(dt_verify(f.module), "two values %2");
    b->id = 3;
    a->locations[0].file = 1;
    assert_error(dt_verify(f.module), "names no file");
    a->locations[0].file = 0;
    dt_list_push(f.arena, &f.b.function->results, ((dt_result){"r", b}));
    dt_value_remove(b);
    assert_error(dt_verify(f.module), "its result r is not in it");
    dt_arena_destroy(f.arena);
}

static void a_variable_is_read_and_written_once(void **state) {
    (void)state;
    fixture f = make();
    dt_value *v, *w, *out;
    dt_variable variable = {.path = "v", .dtype = DT_F32, .shape = dt_shape_scalar(), .shard_axis = -1, .shard_groups = 1};
    dt_module_add_variable(f.module, variable);
    assert_ok(dt_build_text(&f.b, &v, "read", NULL, 0, "variable=\"v\""));
    assert_ok(dt_build_text(&f.b, &out, "write", &v, 1, "variable=\"v\""));
    assert_error(dt_build_text(&f.b, &out, "write", &f.x, 1, "variable=\"v\""), "another type than the variable");
    dt_function_sweep(f.b.function);
    assert_ptr_equal(f.b.function->last, out);
    assert_ok(dt_verify(f.module));
    assert_ok(dt_build_text(&f.b, &w, "read", NULL, 0, "variable=\"v\""));
    assert_error(dt_verify(f.module), "read twice");
    dt_arena_destroy(f.arena);
}

static void values_that_vary_from_batch_to_batch(void **state) {
    (void)state;
    fixture f = make();
    dt_shape row = dt_shape_make(f.arena, 1, (int64_t[]){3}), rows = dt_shape_make(f.arena, 1, (int64_t[]){DT_BATCH});
    dt_module_add_variable(f.module, (dt_variable){.path = "kept", .dtype = DT_F32, .shape = row, .shard_axis = -1, .shard_groups = 1});
    dt_module_add_variable(f.module, (dt_variable){.path = "written", .dtype = DT_F32, .shape = row, .shard_axis = -1, .shard_groups = 1});
    dt_value *kept, *written, *doubled, *mean, *sum, *replicas, *valid, *random, *ones, *count, *write;
    assert_ok(dt_build_text(&f.b, &kept, "read", NULL, 0, "variable=\"kept\""));
    assert_ok(dt_build_text(&f.b, &written, "read", NULL, 0, "variable=\"written\""));
    assert_ok(dt_build_binary(&f.b, &doubled, "add", kept, kept));
    assert_ok(dt_build_reduce(&f.b, &mean, "reduce_sum", f.x, (int64_t[]){0}, 1, false));
    assert_ok(dt_build_binary(&f.b, &sum, "add", doubled, mean));
    assert_ok(dt_build_text(&f.b, &replicas, "launch", NULL, 0, "name=\"replicas\""));
    assert_ok(dt_build_text(&f.b, &valid, "launch", NULL, 0, "name=\"valid\""));
    assert_ok(dt_build_text(&f.b, &random, "random_uniform", NULL, 0, "shape=[3], stream=0"));
    assert_ok(dt_build_constant(&f.b, &ones, DT_F32, 1, rows));
    assert_ok(dt_build_reduce(&f.b, &count, "reduce_sum", ones, (int64_t[]){0}, 1, false));
    assert_ok(dt_build_text(&f.b, &write, "write", &doubled, 1, "variable=\"written\""));
    bool varies[32];
    dt_function_find_varying(f.b.function, varies);
    assert_false(varies[kept->id] || varies[doubled->id] || varies[replicas->id]);
    assert_true(varies[f.x->id] && varies[mean->id] && varies[sum->id] && varies[valid->id] && varies[random->id] && varies[count->id]);
    assert_true(varies[written->id]); /* the next batch finds what this one wrote */
    dt_arena_destroy(f.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_say_what_their_text_says),       cmocka_unit_test(all_formulas_have_types),
        cmocka_unit_test(builders_infer_and_refuse),           cmocka_unit_test(expressions_become_ops),
        cmocka_unit_test(changes_keep_a_function_whole),       cmocka_unit_test(verify_sees_what_is_broken),
        cmocka_unit_test(a_variable_is_read_and_written_once), cmocka_unit_test(values_that_vary_from_batch_to_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
