/* order: permutations, and what each stage does to the sequence of examples, walked and entered in the middle. */
#include "base/memory.h"
#include "base/text.h"
#include "runtime/data/interleave.h"
#include "runtime/data/order.h"
#include "runtime/data/permutation.h"
#include "tests/unit/scratch_folder.h"

enum {
    MOST = 4000
};

static dt_stages stages;
static dt_stage stage_items[8];
static dt_artifact_argument two_arguments[2]; /* of a stage that takes more than a count */

/* Where the files of a source of 9 and of 300 rows end. */
static const int64_t few_ends[] = {5, 6, 9}, many_ends[] = {100, 101, 180, 181, 290, 300};

/* Parses "map|take:10|shuffle:5" into `stages`. */
static void parse(const char *text) {
    stages = (dt_stages){.pipeline = "test", .stages = stage_items, .cache = -1};
    while (*text != 0) {
        dt_stage *stage = &stage_items[stages.n];
        size_t n = strcspn(text, ":|");
        *stage = (dt_stage){.kind = DT_N_STAGE_KINDS, .function = -1};
        for (int kind = 0; kind < DT_N_STAGE_KINDS; kind++)
            if (strlen(dt_stage_name((dt_stage_kind)kind)) == n && strncmp(dt_stage_name((dt_stage_kind)kind), text, n) == 0)
                stage->kind = (dt_stage_kind)kind;
        assert_true(stage->kind != DT_N_STAGE_KINDS);
        text += n;
        if (*text == ':') stage->count = strtoll(text + 1, (char **)&text, 10);
        if (*text == ',') two_arguments[1].integer = strtoll(text + 1, (char **)&text, 10);
        stage->arguments = two_arguments;
        if (stage->kind == DT_STAGE_CACHE) stages.cache = stages.n;
        stages.n++;
        text += *text == '|';
    }
}

/* Lets rows divisible by three pass. */
static dt_status *by_three(void *context, int stage, const int64_t *item, bool *keep) {
    (void)stage;
    ++*(int *)context;
    *keep = item[0] % 3 == 0;
    return NULL;
}

static int n_asked;

static dt_order *order_of(const char *text, int64_t n_source, uint64_t seed) {
    parse(text);
    dt_order *order;
    bool is_few = n_source == 9;
    assert_ok(dt_order_create(&(dt_order_options){.stages = &stages,
                                                  .n_source = n_source,
                                                  .n_files = is_few ? 3 : 6,
                                                  .file_ends = is_few ? few_ends : many_ends,
                                                  .seed = seed,
                                                  .predicate = by_three,
                                                  .context = &n_asked},
                              &order));
    return order;
}

/* The items of an epoch from `position` on, asked for in uneven portions. */
static int64_t walk(dt_order *order, int64_t epoch, int64_t position, int64_t *items) {
    int64_t n = 0, n_given = 1, n_words = dt_order_item_words(order);
    assert_ok(dt_order_start(order, epoch, position));
    for (int64_t portion = 1; n_given > 0; portion = portion % 7 + 1) {
        assert_true((n + portion) * n_words <= MOST);
        assert_ok(dt_order_next(order, portion, (dt_row_range){0, portion}, items + n * n_words, &n_given));
        n += n_given;
    }
    return n;
}

static void assert_rows(const char *text, int64_t n_source, const char *wanted) {
    static int64_t items[MOST];
    dt_order *order = order_of(text, n_source, 1);
    int64_t n = walk(order, 0, 0, items);
    dt_text rows = {0};
    for (int64_t i = 0; i < n; i++) {
        if (i > 0) dt_text_append(&rows, " ");
        for (int word = 0; word < dt_order_item_words(order); word++)
            dt_text_format(&rows, "%s%lld", word > 0 ? "/" : "", (long long)items[i * dt_order_item_words(order) + word]);
    }
    assert_string_equal(rows.data != NULL ? rows.data : "", wanted);
    dt_text_free(&rows);
    if (dt_order_n_examples(order) >= 0) assert_int_equal(dt_order_n_examples(order), n);
    dt_order_destroy(order);
}

static void permutations_are_permutations(void **state) {
    (void)state;
    static unsigned char seen[70000];
    for (int64_t n = 1; n < 70000; n = n < 70 ? n + 1 : n * 3 + 1) {
        memset(seen, 0, sizeof seen);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = dt_permutation_at(42, n, i);
            assert_true(at >= 0 && at < n && !seen[at]);
            seen[at] = 1;
        }
    }
    int64_t large = INT64_MAX / 4;
    assert_true(dt_permutation_at(1, large, large - 1) < large);
}

