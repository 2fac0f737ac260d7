"""Vectors and matrices of totals come back from a GPU, the fake driver's, as they do from a CPU: of training and evaluation, with one and two replicas, of a short
last batch."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403

PROGRAM = """
use optimizers, metrics

data rows = npy("x.npy", "label.npy") | batch(16)

model Scale(x: f32[B, 5]) -> f32[B, 5] {
    param factor: f32[5] = ones()
    return x * factor
}

step train(x: f32[B, 5], label: i32[B]) from rows {
    y = Scale(x)
    minimize(square(y), sgd(learning_rate: 0.01))
    report loss: mean(square(y)), columns: mean(y, axis: 0), last: last(sum(y, axis: 0)), confusion: confusion_matrix(label, argmax(y), 5)
}

step evaluate(x: f32[B, 5], label: i32[B]) from rows {
    report most: max(Scale(x), axis: 0), f1: class_f1(label, argmax(Scale(x)), 5), auc: auc(label == 0, sigmoid(Scale(x)[:, 0]), num_thresholds: 20)
}
"""

random = np.random.default_rng(4)
data = FOLDER / "data"
data.mkdir()
np.save(data / "x.npy", random.standard_normal((41, 5), np.float32))
np.save(data / "label.npy", random.integers(0, 5, 41).astype(np.int32))
artifact = Artifact(PROGRAM, "reports")
for replicas in (1, 2):
    flags = ("--data", data, "--seed", 2, "--epochs", 2, "--global-batch", 16, "--replicas", replicas)
    cpu, gpu = (artifact.run("train", *flags, devices=devices).all("epoch") for devices in ("cpu:1", "cuda:0"))
    check(len(cpu) == len(gpu) == 4, gpu)
    for a, b in zip(cpu, gpu):
        names = [name for name in ("loss", "columns", "last", "confusion", "most", "f1", "auc") if name in a]
        check(len(names) >= 3 and all(np.allclose(a[name], b[name], rtol=1e-5, atol=1e-6) for name in names), f"{replicas} replicas: {b}, the CPU says {a}")
    check(gpu[0]["confusion"] == cpu[0]["confusion"] and np.sum(gpu[0]["confusion"]) == 41, gpu[0])
finish()
