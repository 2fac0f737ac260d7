"""pad_modes: pad in each mode beside NumPy's, with the gradient, by the interpreter and by compiled code on one and on three replicas; what it refuses."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, run, write

SHAPE = (4, 3, 5)
CASES = [
    # mode, low, high
    ("constant", (1, 2), (0, 3)),
    ("reflect", (2, 0), (1, 4)),
    ("reflect", (0, 1), (0, 0)),
    ("symmetric", (3, 5), (3, 0)),
    ("symmetric", (0, 0), (0, 2)),
    ("edge", (4, 0), (1, 7)),
    ("edge", (0, 1), (0, 1)),
    ("wrap", (3, 2), (1, 5)),
]
MISTAKES = [
    ("low: [0, 3, 0], high: [0, 0, 0], mode: reflect", "pad: an axis of 3 has at most 2 for mode reflect, not 3"),
    ("low: [0, 0, 0], high: [0, 4, 0], mode: symmetric", "pad: an axis of 3 has at most 3 for mode symmetric, not 4"),
    ("low: [0, 0, 6], high: [0, 0, 0], mode: wrap", "pad: an axis of 5 has at most 5 for mode wrap, not 6"),
    ("low: [0, -1, 0], high: [0, 0, 0], mode: edge", "pad: low and high are 0 or more, got -1 and 0"),
    ("low: [0, -1, 0], high: [0, 0, 0]", "pad: low must be at least 0, got -1"),
    ("low: [1, 0, 0], high: [0, 0, 0], mode: edge", "pad: mode edge does not pad the batch"),
    ("low: [1, 0], high: [0, 0, 0], mode: edge", "pad: low and high have a number for each of 3 axes"),
    ("low: [0, 1, 0], high: [0, 0, 0], mode: replicate", "pad: mode is constant, reflect, symmetric, edge or wrap, not replicate"),
]

checks = Checks()
random = np.random.RandomState(5)


def padded(x, mode, low, high, value=2.5):
    return np.pad(x, [(0, 0), *zip(low, high)], mode=mode, **({"constant_values": value} if mode == "constant" else {}))


def gradient(cotangent, mode, low, high):
    """Of sum(pad(x) * cotangent): NumPy's pad of the positions, from 1, says where each element comes from; 0: from the value."""
    n = int(np.prod(SHAPE))
    result = np.zeros(n + 1)
    np.add.at(result, padded(np.arange(1, n + 1).reshape(SHAPE), mode, low, high, value=0), cotangent)
    return result[1:].reshape(SHAPE)


def call(mode, low, high):
    return f"pad(x, low: {[0, *low]}, high: {[0, *high]}, value: 2.5, mode: {mode})"


def step(number, mode, low, high):
    dims = ", ".join(["B", *(str(n + a + b) for n, a, b in zip(SHAPE[1:], low, high))])
    return f"""step pad{number}(x: f32[B, {SHAPE[1]}, {SHAPE[2]}], cotangent: f32[{dims}]) {{
    y = {call(mode, low, high)}
    return y: y, g: grad(sum(y * cotangent), x)
}}
"""


def mistake(arguments, message):
    program = f"step predict(x: f32[B, 3, 5]) {{ return y: pad(x, {arguments}) }}\n"
    try:
        run(["dtc", "compile", "--emit=ir", write(program)])
    except RuntimeError as error:
        checks.that(f"error: {message}\n" in str(error) and ":1:" in str(error), f"{arguments}: {message}, got {error}")
    else:
        checks.that(False, f"pad of {arguments} is refused")


program = write("".join(step(number, *case) for number, case in enumerate(CASES)))
artifact = compile(program, batch=4)
for number, (mode, low, high) in enumerate(CASES):
    x = random.standard_normal(SHAPE).astype(np.float32)
    y = padded(x, mode, low, high)
    cotangent = random.standard_normal(y.shape).astype(np.float32)
    given = {"input/x": x, "input/cotangent": cotangent}
    runs = {"interpreted": interpret(program, f"pad{number}", given)}
    runs |= {f"{replicas} replicas": execute(artifact, f"pad{number}", given, replicas=replicas) for replicas in (1, 3)}
    for how, found in runs.items():
        what = f"{mode} {low} {high}, {how}"
        checks.near(what, found["result/y"], y, relative=0)
        checks.near(f"{what}: gradient", found["result/g"], gradient(cotangent, mode, low, high), relative=1e-6, absolute=1e-6)
for arguments, message in MISTAKES:
    mistake(arguments, message)
checks.finish()
