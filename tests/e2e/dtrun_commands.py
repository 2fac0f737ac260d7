"""dtrun from the outside: events and their fields, flags, checkpoints that other tools open, predictions that NumPy opens."""
import math
import os
import pty
import pwd
import signal
import subprocess
import sys

import numpy
import safetensors.numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

data, program = write_data(), compile_program()
ck = FOLDER / "ck"

# ---- events ----
run = Run("train", program, "--data", data, "--epochs", 3, "--replicas", 2, "--devices", "cpu:2", "--checkpoint-dir", ck, "--log-every", 8, "--keep", 2,
          "--keep-best", "evaluate.accuracy")
events = [e["event"] for e in run.events]  # a checkpoint is said when it is whole: the next step may be before it
check([e for e in events if e != "checkpoint"] == ["start", *(["step", "step", "epoch", "epoch"] * 3), "end"], events)
wholes = [i for i, e in enumerate(events) if e == "checkpoint"]
check(len(wholes) == 3 and all(events[:at].count("epoch") >= 2 * (i + 1) for i, at in enumerate(wholes)), events)
start = run.one("start")
check(start["parameters"] == 144 * 32 + 32 + 2 * 32 + 320 + 10 and start["replicas"] == 2 and start["devices"] == ["cpu:0", "cpu:1"], start)
check(start["global_batch"] == 64 and start["steps_per_epoch"] == 16 and start["memory_bytes"] > 0 and start["seed"] == 0, start)
epochs = run.all("epoch", step="train")
check([(e["epoch"], e["steps"], e["examples"], e["complete"]) for e in epochs] == [(i, 16, 1000, True) for i in (1, 2, 3)], epochs)
check([(e["epoch"], e["steps"], e["examples"]) for e in run.all("epoch", step="evaluate")] == [(i, 4, 200) for i in (1, 2, 3)], run.events)
for e in run.all("epoch"):
    check(e["seconds"] > 0 and e["examples_per_second"] > 0 and 0 <= e["data_wait"] < 1 and e["loss"] > 0 and 0 <= e["accuracy"] <= 1, e)
    check(0 < e["seconds_per_step"] < e["seconds"], e)
check([e["number"] for e in run.all("step")] == [8, 16, 24, 32, 40, 48] and all(e["loss"] > 0 for e in run.all("step")), run.all("step"))
check(epochs[2]["loss"] < epochs[0]["loss"] and run.all("epoch", step="evaluate")[2]["accuracy"] > 0.5, "it does not learn")
check([(e["path"], e["number"]) for e in run.all("checkpoint")] == [(f"{ck}/step-{n}", n) for n in (16, 32, 48)], run.all("checkpoint"))
check(run.one("end")["steps"] == 48 and run.one("end")["reason"] == "epochs", run.one("end"))

# epochs of one step and of two; the first one ends when a large file is read to its end, so that it waits longer than all others
large = write_data(FOLDER / "large")
for name, shape in (("images", (1000000, SIDE, SIDE)), ("labels", (1000000,))):
    (large / f"{name}.gz").write_bytes(gzip.compress(idx(bytes(math.prod(shape)), *shape), 1))
for n in (20, 50):
    short = compile_program(PROGRAM.replace("take(1000)", f"take({n})"), "short")
    found = Run("train", short, "--data", large, "--epochs", 10).all("epoch", step="train")
    waited = [e["data_wait"] * e["seconds"] for e in found]
    check(all(0 <= e["data_wait"] <= 1 and (e["seconds_per_step"] > 0) == (n > 32) for e in found) and waited[0] == max(waited), found)

# ---- the same without checkpoints, again, and with the loss of each step ----
again = Run("train", program, "--data", data, "--epochs", 3, "--replicas", 2, "--log-every", 1)
check([e["loss"] for e in again.all("epoch")] == [e["loss"] for e in run.all("epoch")], "the same run, other losses")
check(len(again.all("step")) == 48, "--log-every 1")
copy = sum(path.stat().st_size for path in newest(ck).glob("*.safetensors"))  # with its headers; memory is taken in whole lines of 64 bytes
without = Run("train", program, "--data", data, "--max-steps", 1, "--replicas", 2, "--devices", "cpu:2")
more = start["memory_bytes"] - without.one("start")["memory_bytes"]
check(abs(more - copy) < 2048 < more, f"the copy that checkpoints are written from: {more} bytes, the checkpoint has {copy}")

