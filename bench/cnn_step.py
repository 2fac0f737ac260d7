"""cnn: the training step of examples/fashion_cnn.dt at global batch 128 on two cores, beside TensorFlow's graph mode.

Ours is what `dtrun train` reports for real data with its pipeline running (examples a second from the second step on). TensorFlow's is
bench/peers/cnn_step.py: the median step, from call to the loss being read, with batches ready in memory. At AVX2 its oneDNN is held to AVX2.
"""
import side_by_side as bench

STEPS = 60


def ours(level):
    events, _ = bench.train(bench.CNN, *bench.TWO_CORES, "--max-steps", STEPS, "--cpu", level)
    return 1000 * bench.BATCH / events["epoch"]["examples_per_second"]


def tensorflow(isa):
    environment = {"ONEDNN_MAX_CPU_ISA": isa} if isa else None
    return bench.peer("cnn_step.py", "--steps", STEPS, environment=environment)[0]["step_ms"]


def main():
    n = bench.n_pairs(__doc__)
    levels = {"x86-64-v4": ("AVX-512", None), "x86-64-v3": ("AVX2", "AVX2")}
    bench.head(f"CNN step, batch 128, 2 cores; {bench.counted(n)} of {STEPS} steps", "ours, ms", "TensorFlow, ms", "times as fast")
    for level in bench.levels():
        name, isa = levels[level]
        mine, theirs, ratio = bench.pairs(n, lambda: ours(level), lambda: tensorflow(isa))
        bench.row(name, f"{mine:.1f}", f"{theirs:.1f}", f"{ratio:.2f}")


main()
