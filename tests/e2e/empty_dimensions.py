"""empty_dimensions: values without elements, and sums over none, are computed, trained and exchanged as NumPy says."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, program

ROWS = 12
checks = Checks()
artifact = compile(program("empty.dt"), batch=ROWS)
for n, v, devices in ((12, 1, "cpu:1"), (12, 3, "cpu:2"), (5, 4, "cpu:2")):
    random = np.random.default_rng(n)
    x, y = random.normal(size=(2 * ROWS, 6)).astype(np.float32)[: ROWS + n], random.normal(size=(n, 3)).astype(np.float32)
    where = f"{n} rows, V={v} on {devices}"

    found = execute(artifact, "train", {"input/x": x}, rows=ROWS, replicas=v, devices=devices)
    bias = velocity = np.zeros(6)
    for batch in (x[:ROWS], x[ROWS:]):
        velocity = 0.5 * velocity - 0.1 * 2 * (bias - batch).sum(0) / ROWS
        bias = bias + velocity
    checks.near(f"{where}: bias", found["variable/Coder/dense_1/bias"], bias, relative=1e-5, absolute=1e-6)
    checks.near(f"{where}: code", found["result/code"][-n:], np.broadcast_to(bias, (n, 6)), relative=1e-5, absolute=1e-6)
    checks.that(found["variable/Coder/dense/kernel"].shape == (6, 0), f"{where}: the kernel is {found['variable/Coder/dense/kernel'].shape}")

    found = execute(artifact, "products", {"input/x": x[:n], "input/y": y}, rows=ROWS, replicas=v, devices=devices)
    for name, expected in {"rows": np.zeros((1, 0, 3)), "columns": np.zeros((1, 3, 0)), "sum": np.zeros(n), "product": np.ones(n), "y": y}.items():
        checks.near(f"{where}: {name}", found[f"result/{name}"], expected, relative=0)
checks.finish()
