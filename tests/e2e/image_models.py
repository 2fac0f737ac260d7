"""image_models: examples/vit.dt and examples/infonce.dt train as PyTorch does from the same weights on the same batches, without dropout; on several
replicas too, with the same bits on any devices."""

import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, execute, run, scratch

GOLDEN = os.path.join(SOURCE, "tests", "golden")
sys.path.insert(0, GOLDEN)
import glorot
import image_models

BOUNDS = {1: 1e-6, 10: 1e-4}
checks = Checks()
with open(os.path.join(GOLDEN, "image_models_curve.json")) as file:
    curves = json.load(file)["curves"]

for model, golden in curves.items():
    weights = image_models.weights(model)
    checks.that(glorot.digest(weights) == golden["weights_sha256"], f"{model}: these are not the weights of the golden curve")
    artifact = scratch(".dtx")
    defines = [f"--define={name}={value}" for name, value in golden["options"].items()]
    run(["dtc", "compile", os.path.join(SOURCE, "examples", f"{golden['program']}.dt"), "-o", artifact, f"--batch={image_models.BATCH}", *defines])
    given = {f"input/{name}": array for name, array in image_models.inputs(model).items()} | {f"variable/{path}": array for path, array in weights.items()}
    for replicas in (1, 4):
        found = [execute(artifact, "train", given, rows=image_models.BATCH, replicas=replicas, devices=devices) for devices in ("cpu:1", "cpu:2")[:replicas]]
        checks.curve(f"{model}, {replicas} replicas", found[0]["report/loss"], np.array(golden["loss_f64"]), BOUNDS)
        for key, value in found[-1].items():
            checks.that(np.array_equal(value, found[0][key]), f"{model}: {key} has other bits on two devices")
checks.finish()
