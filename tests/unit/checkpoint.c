/* checkpoint: what is saved is loaded; what is damaged, unfinished or another model's is not.
 *
 * The session here is this file's own: four variables in plain memory, in place of the library's. */
#include "runtime/checkpoint.h"
#include "base/memory.h"
#include "runtime/checkpoint_writer.h"
#include "runtime/data/safetensors.h"
#include "runtime/execution/ranges.h"
#include "tests/unit/scratch_folder.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct dt_session {
    dt_artifact artifact;
    float kernel[6];
    int64_t seen;
    float slot[6];
    float rate;
};

static const int64_t dims[] = {2, 3}, other_dims[] = {3, 2};
static const dt_artifact_variable variables[] = {
    {.path = "Net/kernel", .kind = DT_VARIABLE_PARAMETER, .tensor = {.dtype = DT_F32, .n_dims = 2, .dims = dims}, .bytes = 24},
    {.path = "Net/seen", .kind = DT_VARIABLE_STATE, .tensor = {.dtype = DT_I64}, .bytes = 8, .row_init = -1},
    {.path = "adam/Net/kernel/m", .kind = DT_VARIABLE_SLOT, .tensor = {.dtype = DT_F32, .n_dims = 2, .dims = dims}, .bytes = 24},
    {.path = "rate", .kind = DT_VARIABLE_LAUNCH, .tensor = {.dtype = DT_F32}, .bytes = 4, .row_init = -1},
};
static const dt_artifact_variable other_variables[] = {
    {.path = "Net/kernel", .kind = DT_VARIABLE_PARAMETER, .tensor = {.dtype = DT_F32, .n_dims = 2, .dims = other_dims}, .bytes = 24},
    {.path = "Net/bias", .kind = DT_VARIABLE_PARAMETER, .tensor = {.dtype = DT_I64}, .bytes = 8},
};

static int n_read, fail_read = -1;

static void *storage(dt_session *session, int variable) {
    void *const all[] = {session->kernel, &session->seen, session->slot, &session->rate};
    return all[variable];
}

const dt_artifact *dt_session_artifact(const dt_session *session) { return &session->artifact; }

static bool in_parts; /* the kernel and its slot are collected, from processes that are all this one */

dt_status *dt_ranges_layout_of(const dt_artifact *artifact, const dt_session_options *options, dt_arena *arena, dt_ranges_layout *layout) {
    (void)arena;
    *layout = (dt_ranges_layout){artifact, options, NULL};
    return NULL;
}

void dt_ranges_give(const dt_ranges_layout *layout, int variable, int process, dt_arena *arena, dt_strided_ranges *given) {
    (void)layout, (void)variable, (void)process, (void)arena, (void)given; /* what is in parts is collected */
}

dt_byte_range dt_ranges_own(const dt_session *of, int variable) { return (dt_byte_range){0, of->artifact.variables[variable].bytes}; }

bool dt_ranges_are_shared_out(const dt_ranges_layout *layout, int variable) {
    return in_parts && layout->artifact->variables[variable].row_init >= 0;
}

dt_status *dt_ranges_read(dt_session *of, int device, int variable, dt_byte_range range, void *data) {
    (void)device;
    if (n_read++ == fail_read) return dt_error(DT_IO, "the device is gone");
    memcpy(data, (char *)storage(of, variable) + range.first, (size_t)range.n_bytes);
    return NULL;
}

dt_status *dt_ranges_write(dt_session *of, int variable, dt_byte_range range, const void *data) {
    memcpy((char *)storage(of, variable) + range.first, data, (size_t)range.n_bytes);
    return NULL;
}

dt_status *dt_ranges_collect(dt_session *of, int variable, dt_byte_range range, const dt_step_context *context, void *data) {
    (void)context;
    if (n_read++ == fail_read) return dt_error(DT_IO, "another process is gone");
    memcpy(data, (char *)storage(of, variable) + range.first, (size_t)range.n_bytes);
    return NULL;
}

const dt_session_options *dt_session_get_options(const dt_session *of) {
    static const dt_session_options none;
    (void)of;
    return &none;
}

int dt_artifact_find_variable(const dt_artifact *artifact, const char *path) {
    for (int i = 0; i < artifact->n_variables; i++)
        if (strcmp(artifact->variables[i].path, path) == 0) return i;
    return -1;
}

static dt_session session = {.artifact = {.n_variables = 4, .variables = variables}};