/* Chi-square over 16 x 16 cells (position, image), 255 degrees of freedom less 31: between 150 and 310 with overwhelming probability. */
static void permutations_mix(void **state) {
    (void)state;
    enum {
        N = 1600,
        CELLS = 16
    };
    for (uint64_t key = 0; key < 20; key++) {
        int counts[CELLS][CELLS] = {{0}};
        double chi = 0, expected = (double)N / CELLS / CELLS;
        for (int64_t i = 0; i < N; i++) counts[i * CELLS / N][dt_permutation_at(key, N, i) * CELLS / N]++;
        for (int a = 0; a < CELLS; a++)
            for (int b = 0; b < CELLS; b++) chi += (counts[a][b] - expected) * (counts[a][b] - expected) / expected;
        if (chi < 140 || chi > 330) fail_msg("key %llu: chi square %f", (unsigned long long)key, chi);
    }
    int n_same = 0;
    for (int64_t i = 0; i < 10000; i++) n_same += dt_permutation_at(7, 10000, i) == dt_permutation_at(8, 10000, i);
    assert_true(n_same < 10);
}

static void draws_stay_in_their_limit(void **state) {
    (void)state;
    int counts[10] = {0};
    for (uint64_t i = 0; i < 10000; i++) counts[dt_key_draw(3, i, 10)]++;
    for (int i = 0; i < 10; i++) assert_in_range(counts[i], 850, 1150);
    assert_int_equal(dt_key_draw(3, 0, 1), 0);
}

static void stages_choose(void **state) {
    (void)state;
    assert_rows("", 3, "0 1 2");
    assert_rows("take:2", 3, "0 1");
    assert_rows("take:5", 3, "0 1 2");
    assert_rows("skip:1", 3, "1 2");
    assert_rows("skip:1|take:1|repeat:3", 3, "1 1 1");
    assert_rows("repeat:2|take:5", 3, "0 1 2 0 1");
    assert_rows("filter", 10, "0 3 6 9");
    assert_rows("filter|take:3|repeat:2", 10, "0 3 6 0 3 6");
    assert_rows("filter|skip:1", 10, "3 6 9");
    assert_rows("filter|skip:9", 10, "");
    assert_rows("repeat:2|filter|skip:1|take:4", 7, "3 6 0 3");
    assert_rows("shuffle:1", 4, "0 1 2 3");
    assert_rows("shuffle:1|repeat:2|take:5", 3, "0 1 2 0 1");
}

static void files_take_turns(void **state) {
    (void)state;
    assert_rows("interleave:1,4", 9, "0 1 2 3 4 5 6 7 8");
    assert_rows("interleave:3,2", 9, "0 1 5 6 7 2 3 8 4");
    assert_rows("interleave:3,2|take:4", 9, "0 1 5 6");
    assert_rows("interleave:3,2|skip:7|repeat:2", 9, "8 4 8 4");
    assert_rows("interleave:3,2|filter", 9, "0 6 3");
    assert_rows("interleave:3,2|filter|cache|repeat:2", 9, "0 1 2 0 1 2"); /* rows of the cache */
    parse("interleave:3,2");
    dt_order *order;
    assert_fails(dt_order_create(&(dt_order_options){.stages = &stages, .n_source = 9}, &order), DT_INVALID_ARGUMENT, "its source has no such");
}

/* What TensorFlow gives: tests/golden/interleave.py. */
static void files_take_turns_as_in_tensorflow(void **state) {
    (void)state;
    char path[512], *text, *rest;
    size_t n_bytes;
    int n_cases = 0;
    snprintf(path, sizeof path, "%s/tests/golden/interleave.txt", getenv("DT_SOURCE"));
    assert_ok(dt_file_read(path, &text, &n_bytes));
    char *line = strtok_r(text, "\n", &rest);
    while ((line = strtok_r(NULL, "\n", &rest)) != NULL) {
        int64_t ends[16], n_files = 0, sum = 0;
        for (bool more = true; more; line += more) {
            ends[n_files++] = sum += strtoll(line, &line, 10);
            more = *line == ',';
        }
        int64_t cycle = strtoll(line, &line, 10), block = strtoll(line, &line, 10);
        dt_interleave *interleave;
        assert_ok(dt_interleave_create(n_files, ends, cycle, block, &interleave));
        line++;
        for (int64_t i = 0; i < sum; i++) assert_int_equal(dt_interleave_row(interleave, i), strtoll(line, &line, 10));
        assert_int_equal(*line, 0);
        dt_interleave_destroy(interleave);
        n_cases++;
    }
    assert_int_equal(n_cases, 36);
    free(text);
}

