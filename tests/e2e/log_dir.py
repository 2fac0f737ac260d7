"""dtrun train --log-dir: events and details of a run in run.jsonl, an event file a run, pictures of a step that makes some; the training is the same.
TensorBoard's own reader reads the event files in tensorboard_full.py; their bytes are compared in tests/unit/event_file.c."""
import base64
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

PAINTER = """
fn draw(number: i64) { return normal([4]) }
data noise = range(20) | map(draw) | batch(32)
step sample(z: f32[B, 4]) from noise { return image: sigmoid(z)[:, :, newaxis], number: z[:, 0] }
"""
data, program = write_data(), compile_program(PROGRAM.replace("data train_set", "launch rate = 1e-3\ndata train_set").replace("learning_rate: 1e-3", "learning_rate: rate") + PAINTER)
FLAGS = ("--data", data, "--replicas", 2, "--devices", "cpu:2x1", "--log-every", 5)
logs = FOLDER / "logs"


def lines(folder=logs):
    return [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]


def of(kind):
    return [e for e in lines() if e["event"] == kind]


plain = Run("train", program, *FLAGS, "--epochs", 2, "--checkpoint-dir", FOLDER / "plain")
run = Run("train", program, *FLAGS, "--epochs", 1, "--checkpoint-dir", FOLDER / "ck", "--log-dir", logs, "--log-histograms", 1)
check([{k: v for k, v in e.items() if k != "time"} for e in lines() if e["event"] not in ("plan", "launch", "times", "picture")] == run.events,
      "run.jsonl has not the events of the run")
check(len(list(logs.glob("events.out.tfevents.*"))) == 1, list(logs.iterdir()))

# what is to run, and where its time went
[plan], [times] = of("plan"), of("times")
check(plan["source"] == (FOLDER / "net.dt").read_text() and plan["compiler"].startswith("dtc "), plan)
check(sum(part["bytes"] for part in plan["memory"]) == run.one("start")["memory_bytes"], plan["memory"])
layers = {name for kernel in plan["kernels"] for name in kernel["layers"].removesuffix(" (gradients)").split(", ")}
check({"Net/dense", "Net/dense_1", "Net/batch_norm", "optimizer"} <= layers, layers)
check(len(times["kernels"]) == len(plan["kernels"]) and times["steps"] == times["number"] == 16, times)
check(0 < sum(times["kernels"]) + times["exchanging"] <= times["seconds"], times)

check([(e["number"], round(e["rate"], 9)) for e in of("launch")] == [(0, 1e-3), (16, 1e-3)], of("launch"))

# pictures: the same as predict's
pictures = of("picture")
check([p["name"] for p in pictures] == [f"sample/image/{i}" for i in range(16)] and {p["number"] for p in pictures} == {16}, pictures)
Run("predict", program, "--data", data, "--step", "sample", "--png", FOLDER / "png", "--checkpoint-dir", FOLDER / "ck", "--replicas", 2)
for i, picture in enumerate(pictures):
    check((picture["width"], picture["height"]) == (1, 4), picture)
    check(base64.b64decode(picture["png"]) == (FOLDER / f"png/image-{i:02}.png").read_bytes(), f"picture {i}")

# it goes on in the same folder
Run("train", program, *FLAGS, "--epochs", 2, "--checkpoint-dir", FOLDER / "ck", "--log-dir", logs, "--resume")
check(bits(FOLDER / "ck") == bits(FOLDER / "plain"), "the bits differ")
check([e["first_step"] for e in of("start")] == [0, 16] and len(list(logs.glob("events.out.tfevents.*"))) == 2, of("start"))
for step in ("train", "evaluate"):
    wanted = [(e["number"], e["loss"]) for e in plain.all("epoch", step=step)]
    check([(e["number"], e["loss"]) for e in of("epoch") if e["step"] == step] == wanted, (of("epoch"), wanted))

# what is refused, before anything is trained
for flags, wanted in ((("--log-dir", logs), f"{logs}/run.jsonl: there is a run already: name another folder"),
                      (("--log-dir", program), f"--log-dir: {program}: cannot create the folder: Not a directory"),
                      (("--log-dir", "/proc/logs"), "--log-dir: /proc/logs: cannot")):
    run = Run("train", program, *FLAGS, *flags, expect=1)
    check(wanted in run.error and run.events == [], run.error)
run = subprocess.run(["dtrun", "train", program, "--log-histograms", "1"], capture_output=True, text=True)
check(run.returncode == 2 and "--log-histograms needs --log-dir" in run.stderr, run.stderr)

finish()
