"""edges: activations and losses where formulas break, against PyTorch (tests/golden/edges.json): values and gradients at 0, at joints, where exponentials
overflow. In the interpreter and compiled, whose vectors and remainders both see every point. What has no counterpart there is said here: norms of zeros,
masks that leave nothing to look at, probabilities of exactly 1, also between layers of 16 bits."""

import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, compile, execute, interpret, write

with open(os.path.join(SOURCE, "tests", "golden", "edges.json")) as file:
    rows = json.load(file)["rows"]
text = "use nn, losses\n"
for i, row in enumerate(rows):
    text += f"step at{i}(x: f32[B]) {{\n    y = {row['call']}\n    return y: y, gradient: grad(sum(y), x)\n}}\n"

checks = Checks()
program = write(text)
artifact = compile(program, batch=32)
for i, row in enumerate(rows):
    given = {"input/x": np.array(row["x"], np.float32)}
    absolute = 1e-6 if "approximate" in row["call"] else 2e-7  # 1 + tanh loses digits where tanh is near -1
    for how, found in (("interpreted", interpret(program, f"at{i}", given)), ("compiled", execute(artifact, f"at{i}", given))):
        for name in ("y", "gradient"):
            checks.near(f"{row['call']}, {how}: {name}", found[f"result/{name}"], row[name], relative=4e-6, absolute=absolute)

# A slope for each position: PyTorch's prelu has the slope alpha at 0.
PRELU = """
use nn
model Net(x: f32[B, 3]) -> f32[B, 3] { return prelu(x, alpha_initializer: fn(shape) => constant(shape, 0.25)) }
step at(x: f32[B, 3]) { return gradient: grad(sum(Net(x)), x) }
"""
found = interpret(write(PRELU), "at", {"input/x": np.array([[0, -1, 1]], np.float32), "variable/Net/prelu/alpha": np.full(3, 0.25, np.float32)})
checks.near("prelu: gradient", found["result/gradient"], [[0.25, 0.25, 1]], relative=0)

# The paper of the focal loss tries gamma below 1, where the slope of 0 ** gamma is infinite; an example that is certain has none.
FOCAL = """
use losses
step at(x: f32[B, 2], target: f32[B, 2]) {
    binary      = binary_focal_crossentropy(target, x, gamma: 0.5)
    categorical = categorical_focal_crossentropy(target, x, gamma: 0.5)
    return binary: grad(sum(binary), x), categorical: grad(sum(categorical), x)
}
"""
found = interpret(write(FOCAL), "at", {"input/x": np.array([[200, -200]], np.float32), "input/target": np.array([[1, 0]], np.float32)})
for name in ("binary", "categorical"):
    checks.near(f"focal, {name}: gradient", found[f"result/{name}"], [[0, 0]], relative=0)

NARROW = """
use nn
option precision: PRECISION
layer normed(x: float[B, C]) { return unit_norm(x) }
layer look(x: float[B, N, T, D], mask: bool[B, 1, 1, T]) { return scaled_dot_product_attention(x, x, x, mask: mask) }
model Net(x: f32[B, 4]) -> f32[B, 4] { return normed(x) }
model Look(x: f32[B, 1, 2, 4], mask: bool[B, 1, 1, 2]) -> f32[B, 1, 2, 4] { return look(x, mask) }
step norm(x: f32[B, 4]) {
    y = Net(x)
    return y: y, gradient: grad(sum(y), x)
}
step attention(x: f32[B, 1, 2, 4], seen: u8[B, 1, 1, 2]) {
    y = Look(x, seen != 0)
    return y: y, gradient: grad(sum(y * y), x)
}
"""
for precision in ("f32", "mixed_bf16", "mixed_f16"):
    program = write(NARROW.replace("PRECISION", precision))
    x = np.array([[0, 0, 0, 0], [300, 0, 400, 0]], np.float32)  # the squares of 300 and 400 are too large for f16
    found = interpret(program, "norm", {"input/x": x})
    checks.near(f"unit_norm, {precision}", found["result/y"], [[0, 0, 0, 0], [0.6, 0, 0.8, 0]], relative=2.0**-8)
    x = np.array([[[[1, 2, 3, 4], [3, 4, 5, 6]]]], np.float32)
    found = interpret(program, "attention", {"input/x": x, "input/seen": np.zeros((1, 1, 1, 2), np.uint8)})
    checks.near(f"attention without anything to see, {precision}", found["result/y"], [[[[2, 3, 4, 5], [2, 3, 4, 5]]]], relative=2.0**-8)
    checks.that(np.isfinite(found["result/gradient"]).all(), f"attention without anything to see, {precision}: the gradient is {found['result/gradient']}")
checks.finish()
