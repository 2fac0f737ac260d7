/* Calls of include/dtrt.h in any order and with any arguments that its contracts allow to be wrong: each is a success or an error that says
 * something, never one of ours, and at the end nothing is left. */
#include "include/dtrt.h"
#include "tests/fuzz/program.h"
#include "tests/fuzz/script.h"

#include <cjson/cJSON.h>
#include <math.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum {
    N_SLOTS = 2, /* of programs, processes, sessions and pipelines each */
    MOST_CALLS = 64,
    MOST_ARRAYS = 4,
    ROOM = 8192 /* around where an array of the caller's begins, whatever its strides */
};

static dtc_bytes artifact;

static dtrt_program *programs[N_SLOTS];
static dtrt_processes *processes[N_SLOTS];
static dtrt_session *sessions[N_SLOTS];
static dtrt_pipeline *pipelines[N_SLOTS];
static dtrt_processes *processes_of[N_SLOTS]; /* of sessions; NULL: they have none */
static int session_of[N_SLOTS];               /* of pipelines */
static dtrt_session_options more;             /* of sessions to be created: processes, placement, by_rows, shard_optimizer, fast_sums */
static char *saved;                           /* the checkpoint that was written last; or NULL */
static volatile uint8_t sink;

/* ---- arguments ---- */

static const int64_t numbers[] = {0, 1, 2, 3, 6, 12, 7, -1, INT64_MAX, INT64_MIN, (int64_t)1 << 31, (int64_t)1 << 53, INT64_MAX - 1};
static const int64_t counts[] = {0, 1, 2, -1}; /* of what would take long */
static const double values[] = {0, 1, 0.5, -1, 10, 1e-300, 1e300, 9007199254740993.0, -0.0, NAN, INFINITY, -INFINITY};
static const char *const names[] = {"train",   "evaluate",    "predict",  "rows",    "test",   "x",      "label", "score",  "same",
                                    "loss",    "n",           "accuracy", "rate",    "warmup", "frozen", "seed",  "epochs", "steps_per_epoch",
                                    "counter", "Net/dense/w", "",         "nothing", NULL};
static const char *const step_names[] = {NULL, "train", "evaluate", "predict", "nothing", ""};
static const char *const data_names[] = {NULL, "rows", "test", "nothing", ""};

static int pick_index(void) { return (int)pick(12) - 1; }

/* Of a file or a folder. */
static const char *pick_path(void) {
    static const char *const paths[] = {"ck", "net.dtx", "x.npy", "label.npy", "out", "nothing", "x.npy/below"};
    unsigned which = pick(10);
    if (which == 7) return saved;
    if (which > 7) return which == 8 ? NULL : "";
    return scratch_path(paths[which]);
}

/* What every status has to be; whether it is a success. Frees it. */
static bool check(dt_status *status) {
    bool is_ok = status == NULL;
    if (!is_ok && (status->code == DT_OK || status->code >= DT_INTERNAL || status->message == NULL || *status->message == 0)) {
        fprintf(stderr, "status %d: %s\n", (int)status->code, status->message);
        abort();
    }
    dtrt_status_free(status);
    return is_ok;
}

/* The same of a call that gives a pointer, which is NULL after an error alone. */
static void check_given(dt_status *status, const void *given) {
    if (check(status) != (given != NULL)) abort();
}

static void read_text(const char *text) {
    for (; text != NULL && *text != 0; text++) sink ^= (uint8_t)*text;
}

static void read_bytes(const void *data, size_t n) {
    for (size_t i = 0; i < n; i++) sink ^= ((const uint8_t *)data)[i];
}

/* ---- arrays ---- */

typedef struct own_array {
    dtrt_array array;
    int64_t dims[4], strides[4];
    _Alignas(16) char memory[2 * ROOM];
} own_array;

