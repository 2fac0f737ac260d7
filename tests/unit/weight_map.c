/* weight_map: what names become, on both sides; what is wrong with a line, and where. */
#include "runtime/weight_map.h"
#include "base/memory.h"
#include "tests/unit/scratch_folder.h"

static dt_arena *arena;

static dt_status *parse(const char *text, const dt_weight_map **map) { return dt_weight_map_parse(arena, "m", text, strlen(text), map); }

/* Both directions; `theirs` and `ours` are names that the first rule pairs. */
static void pairs(const char *rule, const char *theirs, const char *ours) {
    const dt_weight_map *map;
    const char *other;
    assert_ok(parse(rule, &map));
    assert_true(dt_weight_rule_matches(arena, &map->rules[0], DT_THEIRS, theirs, &other));
    assert_string_equal(other, ours);
    assert_true(dt_weight_rule_matches(arena, &map->rules[0], DT_OURS, ours, &other));
    assert_string_equal(other, theirs);
}

static void is_not_about(const char *rule, const char *theirs) {
    const dt_weight_map *map;
    const char *other;
    assert_ok(parse(rule, &map));
    assert_false(dt_weight_rule_matches(arena, &map->rules[0], DT_THEIRS, theirs, &other));
}

static void names_go_both_ways(void **state) {
    (void)state;
    pairs("a.b -> A/b", "a.b", "A/b");
    pairs("a:0 -> A/b : o i -> i o", "a:0", "A/b");
    pairs("l.{i}.w -> L/layer_{i}/w", "l.12.w", "L/layer_12/w");
    pairs("l.{i}.w -> L/layer_{i+1}/w", "l.0.w", "L/layer_1/w");
    pairs("l.{i+1}.w -> L/layer_{i}/w", "l.10.w", "L/layer_9/w");
    pairs("l.{i}.w -> L/dense{_i}/w", "l.0.w", "L/dense/w");
    pairs("l.{i}.w -> L/dense{_i}/w", "l.3.w", "L/dense_3/w");
    pairs("l.{i}.w -> L/dense{_i-1}/w", "l.1.w", "L/dense/w");
    pairs("{j}.{i} -> {i}/{j}", "1.2", "2/1");
    pairs("l.*.w -> L/*/w", "l.query.w", "L/query/w");
    pairs("*.* -> */*", "a.b", "a/b");
    pairs("old/** -> New/**", "old/a/b.c", "New/a/b.c");
    pairs("**.*.w -> **/*/w", "a.b.c.w", "a.b/c/w");
    is_not_about("l.{i} -> L/{i}", "l.01"); /* it would come back as l.1 */
    is_not_about("l.{i} -> L/{i}", "l.x");
    is_not_about("l.{i} -> L/{i-1}", "l.0"); /* there is no layer -1 */
    is_not_about("l{_i} -> L/{i}", "l_0");
    is_not_about("l.*.w -> L/*/w", "l.a.b.w");
    is_not_about("l.*.w -> L/*/w", "l..w");
    is_not_about("l.w -> L/w", "l.w2");
}

static void lines_and_comments(void **state) {
    (void)state;
    const dt_weight_map *map;
    assert_ok(parse("# a\n\n  a#1 -> b # c\r\nnone -> c\r\n\td[0:2,:] -> none", &map));
    assert_int_equal(map->n_rules, 3);
    assert_int_equal(map->rules[0].line, 3);
    assert_string_equal(map->rules[0].sides[DT_THEIRS].text, "a#1");
    assert_true(map->rules[1].sides[DT_THEIRS].is_none && map->rules[2].sides[DT_OURS].is_none);
    assert_int_equal(map->rules[2].sides[DT_THEIRS].n_ranges, 2);
    assert_int_equal(map->rules[2].sides[DT_THEIRS].ranges[1].end, -1);
}

