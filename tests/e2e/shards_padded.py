"""Shards that cannot share a dimension evenly: each has room for as many of its elements, and the last ones have padding there, which is part of nothing. Initial
values are those of one shard to the bit, losses and weights those of one up to rounding, files have the shapes that the program says, and training goes on
from any number of shards with any other."""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import FOLDER, Run, check, compile_program, finish, newest
from safetensors.numpy import load_file

DATA = FOLDER / "data"
DATA.mkdir()
noise = np.random.default_rng(7)
np.save(DATA / "x.npy", noise.normal(size=(80, 6, 16)).astype(np.float32))
np.save(DATA / "y.npy", noise.normal(size=(80, 6, 16)).astype(np.float32))
np.save(DATA / "i.npy", noise.integers(0, 27, size=(80, 6)).astype(np.int32))

PROGRAM = """
use nn, losses, optimizers
option shards = 1
option rate = 0.05
mesh model = shards
PRECISION
data train_set = npy("x.npy", "y.npy", "i.npy") | shuffle(80) | batch(16)

model Net(x: f32[B, 6, 16], i: i32[B, 6]) {
    param w: f32[16, 27] = glorot_uniform(), shard: 1
    param v: f32[27, 16] = glorot_uniform(), shard: 0
    BODY
}

step train(x: f32[B, 6, 16], y: f32[B, 6, 16], i: i32[B, 6]) from train_set {
    found = Net(x, i)
    loss  = LOSS
    UPDATE
    report loss: mean(loss)
}
"""
SQUARES = "mean(square(found - y), axis: [1, 2])"
DESCENT = "minimize(loss, sgd(learning_rate: rate))"
CLIPPED = "apply(adam(learning_rate: rate), clip_by_global_norm(grad(objective(loss), params(Net)), 0.1))"
LAMB = "minimize(loss, lamb(learning_rate: rate, weight_decay: 0.1))"
SCORES = "mean(sparse_categorical_crossentropy(i, found), axis: 1)"
# What is 0, or as great as can be, of which the mean of negative numbers, the logarithm, the quotient are: none of that is in padding.
HARD = "mean(log(w + 2) @ (1 / (v + 2)) / 27, axis: 0) + max(-exp(x @ w), axis: 2)[:, :, newaxis] + min(exp(x @ w) + 3, axis: 2)[:, :, newaxis]"
CASES = {
    "tied": ("return tanh(x + v[i]) @ v.T", SCORES, DESCENT),
    "tied, clipped": ("param bias: f32[27] = zeros(), shard: 0\n    return tanh(x + v[i]) @ v.T + bias", SCORES, CLIPPED),
    "tied, lamb": ("param bias: f32[27] = zeros(), shard: 0\n    return tanh(x + v[i]) @ v.T + bias - 100", SCORES, LAMB),
    "library": ("t = embedding(i, rows: 27, width: 16, shard: vocabulary)\n    return dense(gelu(x + t), units: 27, shard: columns)",
                "mean(categorical_crossentropy(one_hot(i, 27) * 0.9 + 0.1 / 27, found), axis: 1)", DESCENT),
    "library, mixed": ("t = embedding(i, rows: 27, width: 16, shard: vocabulary)\n    return dense(gelu(x + t), units: 27, shard: columns)",
                "mean(categorical_crossentropy(one_hot(i, 27) * 0.9 + 0.1 / 27, found), axis: 1)", DESCENT),
    "hidden": ("h = layer_norm(dropout(gelu(x @ w), rate: 0.2)) * f32(iota([27]) + 1) / 27\n    return batch_norm(h) @ v + softmax(x @ w) @ v", SQUARES, DESCENT),
    "hard": ("return " + HARD, SQUARES, DESCENT),
    "side by side": ("param p: f32[16, 54] = normal(stddev: 0.2), shard: 1, of: 2\n    a, b = split(dropout(x @ p, rate: 0.1), 2, axis: -1)\n"
                     "    return (a * sigmoid(b)) @ v + concatenate([b, a], axis: -1) @ ones([54, 16])", SQUARES, CLIPPED),
    "integers": ("h = i32(100 * (x @ w))\n    m = max(h, axis: 2) - min(h, axis: 2) + i32(sum(h, axis: 2)) + i32(all(h > -1000, axis: 2)) + i32(any(h > 0, axis: 2))\n"
                 "    return (x @ w) @ v + 1e-3 * f32(m)[:, :, newaxis]", SQUARES, DESCENT),
    "columns of a table": ("param c: f32[27, 21] = normal(stddev: 0.2), shard: 1\n    return sum(c[i], axis: 2, keep: true) * x + mean(c)", SQUARES,
                           "apply(sgd(learning_rate: 0.01 * rate), grad(objective(loss) + square(sum(grad(objective(loss), Net.c))), params(Net)))"),
    "positions of extremes": ("h = x @ w\n    n = where(h > 1, 0 * h / 0, h)\n    z = argmax(h, axis: 2) + argmin(h, axis: 2) - argmax(i32(2 * h), axis: 2) + argmax(-1 - abs(h), axis: 2)\n"
                              "    return h @ v + max(-1 - abs(h), axis: 2, keep: true) + 0.01 * f32(z)[:, :, newaxis]", SQUARES, DESCENT),
    "gathered": ("h = x @ w\n    z = product(h, axis: 2, keep: true) + reshape(h, [B, 3, 54])[:, 1, newaxis, :16]\n    return reverse(h, axis: 2) @ v + 0.01 * z", SQUARES, DESCENT),
    "pairs": ("return tanh(x @ w) @ v", "slopes = grad(objective(mean(square(found - y), axis: [1, 2])), params(Net))\n    loss = mean(square(found - y), axis: [1, 2])",
              "apply(sgd(learning_rate: rate), grad(objective(loss) + square(global_norm(slopes)), params(Net)))"),
    "positions": ("param c: f32[27] = 5, shard: 0\n    return (x @ w) @ (gather(ones([27, 16]) * f32(iota([16])), i32(c) - 5 + i32(iota([27])), axis: 0) + v) / 16",
                  SQUARES, DESCENT),
}