/* About what `like` is: an array of `rows` where it has rows. */
static void make_array(const dtrt_tensor *like, int64_t rows, own_array *own) {
    static const int64_t steps[] = {4, 0, -4, 8, 1, 64, -64};
    static const float f32s[] = {0, 0.25f, -1, 3, NAN, INFINITY, 1e30f};
    static const int32_t i32s[] = {0, 1, 2, 3, -1, INT32_MAX, INT32_MIN};
    unsigned what = pick(10);
    *own = (own_array){.array = {.data = own->memory + ROOM, .dtype = like->dtype, .n_dims = like->n_dims < 4 ? like->n_dims : 4, .dims = own->dims}};
    for (int d = 0; d < 4; d++) own->dims[d] = d < like->n_dims ? like->dims[d] : 1;
    if (own->dims[0] == DTRT_ROWS) own->dims[0] = rows;
    unsigned content = pick(7);
    for (size_t i = 0; i + 4 <= sizeof own->memory; i += 4)
        memcpy(own->memory + i, like->dtype == DTRT_I32 ? (const void *)&i32s[content] : &f32s[content], 4);
    switch (what) {
    case 1: own->array.data = NULL; break;
    case 2: own->array.data = own->memory + ROOM + 1; break;
    case 3: own->array.dtype = (dtrt_dtype)(pick(11) - 1); break;
    case 4: own->array.n_dims = (int)pick(6) - 1; break;
    case 5: own->dims[pick(4)] = PICK(numbers); break;
    case 6: own->array.dims = NULL; break;
    case 7:
    case 8:
        own->array.strides = own->strides;
        for (int d = 0; d < 4; d++) own->strides[d] = PICK(steps);
        break;
    default: break;
    }
    if (own->array.n_dims > 4) own->array.n_dims = 4;
}

/* ---- callbacks ---- */

/* What a callback may do, and what it may not; whether it asks for the end. */
static int try_session(dtrt_session *session) {
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    double value;
    if (!check(dtrt_session_describe(session, &info))) abort();
    switch (pick(8)) {
    case 1: check(dtrt_total(session, 0, "loss", &value)); break;
    case 2:
        if (check(dtrt_step(session, 0, NULL, 0))) abort();
        break;
    case 3:
        if (check(dtrt_session_destroy(session))) abort();
        break;
    case 4:
        if (check(dtrt_initialize(session))) abort();
        break;
    case 5:
        if (check(dtrt_save(session, scratch_path("ck"), NULL))) abort();
        break;
    case 6: return 1;
    default: break;
    }
    return 0;
}

static int hear(void *context, dtrt_session *session, const dtrt_event *event) {
    char *text;
    (void)context;
    check_given(dtrt_event_text(event, (dtrt_text_format)pick(2), &text), text);
    read_text(text);
    dtrt_free(text);
    return try_session(session);
}

static int fill(void *context, dtrt_session *session, void *const *buffers, int64_t most_rows, int64_t *rows) {
    static const int64_t given[] = {0, 1, 2, 6, -1, INT64_MAX};
    (void)context;
    if (most_rows > 0 && buffers[0] != NULL) memset(buffers[0], (int)pick(3), (size_t)most_rows * PROGRAM_IN * sizeof(float));
    *rows = PICK(given);
    return try_session(session);
}

/* ---- programs ---- */

/* The artifact, or one that is cut or has another byte. */
static void open_memory(const dtrt_open_options *options, dtrt_program **program) {
    size_t n = artifact.n_bytes, at = ((size_t)script_next() << 8 | script_next()) * 7919 % n;
    unsigned how = pick(4);
    char *bytes = malloc(n);
    if (bytes == NULL) abort();
    memcpy(bytes, artifact.data, n);
    if (how == 1) bytes[at] = (char)(bytes[at] ^ 1 << pick(8));
    if (how == 2) n = at;
    check_given(dtrt_open_memory(pick(8) == 7 ? NULL : "net.dtx", how == 3 ? NULL : bytes, n, options, program), *program);
    free(bytes);
}

static void open_program(void) {
    static const char *const levels[] = {NULL, "x86-64-v3", "x86-64-v4", "nothing", ""};
    const dtrt_open_options whole = {.level = PICK(levels)};
    dtrt_open_options *options = pick(2) == 0 ? NULL : script_struct(&whole, sizeof whole);
    dtrt_program **program = &programs[pick(N_SLOTS)];
    dtrt_close(*program);
    *program = NULL;
    if (pick(2) == 0)
        open_memory(options, program);
    else
        check_given(dtrt_open(pick(2) == 0 ? scratch_path("net.dtx") : pick_path(), options, program), *program);
    free(options);
}

