/* libdtc: programs from files, strings and callbacks; results as bytes and files; findings, options of other sizes, threads. */
#include "base/file.h"
#include "base/options.h"
#include "include/dtc.h"
#include "tests/unit/scratch_folder.h"

#include <pthread.h>
#include <unistd.h>

#define SOURCE                                                                                                                                       \
    "use nn, losses, optimizers\n"                                                                                                                   \
    "option width = 5\n"                                                                                                                             \
    "model Net(x: f32[B, 4]) -> f32[B, 3] {\n"                                                                                                       \
    "    x = dense(x, units: width, activation: relu)\n"                                                                                             \
    "    return dense(x, units: 3)\n"                                                                                                                \
    "}\n"                                                                                                                                            \
    "step train(x: f32[B, 4], label: i32[B]) {\n"                                                                                                    \
    "    loss = sparse_categorical_crossentropy(label, Net(x))\n"                                                                                    \
    "    minimize(loss, sgd(learning_rate: 0.1))\n"                                                                                                  \
    "    report loss: mean(loss)\n"                                                                                                                  \
    "}\n"
#define WRONG "use nn\nstep s(x: f32[B, 4]) {\n    return y: dens(x, units: 3), z: nothing\n}\n"

static const dtc_compile_options one_level = {.size = sizeof one_level, .cpu = "x86-64-v3"};

static dtc_program program_of(const char *source) { return (dtc_program){.size = sizeof(dtc_program), .path = "net.dt", .source = source}; }

static dtc_bytes compiled(dtc_program program, const dtc_compile_options *options) {
    dtc_bytes bytes;
    assert_ok(dtc_compile(&program, options, &bytes));
    return bytes;
}

static void a_string_a_file_and_bytes_are_the_same_artifact(void **state) {
    (void)state;
    dtc_bytes bytes = compiled(program_of(SOURCE), &one_level);
    assert_memory_equal(bytes.data, "PK\3\4", 4);

    scratch_write("net.dt", SOURCE, strlen(SOURCE));
    char *path = strdup(scratch_path("net.dt"));
    dtc_program of_file = {.size = sizeof of_file, .path = path};
    assert_ok(dtc_compile(&of_file, &one_level, NULL)); /* beside the program */
    char *data;
    size_t n;
    assert_ok(dt_file_read(scratch_path("net.dtx"), &data, &n));
    assert_int_equal(n, bytes.n_bytes);
    assert_memory_equal(data, bytes.data, n);
    free(data), free(path);
    dtc_free(bytes.data);
}

static void a_stage_is_text(void **state) {
    (void)state;
    dtc_compile_options options = {.size = sizeof options, .emit = "ir"};
    dtc_bytes bytes = compiled(program_of(SOURCE), &options);
    assert_non_null(strstr(bytes.data, "step train"));
    assert_int_equal(strlen(bytes.data), bytes.n_bytes);
    dtc_free(bytes.data);
}

static void defines_change_the_program(void **state) {
    (void)state;
    dtc_program program = program_of(SOURCE);
    program.defines = (dtc_define[]){{"width", "7"}}, program.n_defines = 1;
    dtc_bytes bytes = compiled(program, &(dtc_compile_options){.size = sizeof(dtc_compile_options), .emit = "ir"});
    assert_non_null(strstr(bytes.data, "f32[4, 7]"));
    dtc_free(bytes.data);
}

static void a_summary_has_layers_variables_and_steps(void **state) {
    (void)state;
    dtc_program program = program_of(SOURCE);
    dtc_summary *summary;
    assert_ok(dtc_summarize(&program, &summary));
    assert_string_equal(summary->name, "net");
    assert_int_equal(summary->n_layers, 3);
    const dtc_layer *layer = summary->layers[1];
    assert_string_equal(layer->path, "Net/dense");
    assert_string_equal(layer->kind, "dense");
    assert_string_equal(layer->output, "f32[B, 5]");
    assert_int_equal(layer->depth, 1), assert_int_equal(layer->n_parameters, 4 * 5 + 5);
    assert_int_equal(summary->n_variables, 5); /* and how many updates sgd made */
    assert_string_equal(summary->variables[0]->kind, "parameter");
    assert_int_equal(summary->n_steps, 1);
    assert_string_equal(summary->steps[0]->name, "train");
    assert_null(summary->steps[0]->data);
    assert_true(summary->steps[0]->n_kernels > 0 && summary->steps[0]->flops_per_row > 0);
    assert_non_null(strstr(summary->text, "layer                              kind"));
    dtc_summary_free(summary);
    assert_fails(dtc_summarize(&(dtc_program){.size = sizeof(dtc_program), .source = WRONG}, &summary), DT_INVALID_ARGUMENT, "did you mean dense?");
    assert_null(summary);
}

