"""dtrun --timeline on a GPU: the kernels are those of the plan, they lie in their steps, and take a part of them that is neither nothing nor too much."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu import *  # noqa: E402,F403
from timeline import Timeline, check_kernels  # noqa: E402

SMALL = PROGRAM.replace("units: 32", "units: 8").replace("take(1000)", "take(100)")
path, steps = FOLDER / "trace.json", 6 if FAKE else 200
artifact = for_gpu(SMALL if FAKE else PROGRAM, "net")
Run("train", artifact, "--data", write_data(n=200, n_test=40), "--max-steps", steps, "--replicas", 2, "--devices", "cuda:0", "--checkpoint-dir", FOLDER / "ck",
    "--timeline", path, "--timeline-steps", 1000)
trace = Timeline(path)
check_kernels(trace, artifact, 2, 16, 1, on_gpu=True)
whole = {(e["name"], e["args"]["step"]): e for e in trace.of("step", function="train")}
busy = 0
for e in trace.of("kernel", function="train"):
    step = whole["train", e["args"]["step"]]
    check(step["began"] <= e["began"] <= e["ended"] <= step["ended"], (e, step))
    busy += e["ended"] - e["began"]
share = busy / sum(e["ended"] - e["began"] for e in whole.values())
check(0.01 < share <= 1, f"kernels take {share:.3f} of the steps")
print(f"kernels take {100 * share:.0f} % of {len(whole)} steps, as the clocks agree", flush=True)
finish()
