/* report: what a run.jsonl says is what a page shows, whatever else it holds: lines that were cut, what was done twice, strings that would be markup.
 */
#include "base/memory.h"
#include "runtime/report/html.h"
#include "runtime/report/page.h"
#include "tests/unit/scratch_folder.h"

#define START                                                                                                                                        \
    "{\"time\":100,\"event\":\"start\",\"program\":\"net\",\"step\":\"train\",\"devices\":[\"cpu:0\",\"cpu:1\"],\"seed\":3,\"first_step\":0}\n"
#define STEP(number, loss) "{\"time\":101,\"event\":\"step\",\"number\":" #number ",\"examples_per_second\":0.0,\"loss\":" #loss "}\n"

static dt_arena *arena;

static dt_status *read_run(const char *folder, const char *text, dt_run_record *run) {
    char name[100];
    snprintf(name, sizeof name, "%s/run.jsonl", folder);
    assert_ok(dt_file_make_folders(scratch_path(folder)));
    scratch_write(name, text, strlen(text));
    return dt_run_record_read(scratch_path(folder), arena, run);
}

static int make_arena(void **state) {
    (void)state;
    arena = dt_arena_create();
    return arena != NULL ? 0 : -1;
}

static int drop_arena(void **state) {
    (void)state;
    dt_arena_destroy(arena);
    return 0;
}

static void assert_points(const dt_run_record *run, const char *report, const char *step, bool of_steps, int n, const double *wanted) {
    const dt_record_series *series = dt_run_record_find(run, report, step, of_steps);
    assert_non_null(series);
    assert_int_equal(series->points.n, n);
    for (int i = 0; i < n; i++) assert_true(series->points.items[i].number == wanted[2 * i] && series->points.items[i].value == wanted[2 * i + 1]);
}

static void vectors_and_matrices_are_those_of_the_last_epoch(void **state) {
    (void)state;
    dt_run_record run;
    dt_text page = {0};
    assert_ok(read_run("arrays",
                       START "{\"time\":101,\"event\":\"epoch\",\"step\":\"check\",\"number\":5,\"recall\":[0.5,null],\"confusion\":[[1,2],[3,4]]}\n"
                             "{\"time\":102,\"event\":\"epoch\",\"step\":\"check\",\"number\":10,\"recall\":[0.25,0.75],\"confusion\":[[5,0],[1,6]],"
                             "\"ragged\":[[1],[2,3]],\"deep\":[[[1]]],\"mixed\":[1,\"<b>\"],\"none\":[]}\n",
                       &run));
    assert_int_equal(run.arrays.n, 2);
    const dt_record_array *recall = &run.arrays.items[0], *confusion = &run.arrays.items[1];
    assert_string_equal(recall->report, "recall");
    assert_string_equal(confusion->step, "check");
    assert_true(recall->n_rows == 0 && recall->n_columns == 2 && recall->values[1] == 0.75);
    assert_true(confusion->n_rows == 2 && confusion->n_columns == 2 && confusion->values[2] == 1 && confusion->values[3] == 6);
    dt_report_page(&page, &run, 1, arena);
    assert_non_null(strstr(page.data, "confusion <span class=\"soft\">check</span>"));
    assert_non_null(strstr(page.data, "rgb(66 105 208/0.60)\">6</td>"));
    dt_text_free(&page);
}

/* As many as a file likes to name, in time. */
static void a_page_shows_the_first_of_many_reports(void **state) {
    (void)state;
    enum {
        N = 20000
    };
    dt_run_record run;
    dt_text text = {0}, page = {0};
    dt_text_append(&text, START);
    for (int i = 0; i < N; i++) dt_text_format(&text, "{\"time\":101,\"event\":\"epoch\",\"step\":\"train\",\"number\":1,\"r%d\":%d}\n", i, i);
    assert_ok(read_run("many", text.data, &run));
    assert_int_equal(run.series.n, N);
    for (int i = 0; i < N; i += 999) {
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        assert_points(&run, name, "train", false, 1, (double[]){1, i});
    }
    dt_report_page(&page, &run, 1, arena);
    assert_non_null(strstr(page.data, "More than 200 reports"));
    assert_true(page.n < 1 << 20);
    dt_text_free(&text);
    dt_text_free(&page);
}

