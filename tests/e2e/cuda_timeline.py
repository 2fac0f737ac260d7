"""dtrun --timeline on a GPU, which is the fake driver: what the host hands over and waits for, step by step; the GPU's own work is not in it."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403
from timeline import Timeline  # noqa: E402

path = FOLDER / "trace.json"
artifact = Artifact(PROGRAM, "net")
artifact.run("train", "--data", write_data(), "--replicas", 2, "--max-steps", 18, "--checkpoint-dir", FOLDER / "ck", "--timeline", path)
trace = Timeline(path)
check(trace.steps() == {"train": 18, "evaluate": 4}, trace.steps())
check(not trace.of("kernel"), trace.of("kernel")[:1])
for function, n in trace.steps().items():
    waits = [e for e in trace.of("wait", function=function) if e["name"] == "wait for the device"]
    check(len(waits) == n, f"{function}: {len(waits)} waits for the device in {n} steps")
    check({e["args"]["step"] for e in trace.of("enqueue", function=function)} == set(range(1, n + 1)), trace.of("enqueue", function=function))
for e in trace.of("step", function="train"):  # the next batch is waited for while a step runs
    within = [w for w in trace.of("wait") if w["name"] == "wait for data (train_set)" and e["began"] <= w["began"] <= w["ended"] <= e["ended"]]
    check(len(within) == 1, (e, within))
finish()
