/* The contract of device.h, over every kind in the registry, GPUs by a fake of their driver (DT_CUDA_DRIVER) or a real one; and the words of
 * --devices. */
#include "runtime/devices/device.h"

#include "base/memory.h"
#include "runtime/devices/spec.h"
#include "runtime/threads/thread_pool.h"
#include "tests/support/expect.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static dt_device *open_device(void **state, int number, int n) {
    const dt_device_kind *kind = *state;
    dt_device *device;
    assert_null(dt_device_open(kind, number, n, &device));
    assert_ptr_equal(device->kind, kind);
    return device;
}

static void a_device_has_a_name_and_knows_its_memory(void **state) {
    char name[32];
    int number = ((const dt_device_kind *)*state)->is_gpu ? 0 : 3; /* a GPU's number is the machine's */
    dt_device *device = open_device(state, number, 5);
    snprintf(name, sizeof name, "%s:%d", device->kind->name, number);
    assert_string_equal(device->name, name);
    assert_true(dt_device_free_bytes(device) > 0);
    dt_device_close(device);
}

static void memory_is_zeroed_aligned_and_its_own(void **state) {
    static const size_t sizes[] = {1, 63, 64, 4096, 255 << 10, 256 << 10, 3 << 20, (2 << 20) + 1};
    enum {
        N = sizeof sizes / sizeof *sizes
    };
    dt_device *device = open_device(state, 0, 1);
    void *blocks[N];
    for (int i = 0; i < N; i++) {
        assert_null(dt_device_allocate(device, sizes[i], &blocks[i]));
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        char last = 1, mark = (char)(i + 1);
        assert_null(dt_device_read(device, &last, (char *)blocks[i] + sizes[i] - 1, 1));
        assert_int_equal(last, 0);
        assert_null(dt_device_write(device, blocks[i], &mark, 1));
        assert_null(dt_device_write(device, (char *)blocks[i] + sizes[i] - 1, &mark, 1));
    }
    for (int i = 0; i < N; i++) {
        char first, last;
        assert_null(dt_device_read(device, &first, blocks[i], 1));
        assert_null(dt_device_read(device, &last, (char *)blocks[i] + sizes[i] - 1, 1));
        assert_true(first == i + 1 && last == i + 1);
        dt_device_release(device, blocks[i], sizes[i]);
    }
    dt_device_release(device, NULL, 0);
    dt_device_close(device);
}

static void too_much_memory_is_refused(void **state) {
    dt_device *device = open_device(state, 0, 1);
    void *memory;
    dt_status *status = dt_device_allocate(device, SIZE_MAX / 2, &memory);
    assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(dt_status_message(status), device->name));
    dt_status_free(status);
    if (!device->kind->is_gpu) { /* whose memory is not the process's */
        dt_memory_fail_after(0);
        status = dt_device_allocate(device, 100, &memory);
        dt_memory_fail_after(-1);
        assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
        dt_status_free(status);
    }
    dt_device_close(device);
}

/* ---- operations ---- */

static void append(void *const *buffers, const dt_launch *launch) {
    char *text = buffers[0];
    text[strlen(text)] = (char)('a' + launch->rows);
}

static void prepare(dt_device *device, dt_sequence *sequence) {
    dt_sequence *sequences[] = {sequence};
    assert_null(dt_device_prepare(device, sequences, 1));
}

static void launches_run_in_order_with_their_values(void **state) {
    dt_device *device = open_device(state, 0, 1);
    void *text;
    dt_bad_index none_bad = {0};
    dt_launch launches[3] = {{.rows = 0, .bad_index = &none_bad}, {.rows = 1, .bad_index = &none_bad}, {.rows = 2, .bad_index = &none_bad}};
    char found[16] = "";
    double seconds[3];
    if (!device->kind->reads_host) { /* it runs no functions of the host */
        dt_device_close(device);
        return;
    }
    assert_null(dt_device_allocate(device, sizeof found, &text));
    dt_operation operations[3];
    for (int i = 0; i < 3; i++)
        operations[i] = (dt_operation){.kind = DT_OPERATION_LAUNCH, .launch = {.entry = append, .buffers = &text, .values = &launches[i]}};
    dt_sequence all = {"all", 3, operations, NULL}, one = {"one", 1, operations + 1, NULL}, none = {"none", 0, operations, NULL};
    prepare(device, &all);
    assert_null(dt_device_enqueue(device, &all));
    assert_null(dt_device_enqueue(device, &one));
    assert_null(dt_device_enqueue(device, &none));
    assert_null(dt_device_measure(device, &one, seconds));
    assert_true(seconds[0] >= 0);
    assert_null(dt_device_synchronize(device));
    assert_null(dt_device_read(device, found, text, sizeof found));
    assert_string_equal(found, device->kind == &dt_device_null ? "" : "abcbb");
    dt_device_release(device, text, sizeof found);
    dt_device_close(device);
}