# ---- max-steps, resumed and not ----
part = FOLDER / "part"
first = Run("train", program, "--data", data, "--max-steps", 20, "--epochs", 3, "--replicas", 2, "--checkpoint-dir", part)
check([e["event"] for e in first.events][-2:] == ["checkpoint", "end"] and first.one("end")["reason"] == "max_steps", first.events)
check((first.all("epoch")[-1]["steps"], first.all("epoch")[-1]["complete"]) == (4, False), first.all("epoch")[-1])
second = Run("train", program, "--data", data, "--max-steps", 40, "--epochs", 3, "--checkpoint-dir", part, "--resume")  # V and seed: the checkpoint's
check(second.one("start")["first_step"] == 20 and second.one("start")["replicas"] == 2 and second.one("end")["steps"] == 40, second.events)
third = Run("train", program, "--data", data, "--epochs", 3, "--checkpoint-dir", part, "--resume")
check(bits(part) == bits(ck), "stopped twice by --max-steps: other bits")
check([e["loss"] for e in third.all("epoch")][-2:] == [e["loss"] for e in run.all("epoch")][-2:], "an epoch that was resumed has other totals")
fourth = Run("train", program, "--data", data, "--epochs", 3, "--checkpoint-dir", part, "--resume")
check("nothing is left to do" in fourth.error and fourth.one("end")["steps"] == 48, fourth.error)
fifth = Run("train", program, "--data", data, "--max-steps", 5, "--checkpoint-dir", part, "--resume")
check("nothing is left to do: 48 steps are done, --max-steps asks for 5" in fifth.error, fifth.error)
weights = ck / "step-48/model.safetensors"
sixth = Run("train", program, "--data", data, "--epochs", 3, "--checkpoint-dir", part, "--resume", "--init", weights)
check(f"note: --init {weights} is not read: the run goes on from {part}/step-48" in sixth.error, sixth.error)
more = Run("train", program, "--data", data, "--epochs", 4, "--checkpoint-dir", part, "--resume", "--replicas", 1, "--global-batch", 32)
check("goes on at the same example, but not with the same bits" in more.error and more.one("end")["steps"] == 48 + 32, more.error)
fresh = Run("train", program, "--data", data, "--max-steps", 3, "--checkpoint-dir", FOLDER / "fresh", "--resume")
check("no checkpoint to go on from: starting from the beginning" in fresh.error and fresh.one("end")["steps"] == 3, fresh.error)

# ---- initial weights, as a checkpoint to go on from ----
initial = Run("train", program, "--data", data, "--max-steps", 0, "--replicas", 2, "--checkpoint-dir", FOLDER / "initial")
check([e["event"] for e in initial.events] == ["start", "checkpoint", "end"] and newest(FOLDER / "initial").name == "step-0", initial.events)
Run("train", program, "--data", data, "--epochs", 3, "--checkpoint-dir", FOLDER / "initial", "--resume")
check(bits(FOLDER / "initial") == bits(ck), "from the initial weights: other bits")

check(Run("train", program, "--data", data, "--max-steps", 20).one("end")["epochs"] == 0, "capacity 32, V=1: 32 steps an epoch")
no_gain = Run("train", program, "--data", data, "--epochs", 50, "--keep-best", "min:evaluate.accuracy", "--stop-after-no-gain", 2, "--checkpoint-dir", FOLDER / "gain")
check(no_gain.one("end")["reason"] == "no_gain" and no_gain.one("end")["epochs"] < 50, no_gain.one("end"))
kept = {path.name for path in (FOLDER / "gain").glob("step-*")}
check(len(kept) == 3 or len(kept) == 4, f"three newest and the best: {kept}")

# ---- evaluate, predict, init ----
evaluated = Run("evaluate", program, "--data", data, "--checkpoint-dir", ck)
wanted = run.all("epoch", step="evaluate")[-1]
found = evaluated.one("epoch")
check(found["step"] == "evaluate" and found["examples"] == 200 and found["accuracy"] == wanted["accuracy"] and abs(found["loss"] - wanted["loss"]) < 1e-6, found)
check(Run("evaluate", program, "--data", data, "--init", ck / "step-48/model.safetensors").one("epoch")["loss"] == found["loss"], "--init gives another loss")
started = Run("train", program, "--data", data, "--max-steps", 1, "--log-every", 1, "--init", ck / "step-48/model.safetensors")
check(started.one("step")["loss"] < again.all("step")[0]["loss"] / 2, "--init was not used")
check("no weights" in Run("evaluate", program, "--data", data, expect=1).error, "evaluate without weights")
Run("evaluate", program, "--data", data, "--from", "train_set", "--checkpoint-dir", ck)

