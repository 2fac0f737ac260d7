"""python: what a step costs more from Python than from C: the training step of examples/perceptron.dt at batch 32, on one core.

  from C        bench/step_call.c: dtrt_step on a batch in memory, then dtrt_reports
  from Python   session.step("train", image=array, label=array)["loss"] with arrays of NumPy's, a process of its own

Each is the median of 10,000 calls. The issue is what is between them, so the last column is the median of the pairs' differences.
"""
import statistics
import sys
import time

import side_by_side as bench

STEPS = 10000
DEVICES = "cpu:1x1"


def from_c():
    return float(bench.run([bench.ROOT / "build/bench/step_call", bench.PERCEPTRON, DEVICES, STEPS]).output)


def from_python():
    return float(bench.run([sys.executable, __file__, "--measure"], {"PYTHONPATH": str(bench.ROOT / "build/python")}).output)


def measure():
    import dt
    import numpy

    program = dt.open(bench.PERCEPTRON)
    session = program.session(devices=DEVICES)
    arrays = {tensor.name: numpy.zeros([session.global_batch, *tensor.shape[1:]], numpy.uint8) for tensor in program.steps["train"].inputs}
    image, label = arrays["image"], arrays["label"]
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        session.step("train", image=image, label=label)["loss"]
        times.append(time.perf_counter() - begin)
    print(1e6 * statistics.median(times))


def main():
    n = bench.n_pairs(__doc__)
    runs = [(from_c(), from_python()) for _ in range(n)]
    bench.head(f"a step of the perceptron, batch 32; {bench.counted(n)} of {STEPS:,} calls", "from C, µs", "from Python, µs", "more, µs")
    c, python = (statistics.median(column) for column in zip(*runs))
    bench.row("step and its loss", f"{c:.2f}", f"{python:.2f}", f"{statistics.median(b - a for a, b in runs):.2f}")


if sys.argv[1:] == ["--measure"]:
    measure()
else:
    main()