static void look_at_program(const dtrt_program *program) {
    const dtrt_program_info info = {.name = ""};
    const dtrt_step_info step = {.name = ""};
    const dtrt_tensor tensor = {.name = ""};
    void *filled[] = {script_struct(&info, sizeof info), script_struct(&step, sizeof step), script_struct(&tensor, sizeof tensor)};
    const char *name = NULL, *found = PICK(names);
    char *text;
    int index = pick_index(), other = pick_index();
    check(dtrt_program_describe(program, filled[0]));
    check(dtrt_describe_step(program, index, filled[1]));
    check(dtrt_describe_variable(program, index, filled[2]));
    check(dtrt_describe_input(program, index, other, filled[2]));
    check(dtrt_describe_result(program, index, other, filled[2]));
    check(dtrt_describe_report_shape(program, index, other, filled[2]));
    check_given(dtrt_describe_report(program, index, other, &name), name);
    check_given(dtrt_describe_pipeline(program, index, &name), name);
    check_given(dtrt_describe_launch_value(program, index, &name), name);
    const int all[] = {dtrt_find_step(program, found),         dtrt_find_variable(program, found),      dtrt_find_pipeline(program, found),
                       dtrt_find_input(program, index, found), dtrt_find_result(program, index, found), dtrt_find_report(program, index, found)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] < -1 || all[i] > 100) abort();
    static const char *const members[] = {"program.dt", "program.ir", "plan.txt", "manifest.json", "nothing", "", NULL};
    check_given(dtrt_program_text(program, PICK(members), &text), text);
    read_text(text);
    dtrt_free(text);
    for (size_t i = 0; i < sizeof filled / sizeof *filled; i++) free(filled[i]);
}

/* ---- processes: this one, which nobody launched, is a run of one ---- */

static void close_processes(int slot) {
    bool is_held = false;
    for (int s = 0; s < N_SLOTS; s++) is_held = is_held || (sessions[s] != NULL && processes[slot] != NULL && processes_of[s] == processes[slot]);
    if (check(dtrt_processes_close(processes[slot])) == is_held) abort();
    if (is_held) return;
    if (more.processes == processes[slot]) more.processes = NULL;
    processes[slot] = NULL;
}

static void open_processes(void) {
    static const double deadlines[] = {0, 60, 1e-300, -1, NAN, INFINITY};
    const dtrt_processes_options whole = {.deadline_seconds = PICK(deadlines)};
    int slot = (int)pick(N_SLOTS);
    close_processes(slot);
    if (processes[slot] != NULL) return;
    dtrt_processes_options *options = pick(2) == 0 ? NULL : script_struct(&whole, sizeof whole);
    check_given(dtrt_processes_open(options, &processes[slot]), processes[slot]);
    free(options);
}

static void use_processes(dtrt_processes *used) {
    const dtrt_processes_info whole = {.note = ""};
    dtrt_processes_info *info = script_struct(&whole, sizeof whole);
    check(dtrt_processes_describe(used, info));
    if (used != NULL && info->size == sizeof *info && (info->number != 0 || info->n_processes != 1)) abort();
    free(info);
    if (pick(2) == 1) check(dtrt_processes_abort(used, pick(4) == 3 ? NULL : "a reason"));
}

/* What the sessions that are created next have. */
static void choose_more(void) {
    more.processes = processes[pick(N_SLOTS)];
    static const char *const placements[] = {NULL, "central", "elsewhere"};
    more.shard_optimizer = pick(2) == 1;
    static const char *const ways[] = {NULL, "exact", "lazy", "each"};
    uint64_t number = pick(24);
    more.fast_sums = number % 2 == 1;
    more.placement = placements[number / 2 % 3];
    more.by_rows = ways[number / 6];
}

/* ---- sessions ---- */

static bool has_pipelines(int slot) {
    for (int p = 0; p < N_SLOTS; p++)
        if (pipelines[p] != NULL && session_of[p] == slot) return true;
    return false;
}

static void destroy_session(int slot) {
    bool was_none = sessions[slot] == NULL, had_pipelines = has_pipelines(slot);
    bool is_gone = check(dtrt_session_destroy(sessions[slot]));
    if (is_gone != (was_none || !had_pipelines)) abort();
    if (is_gone) sessions[slot] = NULL;
}

