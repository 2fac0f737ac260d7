"""layouts: the same training in any layout: replicas dealt to devices of one process, or of several that mpirun starts, end with the same bytes."""
import json
import os
import pathlib
import tempfile

import mpi
from training import FOLDER, PROGRAM, check, compile_program, idx, left_by, write_data, Run

import numpy as np

PAIRS = """
use nn, optimizers

launch rate = 0.01

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

model Encoder(x: f32[B, 6]) -> f32[B, 5] {
    z = dense(dense(x, units: 7, activation: tanh), units: 5)
    return z / sqrt(sum(z * z, axis: 1, keep: true) + 1e-6)
}

fn infonce(p: f32[B, D], q: f32[B, D]) {
    logits = p @ q.T / 0.2
    most = stop_gradient(max(logits, axis: 1, keep: true))
    return log(sum(exp(logits - most), axis: 1)) + most[:, 0] - sum(p * q, axis: 1) / 0.2
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = infonce(Encoder(a), Encoder(b))
    minimize(loss, adam(learning_rate: rate))
    report loss: mean(loss), greatest: max(loss), least: min(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(infonce(Encoder(a), Encoder(b)))
}

step predict(a: f32[B, 6], b: f32[B, 6]) {
    return loss: infonce(Encoder(a), Encoder(b))
}
"""

# Values of 16 bits that cross: their sums, greatest and least over the batch go back into each row.
HALVES = """
use nn, losses, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

fn spread(x: f32[B, D]) {
    h = f16(x)
    b = bf16(x)
    return f32(sum(h, axis: 0)) * 0.01 + f32(max(h, axis: 0)) - f32(min(b, axis: 0)) + f32(sum(b, axis: 0)) * 0.02
}

model Net(a: f32[B, 6]) -> f32[B] {
    x = dense(a, units: 9, activation: tanh)
    return dense(x + spread(x)[newaxis, :], units: 1)[:, 0]
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(Net(a) - b[:, 0])
    minimize(loss, sgd(learning_rate: 0.02))
    report loss: mean(loss), half: mean(f16(loss)), greatest: max(f16(loss))
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(square(Net(a) - b[:, 0]))
}

step predict(a: f32[B, 6], b: f32[B, 6]) {
    return value: Net(a)
}
"""


# Gradients that cross in several buckets, the first ones while the rest are computed; the largest is more than one piece.
WIDE = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

