"""Evaluations change nothing, whatever they call. Several of them: steps that say `every epoch` or `every 2 epochs` follow these, beside `evaluate`; their reports can be watched, and a resumed run is no other."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

PROGRAM = """
use optimizers

data train_set = npy("x.npy") | batch(8)
data test_set  = npy("y.npy") | batch(8)
data rare_set  = npy("z.npy") | batch(8)

launch rate = 0.1

model Line(x: f32[B, 3]) -> f32[B, 3] {
    param w: f32[3] = ones()
    return x * w
}

step check(x: f32[B, 3]) from test_set every epoch { report loss: mean(Line(x) ** 2), columns: mean(Line(x), axis: 0) }
step train(x: f32[B, 3]) from train_set {
    loss = Line(x) ** 2
    minimize(loss, sgd(learning_rate: rate))
    report loss: mean(loss)
}
step rare(x: f32[B, 3]) from rare_set every 2 epochs { report n: count(x), loss: mean(Line(x) ** 2) }
step evaluate(x: f32[B, 3]) from test_set { report loss: mean(Line(x) ** 2) }
step by_hand(x: f32[B, 3]) from test_set { report loss: mean(Line(x)) }
"""

random = np.random.default_rng(3)
data = FOLDER / "data"
data.mkdir()
for name, n in (("x", 40), ("y", 21), ("z", 13)):
    np.save(data / f"{name}.npy", random.standard_normal((n, 3), np.float32))
program = compile_program(PROGRAM, "evaluations")
RUN = ("--data", data, "--seed", 1, "--epochs", 5)


def train(folder, *flags):
    run = Run("train", program, *RUN, "--checkpoint-dir", FOLDER / folder, *flags)
    return [(e["epoch"], e["step"]) for e in run.all("epoch")], {(e["epoch"], e["step"]): e["loss"] for e in run.all("epoch")}, run


wanted = [(epoch, step) for epoch in range(1, 6) for step in ("train", "check", "rare", "evaluate") if step != "rare" or epoch % 2 == 0]
order, losses, run = train("whole")
check(order == wanted, order)
check(all(losses[epoch, "check"] == losses[epoch, "evaluate"] for epoch in range(1, 6)), losses)
check([e["n"] for e in run.all("epoch", step="rare")] == [39, 39] and np.shape(run.all("epoch", step="check")[0]["columns"]) == (3,), run.events)
for replicas, devices in ((2, "cpu:1"), (2, "cpu:2"), (3, "cpu:1")):
    found = train(f"V{replicas}{devices}", "--replicas", replicas, "--devices", devices, "--global-batch", 6)
    check(found[0] == wanted, found[0])

# Stopped after the third epoch: the rest is what it was.
Run("train", program, *RUN, "--max-steps", 15, "--checkpoint-dir", FOLDER / "parts")
order, resumed, _ = train("parts", "--resume")
check(order == [pair for pair in wanted if pair[0] > 3] and all(resumed[pair] == losses[pair] for pair in resumed), (order, resumed, losses))

# What a step that is not due says has no meaning for who watches it.
watched = train("watched", "--keep-best", "min:rare.loss", "--stop-after-no-gain", 3, "--reduce-on-plateau", "rare.n:rate,patience=0,factor=0.5")[2]
check(watched.one("end")["reason"] == "epochs", watched.events)
rates = [e["message"] for e in watched.all("note") if "launch value rate" in e["message"]]
check(len(rates) == 1 and "from epoch 5 on" in rates[0], rates)
info = subprocess.run(["dtrun", "info", program], capture_output=True, text=True, check=True).stdout
check("from test_set every epoch\n    reports loss, columns[3]\n" in info and "from rare_set every 2 epochs\n    reports n, loss\n" in info, info)
refused = Run("train", program, *RUN, "--checkpoint-dir", FOLDER / "none", "--keep-best", "by_hand.loss", expect=None)
check(refused.code != 0 and "check.loss, check.columns[0 to 2], rare.n, rare.loss, train.loss" in refused.error, refused.error)

alone = Run("evaluate", program, "--data", data, "--step", "check", "--checkpoint-dir", FOLDER / "whole")
check(alone.one("epoch")["loss"] == losses[5, "check"], alone.events)

# Statistics and noise of training in an evaluation: they are its own, and what is trained has the bits of a training without it.
NORMED = """
use nn, optimizers
data train_set = npy("x.npy") | batch(8)
data test_set  = npy("y.npy") | batch(8)
model Line(x: f32[B, 3]) -> f32[B, 3] { return batch_norm(dropout(dense(x, units: 3), rate: 0.5)) }
step train(x: f32[B, 3]) from train_set { minimize(Line(x) ** 2, adam()) }
"""
TRAINING = """
step evaluate(x: f32[B, 3]) from test_set { report loss: mean(Line(x, training: true) ** 2) }
step check(x: f32[B, 3]) from test_set every epoch {
    first  = mean(Line(x, training: true))
    second = mean(Line(x))
    report first: mean(first), second: mean(second)
}
step predict(x: f32[B, 3]) { return y: Line(x, training: true) }
"""


def weights_of(text, name, *flags):
    trained = compile_program(text, name)
    Run("train", trained, *RUN, *flags, "--checkpoint-dir", FOLDER / name)
    return bits(FOLDER / name), trained


plain, _ = weights_of(NORMED, "plain")
noisy, trained = weights_of(NORMED + TRAINING, "noisy")
check(noisy == plain, "an evaluation with training: true has changed what is trained")
info = subprocess.run(["dtrun", "info", trained], capture_output=True, text=True, check=True).stdout
check(info.count(", trains") == 1, info)

# A graph changed by hand, in which the step that follows epochs trains: said before the first of them, and a step that writes in secret is none.
late = NORMED + "step late(x: f32[B, 3]) from test_set { minimize(Line(x) ** 2, sgd()) }"
(FOLDER / "late.dt").write_text(late)
graph = subprocess.run(["dtc", "compile", "--emit=ir", FOLDER / "late.dt"], capture_output=True, text=True, check=True).stdout
(FOLDER / "changed.ir").write_text(graph.replace("step late = late", "step evaluate = late"))
subprocess.run(["dtc", "compile", FOLDER / "changed.ir", "-o", FOLDER / "changed.dtx"], check=True)
refused = Run("train", FOLDER / "changed.dtx", *RUN, expect=None)
check(refused.code != 0 and "step evaluate trains, and what is run after epochs evaluates" in refused.error and not refused.all("epoch"), refused.error)
(FOLDER / "secret.ir").write_text(graph.replace("test_set trains", "test_set"))
refused = subprocess.run(["dtc", "compile", FOLDER / "secret.ir", "-o", FOLDER / "secret.dtx"], capture_output=True, text=True)
check(refused.returncode != 0 and "step late writes Line/dense" in refused.stderr and "not said to train" in refused.stderr, refused.stderr)
finish()
