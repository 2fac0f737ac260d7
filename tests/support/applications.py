"""applications: a small program, its data, and what dtrun trains on it, for tests of applications of several processes."""
import subprocess

import numpy as np
from training import FOLDER, check, compile_program

PROGRAM = """use nn, losses, optimizers
launch rate = 0.01
data rows = npy("x.npy", "label.npy") | batch(2)
model Net(x: f32[B, 4]) -> f32[B, 3] {
    x = dropout(dense(x, units: 5, activation: relu), rate: 0.25)
    return dense(x, units: 3)
}
step train(x: f32[B, 4], label: i32[B]) from rows {
    loss = sparse_categorical_crossentropy(label, Net(x))
    minimize(loss, adam(learning_rate: rate))
    report loss: mean(loss)
}
step evaluate(x: f32[B, 4], label: i32[B]) from rows {
    report accuracy: mean(argmax(Net(x)) == label)
}
step predict(x: f32[B, 4]) {
    return score: Net(x)
}
"""
STEPS = 9  # three epochs of 30 examples, 12 a batch


def write_examples(folder):
    random = np.random.default_rng(3)
    x, label = random.normal(size=(30, 4)).astype(np.float32), random.integers(0, 3, 30).astype(np.int32)
    folder.mkdir(parents=True)
    np.save(folder / "x.npy", x)
    np.save(folder / "label.npy", label)
    (folder / "examples.raw").write_bytes(x.tobytes() + label.tobytes())
    return folder


ARTIFACT = compile_program(PROGRAM, "net")
DATA = write_examples(FOLDER / "data")
TRAINED = FOLDER / "by-dtrun"
subprocess.run(["dtrun", "train", ARTIFACT, "--data", DATA, "--replicas", "6", "--global-batch", "12", "--seed", "5", "--epochs", "3", "--devices",
                "cpu:1x1", "--checkpoint-dir", TRAINED, "--log-every", "0"], check=True, stdout=subprocess.DEVNULL)


def same_bytes(what, folder):
    for name in ("model.safetensors", "optimizer.safetensors"):
        ours, theirs = (where / f"step-{STEPS}" / name for where in (folder, TRAINED))
        check(ours.exists() and ours.read_bytes() == theirs.read_bytes(), f"{what}: {name} is not that of dtrun")