/* ---- modules ---- */

typedef struct modules {
    const char *name, *text;
    pthread_t caller;
    int n_asked, stop;
} modules;

static int give_module(void *context, const char *name, const char **text) {
    modules *modules = context;
    modules->n_asked++;
    assert_true(pthread_equal(pthread_self(), modules->caller));
    if (strcmp(name, modules->name) == 0) *text = modules->text;
    return modules->stop;
}

#define USES "use mine\nstep s(x: f32[B, 4]) {\n    return y: twice(x)\n}\n"
#define MINE "fn twice(x) {\n    return 2 * x\n}\n"

static void modules_come_from_a_callback_or_a_folder(void **state) {
    (void)state;
    dtc_compile_options options = {.size = sizeof options, .emit = "ir"};
    modules given = {"mine", MINE, pthread_self(), 0, 0};
    dtc_program program = program_of(USES);
    program.module = give_module, program.context = &given;
    dtc_bytes from_callback = compiled(program, &options);
    assert_int_equal(given.n_asked, 1);

    scratch_write("mine.dt", MINE, strlen(MINE));
    char *folder = strdup(scratch_path(""));
    program = program_of(USES);
    program.folder = folder;
    dtc_bytes from_folder = compiled(program, &options);
    assert_string_equal(from_callback.data, from_folder.data);
    dtc_free(from_callback.data), dtc_free(from_folder.data);

    given.stop = 1;
    program.module = give_module, program.context = &given;
    assert_fails(dtc_compile(&program, &options, &from_folder), DT_ABORTED, "stopped");
    assert_null(from_folder.data);
    free(folder);
}

/* ---- findings ---- */

typedef struct findings {
    int n, stop_after;
    dtc_severity severity;
    int line, column, length, n_helps;
    char file[32], message[120], text[400];
} findings;

static int keep_first(void *context, const dtc_diagnostic *diagnostic) {
    findings *findings = context;
    if (findings->n++ > 0) return findings->n == findings->stop_after;
    findings->severity = diagnostic->severity;
    findings->line = diagnostic->line, findings->column = diagnostic->column, findings->length = diagnostic->length;
    for (size_t i = 0; i < diagnostic->n_remarks; i++) findings->n_helps += diagnostic->remarks[i].is_help;
    snprintf(findings->file, sizeof findings->file, "%s", diagnostic->file);
    snprintf(findings->message, sizeof findings->message, "%s", diagnostic->message);
    snprintf(findings->text, sizeof findings->text, "%s", diagnostic->text);
    return findings->n == findings->stop_after;
}

static void mistakes_are_told_one_by_one(void **state) {
    (void)state;
    findings findings = {0};
    dtc_program program = program_of(WRONG);
    program.diagnostic = keep_first, program.context = &findings;
    dt_status *status = dtc_compile(&program, NULL, NULL);
    assert_non_null(status);
    assert_int_equal(status->code, DT_INVALID_ARGUMENT);
    assert_string_equal(status->message, "net.dt: 2 errors");
    assert_string_equal(status->file, "net.dt");
    assert_int_equal(status->line, 3);
    assert_int_equal(status->column, 15);
    dtc_status_free(status);

    assert_int_equal(findings.n, 2);
    assert_int_equal(findings.severity, DTC_ERROR);
    assert_string_equal(findings.file, "net.dt");
    assert_string_equal(findings.message, "unknown name dens");
    assert_int_equal(findings.line, 3), assert_int_equal(findings.column, 15), assert_int_equal(findings.length, 4);
    assert_int_equal(findings.n_helps, 1);
    assert_non_null(strstr(findings.text, "net.dt:3:15: error: unknown name dens\n"));
    assert_non_null(strstr(findings.text, "^^^^\n"));
}

