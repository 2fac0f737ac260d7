"""norms: norms over whole parameters are NumPy's, and have the same bits on any number of devices and cores."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, program

ROWS = 8
NAMES = ("odd", "even", "small")
checks = Checks()
random = np.random.default_rng(1)
start = {"odd": random.normal(size=(5, 3277)), "even": random.normal(size=(64, 128)), "small": random.normal(size=33)}
start = {name: value.astype(np.float32) for name, value in start.items()}
x = random.normal(size=(ROWS, 5)).astype(np.float32)
given = {"input/x": x, **{f"variable/Sums/{name}": value for name, value in start.items()}}
w, rows = {name: value.astype(np.float64) for name, value in start.items()}, x.astype(np.float64)
gradients = {"odd": 2 * rows.T @ (rows @ w["odd"]) / ROWS, "even": 3 * w["even"] ** 2 * rows[:, 0].mean(), "small": np.full(33, rows[:, 1].mean())}


def norm(*arrays):
    return np.sqrt(sum(np.square(array).sum() for array in arrays))


def scaled(name):
    m = 0.1 * gradients[name]
    step = m / (np.abs(m) + 1e-3) + 0.01 * w[name]
    return w[name] - 0.01 * norm(w[name]) / (norm(step) + 1e-6) * step


whole = norm(*gradients.values())
expected = {"clipped": {name: w[name] - 0.1 * gradients[name] / whole for name in NAMES}, "scaled": {name: scaled(name) for name in NAMES}}
artifact = compile(program("norms.dt"), batch=ROWS)
for step, variables in expected.items():
    found = [execute(artifact, step, given, rows=ROWS, replicas=4, devices=devices) for devices in ("cpu:1x1", "cpu:1x2", "cpu:1x3", "cpu:3", "cpu:2x2")]
    for name in NAMES:
        checks.near(f"{step}: {name}", found[0][f"variable/Sums/{name}"], variables[name], relative=1e-5, absolute=1e-6)
    for i in range(1, len(found)):
        for key in found[0]:
            checks.that(np.array_equal(found[0][key], found[i][key]), f"{step}: {key} has other bits on other devices ({i})")
    if step == "clipped":
        checks.near("the norm", found[0]["report/norm"], [whole], relative=1e-6)
checks.finish()
