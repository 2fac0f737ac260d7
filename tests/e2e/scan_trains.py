"""A recurrent network trains as any other: equal bits for any replicas, devices and interruptions, short batches and dropout in the body among them; on the
fake GPU the losses of the CPU in any order of what runs at once; and what makes a NaN, or an index out of range, is named with its iteration."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403

import numpy

# Two scans, one in the other's body, of rows and of the quarters of a row, so that views are of views; sizes that no vector divides.
PROGRAM = PROGRAM[: PROGRAM.index("model Net")] + """
layer cell(state: list, row: f32[B, 12]) {
    of_row = dense(row, units: 20)
    gates = split(of_row + dense(state[0], units: 20, use_bias: false), 4)
    memory = sigmoid(gates[1]) * state[1] + sigmoid(gates[0]) * tanh(gates[2])
    hidden = dropout(sigmoid(gates[3]) * tanh(memory), rate: 0.1)
    quarters = reshape(row, [B, 4, 3])
    most, sums = scan(fn(m, q) => quarter(m, q, hidden), zeros([B]), quarters)
    return [hidden, memory], hidden + most[:, newaxis] + mean(sums, axis: 1)
}
fn quarter(m, q, hidden) {
    s = m * 0.5 + tanh(sum(q, axis: 1))
    return s, s[:, newaxis] * hidden
}
model Net(image: u8[B, 12, 12]) -> f32[B, 10] {
    zero = zeros([B, 5])
    last, all = scan(fn(s, row) => cell(s, row), [zero, zero], f32(image) / 255, reverse: true)
    return dense(last[1] + mean(all, axis: 1), units: 10)
}
""" + PROGRAM[PROGRAM.index("step train") :]
N = 216


def on_a_gpu(data):
    artifact = Artifact(PROGRAM.replace("take(1000) | shuffle(1000)", f"take({N}) | shuffle({N})").replace("1e-3", "1e-2"), "gpu")
    flags = ("--data", data, "--log-every", 1, "--epochs", 1, "--global-batch", 32)
    for replicas in (1, 4):
        wanted = [e["loss"] for e in Run("train", artifact.path, *flags, "--replicas", replicas, "--devices", "cpu:1").all("step")]
        found = [[e["loss"] for e in artifact.run("train", *flags, "--replicas", replicas, seed=seed).all("step")] for seed in range(2)]
        check(found[0] == found[1], f"V={replicas}: another order, other losses: {found}")
        apart = max(abs(a - b) / b for a, b in zip(found[0], wanted))
        check(len(wanted) == 7 and apart < 2e-3, f"V={replicas}: {found[0]}, on the CPU {wanted}")


NAN = """
use nn, optimizers
data some = npy("rows.npy") | batch(8)
fn next(h, row) {
    h = tanh(h * 0.5 +
        log(row))
    return h, h
}
model Line(x: f32[B, 6, 4]) -> f32[B] {
    h, all = scan(fn(h, row) => next(h, row), zeros([B, 4]), x)
    return dense(h + mean(all, axis: 1), units: 1)[:, 0]
}
step train(x: f32[B, 6, 4]) from some {
    e = square(Line(x))
    minimize(e, sgd(learning_rate: 0.01))
    report loss: mean(e)
}
"""


def names_the_iteration():
    rows = numpy.random.default_rng(0).uniform(0.5, 1, (40, 6, 4)).astype(numpy.float32)
    rows[21, 3, 2] = -1
    numpy.save(FOLDER / "rows.npy", rows)
    artifact = compile_program(NAN, "nan")
    for devices in ("cpu:1", "cpu:2"):
        run = Run("train", artifact, "--data", FOLDER, "--check-numerics", "--replicas", 2, "--devices", devices, expect=1)
        check("train step 2, row 5, iteration 3: kernel train_" in run.error and "makes the first NaN" in run.error and "nan.dt:" in run.error, run.error)


TABLE = """
use nn, optimizers
data some = npy("numbers.npy") | batch(8)
model Sums(n: i32[B, 6]) -> f32[B] {
    param table: f32[10, 3] = glorot_uniform()
    h, none_kept = scan(fn(h, i) => [h * 0.5 + gather(table, i), none], zeros([B, 3]), n)
    return sum(h, axis: 1)
}
step train(n: i32[B, 6]) from some {
    e = square(Sums(n) - 1)
    minimize(e, sgd(learning_rate: 0.01))
    report loss: mean(e)
}
"""


def names_the_iteration_of_an_index():
    numbers = numpy.random.default_rng(0).integers(0, 10, (40, 6)).astype(numpy.int32)
    numbers[21, 4], numbers[22, 1] = 10, 11
    numpy.save(FOLDER / "numbers.npy", numbers)
    artifact = compile_program(TABLE, "table")
    on_gpu = Artifact(TABLE, "table_on_gpu")
    runs = [Run("train", artifact, "--data", FOLDER, "--replicas", 2, "--devices", devices, expect=1) for devices in ("cpu:1", "cpu:2")]
    runs += [on_gpu.run("train", "--data", FOLDER, "--replicas", 2, expect=1, seed=seed) for seed in range(2)]
    for run in runs:
        check("train step 2, row 5, iteration 4: index 10 is not within 0 to 9 (and " in run.error, run.error)


data = write_data(n=1100, n_test=72)
assert_equal_bits(compile_program(PROGRAM, "net", "--batch", "96"), data)
names_the_iteration()
names_the_iteration_of_an_index()
on_a_gpu(data)
finish()
