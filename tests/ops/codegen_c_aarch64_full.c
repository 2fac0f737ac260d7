/* codegen_c_aarch64_full: the C that is printed, compiled for a processor of another kind and run by an emulator of it, leaves the bits of LLVM's
 * code for this one. Needs aarch64-linux-gnu-gcc and qemu-aarch64; skipped without. */
#include "tests/ops/same_bits_programs.h"

#include "compiler/kernel/view.h"

#include <spawn.h>
#include <sys/wait.h>

/* The emulated side: reads a call, regions of memory, where its buffers lie in them, and its launch; runs it and writes the regions back. */
static const char harness[] = "\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                              "static void get(void *p, size_t n) { if (n > 0 && fread(p, 1, n, stdin) != n) exit(0); }\n"
                              "static void put(const void *p, size_t n) { if (n > 0 && fwrite(p, 1, n, stdout) != n) exit(1); }\n"
                              "int main(void) {\n"
                              "    for (;;) {\n"
                              "        i64 kernel, n_regions, n_buffers, sizes[1024], of[4096], at[4096];\n"
                              "        char *regions[1024];\n"
                              "        void *buffers[4096];\n"
                              "        dt_launch launch;\n"
                              "        dt_bad_index bad;\n"
                              "        get(&kernel, 8), get(&n_regions, 8), get(&n_buffers, 8);\n"
                              "        for (i64 r = 0; r < n_regions; r++) {\n"
                              "            get(&sizes[r], 8);\n"
                              "            regions[r] = aligned_alloc(64, (size_t)(sizes[r] + 63) / 64 * 64);\n"
                              "            get(regions[r], (size_t)sizes[r]);\n"
                              "        }\n"
                              "        for (i64 b = 0; b < n_buffers; b++) get(&of[b], 8), get(&at[b], 8), buffers[b] = regions[of[b]] + at[b];\n"
                              "        get(&launch, sizeof launch), get(&bad, sizeof bad);\n"
                              "        launch.bad_index = &bad;\n"
                              "        kernels[kernel](buffers, &launch);\n"
                              "        for (i64 r = 0; r < n_regions; r++) put(regions[r], (size_t)sizes[r]), free(regions[r]);\n"
                              "        put(&bad, sizeof bad);\n"
                              "        fflush(stdout);\n"
                              "    }\n"
                              "}\n";

enum {
    MOST_REGIONS = 1024,
    MOST_BUFFERS = 4096
};

typedef struct region {
    char *start, *end;
} region;

static FILE *to, *from;
static pid_t emulator;

static void put(const void *bytes, size_t n) {
    if (n > 0 && fwrite(bytes, 1, n, to) != n) fail_msg("the emulator takes no more");
}

static void put_number(int64_t number) { put(&number, sizeof number); }

static void get(void *bytes, size_t n) {
    if (n > 0 && fread(bytes, 1, n, from) != n) fail_msg("the emulator has ended");
}

/* What the buffers lie in: those that overlap are one region. Returns how many there are, at least the first n of them. */
static int find_regions(const dt_plan *plan, const dt_kernel_function *kernel, void *const *buffers, region *regions) {
    int n = 0;
    for (int b = 0; b < kernel->n_buffers; b++) {
        int64_t bytes = dt_buffer_span(plan, kernel->buffers[b]) * (int64_t)dt_dtype_bytes(plan->buffers[kernel->buffers[b]].dtype) + DT_SLACK_BYTES;
        char *start = (char *)buffers[b] - (uintptr_t)buffers[b] % 64;
        region one = {start, (char *)buffers[b] + bytes};
        for (int r = 0; r < n;) {
            if (regions[r].start >= one.end || regions[r].end <= one.start) {
                r++;
                continue;
            }
            if (regions[r].start < one.start) one.start = regions[r].start;
            if (regions[r].end > one.end) one.end = regions[r].end;
            regions[r] = regions[--n];
            r = 0;
        }
        assert_true(n < MOST_REGIONS);
        regions[n++] = one;
    }
    return n;
}

