"""curves: training by compiled code follows the curves of JAX, of itself on other numbers of replicas, and of the reference interpreter.

From the same initial weights, on the same examples in file order; the perceptron and the CNN also with rounded factors. How far two correct programs are apart is in tests/golden/README.md.
"""

import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, compile, examples, execute, golden_curve, interpret, losses, need_data, program, write

BOUNDS = {1: 1e-6, 10: 2e-5, 100: 1e-2}
ROUNDED = {1: 1e-6, 10: 1e-3}  # a factor that falls to the other side of a tie is off by as much as its precision
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
    checks.that(np.array_equal(of[1], of[2]), f"{name}: 1 and 2 replicas are the same microbatches, but not the same bits")
    whole = compile(program(f"{name}_plain.dt"), batch=curve["batch"], optimize="no-microbatches")
    found = losses(whole, "--init", weights, "--max-steps=100", f"--global-batch={curve['batch']}")
    checks.curve(f"{name}, one block, V=1", found, of[1], bounds)
    checks.that(not np.array_equal(of[1], found), f"{name}: one block adds up in the order of several: were there several?")


def without_avx512():
    """The instruction set of older machines, 10 steps."""
    curve, _, weights = golden_curve("cnn")
    artifact = compile(program("cnn_plain.dt"), cpu="x86-64-v3")
    found = losses(artifact, "--init", weights, "--max-steps=10", "--replicas=2", "--global-batch=128", "--level=x86-64-v3")
    checks.curve("cnn, x86-64-v3, JAX", found, np.array(curve["loss"]), {1: 1e-6, 10: 2e-5})


def with_precision(precision, apart):
    """The perceptron with rounded factors: JAX's curve with the same rounding, not that without; and in the long run the same training."""
    curve, _, weights = golden_curve("perceptron")
    with open(os.path.join(SOURCE, "tests", "golden", f"perceptron_{precision}_curve.json")) as file:
        rounded = np.array(json.load(file)["loss"])
    artifact = compile(program("perceptron_plain.dt"), batch=32, precision=precision, cpu="x86-64-v3,native")
    options = ["--init", weights, "--max-steps=100", "--global-batch=32"]
    found = losses(artifact, *options)
    checks.curve(f"perceptron, {precision}, JAX", found, rounded, ROUNDED)
    checks.curve(f"perceptron, {precision}, x86-64-v3, JAX", losses(artifact, *options, "--level=x86-64-v3"), rounded, ROUNDED)
    checks.that(np.array_equal(found, losses(artifact, *options, "--replicas=2", "--devices=cpu:2")), f"{precision}: other bits on 2 replicas")
    plain = np.array(curve["loss"])
    checks.that(np.max(np.abs(found[:10] / plain[:10] - 1)) > apart, f"{precision}: the curve is that of f32: is anything rounded?")
    late = np.mean(found[50:]) / np.mean(plain[50:]) - 1
    print(f"perceptron, {precision}: losses of steps 51 to 100 are on average {late:+.1%} from those of f32, 5% allowed")
    checks.that(abs(late) < 0.05, f"{precision}: losses are {late:+.1%} from those of f32")


def against_interpreter(name, rows, replicas, precision="f32", bounds={1: 1e-6, 10: 2e-5}):
    """10 steps of `rows` rows. The CNN at its full batch: curves_full."""
    _, weights, _ = golden_curve(name)
    given = {**weights, **examples(10 * rows)}
    with open(program(f"{name}_plain.dt")) as file:
        source = write(f"option precision: {precision}\n{file.read()}")
    artifact = compile(source, batch=rows)
    expected = interpret(source, "train", given, rows=rows)
    for v in replicas:
        found = execute(artifact, "train", given, rows=rows, replicas=v)
        checks.curve(f"{name}, {precision}, V={v}, interpreter", found["report/loss"], expected["report/loss"], bounds)
        if precision != "f32":
            continue
        checks.near(f"{name}, V={v}, accuracy", found["report/accuracy"], expected["report/accuracy"], relative=1e-12)


if __name__ == "__main__":
    need_data()
    against_golden("perceptron", {1: 1e-6, 10: 2e-6, 100: 1e-5})
    against_golden("cnn", BOUNDS)
    without_avx512()
    against_interpreter("perceptron", 32, (1, 2, 4))
    against_interpreter("cnn", 8, (1, 2, 4))
    for precision, apart in (("tf32", 1e-4), ("bf16", 1e-3)):
        with_precision(precision, apart)
        against_interpreter("perceptron", 32, (1, 2), precision, ROUNDED)
        against_interpreter("cnn", 8, (1,), precision, ROUNDED)
    checks.finish()