static void set_all(float value) {
    for (int i = 0; i < 6; i++) session.kernel[i] = value + (float)i, session.slot[i] = -value;
    session.seen = (int64_t)value;
    session.rate = value / 3;
}

static dt_checkpoint_state state_of(int64_t step) {
    dt_checkpoint_state state = {
        .step = step, .epoch = 2, .examples = 640, .seed = -5, .replicas = 2, .global_batch = 128, .epochs = 5, .steps_per_epoch = 469, .n_added = 5};
    assert_ok(dt_checkpoint_state_set(&state.program_hash, "0123456789abcdef"));
    assert_ok(dt_checkpoint_state_set(&state.level, "x86-64-v3"));
    assert_ok(dt_checkpoint_state_set(&state.data, "train_set"));
    return state;
}

static void keep_path(void *context, const char *path, int64_t step, double stall_seconds) {
    assert_true(step >= 0 && stall_seconds >= 0 && stall_seconds < 60);
    snprintf(context, 256, "%s", path);
}

static dt_status *save_to(const char *folder, dt_checkpoint_state *state, char path[256]) {
    char written[256] = "", name[256];
    dt_checkpoint_writer *writer;
    snprintf(name, sizeof name, "%s", folder);
    DT_TRY(dt_checkpoint_writer_create(
        &session, &(dt_checkpoint_writer_options){.folder = name, .keep = INT64_MAX, .written = keep_path, .context = written}, &writer));
    dt_status *status = dt_checkpoint_writer_begin(writer, state);
    status = dt_status_first(status, dt_checkpoint_writer_wait(writer));
    dt_checkpoint_writer_destroy(writer);
    if (path != NULL) memcpy(path, written, sizeof written);
    return status;
}

/* Saves a checkpoint of step `step` in which all values are about `step`. */
static void save(const char *folder, int64_t step) {
    dt_checkpoint_state state = state_of(step);
    set_all((float)step);
    assert_ok(save_to(folder, &state, NULL));
    dt_checkpoint_state_free(&state);
}

static void assert_newest(const char *folder, const char *wanted) {
    char *path;
    assert_ok(dt_checkpoint_newest(folder, &path));
    if (wanted == NULL)
        assert_null(path);
    else
        assert_string_equal(path, wanted);
    dt_release(path);
}

static dt_status *load(const char *path) {
    dt_checkpoint_state state;
    dt_status *status = dt_checkpoint_load(&session, path, &state);
    dt_checkpoint_state_free(&state);
    return status;
}

