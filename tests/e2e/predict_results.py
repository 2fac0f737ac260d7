"""The results of `dtrun predict`: rows put together, what is the same for every batch once, and what a batch as a whole decides only of a single
batch."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

PREDICT = """
model Scale(x: f32[B, 3]) {
    param factor: f32[3] = ones()
    return x * factor, factor
}

step predict(x: f32[B, 3]) {
    y, factor = Scale(x)
    return %s
}
"""
x = numpy.arange(300, dtype=numpy.float32).reshape(100, 3) / 7
factor = numpy.array([2, 3, 5], numpy.float32)
numpy.save(FOLDER / "x.npy", x)
numpy.save(FOLDER / "few.npy", x[:30])


def predict(results, *flags, file="x.npy", name="p", expect=0):
    """The arrays by name, or what was said."""
    shutil.rmtree(FOLDER / "out", ignore_errors=True)
    program = compile_program(PREDICT % results, name, "--batch", "32")
    weights = FOLDER / "weights.safetensors"
    header = b'{"Scale/factor":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}}'
    weights.write_bytes(struct.pack("<Q", len(header)) + header + factor.tobytes())
    run = Run("predict", program, "--input", FOLDER / file, "--output", FOLDER / "out", "--init", weights, *flags, expect=expect)
    if expect != 0:
        check(not (FOLDER / "out").exists(), "something was written")
        return run.error
    return {path.stem: numpy.load(path) for path in (FOLDER / "out").iterdir()}


# rows, and what no example has a part in
found = predict("scaled: y, factor: factor, twice: factor * 2, last: iota([4]), all: replicas")
check(numpy.array_equal(found["scaled"], x * factor), found)
check(numpy.array_equal(found["factor"], factor) and numpy.array_equal(found["twice"], 2 * factor), found)
check(found["last"].tolist() == [0, 1, 2, 3] and found["all"] == 1, found)

# what all examples of a batch have a part in: a mean, a count, random numbers that are others for each batch
for name, result in (("mean", "mean(y)"), ("count", "count(x)"), ("column", "sum(x, axis: 0)"), ("noise", "normal([3])")):
    error = predict(f"scaled: y, {name}: {result}", expect=1)
    check(f"step predict: result {name} is one for all examples of a batch, and the input's 100 examples are 4 batches" in error, error)
    check("--global-batch 100" in error and "report it" in error, error)
found = predict("mean: mean(y), column: sum(x, axis: 0)", file="few.npy")
check(numpy.allclose(found["mean"], (x[:30] * factor).mean()) and numpy.allclose(found["column"], x[:30].sum(0)), found)

# the message's advice: one batch, of 100 rows on 4 replicas of 25
found = predict("mean: mean(y), count: count(x)", "--global-batch", 100, "--replicas", 4)
check(numpy.allclose(found["mean"], (x * factor).mean()) and found["count"] == 300, found)
check("multiple of --replicas" in predict("scaled: y", "--global-batch", 33, "--replicas", 2, expect=1), "33 rows on 2 replicas")
finish()