static void events_become_series(void **state) {
    (void)state;
    dt_run_record run;
    assert_ok(
        read_run("series",
                 START STEP(5, 0.5) STEP(10, null)
                     STEP(15, 0.25) "{\"time\":109.5,\"event\":\"epoch\",\"step\":\"evaluate\",\"epoch\":1,\"number\":16,\"steps\":2,\"examples\":64,"
                                    "\"examples_per_second\":80.5,\"data_wait\":0.1,\"loss\":1,\"report.steps\":7}\n"
                                    "{\"time\":110,\"event\":\"end\",\"reason\":\"epochs\"}\n",
                 &run));
    assert_points(&run, "loss", "train", true, 2, (double[]){5, 0.5, 15, 0.25}); /* JSON has no NaN: null is no point */
    assert_points(&run, "loss", "evaluate", false, 1, (double[]){16, 1});
    assert_points(&run, "steps", "evaluate", false, 1, (double[]){16, 7});
    assert_points(&run, "examples_per_second", "evaluate", false, 1, (double[]){16, 80.5});
    assert_int_equal(run.series.n, 4);
    assert_string_equal(run.devices, "cpu:0, cpu:1");
    assert_string_equal(run.reason, "epochs");
    assert_true(run.seed == 3 && run.number == 16 && run.last_time - run.first_time == 10 && run.n_bad_lines == 0);
}

static void what_is_done_again_counts_once(void **state) {
    (void)state;
    dt_run_record run;
    assert_ok(read_run("again",
                       START STEP(5, 0.5) STEP(10, 0.4) STEP(
                           15, 0.3) "{\"time\":200,\"event\":\"start\",\"program\":\"net\",\"step\":\"train\",\"first_step\":10}\n" STEP(15, 0.2),
                       &run));
    assert_points(&run, "loss", "train", true, 3, (double[]){5, 0.5, 10, 0.4, 15, 0.2});
    assert_int_equal(run.n_starts, 2);
}

static void a_last_line_may_be_cut(void **state) {
    (void)state;
    dt_run_record run;
    assert_ok(read_run("cut", START STEP(5, 0.5) "{\"time\":110,\"ev", &run));
    assert_int_equal(run.n_bad_lines, 0);
    assert_string_equal(run.reason, "");
    assert_ok(read_run("bad", START "{\"time\":110,\"ev\n[]\n\n\"event\"\n" STEP(5, 0.5), &run));
    assert_int_equal(run.n_bad_lines, 3);
    assert_points(&run, "loss", "train", true, 1, (double[]){5, 0.5});
}

static void times_are_of_the_plan(void **state) {
    (void)state;
    dt_run_record run;
    assert_ok(read_run("plan",
                       START
                       "{\"event\":\"plan\",\"source\":\"use nn\",\"memory\":[{\"name\":\"parameters\",\"bytes\":8},7],\"kernels\":[{\"name\":\"a\","
                       "\"lines\":\"n.dt:1\",\"layers\":\"Net/dense\",\"flops\":10},{\"name\":\"b\"}]}\n"
                       "{\"event\":\"times\",\"steps\":2,\"seconds\":4,\"exchanging\":0.5,\"kernels\":[1,2]}\n"
                       "{\"event\":\"times\",\"steps\":2,\"seconds\":4,\"exchanging\":0.5,\"kernels\":[1,-2]}\n"
                       "{\"event\":\"times\",\"steps\":2,\"seconds\":4,\"exchanging\":0.5,\"kernels\":[1]}\n",
                       &run));
    assert_true(run.kernels.n == 2 && run.kernels.items[0].seconds == 2 && run.kernels.items[1].seconds == 2);
    assert_true(run.timed_steps == 4 && run.timed_seconds == 8 && run.exchanging_seconds == 1);
    assert_string_equal(run.kernels.items[0].layers, "Net/dense");
    assert_string_equal(run.source, "use nn");
}

