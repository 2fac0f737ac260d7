/* Calls of include/dtc.h with any arguments that its contracts allow to be wrong: each is a success or an error that says something, never one of
 * ours, and callbacks may stop them. */
#include "tests/fuzz/program.h"
#include "tests/fuzz/script.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum {
    MOST_CALLS = 8
};

static const char graph[] = "step s(x: f32[B, 10]) {\n  %0 = reduce_sum(x, axes=[0, 1])\n  return y: %0\n}\n";
static const char module[] = "layer twice(x: f32[B, N]) -> f32[B, N] {\n    return 2 * x\n}\n";
static const char options_text[] = "use mine\noption units: int = 3\nstep s(x: f32[B, 4]) {\n    return y: twice(x) * units\n}\n";

static dtc_bytes artifact;
static int tells_left; /* how often the callbacks let it go on */
static volatile uint8_t sink;

/* Of what is expected to fail, and of what is not: a status that says something. Whether it is a success. */
static int check(dt_status *status) {
    int is_ok = status == NULL;
    if (!is_ok && (status->code == DT_OK || status->code >= DT_INTERNAL || status->message == NULL || *status->message == 0)) {
        fprintf(stderr, "status %d: %s\n", (int)status->code, status->message);
        abort();
    }
    dtc_status_free(status);
    return is_ok;
}

static void read_text(const char *text) {
    for (; *text != 0; text++) sink ^= (uint8_t)*text;
}

/* ---- callbacks ---- */

static int tell(void *context, const dtc_diagnostic *diagnostic) {
    (void)context;
    read_text(diagnostic->message), read_text(diagnostic->text), read_text(diagnostic->file), read_text(diagnostic->json);
    for (size_t i = 0; i < diagnostic->n_remarks; i++) read_text(diagnostic->remarks[i].text);
    if (diagnostic->severity == DTC_ERROR && *diagnostic->text == 0) abort();
    return tells_left-- <= 0;
}

static int find_module(void *context, const char *name, const char **text) {
    static const char *const texts[] = {NULL, module, "", "layer (", "use mine\n", "use other\n"};
    (void)context;
    read_text(name);
    *text = PICK(texts);
    return tells_left-- <= 0;
}

/* ---- programs ---- */

static dtc_define defines[3];

static dtc_program *make_program(void) {
    static const char *const sources[] = {graph, options_text, program_text, NULL, "", "step s(", "use mine\nuse mine\n", "\xff\xfe", "launch a = 1"};
    static const char *const paths[] = {"net.dt", "graph.ir", NULL, "", "no/folder/x.dt", "net.dtx"};
    static const char *const define_names[] = {"units", "other", "", NULL};
    static const char *const define_values[] = {"4", "\"relu\"", "[3, 3]", "-1", "1e400", "", "(", NULL};
    static const char *const precisions[] = {NULL, "f32", "tf32", "bf16", "f16", ""};
    static const int64_t batches[] = {0, 1, 6, 8, INT32_MAX, -1, INT64_MAX, INT64_MIN};
    const char *path = PICK(paths);
    for (size_t i = 0; i < sizeof defines / sizeof *defines; i++) defines[i] = (dtc_define){PICK(define_names), PICK(define_values)};
    tells_left = (int)pick(10) * 2;
    if (path != NULL && *path != 0 && pick(2) == 1) path = scratch_path(path);
    const dtc_program whole = {.path = path,
                               .source = PICK(sources),
                               .folder = pick(3) == 2   ? "no/folder"
                                         : pick(2) == 1 ? NULL
                                                        : scratch,
                               .defines = pick(6) == 5 ? NULL : defines,
                               .n_defines = pick(4),
                               .batch = PICK(batches),
                               .precision = PICK(precisions),
                               .diagnostic = pick(3) == 2 ? NULL : tell,
                               .module = pick(2) == 1 ? find_module : NULL};
    return script_struct(&whole, sizeof whole);
}

