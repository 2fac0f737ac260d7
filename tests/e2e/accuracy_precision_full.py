"""accuracy_precision_full: examples/fashion_cnn.dt learns as much in two epochs with factors in tf32 and in bf16 as it does in f32. Takes minutes."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import DATA, SOURCE, Checks, compile, dtrun, need_data

NOISE = 0.015  # seeds alone are as far apart after two epochs

need_data()
checks = Checks()
reached = {}
for precision in ("f32", "tf32", "bf16"):
    artifact = compile(os.path.join(SOURCE, "examples", "fashion_cnn.dt"), precision=precision)
    events = dtrun("train", artifact, "--data", DATA, "--epochs=2", "--replicas=2", "--devices=cpu:2", "--seed=0", "--log-every=0")
    epochs = [event["accuracy"] for event in events if event["event"] == "epoch" and event["step"] == "evaluate"]
    print(f"{precision}: {epochs}", flush=True)
    checks.that(len(epochs) == 2, f"{precision}: {len(epochs)} epochs")
    reached[precision] = epochs[-1]
for precision in ("tf32", "bf16"):
    apart = abs(reached[precision] - reached["f32"])
    checks.that(apart <= NOISE, f"{precision}: test accuracy {reached[precision]}, in f32 {reached['f32']}")
checks.finish()
