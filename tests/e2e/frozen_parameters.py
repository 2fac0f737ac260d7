"""frozen_parameters: what counts as trained. A parameter that some step of the program changes; at the start of a run those that its step changes.

Frozen are those that every step that trains freezes or leaves out, and those declared so; a program without a step that trains has none but these.
"""

import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, folder, run, write

checks = Checks()
PROGRAM = """
use nn, optimizers
data rows = npy("x.npy") | batch(4)
model Body(x: f32[B, 8]) { return dense(x, units: 16) }                # 144
layer scaled(x: f32[B, 16]) {
    param factor: f32[16] = ones()
    param fixed: f32[16] = ones(), trainable: false
    return x * factor * fixed
}
model Net(x: f32[B, 8]) { return dense(scaled(Body(x)), units: 1) }    # 16 + 16 and 17
step predict(x: f32[B, 8]) { return y: Net(x) }
"""
TRAIN = "step %s(x: f32[B, 8]) from rows { %s\n minimize(Net(x), sgd(0.01)%s)\n report y: mean(Net(x)) }\n"


def counts(*steps):
    """(trainable, frozen) of dtc summary, and for each step that trains what dtrun says at the start: (all, trained)."""
    program = write(PROGRAM + "".join(TRAIN % step for step in steps))
    summary = re.search(r"^parameters +([\d,]+): ([\d,]+) trainable, ([\d,]+) frozen", run(["dtc", "summary", program]), re.MULTILINE)
    artifact = compile(program)
    info = re.search(r"^([\d,]+) parameters, ([\d,]+) of them trained", run(["dtrun", "info", artifact]), re.MULTILINE)
    checks.that(summary[1] == info[1] and summary[2] == info[2], f"dtc summary: {summary[0]}, dtrun info: {info[0]}")
    started = []
    for name, *_ in steps:
        line = run(["dtrun", "train", artifact, "--step", name, "--data", folder.name, "--epochs", "1"]).splitlines()[0]
        started.append(tuple(map(int, re.search(r"(\d+) parameters, (\d+) of them trained", line).groups())))
    return int(summary[2]), int(summary[3]), started


def expect(what, found, trainable, started):
    wanted = trainable, 193 - trainable, [(193, n) for n in started]
    checks.that(found == wanted, f"{what}: {found}, expected {wanted}")


def main():
    np.save(os.path.join(folder.name, "x.npy"), np.ones((8, 8), np.float32))
    expect("nothing is frozen", counts(("train", "", "")), 177, [177])
    expect("a model", counts(("train", "freeze(Body)", "")), 33, [33])
    expect("a layer", counts(("train", "freeze(Net.scaled)", "")), 161, [161])
    expect("left out by over", counts(("train", "", ", over: params(Net, only: true)")), 33, [33])
    expect("frozen by one step of two", counts(("train", "freeze(Body)", ""), ("tune", "freeze(Body, Net.scaled)", "")), 33, [33, 17])
    expect("trained by another step", counts(("train", "freeze(Body)", ""), ("whole", "", "")), 177, [33, 177])
    expect("no step trains", counts(), 177, [])
    checks.finish()


main()
