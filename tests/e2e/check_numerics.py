"""--check-numerics: the first NaN or infinity is traced to the kernel that made it and its lines, or to the input or variable that held it; the same for any
devices; and a training without one has the bits that it has without the check."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

import numpy

PROGRAM_OF = """use nn, optimizers
data some = npy("{file}") | batch(8)

fn first(x: f32[B, 4]) {{
    return {expression}
}}

fn second(x: f32[B, 4]) {{
    return log(x - 100)
}}

model Line(x: f32[B, 4]) -> f32[B] {{
    return dense(x, units: 1)[:, 0]
}}

step train(x: f32[B, 4]) from some {{
    kept = first(x)
    y = {then}
    minimize(square(Line(x)), sgd(learning_rate: {rate}))
    report loss: mean(sum(y, axis: 1)), most: max(y)
}}
"""
numbers = numpy.random.default_rng(0)
FINITE = numbers.uniform(0.1, 1, (90, 4)).astype(numpy.float32)


def program(name, expression, place=None, value=0.0, then="kept", rate=0.01):
    array = FINITE.copy()
    if place is not None:
        array[place] = value
    numpy.save(FOLDER / f"{name}.npy", array)
    return compile_program(PROGRAM_OF.format(file=f"{name}.npy", expression=expression, then=then, rate=rate), name)


def train(artifact, *flags, **options):
    return Run("train", artifact, "--data", FOLDER, "--replicas", 2, "--epochs", 2, *flags, **options)


# each names the kernel with line 5, where first() computes; what follows it, in line 9, is not to blame
KERNEL = r"kernel train_\w+ makes the first {} \(element \d+\), of what stands in {}\.dt:(\d+, )*{}\b"
for name, expression, place, value, wanted in (
    ("logarithm", "log(x)", (20, 1), -1, "train step 2, row.*: " + KERNEL.format("NaN", "logarithm", 5)),
    ("division", "1 / x", (71, 3), 0, "train step 5, row.*: " + KERNEL.format("infinity", "division", 5)),
    ("bf16", "f32(bf16(x))", (9, 0), 3.4e38, "train step 1, row.*: " + KERNEL.format("infinity", "bf16", 5)),
    ("negative", "log(x)", (31, 2), 0, "train step 2, row.*: " + KERNEL.format("-infinity", "negative", 5)),
    ("data", "x + 1", (55, 2), numpy.nan, r"train step 4, row 7: input x holds NaN \(element 2\): it is in the data, before any kernel$"),
    ("data2", "x + 1", (15, 0), -numpy.inf, r"train step 1, row 15: input x holds -infinity \(element 0\): it is in the data"),
):
    artifact = program(name, expression, place, value)
    said = {train(artifact, "--check-numerics", "--devices", d, expect=1).error for d in ("cpu:1", "cpu:2", "cpu:2x2")}
    check(len(said) == 1 and re.fullmatch("dtrun: error: " + wanted + r".*\n", *said), f"{name}: wanted {wanted}, got {said}")

# a kernel that is later in the program, and earlier in time, since the rows that reach it first go through it first
artifact = program("later", "1 / x", (15, 0), 0, then="second(x)")
run = train(artifact, "--check-numerics", expect=1)
check(re.search(KERNEL.format("NaN", "later", 9), run.error), run.error)

# parameters: an update that overflows, and one that was loaded so
run = train(program("update", "x", rate="1e30"), "--check-numerics", expect=1)
check(re.search(r"makes the first -?(infinity|NaN) \(element \d+( of Line/dense/\w+)?\)", run.error), run.error)
artifact = program("fine", "x + 1")
plain, checked = FOLDER / "plain", FOLDER / "checked"
train(artifact, "--checkpoint-dir", plain, "--devices", "cpu:2")
train(artifact, "--checkpoint-dir", checked, "--devices", "cpu:2", "--check-numerics")
check(bits(plain) == bits(checked), "the check changes bits")
weights = {"Line/dense/kernel": numpy.array([[1], [2], [numpy.inf], [3]], numpy.float32), "Line/dense/bias": numpy.zeros(1, numpy.float32)}
header = json.dumps({name: {"dtype": "F32", "shape": a.shape, "data_offsets": [16 * i, 16 * i + a.nbytes]} for i, (name, a) in enumerate(weights.items())})
(FOLDER / "w.safetensors").write_bytes(struct.pack("<Q", len(header)) + header.encode() + b"".join(a.tobytes() for a in weights.values()))
run = train(artifact, "--check-numerics", "--init", FOLDER / "w.safetensors", expect=1)
check("variable Line/dense/kernel holds infinity (element 2): it was set to that before the step" in run.error, run.error)

# what cannot be looked at; and who sees a loss that is none is told of the check
run = train(artifact, "--check-numerics", "--devices", "null:1", expect=1)
check("--check-numerics looks at what a CPU computes, not null:1: give it --devices cpu" in run.error, run.error)
run = train(FOLDER / "logarithm.dtx", expect=1)
check("loss is not a number (NaN); a smaller learning rate may help, and --check-numerics says where it came from" in run.error, run.error)
finish()