static void sums_are_stored_in_all_their_targets(void **state) {
    dt_device *device = open_device(state, 0, 1);
    float values[3] = {1, 2, 4}, sums[2] = {0, 0};
    if (device->kind->reads_host && device->kind != &dt_device_null) {
        dt_tree_source sources[] = {{&values[0], 2}, {&values[2], 1}};
        dt_tree_reduction sum = {.dtype = DT_F32,
                                 .n_leaves = 3,
                                 .n_sources = 2,
                                 .sources = sources,
                                 .n_elements = 1,
                                 .n_targets = 2,
                                 .targets = (void *[]){&sums[0], &sums[1]}};
        dt_sequence sequence = {"sum", 1, &(dt_operation){.kind = DT_OPERATION_REDUCE, .reduce = {1, &sum}}, NULL};
        prepare(device, &sequence);
        assert_null(dt_device_enqueue(device, &sequence));
        assert_true(sums[0] == 5 && sums[1] == 5);
    }
    dt_device_close(device);
}

/* What a host that does not share the device's memory needs: down, up, ahead, and in which order. */
static void what_is_copied_is_there_when_its_event_is(void **state) {
    dt_device *device = open_device(state, 0, 1);
    const dt_device_kind *kind = device->kind;
    void *memory, *host;
    dt_device_event *event;
    if (kind->reads_host) {
        dt_device_close(device);
        return;
    }
    assert_null(dt_device_allocate(device, 64, &memory));
    assert_null(kind->allocate_host(device, 64, &host));
    assert_null(dt_device_create_event(device, &event));
    int *numbers = host;
    assert_int_equal(numbers[15], 0);
    dt_operation down_and_up[] = {{.kind = DT_OPERATION_COPY, .copy = {memory, &numbers[0], 4}},
                                  {.kind = DT_OPERATION_READ_BACK, .copy = {&numbers[4], memory, 8}}};
    dt_sequence sequence = {"down and up", 2, down_and_up, NULL};
    prepare(device, &sequence);
    for (int turn = 1; turn <= 3; turn++) {
        numbers[0] = turn;
        numbers[8] = 10 * turn;
        assert_null(kind->copy_ahead(device, (int *)memory + 1, &numbers[8], 4, event));
        assert_null(dt_device_wait(device, event));
        assert_null(dt_device_enqueue(device, &sequence));
        assert_null(dt_device_synchronize(device));
        assert_true(numbers[4] == turn && numbers[5] == 10 * turn);
    }
    double seconds[2] = {-1, -1};
    assert_null(dt_device_measure(device, &sequence, seconds));
    assert_true(seconds[0] >= 0 && seconds[1] >= 0);
    dt_device_destroy_event(device, event);
    kind->release_host(device, host);
    dt_device_release(device, memory, 64);
    dt_device_close(device);
}

static void without_memory_nothing_is_opened(void **state) {
    const dt_device_kind *kind = *state;
    dt_device *device = NULL;
    dt_memory_fail_after(0);
    dt_status *status = dt_device_open(kind, 0, 1, &device);
    dt_memory_fail_after(-1);
    assert_int_equal(dt_status_code(status), DT_RESOURCE_EXHAUSTED);
    assert_null(device);
    dt_status_free(status);
}

/* ---- --devices ---- */

