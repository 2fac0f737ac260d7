"""partial_products: what a sum over the batch is multiplied or divided by may be 0 or infinite, and its parts may cancel: any number of replicas, one
without rows too, gives what NumPy makes of the whole sum.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, write

checks = Checks()
X = np.array([[3, 2, 1, 5], [1, 2, 3, 5], [-1, -1, 1, -7], [-1, -2, -3.5, 3]], np.float32)
W = np.array([0, np.inf, 1e38, -np.inf], np.float32)
FORMS = {
    "quotient": ("sum(x, axis: 0) / w", lambda s: s / W),
    "product": ("w * sum(x, axis: 0)", lambda s: W * s),
    "mean": ("mean(x, axis: 0) / w", lambda s: s / 4 / W),
    "large": ("sum(x, axis: 0) * 1e38", lambda s: s * np.float32(1e38)),
    "by_zero": ("sum(x, axis: 0) / 0.0", lambda s: s / 0),
    "half": ("0.5 * sum(x, axis: 0)", lambda s: s / 2),
}


def main():
    given = {"input/x": X, "variable/M/w": W}
    for name, (text, function) in FORMS.items():
        body = f"model M(x: f32[B, 4]) {{\n    param w: f32[4] = zeros()\n    return {text}, w\n}}\n"
        artifact = compile(write(f"{body}step s(x: f32[B, 4]) {{\n    y, w = M(x)\n    return y: y, w: w\n}}\n"), batch=4)
        with np.errstate(all="ignore"):
            wanted = function(X.sum(0))
        for v in (1, 2, 3):
            got = execute(artifact, "s", given, rows=6 if v == 3 else 4, replicas=v)["result/y"].reshape(-1)
            same = np.isclose(got, wanted, rtol=1e-6, atol=0, equal_nan=True)
            checks.that(same.all(), f"{name}, V={v}: {got.tolist()}, NumPy has {wanted.tolist()}")
    checks.finish()


main()