/* The table grows with files, not with rows. */
static void long_files_take_no_memory(void **state) {
    (void)state;
    const int64_t ends[] = {INT64_MAX / 4, INT64_MAX / 2, INT64_MAX / 2 + 5};
    dt_interleave *interleave;
    assert_ok(dt_interleave_create(3, ends, 2, 1, &interleave));
    assert_int_equal(dt_interleave_row(interleave, 1000000000000001), INT64_MAX / 4 + 500000000000000);
    dt_interleave_destroy(interleave);
}

/* From 0 in each pass, as in tf.data; a map after it numbers on. */
static void enumerate_numbers_each_pass(void **state) {
    (void)state;
    assert_rows("enumerate", 3, "0/0 1/1 2/2");
    assert_rows("skip:1|enumerate|repeat:2", 3, "1/0 2/1 1/0 2/1");
    assert_rows("repeat:2|enumerate|skip:1", 2, "1/1 0/2 1/3");
    assert_rows("filter|enumerate|repeat:2", 7, "0/0 3/1 6/2 0/0 3/1 6/2");
    assert_rows("enumerate|filter|map|repeat:2", 4, "0/0/0 3/3/1 0/0/2 3/3/3");
    assert_rows("map|enumerate|repeat:2|enumerate", 2, "0/0/0/0 1/1/1/1 0/2/0/2 1/3/1/3");
}

static void maps_number_their_examples(void **state) {
    (void)state;
    assert_rows("map", 3, "0/0 1/1 2/2");
    assert_rows("skip:1|map", 3, "1/0 2/1");
    assert_rows("map|skip:1|map", 3, "1/1/0 2/2/1");
    assert_rows("map|repeat:2", 2, "0/0 1/1 0/2 1/3"); /* each pass has numbers of its own, so other random ones */
    assert_rows("filter|map", 7, "0/0 3/1 6/2");
    assert_rows("filter|map|repeat:2", 4, "0/0 3/1 0/2 3/3");
}

static void caches_number_rows_anew(void **state) {
    (void)state;
    assert_rows("map|skip:2|cache|map", 4, "0/0/0 1/0/1");
    assert_rows("cache|skip:1|cache|skip:1", 4, "1 2");
    n_asked = 0;
    dt_order *order = order_of("map|filter|cache|shuffle:100", 10, 1);
    assert_int_equal(dt_order_n_examples(order), 4);
    assert_int_equal(dt_order_n_cached(order), 4);
    assert_int_equal(n_asked, 10);
    int64_t item[2];
    dt_order_cached_item(order, 2, item);
    assert_int_equal(item[0], 6);
    assert_int_equal(item[1], 6);
    static int64_t items[MOST];
    walk(order, 0, 0, items), walk(order, 1, 0, items);
    assert_int_equal(n_asked, 10); /* once is enough */
    dt_order_destroy(order);
}

static void shuffles_depend_on_seed_and_epoch(void **state) {
    (void)state;
    static int64_t a[MOST], b[MOST];
    const char *texts[] = {"shuffle:1000", "shuffle:100", "filter|shuffle:50", "shuffle:200|repeat:2"};
    for (int t = 0; t < 4; t++) {
        dt_order *order = order_of(texts[t], 1000, 5);
        int64_t n = walk(order, 3, 0, a), n_same = 0, sum = 0;
        assert_int_equal(walk(order, 3, 0, b), n);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        assert_int_equal(walk(order, 4, 0, b), n);
        for (int64_t i = 0; i < n; i++) {
            n_same += a[i] == b[i];
            sum += a[i] - b[i];
        }
        assert_true(n_same < n / 10);
        assert_int_equal(sum, 0); /* the same rows */
        dt_order_destroy(order);
        order = order_of(texts[t], 1000, 6);
        walk(order, 3, 0, b);
        assert_memory_not_equal(a, b, (size_t)n * sizeof *a);
        dt_order_destroy(order);
    }
    dt_order *order = order_of("shuffle:300|repeat:2", 300, 5); /* each pass in its own order, each whole */
    walk(order, 0, 0, a);
    assert_memory_not_equal(a, a + 300, 300 * sizeof *a);
    int64_t sum = 0;
    for (int i = 0; i < 300; i++) sum += a[i];
    assert_int_equal(sum, 300 * 299 / 2);
    dt_order_destroy(order);
}

static void a_buffer_reaches_as_far_as_it_is_long(void **state) {
    (void)state;
    static int64_t items[MOST];
    dt_order *order = order_of("shuffle:10", 500, 5);
    assert_int_equal(walk(order, 0, 0, items), 500);
    for (int64_t i = 0; i < 500; i++) assert_true(items[i] <= i + 9);
    dt_order_destroy(order);
}