static dtc_compile_options *make_options(void) {
    static const char *const stages[] = {"kernels", "ir", "opt-ir", "plan", "cuda", "dtx", "", "nothing", "kernels"};
    static const char *const outputs[] = {NULL, "out", "no/folder/out"};
    static const char *const targets[] = {NULL, "cpu", "cuda", "cuda:sm_90", "cuda:", "cuda:sm_1", "cuda:sm_90,", "gpu", ""};
    static const char *const levels[] = {NULL, "x86-64-v3", "native", "x86-64-v3,x86-64-v3", "", ","};
    static const char *const switches[] = {NULL, "no-fuse", "no-fuse,no-tile,no-shrink", "fuse", ",", "", "no-library,no-nothing"};
    static const char *const passes[] = {NULL, "all", "autodiff", "nothing", ""};
    const char *output = PICK(outputs);
    const dtc_compile_options whole = {.output = output != NULL ? scratch_path(output) : NULL,
                                       .target = PICK(targets),
                                       .cpu = PICK(levels),
                                       .optimize = PICK(switches),
                                       .emit = PICK(stages),
                                       .dump_after = PICK(passes),
                                       .time_passes = (int)pick(2)};
    return script_struct(&whole, sizeof whole);
}

/* ---- calls ---- */

static void check_options(void) {
    dtc_program *program = make_program();
    dtc_compile_options *options = make_options();
    check(dtc_check_options(program, pick(4) == 3 ? NULL : options));
    free(program);
    free(options);
}

/* A stage: an artifact takes a hundred times longer. */
static void compile(void) {
    dtc_program *program = make_program();
    dtc_compile_options *options = make_options();
    dtc_bytes bytes = {0};
    dtc_bytes *given = pick(4) == 3 ? NULL : &bytes;
    if (options->size >= offsetof(dtc_compile_options, dump_after)) { /* it says which stage */
        bool is_ok = check(dtc_compile(program, options, given));
        if (!is_ok && bytes.data != NULL) abort();
        for (size_t i = 0; i < bytes.n_bytes; i++) sink ^= (uint8_t)bytes.data[i];
    }
    dtc_free(bytes.data);
    free(program);
    free(options);
}

static void format(void) {
    dtc_program *program = make_program();
    const dtc_format_options whole = {.output = NULL};
    dtc_format_options *options = script_struct(&whole, sizeof whole);
    dtc_bytes once = {0}, twice = {0};
    if (!check(dtc_format(program, options, &once)) && once.data != NULL) abort();
    const dtc_program again = {.size = sizeof again, .path = "again.dt", .source = once.data};
    if (once.data != NULL && check(dtc_format(&again, NULL, &twice)) && strcmp(once.data, twice.data) != 0) abort();
    dtc_free(once.data);
    dtc_free(twice.data);
    free(program);
    free(options);
}

static void summarize(void) {
    dtc_program *program = make_program();
    dtc_summary *summary = NULL;
    if (check(dtc_summarize(program, &summary)) != (summary != NULL)) abort();
    for (size_t i = 0; summary != NULL && i < summary->n_layers; i++) read_text(summary->layers[i]->path), read_text(summary->layers[i]->output);
    for (size_t i = 0; summary != NULL && i < summary->n_variables; i++) read_text(summary->variables[i]->path);
    for (size_t i = 0; summary != NULL && i < summary->n_steps; i++) read_text(summary->steps[i]->name);
    if (summary != NULL) read_text(summary->text);
    dtc_summary_free(summary);
    free(program);
}

static const char *const step_names[] = {NULL, "train", "s", "nothing", ""};

static void draw(void) {
    static const char *const formats[] = {NULL, "dot", "", "gif"}; /* others start a program */
    static const int levels[] = {0, 1, 2, -1, 1000000};
    dtc_program *program = make_program();
    const dtc_graph_options whole = {.step = PICK(step_names), .n_levels = PICK(levels), .format = PICK(formats)};
    dtc_graph_options *options = script_struct(&whole, sizeof whole);
    dtc_bytes bytes = {0};
    if (!check(dtc_graph(program, options, &bytes)) && bytes.data != NULL) abort();
    dtc_free(bytes.data);
    free(program);
    free(options);
}