model Net(a: f32[B, 6]) -> f32[B] {
    x = dense(a, units: 600, activation: tanh)
    x = dense(x, units: 900, activation: tanh)
    x = dense(x, units: 500, activation: tanh)
    return dense(x, units: 1)[:, 0]
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(Net(a) - b[:, 0])
    minimize(loss, adam(learning_rate: 0.001))
    report loss: mean(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(square(Net(a) - b[:, 0]))
}

step predict(a: f32[B, 6], b: f32[B, 6]) {
    return value: Net(a)
}
"""

# A loop over tensors in the body of another; 3 and 4 iterations. Dropout draws other numbers in each, and a table gets gradients of all of them.
LOOPS = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

layer cell(h: f32[B, N], x: f32[B, I]) {
    last, all = scan(fn(s, i) => [tanh(s + dense(x, units: 5) * 0.3), s], h, length: 4)
    return dropout(last, rate: 0.2) + mean(all, axis: 1), last
}

model Net(a: f32[B, 6]) -> f32[B] {
    param table: f32[3, 5] = glorot_uniform()
    last, all = scan(fn(h, x) => cell(h + table[2], x), zeros([B, 5]), reshape(a, [B, 3, 2]))
    return dense(last + mean(all, axis: 1), units: 1)[:, 0]
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(Net(a) - b[:, 0])
    minimize(loss, adam(learning_rate: 0.01))
    report loss: mean(loss), greatest: max(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(square(Net(a) - b[:, 0]))
}

step predict(a: f32[B, 6], b: f32[B, 6]) {
    return value: Net(a)
}
"""


def write_pairs(folder):
    random = np.random.default_rng(7)
    one = random.normal(size=(90, 6)).astype(np.float32)
    np.save(folder / "a.npy", one)
    np.save(folder / "b.npy", (one + 0.5 * random.normal(size=one.shape)).astype(np.float32))


class Case:
    """A program whose training is compared: its artifact, its data, what its runs are given."""

    def __init__(self, name, text, batch, *flags, inputs=(), rows=None):
        """rows: of a replica, at most."""
        self.name, self.batch, self.inputs = name, batch, inputs
        self.artifact = compile_program(text, name, "--batch", str(rows or batch), *flags)
        self.data = DATA
        self.predicts = "step predict" in text

    def flags(self, replicas):
        return ["--data", self.data, "--global-batch", self.batch // replicas * replicas, "--replicas", replicas]


def write_fashion(folder, n, n_test):
    """Noise under the names of Fashion-MNIST."""
    random = np.random.default_rng(5)
    for prefix, count in (("train", n), ("t10k", n_test)):
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(idx(random.bytes(count * 28 * 28), count, 28, 28))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx(bytes(int(label) for label in random.integers(0, 10, count)), count))


DATA = write_data(FOLDER / "data", n=250, n_test=60)
write_pairs(DATA)
write_fashion(DATA, 60, 20)


def net(*flags, name="net"):
    """Dropout, batch norm, Adam, a state; 250 examples in batches of 96 leave the last replicas without a row."""
    return Case(name, PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", "shuffle(250) | batch(96)"), 96, *flags, inputs=["test-images"])


def resnet():
    """Batch statistics in many layers, over all replicas."""
    return Case("resnet", (pathlib.Path(os.environ["DT_SOURCE"]) / "examples/resnet.dt").read_text(), 24, "-D", "blocks=1", "-D", "widths=[8, 16]")


def pairs():
    return Case("pairs", PAIRS, 24, inputs=["a.npy", "b.npy"])


def halves():
    return Case("halves", HALVES, 24, inputs=["a.npy", "b.npy"])


def loops():
    return Case("loops", LOOPS, 24, inputs=["a.npy", "b.npy"])


def wide():
    return Case("wide", WIDE, 24, inputs=["a.npy", "b.npy"])


def said(events):
    """What a run reports, without what differs from run to run: times."""
    return [{k: v for k, v in e.items() if k in ("event", "step", "epoch", "steps", "examples", "complete") or isinstance(v, float) and k in VALUES}
            for e in events if e["event"] in ("epoch", "step")]


VALUES = ("loss", "accuracy", "greatest", "least", "half")


def mpirun(flavour, n, verb, case, *flags, expect=0):
    done = mpi.run(flavour, n, ["dtrun", verb, case.artifact, "--log-format", "json", *flags])
    check(done.returncode == expect, f"mpirun -n {n} dtrun {verb} {flags}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def predictions(folder):
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*.npy"))}


def train_one(case, replicas):
    """By one process of one core: what all others have to give."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    flags = [*case.flags(replicas), "--devices", "cpu:1x1"]
    run = Run("train", case.artifact, *flags, "--epochs", 2, "--seed", 3, "--checkpoint-dir", folder / "ck")
    evaluated = Run("evaluate", case.artifact, *flags, "--checkpoint-dir", folder / "ck")
    inputs = [f"--input={case.data / name}" for name in case.inputs]
    if case.predicts:
        Run("predict", case.artifact, *inputs, "--replicas", replicas, "--devices", "cpu:1x1", "--checkpoint-dir", folder / "ck",
            "--output", folder / "out")
    return left_by(folder / "ck"), said(run.events), said(evaluated.events), predictions(folder / "out")


def train_many(flavour, case, replicas, n_processes, devices, *more):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    flags = [*case.flags(replicas), "--devices", f"cpu:{devices}x1", *more]
    run = mpirun(flavour, n_processes, "train", case, *flags, "--epochs", 2, "--seed", 3, "--checkpoint-dir", folder / "ck")
    evaluated = mpirun(flavour, n_processes, "evaluate", case, *flags, "--checkpoint-dir", folder / "ck")
    inputs = [f"--input={case.data / name}" for name in case.inputs]
    if case.predicts:
        mpirun(flavour, n_processes, "predict", case, *inputs, "--replicas", replicas, "--devices", f"cpu:{devices}x1", "--checkpoint-dir",
               folder / "ck", "--output", folder / "out", *more)
    return left_by(folder / "ck"), said(run), said(evaluated), predictions(folder / "out")


def compare(flavour, case, replicas, layouts, *more):
    """layouts: (processes, devices of each); more: flags of those."""
    wanted = train_one(case, replicas)
    check(len(wanted[1]) >= 4 and (wanted[3] or not case.predicts), f"{case.name}: there is nothing to compare: {wanted[1]}")
    for n_processes, devices in layouts:
        found = train_many(flavour, case, replicas, n_processes, devices, *more)
        for what, one, other in zip(("weights", "reports", "evaluation", "predictions"), found, wanted):
            check(one == other, f"{case.name}, V={replicas}: {n_processes} processes of {devices} devices give other {what} than one: "
                                f"{one if what in ('reports', 'evaluation') else ''} {other if what in ('reports', 'evaluation') else ''}")
    print(f"{case.name}, V={replicas}: " + ", ".join(f"{p} x {d}" for p, d in layouts) + " agree", flush=True)


def goes_on(flavour, case, replicas, numbers):
    """Stopped in mid-epoch, and gone on with by another number of processes each time; numbers: of processes."""
    wanted = train_one(case, replicas)[0]
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"
    for i, n in enumerate(numbers):
        last = i + 1 == len(numbers)
        end = ["--epochs", 2] if last else ["--epochs", 2, "--max-steps", i + 1]
        mpirun(flavour, n, "train", case, *case.flags(replicas), "--devices", "cpu:1x1", "--seed", 3, "--checkpoint-dir", folder, *end,
               *(["--resume"] if i > 0 else []))
    check(left_by(folder) == wanted, f"{case.name}, V={replicas}: {numbers} processes one after another end with other bits than one")
    print(f"{case.name}, V={replicas}: {' then '.join(map(str, numbers))} processes agree with one", flush=True)
