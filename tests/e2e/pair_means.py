"""pair_means: means, counts, objectives and reports over values that have the batch as several of their dimensions are of all pairs.

Beside NumPy, written by hand: whole and short batches, weights of rows and of pairs, any number of replicas and devices.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, dtrun, execute, program, scratch, write

DEVICES = {1: ("cpu:1", "cpu:1x2"), 2: ("cpu:1", "cpu:2"), 3: ("cpu:2", "cpu:3x1")}
checks = Checks()


def means_of(p, q, w, full):
    """What the step `values` of pair_means.dt gives: p, q [n, 4], w [n] of one batch, which is `full` rows long when it is not short."""
    n = len(p)
    pairs = np.einsum("ic,jc->ij", p, q)
    between = np.einsum("ic,jc->icj", p, q)
    both = np.outer(w, w)
    return {
        "mean": pairs.mean(), "axes": pairs.mean(), "count": n * n, "positive": (pairs > 0).mean(), "rows": pairs.mean(1), "columns": pairs.mean(0),
        "of_rows": np.average(pairs, weights=np.repeat(w[:, None], n, 1)), "of_pairs": np.average(pairs, weights=both),
        "row_of_pairs": np.average(pairs, axis=1, weights=both), "between": between.mean(), "of_four": between.mean((0, 2)), "left": between.mean((1, 2)),
        "n_between": 4 * n * n, "whole": pairs.sum() / full**2, "valid": pairs.sum() / n**2,
        "whole_of_rows": (pairs * w[:, None]).sum() / full**2, "valid_of_rows": (pairs * w[:, None]).sum() / n**2,
        "weights_of_rows": (pairs * w[:, None]).sum() / (n * w.sum()), "weights_of_pairs": (pairs * both).sum() / w.sum() ** 2,
        "mean_to_p": np.repeat(q.sum(0)[None], n, 0) / n**2, "mean_to_q": np.repeat(p.sum(0)[None], n, 0) / (4 * n**2), "whole_to_q": 2 * pairs.T @ p / full**2,
    }  # fmt: skip


def means():
    """Of all pairs, by NumPy: whole and short batches, replicas without a row, several devices."""
    for capacity, n, full in ((9, 9, 9), (8, 11, 16), (64, 150, 192)):
        artifact = compile(program("pair_means.dt"), batch=capacity)
        random = np.random.default_rng(n)
        p, q = (random.normal(size=(n, 4)).astype(np.float32) for _ in range(2))
        w = random.uniform(0.2, 1.5, n).astype(np.float32)
        expected = means_of(*(array.astype(np.float64) for array in (p, q, w)), full)
        given = {"input/p": p, "input/q": q, "input/w": w}
        for v in (1, 2, 3):
            if full % v != 0 or full // v > capacity:
                continue
            for devices in DEVICES[v]:
                found = execute(artifact, "values", given, rows=full, replicas=v, devices=devices)
                for name, value in expected.items():
                    size = np.abs(value).max() + np.abs(expected["mean"])
                    checks.near(f"{name}, {n} of {full} rows, V={v}", np.squeeze(found[f"result/{name}"]), value, relative=1e-5, absolute=2e-6 * size)
                for name in [name.split("/")[1] for name in found if name.startswith("report/")]:
                    value = {"rows": expected["mean"], "some": expected["mean"] * n * n}.get(name, expected.get(name))
                    checks.near(f"report {name}, {n} of {full} rows, V={v}", np.squeeze(found[f"report/{name}"]), value, relative=1e-5, absolute=1e-5)


def trained_by_hand(step, x, q, w, kernel, full):
    """The kernel after each step, and the loss of all pairs before it, by gradients written by hand."""
    for first in range(0, len(x), full):
        a, b, c = x[first : first + full], q[first : first + full], w[first : first + full]
        apart = (a @ kernel)[:, None] - b[None]
        weight = np.outer(c, c) if step == "train_weighted" else np.repeat(c[:, None], len(c), 1) if step == "train_valid" else np.ones((len(c), len(c)))
        loss = np.average((apart**2).mean(2), weights=weight)
        if step == "train_valid":
            weight = np.ones((len(c), len(c)))
        divisor = {"train": 4 * full**2, "train_valid": 4 * len(a) ** 2, "train_weighted": 4 * weight.sum()}[step]
        kernel = kernel - 0.5 * a.T @ (2 * (apart * weight[:, :, None]).sum(1)) / divisor
        yield kernel, loss, 4 * len(a) ** 2


def trainings_over_pairs():
    """A loss for each pair, minimized: every divisor, the last batch short."""
    full, capacity, n = 12, 12, 31
    artifact = compile(program("pair_means.dt"), batch=capacity)
    random = np.random.default_rng(4)
    x, q, kernel = (random.normal(size=size).astype(np.float32) for size in ((n, 3), (n, 4), (3, 4)))
    w = random.uniform(0.2, 1.5, n).astype(np.float32)
    for step in ("train", "train_valid", "train_weighted"):
        given = {"input/x": x, "input/q": q, "variable/Net/dense/kernel": kernel, **({} if step == "train" else {"input/w": w})}
        wanted = list(trained_by_hand(step, *(array.astype(np.float64) for array in (x, q, w, kernel)), full))
        for v in (1, 2, 3):
            for devices in DEVICES[v]:
                found = execute(artifact, step, given, rows=full, replicas=v, devices=devices)
                what = f"{step}, V={v}, {devices}"
                checks.near(f"{what}: kernel", found["variable/Net/dense/kernel"], wanted[-1][0], relative=1e-5, absolute=1e-5)
                checks.near(f"{what}: loss", found["report/loss"], np.array([loss for _, loss, _ in wanted]), relative=1e-5)
                if step != "train_weighted":
                    checks.near(f"{what}: pairs", found["report/pairs"], np.array([pairs for _, _, pairs in wanted]), relative=0)


def reports_of_an_epoch():
    """Totals over batches of 8, 8 and 3 rows: each batch pairs its own."""
    n, full = 19, 8
    random = np.random.default_rng(7)
    p, q = (random.normal(size=(n, 4)).astype(np.float32) for _ in range(2))
    w = random.uniform(0.2, 1.5, n).astype(np.float32)
    data = scratch("")
    os.mkdir(data)
    for name, array in (("p", p), ("q", q), ("w", w)):
        np.save(os.path.join(data, f"{name}.npy"), array)
    text = """use metrics, losses
    data rows = npy("p.npy", "q.npy", "w.npy") | batch(8)
    step evaluate(p: f32[B, 4], q: f32[B, 4], w: f32[B]) from rows {
        l = p @ q.T
        report mean: mean(l), count: count(l), of_rows: mean(l, weight: w), between: mean(p[:, :, newaxis] * q.T[newaxis]), rows: count(p),
               alike: binary_accuracy(w[:, newaxis] > w[newaxis], l), error: root_mean_squared_error(l, l * l), loss: mean(mean_squared_error(l, l * l))
    }"""
    artifact = compile(write(text))
    batches = [[array[first : first + full].astype(np.float64) for array in (p, q, w)] for first in range(0, n, full)]
    pairs = [a @ b.T for a, b, _ in batches]
    count = sum(len(a) ** 2 for a, _, _ in batches)
    weights = [np.repeat(c[:, None], len(c), 1) for _, _, c in batches]
    wanted = {
        "mean": sum(l.sum() for l in pairs) / count, "count": count,
        "of_rows": sum((l * c).sum() for l, c in zip(pairs, weights)) / sum(c.sum() for c in weights),
        "between": sum((a.sum(0) * b.sum(0)).sum() for a, b, _ in batches) / (4 * count), "rows": 4 * n,
        "alike": sum(((l > 0.5) == (c[:, None] > c[None])).sum() for l, (_, _, c) in zip(pairs, batches)) / count,
        "error": np.sqrt(sum(((l - l * l) ** 2).sum() for l in pairs) / count), "loss": sum(((l - l * l) ** 2).mean(1).sum() for l in pairs) / n,
    }  # fmt: skip
    for replicas, devices in ((1, "cpu:1"), (2, "cpu:2"), (4, "cpu:3x1")):
        options = ("--data", data, "--replicas", str(replicas), "--global-batch", str(full), "--devices", devices)
        found = [event for event in dtrun("evaluate", artifact, *options) if event["event"] == "epoch"][0]
        for name, value in wanted.items():
            checks.near(f"{name} of an epoch, V={replicas}", found[name], value, relative=1e-6)


if __name__ == "__main__":
    means()
    trainings_over_pairs()
    reports_of_an_epoch()
    checks.finish()