static void the_registry_says_what_devices_may_be_asked_for(void **state) {
    (void)state;
    dt_device_spec spec;
    for (int i = 0; dt_device_kinds[i] != NULL; i++) {
        char text[64];
        assert_null(dt_device_spec_parse(dt_device_kinds[i]->name, &spec));
        bool gpu = spec.kind->is_gpu;
        assert_true(spec.kind == dt_device_kinds[i] && spec.n == (gpu ? 0 : 1));
        assert_true(spec.n_cores == (spec.kind->n_cores != NULL ? spec.kind->n_cores() : 1));
        snprintf(text, sizeof text, "%s:12", dt_device_kinds[i]->name);
        assert_null(dt_device_spec_parse(text, &spec));
        assert_true(spec.kind == dt_device_kinds[i] && spec.n == (gpu ? 1 : 12) && dt_device_spec_number(&spec, 0) == (gpu ? 12 : 0));
    }
    assert_null(dt_device_spec_parse("cpu:2x3", &spec));
    assert_true(spec.n == 2 && spec.n_cores == 3);
    assert_null(dt_device_spec_parse("cpu:1024x1", &spec));
    assert_true(spec.n == 1024 && spec.n_cores == 1);
    assert_null(dt_device_spec_parse("cpu:1024", &spec)); /* more devices than cores: one each */
    assert_true(spec.n == 1024 && spec.n_cores >= 1);
    static const char *const wrong[] = {"",         ":",      "cpux",   "cp",      "cpu:",    "cpu:x",     "cpu:2,3",    "cpu:-1",   "cpu:0",
                                        "cpu:1025", "cpu:x2", "cpu:2x", "cpu:0x2", "cpu:2x0", "cpu:2x2x2", "cpu:2x1025", "null:2x2", "CPU"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        dt_status *status = dt_device_spec_parse(wrong[i], &spec);
        assert_int_equal(dt_status_code(status), DT_INVALID_ARGUMENT);
        dt_status_free(status);
    }
}

