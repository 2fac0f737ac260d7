"""A model split over shards (mesh model = M) computes what it computes whole: initial values to the bit, losses and weights up to rounding, for M of 1, 2
and 4; and for each M the same bits on any devices, and interrupted. What is computed whole may be read by any of them, and what cannot be split is said."""
import json
import os
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import FOLDER, Run, check, compile_program, finish, left_by, newest

DATA = FOLDER / "data"
DATA.mkdir()
noise = np.random.default_rng(5)
np.save(DATA / "x.npy", noise.normal(size=(80, 6, 16)).astype(np.float32))
np.save(DATA / "y.npy", noise.normal(size=(80, 6, 16)).astype(np.float32))
np.save(DATA / "i.npy", noise.integers(0, 24, size=(80, 6)).astype(np.int32))

# Heads in three groups side by side, and those of the library; columns, then rows; norms along what is split, a statistic of the batch of it, dropout in it,
# a scale of it that all shards have; a mask of positions.
PROGRAM = """
use nn, optimizers
option shards = 1
option rate = 0.05
mesh model = shards
PRECISION

data train_set = npy("x.npy", "y.npy", "i.npy") | shuffle(80) | batch(16)
data test_set  = npy("x.npy", "y.npy", "i.npy") | batch(16)

layer attention(x: float[B, T, C], heads: int) {
    q, k, v = split(dense(x, units: 3 * C, shard: columns, of: 3), 3, axis: -1)
    head = fn(t) => transpose(reshape(t, [B, T, heads, C // heads]), [0, 2, 1, 3])
    y = scaled_dot_product_attention(head(q), head(k), head(v), causal: true, dropout_rate: DROPOUT)
    return dense(reshape(transpose(y, [0, 2, 1, 3]), [B, T, C]), units: C, shard: rows)
}

layer wide(x: float[B, T, C], units: int) {
    param scale: f32[units] = normal(stddev: 0.5)
    param own:   f32[C, units] = glorot_uniform(), shard: -1
    h = gelu(dense(x, units: units, shard: columns)) * scale + tanh(x @ own)
    h = relu(batch_norm(dropout(h, rate: DROPOUT)))
    h = layer_norm(h) * f32(iota([units]) + 1) / units
    return dense(h, units: C, shard: rows) + dense(concatenate([h, h], axis: -1)[:, :, :units], units: C, shard: rows, use_bias: false)
}

model Net(x: f32[B, T, 16], i: i32[B, T]) -> f32[B, T, 16] {
    param table: f32[24, 16] = normal(stddev: 0.3)
    x = x + table[i]
    for n in 0..2 {
        x = x + attention(layer_norm(x), heads: 4)
        x = x + wide(layer_norm(x), units: 32)
    }
    return multi_head_attention(x, heads: 4, shard: heads) @ (table.T @ table)
}

fn errors(x: f32[B, 6, 16], y: f32[B, 6, 16], i: i32[B, 6]) { return mean(square(Net(x, i) - y), axis: [1, 2]) }

step train(x: f32[B, 6, 16], y: f32[B, 6, 16], i: i32[B, 6]) from train_set {
    loss = errors(x, y, i)
    UPDATE
    report loss: mean(loss), greatest: max(loss)
}

step evaluate(x: f32[B, 6, 16], y: f32[B, 6, 16], i: i32[B, 6]) from test_set { report loss: mean(errors(x, y, i)) }

step predict(x: f32[B, 6, 16], i: i32[B, 6]) { return value: Net(x, i)[:, 0] }
"""

UPDATES = {
    "sgd": "minimize(loss, sgd(learning_rate: rate))",
    "clipped": "apply(adam(learning_rate: rate), clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))",
    "lamb": "minimize(loss, lamb(learning_rate: rate, weight_decay: 0.01))",
    "mixed": "minimize(loss, sgd(learning_rate: 0.1 * rate))",
}


def artifact(name, shards, *flags, dropout=0.2):
    text = PROGRAM.replace("UPDATE", UPDATES[name]).replace("DROPOUT", str(dropout))
    text = text.replace("PRECISION", "option precision: mixed_bf16" if name == "mixed" else "")
    return compile_program(text, f"{name}{shards}", "-D", f"shards={shards}", "--batch", "16", *flags)


def train(dtx, folder, *flags, devices="cpu:1x1"):
    return Run("train", dtx, "--data", DATA, "--replicas", 2, "--devices", devices, "--seed", 3, "--log-every", 1, "--checkpoint-dir", folder, *flags)


