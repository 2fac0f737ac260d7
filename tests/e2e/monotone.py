"""monotone: a maximum over what a monotone map makes. `sink` takes the map after the maximum, where values and gradients are the same: for integers not
with sums, which wrap around; under a gradient only where no two numbers that the map makes equal have a gradient.

The interpreter, which runs the program as it is written, and compiled code, against NumPy and the first position that reaches a maximum.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

checks = Checks()
WRAPS = {"u8": (np.uint8, 200, [[10, 100], [60, 250]]), "i8": (np.int8, 100, [[10, 100], [60, -100]]),
         "i32": (np.int32, 2**31 - 1, [[1, -5], [7, 2**31 - 1]]), "i64": (np.int64, 2**63 - 1, [[1, -5], [7, 2**63 - 1]])}  # fmt: skip

INTEGERS = "\n".join(
    f"""step of_{name}(x: {name}[B, 2]) {{
    return plus: max(x + {b}, axes: [1], keep: true), minus: max(x - {b}, axes: [1], keep: true), high: max(maximum(x, {b}), axes: [1], keep: true), low: max(minimum(x, {b}), axes: [1], keep: true)
}}"""
    for name, (_, b, _) in WRAPS.items()
)

# Each map, and in NumPy the numbers that it makes of x and its slope there; of equal ones the first counts.
MAPS = {
    "x + 100000000": (lambda x: x + np.float32(1e8), lambda x: np.ones_like(x)),
    "x - 100000000": (lambda x: x - np.float32(1e8), lambda x: np.ones_like(x)),
    "relu(x)": (lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    "relu(x + 1)": (lambda x: np.maximum(x + 1, 0), lambda x: (x + 1 > 0) * 1.0),
    "maximum(x, 0)": (lambda x: np.maximum(x, 0), lambda x: (x >= 0) * 1.0),
    "minimum(x, 3)": (lambda x: np.minimum(x, 3), lambda x: (x <= 3) * 1.0),
    "minimum(relu(x), 6)": (lambda x: np.clip(x, 0, 6), lambda x: ((x > 0) & (x <= 6)) * 1.0),
}
FLOATS = "use nn\n" + "\n".join(
    f"""step at{i}(x: f32[B, 4], image: f32[B, 2, 4, 1]) {{
    whole = max({m}, axes: [1], keep: true)
    pooled = max_pool2d({m.replace("x", "image").replace("maimageimum", "maximum")}, size: 2)
    return whole: whole, pooled: pooled, gradient: grad(sum(whole), x), image_gradient: grad(sum(pooled), image)
}}
step value{i}(x: f32[B, 4]) {{ return whole: max({m}, axes: [1], keep: true) }}"""
    for i, m in enumerate(MAPS)
)
ROWS = np.array([[1, 2, 3, 4], [-2, -1, 0, 0], [7, 8, 9, 6], [6, 7, 5, 6], [3, 4, 5, 6], [-1, 0, -3, 0], [0, -0.5, 0, -1]], np.float32)


def first(values, slope, axis):
    """The slope at the first position along the axis that has the maximum, else 0."""
    at = np.argmax(values, axis=axis, keepdims=True)
    positions = np.arange(values.shape[axis]).reshape([-1 if a == axis % values.ndim else 1 for a in range(values.ndim)])
    return np.where(positions == at, slope, 0)


def windows(x):
    """[B, 2, 4, 1] as windows of 2 by 2: [B, 2, 4]."""
    return x.reshape(-1, 2, 2, 2).transpose(0, 2, 1, 3).reshape(-1, 2, 4)


def image_of(x):
    return x.reshape(-1, 2, 2, 2).transpose(0, 2, 1, 3).reshape(-1, 2, 4, 1)


integers, floats = write(INTEGERS), write(FLOATS)
integers_dtx, floats_dtx = compile(integers, batch=2), compile(floats, batch=len(ROWS))
for name, (dtype, b, x) in WRAPS.items():
    x, b = np.array(x, dtype), dtype(b)
    given = {"input/x": x}
    with np.errstate(over="ignore"):
        wanted = {"plus": (x + b).max(1, keepdims=True), "minus": (x - b).max(1, keepdims=True), "high": np.maximum(x, b).max(1, keepdims=True), "low": np.minimum(x, b).max(1, keepdims=True)}
    for how, found in (("interpreted", interpret(integers, f"of_{name}", given)), ("compiled", execute(integers_dtx, f"of_{name}", given))):
        for key, value in wanted.items():
            got = found[f"result/{key}"]
            checks.that((got == value).all(), f"{name}, {key}, {how}: {got.tolist()}, not {value.tolist()}")

image = np.concatenate([ROWS, ROWS[::-1]], axis=1).reshape(-1, 2, 4, 1)
for i, (written, (f, slope)) in enumerate(MAPS.items()):
    given = {"input/x": ROWS, "input/image": image}
    w = windows(image)
    wanted = {"whole": f(ROWS).max(1, keepdims=True), "gradient": first(f(ROWS), slope(ROWS), 1), "pooled": f(w).max(2).reshape(-1, 1, 2, 1),
              "image_gradient": image_of(first(f(w), slope(w), 2))}  # fmt: skip
    for how, found in (("interpreted", interpret(floats, f"at{i}", given)), ("compiled", execute(floats_dtx, f"at{i}", given))):
        for key, value in wanted.items():
            checks.near(f"{written}, {key}, {how}", found[f"result/{key}"], value, relative=0)
    found = execute(floats_dtx, f"value{i}", {"input/x": ROWS})
    checks.near(f"{written}, without a gradient", found["result/whole"], wanted["whole"], relative=0)
checks.finish()
