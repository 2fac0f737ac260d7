"""examples/own_parts.dt trains on a CSV that it did not come with, 64 patients of scikit-learn's diabetes set: ten updates are those of NumPy in f64, which
computes the gated layers, their gradients, the penalty and the optimizer by itself, from `dtrun data`'s batches and the initial weights."""
import os
import sys

import numpy as np
import safetensors.numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
RATE, BETA_1, BETA_2, PENALTY = 3e-4, 0.9, 0.99, 1e-4


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def forward(w, layer, x):
    return sigmoid(x @ w[f"{layer}/gate"]) * (x @ w[f"{layer}/value"] + w[f"{layer}/bias"])


def backward(w, layer, x, g, gradients):
    """Adds the layer's gradients; returns that of x."""
    gate, linear = sigmoid(x @ w[f"{layer}/gate"]), x @ w[f"{layer}/value"] + w[f"{layer}/bias"]
    g_gate, g_linear = g * linear * gate * (1 - gate), g * gate
    gradients[f"{layer}/gate"] = x.T @ g_gate
    gradients[f"{layer}/value"] = x.T @ g_linear + 2 * PENALTY * w[f"{layer}/value"]
    gradients[f"{layer}/bias"] = g_linear.sum(0)
    return g_gate @ w[f"{layer}/gate"].T + g_linear @ w[f"{layer}/value"].T


def update(w, m, x, y):
    """One step of training; the reports."""
    first, second = "Net/gated", "Net/gated_1"
    hidden = forward(w, first, x)
    error = forward(w, second, hidden)[:, 0] - y
    small, gradients = abs(error) < 1, {}
    g = np.where(small, error, np.sign(error)) / len(y)
    backward(w, first, x, backward(w, second, hidden, g[:, None], gradients), gradients)
    for path, gradient in gradients.items():
        w[path] = w[path] - RATE * np.sign(BETA_1 * m[path] + (1 - BETA_1) * gradient)
        m[path] = BETA_2 * m[path] + (1 - BETA_2) * gradient
    return np.where(small, error**2 / 2, abs(error) - 0.5).mean(), abs(error).max()


data = FOLDER / "data"
data.mkdir()
shutil.copy(SOURCE / "tests/golden/diabetes.csv", data / "numbers.csv")
program = compile_program((SOURCE / "examples/own_parts.dt").read_text(), "own_parts")
RUN = ("--data", data, "--seed", 4)
Run("data", program, *RUN, "--batches", 10, "-o", FOLDER / "batches")
x, y = (np.load(FOLDER / f"batches/{name}.npy").reshape(10, 32, -1).astype(np.float64) for name in "xy")
check(np.load(FOLDER / "batches/batch-rows.npy").tolist() == [32] * 10 and len({tuple(batch.ravel()) for batch in y}) > 5, "batches in one order")
for folder, n in (("begin", 0), ("end", 10)):
    run = Run("train", program, *RUN, "--max-steps", n, "--log-every", 1, "--checkpoint-dir", FOLDER / folder)
begin, end = (safetensors.numpy.load_file(FOLDER / name / "model.safetensors") for name in ("begin/step-0", "end/step-10"))
w = {path: value.astype(np.float64) for path, value in begin.items() if path != "Net/seen"}
check(len(w) == 6 and begin["Net/seen"] == 0 and end["Net/seen"] == 10 * 32 * 8, list(begin))
m = {path: np.zeros_like(value) for path, value in w.items()}
for step in range(10):
    loss, worst = update(w, m, x[step], y[step][:, 0])
    found = run.all("step")[step]
    check(abs(found["loss"] / loss - 1) < 2e-6 and abs(found["worst"] / worst - 1) < 2e-6, f"step {step + 1}: {found}, NumPy has {loss}, {worst}")
for path, wanted in w.items():
    check(abs(end[path] - wanted).max() < 2e-6, f"{path}: {abs(end[path] - wanted).max()} from NumPy's after ten updates")
    check(abs(begin[path] - wanted).max() > 1e-3, f"{path} did not change: the comparison cannot fail")
finish()