static void a_state_comes_back(void **unused) {
    (void)unused;
    dt_checkpoint_state state = state_of(DT_MOST_COUNT), back;
    dt_total totals[] = {{.number = 0.1}, {.number = INFINITY}, {.is_integer = true, .integer = INT64_MIN}, {.number = -0.0}, {.number = NAN}};
    state.totals = totals;
    state.n_totals = 5;
    assert_ok(dt_checkpoint_state_set(&state.metric, "evaluate.\"accuracy\""));
    assert_ok(dt_checkpoint_state_set(&state.libraries, "cuBLASLt 13.0.2: 2 calls\n  a \"call\"\n"));
    assert_ok(dt_checkpoint_state_set(&state.launch, "rate=0.0003\nnoisy=true\n"));
    assert_ok(dt_checkpoint_state_set(&state.plateau, "evaluate.loss:rate"));
    state.plateau_state = (dt_plateau_state){.best = INFINITY, .n_bad = 3, .n_cooling = 1};
    state.has_best = true;
    state.best = 1.0 / 3;
    state.best_step = 469;
    dt_file_range model[] = {{0, 100, 0, 1, {1, 0xaf}}, {100, 20, 30, 2, {0xff}}, {120, 10, 0, 1, {3}}}, optimizer[] = {{0, 7, 0, 1, {0}}};
    state.files[DT_CHECKPOINT_MODEL] = (dt_file_ranges){3, model};
    state.files[DT_CHECKPOINT_OPTIMIZER] = (dt_file_ranges){1, optimizer};
    char *text = dt_checkpoint_state_print(&state);
    assert_ok(dt_checkpoint_state_parse("progress.json", text, strlen(text), &back));
    assert_true(back.step == DT_MOST_COUNT && back.epoch == 2 && back.examples == 640 && back.seed == -5 && back.n_added == 5 &&
                back.steps_per_epoch == 469);
    assert_string_equal(back.program_hash, "0123456789abcdef");
    assert_string_equal(back.metric, "evaluate.\"accuracy\"");
    assert_string_equal(back.libraries, "cuBLASLt 13.0.2: 2 calls\n  a \"call\"\n");
    assert_string_equal(back.launch, "rate=0.0003\nnoisy=true\n");
    assert_string_equal(back.plateau, "evaluate.loss:rate");
    assert_true(back.plateau_state.best == INFINITY && back.plateau_state.n_bad == 3 && back.plateau_state.n_cooling == 1);
    assert_true(back.has_best && back.best == 1.0 / 3 && back.best_step == 469);
    assert_int_equal(back.n_totals, 5);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(back.totals[i].is_integer, totals[i].is_integer);
        assert_memory_equal(&back.totals[i].integer, &totals[i].integer, 8);
    }
    assert_true(isnan(back.totals[4].number));
    assert_int_equal(back.files[DT_CHECKPOINT_MODEL].n, 3);
    assert_memory_equal(back.files[DT_CHECKPOINT_MODEL].items, model, sizeof model);
    assert_memory_equal(back.files[DT_CHECKPOINT_OPTIMIZER].items, optimizer, sizeof optimizer);
    dt_checkpoint_state_free(&back);

    for (size_t n = 0; n + 2 < strlen(text); n++) { /* without the last brace and newline */
        assert_fails(dt_checkpoint_state_parse("p", text, n, &back), DT_DATA_LOSS, "p: is truncated or altered");
        dt_checkpoint_state_free(&back);
    }
    char *format = strstr(text, "\"format\": 2");
    format[10] = '1';
    assert_fails(dt_checkpoint_state_parse("p", text, strlen(text), &back), DT_FAILED_PRECONDITION, "is of format 1, this dtrun reads format 2");
    format[10] = '2';
    char *step = strstr(text, "\"step\": \"") + 9;
    step[strlen("900719925474099")]++; /* a count to which one cannot be added for ever */
    assert_fails(dt_checkpoint_state_parse("p", text, strlen(text), &back), DT_DATA_LOSS, "p: step: expected at most 9007199254740992");
    dt_checkpoint_state_free(&back);
    step[0] = '-';
    assert_fails(dt_checkpoint_state_parse("p", text, strlen(text), &back), DT_DATA_LOSS, "p: step");
    dt_checkpoint_state_free(&back);
    dt_release(text);
    state.totals = NULL;
    memset(state.files, 0, sizeof state.files);
    dt_checkpoint_state_free(&state);
}

