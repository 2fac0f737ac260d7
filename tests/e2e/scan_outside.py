"""scan_outside: what a loop keeps, or goes on with, that is computed outside of it, and what it reads of all rows, as NumPy has it: on any number of
replicas.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, write

checks = Checks()
RANDOM = np.random.default_rng(7)
X, W, U = ((0.4 * RANDOM.standard_normal(shape)).astype(np.float32) for shape in ((6, 8), (8, 8), (8, 1)))
HEAD = "model M(x: f32[B, 8]) {\n    param w: f32[8, 8] = zeros()\n    param u: f32[8, 1] = zeros()\n"

# The body of a model that gives one value by a scan, and what it is.
CASES = {
    "kept product": ("_, all = scan(fn(s, i) => [tanh(s), x @ w], x, axis: 1, length: 3)", "all", np.repeat((X @ W)[:, None], 3, 1)),
    "kept sum": ("_, all = scan(fn(s, i) => [tanh(s), exp(sum(x, axis: 1))], x, axis: 1, length: 3)", "all", np.repeat(np.exp(X.sum(1))[:, None], 3, 1)),
    "kept rows of a loop without rows": ("_, all = scan(fn(s, i) => [w @ s, x], u, axis: 1, length: 3)", "all", np.repeat(X[:, None], 3, 1)),
    "kept statistic": ("_, all = scan(fn(s, i) => [tanh(s), sum(x, axis: 0)], x, axis: 0, length: 2)", "all + 0 * u[0]", np.repeat(X.sum(0)[None], 2, 0)),
    "next": ("last, _ = scan(fn(s, i) => [exp(sum(x, axis: 1)), none], x[:, 0], length: 3)", "last", np.exp(X.sum(1))),
    "kept state of such": ("_, all = scan(fn(s, i) => [exp(sum(x, axis: 1)), s], x[:, 0], axis: 1, length: 2)", "all", np.stack([X[:, 0], np.exp(X.sum(1))], 1)),
    "nested": (
        "_, all = scan(fn(s, i) => scan(fn(t, j) => [tanh(t), x @ w], s, axis: 1, length: 2), x, axis: 1, length: 3)",
        "all",
        np.broadcast_to((X @ W)[:, None, None], (6, 3, 2, 8)),
    ),
}


def power(x, w, u):
    c = x.T @ x
    for _ in range(4):
        u = np.tanh(w @ np.tanh(w @ np.tanh(c @ u)))
    return u


CASES["a sum over rows that an early kernel of the body reads"] = (
    "c = ops.matmul(x, x, transpose_a: true)\n    last, _ = scan(fn(s, i) => [tanh(w @ tanh(w @ tanh(c @ s))), none], u, length: 4)",
    "last",
    power(X, W, U),
)


def main():
    for name, (text, value, wanted) in CASES.items():
        body = f"{HEAD}    {text}\n    return {value}, w, u\n}}\n"
        source = write(f"{body}step s(x: f32[B, 8]) {{\n    y, w, u = M(x)\n    return y: y, w: w, u: u\n}}\n")
        given = {"input/x": X, "variable/M/w": W, "variable/M/u": U}
        for optimize in (None, "no-hoist", "no-fuse"):
            artifact = compile(source, batch=6, optimize=optimize)
            for v in (1, 2, 3):
                got = execute(artifact, "s", given, rows=6, replicas=v)["result/y"]
                got = got[0] if got.ndim > wanted.ndim else got
                checks.near(f"{name}, V={v}, {optimize}", got, wanted, relative=1e-5)
    checks.finish()


main()
