"""Reports with a shape: recall of each class and a confusion matrix, in lines and JSON, of a short last batch, with equal bits on any layout, and in a checkpoint
in mid-epoch. NumPy counts beside it."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

N, CLASSES = 103, 5

PROGRAM = """
use optimizers

data pairs = npy("x.npy", "label.npy", "guess.npy") | batch(12)

# A metric of one's own: computed with examples until it is summed, with totals from there on.
fn recall(label: integer[B], guess: integer[B], classes: int) {
    hits = sum(one_hot(label, classes) * one_hot(guess, classes), axis: 0)
    return hits / maximum(sum(one_hot(label, classes), axis: 0), 1)
}

fn confusion(label: integer[B], guess: integer[B], classes: int) {
    return sum(one_hot(label, classes)[:, :, newaxis] * one_hot(guess, classes)[:, newaxis], axis: 0)
}

model Scale(x: f32[B, 3]) -> f32[B, 3] {
    param factor: f32[3] = ones()
    return x * factor
}

step train(x: f32[B, 3], label: i32[B], guess: i32[B]) from pairs {
    y = Scale(x)
    minimize(y * y, sgd(learning_rate: 0.01))
    r = mean(y)
    report loss: mean(y * y), recall: recall(label, guess, 5), macro: mean(recall(label, guess, 5)), worst: min(recall(label, guess, 5)),
           confusion: confusion(label, guess, 5), columns: mean(x, axis: 0), weighted: mean(x, axis: 0, weight: f32(label)),
           ranges: max(x, axis: 0, keep: true) - min(x, axis: 0, keep: true), last: last(sum(x, axis: 0)), n: count(label), batches: max(r)
}

step evaluate(x: f32[B, 3], label: i32[B], guess: i32[B]) from pairs {
    report confusion: confusion(label, guess, 5), columns: columns(Scale(x))
}

fn columns(x: f32[B, 3]) { return mean(x, axis: 0) }
"""

random = np.random.default_rng(5)
x = random.standard_normal((N, 3), np.float32)
label = random.integers(0, CLASSES, N).astype(np.int32)
guess = np.where(random.random(N) < 0.6, label, random.integers(0, CLASSES, N)).astype(np.int32)
data = FOLDER / "data"
data.mkdir()
for name, array in (("x", x), ("label", label), ("guess", guess)):
    np.save(data / f"{name}.npy", array)
matrix = np.zeros((CLASSES, CLASSES))
np.add.at(matrix, (label, guess), 1)
recall = matrix.diagonal() / matrix.sum(1)
program = compile_program(PROGRAM, "shapes")
RUN = ("--data", data, "--seed", 3, "--global-batch", 12)

run = Run("train", program, *RUN, "--checkpoint-dir", FOLDER / "whole", "--devices", "cpu:1", "--keep-best", "train.recall[2]")
epoch = run.one("epoch", step="train")
for name, wanted in (("recall", recall), ("macro", recall.mean()), ("worst", recall.min()), ("confusion", matrix), ("columns", x.mean(0)), ("n", N),
                     ("weighted", (x * label[:, None]).sum(0) / label.sum()), ("ranges", [np.ptp(x, axis=0)]), ("last", x[-(N % 12):].sum(0))):
    check(np.shape(epoch[name]) == np.shape(wanted) and np.allclose(epoch[name], wanted, rtol=1e-6), f"{name}: {epoch[name]}, NumPy has {wanted}")
check(run.one("epoch", step="evaluate")["confusion"] == matrix.tolist(), "the evaluation's matrix")

reports = [{name: e[name] for name in e if name not in ("seconds", "examples_per_second", "seconds_per_step", "data_wait")} for e in run.all("epoch")]
# Sums are taken by the microbatches of the replicas, so their number may show in the last bits: the same is promised of any layout of each.
for replicas in (1, 2, 3):
    found = []
    for devices in ("cpu:1x1", "cpu:1x2", "cpu:2x1")[:replicas + 1]:
        other = Run("train", program, *RUN, "--replicas", replicas, "--devices", devices)
        found.append([{name: e[name] for name in e if name in reports[0]} for e in other.all("epoch")])
    check(all(one == found[0] for one in found), f"{replicas} replicas: {found}")
    check(found[0][0]["confusion"] == matrix.tolist() and found[0][0]["recall"] == epoch["recall"], f"{replicas} replicas count other things")

# Stopped in mid-epoch, and going on from the checkpoint: the totals were in it.
Run("train", program, *RUN, "--max-steps", 4, "--checkpoint-dir", FOLDER / "parts", "--devices", "cpu:1")
resumed = Run("train", program, *RUN, "--resume", "--checkpoint-dir", FOLDER / "parts", "--devices", "cpu:1")
check(resumed.one("epoch", step="train")["confusion"] == matrix.tolist(), "totals of a resumed epoch")

lines = subprocess.run(["dtrun", "evaluate", program, "--data", data, "--checkpoint-dir", FOLDER / "whole"], capture_output=True, text=True)
table = lines.stdout[lines.stdout.index("confusion:"):].splitlines()[1:1 + CLASSES]
check([list(map(int, row.split())) for row in table] == matrix.tolist(), lines.stdout)

# What TensorBoard gets: a scalar for each element of a vector, a picture of the matrix; and the page's tables.
Run("train", program, *RUN, "--log-dir", FOLDER / "logs", "--devices", "cpu:1")
events, = (path.read_bytes() for path in (FOLDER / "logs").glob("events.out.tfevents.*"))
check(all(tag in events for tag in (b"recall/train[0]", b"recall/train[4]", b"confusion/evaluate", b"\x89PNG")), "tags of the event file")
subprocess.run(["dtrun", "report", FOLDER / "logs", "-o", FOLDER / "report.html"], check=True)
page = (FOLDER / "report.html").read_text()
check(page.count("confusion <span") == 2 and f">{int(matrix[2, 2])}</td>" in page, "the page's matrices")

refused = Run("train", program, *RUN, "--keep-best", "train.recall", "--checkpoint-dir", FOLDER / "refused", expect=None)
check(refused.code != 0 and "train.recall has 5 numbers: name one of them, as in train.recall[0]" in refused.error, refused.error)
finish()