static void gpus_are_named_by_their_numbers(void **state) {
    (void)state;
    dt_device_spec spec;
    assert_null(dt_device_spec_parse("cuda:3,0,17", &spec));
    assert_true(spec.n == 3 && dt_device_spec_number(&spec, 0) == 3 && dt_device_spec_number(&spec, 1) == 0 && dt_device_spec_number(&spec, 2) == 17);
    static const struct {
        const char *text, *says;
    } wrong[] = {
        {"cuda:", "come the numbers of GPUs, as in cuda:0 or cuda:0,3; cuda alone is all of them"},
        {"cuda:x", "come the numbers of GPUs"},
        {"cuda:-1", "come the numbers of GPUs"},
        {"cuda:0-1", "come the numbers of GPUs"},
        {"cuda:0x2", "come the numbers of GPUs"},
        {"cuda:12345", "come the numbers of GPUs"},
        {"cuda:,1", "come the numbers of GPUs"},
        {"cuda:0, 1", "come the numbers of GPUs"},
        {"cuda:0,", "--devices cuda:0,: a number of a GPU is missing after a comma"},
        {"cuda:0,,1", "a number of a GPU is missing after a comma"},
        {"cuda:0,3,0", "GPU 0 is named twice"},
        {"cuda:1,01", "GPU 1 is named twice"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_error(dt_device_spec_parse(wrong[i].text, &spec), DT_INVALID_ARGUMENT, wrong[i].says);
    char many[400] = "cuda:0";
    for (int i = 1; i <= DT_MOST_GPUS; i++) snprintf(many + strlen(many), sizeof many - strlen(many), ",%d", i);
    expect_error(dt_device_spec_parse(many, &spec), DT_INVALID_ARGUMENT, "more than 64 GPUs");
}

static void gpus_are_chosen_of_those_that_are_there(void **state) {
    (void)state;
    static const struct { int n_present, n_wanted, n; } all[] = {{1, 1, 1}, {4, 1, 1}, {4, 3, 3}, {4, 8, 4}, {100, 100, DT_MOST_GPUS}};
    dt_device_spec spec;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_null(dt_device_spec_parse("cuda", &spec));
        assert_null(dt_device_spec_choose_gpus(&spec, all[i].n_present, all[i].n_wanted));
        assert_int_equal(spec.n, all[i].n);
        for (int d = 0; d < spec.n; d++) assert_int_equal(dt_device_spec_number(&spec, d), d);
    }
    expect_ok(dt_device_spec_parse("cuda", &spec));
    expect_error(dt_device_spec_choose_gpus(&spec, 0, 1), DT_NOT_FOUND, "finds no GPU");
    expect_ok(dt_device_spec_parse("cuda:2,0", &spec));
    expect_ok(dt_device_spec_choose_gpus(&spec, 3, 1)); /* those that are named, whatever is wanted */
    assert_true(spec.n == 2 && dt_device_spec_number(&spec, 0) == 2 && dt_device_spec_number(&spec, 1) == 0);
    expect_error(dt_device_spec_choose_gpus(&spec, 2, 2), DT_NOT_FOUND, "cuda:2: this machine has 2 GPUs, counted from 0");
    expect_error(dt_device_spec_choose_gpus(&spec, 0, 2), DT_NOT_FOUND, "cuda:2: NVIDIA's driver finds no GPU");
}

/* ---- the threads that drive devices ---- */

typedef struct tally {
    atomic_int begun, done[4];
    int failing; /* member, or -1 */
} tally;

static void begin(void *context, int member) {
    (void)member;
    atomic_fetch_add(&((tally *)context)->begun, 1);
}

static dt_status *count(void *context, int member) {
    tally *counted = context;
    atomic_fetch_add(&counted->done[member], 1);
    if (counted->failing < 0) return NULL;
    return member == counted->failing ? dt_error(DT_IO, "member %d", member) : dt_error(DT_ABORTED, "told to stop");
}

static void a_pool_works_together_and_names_the_cause_of_a_failure(void **state) {
    (void)state;
    for (int n = 1; n <= 4; n++) {
        tally counted = {.failing = -1};
        dt_thread_pool *pool;
        assert_null(dt_thread_pool_create(n, begin, &counted, &pool));
        for (int turn = 1; turn <= 100; turn++) {
            assert_null(dt_thread_pool_run(pool, count, &counted));
            for (int m = 0; m < n; m++) assert_int_equal(atomic_load(&counted.done[m]), turn);
        }
        assert_int_equal(atomic_load(&counted.begun), n - 1);
        counted.failing = n - 1;
        dt_status *status = dt_thread_pool_run(pool, count, &counted);
        assert_int_equal(dt_status_code(status), DT_IO);
        dt_status_free(status);
        dt_thread_pool_destroy(pool);
    }
    dt_thread_pool_destroy(NULL);
}

/* Whether there is such a device here; says why if there is none. */
static bool opens(const dt_device_kind *kind) {
    dt_device *device;
    dt_status *status = dt_device_open(kind, 0, 1, &device);
    bool opened = status == NULL;
    if (opened)
        dt_device_close(device);
    else
        print_message("skipped: %s: %s\n", kind->name, dt_status_message(status));
    dt_status_free(status);
    return opened;
}

/* The fake stands in for the driver, where it was built and no other is named. */
static void choose_driver(void) {
    char path[4096];
    const char *build = getenv("DT_BUILD");
    snprintf(path, sizeof path, "%s/tests/libfake_cuda.so", build != NULL ? build : ".");
    if (getenv("DT_CUDA_DRIVER") == NULL && access(path, R_OK) == 0) setenv("DT_CUDA_DRIVER", path, 1);
}

int main(void) {
    int n_failed = 0;
    choose_driver();
    for (int i = 0; dt_device_kinds[i] != NULL; i++) {
        void *kind = (void *)dt_device_kinds[i];
        if (dt_device_kinds[i]->is_gpu && !opens(dt_device_kinds[i])) continue;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(a_device_has_a_name_and_knows_its_memory, kind),
            cmocka_unit_test_prestate(memory_is_zeroed_aligned_and_its_own, kind),
            cmocka_unit_test_prestate(too_much_memory_is_refused, kind),
            cmocka_unit_test_prestate(launches_run_in_order_with_their_values, kind),
            cmocka_unit_test_prestate(sums_are_stored_in_all_their_targets, kind),
            cmocka_unit_test_prestate(what_is_copied_is_there_when_its_event_is, kind),
            cmocka_unit_test_prestate(without_memory_nothing_is_opened, kind),
        };
        n_failed += cmocka_run_group_tests_name(dt_device_kinds[i]->name, tests, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_registry_says_what_devices_may_be_asked_for),
        cmocka_unit_test(gpus_are_named_by_their_numbers),
        cmocka_unit_test(gpus_are_chosen_of_those_that_are_there),
        cmocka_unit_test(a_pool_works_together_and_names_the_cause_of_a_failure),
    };
    return n_failed + cmocka_run_group_tests_name("around devices", tests, NULL, NULL);
}
