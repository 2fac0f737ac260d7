"""cnn: the training step of examples/fashion_cnn.dt at global batch 128 on two cores, beside TensorFlow's graph mode.

TensorFlow's is bench/peers/cnn_step.py: the median step, from call to the loss being read, with batches ready in memory. At AVX2 its oneDNN is
held to AVX2. Ours are two:
  the step alone   `dtrun bench`: the same, the median step with a batch ready in memory
  a training       what `dtrun train` reports for real data with its pipeline running: the mean from the second step on
"""
import json

import side_by_side as bench

STEPS = 60


def step_alone(level):
    finished = bench.run([bench.ROOT / "build/dtrun", "bench", bench.CNN, *bench.TWO_CORES, "--steps", STEPS, "--cpu", level, "--json"])
    return 1000 * json.loads(finished.output)["median"]


def training(level):
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
        runs = [(step_alone(level), training(level), tensorflow(isa)) for _ in range(n)]
        for which, kind in enumerate(("the step alone", "a training")):
            mine, theirs, ratio = bench.medians([(run[which], run[-1]) for run in runs])
            bench.row(f"{name}, {kind}", f"{mine:.1f}", f"{theirs:.1f}", f"{ratio:.2f}")


main()