static void what_is_no_run_is_an_error(void **state) {
    (void)state;
    dt_run_record run;
    assert_fails(dt_run_record_read(scratch_path("nowhere"), arena, &run), DT_NOT_FOUND, "nowhere: there is no such folder");
    assert_ok(dt_file_make_folders(scratch_path("empty")));
    assert_fails(dt_run_record_read(scratch_path("empty"), arena, &run), DT_NOT_FOUND, "holds no run.jsonl: name a folder that");
    assert_fails(read_run("nothing", "", &run), DT_DATA_LOSS, "run.jsonl: holds no run");
    assert_fails(read_run("torn", "{\"event\":\"sta", &run), DT_DATA_LOSS, "run.jsonl: holds no run");
}

static void text_is_no_markup(void **state) {
    (void)state;
    dt_text text = {0};
    dt_html_text(&text, "<b a=\"1\" c='2'>&\x01\xff é €</b>");
    assert_string_equal(text.data, "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\xef\xbf\xbd\xef\xbf\xbd é €&lt;/b&gt;");
    dt_text_free(&text);
}

static void numbers_are_for_people(void **state) {
    (void)state;
    static const struct {
        void (*append)(dt_text *, double);
        double value;
        const char *wanted;
    } cases[] = {
        {dt_html_number, 0.888, "0.8880"},
        {dt_html_number, 12.3456, "12.35"},
        {dt_html_number, 60000, "60,000"},
        {dt_html_number, 1234.4, "1,234"},
        {dt_html_number, -2, "-2"},
        {dt_html_number, 1.5e-7, "1.5e-07"},
        {dt_html_number, 1e300, "1e+300"},
        {dt_html_bytes, 512, "512\u00a0B"},
        {dt_html_bytes, 426024, "416\u00a0KiB"},
        {dt_html_bytes, 7302464, "6.96\u00a0MiB"},
        {dt_html_duration, 0.0123, "12.3\u00a0ms"},
        {dt_html_duration, 7.815, "7.82\u00a0s"},
        {dt_html_duration, 4.43e-7, "0.443\u00a0µs"},
        {dt_html_duration, 125, "2\u00a0min 5\u00a0s"},
        {dt_html_duration, 7300, "2\u00a0h 1\u00a0min"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dt_text text = {0};
        cases[i].append(&text, cases[i].value);
        assert_string_equal(text.data, cases[i].wanted);
        dt_text_free(&text);
    }
}

/* Each string of the file as something that would end an attribute, an element or a script. */
#define EVIL "\\\"'></title></script><script>alert(1)</script><img src=x onerror=alert(2)>"
static const char evil[] =
    "{\"time\":1,\"event\":\"start\",\"program\":\"" EVIL "\",\"step\":\"" EVIL "\",\"level\":\"" EVIL "\",\"devices\":[\"" EVIL "\"]}\n"
    "{\"event\":\"plan\",\"compiler\":\"" EVIL "\",\"llvm\":\"" EVIL "\",\"program_hash\":\"" EVIL "\",\"source\":\"" EVIL
    "\",\"memory\":[{\"name\":\"" EVIL "\",\"bytes\":1}],\"kernels\":[{\"name\":\"" EVIL "\",\"lines\":\"" EVIL "\",\"layers\":\"" EVIL
    "\",\"flops\":1}]}\n"
    "{\"event\":\"step\",\"number\":1,\"" EVIL "\":1}\n{\"event\":\"step\",\"number\":2,\"" EVIL "\":-1e308}\n"
    "{\"event\":\"epoch\",\"step\":\"" EVIL "\",\"number\":1e300,\"" EVIL "\":1e308}\n"
    "{\"event\":\"times\",\"steps\":1,\"seconds\":2,\"kernels\":[1]}\n{\"event\":\"warning\",\"message\":\"" EVIL "\"}\n"
    "{\"event\":\"picture\",\"name\":\"" EVIL "\",\"number\":1,\"width\":2,\"height\":2,\"png\":\"iVBORw0=\"}\n"
    "{\"event\":\"picture\",\"name\":\"p\",\"number\":1,\"width\":2,\"height\":2,\"png\":\"" EVIL "\"}\n"
    "{\"event\":\"end\",\"reason\":\"" EVIL "\"}\n";

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) n++;
    return n;
}

