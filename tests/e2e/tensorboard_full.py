"""What `dtrun train --log-dir` writes, as TensorBoard's own reader sees it: scalars, histograms and pictures of a run that was resumed from an earlier step.

The package is fetched into an environment of its own; skipped where it cannot be."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
a = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0, "images": 0})
a.Reload()
tags = a.Tags()
json.dump({"scalars": {t: [(e.step, e.value) for e in a.Scalars(t)] for t in tags["scalars"]},
           "histograms": {t: [(e.step, e.histogram_value.num) for e in a.Histograms(t)] for t in tags["histograms"]},
           "images": {t: [(e.step, e.width, e.height) for e in a.Images(t)] for t in tags["images"]}}, sys.stdout)
"""
PAINTER = """
fn draw(number: i64) { return normal([4]) }
data noise = range(2) | map(draw) | batch(32)
step sample(z: f32[B, 4]) from noise { return image: sigmoid(z)[:, :, newaxis] }
"""

made = subprocess.run([sys.executable, "-m", "venv", FOLDER / "v"], capture_output=True, text=True)
if made.returncode == 0:
    made = subprocess.run([FOLDER / "v/bin/pip", "install", "--quiet", "--disable-pip-version-check", "tensorboard==2.21.0", "setuptools<81"],
                          capture_output=True, text=True)
if made.returncode != 0:
    print("skipped: " + (made.stderr.strip().splitlines() or ["no environment"])[-1])
    sys.exit(77)

data, program, logs = write_data(), compile_program(PROGRAM + PAINTER), FOLDER / "logs"
FLAGS = ("--data", data, "--log-every", 1, "--log-dir", logs, "--log-histograms", 1, "--checkpoint-dir", FOLDER / "ck")
first = Run("train", program, *FLAGS, "--epochs", 2)
shutil.rmtree(newest(FOLDER / "ck"))  # as if the run had been killed in its second epoch
second = Run("train", program, *FLAGS, "--epochs", 3, "--resume")
resumed = second.one("start")["first_step"]
check(0 < resumed < first.one("end")["steps"], second.events)
read = subprocess.run([FOLDER / "v/bin/python", "-c", READER, logs], capture_output=True, text=True)
check(read.returncode == 0, read.stderr)
seen = json.loads(read.stdout)

kept = [e for e in first.events if e.get("number", 0) <= resumed] + second.events
for tag, wanted in (
    ("loss/train_step", [(e["number"], e["loss"]) for e in kept if e["event"] == "step"]),
    ("accuracy/train", [(e["number"], e["accuracy"]) for e in kept if e["event"] == "epoch" and e["step"] == "train"]),
    ("loss/evaluate", [(e["number"], e["loss"]) for e in kept if e["event"] == "epoch" and e["step"] == "evaluate"]),
):
    found = seen["scalars"][tag]
    check([step for step, _ in found] == [step for step, _ in wanted], (tag, found, wanted))
    check(all(abs(a - b) < 1e-6 for (_, a), (_, b) in zip(found, wanted)), (tag, found, wanted))
ends = [e["number"] for e in kept if e["event"] == "epoch" and e["step"] == "evaluate"]
check(seen["histograms"]["weights/Net/dense/kernel"] == [[step, 144 * 32] for step in ends], seen["histograms"])
check(seen["images"] == {f"sample/image/{i}": [[step, 1, 4] for step in ends] for i in range(2)}, seen["images"])
check({"examples_per_second/train", "examples_per_second/train_step", "data_wait/train"} <= set(seen["scalars"]), seen["scalars"].keys())

finish()
