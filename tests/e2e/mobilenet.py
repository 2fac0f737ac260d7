"""mobilenet: training of the network of examples/mobilenet.dt by compiled code follows the curve of JAX, on one and on two replicas."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, golden_curve, losses, need_data, program

need_data()
checks = Checks()
curve, _, weights = golden_curve("mobilenet")
artifact = compile(program("mobilenet_plain.dt"), batch=curve["batch"])
for replicas in (1, 2):
    found = losses(artifact, "--init", weights, "--max-steps=10", f"--replicas={replicas}", f"--global-batch={curve['batch']}", f"--devices=cpu:{replicas}")
    checks.curve(f"mobilenet, {replicas} replicas, JAX", found, curve["loss"], {1: 1e-6, 10: 1e-4})
checks.finish()
