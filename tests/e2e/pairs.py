"""pairs: losses over all pairs of the global batch, as contrastive learning has them. What a row meets are the rows of all replicas: they are gathered,
and the gradients that it leaves for them are summed and scattered.

Values and gradients beside NumPy's, written by hand; trainings beside the interpreter's, on any number of replicas; and the same bits on any number of
devices, short batches and replicas without a row among them.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, program, run

TEMPERATURE = 0.2
DEVICES = {1: ("cpu:1", "cpu:1x2"), 2: ("cpu:1", "cpu:2", "cpu:1x3"), 3: ("cpu:1", "cpu:2", "cpu:3x1"), 4: ("cpu:1", "cpu:2", "cpu:3x2")}
checks = Checks()


def views(n, width):
    random = np.random.default_rng(n)
    one = random.normal(size=(n, width))
    return one.astype(np.float32), (one + 0.5 * random.normal(size=(n, width))).astype(np.float32)


# ---- by hand, in float64: each function gives its value for each row, and the gradients of their sum ----


def cross_entropy(logits):
    """For each row: log of the sum of exponentials, and the softmax that is its gradient."""
    most = logits.max(1, keepdims=True)
    powers = np.exp(logits - most)
    return np.log(powers.sum(1)) + most[:, 0], powers / powers.sum(1, keepdims=True)


def infonce(p, q):
    value, share = cross_entropy(p @ q.T / TEMPERATURE)
    share -= np.eye(len(p))
    return value - (p * q).sum(1) / TEMPERATURE, share @ q / TEMPERATURE, share.T @ p / TEMPERATURE


def symmetric(p, q):
    rows, rows_p, rows_q = infonce(p, q)
    columns, columns_q, columns_p = infonce(q, p)
    return (rows + columns) / 2, (rows_p + columns_p) / 2, (rows_q + columns_q) / 2


def margin(p, q):
    apart = p[:, np.newaxis] - q[np.newaxis]
    near = p - q
    inner = 0.5 + (near**2).sum(1)[:, np.newaxis] - (apart**2).sum(2)
    holds = (inner >= 0).astype(float)
    far = 2 * holds[:, :, np.newaxis] * apart
    close = 2 * holds.sum(1)[:, np.newaxis] * near
    return np.maximum(inner, 0).sum(1), close - far.sum(1), far.sum(0) - close


def greatest(p, q):
    products = p @ q.T
    i, j = np.unravel_index(products.argmax(), products.shape)
    to_p, to_q = np.zeros_like(p), np.zeros_like(q)
    to_p[i], to_q[j] = q[j], p[i]
    return products[i, j], to_p, to_q


def beside_numpy():
    for capacity, n in ((8, 8), (16, 61), (40, 160), (33, 100)):
        artifact = compile(program("pairs.dt"), batch=capacity)
        p, q = views(n, 5)
        wide = p.astype(np.float64), q.astype(np.float64)
        for v in (1, 2, 3, 4):
            if capacity * v < n:
                continue
            found = execute(artifact, "gradients", {"input/p": p, "input/q": q}, rows=n, replicas=v)
            for loss in (infonce, symmetric, margin, greatest):
                name = loss.__name__
                for suffix, expected in zip(("", "_p", "_q"), loss(*wide)):
                    expected = np.atleast_1d(expected)
                    size = np.abs(expected).max()  # rounding is of the terms of a sum, not of what is left of it
                    checks.near(f"{name}{suffix}, {n} rows, V={v}", found[f"result/{name}{suffix}"], expected, relative=2e-5, absolute=4e-6 * size)
            logits = wide[0] @ wide[1].T
            found = execute(artifact, "nearest", {"input/p": p, "input/q": q}, rows=n, replicas=v)
            checks.that((found["result/row"] == logits.argmax(1)).all(), f"the nearest of each row, {n} rows, V={v}")
            checks.that((found["result/column"] == logits.argmax(0)).all(), f"the nearest of each column, {n} rows, V={v}")
            checks.near(f"greatest of a column, {n} rows, V={v}", found["result/total"], logits.max(0), relative=1e-5, absolute=1e-5)
            checks.near(f"sum of a column, {n} rows, V={v}", found["result/sums"], logits.sum(0), relative=1e-5, absolute=1e-4)


def trainings():
    """Several steps, the last one short: beside the interpreter; V = 1 beside others; and the same bits on all devices."""
    rows = 48
    for capacity in (12, 16, 48):
        artifact = compile(program("pairs.dt"), batch=capacity)
        for n in (rows + 5, 2 * rows, rows + 1):
            a, b = views(n, 6)
            given = {"input/a": a, "input/b": b}
            for step in ("train", "train_symmetric", "train_margin"):
                expected = interpret(program("pairs.dt"), step, given, rows=rows, seed=3)
                for v in (1, 2, 3, 4):
                    if -(-rows // v) > capacity:
                        continue
                    bits = None
                    for devices in DEVICES[v]:
                        found = execute(artifact, step, given, rows=rows, seed=3, replicas=v, devices=devices)
                        if bits is None:
                            bits = found
                            for name in expected:
                                checks.near(f"{step}, {n} rows, V={v}: {name}", found[name], expected[name], relative=5e-4, absolute=2e-5)
                        same = all(np.array_equal(found[name].view(np.uint8), bits[name].view(np.uint8)) for name in bits)
                        checks.that(same, f"{step}, {n} rows, V={v}: {devices} gives other bits than {DEVICES[v][0]}")


def memory_grows_with_the_replicas():
    """Asked before anything is allocated: 2 ** 25 rows on each of 2 ** 13 replicas are more than any machine has."""
    artifact = compile(program("pairs.dt"), batch=4096)
    a, b = views(8, 6)
    try:
        execute(artifact, "train", {"input/a": a, "input/b": b}, rows=2**25, replicas=2**13)
        sentence = "nothing"
    except RuntimeError as error:
        sentence = str(error)
    checks.that("the plan needs" in sentence and "use fewer replicas" in sentence, f"2 ** 13 replicas of 4,096 rows: {sentence}")


if __name__ == "__main__":
    checks.fails("gradients are slopes, replicas are one batch", lambda: run(["dtc", "check", program("pairs.dt")]))
    beside_numpy()
    trainings()
    memory_grows_with_the_replicas()
    checks.finish()