out = FOLDER / "out"
Run("predict", program, "--input", data / "test-images", "--output", out, "--checkpoint-dir", ck)
check({path.name for path in out.iterdir()} == {"label.npy", "probability.npy"}, list(out.iterdir()))
Run("predict", program, "--from", "test_set", "--output", out, "--checkpoint-dir", ck, expect=1)  # two components, one input

# ---- a program that has no weights needs none ----
PLAIN = """
data test_set = idx("test-images", "test-labels") | batch(32)

step evaluate(image: u8[B, 12, 12], label: u8[B]) from test_set {
    report brightness: mean(f32(image)), zeros: mean(label == 0)
}

step predict(image: u8[B, 12, 12]) {
    return brightness: mean(f32(image), axes: [1, 2])
}
"""
bare = compile_program(PLAIN, "plain")
truth = (data / "test-images").read_bytes()[16:]
brightness = Run("evaluate", bare, "--data", data).one("epoch")["brightness"]
check(abs(brightness / (sum(truth) / len(truth)) - 1) < 1e-5, brightness)
Run("predict", bare, "--input", data / "test-images", "--output", FOLDER / "plain-out")
check((FOLDER / "plain-out/brightness.npy").exists(), "predict wrote nothing")

# ---- text: plain lines in a file, a live line on a terminal ----
plain = subprocess.run(["dtrun", "train", program, "--data", data, "--log-every", "10"], capture_output=True, text=True)
check(plain.returncode == 0 and "\r" not in plain.stdout and "epoch 1/1  train" in plain.stdout and "step 10  loss" in plain.stdout, plain.stdout)
terminal, other_end = pty.openpty()
live = subprocess.Popen(["dtrun", "train", program, "--data", data, "--epochs", "20"], stdout=other_end, stderr=subprocess.DEVNULL)
os.close(other_end)
seen = b""
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:  # its other end is closed
        break
    seen += piece
check(live.wait() == 0 and b"\r" in seen and b"step 1/32" in seen and b"epoch 20/20" in seen, seen[-300:])

# ---- a .dt, compiled once ----
os.environ["XDG_CACHE_HOME"] = str(FOLDER / "cache")
for _ in range(2):
    Run("train", FOLDER / "net.dt", "--data", data, "--max-steps", 2)
check(len(list((FOLDER / "cache/dtrun").iterdir())) == 1, "compiled twice")
Run("train", FOLDER / "net.dt", "--data", data, "--max-steps", 2, "--global-batch", 50)  # more than its batch(32)
check(len(list((FOLDER / "cache/dtrun").iterdir())) == 2, "another --global-batch")
rounded = Run("train", FOLDER / "net.dt", "--data", data, "--max-steps", 2, "--precision", "bf16", "--log-every", 1)
plain = Run("train", FOLDER / "net.dt", "--data", data, "--max-steps", 2, "--log-every", 1)
check(len(list((FOLDER / "cache/dtrun").iterdir())) == 3, "another --precision")
check([e["loss"] for e in rounded.all("step")] != [e["loss"] for e in plain.all("step")], "--precision bf16 changes nothing")
refused = Run("train", program, "--data", data, "--precision", "bf16", expect=1)
check("is compiled already: --precision is for a .dt" in refused.error, refused.error)
(FOLDER / "wrong.dt").write_text("model")
Run("train", FOLDER / "wrong.dt", expect=1)
check(len(list((FOLDER / "cache/dtrun").iterdir())) == 3, "something was left of a failed compilation")

# ---- where it is kept: in the home folder, which need not be said; where it cannot be kept, it is compiled for the one run ----
home, scratch = FOLDER / "home", FOLDER / "scratch"
scratch.mkdir()
TRAIN = ("dtrun", "train", FOLDER / "net.dt", "--data", data, "--max-steps", "2")


