/* dtc's commands when memory runs out, at one allocation after the other: each is an error like others, and nothing stays allocated. */
#include "base/file.h"
#include "base/memory.h"
#include "compiler/commands/command.h"
#include "runtime/data/safetensors.h"
#include "tests/unit/scratch_folder.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

static const char program[] = "use nn, losses, optimizers\n"
                              "option width = 5\n"
                              "model Net(x: f32[B, 4]) -> f32[B, 3] {\n"
                              "    x = dropout(batch_norm(dense(x, units: width, activation: relu)), rate: 0.5)\n"
                              "    return dense(x, units: 3)\n"
                              "}\n"
                              "step train(x: f32[B, 4], label: i32[B]) {\n"
                              "    loss = sparse_categorical_crossentropy(label, Net(x))\n"
                              "    minimize(loss, adam())\n"
                              "    report loss: mean(loss)\n"
                              "}\n";

static const char *errors, *source, *graph, *output;

/* What a command writes is not what this is about, but the last of its errors. */
static int run_quietly(int (*command)(int, char **), char *const *arguments) {
    char *argv[12], copies[12][256]; /* a command may write into its arguments */
    int n = 0;
    for (; arguments[n] != NULL; n++) {
        snprintf(copies[n], sizeof copies[n], "%s", arguments[n]);
        argv[n] = copies[n];
    }
    argv[n] = NULL;
    fflush(stdout);
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY),
        log = open(errors, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(null, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    int code = command(n, argv);
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(out), close(err), close(null), close(log);
    return code;
}

static void assert_says_memory(const char *name, int n) {
    char *text;
    size_t n_bytes;
    dt_status *status = dt_file_read(errors, &text, &n_bytes);
    assert_null(status);
    if (strstr(text, "memory") == NULL) fail_msg("%s, allocation %d: \"%s\"", name, n, text);
    free(text);
}

/* What fails: the allocation after n others, and all after it, or none after it, as where one alone is too large. */
typedef void fail_function(int64_t n);

/* With n allocations; twice, so that what is kept from one run to the next, such as buffers of streams, is no leak. */
static int run_with(int (*command)(int, char **), char *const *arguments, fail_function *fail_at, int n) {
    int code = 0;
    size_t before = 0, after = 0;
    for (int i = 0; i < 2; i++) {
        before = mallinfo2().uordblks;
        fail_at(n);
        code = run_quietly(command, arguments);
        dt_memory_fail_after(-1);
        after = mallinfo2().uordblks;
    }
    if (after > before) fail_msg("%s, allocation %d: %zu bytes stay allocated", arguments[0], n, after - before);
    return code;
}

static void run_out(int (*command)(int, char **), char *const *arguments) {
    int n = 0, n_runs = 0;
    for (int code; (code = run_with(command, arguments, dt_memory_fail_after, n)) != 0; n_runs++, n += 1 + n / 15) {
        if (code != 1) fail_msg("%s, allocation %d: exit code %d", arguments[0], n, code);
        assert_says_memory(arguments[0], n);
    }
    for (int once = 0; once < n; once += 1 + once / 5) {
        int code = run_with(command, arguments, dt_memory_fail_once, once);
        if (code > 1 || code < 0) fail_msg("%s, allocation %d alone: exit code %d", arguments[0], once, code);
        if (code == 1) assert_says_memory(arguments[0], once);
    }
    print_message("%s: %d of about %d allocations\n", arguments[0], n_runs, n);
    assert_true(n_runs > 5);
}

#define COMMAND(...) ((char *[]){__VA_ARGS__, NULL})

static void check(void **state) {
    (void)state;
    run_out(dt_command_check, COMMAND("dtc check", (char *)source, "--rows=2"));
}

static void summary(void **state) {
    (void)state;
    run_out(dt_command_summary, COMMAND("dtc summary", (char *)source, "-Dwidth=7"));
}

static void picture(void **state) {
    (void)state;
    run_out(dt_command_graph, COMMAND("dtc graph", (char *)source, "--depth=1"));
}

static void compile(void **state) {
    (void)state;
    run_out(dt_command_compile, COMMAND("dtc compile --emit=kernels", (char *)source, "--emit=kernels", "--dump-after=all", "--time-passes"));
    run_out(dt_command_compile, COMMAND("dtc compile", (char *)source, "-o", (char *)output, "--cpu=x86-64-v3", "--batch=4", "-Ono-microbatches"));
    run_out(dt_command_compile, COMMAND("dtc compile --emit=cuda", (char *)graph, "--emit=cuda", "--target=cuda:sm_90"));
}

static void opt(void **state) {
    (void)state;
    run_out(dt_command_opt, COMMAND("dtc opt", "--pass=plan_memory", (char *)graph));
}

static void ops(void **state) {
    (void)state;
    run_out(dt_command_ops, COMMAND("dtc ops"));
}

static void format(void **state) {
    (void)state;
    run_out(dt_command_fmt, COMMAND("dtc fmt", (char *)source));
    run_out(dt_command_summary, COMMAND("dtc summary --diagnostics=json", (char *)source, "--diagnostics=json", "--batch=3"));
}

static void weights_within(void **state) {
    (void)state;
    static const char small[] =
        "use nn\nmodel Net(x: f32[B, 4]) -> f32[B, 3] { return dense(x, units: 3) }\nstep predict(x: f32[B, 4]) { return y: Net(x) }\n";
    static const float numbers[12];
    const dt_safetensor tensors[] = {
        {.name = "Net/dense/kernel", .dtype = DT_F32, .n_dims = 2, .dims = (int64_t[]){4, 3}, .n_bytes = sizeof numbers, .data = numbers},
        {.name = "Net/dense/bias", .dtype = DT_F32, .n_dims = 1, .dims = (int64_t[]){3}, .n_bytes = 12, .data = numbers},
    };
    unsigned char sum[DT_SHA256_BYTES];
    char *packed = strdup(scratch_path("packed.dtx")), *text = strdup(scratch_path("small.dt")), *weights = strdup(scratch_path("weights"));
    scratch_write("small.dt", small, strlen(small));
    assert_ok(dt_safetensors_write(weights, 2, tensors, sum));
    assert_int_equal(run_quietly(dt_command_compile, COMMAND("dtc compile", text, "-o", packed, "--batch=4", "--cpu=x86-64-v3")), 0);
    run_out(dt_command_pack, COMMAND("dtc pack", packed, weights));
    run_out(dt_command_compile, COMMAND("dtc compile --emit=onnx", text, "--emit=onnx", "--weights", weights, "-o", (char *)output));
    free(packed), free(text), free(weights);
}

static int set_up(void **state) {
    if (scratch_make(state) != 0) return -1;
    errors = strdup(scratch_path("errors"));
    source = strdup(scratch_path("net.dt"));
    graph = strdup(scratch_path("net.ir"));
    output = strdup(scratch_path("net.dtx"));
    scratch_write("net.dt", program, strlen(program));
    return run_quietly(dt_command_compile, COMMAND("dtc compile", (char *)source, "--emit=ir", "-o", (char *)graph));
}

int main(int argc, char **argv) {
    (void)argc;
    if (getenv("GLIBC_TUNABLES") == NULL) { /* what threads cache mallinfo2 takes for allocated */
        setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1", 1);
        execv("/proc/self/exe", argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check), cmocka_unit_test(summary), cmocka_unit_test(picture),        cmocka_unit_test(compile),
        cmocka_unit_test(opt),   cmocka_unit_test(ops),     cmocka_unit_test(weights_within), cmocka_unit_test(format),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove);
}
