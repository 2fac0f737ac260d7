"""integer_sums: sums, products and means of small integers are as wide as NumPy's, over the rows of a batch too: none wraps around.

The interpreter and compiled code, on one and two replicas, against NumPy.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

checks = Checks()
REDUCTIONS = {"sum": np.sum, "product": np.prod, "mean": np.mean, "max": np.max}
INPUTS = {
    "image": np.random.default_rng(1).integers(130, 256, (5, 3, 2)).astype(np.uint8),
    "small": np.random.default_rng(2).integers(100, 128, (5, 4)).astype(np.int8),
    "large": np.random.default_rng(3).integers(2**31 - 4, 2**31, (5, 2)).astype(np.int32),
    "apart": np.array([[2**30 + 1, -(2**30)]] * 5, np.int32),
}


def type_of(x):
    return f"{'u' if x.dtype.kind == 'u' else 'i'}{8 * x.itemsize}[{', '.join(['B', *map(str, x.shape[1:])])}]"


def main():
    heads = ", ".join(f"{name}: {type_of(x)}" for name, x in INPUTS.items())
    results = [f"{name}_{r}: {r}({name}, axes: [{', '.join(map(str, range(1, x.ndim)))}])" for name, x in INPUTS.items() for r in REDUCTIONS]
    totals = [f"{name}_{r}_all: {r}({name})" for name in INPUTS for r in ("sum", "mean", "max")]
    reports = [f"{name}_{r}: {r}({name})" for name in INPUTS for r in ("sum", "mean", "max")]
    source = write(f"step s({heads}) {{\n    report {', '.join(reports)}\n    return {', '.join(results + totals)}\n}}\n")
    artifact = compile(source, batch=5)
    given = {f"input/{name}": x for name, x in INPUTS.items()}
    runs = {"interpreter": interpret(source, "s", given)}
    for v in (1, 2):
        runs[f"V={v}"] = execute(artifact, "s", given, replicas=v)
    for how, found in runs.items():
        for name, x in INPUTS.items():
            for r, reduction in REDUCTIONS.items():
                wanted = {f"result/{name}_{r}": reduction(x, axis=tuple(range(1, x.ndim)))}
                if r != "product":
                    wanted[f"result/{name}_{r}_all"] = wanted[f"report/{name}_{r}"] = np.asarray(reduction(x))
                for key, value in wanted.items():
                    got = found[key].reshape(value.shape)
                    if r == "mean":
                        checks.near(f"{key}, {how}", got, value, relative=1e-7)
                    else:
                        checks.that((got == value).all(), f"{key}, {how}: {got.tolist()}, NumPy has {value.tolist()}")
    checks.finish()


main()