def text_of(name):
    body, loss, update = CASES[name]
    text = PROGRAM.replace("BODY", body).replace("UPDATE", update).replace("PRECISION", "option precision: mixed_bf16" if "mixed" in name else "")
    return text.replace("loss  = LOSS", loss) if loss.startswith("slopes") else text.replace("LOSS", loss)


def artifact(name, shards, *flags):
    return compile_program(text_of(name), f"{name.replace(', ', '-').replace(' ', '-')}{shards}", "-D", f"shards={shards}", *flags)


def train(dtx, folder, *flags):
    return Run("train", dtx, "--data", DATA, "--replicas", 2, "--seed", 3, "--log-every", 1, "--devices", "cpu:1x1", "--checkpoint-dir", folder, "--check-numerics", *flags)


def weights_in(folder):
    return load_file(newest(folder) / "model.safetensors")


for name in CASES:
    (FOLDER / "checked.dt").write_text(text_of(name))
    checked = subprocess.run(["dtc", "check", "-D", "shards=4", FOLDER / "checked.dt"], capture_output=True, text=True)
    check(checked.returncode == 0 and "passes:" in checked.stdout, f"dtc check of {name}: {checked.stdout}{checked.stderr}")
    one, at = None, FOLDER / name.replace(" ", "-")
    for shards in (1, 2, 4):
        train(artifact(name, shards, "-D", "rate=0.0"), at / f"still{shards}", "--max-steps", 1)
        run = train(artifact(name, shards), at / f"moved{shards}", "--epochs", 2)
        found = ({path: tensor for path, tensor in weights_in(at / f"still{shards}").items() if "moving" not in path}, weights_in(at / f"moved{shards}"),
                 [event["loss"] for event in run.events if event["event"] == "step"])
        one = one or found
        for path, tensor in one[0].items():
            check(tensor.tobytes() == found[0][path].tobytes(), f"{name}: {path}: other initial values with {shards} shards than with one")
        most = max(np.abs(tensor).max() for tensor in one[1].values())
        off, worst = max((np.abs(tensor - found[1][path]).max() / most, path) for path, tensor in one[1].items())
        off_losses = max(abs(a - b) / abs(b) for a, b in zip(found[2], one[2]))
        near = 2e-2 if "mixed" in name else 1e-4 if "clipped" in name or "lamb" in name else 1e-5
        check(len(found[2]) == 6 and off <= near and off_losses <= near, f"{name}: {shards} shards: losses {off_losses}, {worst} {off} off: {found[2]} {one[2]}")
        print(f"{name}: {shards} shards: losses within {off_losses:.1e}, weights within {off:.1e} of one's", flush=True)