static void without_a_callback_the_status_holds_all_mistakes(void **state) {
    (void)state;
    dtc_program program = program_of(WRONG);
    dt_status *status = dtc_compile(&program, NULL, NULL);
    assert_non_null(strstr(status->message, "did you mean dense?"));
    assert_fails(status, DT_INVALID_ARGUMENT, "unknown name nothing");
}

static void a_callback_stops_the_call(void **state) {
    (void)state;
    findings findings = {.stop_after = 1};
    dtc_program program = program_of(WRONG);
    program.diagnostic = keep_first, program.context = &findings;
    assert_fails(dtc_compile(&program, NULL, NULL), DT_ABORTED, "stopped");
    assert_int_equal(findings.n, 1);
}

static void what_is_asked_for_is_reported(void **state) {
    (void)state;
    findings findings = {0};
    dtc_program program = program_of(SOURCE);
    program.diagnostic = keep_first, program.context = &findings;
    dtc_bytes bytes = compiled(program, &(dtc_compile_options){.size = sizeof(dtc_compile_options), .emit = "ir", .dump_after = "verify"});
    dtc_free(bytes.data);
    assert_int_equal(findings.severity, DTC_REPORT);
    assert_string_equal(findings.message, "# after verify");
}

/* A product of all rows with all rows. */
#define GATHERS "step s(x: f32[B, 4]) {\n    return y: mean(x @ x.T)\n}\n"

static void a_pass_warns_with_its_place(void **state) {
    (void)state;
    findings findings = {0};
    dtc_program program = program_of(GATHERS);
    program.diagnostic = keep_first, program.context = &findings;
    dtc_summary *summary;
    assert_ok(dtc_summarize(&program, &summary));
    dtc_summary_free(summary);
    assert_int_equal(findings.n, 1);
    assert_int_equal(findings.severity, DTC_WARNING);
    assert_string_equal(findings.file, "net.dt");
    assert_int_equal(findings.line, 2), assert_int_equal(findings.column, 20);
    assert_string_equal(findings.message, "matmul needs every row of f32[B, 4] on every replica: it is gathered, 16 bytes a row, each step");
    assert_non_null(strstr(findings.text, "net.dt:2:20: warning: matmul needs"));
}

/* ---- a picture, a pass, the operations ---- */

static void a_picture_is_text_or_a_file(void **state) {
    (void)state;
    dtc_program program = program_of(SOURCE);
    dtc_bytes text, models;
    assert_ok(dtc_graph(&program, NULL, &text));
    assert_non_null(strstr(text.data, "digraph"));
    assert_non_null(strstr(text.data, ">dense_1</b>"));
    char *path = strdup(scratch_path("net.dot"));
    assert_ok(dtc_graph(&program, &(dtc_graph_options){.size = sizeof(dtc_graph_options), .n_levels = 1, .output = path}, &models));
    assert_null(strstr(models.data, ">dense_1</b>"));
    char *written;
    size_t n;
    assert_ok(dt_file_read(path, &written, &n));
    assert_string_equal(written, models.data);
    free(written), free(path);
    dtc_free(text.data), dtc_free(models.data);
    dtc_graph_options options = {.size = sizeof options, .format = "gif"};
    assert_fails(dtc_graph(&program, &options, &text), DT_INVALID_ARGUMENT, "dot, svg, pdf and png");
    options.format = NULL, options.step = "nosuch";
    assert_fails(dtc_graph(&program, &options, &text), DT_NOT_FOUND, "picks one of: train");
    assert_null(text.data);
}