static void create_session(void) {
    static const char *const devices[] = {NULL, "cpu", "cpu:2", "cpu:1x2", "cpu:2x1", "null:1", "cuda:0", "cpu:0", "gpu", "", "cpu:3", "cpu:99999"};
    static const int64_t replicas[] = {0, 1, 2, 3, 4, -1, INT64_MAX, INT64_MIN, (int64_t)1 << 31};
    static const int64_t threads[] = {0, 1, 2, 3, -1, INT64_MAX};
    static const double deadlines[] = {0, 60, INFINITY, NAN, -1};
    int slot = (int)pick(N_SLOTS);
    destroy_session(slot);
    if (sessions[slot] != NULL) return;
    dtrt_program *program = programs[pick(N_SLOTS)];
    const dtrt_session_options whole = {.data = pick(3) == 2 ? pick_path() : scratch,
                                        .devices = PICK(devices),
                                        .replicas = PICK(replicas),
                                        .threads = PICK(threads),
                                        .global_batch = PICK(numbers),
                                        .seed = PICK(numbers),
                                        .forward_only = pick(4) == 3,
                                        .ignore_bad_index = pick(2) == 1,
                                        .deadline_seconds = PICK(deadlines),
                                        .event = pick(2) == 1 ? hear : NULL,
                                        .check_numerics = pick(4) == 3,
                                        .measure_kernels = pick(4) == 3,
                                        .timeline_steps = PICK(numbers),
                                        .processes = more.processes,
                                        .placement = more.placement,
                                        .by_rows = more.by_rows,
                                        .shard_optimizer = more.shard_optimizer,
                                        .fast_sums = more.fast_sums};
    dtrt_session_options *options = script_struct(&whole, sizeof whole);
    processes_of[slot] = more.processes;
    check_given(dtrt_session_create(program, options, &sessions[slot]), sessions[slot]);
    free(options);
}

static void describe_session(dtrt_session *session) {
    const dtrt_session_info whole = {.level = ""};
    dtrt_session_info *info = script_struct(&whole, sizeof whole);
    check(dtrt_session_describe(session, info));
    dtrt_device_info device = DTRT_INIT(dtrt_device_info);
    if (check(dtrt_session_describe_device(session, 0, &device))) read_text(device.name);
    free(info);
}

static void find_rows(dtrt_session *session) {
    dtrt_session_info info = DTRT_INIT(dtrt_session_info);
    int64_t rows = PICK(numbers), first, n;
    dtrt_status_free(dtrt_session_describe(session, &info));
    bool is_batch = session != NULL && rows >= 1 && rows <= info.global_batch;
    if (check(dtrt_session_rows(session, rows, &first, &n)) != is_batch) abort();
    if (first != 0 || n != (is_batch ? rows : 0)) abort();
}

/* ---- steps ---- */

static void step(dtrt_session *session) {
    static own_array own[MOST_ARRAYS];
    dtrt_array arrays[MOST_ARRAYS];
    static const int64_t row_counts[] = {6, 1, 3, 12, 0, 7, -1, INT64_MAX};
    int index = pick(4) == 3 ? pick_index() : (int)pick(3);
    int64_t rows = PICK(row_counts);
    for (int i = 0; i < MOST_ARRAYS; i++) {
        dtrt_tensor like = DTRT_INIT(dtrt_tensor);
        dtrt_status_free(dtrt_describe_input(dtrt_session_program(session), index, i, &like));
        make_array(&like, rows, &own[i]);
        arrays[i] = own[i].array;
    }
    check(dtrt_step(session, index, pick(6) == 5 ? NULL : arrays, pick(3) == 2 ? PICK(row_counts) : 0));
}

static void step_buffer(dtrt_session *session) {
    void *data = NULL;
    size_t n;
    check_given(dtrt_step_buffer(session, pick_index(), pick_index(), &data, &n), data);
    if (data != NULL) memset(data, (int)pick(3), n);
}

static void step_callback(dtrt_session *session) {
    int64_t n;
    int64_t most = pick(6) == 5 ? -1 : 1 + pick(3);
    check(dtrt_step_callback(session, pick_index(), pick(8) == 7 ? NULL : fill, NULL, most, &n));
    if (n < 0 || (most > 0 && n > most)) abort();
}

static void read_reports(dtrt_session *session) {
    double all[16], value;
    int index = pick_index();
    check(dtrt_reports(session, index, all));
    check(dtrt_totals(session, index, pick(8) == 7 ? NULL : all));
    check(dtrt_report(session, index, PICK(names), &value));
    check(dtrt_total(session, index, PICK(names), &value));
    if (pick(2) == 1) check(dtrt_reset_totals(session, index));
}

/* Room of what it takes, or more, or less. */
static size_t pick_room(size_t n) {
    switch (pick(4)) {
    case 1: return n > 0 ? n - 1 : 0;
    case 2: return n + 1;
    case 3: return 4;
    default: return n;
    }
}