# ---- from any number of shards to any other ----
wanted = weights_in(FOLDER / "tied,-clipped" / "moved1")
for i, shards in enumerate((4, 1, 2, 4)):
    train(artifact("tied, clipped", shards), FOLDER / "turns", *(["--max-steps", 2 * i + 1] if i < 3 else ["--epochs", 2]), *(["--resume"] if i > 0 else []))
found = weights_in(FOLDER / "turns")
check(all(found[path].shape == tensor.shape and np.abs(found[path] - tensor).max() <= 1e-4 for path, tensor in wanted.items()), "in turns: other weights")
print("4, 1, 2 and 4 shards in turns agree with one", flush=True)

# ---- a large vocabulary ----
LARGE = """
use losses, optimizers
option shards = 1
mesh model = shards
data train_set = npy("i.npy") | batch(16)
model Net(i: i32[B, 6]) {
    param table: f32[50001, 6] = normal(), shard: 0
    param bias:  f32[3, 50001] = glorot_uniform(), shard: 1
    return table[i] @ table.T + sum(bias, axis: 0)
}
step train(i: i32[B, 6]) from train_set {
    loss = mean(sparse_categorical_crossentropy(i, Net(i)), axis: 1)
    minimize(loss, sgd(learning_rate: RATE))
    report loss: mean(loss)
}
"""


def large(name, text, *flags):
    """As drawn, and five losses."""
    one = None
    for shards in (1, 2, 4):
        found = []
        for rate, steps in (("0.0", 1), ("1e-1", 5)):
            dtx = compile_program(text.replace("RATE", rate), f"{name}{shards}-{steps}", "-D", f"shards={shards}", *flags)
            run = train(dtx, FOLDER / f"{name}{shards}-{steps}", "--max-steps", steps)
            found += [weights_in(FOLDER / f"{name}{shards}-{steps}"), [event["loss"] for event in run.events if event["event"] == "step"]]
        one = one or found
        check(all(tensor.tobytes() == found[0][path].tobytes() for path, tensor in one[0].items()), f"{name}: {shards} shards draw other weights")
        check(len(one[3]) == 5 and np.allclose(found[3], one[3], rtol=1e-5, atol=0), f"{name}: losses {found[3]} by {shards} shards, {one[3]} by one")
    print(f"{name}: the same initial values by 1, 2 and 4 shards, and losses {one[3]}", flush=True)
    return dtx


said = subprocess.run(["dtrun", "info", large("rows", LARGE)], capture_output=True, text=True).stdout
check("450,009" in said, f"padding is counted: {said}")

np.save(DATA / "masked.npy", noise.integers(1, 30522, size=(160, 16)).astype(np.int32))
np.save(DATA / "position.npy", noise.integers(0, 16, size=(160, 4)).astype(np.int32))
np.save(DATA / "label.npy", noise.integers(0, 30522, size=(160, 4)).astype(np.int32))
np.save(DATA / "weight.npy", noise.integers(0, 2, size=(160, 4)).astype(np.float32))
with open(os.path.join(os.environ["DT_SOURCE"], "tests/twins/bert_mlm.dt")) as file:
    bert = file.read()
for before, after in (("stddev: 0.02)\n    param position", "stddev: 0.02), shard: 0\n    param position"), ("bias: f32[vocab_size] = zeros()", "bias: f32[vocab_size] = zeros(), shard: 0"),
                      ("1e-4", "RATE")):
    check(bert.count(before) == 1, f"tests/twins/bert_mlm.dt has no {before}")
    bert = bert.replace(before, after)
large("bert", bert, "-D", "context=16", "-D", "predictions=4", "-D", "layers=1", "-D", "width=16", "-D", "heads=4")
finish()
