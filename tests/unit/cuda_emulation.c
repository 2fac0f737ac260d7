/* cuda_emulation: what the emulation of CUDA runs, and the mistakes that it must find: each is planted and has to be reported, or to show in the
 * results. */
#include "base/cpu.h"
#include "tests/support/emulated.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
    N = 64 /* threads of the one block */
};

typedef struct outcome {
    const char *wrong; /* NULL, or what the emulation says */
    char text[256];
    float results[N];
    bool outside; /* something was written in front of the results or behind them */
} outcome;

/* Compiles `body` as a kernel of floats `in` [N] and `out` [N], and runs it in one order of threads. */
static outcome run(const char *body, int how) {
    emulated_code code = {0};
    const char *name = "kernel";
    dt_text text = {0};
    outcome o = {0};
    float in[3 * N], out[3 * N];
    for (int i = 0; i < 3 * N; i++) {
        in[i] = (float)i;
        out[i] = -1;
    }
    dt_text_format(&text, "extern \"C\" __global__ void kernel(const float *in, float *out) {\n%s\n}\n", body);
    dt_status *status = emulated_compile(text.data, &name, 1, "", &code);
    if (status != NULL) fail_msg("%s", dt_status_message(status));
    const char *wrong = code.launch("kernel", (void *[]){in + N, out + N}, 1, N, how, 3);
    if (wrong != NULL) snprintf(o.text, sizeof o.text, "%s", wrong);
    o.wrong = wrong != NULL ? o.text : NULL;
    memcpy(o.results, out + N, sizeof o.results);
    for (int i = 0; i < N; i++) o.outside |= out[i] != -1 || out[2 * N + i] != -1;
    dt_text_free(&text);
    emulated_free(&code);
    return o;
}

static void assert_says(const char *body, const char *what) {
    outcome o = run(body, 0);
    if (o.wrong == NULL || strstr(o.wrong, what) == NULL) fail_msg("\"%s\" should say \"%s\"", o.wrong != NULL ? o.wrong : "nothing", what);
}

/* Results of all orders; *differ: they are not the same. */
static void run_all(const char *body, outcome outcomes[EMULATED_WAYS], bool *differ) {
    *differ = false;
    for (int how = 0; how < EMULATED_WAYS; how++) {
        outcomes[how] = run(body, how);
        if (outcomes[how].wrong != NULL) fail_msg("%s", outcomes[how].wrong);
        *differ |= memcmp(outcomes[how].results, outcomes[0].results, sizeof outcomes[0].results) != 0;
    }
}

static const char shared_sum[] = "    __shared__ float all[64];\n"
                                 "    all[threadIdx.x] = in[threadIdx.x];\n"
                                 "    __syncthreads();\n"
                                 "    float sum = 0;\n"
                                 "    for (int i = 0; i < 64; i++) sum += all[i];\n"
                                 "    out[threadIdx.x] = sum;\n";

static void a_barrier_makes_shared_memory_whole(void **state) {
    (void)state;
    outcome outcomes[EMULATED_WAYS];
    bool differ;
    run_all(shared_sum, outcomes, &differ);
    assert_false(differ);
    for (int i = 0; i < N; i++) assert_true(outcomes[0].results[i] == (64 + 127) * 64 / 2);
}

static void a_missing_barrier_shows(void **state) {
    (void)state;
    char body[sizeof shared_sum];
    outcome outcomes[EMULATED_WAYS];
    bool differ;
    strcpy(body, shared_sum);
    memset(strstr(body, "__syncthreads();"), ' ', strlen("__syncthreads();"));
    run_all(body, outcomes, &differ);
    assert_true(differ || isnan(outcomes[0].results[0]));
}

static void lanes_exchange(void **state) {
    (void)state;
    outcome outcomes[EMULATED_WAYS];
    bool differ;
    run_all("    float x = in[threadIdx.x];\n"
            "    for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);\n"
            "    out[threadIdx.x] = __shfl_sync(0xffffffffu, x, 0);",
            outcomes, &differ);
    assert_false(differ);
    assert_true(outcomes[0].results[5] == (64 + 95) * 32 / 2 && outcomes[0].results[40] == (96 + 127) * 32 / 2);
}

static void divergent_barriers_are_found(void **state) {
    (void)state;
    assert_says("    if (threadIdx.x < 16) __syncthreads();", "barrier");
    assert_says("    if (threadIdx.x < 32)\n        __syncthreads();\n    else\n        __syncthreads();", "different barriers");
    assert_says("    if (threadIdx.x == 7) return;\n    __syncthreads();", "never reach");
}

static void divergent_exchanges_are_found(void **state) {
    (void)state;
    assert_says("    float x = 1;\n    if (threadIdx.x != 3) x = __shfl_down_sync(0xffffffffu, x, 1);\n    out[threadIdx.x] = x;", "never come");
    assert_says("    out[threadIdx.x] = __shfl_sync(0xfffffffeu, 1.0f, 1);", "leaves it out");
    assert_says("    if (threadIdx.x % 2)\n        __syncwarp();\n    else\n        __syncwarp();", "different exchanges");
}

static void writes_outside_show(void **state) {
    (void)state;
    assert_false(run("    out[threadIdx.x] = 1;", 0).outside);
    assert_true(run("    out[threadIdx.x + 1] = 1;", 0).outside);
    assert_true(run("    out[(int)threadIdx.x - 1] = 1;", 0).outside);
}

static void an_unknown_kernel_is_an_error(void **state) {
    (void)state;
    emulated_code code = {0};
    const char *name = "kernel";
    assert_null(emulated_compile("extern \"C\" __global__ void kernel(float *x) { x[0] = 1; }", &name, 1, "", &code));
    assert_non_null(code.launch("another", NULL, 1, 1, 0, 0));
    emulated_free(&code);
}

int main(void) {
    if (!emulated_is_possible()) return 77;
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_makes_shared_memory_whole), cmocka_unit_test(a_missing_barrier_shows),       cmocka_unit_test(lanes_exchange),
        cmocka_unit_test(divergent_barriers_are_found),        cmocka_unit_test(divergent_exchanges_are_found), cmocka_unit_test(writes_outside_show),
        cmocka_unit_test(an_unknown_kernel_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