static void what_runs_say_is_escaped(void **state) {
    (void)state;
    dt_run_record runs[2];
    dt_text page = {0};
    jmp_buf guard;
    assert_ok(read_run("evil<img src=x onerror=alert(3)>\"", evil, &runs[0]));
    assert_ok(read_run("other", START, &runs[1]));
    for (int n = 1; n <= 2; n++) {
        assert_int_equal(setjmp(guard), 0);
        dt_arena_guard(arena, &guard);
        page = (dt_text){.arena = arena};
        dt_report_page(&page, runs, n, arena);
        assert_int_equal(count(page.data, "<script"), 1); /* its own */
        assert_int_equal(count(page.data, "<img"), 1);    /* the picture that is one */
        assert_int_equal(count(page.data, "onerror=alert(2)&gt;") >= 10, true);
        assert_int_equal(count(page.data, "'>"), 0);
        assert_int_equal(count(page.data, "http"), 1); /* http-equiv: nothing is fetched */
        assert_null(strstr(page.data, "nan"));
    }
}

/* Ten thousand devices take memory for their names, not for each list that came before. */
static void a_long_list_takes_little_memory(void **state) {
    (void)state;
    enum {
        N_DEVICES = 10000
    };
    dt_run_record run;
    dt_text text = {.arena = arena};
    dt_text_append(&text, "{\"event\":\"start\",\"devices\":[0");
    for (int i = 0; i < N_DEVICES; i++) dt_text_append(&text, ",\"cuda:0\"");
    dt_text_append(&text, "]}\n");
    size_t before = dt_arena_bytes(arena);
    assert_ok(read_run("long", text.data, &run));
    assert_int_equal(strlen(run.devices), N_DEVICES * strlen("cuda:0, ") - strlen(", "));
    assert_true(dt_arena_bytes(arena) - before < 1 << 20);
}

/* Every allocation may fail: an error then, and nothing is left. */
static void memory_may_be_out(void **state) {
    (void)state;
    dt_status *status = NULL;
    scratch_write("again/run.jsonl", evil, strlen(evil));
    for (int64_t n = 0; n == 0 || status != NULL; n++) {
        dt_run_record run;
        assert_true(n < 200);
        dt_memory_fail_after(n);
        dt_arena *small = dt_arena_create();
        status = small == NULL ? dt_error(DT_RESOURCE_EXHAUSTED, "out of memory") : dt_run_record_read(scratch_path("again"), small, &run);
        dt_memory_fail_after(-1);
        if (status != NULL) assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
        dt_arena_destroy(small);
        if (status == NULL) return;
        dt_status_free(status);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_arena, drop_arena)
        TEST(events_become_series),
        TEST(what_is_done_again_counts_once),
        TEST(a_page_shows_the_first_of_many_reports),
        TEST(vectors_and_matrices_are_those_of_the_last_epoch),
        TEST(a_last_line_may_be_cut),
        TEST(times_are_of_the_plan),
        TEST(what_is_no_run_is_an_error),
        TEST(text_is_no_markup),
        TEST(numbers_are_for_people),
        TEST(what_runs_say_is_escaped),
        TEST(memory_may_be_out),
        TEST(a_long_list_takes_little_memory),
#undef TEST
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
