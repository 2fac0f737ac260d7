"""recurrent_twins: examples/lstm.dt and gru.dt follow JAX's curves from the same weights on the same examples in file order, on one replica and on two."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, compile, golden_curve, losses, need_data, write

BOUNDS = {1: 1e-6, 10: 1e-5, 100: 1e-3}
checks = Checks()
need_data()
for name in ("lstm", "gru"):
    with open(os.path.join(SOURCE, "examples", f"{name}.dt")) as file:
        text = file.read()
    checks.that(" | shuffle(60000)" in text, f"{name}: it does not shuffle")
    golden, _, weights = golden_curve(name)
    artifact = compile(write(text.replace(" | shuffle(60000)", "")), batch=golden["batch"])
    for replicas in (1, 2):
        options = ["--init", weights, "--max-steps=100", f"--replicas={replicas}", f"--global-batch={golden['batch']}", f"--devices=cpu:{replicas}"]
        checks.curve(f"{name}, V={replicas}, JAX", losses(artifact, *options), np.array(golden["loss"]), BOUNDS)
checks.finish()
