"""dtrun train --log-dir on a GPU, which is the fake driver: two steps of an epoch are measured kernel by kernel, and the training is the same."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403

artifact = Artifact(PROGRAM, "net")
flags = ["--data", write_data(), "--replicas", 2, "--max-steps", 18, "--log-histograms", 1]
artifact.run("train", *flags[:-2], "--checkpoint-dir", FOLDER / "plain")
artifact.run("train", *flags, "--checkpoint-dir", FOLDER / "ck", "--log-dir", FOLDER / "logs", check="")
check(bits(FOLDER / "ck") == bits(FOLDER / "plain"), "the bits differ")
events = [json.loads(line) for line in (FOLDER / "logs/run.jsonl").read_text().splitlines()]
[plan], times = [e for e in events if e["event"] == "plan"], [e for e in events if e["event"] == "times"]
check(len(times) == 1 and times[0]["steps"] == 2, times)  # the second epoch ends after its second step
check(len(times[0]["kernels"]) == len(plan["kernels"]) and 0 < sum(times[0]["kernels"]) <= times[0]["seconds"], times)
check({"Net/dense", "optimizer"} <= {name for k in plan["kernels"] for name in k["layers"].removesuffix(" (gradients)").split(", ")}, plan["kernels"])

finish()
