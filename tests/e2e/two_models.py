"""two_models: examples/gan.dt, two models with two losses and two optimizers in one step, trains alike in the interpreter and in compiled code.

Every variable of both is compared after three steps: that an optimizer moves its own model alone, and at the right values, shows in them. 6 rows and then
3, on 1 to 3 replicas: batch statistics cross replicas in the middle of the step, where a replica may have no row.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, compile, execute, interpret

ROWS = 6
checks = Checks()
source = os.path.join(SOURCE, "examples", "gan.dt")
artifact = compile(source, batch=ROWS)
given = {"input/image": np.random.default_rng(5).integers(0, 256, (2 * ROWS + 3, 28, 28)).astype(np.uint8)}

# Both begin with the interpreter's initial values: those of compiled code may differ in the last bit.
start = interpret(source, "sample", {"input/z": np.zeros((1, 64), np.float32)}, seed=1)
start = {name: array for name, array in start.items() if name.startswith("variable/")}
given.update(start)

expected = interpret(source, "train", given, rows=ROWS, seed=1)
for replicas in (1, 2, 3):
    found = execute(artifact, "train", given, rows=ROWS, seed=1, replicas=replicas)
    for name in expected:
        checks.near(f"V={replicas}, {name}", found[name], expected[name], relative=1e-4, absolute=2e-5)
for name in start:
    if name.startswith(("variable/Generator/", "variable/Discriminator/")):
        checks.that(not np.array_equal(start[name], expected[name]), f"{name} has not moved")
checks.finish()