static void read_report_values(dtrt_session *session) {
    int index = pick_index(), report = pick_index();
    dtrt_tensor about = DTRT_INIT(dtrt_tensor);
    dtrt_status_free(dtrt_describe_report_shape(dtrt_session_program(session), index, report, &about));
    size_t n = pick_room(about.row_bytes / sizeof(double));
    double *all = malloc(n * sizeof *all);
    check(dtrt_report_values(session, index, report, all, n));
    check(dtrt_total_values(session, index, report, pick(8) == 7 ? NULL : all, n));
    free(all);
}

static void read_result(dtrt_session *session) {
    int index = pick_index(), result = pick_index();
    dtrt_tensor about = DTRT_INIT(dtrt_tensor);
    dtrt_status_free(dtrt_describe_result(dtrt_session_program(session), index, result, &about));
    size_t n = pick_room(about.row_bytes * PROGRAM_ROWS);
    void *data = malloc(n);
    int64_t rows;
    if (check(dtrt_result(session, index, result, data, n, &rows))) read_bytes(data, about.row_bytes * (size_t)rows);
    free(data);
}

/* ---- variables ---- */

static void use_variable(dtrt_session *session) {
    static own_array own;
    int index = pick(4) == 3 ? pick_index() : (int)pick(20);
    dtrt_tensor about = DTRT_INIT(dtrt_tensor);
    dtrt_array view;
    dtrt_status_free(dtrt_describe_variable(dtrt_session_program(session), index, &about));
    size_t n = pick_room(about.row_bytes);
    void *data = malloc(n);
    if (check(dtrt_read(session, index, data, n))) read_bytes(data, n);
    free(data);
    if (check(dtrt_view(session, index, &view))) read_bytes(view.data, about.row_bytes);
    make_array(&about, 1, &own);
    if (pick(2) == 1) check(dtrt_write(session, index, pick(8) == 7 ? NULL : &own.array));
}

static void use_launch(dtrt_session *session) {
    const char *name = PICK(names);
    double value;
    int64_t integer;
    if (pick(2) == 1)
        check(dtrt_set_launch(session, name, PICK(values)));
    else
        check(dtrt_set_launch_integer(session, name, PICK(numbers)));
    check(dtrt_get_launch(session, name, &value));
    check(dtrt_get_launch_integer(session, name, &integer));
}

/* ---- pipelines ---- */

static void close_pipeline(int slot) {
    if (!check(dtrt_pipeline_close(pipelines[slot]))) abort();
    pipelines[slot] = NULL;
}

static void open_pipeline(void) {
    int slot = (int)pick(N_SLOTS), session = (int)pick(N_SLOTS);
    close_pipeline(slot);
    check_given(dtrt_pipeline_open(sessions[session], PICK(data_names), &pipelines[slot]), pipelines[slot]);
    session_of[slot] = session;
}

static void look_at_pipeline(dtrt_pipeline *pipeline) {
    const dtrt_pipeline_info whole = {.n_components = 0};
    dtrt_pipeline_info *info = script_struct(&whole, sizeof whole);
    dtrt_array arrays[MOST_ARRAYS] = {{0}};
    int64_t rows;
    check(dtrt_pipeline_describe(pipeline, info));
    free(info);
    if (pick(2) == 1) check(dtrt_pipeline_seek(pipeline, PICK(numbers), PICK(numbers)));
    if (!check(dtrt_pipeline_next(pipeline, arrays, &rows)) || rows == 0) return;
    read_bytes(arrays[0].data, (size_t)rows * PROGRAM_IN * sizeof(float));
    read_bytes(arrays[1].data, (size_t)rows * sizeof(int32_t));
}

/* ---- checkpoints ---- */

static void save(dtrt_session *session) {
    const char *folder = pick(4) == 3 ? pick_path() : scratch_path("ck");
    char *path = NULL;
    check_given(dtrt_save(session, folder, &path), path);
    if (path == NULL) return;
    dtrt_free(saved);
    saved = path;
}

/* Another byte in a file of what was saved. */
static void damage(void) {
    static const char *const files[] = {"progress.json", "model.safetensors", "optimizer.safetensors", "checksums.json"};
    char path[256];
    snprintf(path, sizeof path, "%s/%s", saved != NULL ? saved : "", PICK(files));
    FILE *file = fopen(path, "rb+");
    if (file == NULL) return;
    fseek(file, script_next() * 3, SEEK_SET);
    fputc(script_next(), file);
    fclose(file);
}

