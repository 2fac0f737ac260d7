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

/* Compiles `body` as a kernel of floats `in` [N] and `out` [N], and runs it in one order of threads and blocks, of which each has N / blocks threads.
 */
static outcome run_blocks(const char *body, int blocks, int how, unsigned seed) {
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
    const char *wrong = code.launch("kernel", (void *[]){in + N, out + N}, blocks, N / blocks, how, seed);
    if (wrong != NULL) snprintf(o.text, sizeof o.text, "%s", wrong);
    o.wrong = wrong != NULL ? o.text : NULL;
    memcpy(o.results, out + N, sizeof o.results);
    for (int i = 0; i < N; i++) o.outside |= out[i] != -1 || out[2 * N + i] != -1;
    dt_text_free(&text);
    emulated_free(&code);
    return o;
}

static outcome run(const char *body, int how) { return run_blocks(body, 1, how, 3); }

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

static void lanes_outside_of_the_mask_are_not_read(void **state) {
    (void)state;
    assert_says("    if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 20);", "a lane outside of the mask is read");
    assert_null(run("    if (threadIdx.x % 32 < 16) out[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 5);", 0).wrong);
}

static void shared_memory_begins_as_nan(void **state) {
    (void)state;
    /* of a block that ran before there is nothing left */
    outcome o =
        run_blocks("    __shared__ float all[16];\n    out[16 * blockIdx.x + threadIdx.x] = all[threadIdx.x];\n    all[threadIdx.x] = 1;", 4, 0, 3);
    assert_null(o.wrong);
    for (int i = 0; i < N; i++) assert_true(isnan(o.results[i]));
}

/* Each thread leaves how many have begun before it. */
static const char whose_turn[] = "    static int turn;\n    out[blockDim.x * blockIdx.x + threadIdx.x] = (float)turn++;";

static void threads_and_blocks_run_in_the_order_asked_for(void **state) {
    (void)state;
    for (int blocks = 1; blocks <= 8; blocks *= 8) {
        outcome forward = run_blocks(whose_turn, blocks, 0, 3), reverse = run_blocks(whose_turn, blocks, 1, 3);
        for (int i = 0; i < N; i++) assert_true(forward.results[i] == (float)i && reverse.results[i] == (float)(N - 1 - i));
    }
}

static void a_shuffled_order_is_whole_and_hangs_on_the_seed(void **state) {
    (void)state;
    enum {
        BLOCKS = 8
    };
    outcome o[2] = {run_blocks(whose_turn, BLOCKS, 2, 3), run_blocks(whose_turn, BLOCKS, 2, 4)};
    for (int s = 0; s < 2; s++) {
        bool seen[N] = {false};
        int n_falls = 0, n_block_falls = 0;
        for (int i = 0; i < N; i++) {
            int turn = (int)o[s].results[i];
            assert_in_range(turn, 0, N - 1);
            assert_false(seen[turn]);
            seen[turn] = true;
            n_falls += i % (N / BLOCKS) > 0 && o[s].results[i] < o[s].results[i - 1];
            n_block_falls += i > 0 && i % (N / BLOCKS) == 0 && turn / (N / BLOCKS) < (int)o[s].results[i - 1] / (N / BLOCKS);
        }
        assert_in_range(n_falls, 1, N - BLOCKS - 1); /* threads within blocks, neither forward nor in reverse */
        assert_in_range(n_block_falls, 1, BLOCKS - 2);
    }
    assert_memory_not_equal(o[0].results, o[1].results, sizeof o[0].results);
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
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_makes_shared_memory_whole),
        cmocka_unit_test(a_missing_barrier_shows),
        cmocka_unit_test(lanes_exchange),
        cmocka_unit_test(divergent_barriers_are_found),
        cmocka_unit_test(divergent_exchanges_are_found),
        cmocka_unit_test(writes_outside_show),
        cmocka_unit_test(an_unknown_kernel_is_an_error),
        cmocka_unit_test(lanes_outside_of_the_mask_are_not_read),
        cmocka_unit_test(shared_memory_begins_as_nan),
        cmocka_unit_test(threads_and_blocks_run_in_the_order_asked_for),
        cmocka_unit_test(a_shuffled_order_is_whole_and_hangs_on_the_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