static void one_pass_on_a_graph(void **state) {
    (void)state;
    dtc_bytes ir = compiled(program_of(SOURCE), &(dtc_compile_options){.size = sizeof(dtc_compile_options), .emit = "ir"}), after;
    dtc_program graph = {.size = sizeof graph, .path = "any name", .source = ir.data};
    dtc_pass_options options = {.size = sizeof options};
    assert_ok(dtc_run_pass(&graph, &options, &after));
    assert_string_equal(after.data, ir.data);
    dtc_free(after.data);
    assert_non_null(strstr(ir.data, "= gradient("));
    options.pass = "autodiff";
    assert_ok(dtc_run_pass(&graph, &options, &after));
    assert_null(strstr(after.data, "= gradient("));
    dtc_free(after.data);
    assert_string_equal(dtc_pass_name(0), "verify");
    int n = 0;
    while (dtc_pass_name(n) != NULL) n++;
    assert_string_equal(dtc_pass_name(n - 1), "add_timers");
    options.pass = "bogus";
    assert_fails(dtc_run_pass(&graph, &options, &after), DT_NOT_FOUND, "no pass \"bogus\"");
    graph.source = "module m capacity 4\nfunction\n", options.pass = NULL;
    dt_status *status = dtc_run_pass(&graph, &options, &after);
    assert_non_null(status);
    assert_string_equal(status->file, "any name");
    assert_int_equal(status->line, 2);
    assert_fails(status, DT_INVALID_ARGUMENT, "any name:2:");
    dtc_free(ir.data);
}

static void operations_are_a_table(void **state) {
    (void)state;
    dtc_operations *table;
    assert_ok(dtc_list_operations(&table));
    assert_true(table->n_operations > 50);
    const dtc_operation *log1p = NULL;
    for (size_t i = 0; i < table->n_operations; i++) {
        assert_non_null(strstr(table->text, table->operations[i]->text));
        if (strcmp(table->operations[i]->name, "log1p") == 0) log1p = table->operations[i];
    }
    assert_string_equal(log1p->signature, "log1p(x: float)");
    assert_string_equal(log1p->numpy, "np.log1p(x)");
    assert_non_null(strstr(log1p->accuracy, "units in the last place"));
    dtc_operations_free(table);
}

/* ---- check ---- */

typedef struct checks {
    pthread_t caller;
    int n, n_progress, stop_after;
    double done;
    dtc_finding last;
    char where[64], text[200];
} checks;

static int keep_finding(void *context, const dtc_finding *finding) {
    checks *checks = context;
    assert_true(pthread_equal(pthread_self(), checks->caller));
    checks->last = *finding;
    snprintf(checks->where, sizeof checks->where, "%s", finding->where != NULL ? finding->where : "");
    snprintf(checks->text, sizeof checks->text, "%s", finding->text);
    return ++checks->n == checks->stop_after;
}

static int keep_progress(void *context, double done) {
    checks *checks = context;
    assert_true(pthread_equal(pthread_self(), checks->caller));
    assert_true(done >= checks->done && done <= 1);
    checks->done = done;
    return ++checks->n_progress == checks->stop_after;
}

static void a_check_tells_what_holds(void **state) {
    (void)state;
    checks checks = {.caller = pthread_self()};
    dtc_program program = program_of(SOURCE);
    dtc_check_program_options options = {.size = sizeof options, .finding = keep_finding, .progress = keep_progress, .context = &checks};
    dtc_check_result result = {.size = sizeof result};
    assert_ok(dtc_check_program(&program, &options, &result));
    assert_int_equal(result.n_held, 5), assert_int_equal(result.n_wrong, 0), assert_int_equal(result.n_unknown, 0);
    assert_int_equal(checks.n, 5), assert_true(checks.n_progress > 0);
    assert_int_equal(checks.last.kind, DTC_CHECK_BATCH); /* the last in order */
    assert_non_null(strstr(checks.text, "means and results follow its rows, at worst "));
    options.progress = NULL;
    checks.n = 0, checks.stop_after = 3;
    assert_fails(dtc_check_program(&program, &options, NULL), DT_ABORTED, "stopped by the caller");
    assert_int_equal(checks.last.kind, DTC_CHECK_REPLICAS);
    assert_int_equal(checks.last.n_compared, 7);
    assert_non_null(strstr(checks.text, "step train: 3 replicas: 7 results and variables are those of one, at worst "));

    checks.n = 0, checks.stop_after = 2, options.progress = NULL;
    assert_fails(dtc_check_program(&program, &options, &result), DT_ABORTED, "stopped by the caller");
    assert_int_equal(checks.n, 2), assert_int_equal(result.n_held, 0);
    options.step = "nosuch";
    assert_fails(dtc_check_program(&program, &options, NULL), DT_NOT_FOUND, "has no step nosuch");
    options.rows = 1025;
    assert_fails(dtc_check_program(&program, &options, NULL), DT_INVALID_ARGUMENT, "not 1025");
}