static void axes_are_solved(void **state) {
    (void)state;
    int64_t sizes[4], dims[2];
    const dt_weight_axes *axes = dt_weight_axes_parse(arena, "o (c h w) -> (h w c) o, h=5, w=2");
    assert_non_null(axes);
    assert_ok(dt_weight_axes_solve(axes, DT_THEIRS, 2, (int64_t[]){7, 30}, sizes));
    dt_weight_axes_dims(axes, DT_OURS, sizes, dims);
    assert_true(dims[0] == 30 && dims[1] == 7 && sizes[1] == 3);
    assert_ok(dt_weight_axes_solve(axes, DT_OURS, 2, (int64_t[]){30, 7}, sizes));
    assert_fails(dt_weight_axes_solve(axes, DT_THEIRS, 2, (int64_t[]){7, 31}, sizes), DT_FAILED_PRECONDITION, "axis (c h w)");
    assert_fails(dt_weight_axes_solve(axes, DT_THEIRS, 1, (int64_t[]){7}, sizes), DT_FAILED_PRECONDITION, "of 2 dimensions there, the tensor has 1");
    axes = dt_weight_axes_parse(arena, "1 o (c h) -> (h c) o");
    assert_fails(dt_weight_axes_solve(axes, DT_THEIRS, 3, (int64_t[]){1, 7, 30}, sizes), DT_FAILED_PRECONDITION,
                 "say the sizes of all its axes but one");
    assert_fails(dt_weight_axes_solve(axes, DT_THEIRS, 3, (int64_t[]){2, 7, 30}, sizes), DT_FAILED_PRECONDITION, "axis 1");
}

static void wrong_lines_are_placed(void **state) {
    (void)state;
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {"", "holds no rule"},
        {"# nothing\n", "holds no rule"},
        {"a b", "m:1:3: expected `->` after a, found `b`"},
        {"a ->", "m:1:5: expected the path of a variable of the program, or none, found the end of the line"},
        {"\n-> b", "m:2:4: expected `->` after ->, found `b`"},
        {"{i -> b", "m:1:4: expected `}`"},
        {"{1} -> b", "m:1:2: expected the name of a number, as in {i}, found `1}`"},
        {"{i+9999999} -> b", "m:1:3: at most"},
        {"a{i} -> b", "m:1:9: {i} of a{i} is not in b"},
        {"a -> b{_i}", "m:1:6: {i} is not in a"},
        {"a{i}{i} -> b{i}", "m:1:1: {i} is twice in a{i}{i}"},
        {"a* -> b**", "m:1:7: * of a* is not in b**"},
        {"*.*.*.*.*.*.*.*.* -> a", "m:1:1: *.*.*.*.*.*.*.*.* has 9 wildcards"},
        {"a[1:1] -> b", "m:1:3: the range is empty"},
        {"a[0:2 -> b", "m:1:7: expected `,` or `]`"},
        {"a[x] -> b", "m:1:3: expected a range"},
        {"a[0:9999999999999999] -> b", "m:1:5: the number is too large"},
        {"none[:] -> b", "m:1:5: none is no tensor"},
        {"none -> none", "m:1:1: none on both sides"},
        {"a -> none : o i -> i o", "m:1:11: nothing can be done"},
        {"\xc3\xa4 -> b o", "m:1:8: expected ` : `"}, /* characters, not bytes */
        {"a -> b : o i -> o", "m:1:18: axis i is missing on the right"},
        {"a -> b : o -> o i", "m:1:17: axis i is not on the left"},
        {"a -> b : o o -> o", "m:1:12: axis o is twice"},
        {"a -> b : (o i -> i o", "m:1:15: expected an axis"},
        {"a -> b : (o i", "m:1:10: expected scale=NUMBER"},
        {"a -> b : o i -> i o, k=3", "m:1:22: there is no axis k"},
        {"a -> b : o i -> i o, o=0", "m:1:22: the size of an axis is 1 or more"},
        {"a -> b : scale=0", "m:1:10: a scale must be"},
        {"a -> b : scale=inf", "m:1:10: a scale must be"},
        {"a -> b : scale=\n2 -> c", "m:1:16: expected a number, found the end of the line"},
        {"a -> b : scale=2 3", "m:1:18: expected `,` or the end"},
    };
    const dt_weight_map *map;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_fails(parse(wrong[i].text, &map), DT_INVALID_ARGUMENT, wrong[i].part);
    assert_fails(parse("a b\nc -> d\ne f\n", &map), DT_INVALID_ARGUMENT, "m:3:3: "); /* all are said */
    assert_fails(dt_weight_map_parse(arena, "m", "a\0-> b", 6, &map), DT_INVALID_ARGUMENT, "not text");
}

static int open_arena(void **state) {
    (void)state;
    arena = dt_arena_create();
    return arena == NULL;
}

static int close_arena(void **state) {
    (void)state;
    dt_arena_destroy(arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_go_both_ways, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(lines_and_comments, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(axes_are_solved, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(wrong_lines_are_placed, open_arena, close_arena),
    };
    return cmocka_run_group_tests_name("weight_map", tests, NULL, NULL);
}