static void entering_in_the_middle_gives_the_rest(void **state) {
    (void)state;
    static int64_t all[MOST], rest[MOST];
    const char *texts[] = {"",
                           "shuffle:300|map|take:200",
                           "shuffle:40|map",
                           "filter|map|shuffle:20|repeat:2",
                           "map|repeat:3|shuffle:9999|map|skip:7",
                           "map|filter|cache|shuffle:50|map",
                           "interleave:4,7|shuffle:300|map|repeat:2",
                           "interleave:3,1|filter|map|shuffle:20",
                           "filter|enumerate|shuffle:20|map",
                           "shuffle:300|enumerate|map|repeat:2"};
    for (int t = 0; t < 10; t++) {
        dt_order *order = order_of(texts[t], 300, 9);
        int64_t n = walk(order, 2, 0, all), n_words = dt_order_item_words(order);
        for (int64_t position = 0; position <= n; position += 23) {
            assert_int_equal(walk(order, 2, position, rest), n - position);
            assert_memory_equal(rest, all + position * n_words, (size_t)((n - position) * n_words) * sizeof *all);
        }
        assert_int_equal(walk(order, 2, n + 5, rest), 0);
        dt_order_destroy(order);
    }
}

/* In portions of eleven, of which parts are asked for: nothing, the beginning, the middle, the end. */
static void parts_of_a_portion_are_its_own_items(void **state) {
    (void)state;
    static int64_t all[MOST], some[MOST];
    static const dt_row_range wanted[] = {{0, 0}, {0, 4}, {4, 4}, {4, 9}, {9, 11}};
    const char *texts[] = {"shuffle:300|map|take:200", "shuffle:40|map", "filter|map|shuffle:20|repeat:2", "map|filter|cache|shuffle:500|map"};
    for (int t = 0; t < 4; t++) {
        dt_order *order = order_of(texts[t], 300, 9);
        assert_true(dt_order_is_walked(order) == (t == 1 || t == 2));
        int64_t n = walk(order, 2, 0, all), n_words = dt_order_item_words(order), n_given;
        for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
            assert_ok(dt_order_start(order, 2, 0));
            for (int64_t at = 0; at < n; at += n_given) {
                assert_ok(dt_order_next(order, 11, wanted[w], some, &n_given));
                assert_int_equal(n_given, n - at < 11 ? n - at : 11);
                size_t n_bytes = (size_t)(dt_row_range_valid(wanted[w], n_given) * n_words) * sizeof *all;
                if (n_bytes > 0) assert_memory_equal(some, all + (at + wanted[w].first) * n_words, n_bytes);
            }
            assert_ok(dt_order_next(order, 11, wanted[w], some, &n_given));
            assert_int_equal(n_given, 0);
        }
        dt_order_destroy(order);
    }
}

static void nothing_left_is_an_error(void **state) {
    (void)state;
    parse("skip:9");
    dt_order *order;
    assert_fails(dt_order_create(&(dt_order_options){.stages = &stages, .n_source = 9}, &order), DT_INVALID_ARGUMENT,
                 "data test: no example is left of 9");
}

static void without_memory_there_is_no_order(void **state) {
    (void)state;
    static int64_t items[MOST];
    for (int n = 0;; n++) {
        parse("filter|cache|filter|shuffle:80");
        dt_order *order;
        int64_t n_given = 0;
        dt_memory_fail_after(n);
        dt_status *status =
            dt_order_create(&(dt_order_options){.stages = &stages, .n_source = 600, .predicate = by_three, .context = &n_asked}, &order);
        if (status == NULL) status = dt_order_start(order, 0, 3);
        if (status == NULL) status = dt_order_next(order, 4, (dt_row_range){0, 4}, items, &n_given);
        dt_memory_fail_after(-1);
        dt_order_destroy(order);
        if (status == NULL) {
            assert_true(n > 6);
            return;
        }
        assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutations_are_permutations),
        cmocka_unit_test(permutations_mix),
        cmocka_unit_test(draws_stay_in_their_limit),
        cmocka_unit_test(stages_choose),
        cmocka_unit_test(files_take_turns),
        cmocka_unit_test(files_take_turns_as_in_tensorflow),
        cmocka_unit_test(long_files_take_no_memory),
        cmocka_unit_test(enumerate_numbers_each_pass),
        cmocka_unit_test(maps_number_their_examples),
        cmocka_unit_test(caches_number_rows_anew),
        cmocka_unit_test(shuffles_depend_on_seed_and_epoch),
        cmocka_unit_test(a_buffer_reaches_as_far_as_it_is_long),
        cmocka_unit_test(entering_in_the_middle_gives_the_rest),
        cmocka_unit_test(parts_of_a_portion_are_its_own_items),
        cmocka_unit_test(nothing_left_is_an_error),
        cmocka_unit_test(without_memory_there_is_no_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
