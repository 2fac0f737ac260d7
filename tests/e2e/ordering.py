"""ordering and einsum: running sums, values in order, sums of products and their gradients, against NumPy; interpreted, compiled and on replicas."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

checks = Checks()

PROGRAM = """
use ordering, optimizers
step run(x: f32[B, 3, 7], i: i8[B, 5]) {
    greatest, places = top_k(x, 4)
    every, order = top_k(i, 5)
    columns, rows = top_k(x, 2, axis: 1)
    return sort: sort(x), argsort: argsort(x), descending: sort(x, descending: true), descending_order: argsort(x, descending: true),
        sort_axis: sort(x, axis: 1), bytes: sort(i, descending: true), cumsum: cumsum(x), cumsum_reverse: cumsum(x, axis: 1, reverse: true),
        cumsum_bytes: cumsum(i), greatest: greatest, places: places, every: every, order: order, columns: columns, rows: rows
}
model Weights() {
    param w: f32[3, 7] = zeros()
    param v: f32[7, 2] = zeros()
    return w, v
}
# Gradients of all of it: what w and v become.
step train(x: f32[B, 3, 7], t: f32[B, 3, 7]) {
    w, v = Weights()
    y = x + w
    greatest, _ = top_k(y, 2)
    ordered = sum(sort(y) * t, axes: [1, 2]) + sum(cumsum(y, reverse: true) * t, axes: [1, 2]) + sum(square(greatest), axes: [1, 2])
    minimize(ordered + sum(einsum("bij,jk,bij->bk", x, v, t), axis: 1) + einsum("bij,ij->b", x, w), sgd(learning_rate: 1.0), normalize: examples)
}
step sums(x: f32[B, 3, 7]) {
    y = f32(iota([3, 7], axis: 1) - 3 * iota([3, 7], axis: 0))
    return pairs: einsum("bij,bkj->bik", x, x), total: einsum("bij->b", x), dots: einsum("...i,...i", x, y), moved: einsum("bij->bji", x),
        three: einsum("bij,bij,bkj->bk", x, x, x), diagonal: einsum("bii->bi", x[:, :, :3]), trace: einsum("bii->b", x[:, :, :3]), outer: einsum("bij,kl->bkjl", x, y),
        spread: einsum("b...j,...j->b...", x, y), scalars: einsum("b,bij->b", x[:, 0, 0], x)
}
"""


def ways(source, step, given, rows):
    yield "interpreted", interpret(source, step, given, rows=rows)
    artifact = compile(source, batch=rows)
    yield "compiled", execute(artifact, step, given, rows=rows)
    one, other = (execute(artifact, step, given, rows=rows, replicas=2, devices=devices) for devices in ("cpu:1", "cpu:2"))
    for key, value in one.items():
        checks.that(np.array_equal(value, other[key], equal_nan=True), f"{step}: {key} has other bits on other devices")
    yield "replicas", one


def order():
    random = np.random.RandomState(0)
    x = random.randint(-3, 4, (4, 3, 7)).astype(np.float32)
    x[0, 0, 3], x[2, 2, 0], x[2, 2, 1] = np.nan, np.inf, -np.inf
    x[1, 1], x[3, 1] = np.nan, -np.inf
    i = random.randint(-128, 128, (4, 5)).astype(np.int8)
    i[1], i[2] = -128, 127
    down = np.argsort(np.where(np.isnan(x), -np.inf, -x), axis=-1, kind="stable")  # NaN first, as it is the greatest
    with np.errstate(invalid="ignore"):
        expected = {
            "sort": np.sort(x), "argsort": np.argsort(x, kind="stable"), "descending": np.sort(x)[..., ::-1], "descending_order": down, "sort_axis": np.sort(x, axis=1),
            "bytes": np.sort(i)[:, ::-1], "cumsum": np.cumsum(x, -1), "cumsum_reverse": np.cumsum(x[:, ::-1], 1)[:, ::-1], "cumsum_bytes": np.cumsum(i.astype(np.int64), 1),
            "greatest": np.sort(x)[..., ::-1][..., :4], "places": down[..., :4], "every": np.sort(i)[:, ::-1], "order": np.argsort(-i.astype(int), kind="stable"),
            "columns": np.sort(x, axis=1)[:, ::-1][:, :2], "rows": np.argsort(np.where(np.isnan(x), -np.inf, -x), axis=1, kind="stable")[:, :2],
        }
    for how, found in ways(write(PROGRAM), "run", {"input/x": x, "input/i": i}, 4):
        for name, value in expected.items():
            checks.that(np.array_equal(found[f"result/{name}"], value, equal_nan=True), f"{how}: {name}")


def gradients():
    random = np.random.RandomState(1)
    x, t = random.permutation(84).reshape(4, 3, 7).astype(np.float32), random.standard_normal((4, 3, 7)).astype(np.float32)
    rank = np.argsort(np.argsort(x))
    of_w = (np.take_along_axis(t, rank, -1) + np.cumsum(t, -1) + 2 * x * (rank >= 5) + x).mean(0)
    of_v = np.repeat((x * t).sum(1).mean(0)[:, None], 2, axis=1)
    zeros = {"variable/Weights/w": np.zeros((3, 7), np.float32), "variable/Weights/v": np.zeros((7, 2), np.float32)}
    for how, found in ways(write(PROGRAM), "train", {"input/x": x, "input/t": t, **zeros}, 4):
        checks.near(f"{how}: gradient of w", found["variable/Weights/w"], -of_w, relative=1e-5, absolute=1e-4)
        checks.near(f"{how}: gradient of v", found["variable/Weights/v"], -of_v, relative=1e-5, absolute=1e-4)


def sums():
    random = np.random.RandomState(2)
    x = random.standard_normal((4, 3, 7)).astype(np.float32)
    y = (np.arange(7) - 3 * np.arange(3)[:, None]).astype(np.float32)
    expected = {
        "pairs": np.einsum("bij,bkj->bik", x, x), "total": np.einsum("bij->b", x), "dots": np.einsum("...i,...i", x, y), "moved": np.einsum("bij->bji", x),
        "three": np.einsum("bij,bij,bkj->bk", x, x, x), "diagonal": np.einsum("bii->bi", x[:, :, :3]), "trace": np.einsum("bii->b", x[:, :, :3]),
        "outer": np.einsum("bij,kl->bkjl", x, y), "spread": np.einsum("b...j,...j->b...", x, y), "scalars": np.einsum("b,bij->b", x[:, 0, 0], x),
    }
    for how, found in ways(write(PROGRAM), "sums", {"input/x": x}, 4):
        for name, value in expected.items():
            checks.near(f"{how}: {name}", found[f"result/{name}"], value, relative=1e-5, absolute=1e-5)


def empty():
    text = "use ordering\nstep run(x: f32[B, 3, 0]) { return sort: sort(x), argsort: argsort(x, axis: 2), cumsum: cumsum(x), twice: repeat(x, 2, axis: -1) }"
    for how, found in ways(write(text), "run", {"input/x": np.zeros((4, 3, 0), np.float32)}, 4):
        for name in ("sort", "argsort", "cumsum", "twice"):
            checks.that(found[f"result/{name}"].shape == (4, 3, 0), f"{how}: {name} of nothing is {found[f'result/{name}'].shape}")


order()
gradients()
sums()
empty()
checks.finish()