static void load(dtrt_session *session) {
    const char *path = pick(4) == 3 ? pick_path() : scratch_path("ck");
    const dtrt_checkpoint_info about = {.step = 0};
    const dtrt_weights_options whole = {.map = pick(4) == 3 ? scratch_path("x.npy") : NULL, .allow_missing = pick(2) == 1};
    dtrt_checkpoint_info *info = script_struct(&about, sizeof about);
    dtrt_weights_options *options = script_struct(&whole, sizeof whole);
    check(dtrt_checkpoint_describe(path, info));
    if (pick(2) == 0)
        check(dtrt_load(session, path));
    else
        check(dtrt_load_weights(session, path, options));
    free(info);
    free(options);
}

/* ---- runs ---- */

static void train(dtrt_session *session) {
    static const char *const metrics[] = {NULL, "evaluate.accuracy", "max:train.loss", "nothing", ""};
    static const char *const plateaus[] = {NULL, "evaluate.accuracy:rate,patience=0", "train.loss:warmup", "rate", ":", "train.loss:rate,patience"};
    const dtrt_train_options whole = {.step = PICK(step_names),
                                      .from = PICK(data_names),
                                      .epochs = PICK(counts),
                                      .pause_after_epochs = PICK(counts),
                                      .max_steps = PICK(counts),
                                      .checkpoint_dir = pick(2) == 1 ? pick_path() : NULL,
                                      .checkpoint_every = PICK(counts),
                                      .keep = PICK(counts),
                                      .keep_best = PICK(metrics),
                                      .stop_after_no_gain = PICK(counts),
                                      .resume = pick(2) == 1,
                                      .log_every = PICK(counts),
                                      .reduce_on_plateau = PICK(plateaus),
                                      .log_dir = pick(2) == 1 ? scratch_path("logs") : NULL,
                                      .log_histograms = PICK(counts)};
    const dtrt_run_result room = {.stopped = 0};
    dtrt_train_options *options = script_struct(&whole, sizeof whole);
    dtrt_run_result *result = script_struct(&room, sizeof room);
    check(dtrt_train(session, options, pick(2) == 1 ? result : NULL));
    free(options);
    free(result);
}

static void evaluate(dtrt_session *session) {
    const dtrt_evaluate_options whole = {.step = PICK(step_names), .from = PICK(data_names)};
    dtrt_evaluate_options *options = script_struct(&whole, sizeof whole);
    check(dtrt_evaluate(session, options, NULL));
    free(options);
}

static void predict(dtrt_session *session) {
    const char *inputs[] = {scratch_path("x.npy"), pick_path(), pick_path()};
    const dtrt_predict_options whole = {.step = PICK(step_names),
                                        .from = PICK(data_names),
                                        .inputs = pick(4) == 3 ? NULL : inputs,
                                        .n_inputs = (int)pick(5) - 1,
                                        .output = pick(2) == 1 ? scratch_path("out") : NULL,
                                        .png = pick(4) == 3 ? scratch_path("out") : NULL};
    dtrt_predict_options *options = script_struct(&whole, sizeof whole);
    check(dtrt_predict(session, options, NULL));
    free(options);
}

static int take_bytes(void *context, dtrt_session *session, const char *bytes, size_t n_bytes) {
    (void)context;
    read_bytes(bytes, n_bytes);
    return try_session(session);
}

/* No step of the program takes text: it is refused. */
static void generate(dtrt_session *session) {
    static const char *const prompts[] = {"To be", "", NULL, "\xff"};
    const dtrt_generate_options whole = {.step = PICK(step_names),
                                         .prompt = PICK(prompts),
                                         .length = PICK(numbers),
                                         .has_temperature = (int)pick(2),
                                         .temperature = PICK(values),
                                         .made = pick(2) == 1 ? take_bytes : NULL};
    dtrt_generate_options *options = script_struct(&whole, sizeof whole);
    char *text;
    size_t n;
    check_given(dtrt_generate(session, options, &text, &n), text);
    read_text(text);
    dtrt_free(text);
    free(options);
}

static void write_data(dtrt_session *session) {
    static const int64_t batches[] = {0, 1, 5, -1, INT64_MIN};
    const dtrt_data_options whole = {.step = PICK(step_names),
                                     .from = PICK(data_names),
                                     .epoch = PICK(numbers),
                                     .n_batches = PICK(batches),
                                     .output = pick(3) == 2 ? pick_path() : scratch_path("out")};
    dtrt_data_options *options = script_struct(&whole, sizeof whole);
    check(dtrt_write_data(session, options));
    free(options);
}

