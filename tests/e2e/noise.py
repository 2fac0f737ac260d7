"""noise: what drops and disturbs: how often and by how much, which elements together, and nothing where the step does not train."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, interpret, write

PROGRAM = """
use nn, optimizers

model Net(x: f32[B, 5, 4, 32]) {
    param w: f32 = ones()
    return [w * spatial_dropout(x, rate: 0.25), dropout(x, rate: 0.25, noise_shape: [B, 5, 1, 1]), alpha_dropout(x, rate: 0.2),
            gaussian_dropout(x, rate: 0.2), gaussian_noise(x, stddev: 0.5)]
}

step train(x: f32[B, 5, 4, 32]) {
    y = Net(x)
    minimize(sum(y[0], axes: [1, 2, 3]), sgd(learning_rate: 0.0))
    return channels: y[0], rows: y[1], alpha: y[2], times: y[3], plus: y[4]
}

step evaluate(x: f32[B, 5, 4, 32]) {
    y = Net(x)
    return channels: y[0], rows: y[1], alpha: y[2], times: y[3], plus: y[4]
}
"""

checks = Checks()
program = write(PROGRAM)
x = np.random.default_rng(1).normal(size=(8, 5, 4, 32)).astype(np.float32)
found = {key[len("result/") :]: value for key, value in interpret(program, "train", {"input/x": x}).items() if key.startswith("result/")}

for name, axes, n in (("channels", (1, 2), 8 * 32), ("rows", (2, 3), 8 * 5)):
    kept = (found[name] != 0).mean(axis=axes)
    checks.that(np.isin(kept, (0, 1)).all(), f"{name}: dropped in part")
    checks.that(abs(kept.mean() - 0.75) < 4 * np.sqrt(0.1875 / n), f"{name}: {kept.mean():.3f} are kept")
    checks.near(name, found[name], np.where(found[name] != 0, x / np.float32(0.75), 0), relative=1e-6)

# What alpha_dropout drops has one value; mean and variance stay.
values, counts = np.unique(found["alpha"], return_counts=True)
checks.that(abs(counts.max() / x.size - 0.2) < 0.03, f"alpha_dropout drops {counts.max() / x.size:.3f}")
checks.near("alpha_dropout, mean and variance", [found["alpha"].mean(), found["alpha"].var()], [0, 1], relative=0.06, absolute=0.06)
checks.near("gaussian_dropout, mean and deviation", [(found["times"] / x).mean(), (found["times"] / x).std()], [1, 0.5], relative=0.05)
checks.near("gaussian_noise, mean and deviation", [(found["plus"] - x).mean(), (found["plus"] - x).std()], [0, 0.5], relative=0.05, absolute=0.03)

for key, value in interpret(program, "evaluate", {"input/x": x}).items():
    if key.startswith("result/"):
        checks.that(np.array_equal(value, x), f"{key} is changed where the step does not train")
checks.finish()
