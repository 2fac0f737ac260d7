"""Every optimizer of the library: the same bits on any number of devices, with one, two or three replicas, and after a run that was resumed; each of them
brings its loss down."""
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts  # noqa: E402
from training import FOLDER, Run, check, compile_program, finish  # noqa: E402

TEXT = (pathlib.Path(os.environ["DT_SOURCE"]) / "tests/programs/every_optimizer.dt").read_text()
case = layouts.Case("optimizers", TEXT, 24)


def train(replicas, devices, *all_flags):
    """What runs one after another leave in one folder; the last one goes to the end of the second epoch."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    for i, flags in enumerate(all_flags or [()]):
        resume = ["--resume"] if i > 0 else []
        Run("train", case.artifact, *case.flags(replicas), "--devices", f"cpu:{devices}", "--epochs", 2, "--seed", 3, "--checkpoint-dir", folder, *resume, *flags)
    return layouts.left_by(folder)


for replicas, all_devices in ((1, ("1x2",)), (2, ("1x2", "2")), (3, ("3",))):
    wanted = train(replicas, "1x1")
    for devices in all_devices:
        check(train(replicas, devices) == wanted, f"{replicas} replicas: cpu:{devices} gives other bits than cpu:1x1")
    check(train(replicas, "1x1", ("--max-steps", 3), ()) == wanted, f"{replicas} replicas: a run that was resumed in mid-epoch gives other bits")

epochs = Run("train", case.artifact, *case.flags(1), "--epochs", 20, "--seed", 3).all("epoch", step="evaluate")
names = re.findall(r"(\w+): mean\(", TEXT[TEXT.index("step evaluate"):])
check(len(names) == 15, f"these are evaluated: {names}")
for name in names:
    first, last = epochs[0][name], epochs[-1][name]
    check(last < 0.9 * first, f"{name}: the error is {first} after an epoch, and {last} after 20")

# ---- a matrix of which rows and columns have no gradient ----
UNUSED = """
use nn, optimizers
data rows = npy("a.npy", "b.npy") | batch(24)
model Net(a: f32[B, 6]) -> f32[B] { return embedding(i32(clip(a[:, 0], 0.0, 1.0)), 20, 4)[:, 0] }
step train(a: f32[B, 6], b: f32[B, 6]) from rows {
    loss = square(Net(a) - b[:, 0])
    minimize(loss, adafactor())
    report loss: mean(loss)
}
"""
Run("train", compile_program(UNUSED, "unused", "--batch", "24"), "--data", layouts.DATA, "--epochs", 2)  # a loss that is not a number is an error
finish()