static int kernel_number(const same_bits *s, const dt_plan *plan, int kernel) {
    int number = kernel;
    for (int p = 0; s->compilation->plans[p] != plan; p++) number += s->compilation->plans[p]->n_kernels;
    return number;
}

static same_bits *at_work;
static char emulated_program[64]; /* to be removed */

static void run_emulated(void *context, const dt_plan *plan, int number, void *const *buffers, const dt_launch *launch) {
    (void)context;
    region regions[MOST_REGIONS];
    const dt_kernel_function *kernel = &plan->kernels[number];
    int n = find_regions(plan, kernel, buffers, regions);
    assert_true(kernel->n_buffers <= MOST_BUFFERS);
    put_number(kernel_number(at_work, plan, number));
    put_number(n);
    put_number(kernel->n_buffers);
    for (int r = 0; r < n; r++) {
        put_number(regions[r].end - regions[r].start);
        put(regions[r].start, (size_t)(regions[r].end - regions[r].start));
    }
    for (int b = 0; b < kernel->n_buffers; b++) {
        int r = 0;
        while ((char *)buffers[b] < regions[r].start || (char *)buffers[b] >= regions[r].end) r++;
        put_number(r);
        put_number((char *)buffers[b] - regions[r].start);
    }
    put(launch, sizeof *launch);
    put(launch->bad_index, sizeof *launch->bad_index);
    fflush(to);
    for (int r = 0; r < n; r++) get(regions[r].start, (size_t)(regions[r].end - regions[r].start));
    get(launch->bad_index, sizeof *launch->bad_index);
}

static void start_emulator(const char *program) {
    int in[2], out[2];
    char *const arguments[] = {"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", (char *)(uintptr_t)program, NULL};
    posix_spawn_file_actions_t actions;
    assert_int_equal(pipe(in) + pipe(out), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_addclose(&actions, in[1]);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    assert_int_equal(posix_spawnp(&emulator, arguments[0], &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to = fdopen(in[1], "w");
    from = fdopen(out[0], "r");
}

static void add_emulated(same_bits *s, const dt_choices *choices) {
    dt_text more = {.arena = s->arena};
    const dt_compilation *c = s->compilation;
    at_work = s;
    same_bits_add(s, "C of aarch64", run_emulated);
    dt_text_append(&more, "\nstatic void (*const kernels[])(void *const *, const dt_launch *) = {");
    for (int p = 0; p < c->n_plans; p++)
        for (int k = 0; k < c->plans[p]->n_kernels; k++) dt_text_format(&more, "%s, ", c->plans[p]->kernels[k].name);
    dt_text_format(&more, "};\n%s", harness);
    const char *program = same_bits_compile_c(s, choices, more.data, "aarch64-linux-gnu-gcc");
    snprintf(emulated_program, sizeof emulated_program, "%s", program);
    start_emulator(program);
}

static void stop_emulator(void) {
    fclose(to);
    fclose(from);
    waitpid(emulator, NULL, 0);
    same_bits_remove_c(emulated_program);
}

static void llvm_and_aarch64(same_bits *s, const char *level) {
    const dt_choices *choices = same_bits_choose(s->compilation, level);
    same_bits_add_llvm(s, level, choices);
    add_emulated(s, choices);
}

static void small_examples(void **state) {
    (void)state;
    static const char *const names[] = {"perceptron", "own_parts", "gru", "lstm", "fashion_cnn"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "examples/%s", names[i]);
        run_program(path, 3, 1, DT_LEVEL_V3, llvm_and_aarch64);
        stop_emulator();
    }
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    if (system("aarch64-linux-gnu-gcc --version >/dev/null 2>&1 && qemu-aarch64 --version >/dev/null 2>&1") != 0)
        return puts("skipped: gcc-aarch64-linux-gnu and qemu-user are not installed"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_examples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