def train_with(**variables):
    environment = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", "HOME")} | {"TMPDIR": str(scratch)} | variables
    done = subprocess.run(TRAIN, capture_output=True, text=True, env=environment)
    check(done.returncode == 0 and "done: 2 steps" in done.stdout, done)
    check(list(scratch.iterdir()) == [], "the scratch folder is still there")
    return done.stderr


check(train_with(HOME=str(home)) == "" and len(list((home / ".cache/dtrun").iterdir())) == 1, "HOME alone")
check(train_with(HOME=str(home), XDG_CACHE_HOME="relative") == "" and len(list((home / ".cache/dtrun").iterdir())) == 1, "a relative XDG_CACHE_HOME")
known = pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir, ".cache/dtrun")
before = set(known.glob("*"))
check(train_with() == "", "a home that only the list of users knows")
for path in set(known.glob("*")) - before:
    path.unlink()
note = train_with(HOME="/dev/null")
check("dtrun: note: the compiled program is not kept for the next time: /dev/null: cannot create the folder" in note, note)

# ---- info, devices, help ----
about = subprocess.run(["dtrun", "info", program], capture_output=True, text=True)
check(about.returncode == 0 and "data train_set = idx(" in about.stdout and "returns label: i64[B], probability: f32[B, 10]" in about.stdout, about.stdout)
source = subprocess.run(["dtrun", "info", program, "--text", "program.dt"], capture_output=True, text=True)
check("model Net" in source.stdout, source.stdout)
check(b"--devices cpu" in subprocess.run(["dtrun", "devices"], capture_output=True).stdout, "devices")
for verb in ("train", "evaluate", "predict", "generate", "data", "bench", "info", "devices"):
    check(subprocess.run(["dtrun", verb, "--help"], capture_output=True).returncode == 0, f"{verb} --help")
check(subprocess.run(["dtrun"], capture_output=True).returncode == 2, "no command")

# ---- what other tools see ----
model = safetensors.numpy.load_file(ck / "step-48/model.safetensors")
slots = safetensors.numpy.load_file(ck / "step-48/optimizer.safetensors")
check(model["Net/dense/kernel"].shape == (144, 32) and model["Net/dense/kernel"].dtype == numpy.float32, model.keys())
check(len(slots) > 0 and not set(slots) & set(model), slots.keys())
check(json.loads((ck / "step-48/progress.json").read_text())["step"] == "48", "progress.json")
labels, probabilities = numpy.load(out / "label.npy"), numpy.load(out / "probability.npy")
check(labels.shape == (200,) and labels.dtype == numpy.int64 and probabilities.shape == (200, 10) and probabilities.dtype == numpy.float32, "shapes")
check((probabilities.argmax(1) == labels).all() and abs(probabilities.sum(1) - 1).max() < 1e-5, "probabilities")
truth = numpy.frombuffer((data / "test-labels").read_bytes()[8:], numpy.uint8)
check(abs((labels == truth).mean() - found["accuracy"]) < 1e-6, "predict and evaluate disagree")

numpy.save(FOLDER / "images.npy", numpy.frombuffer((data / "test-images").read_bytes()[16:], numpy.uint8).reshape(200, 12, 12))
Run("predict", program, "--input", FOLDER / "images.npy", "--output", FOLDER / "out2", "--checkpoint-dir", ck, "--replicas", 2)
check((numpy.load(FOLDER / "out2/probability.npy") == probabilities).all(), "from .npy: other probabilities")
safetensors.numpy.save_file({name: value * 0 for name, value in model.items()}, FOLDER / "zero.safetensors")
zero = Run("evaluate", program, "--data", data, "--init", FOLDER / "zero.safetensors").one("epoch")
check(abs(zero["loss"] - numpy.log(10)) < 1e-6, f"weights of zero: {zero}")

# ---- started by somebody who ignores how children end ----
(FOLDER / "twice.dt").write_text("step predict(x: f32[B, 3]) { return y: x * 2 }\n")
for status, *arguments in (0, "info", FOLDER / "twice.dt"), (1, "launch", "-n", "2", "--mpirun", "false", "predict", program):
    ignored = subprocess.run(["dtrun", *arguments], capture_output=True, text=True, timeout=60, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    check(ignored.returncode == status, f"{arguments}: exit status {ignored.returncode}\n{ignored.stderr}")

finish()
