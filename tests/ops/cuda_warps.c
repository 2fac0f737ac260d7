/* cuda_warps: a target with warps of 64 (kernel/gpu_target.h), by an emulation that has such. What warps do is run: sums, positions and products by
 * teams of them, exchanges between nests, owners of targets, and what stands for tensor cores, which 32 lanes of a warp are. */
#include "tests/ops/cuda_programs.h"

static const char teams[] = "step rows(x: f32[B, 100], w: f32[B, 1500]) {\n"
                            "    p = exp(x - max(x, axes: 1, keep: true))\n"
                            "    return a: p / sum(p, axes: 1, keep: true), b: argmax(x), c: sum(w, axes: 1), d: argmin(w),\n"
                            "           e: ops.reduce_product(2 * i64(100 * x) + 1, axes: [1]), f: sum(u8(abs(x)), axes: 1), g: max(w)\n"
                            "}\n";

static const char table[] = "use optimizers\n"
                            "model Table(i: u8[B, 9]) -> f32[B, 9, 40] {\n"
                            "    param table: f32[7, 40] = normal(stddev: 1)\n"
                            "    return table[i % 7]\n"
                            "}\n"
                            "step train(i: u8[B, 9]) { minimize(mean(sum(square(Table(i)), axes: [1, 2])), sgd(learning_rate: 0.1)) }\n";

static const char layers[] = "use nn, losses, optimizers\n"
                             "model Two(x: f32[B, 50]) -> f32[B, 40] {\n"
                             "    return dense(dropout(dense(x, units: 36, activation: relu), rate: 0.25), units: 40)\n"
                             "}\n"
                             "step layers(x: f32[B, 50], y: f32[B, 40]) {\n"
                             "    e = Two(x) - y\n"
                             "    minimize(e * e, adam(learning_rate: 0.01))\n"
                             "    report loss: mean(e * e)\n"
                             "}\n";

static void run_at_64(program program) {
    program.target = DT_TARGET_WARPS_OF_64;
    program.capacity = 40;
    program.rows = 37;
    program.n_steps = 2;
    run_program(&program);
}

static void reductions_by_warps(void **state) {
    (void)state;
    run_at_64((program){.name = "teams", .source = teams, .tolerance = 1e-4});
}

static void targets_owned_by_warps(void **state) {
    (void)state;
    run_at_64((program){.name = "table", .source = table, .tolerance = 1e-4});
}

static void products_in_tiles(void **state) {
    static const char *const precisions[] = {"f32", "tf32", "bf16"};
    char source[sizeof layers + 64];
    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(source, sizeof source, "option precision: %s\n%s", precisions[i], layers);
        run_at_64((program){.name = precisions[i], .source = source, .tolerance = i == 0 ? 1e-3 : 5e-3});
    }
}

static void an_example(void **state) {
    (void)state;
    run_at_64((program){.name = "examples/perceptron", .tolerance = 1e-3});
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_by_warps),
        cmocka_unit_test(targets_owned_by_warps),
        cmocka_unit_test(products_in_tiles),
        cmocka_unit_test(an_example),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