/* ---- texts and files ---- */

static void say_info(const dtrt_program *program) {
    static const int64_t processes[] = {0, 1, 3, 8, -1, INT64_MAX, (int64_t)1 << 32};
    static const char *const devices[] = {NULL, "cpu", "cuda", "cpu:2", "", "gpu"};
    static const int64_t replicas[] = {0, 1, 3, 8, 64, -1, INT64_MAX};
    const dtrt_info_options whole = {.n_processes = PICK(processes),
                                     .replicas = PICK(replicas),
                                     .global_batch = PICK(numbers),
                                     .devices = PICK(devices),
                                     .shard_optimizer = (int)pick(2)};
    dtrt_info_options *options = script_struct(&whole, sizeof whole);
    char *text;
    check_given(dtrt_info(program, options, &text), text);
    read_text(text);
    dtrt_free(text);
    free(options);
}

static void report(void) {
    const char *folders[] = {pick(2) == 0 ? scratch_path("logs") : pick_path(), pick_path()};
    check(dtrt_write_report(pick(8) == 7 ? NULL : folders, (int)pick(4) - 1, pick(4) == 3 ? pick_path() : scratch_path("report.html")));
}

static void export_weights(void) {
    const dtrt_weights_options whole = {.map = pick(4) == 3 ? scratch_path("x.npy") : NULL, .allow_missing = pick(2) == 1};
    dtrt_weights_options *options = script_struct(&whole, sizeof whole);
    char *text, *warnings;
    check_given(dtrt_export_weights(pick(2) == 0 ? saved : pick_path(), scratch_path("exported"), options, &text, &warnings), text);
    read_text(text), read_text(warnings);
    dtrt_free(text), dtrt_free(warnings);
    free(options);
}

static void bench(void) {
    static const int64_t steps[] = {1, 2, -1, INT64_MIN};
    const dtrt_session_options of = {
        .size = sizeof of, .replicas = PICK(counts), .global_batch = PICK(numbers), .data = pick(2) == 1 ? scratch : NULL};
    const dtrt_bench_options whole = {.step = PICK(step_names),
                                      .from = PICK(data_names),
                                      .n_steps = PICK(steps),
                                      .versus = pick(2) == 1 ? programs[pick(N_SLOTS)] : NULL,
                                      .format = (dtrt_text_format)(pick(4) - 1)};
    char *text;
    if (programs[0] == NULL) return; /* its options say how short it is: a smaller struct would not */
    dtrt_bench_options options = whole;
    options.size = sizeof options;
    check_given(dtrt_bench(programs[0], &of, &options, &text), text);
    read_text(text);
    dtrt_free(text);
}

/* ---- what belongs to nothing ---- */

static void check_event(const dtrt_event *whole) {
    dtrt_event *event = script_struct(whole, sizeof *whole);
    dtrt_text_format format = (dtrt_text_format)(pick(4) - 1);
    char *text;
    check_given(dtrt_event_text(event, format, &text), text);
    read_text(text);
    cJSON *json = text != NULL && format == DTRT_JSON ? cJSON_Parse(text) : NULL;
    if (text != NULL && format == DTRT_JSON && json == NULL) {
        fprintf(stderr, "no JSON: %s\n", text);
        abort();
    }
    cJSON_Delete(json);
    dtrt_free(text);
    free(event);
}

static void write_event_of_arrays(void) {
    static const int64_t extents[] = {2, 1, 3, 0, -1, INT64_MAX, INT64_MIN};
    const double numbers_of[] = {PICK(values), PICK(values), PICK(values), 0, 1, 2, 3, 4, 5};
    const int64_t dims[] = {pick(3), pick(4), 1}, wrong[] = {PICK(extents), PICK(extents), 0};
    const dtrt_report_array arrays[] = {{.name = "recall", .n_dims = 1 + (int)pick(3), .dims = dims, .values = numbers_of},
                                        {.name = "none", .n_dims = (int)pick(5) - 1, .dims = pick(4) == 3 ? NULL : wrong, .values = NULL}};
    const dtrt_event whole = {.kind = (dtrt_event_kind)(pick(10) - 1), .n_arrays = (int)pick(4) - 1, .arrays = pick(4) == 3 ? NULL : arrays};
    check_event(&whole);
}