static int take_finding(void *context, const dtc_finding *finding) {
    (void)context;
    read_text(finding->text), read_text(finding->file);
    if (finding->verdict == DTC_WRONG) abort(); /* of no program that is given here */
    return tells_left-- <= 0;
}

static int take_progress(void *context, double done) {
    (void)context;
    if (!(done >= 0 && done <= 1)) abort();
    return tells_left-- <= 0;
}

static void check_program(void) {
    static const int64_t rows[] = {1, 0, 2, -1, 1025, INT64_MAX};
    dtc_program *program = make_program();
    const dtc_check_program_options whole = {
        .step = PICK(step_names), .rows = PICK(rows), .finding = pick(3) == 2 ? NULL : take_finding, .progress = pick(2) == 1 ? take_progress : NULL};
    const dtc_check_result room = {.n_held = 0};
    dtc_check_program_options *options = script_struct(&whole, sizeof whole);
    dtc_check_result *result = script_struct(&room, sizeof room);
    check(dtc_check_program(program, options, result));
    free(program);
    free(options);
    free(result);
}

static void run_pass(void) {
    const char *passes[40] = {NULL, "", "nothing"};
    unsigned n = 3;
    for (const char *name; n < 40 && (name = dtc_pass_name((int)n - 3)) != NULL;) passes[n++] = name;
    dtc_program *program = make_program();
    const dtc_pass_options whole = {.pass = passes[pick(n)]};
    dtc_pass_options *options = script_struct(&whole, sizeof whole);
    dtc_bytes bytes = {0};
    if (!check(dtc_run_pass(program, options, pick(4) == 3 ? NULL : &bytes)) && bytes.data != NULL) abort();
    dtc_free(bytes.data);
    free(program);
    free(options);
}

/* Weights into an artifact, either of which may be cut, or have another byte. */
static void pack(void) {
    static const char *const paths[] = {"damaged", "net.dtx", "weights", "x.npy", "nothing", ""};
    size_t n = artifact.n_bytes, at = ((size_t)script_next() << 8 | script_next()) * 7919 % n;
    unsigned how = pick(3);
    char *bytes = malloc(n);
    if (bytes == NULL) abort();
    memcpy(bytes, artifact.data, n);
    if (how == 1) bytes[at] = (char)(bytes[at] ^ 1 << pick(8));
    if (how == 2) n = at;
    scratch_write("damaged", bytes, n);
    free(bytes);
    const char *header = "{\"Net/dense/w\":{\"dtype\":\"F32\",\"shape\":[4,5],\"data_offsets\":[0,80]}}";
    char weights[256] = {(char)strlen(header)};
    memcpy(weights + 8, header, strlen(header));
    size_t n_weights = 8 + strlen(header) + 80;
    if (pick(2) == 1) weights[script_next() % n_weights] ^= (char)(1 << pick(8));
    if (pick(4) == 3) n_weights = script_next() % n_weights;
    scratch_write("weights", weights, n_weights);
    const char *program = pick(8) == 7 ? NULL : scratch_path(PICK(paths)), *from = pick(8) == 7 ? NULL : scratch_path(PICK(paths));
    check(dtc_pack(program, from, scratch_path("packed")));
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    artifact = program_make();
    scratch_write("net.dt", program_text, strlen(program_text));
    scratch_write("graph.ir", graph, strlen(graph));
    scratch_write("mine.dt", module, strlen(module));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    script = bytes;
    script_end = bytes + n;
    for (int i = 0; i < MOST_CALLS && script < script_end; i++) switch (script_next()) {
        case 'o': check_options(); break;
        case 'c': compile(); break;
        case 's': summarize(); break;
        case 'f': format(); break;
        case 'g': draw(); break;
        case 'k': check_program(); break;
        case 'r': run_pass(); break;
        case 'p': pack(); break;
        default: break;
        }
    return 0;
}
