"""curves: training by compiled code follows the curves of JAX, of itself on other numbers of replicas, and of the reference interpreter.

From the same initial weights, on the same examples in file order. How far two correct programs are apart is in tests/golden/README.md.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, examples, execute, golden_curve, interpret, losses, need_data, program

BOUNDS = {1: 1e-6, 10: 2e-5, 100: 1e-2}
checks = Checks()


def against_golden(name, bounds):
    """V = 1, 2, 4 through dtrun at the global batch of the golden curve."""
    curve, _, weights = golden_curve(name)
    artifact = compile(program(f"{name}_plain.dt"), batch=curve["batch"])
    of = {}
    for v in (1, 2, 4):
        of[v] = losses(artifact, "--init", weights, "--max-steps=100", f"--replicas={v}", f"--global-batch={curve['batch']}", f"--devices=cpu:{min(v, 2)}")
        checks.curve(f"{name}, V={v}, JAX", of[v], np.array(curve["loss"]), bounds)
        if v > 1:
            checks.curve(f"{name}, V={v}, V=1", of[v], of[1], bounds)
    checks.that(np.array_equal(of[1], of[2]), f"{name}: 1 and 2 replicas are the same blocks of rows, but not the same bits")
    whole = compile(program(f"{name}_plain.dt"), batch=curve["batch"], optimize="no-blocks")
    found = losses(whole, "--init", weights, "--max-steps=100", f"--global-batch={curve['batch']}")
    checks.curve(f"{name}, one block, V=1", found, of[1], bounds)
    checks.that(not np.array_equal(of[1], found), f"{name}: one block adds up in the order of several: were there several?")


def without_avx512():
    """The instruction set of older machines, 10 steps."""
    curve, _, weights = golden_curve("cnn")
    artifact = compile(program("cnn_plain.dt"), cpu="x86-64-v3")
    found = losses(artifact, "--init", weights, "--max-steps=10", "--replicas=2", "--global-batch=128", "--level=x86-64-v3")
    checks.curve("cnn, x86-64-v3, JAX", found, np.array(curve["loss"]), {1: 1e-6, 10: 2e-5})


def against_interpreter(name, rows, replicas):
    """10 steps of `rows` rows. The CNN at its full batch: curves_full."""
    _, weights, _ = golden_curve(name)
    given = {**weights, **examples(10 * rows)}
    artifact = compile(program(f"{name}_plain.dt"), batch=rows)
    expected = interpret(program(f"{name}_plain.dt"), "train", given, rows=rows)
    for v in replicas:
        found = execute(artifact, "train", given, rows=rows, replicas=v)
        checks.curve(f"{name}, V={v}, interpreter", found["report/loss"], expected["report/loss"], {1: 1e-6, 10: 2e-5})
        checks.near(f"{name}, V={v}, accuracy", found["report/accuracy"], expected["report/accuracy"], relative=1e-12)


if __name__ == "__main__":
    need_data()
    against_golden("perceptron", {1: 1e-6, 10: 2e-6, 100: 1e-5})
    against_golden("cnn", BOUNDS)
    without_avx512()
    against_interpreter("perceptron", 32, (1, 2, 4))
    against_interpreter("cnn", 8, (1, 2, 4))
    checks.finish()
