"""second_gradients: gradients of gradients where a first gradient has cases: products with zeros, powers with the exponent 0. NumPy has each Hessian, and
the third derivatives of a product, in closed form; the interpreter and compiled code against it.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

SOURCE = """
fn many(x: f32[B, 4]) { return concatenate([x, full([B, 16], 1.0)], axis: 1) } # so many that others are not multiplied out
step of_product(x: f32[B, 4], v: f32[B, 4], w: f32[B, 4]) {
    first  = grad(sum(product(x, axes: [1])), x)
    second = grad(sum(first * v), x)
    return first: first, second: second, third: grad(sum(second * w), x)
}
step of_many(x: f32[B, 4], v: f32[B, 4], w: f32[B, 4]) {
    first  = grad(sum(product(many(x), axes: [1])), x)
    second = grad(sum(first * v), x)
    return first: first, second: second, third: grad(sum(second * w), x)
}
step of_scaled_product(x: f32[B, 4], v: f32[B]) {
    return few: grad(sum(product(x, axes: [1]) * v), x), many: grad(sum(product(many(x), axes: [1]) * v), x)
}
step of_product_of_two_axes(x: f32[B, 2, 2], v: f32[B, 2, 2]) {
    return second: grad(sum(grad(sum(product(x, axes: [1, 2], keep: true)), x) * v), x)
}
step of_power(x: f32[B], y: f32[B]) {
    first  = grad(sum(x ** y), x)
    second = grad(sum(x ** y), y)
    return of_x: first, of_y: second, of_xx: grad(sum(first), x), of_xy: grad(sum(first), y), of_yx: grad(sum(second), x), of_yy: grad(sum(second), y),
           of_xyy: grad(sum(grad(sum(first), y)), y)
}
"""
X = np.array([[1, 2, 3, 4], [0, 1, 3, -1], [0, 0, 2, 3], [5, 0, -0.0, 2], [0, 0, 0, 5], [0, 0, 0, 0], [2, 0, 0, 0.5], [-1, -2, 0, 4]], np.float32)
V, W = np.array([0.5, -0.75, 1.25, 2], np.float32), np.array([1.5, 1, -0.5, 0.25], np.float32)


def derivatives(x):
    """Gradient, Hessian times V, and that derived along W, of the product of four numbers."""
    n = range(4)
    others = lambda *left_out: np.prod([x[k] for k in n if k not in left_out])
    first = [others(i) for i in n]
    second = [sum(V[j] * others(i, j) for j in n if j != i) for i in n]
    third = [sum(V[j] * W[k] * others(i, j, k) for j in n for k in n if len({i, j, k}) == 3) for i in n]
    return first, second, third


checks = Checks()
program = write(SOURCE)
artifact = compile(program, batch=16)
wanted = np.array([derivatives(x.astype(np.float64)) for x in X])
given = {"input/x": X, "input/v": np.tile(V, (len(X), 1)), "input/w": np.tile(W, (len(X), 1))}
square = {"input/x": X.reshape(-1, 2, 2), "input/v": given["input/v"].reshape(-1, 2, 2)}
for how, run, subject in (("interpreted", interpret, program), ("compiled", execute, artifact)):
    for step in ("of_product", "of_many"):
        found = run(subject, step, given)
        for i, name in enumerate(("first", "second", "third")):
            checks.near(f"{step}, {how}: {name}", found[f"result/{name}"], wanted[:, i], relative=1e-6)
        large = np.array([[0, 1e30, 1e30, 1], [0, 0, 1e30, -1e30]], np.float32)  # whose product is infinite where a zero is left out
        found = run(subject, step, {"input/x": large, "input/v": given["input/v"][:2], "input/w": given["input/w"][:2]})
        checks.that(np.array_equal(found["result/first"], [[np.inf, 0, 0, 0], [0, 0, 0, 0]]),
                    f"{step}, {how}: zeros beside what overflows: {found['result/first']}")  # fmt: skip
    found = run(subject, "of_scaled_product", {"input/x": np.array([[1e20, 1, 2, 1]], np.float32), "input/v": np.array([1e19], np.float32)})
    for name in ("few", "many"):
        checks.near(f"{name}, {how}: times the product of all it would overflow", found[f"result/{name}"][0, 0], 2e19, relative=1e-6)
    found = run(subject, "of_product_of_two_axes", square)
    checks.near(f"product of two axes, {how}", found["result/second"].reshape(-1, 4), wanted[:, 1], relative=1e-6)

x, y = (a.ravel().astype(np.float32) for a in np.meshgrid([0.25, 1, 1.5, 2], [0, 1, 2, -0.5]))
a, b, log = x.astype(np.float64), y.astype(np.float64), np.log(x.astype(np.float64))
powers = {"of_x": b * a ** (b - 1), "of_y": a**b * log, "of_xx": b * (b - 1) * a ** (b - 2), "of_xy": a ** (b - 1) * (1 + b * log),
          "of_yx": a ** (b - 1) * (1 + b * log), "of_yy": a**b * log**2, "of_xyy": a ** (b - 1) * log * (2 + b * log)}  # fmt: skip
for how, run, subject in (("interpreted", interpret, program), ("compiled", execute, artifact)):
    found = run(subject, "of_power", {"input/x": x, "input/y": y})
    for name, value in powers.items():
        checks.near(f"power, {how}: {name}", found[f"result/{name}"], value, relative=4e-6, absolute=1e-6)
    found = run(subject, "of_power", {"input/x": np.array([0, 0, 0, -2, -2], np.float32), "input/y": np.array([0, 1, 2, 0, 3], np.float32)})
    checks.near(f"power of 0 and less, {how}", found["result/of_x"], [0, 1, 0, 0, 12], relative=1e-6)
    checks.near(f"power of 0 and less, {how}, second", found["result/of_xx"], [0, 0, 2, 0, -12], relative=1e-6)
checks.finish()
