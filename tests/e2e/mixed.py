"""mixed: `option precision: mixed_bf16` and `mixed_f16` against Keras's policies (tests/golden/mixed): logits, losses, weights after each of six updates, and
the scale of the loss, where the first updates do not happen. One replica rounds as Keras does; two round their own sums of gradients besides, and have the same
bits on one device and on two. What f32 computes is told from either. The scale rises after 2,000 updates that happened."""

import os
import sys

import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, compile, dtrun, execute, interpret, scratch, write

PROGRAM = """
use nn, losses, optimizers

model Net(image: f32[B, 6, 6, 2]) -> f32[B, 4] {
    x = conv2d(image, filters: 3, kernel: 3, activation: relu)
    x = flatten(max_pool2d(batch_norm(x), size: 2))
    x = layer_norm(dense(x, units: 16, activation: relu))
    return dense(x, units: 4)
}

step train(image: f32[B, 6, 6, 2], label: i32[B]) {
    logits = Net(image)
    loss   = sparse_categorical_crossentropy(label, logits)
    minimize(loss, sgd(learning_rate: RATE))
    report loss: mean(loss)
    return logits: logits
}
"""

checks = Checks()


def train(run, golden, updates):
    """The weights, logits and loss of each update, one run for each."""
    weights = {f"variable/{path[len('weights/') :]}": value[0] for path, value in golden.items() if path.startswith("weights/")}
    found = []
    for _ in range(updates):
        found.append(run({**weights, "input/image": golden["image"], "input/label": golden["label"]}))
        weights = {key: value for key, value in found[-1].items() if key.startswith("variable/")}
    return found


def distance(found, golden):
    """How far logits and changes of weights are from the golden ones, each as a part of the largest."""
    away = {}
    for i, one in enumerate(found):
        pairs = {"logits": (one["result/logits"].reshape(golden["logits"][i].shape), golden["logits"][i])}
        for path, value in golden.items():
            if path.startswith("weights/"):
                pairs[path] = (one[f"variable/{path[len('weights/') :]}"] - value[0], value[i + 1] - value[0])
        for name, (a, b) in pairs.items():
            away[name] = max(away.get(name, 0), np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))
    return max(away.items(), key=lambda pair: pair[1])


for name, rate, bound, ulp in (("mixed_bf16", "0.1", 2e-5, 2.0**-8), ("mixed_f16", "0.1 / 144", 3e-3, 2.0**-11)):
    golden = load_file(os.path.join(SOURCE, "tests", "golden", "mixed", name + ".safetensors"))
    n = len(golden["losses"])
    text = PROGRAM.replace("RATE", rate)
    program, exact = write(f"option precision: {name}\n{text}"), write(text)
    artifact = compile(program, batch=8)
    bias = golden["weights/Net/dense/bias"]
    first = int(np.argmax((bias != bias[0]).any(axis=1)))
    runs = {
        "interpreter": (lambda given: interpret(program, "train", given), n, bound),
        "compiled": (lambda given: execute(artifact, "train", given), n, bound),
        "2 replicas, until the first update": (lambda given: execute(artifact, "train", given, replicas=2), first, 4 * ulp),
    }
    for how, (run, updates, allowed) in runs.items():
        found = train(run, golden, updates)
        what, away = distance(found, golden)
        checks.that(away <= allowed, f"{name}, {how}: {what} is {away:.1e} from Keras's, {allowed:.1e} allowed")
        checks.near(f"{name}, {how}: losses", [one["report/loss"][0] for one in found], golden["losses"][:updates], relative=4 * ulp)
        if name == "mixed_f16":
            scales = [one["variable/loss_scale/scale"].item() for one in found]
            checks.that(scales == golden["scales"][:updates].tolist(), f"{name}, {how}: the scales are {scales}, Keras's {golden['scales']}")
    away = distance(train(lambda given: interpret(exact, "train", given), golden, n), golden)[1]
    checks.that(away > 2 * bound, f"{name}: f32 is as near as {away:.1e}, which tells nothing")
    bits = [train(lambda given: execute(artifact, "train", given, replicas=2, devices=devices), golden, n)[-1] for devices in ("cpu:1x1", "cpu:2")]
    for key in bits[0]:
        checks.that(np.array_equal(bits[0][key], bits[1][key]), f"{name}: {key} has other bits on two devices than on one")

# The scale doubles once 2,000 updates in a row have happened.
LINE = """
use nn, optimizers

option precision: mixed_f16

data numbers = range(2001) | map(fn(i: i64) => f32(i % 7) / 100) | batch(1)

model Line(x: f32[B]) -> f32[B] { return dense(x[:, newaxis], units: 1)[:, 0] }

step train(x: f32[B]) from numbers {
    loss = square(Line(x) - 2 * x)
    minimize(loss, sgd(learning_rate: 0.001))
    report loss: mean(loss)
}
"""
folder = scratch("")
dtrun("train", compile(write(LINE)), "--checkpoint-dir", folder)
state = load_file(os.path.join(folder, "step-2001", "model.safetensors"))
checks.that((state["loss_scale/scale"].item(), state["loss_scale/good"].item()) == (65536.0, 1), f"after 2,001 updates there are {state}")
checks.finish()