static void write_event(void) {
    static const char *const texts[] = {NULL, "", "train", "\xff\"\\\n"};
    const char *const list[] = {"loss", "a\"b", "n"};
    const double numbers_of[] = {PICK(values), PICK(values), 1};
    const dtrt_event whole = {.kind = (dtrt_event_kind)(pick(10) - 1),
                              .what = PICK(texts),
                              .text = PICK(texts),
                              .program = PICK(texts),
                              .step = PICK(texts),
                              .path = PICK(texts),
                              .number = PICK(numbers),
                              .epoch = PICK(numbers),
                              .epochs = PICK(numbers),
                              .steps = PICK(numbers),
                              .steps_per_epoch = PICK(numbers),
                              .examples = PICK(numbers),
                              .complete = (int)pick(2),
                              .seconds = PICK(values),
                              .examples_per_second = PICK(values),
                              .seconds_per_step = PICK(values),
                              .data_wait = PICK(values),
                              .first_step_seconds = PICK(values),
                              .replicas = PICK(numbers),
                              .memory_bytes = PICK(numbers),
                              .n_devices = (int)pick(5) - 1,
                              .devices = pick(4) == 3 ? NULL : list,
                              .n_values = (int)pick(5) - 1,
                              .names = pick(4) == 3 ? NULL : list,
                              .values = pick(4) == 3 ? NULL : numbers_of,
                              .trains = (int)pick(2)};
    check_event(&whole);
}

/* ---- the script ---- */

static void call(uint8_t letter) {
    dtrt_session *session = sessions[0];
    switch (letter) {
    case 'o': open_program(); break;
    case 'c': dtrt_close(programs[0]), programs[0] = NULL; break;
    case 'a': look_at_program(programs[pick(N_SLOTS)]); break;
    case 'O': open_processes(); break;
    case 'K': close_processes((int)pick(N_SLOTS)); break;
    case 'u': use_processes(processes[pick(N_SLOTS)]); break;
    case 'm': choose_more(); break;
    case 'S': create_session(); break;
    case 'X': destroy_session((int)pick(N_SLOTS)); break;
    case 'd': describe_session(session); break;
    case 'k': find_rows(session); break;
    case 'i': check(dtrt_initialize(session)); break;
    case 's': step(sessions[pick(N_SLOTS)]); break;
    case 'b': step_buffer(session); break;
    case 'f': step_callback(session); break;
    case 'r': read_reports(session); break;
    case 'R': read_result(session); break;
    case 'V': read_report_values(session); break;
    case 'v': use_variable(session); break;
    case 'l': use_launch(session); break;
    case 'P': open_pipeline(); break;
    case 'C': close_pipeline((int)pick(N_SLOTS)); break;
    case 'p': look_at_pipeline(pipelines[pick(N_SLOTS)]); break;
    case 'n': check(dtrt_step_pipeline(sessions[pick(N_SLOTS)], pick_index(), pipelines[pick(N_SLOTS)], NULL)); break;
    case 'w': save(session); break;
    case 'D': damage(); break;
    case 'L': load(session); break;
    case 'T': train(session); break;
    case 'E': evaluate(session); break;
    case 'Q': predict(session); break;
    case 'g': generate(session); break;
    case 'W': write_data(session); break;
    case 't': check(dtrt_write_timeline(session, pick(4) == 3 ? pick_path() : scratch_path("timeline.json"))); break;
    case 'I': say_info(programs[pick(N_SLOTS)]); break;
    case 'h': report(); break;
    case 'x': export_weights(); break;
    case 'B': bench(); break;
    case 'e': write_event(); break;
    case 'A': write_event_of_arrays(); break;
    default: break; /* a space, say */
    }
}

static void end(void) {
    for (int i = 0; i < N_SLOTS; i++) close_pipeline(i);
    for (int i = 0; i < N_SLOTS; i++) destroy_session(i);
    for (int i = 0; i < N_SLOTS; i++) close_processes(i);
    for (int i = 0; i < N_SLOTS; i++) dtrt_close(programs[i]), programs[i] = NULL;
    more = (dtrt_session_options){0};
    dtrt_free(saved);
    saved = NULL;
    static const char *const written[] = {"ck", "out", "nothing", "logs"};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++) dtrt_status_free(dt_file_remove_tree(scratch_path(written[i])));
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    artifact = program_make();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    script = bytes;
    script_end = bytes + n;
    for (int i = 0; i < MOST_CALLS && script < script_end; i++) call(script_next());
    end();
    return 0;
}