/* What no run writes. */
static void ranges_are_one_after_another(void **unused) {
    (void)unused;
    static const struct {
        dt_file_range ranges[3];
        const char *message;
    } wrong[] = {{{{0, 100, 0, 1, {0}}, {101, 9, 0, 1, {0}}}, "begins at byte 101, which leaves a gap: the range before it ends at byte 100"},
                 {{{0, 100, 0, 1, {0}}, {99, 9, 0, 1, {0}}}, "begins at byte 99, which another range has too"},
                 {{{0, 100, 0, 1, {0}}, {0, 100, 0, 1, {0}}}, "begins at byte 0, which another range has too"},
                 {{{1, 100, 0, 1, {0}}, {101, 1, 0, 1, {0}}}, "begins at byte 1, which leaves a gap: the range before it ends at byte 0"},
                 {{{-1, 100, 0, 1, {0}}, {99, 1, 0, 1, {0}}}, "first: expected at least 0"},
                 {{{0, 100, 0, 1, {0}}, {100, 0, 0, 1, {0}}}, "bytes: expected at least 1"},
                 {{{0, 100, 0, 1, {0}}, {100, -5, 0, 1, {0}}}, "bytes: expected at least 1"},
                 {{{0, 100, 0, 1, {0}}, {100, INT64_MAX, 0, 1, {0}}}, "bytes: expected at most 9223372036854775707"},
                 {{{0, 10, 30, 3, {0}}, {10, 20, 0, 1, {0}}}, "begins at byte 60, which leaves a gap: the range before it ends at byte 40"},
                 {{{0, 10, 30, 3, {0}}, {5, 20, 30, 2, {0}}}, "begins at byte 5, which another range has too"},
                 {{{0, 10, 30, 3, {0}}, {10, 20, 30, 3, {0}}, {9, 1, 0, 1, {0}}}, "begins at byte 9, and the range before it at byte 10"},
                 {{{0, 10, 9, 2, {0}}, {19, 1, 0, 1, {0}}}, "stride: expected at least 10"},
                 {{{0, 1, 2, INT64_C(1) << 40, {0}}, {1, 1, 2, INT64_C(1) << 40, {0}}}, "more than 1073741824 ranges"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dt_checkpoint_state state = state_of(7), back;
        dt_file_range ranges[3];
        memcpy(ranges, wrong[i].ranges, sizeof ranges);
        int n = ranges[2].times > 0 ? 3 : 2;
        for (int f = 0; f < DT_CHECKPOINT_FILES; f++) state.files[f] = (dt_file_ranges){f == DT_CHECKPOINT_MODEL ? n : 1, ranges};
        char *text = dt_checkpoint_state_print(&state);
        assert_fails(dt_checkpoint_state_parse("p", text, strlen(text), &back), DT_DATA_LOSS, wrong[i].message);
        dt_checkpoint_state_free(&back);
        memset(state.files, 0, sizeof state.files);
        dt_checkpoint_state_free(&state);
        dt_release(text);
    }
}

/* None, and a checkpoint that does not know. */
static void libraries_come_back(void **unused) {
    (void)unused;
    for (int i = 0; i < 2; i++) {
        dt_checkpoint_state state = state_of(7), back;
        dt_file_range all = {0, 100, 0, 1, {0}};
        for (int f = 0; f < DT_CHECKPOINT_FILES; f++) state.files[f] = (dt_file_ranges){1, &all};
        assert_ok(dt_checkpoint_state_set(&state.libraries, i == 0 ? "" : NULL));
        char *text = dt_checkpoint_state_print(&state);
        assert_ok(dt_checkpoint_state_parse("progress.json", text, strlen(text), &back));
        assert_true(i == 0 ? back.libraries != NULL && back.libraries[0] == 0 : back.libraries == NULL);
        dt_checkpoint_state_free(&back);
        memset(state.files, 0, sizeof state.files);
        dt_checkpoint_state_free(&state);
        dt_release(text);
    }
}

static void what_is_saved_is_loaded(void **unused) {
    (void)unused;
    const char *folder = scratch_path("a");
    assert_newest(folder, NULL);
    dt_checkpoint_state state = state_of(7), back;
    char path[256];
    set_all(7);
    assert_ok(save_to(folder, &state, path));
    assert_string_equal(path, scratch_path("a/step-7"));
    set_all(0);
    assert_ok(dt_checkpoint_load(&session, path, &back));
    assert_true(session.kernel[5] == 12 && session.seen == 7 && session.slot[0] == -7 && session.rate == 7.0f / 3);
    assert_int_equal(back.step, 7);
    assert_true(back.files[DT_CHECKPOINT_MODEL].n == 1 && back.files[DT_CHECKPOINT_OPTIMIZER].n == 1);
    dt_checkpoint_state_free(&back);
    set_all(0);
    assert_ok(dt_checkpoint_load_weights(&session, path));
    assert_true(session.kernel[5] == 12 && session.seen == 7 && session.slot[0] == 0 && session.rate == 7.0f / 3);
    dt_checkpoint_state_free(&state);

    set_all(8); /* the same step again replaces it */
    state = state_of(7);
    assert_ok(save_to(folder, &state, NULL));
    dt_checkpoint_state_free(&state);
    set_all(0);
    assert_ok(load(scratch_path("a/step-7")));
    assert_true(session.kernel[0] == 8);
    assert_false(dt_file_exists(scratch_path("a/.unfinished-7")));
}

static void the_newest_is_by_number(void **unused) {
    (void)unused;
    const char *folder = scratch_path("b");
    int lock;
    save(folder, 9), save(folder, 10), save(folder, 8);
    assert_ok(dt_file_make_folders(scratch_path("b/step-x")));
    assert_ok(dt_file_make_folders(scratch_path("b/step-99999999999999999999")));
    assert_ok(dt_file_make_folders(scratch_path("b/.unfinished-50")));
    assert_newest(folder, scratch_path("b/step-10"));
    assert_ok(dt_checkpoint_prepare(folder, &lock));
    dt_checkpoint_unlock(lock);
    assert_false(dt_file_exists(scratch_path("b/.unfinished-50")));
    assert_true(dt_file_exists(scratch_path("b/step-x")));
}

static void a_folder_is_written_by_one_run(void **unused) {
    (void)unused;
    const char *folder = scratch_path("h");
    char host[65] = "", holder[128];
    int first, second;
    gethostname(host, sizeof host - 1);
    snprintf(holder, sizeof holder, "another run writes its checkpoints here, process %ld on %s since 2", (long)getpid(), host);
    assert_ok(dt_checkpoint_prepare(folder, &first));
    assert_fails(dt_checkpoint_prepare(folder, &second), DT_FAILED_PRECONDITION, holder);
    assert_int_equal(second, -1);
    dt_checkpoint_unlock(first);
    assert_ok(dt_checkpoint_prepare(folder, &second));
    dt_checkpoint_unlock(second);

    pid_t process = fork(); /* one that dies with the lock */
    if (process == 0) {
        dt_status *status = dt_checkpoint_prepare(folder, &first);
        _exit(status == NULL ? 0 : 1);
    }
    int result;
    assert_int_equal(waitpid(process, &result, 0), process);
    assert_int_equal(result, 0);
    assert_ok(dt_checkpoint_prepare(folder, &second));
    dt_checkpoint_unlock(second);
    dt_checkpoint_unlock(-1);

    scratch_write("file", "x", 1);
    assert_fails(dt_checkpoint_prepare(scratch_path("file"), &first), DT_NOT_FOUND, "file: cannot create the folder: Not a directory");
    assert_ok(dt_file_make_folders(scratch_path("i/.lock")));
    assert_fails(dt_checkpoint_prepare(scratch_path("i"), &first), DT_IO, "i/.lock: cannot open: Is a directory");
}

static void the_last_and_the_best_are_kept(void **unused) {
    (void)unused;
    const char *folder = scratch_path("c");
    for (int64_t step = 1; step <= 6; step++) save(folder, step);
    assert_ok(dt_checkpoint_prune(folder, 2, 3));
    for (int step = 1; step <= 6; step++) {
        char name[16];
        snprintf(name, sizeof name, "c/step-%d", step);
        assert_int_equal(dt_file_exists(scratch_path(name)), step == 3 || step >= 5);
    }
    assert_ok(dt_checkpoint_prune(folder, 1, -1));
    assert_newest(folder, scratch_path("c/step-6"));
    assert_false(dt_file_exists(scratch_path("c/step-3")));
}

static void limit_files(rlim_t most) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = most;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void a_failed_save_leaves_the_one_before(void **unused) {
    (void)unused;
    char folder[256];
    snprintf(folder, sizeof folder, "%s", scratch_path("d"));
    save(folder, 1);
    for (rlim_t most = 0; most <= 300; most += 100) { /* bytes that a file may have */
        dt_checkpoint_state state = state_of(2);
        limit_files(most);
        dt_status *status = save_to(folder, &state, NULL);
        limit_files(RLIM_INFINITY);
        assert_fails(status, DT_IO, "File too large");
        assert_false(dt_file_exists(scratch_path("d/.unfinished-2")));
        dt_checkpoint_state_free(&state);
        assert_newest(folder, scratch_path("d/step-1"));
        assert_ok(load(scratch_path("d/step-1")));
    }
    for (int n = 0;; n++) {
        dt_checkpoint_state state = state_of(2);
        dt_memory_fail_after(n);
        dt_status *status = save_to(folder, &state, NULL);
        dt_memory_fail_after(-1);
        dt_checkpoint_state_free(&state);
        if (status == NULL) break;
        assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
        assert_ok(load(scratch_path("d/step-1")));
    }
    assert_newest(folder, scratch_path("d/step-2"));
    for (int n = 0;; n++) {
        set_all(0);
        dt_memory_fail_after(n);
        dt_status *status = load(scratch_path("d/step-2"));
        dt_memory_fail_after(-1);
        if (status == NULL) break;
        dt_status_free(status); /* cJSON has its own memory, so what fails is not always that */
        assert_true(session.kernel[0] == 0);
    }
}

static void what_is_not_a_number_is_not_saved(void **unused) {
    (void)unused;
    save(scratch_path("g"), 1);
    dt_checkpoint_state state = state_of(2);
    session.slot[4] = NAN;
    assert_fails(save_to(scratch_path("g"), &state, NULL), DT_OUT_OF_RANGE, "adam/Net/kernel/m holds what is not a number");
    dt_checkpoint_state_free(&state);
    assert_newest(scratch_path("g"), scratch_path("g/step-1"));
}

/* ---- by a thread ---- */

static struct {
    int n;
    int64_t step;
    pthread_t thread;
} told;

static void tell(void *context, const char *path, int64_t step, double stall_seconds) {
    assert_true(stall_seconds >= 0 && stall_seconds < 60);
    char name[32];
    snprintf(name, sizeof name, "%s/step-%d", (const char *)context, (int)step);
    assert_string_equal(path, scratch_path(name));
    told.n++;
    told.step = step;
    told.thread = pthread_self();
}

static dt_checkpoint_writer *new_writer(const char *folder, int64_t keep, dt_progress *progress) {
    dt_checkpoint_writer *writer;
    char path[256];
    snprintf(path, sizeof path, "%s", scratch_path(folder));
    assert_ok(dt_file_make_folders(path));
    static char name[256]; /* outlives the writer */
    snprintf(name, sizeof name, "%s", path);
    dt_checkpoint_writer_options options = {
        .folder = name, .keep = keep, .progress = progress, .written = tell, .context = (void *)(uintptr_t)folder};
    assert_ok(dt_checkpoint_writer_create(&session, &options, &writer));
    told.n = 0;
    return writer;
}

static void what_was_there_at_the_boundary_is_written(void **unused) {
    (void)unused;
    dt_progress progress = {0};
    dt_checkpoint_writer *writer = new_writer("j", 2, &progress);
    dt_total totals[] = {{.number = 0.5}, {.is_integer = true, .integer = 3}};
    for (int64_t step = 1; step <= 4; step++) {
        dt_checkpoint_state state = state_of(step), back;
        set_all((float)step);
        state.totals = totals;
        state.n_totals = 2;
        state.has_best = true;
        state.best_step = 1;
        totals[0].number = (double)step;
        uint64_t before = atomic_load(&progress.n_done);
        assert_ok(dt_checkpoint_writer_begin(writer, &state));
        set_all(100), totals[0].number = 100; /* the next step */
        assert_int_equal(told.n, step - 1);   /* the one before is whole */
        if (step == 4) {
            while (told.n == 3) assert_ok(dt_checkpoint_writer_look(writer));
            assert_true(atomic_load(&progress.n_done) > before + 2);
        }
        assert_ok(step % 2 != 0 ? dt_checkpoint_writer_wait(writer) : dt_checkpoint_writer_look(writer));
        if (step % 2 != 0) {
            char name[16];
            snprintf(name, sizeof name, "j/step-%d", (int)step);
            assert_ok(dt_checkpoint_load(&session, scratch_path(name), &back));
            assert_true(session.kernel[1] == (float)step + 1 && session.slot[5] == -(float)step && session.seen == step);
            assert_true(back.n_totals == 2 && back.totals[0].number == (double)step && back.totals[1].integer == 3);
            dt_checkpoint_state_free(&back);
        }
        state.totals = NULL;
        assert_ok(dt_checkpoint_writer_wait(writer));
        assert_true(told.n == step && told.step == step && pthread_equal(told.thread, pthread_self()));
        dt_checkpoint_state_free(&state);
    }
    assert_true(dt_file_exists(scratch_path("j/step-1")) && !dt_file_exists(scratch_path("j/step-2")));
    assert_true(dt_file_exists(scratch_path("j/step-3")) && dt_file_exists(scratch_path("j/step-4")));
    dt_checkpoint_writer_destroy(writer);
}

/* The system's, of the whole program: a disk that takes as long as a test wants. */
static atomic_bool disk_is_slow;

int fsync(int fd) {
    (void)fd;
    while (atomic_load(&disk_is_slow)) usleep(500);
    return 0;
}

static void nobody_waits_for_the_disk(void **unused) {
    (void)unused;
    dt_checkpoint_writer *writer = new_writer("l", 1, NULL);
    dt_checkpoint_state state = state_of(1);
    set_all(1);
    atomic_store(&disk_is_slow, true);
    assert_ok(dt_checkpoint_writer_begin(writer, &state));
    set_all(2); /* the next step */
    assert_ok(dt_checkpoint_writer_look(writer));
    assert_int_equal(told.n, 0);
    assert_newest(scratch_path("l"), NULL);
    atomic_store(&disk_is_slow, false);
    assert_ok(dt_checkpoint_writer_wait(writer));
    assert_int_equal(told.n, 1);
    assert_ok(load(scratch_path("l/step-1")));
    assert_true(session.kernel[0] == 1);
    dt_checkpoint_writer_destroy(writer);
    dt_checkpoint_state_free(&state);
}

static void what_processes_have_rows_of_is_collected_while_it_is_written(void **unused) {
    (void)unused;
    in_parts = true;
    dt_checkpoint_writer *writer = new_writer("p", 2, NULL);
    dt_checkpoint_state state = state_of(1), other = state_of(2);
    assert_int_equal(dt_checkpoint_copy_bytes(&session.artifact, dt_session_get_options(&session), false), 64);
    set_all(1);
    n_read = 0;
    assert_ok(dt_checkpoint_writer_begin(writer, &state));
    assert_int_equal(told.n, 1);
    assert_int_equal(n_read, 4); /* the launch value, what is copied, and two that are collected */
    set_all(2);
    assert_ok(load(scratch_path("p/step-1")));
    assert_true(session.kernel[5] == 6 && session.seen == 1 && session.slot[5] == -1);

    n_read = 0, fail_read = 3; /* the slot: the model's file is whole */
    assert_fails(dt_checkpoint_writer_begin(writer, &other), DT_IO, "another process is gone");
    fail_read = -1;
    session.kernel[2] = NAN;
    assert_fails(dt_checkpoint_writer_begin(writer, &other), DT_OUT_OF_RANGE, "Net/kernel holds what is not a number (NaN)");
    assert_newest(scratch_path("p"), scratch_path("p/step-1"));
    dt_checkpoint_writer_destroy(writer);
    dt_checkpoint_state_free(&state);
    dt_checkpoint_state_free(&other);
    in_parts = false;
}

static void an_error_of_writing_is_told_once(void **unused) {
    (void)unused;
    dt_checkpoint_writer *writer = new_writer("k", 1, NULL);
    dt_checkpoint_state state = state_of(1), other = state_of(2);
    set_all(1);
    limit_files(100);
    assert_ok(dt_checkpoint_writer_begin(writer, &state));
    assert_fails(dt_checkpoint_writer_begin(writer, &other), DT_IO, "model.safetensors: cannot write: File too large");
    limit_files(RLIM_INFINITY);
    assert_ok(dt_checkpoint_writer_wait(writer));
    assert_int_equal(told.n, 0);
    n_read = 0, fail_read = 2;
    assert_fails(dt_checkpoint_writer_begin(writer, &other), DT_IO, "the device is gone");
    fail_read = -1;
    session.slot[0] = NAN;
    assert_ok(dt_checkpoint_writer_begin(writer, &other));
    assert_fails(dt_checkpoint_writer_wait(writer), DT_OUT_OF_RANGE, "adam/Net/kernel/m holds what is not a number");
    assert_newest(scratch_path("k"), NULL);
    set_all(2);
    assert_ok(dt_checkpoint_writer_begin(writer, &other));
    dt_checkpoint_writer_destroy(writer); /* waits, and tells nobody */
    assert_int_equal(told.n, 0);
    assert_newest(scratch_path("k"), scratch_path("k/step-2"));
    dt_checkpoint_state_free(&state);
    dt_checkpoint_state_free(&other);
}

static void a_run_without_checkpoints_has_no_writer(void **unused) {
    (void)unused;
    dt_checkpoint_state state = {.step = 1};
    assert_ok(dt_checkpoint_writer_begin(NULL, &state));
    assert_ok(dt_checkpoint_writer_look(NULL));
    assert_ok(dt_checkpoint_writer_wait(NULL));
    dt_checkpoint_writer_destroy(NULL);
    for (int n = 0;; n++) {
        dt_checkpoint_writer *writer;
        dt_memory_fail_after(n);
        dt_status *status = dt_checkpoint_writer_create(&session, &(dt_checkpoint_writer_options){0}, &writer);
        dt_memory_fail_after(-1);
        if (status == NULL) {
            dt_checkpoint_writer_destroy(writer);
            assert_true(n >= 3);
            return;
        }
        assert_fails(status, DT_RESOURCE_EXHAUSTED, "");
    }
}

static void damage_is_named(void **unused) {
    (void)unused;
    const char *const files[] = {"model.safetensors", "optimizer.safetensors", "progress.json"};
    for (int i = 0; i < 3; i++) {
        char folder[16], name[64], *bytes;
        size_t n;
        snprintf(folder, sizeof folder, "e%d", i);
        save(scratch_path(folder), 4), save(scratch_path(folder), 5);
        snprintf(name, sizeof name, "%s/step-5/%s", folder, files[i]);
        assert_ok(dt_file_read(scratch_path(name), &bytes, &n));
        set_all(0);
        for (size_t at = 1; at < n; at += 1 + n / 50) {
            scratch_write(name, bytes, at); /* cut */
            snprintf(name, sizeof name, "%s/step-5", folder);
            assert_fails(load(scratch_path(name)), DT_DATA_LOSS, "to go on from step-4");
            snprintf(name, sizeof name, "%s/step-5/%s", folder, files[i]);
        }
        if (i < 2) {
            bytes[n - 1] ^= 1; /* altered: only the sum can tell */
            scratch_write(name, bytes, n);
            snprintf(name, sizeof name, "%s/step-5", folder);
            assert_fails(load(scratch_path(name)), DT_DATA_LOSS,
                         i == 0 ? "was altered: bytes 0 to 223, of Net/kernel, Net/seen, have"
                                : "was altered: bytes 0 to 151, of adam/Net/kernel/m, have");
            snprintf(name, sizeof name, "%s/step-5/%s", folder, files[i]);
        }
        assert_int_equal(unlink(scratch_path(name)), 0);
        snprintf(name, sizeof name, "%s/step-5", folder);
        assert_fails(load(scratch_path(name)), DT_DATA_LOSS, "the checkpoint is damaged: remove the folder");
        assert_true(session.kernel[0] == 0); /* nothing was set */
        dt_release(bytes);
    }
}

static void another_model_is_listed(void **unused) {
    (void)unused;
    save(scratch_path("f"), 1);
    set_all(0);
    session.artifact = (dt_artifact){.n_variables = 2, .variables = other_variables};
    dt_status *status = load(scratch_path("f/step-1"));
    assert_non_null(strstr(dt_status_message(status), "program: Net/kernel f32[3, 2], file: f32[2, 3]"));
    assert_non_null(strstr(dt_status_message(status), "program: Net/bias i64, file: nothing of this name"));
    assert_non_null(strstr(dt_status_message(status), "file: Net/seen i64, program: nothing of this name"));
    assert_fails(status, DT_FAILED_PRECONDITION, "step-1: holds another model");
    session.artifact = (dt_artifact){.n_variables = 4, .variables = variables};
    assert_true(session.kernel[0] == 0);
}

static void weights_are_read_alone(void **unused) {
    (void)unused;
    static const char zeros[24];
    const dt_safetensor tensors[] = {{.name = "Net/kernel", .dtype = DT_F32, .n_dims = 2, .dims = dims, .n_bytes = 24, .data = zeros}};
    unsigned char sum[DT_SHA256_BYTES];
    dt_safetensors *weights;
    assert_ok(dt_safetensors_write(scratch_path("w"), 1, tensors, sum));
    assert_ok(dt_checkpoint_read_weights(scratch_path("w"), &weights));
    assert_int_equal(weights->n, 1);
    dt_safetensors_free(weights);
    save(scratch_path("f"), 1);
    assert_ok(dt_checkpoint_read_weights(scratch_path("f/step-1"), &weights));
    assert_int_equal(weights->n, 2); /* no slots */
    dt_safetensors_free(weights);
    assert_fails(dt_checkpoint_read_weights(scratch_path("f"), &weights), DT_INVALID_ARGUMENT, "name one of them");
    assert_fails(dt_checkpoint_read_weights(scratch_path("none"), &weights), DT_NOT_FOUND, "none");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_comes_back),
        cmocka_unit_test(ranges_are_one_after_another),
        cmocka_unit_test(libraries_come_back),
        cmocka_unit_test(what_is_saved_is_loaded),
        cmocka_unit_test(the_newest_is_by_number),
        cmocka_unit_test(a_folder_is_written_by_one_run),
        cmocka_unit_test(the_last_and_the_best_are_kept),
        cmocka_unit_test(a_failed_save_leaves_the_one_before),
        cmocka_unit_test(what_is_not_a_number_is_not_saved),
        cmocka_unit_test(what_was_there_at_the_boundary_is_written),
        cmocka_unit_test(nobody_waits_for_the_disk),
        cmocka_unit_test(what_processes_have_rows_of_is_collected_while_it_is_written),
        cmocka_unit_test(an_error_of_writing_is_told_once),
        cmocka_unit_test(a_run_without_checkpoints_has_no_writer),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(another_model_is_listed),
        cmocka_unit_test(weights_are_read_alone),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