/* The logarithm of what is below 0 has no slope. */
static void what_a_check_cannot_tell_has_its_place(void **state) {
    (void)state;
    checks checks = {.caller = pthread_self(), .stop_after = -1};
    dtc_program program = program_of("step s(x: f32[B]) {\n    return g: grad(sum(log(x - 2.0)), x)\n}\n");
    dtc_check_program_options options = {.size = sizeof options, .finding = keep_finding, .context = &checks};
    dtc_check_result result = {.size = sizeof result};
    checks.stop_after = 2; /* gradients come before replicas */
    assert_fails(dtc_check_program(&program, &options, &result), DT_ABORTED, "stopped");
    assert_int_equal(checks.last.kind, DTC_CHECK_GRADIENTS);
    assert_int_equal(checks.last.verdict, DTC_UNKNOWN);
    assert_string_equal(checks.where, "x");
    assert_int_equal(checks.last.line, 2);
    assert_string_equal(checks.text, "step s: gradients: not known: x, net.dt:2 or its slope is not finite with the data that was made up\n");
    checks.n = 0, checks.stop_after = -1;
    assert_ok(dtc_check_program(&program, &options, &result));
    assert_int_equal(result.n_held, 4), assert_int_equal(result.n_unknown, 1);
}

/* ---- options ---- */

static void options_that_make_no_sense_are_refused(void **state) {
    (void)state;
    dtc_program program = program_of(SOURCE);
    dtc_compile_options options = one_level;
    options.cpu = "x86-64-v5";
    assert_fails(dtc_check_options(&program, &options), DT_INVALID_ARGUMENT, "no instruction set level \"x86-64-v5\"");
    options = one_level, options.emit = "bogus";
    assert_fails(dtc_compile(&program, &options, NULL), DT_INVALID_ARGUMENT, "there is no stage \"bogus\"");
    program.batch = -1;
    assert_fails(dtc_compile(&program, NULL, NULL), DT_INVALID_ARGUMENT, "not -1");
    program = (dtc_program){.size = sizeof program};
    assert_fails(dtc_compile(&program, NULL, NULL), DT_INVALID_ARGUMENT, "a path or a source");
    program = program_of(SOURCE), program.path = NULL, program.n_defines = 1;
    assert_fails(dtc_compile(&program, NULL, NULL), DT_INVALID_ARGUMENT, "n_defines without defines");
    assert_fails(dtc_compile(NULL, NULL, NULL), DT_INVALID_ARGUMENT, "a path or a source");
}

/* A program of the first header knows the path alone; one of a later header has members that this library lacks. */
static void structs_of_other_sizes(void **state) {
    (void)state;
    struct {
        dtc_compile_options known;
        const char *later;
    } larger = {.known = one_level};
    larger.known.size = sizeof larger;
    dtc_program program = program_of(SOURCE);
    dtc_bytes bytes = compiled(program, &larger.known);
    larger.later = "what this library does not know";
    assert_fails(dtc_compile(&program, &larger.known, NULL), DT_INVALID_ARGUMENT, "dtc_compile_options asks for something");

    dtc_program old = {.size = offsetof(dtc_program, source), .path = "nowhere.dt", .source = SOURCE}; /* the source is beyond it */
    assert_fails(dtc_compile(&old, &one_level, NULL), DT_NOT_FOUND, "nowhere.dt");
    old.size = 0;
    assert_fails(dtc_compile(&old, &one_level, NULL), DT_INVALID_ARGUMENT, "sizeof(dtc_program)");
    dtc_free(bytes.data);
}

/* ---- threads ---- */