def weights_in(folder):
    """{path: floats} of the newest checkpoint."""
    data = (newest(folder) / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    return {path: np.frombuffer(data[start:], np.float32)[slice(*(at // 4 for at in tensor["data_offsets"]))]
            for path, tensor in header.items() if path != "__metadata__"}


def has_no_gradient(path):
    """The bias of keys: a softmax stays what it is whatever is added to all scores of a query. What rounding leaves, optimizers make a step of full size."""
    return re.search(r"attention(_\d)?/(dense|key)/bias$", path)


def losses(run):
    return [event["loss"] for event in run.events if event["event"] == "step"]


# ---- initial values ----
initial = {}
for shards in (1, 2, 4):
    train(artifact("sgd", shards, "-D", "rate=0.0"), FOLDER / f"initial{shards}", "--max-steps", 1)
    initial[shards] = {path: tensor for path, tensor in weights_in(FOLDER / f"initial{shards}").items() if "moving" not in path}
for shards in (2, 4):
    for path, tensor in initial[1].items():
        check(tensor.tobytes() == initial[shards][path].tobytes(), f"{path}: other initial values with {shards} shards than with one")
print(f"initial values of {len(initial[1])} tensors are the same for 1, 2 and 4 shards", flush=True)

# ---- numbers, and bits ----
for name in UPDATES:
    one = None
    for shards in (1, 2, 4):
        dtx = artifact(name, shards)
        folder = FOLDER / f"{name}{shards}"
        trained = train(dtx, folder / "ck", "--epochs", 2)
        found = losses(trained), weights_in(folder / "ck")
        one = one or found
        most = max(np.abs(tensor).max() for tensor in one[1].values())
        off, worst = max((np.abs(one[1][path] - tensor).max() / most, path) for path, tensor in found[1].items()
                         if name in ("sgd", "mixed") or not has_no_gradient(path))
        off_losses = max(abs(a - b) / abs(b) for a, b in zip(*(pair[0] for pair in (found, one))))
        near = 1e-5 if name == "sgd" else 2e-2 if name == "mixed" else 1e-3 # what is divided by its own size carries rounding on
        check(len(found[0]) == 6 and off <= near and off_losses <= near, f"{name}: {shards} shards: losses {off_losses}, {worst} {off} off: {found[0]}")
        bits = left_by(folder / "ck")
        train(dtx, folder / "two", "--epochs", 2, devices="cpu:2x1")
        check(left_by(folder / "two") == bits, f"{name}: {shards} shards on two devices leave other bits than on one")
        train(dtx, folder / "cut", "--epochs", 2, "--max-steps", 3, devices="cpu:1x2")
        train(dtx, folder / "cut", "--epochs", 2, "--resume")
        check(left_by(folder / "cut") == bits, f"{name}: {shards} shards, interrupted, leave other bits")
        print(f"{name}: {shards} shards: losses within {off_losses:.1e}, weights within {off:.1e} of one's; the same bits in 3 layouts", flush=True)
    reports = []
    for shards in (1, 2, 4):
        read = Run("evaluate", artifact(name, shards), "--data", DATA, "--replicas", 2, "--global-batch", 16, "--checkpoint-dir", FOLDER / f"{name}1" / "ck")
        reports.append([event["loss"] for event in read.events if event["event"] == "epoch"])
    check(all(abs(r[0] - reports[0][0]) <= 1e-2 * abs(reports[0][0]) for r in reports), f"{name}: what one has trained the others evaluate to {reports}")


# ---- small programs: a body of a model each, and what is minimized ----
SMALL = """
use nn, losses, optimizers
option shards = 1
mesh model = shards
launch two = 2
data train_set = npy("x.npy", "y.npy", "i.npy") | batch(16)

model Net(x: f32[B, 6, 16], i: i32[B, 6]) -> f32[B, 6, 16] {
    param w: f32[16, 16] = glorot_uniform(), shard: 1
    param v: f32[16, 16] = glorot_uniform(), shard: 0
    param u: f32[16, 16] = glorot_uniform()
    BODY
}

step train(x: f32[B, 6, 16], y: f32[B, 6, 16], i: i32[B, 6]) from train_set {
    found = Net(x, i)
    loss  = mean(square(found - y), axis: [1, 2])
    UPDATE
    report loss: mean(loss)
}
"""
DESCENT = "minimize(loss, sgd(learning_rate: 0.1))"
PAIRS = "left = Net(x, i)[:, 0]\n    right = Net(y, i)[:, 1]\n    minimize(loss + 0.1 * mean(square(left @ right.T), axis: 1), sgd(learning_rate: 0.01))"
SLOPES = "slope = grad(sum(square(found)), x)\n    minimize(sum(square(slope), axis: [1, 2]), sgd(learning_rate: 0.01))"
CASES = {
    "parts of two inputs": ("return relu(x @ v) + (f32(i)[:, :, newaxis] * ones([16])) @ v + x @ w", DESCENT),
    "what is split beside what is whole": ("return concatenate([x, x], axis: -1) @ concatenate([v, u], axis: 0) + x @ w", DESCENT),
    "positions of a launch value": ("return concatenate([x @ w, x], axis: -1) @ concatenate([v, gather(u, iota([16]) % 8 + i64(two), axis: 0)], axis: 0)", DESCENT),
    "nothing of it": ("h = x @ w\n    return concatenate([h[:, :, :0], h @ v], axis: -1) + sum(reshape(h[:, :0], [B, 0, 4, 4]), axis: 1)[:, :1, :1]", DESCENT),
    "all pairs of rows": ("return tanh(x @ u) @ w", PAIRS),
    "memory that a whole value leaves": ("param p: f32[16, 32] = normal(stddev: 0.2)\n    param r: f32[32, 16] = normal(stddev: 0.2)\n    "
                                         "param t: f32[24, 32] = normal(stddev: 0.2), shard: 1, of: 2\n    return tanh(x @ p + t[i]) @ r", SLOPES),
    "rows of an embedding": ("return tanh(x + embedding(i, rows: 24, width: 16, shard: vocabulary)) @ w", DESCENT),
    "a vocabulary": ("param t: f32[24, 16] = normal(stddev: 0.5), shard: 0\n    return tanh(x + t[i]) @ w",
                     "minimize(loss + mean(sparse_categorical_crossentropy(i, found @ Net.t.T), axis: 1), sgd(learning_rate: 0.1))"),
    "convolutions": ("h = relu(batch_norm(conv2d(reshape(x, [B, 6, 4, 4]), filters: 10, kernel: 3, padding: same, shard: columns)))\n"
                     "    h = conv2d(max_pool2d(h, size: 2, stride: 1), filters: 8, kernel: [2, 1], shard: rows)\n    h = conv2d(h, filters: 8, kernel: 1, groups: 4, shard: columns)\n"
                     "    g = conv1d(conv1d(x, filters: 12, kernel: 3, padding: causal, shard: columns), filters: 16, kernel: 2, padding: same, shard: rows)\n"
                     "    c = conv3d(reshape(x, [B, 6, 4, 2, 2]), filters: 7, kernel: [3, 1, 2], shard: columns)\n"
                     "    return x @ w + conv3d(c, filters: 16, kernel: [2, 4, 1], shard: rows)[:, :1, 0, 0] + g + mean(h, axis: [1, 2, 3], keep: true)[:, :, 0]", DESCENT),
    "a loop, which gathers": ("z = x @ w\n    last, all = scan(fn(h, x) => [tanh(h @ v + x @ w), h], z[:, 0], z)\n    return all + last[:, newaxis]", DESCENT),
    "rows in the middle": ("return tanh(x @ w) @ v + reverse(x @ w, axis: 2)", "slopes = grad(objective(loss), params(Net))\n    "
                           "apply(sgd(learning_rate: 0.1), grad(objective(loss) + square(global_norm(slopes)), params(Net)))"),
}
for name, (body, update) in CASES.items():
    one = None
    for shards in (1, 2, 4):
        folder = FOLDER / name.replace(" ", "-") / str(shards)
        dtx = compile_program(SMALL.replace("BODY", body).replace("UPDATE", update), folder.parent.name + str(shards), "-D", f"shards={shards}")
        train(dtx, folder, "--max-steps", 2, "--check-numerics")
        found = weights_in(folder)
        one = one or found
        most = max(np.abs(tensor).max() for tensor in one.values())
        off, worst = max((np.abs(tensor - found[path]).max() / most, path) for path, tensor in one.items())
        check(off <= 1e-5, f"{name}: {worst} of {shards} shards is {off} off that of one")
    print(f"{name}: the weights of 1, 2 and 4 shards agree", flush=True)

# ---- dtc run: variables are whole ----
weights = {path: noise.normal(size=(16, 16)).astype(np.float32) for path in ("Net/w", "Net/v", "Net/u")}
given = []
for path, tensor in weights.items():
    np.save(FOLDER / f"{path[-1]}.npy", tensor)
    given += ["--variable", f"{path}={FOLDER / path[-1]}.npy"]
for name in "xyi":
    np.save(FOLDER / f"few-{name}.npy", np.load(DATA / f"{name}.npy")[:7])
    given += ["--input", FOLDER / f"few-{name}.npy"]
(FOLDER / "naive.dt").write_text(SMALL.replace("BODY", "return tanh(x @ w) @ v + (x @ w) @ u").replace("UPDATE", DESCENT))
after = {}
for shards in (1, 2, 4):
    plan = FOLDER / f"naive{shards}.plan"
    for words in (["compile", FOLDER / "naive.dt", "-D", f"shards={shards}", "--emit=kernels", "-o", plan],
                  ["run", plan, "--plan", "train", *given, "-o", FOLDER / f"naive{shards}"]):
        done = subprocess.run(["dtc", *map(str, words)], capture_output=True, text=True)
        check(done.returncode == 0, f"dtc {words[0]} with {shards} shards: {done.stderr}")
    after[shards] = {path: np.load(FOLDER / f"naive{shards}" / f"{path.replace('/', '.')}.npy") for path in weights}
    check(all(np.allclose(after[shards][path], after[1][path], rtol=0, atol=1e-5) for path in weights), f"dtc run: other weights by {shards} shards")
print("dtc run: the same weights by 1, 2 and 4 shards", flush=True)

finish()
