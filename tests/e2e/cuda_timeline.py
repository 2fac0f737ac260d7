"""dtrun --timeline on a GPU, which is the fake driver: what the host hands over and waits for, and on a track of its own what the GPU does, step by step:
the kernels of the plan, each within its step. The training is the same."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403
from timeline import Timeline, check_kernels  # noqa: E402

path = FOLDER / "trace.json"
artifact = Artifact(PROGRAM, "net")
flags = ["--data", write_data(), "--replicas", 2, "--max-steps", 18]
artifact.run("train", *flags, "--checkpoint-dir", FOLDER / "plain")
artifact.run("train", *flags, "--checkpoint-dir", FOLDER / "ck", "--timeline", path, check="")
check(bits(FOLDER / "ck") == bits(FOLDER / "plain"), "the bits differ")
trace = Timeline(path)
check(trace.steps() == {"train": 18, "evaluate": 4}, trace.steps())
check_kernels(trace, artifact.path, 2, 16, 1, on_gpu=True)
check({trace.threads[e["pid"], e["tid"]] for e in trace.of("kernel") + trace.of("copy")} == {"cuda:0"}, trace.threads)
whole = {(e["name"], e["args"]["step"]): e for e in trace.of("step")}
for e in trace.of("kernel", function="train"):
    step = whole["train", e["args"]["step"]]
    check(step["began"] <= e["began"] <= e["ended"] <= step["ended"], (e, step))
check(len({e["args"]["segment"] for e in trace.of("kernel", function="train")}) > 1, "all kernels are of one segment")
for function, n in trace.steps().items():
    waits = [e for e in trace.of("wait", function=function) if e["name"] == "wait for the device"]
    check(len(waits) == n, f"{function}: {len(waits)} waits for the device in {n} steps")
    check({e["args"]["step"] for e in trace.of("enqueue", function=function)} == set(range(1, n + 1)), trace.of("enqueue", function=function))
for e in trace.of("step", function="train"):  # the next batch is waited for while a step runs
    within = [w for w in trace.of("wait") if w["name"] == "wait for data (train_set)" and e["began"] <= w["began"] <= w["ended"] <= e["ended"]]
    check(len(within) == 1, (e, within))

artifact.run("evaluate", *flags[:4], "--checkpoint-dir", FOLDER / "ck", "--timeline", path, check="1", seed=1)  # one operation after the other
check_kernels(Timeline(path), artifact.path, 2, 16, 1, on_gpu=True)

for call in ("cuEventCreate:40", "cuEventRecordWithFlags:3", "cuEventElapsedTime:5"):
    run = artifact.run("evaluate", *flags[:4], "--checkpoint-dir", FOLDER / "ck", "--timeline", path, check="", fail=f"{call}=999", expect=1)
    said = [line for line in run.error.splitlines() if line.startswith("dtrun: error: ")]
    check(len(said) == 1 and call.split(":")[0] in said[0] and "CUDA_ERROR_UNKNOWN" in said[0], f"{call} fails: {run.error}")
finish()