static void *compile_some(void *argument) {
    dtc_bytes *bytes = argument;
    for (int i = 0; i < 3; i++) {
        dtc_free(bytes->data);
        *bytes = compiled(program_of(SOURCE), &one_level);
    }
    return NULL;
}

static void threads_compile_at_once(void **state) {
    (void)state;
    enum {
        N_THREADS = 4
    };
    pthread_t threads[N_THREADS];
    dtc_bytes bytes[N_THREADS] = {{0}};
    for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, compile_some, &bytes[i]), 0);
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(bytes[i].n_bytes, bytes[0].n_bytes);
        assert_memory_equal(bytes[i].data, bytes[0].data, bytes[0].n_bytes);
    }
    for (int i = 0; i < N_THREADS; i++) dtc_free(bytes[i].data);
}

static int keep_json(void *context, const dtc_diagnostic *diagnostic) {
    snprintf(context, 512, "%s", diagnostic->json);
    return 0;
}

static void a_program_is_formatted(void **state) {
    (void)state;
    dtc_program program = program_of("const  a=1\n\n\n\nfn f(x){return x+a}");
    dtc_bytes bytes;
    assert_ok(dtc_format(&program, NULL, &bytes));
    assert_string_equal(bytes.data, "const a = 1\n\nfn f(x) { return x + a }\n");
    assert_int_equal(bytes.n_bytes, strlen(bytes.data));
    char *path = strdup(scratch_path("formatted.dt"));
    assert_ok(dtc_format(&program, &(dtc_format_options){.size = sizeof(dtc_format_options), .output = path}, NULL));
    char *data;
    size_t n;
    assert_ok(dt_file_read(path, &data, &n));
    assert_string_equal(data, bytes.data);
    free(data), free(path);
    dtc_free(bytes.data);
    program.source = "fn f(x {";
    assert_fails(dtc_format(&program, NULL, &bytes), DT_INVALID_ARGUMENT, "expected )");
    assert_null(bytes.data);
}

static void a_finding_and_a_status_are_lines_of_json(void **state) {
    (void)state;
    char json[512] = "";
    dtc_program program = program_of("use nn\nstep s(x: f32[B, 4]) { return y: dens(x, units: 3) }\n");
    program.diagnostic = keep_json;
    program.context = json;
    dt_status *status = dtc_compile(&program, NULL, NULL);
    assert_string_equal(json,
                        "{\"severity\": \"error\", \"name\": null, \"file\": \"net.dt\", \"line\": 2, \"column\": 34, \"end\": 38, \"message\": "
                        "\"unknown name dens\", \"notes\": [], \"hints\": [\"did you mean dense?\"]}\n");
    char *of_status = dtc_status_json(status);
    assert_non_null(strstr(of_status, "\"line\": 2, \"column\": 34, \"end\": 34, \"message\": \"net.dt: 1 error\""));
    dtc_free(of_status);
    dtc_status_free(status);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_compile_at_once), /* first: LLVM is initialised by threads at once */
        cmocka_unit_test(a_string_a_file_and_bytes_are_the_same_artifact),
        cmocka_unit_test(a_stage_is_text),
        cmocka_unit_test(defines_change_the_program),
        cmocka_unit_test(a_summary_has_layers_variables_and_steps),
        cmocka_unit_test(modules_come_from_a_callback_or_a_folder),
        cmocka_unit_test(mistakes_are_told_one_by_one),
        cmocka_unit_test(without_a_callback_the_status_holds_all_mistakes),
        cmocka_unit_test(a_callback_stops_the_call),
        cmocka_unit_test(what_is_asked_for_is_reported),
        cmocka_unit_test(a_pass_warns_with_its_place),
        cmocka_unit_test(a_picture_is_text_or_a_file),
        cmocka_unit_test(one_pass_on_a_graph),
        cmocka_unit_test(a_program_is_formatted),
        cmocka_unit_test(a_finding_and_a_status_are_lines_of_json),
        cmocka_unit_test(operations_are_a_table),
        cmocka_unit_test(a_check_tells_what_holds),
        cmocka_unit_test(what_a_check_cannot_tell_has_its_place),
        cmocka_unit_test(options_that_make_no_sense_are_refused),
        cmocka_unit_test(structs_of_other_sizes),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
