"""perceptron: the training step of examples/perceptron.dt (784-128-10) at batch 32, beside JAX.

JAX's is bench/peers/perceptron_step.py: jax.jit with donated state, the batch on the device, the median step from call to the loss being read
in Python; on one core and on two, of which the faster counts. Ours, on one device:
  the step alone      `dtrun bench`, median, on one core and on two: the batch in memory, the loss a number in the memory of the process, not
                      printed
  a training          `dtrun train --log-every 1` on one core: mean time from the second step on, with real data, shuffled, by a thread of its
                      own, and a line of JSON with the loss written after each step. The batches of JAX wait in memory.
"""
import json

import side_by_side as bench

STEPS = 1800


def step_alone(devices):
    finished = bench.run([bench.ROOT / "build/dtrun", "bench", bench.PERCEPTRON, "--devices", devices, "--steps", STEPS, "--json"])
    return 1e6 * json.loads(finished.output)["median"]


def training():
    events, _ = bench.train(bench.PERCEPTRON, "--devices", "cpu:1x1", "--log-every", "1", "--max-steps", STEPS)
    return 1e6 * 32 / events["epoch"]["examples_per_second"]


def jax():
    return min(1e3 * bench.peer("perceptron_step.py", "--threads", threads, "--steps", STEPS)[0]["step_ms"] for threads in (1, 2))


def main():
    n = bench.n_pairs(__doc__)
    runs = [(step_alone("cpu:1x1"), step_alone("cpu:1x2"), training(), jax()) for _ in range(n)]
    bench.head(f"perceptron step, batch 32; {bench.counted(n)} of {STEPS:,} steps", "ours, µs", "JAX, µs", "times as fast")
    for which, name in enumerate(("the step alone, one core", "the step alone, two cores", "a training that writes each step's loss")):
        mine, theirs, ratio = bench.medians([(run[which], run[-1]) for run in runs])
        bench.row(name, f"{mine:.0f}", f"{theirs:.0f}", f"{ratio:.2f}")


main()
