"""`dtrun data` writes the batches that a training sees: the training reports a sum of each batch that depends on every element and on its place, and NumPy
finds the same sums in the arrays."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

LOOK = """
use optimizers

fn change(image: u8[12, 12], label: u8) {
    return where(bernoulli(0.5), reverse(image, axis: 1), image), label
}

data train_set = idx("images.gz", "labels.gz") | take(1000) | shuffle(200) | map(change) | batch(32) | prefetch(2)
data test_set  = idx("test-images", "test-labels") | batch(32)

model Nothing(x: f32[B]) {
    param factor: f32 = 1.0
    return x * factor
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    minimize(Nothing(f32(label)), sgd(0.0))
    place = iota([B])[:, newaxis, newaxis] + 1
    report mark: last(sum(i64(image) * place * (iota([12, 12]) + 7)[newaxis]) + sum(i64(label) * (iota([B]) + 1)))
}
"""
data, program = write_data(), compile_program(LOOK)
RUN = ("--data", data, "--seed", 5, "--replicas", 3, "--global-batch", 96)


def read(*flags, folder="out"):
    shutil.rmtree(FOLDER / folder, ignore_errors=True)
    Run("data", program, *RUN, "-o", FOLDER / folder, *flags)
    return {path.stem: numpy.load(path) for path in (FOLDER / folder).iterdir()}


def marks(arrays):
    cuts = numpy.cumsum(arrays["batch-rows"])[:-1]
    found = []
    for image, label in zip(numpy.split(arrays["image"].astype(numpy.int64), cuts), numpy.split(arrays["label"].astype(numpy.int64), cuts)):
        place = numpy.arange(len(label)) + 1
        weights = numpy.arange(12)[:, None] + 7 + numpy.zeros((1, 12), numpy.int64)
        found.append(int((image * place[:, None, None] * weights).sum() + (label * place).sum()))
    return found


steps = [int(e["mark"]) for e in Run("train", program, *RUN, "--epochs", 3, "--log-every", 1).all("step")]
check(len(steps) == 33 and len(set(steps)) == 33, steps)

# the first batches; an epoch, with its short batch; a later epoch; two epochs and a piece of the third
ten = read("--batches", 10, "--step", "train")
check(ten["image"].shape == (960, 12, 12) and ten["image"].dtype == numpy.uint8 and ten["label"].shape == (960,), ten)
check(marks(ten) == steps[:10], "the first ten batches")
epoch = read()
check(epoch["batch-rows"].tolist() == [96] * 10 + [40] and marks(epoch) == steps[:11], epoch["batch-rows"])
check(marks(read("--epoch", 2)) == steps[11:22], "the second epoch")
check(marks(read("--batches", 25)) == steps[:25], "into the third epoch")
check(marks(read("--epoch", 2, "--batches", 13)) == steps[11:24], "from the second into the third epoch")
check(marks(read("--seed", 6)) != steps[:11], "another seed, the same batches")

# other data of the program; as the files have it
test = read("--from", "test_set")
check(test["image"].tobytes() == (data / "test-images").read_bytes()[16:], "the test set is in the order of its file")

# what is refused leaves nothing
for flags, words in ((("-o", FOLDER / "no", "--step", "sample"), "has no step sample"), ((), "name the folder for the arrays with --output"),
                     (("-o", FOLDER / "no", "--from", "sets"), "has no data sets"), (("-o", "/dev/null/no"), "cannot create the folder"),
                     (("-o", FOLDER / "no", "--global-batch", 100), "multiple of --replicas"), (("-o", FOLDER / "no", "--data", "/nowhere"), "/nowhere"),
                     (("-o", FOLDER / "no", "--replicas", 1, "--global-batch", 64), "net.dt --batch 64")):
    error = Run("data", program, *RUN, *flags, expect=1).error
    check(words in error, error)
check(not (FOLDER / "no").exists(), "a refused call made a folder")
Run("data", program, *RUN, "-o", FOLDER / "no", "--epoch", 0, expect=2)
Run("data", program, *RUN, "-o", FOLDER / "no", "--batches", 0, expect=2)
finish()
