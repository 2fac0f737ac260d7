"""sharded: programs whose parameters processes have in shares (--shard-parameters), and their trainings beside those of one process that has all."""
import os
import pathlib
import tempfile

import layouts
import mpi
from training import FOLDER, check

EXAMPLES = pathlib.Path(os.environ["DT_SOURCE"]) / "examples"
SHARED = "--shard-parameters"

# Three layers of the runtime's, dropout in each; an embedding that is the last product's weights as well; a norm of all gradients.
NET = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

layer part(x: f32[B, N]) {
    return x + dropout(dense(layer_norm(x), units: N, activation: tanh), rate: 0.2)
}

model Net(a: f32[B, 6]) -> f32[B, 300] {
    param table: f32[300, 270] = normal(stddev: 0.1)
    PENALTY
    x = table[i32(abs(a[:, 0]) * 50) % 300] + dense(a, units: 270)
    for i in 0..3 { x = part(x) }
    return layer_norm(x) @ table.T
}

fn errors(a: f32[B, 6], b: f32[B, 6]) { return mean(square(Net(a) - b[:, :1]), axis: 1) }

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = errors(a, b)
    UPDATE
    report loss: mean(loss), greatest: max(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(errors(a, b))
}

step predict(a: f32[B, 6], b: f32[B, 6]) {
    return value: Net(a)[:, 0]
}
"""

# Takes a parameter whole, and once a step.
PENALTY = "regularize(0.001 * sum(square(table)) + 0.01 * max(abs(table)))"

# The same by kernels of a loop, of which each takes another one.
LOOP = """param other: f32[270, 300] = normal(stddev: 0.1)
    last, _ = scan(fn(u, i) => [tanh(other @ tanh(table @ u)), sum(u, axis: 1)], ones([270, 1]) * 0.01, length: 3)
    scale = stop_gradient(1 + 0.01 * tanh(sum(square(last))))"""

UPDATES = {
    "clipped": "apply(adam(learning_rate: 0.01), clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))",
    "lamb": "minimize(loss, lamb(learning_rate: 0.01, beta_2: 0.99, weight_decay: 0.01))",
    "penalty": "minimize(loss, sgd(learning_rate: 0.01))",
    "loop": "minimize(loss, sgd(learning_rate: 0.01))",
}

# Statistics of the batch cut the step into segments, which take their parameters one after another.
NORMS = """
use nn, losses, optimizers

data train_set = idx("train-images-idx3-ubyte", "train-labels-idx1-ubyte") | shuffle(60) | batch(24)
data test_set  = idx("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte") | batch(24)

model Net(image: u8[B, 28, 28]) -> f32[B, 10] {
    x = max_pool2d(max_pool2d(f32(image)[:, :, :, newaxis] / 255))
    for n in [64, 128, 128] { x = relu(batch_norm(conv2d(x, filters: n, kernel: 3, padding: same))) }
    return dense(mean(x, axis: [1, 2]), units: 10)
}

step train(image: u8[B, 28, 28], label: u8[B]) from train_set {
    loss = sparse_categorical_crossentropy(label, Net(image))
    minimize(loss, adam(learning_rate: 0.001))
    report loss: mean(loss)
}

step evaluate(image: u8[B, 28, 28], label: u8[B]) from test_set {
    report loss: mean(sparse_categorical_crossentropy(label, Net(image)))
}
"""

# Both models once more, of which one makes what the other looks at.
GAN_EVALUATE = """
data test_set = idx("t10k-images-idx3-ubyte") | batch(16)

step evaluate(image: u8[B, 28, 28]) from test_set {
    report loss: mean(Discriminator(f32(image)[..., newaxis] / 127.5 - 1) - Discriminator(Generator(normal([B, 64]))))
}
"""

# Rows of all replicas are laid out for a layer as weights are: there are more of them than of one.
ROWS = """
use nn, optimizers
option precision: mixed_bf16

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

layer attends(x: f32[B, N]) { return x + softmax(dense(x, units: N) @ x.T * 0.1) @ x }

model Net(a: f32[B, 6]) -> f32[B, 280] {
    x = dense(dense(a, units: 280), units: 280, activation: tanh)
    return dense(dense(attends(x), units: 280, activation: tanh), units: 280)
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = mean(square(Net(a) - b[:, :1]), axis: 1)
    minimize(loss, sgd(0.01))
    report loss: mean(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(mean(square(Net(a) - b[:, :1]), axis: 1))
}
"""

# The second loss goes through the first one's model as it was and as it has become, whose weights are laid out and shared out.
TWICE = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

layer part(x: f32[B, I], units: int) {
    param v: f32[I, units] = normal(stddev: 0.1)
    return x @ (v / stop_gradient(sqrt(sum(square(v)))))
}

model First(a: f32[B, 6]) -> f32[B, 1100] { return tanh(dense(a, units: 1100)) }
model Second(x: f32[B, 1100]) -> f32[B, 1100] { return dense(tanh(part(x, units: 64)), units: 1100) }

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    y = Second(First(a))
    loss = mean(square(y - b[:, :1]), axis: 1)
    minimize(loss, adam(0.01), over: params(Second))
    minimize(mean(square(y * Second(First(a)) - b[:, 1:2]), axis: 1), sgd(0.01), over: params(First))
    report loss: mean(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(mean(square(Second(First(a)) - b[:, :1]), axis: 1))
}
"""

# A model's layers are called again and again, with others between: a microbatch comes by the same stage many times.
AGAIN = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

layer cell(x: f32[B, N]) { return x + dense(x, units: N, activation: tanh) }

model Cells(a: f32[B, 264]) -> f32[B, 264] { return cell(cell(a)) }

model Net(a: f32[B, 6]) -> f32[B, 1] {
    x = dense(a, units: 264)
    for i in 0..2 { x = dense(Cells(x), units: 264, activation: tanh) }
    return dense(x + Cells(x), units: 1)
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = mean(square(Net(a) - b[:, :1]), axis: 1)
    minimize(loss, adam(learning_rate: 0.003))
    report loss: mean(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(mean(square(Net(a) - b[:, :1]), axis: 1))
}
"""

# Loops one after another, the first of which begins with what another layer makes, which then takes what the loop has made behind it.
RECURRENT = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

layer cell(state: f32[B, N], x: f32[B, N]) {
    next = tanh(dense(state, units: N) + dense(x, units: N, use_bias: false))
    return next, next
}

layer recurrent(x: f32[B, T, N], start: f32[B, N]) {
    last, all = scan(fn(state, x) => cell(state, x), start, x)
    return all
}

model First(x: f32[B, 264]) -> f32[B, 264] { return dense(x, units: 264, activation: tanh) }

model Net(a: f32[B, 6]) -> f32[B, 1] {
    start = First(dense(a, units: 264))
    x = reshape(dense(a, units: 3 * 264), [B, 3, 264])
    y = recurrent(x, start)
    z = recurrent(y + start[:, newaxis], start * y[:, 1])
    return dense(z[:, 2] * start + First(y[:, 2]), units: 1)
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = mean(square(Net(a) - b[:, :1]), axis: 1)
    minimize(loss, adam(learning_rate: 0.003))
    report loss: mean(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(mean(square(Net(a) - b[:, :1]), axis: 1))
}
"""

# A model in shards: columns, then rows, with dropout between; a norm of all gradients.
SPLIT = """
use nn, optimizers

mesh model = 4

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

layer part(x: f32[B, N]) {
    h = dropout(dense(layer_norm(x), units: 2 * N, activation: tanh, shard: columns), rate: 0.2)
    return x + dense(h, units: N, shard: rows)
}

model Net(a: f32[B, 6]) -> f32[B, 1] {
    x = dense(a, units: 32)
    for i in 0..2 { x = part(x) }
    return dense(x, units: 1)
}

fn errors(a: f32[B, 6], b: f32[B, 6]) { return mean(square(Net(a) - b[:, :1]), axis: 1) }

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = errors(a, b)
    apply(adam(learning_rate: 0.01), clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))
    report loss: mean(loss), greatest: max(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(errors(a, b))
}

step predict(a: f32[B, 6], b: f32[B, 6]) {
    return value: Net(a)[:, 0]
}
"""


# Rows of a table that all have, of one of which each shard has some columns, and of one of which it has some rows; WRONG of what is split.
LOOKUP = """
use nn, optimizers

mesh model = 4

data train_set = npy("i.npy", "b.npy") | batch(24)

model Net(i: i32[B, 3]) -> f32[B, 1] {
    param table: f32[20, 8] = normal(stddev: 0.1)
    param own:   f32[20, 32] = normal(stddev: 0.1), shard: -1
    param rows:  f32[20, 8] = normal(stddev: 0.1), shard: 0
    h = dense(sum(table[i] + rows[i], axis: 1), units: 32, shard: columns)
    return dense(dense(WRONG + sum(own[i], axis: 1), units: 8, shard: rows), units: 1)
}

step train(i: i32[B, 3], b: f32[B, 6]) from train_set {
    loss = mean(square(Net(i) - b[:, :1]), axis: 1)
    minimize(loss, sgd(learning_rate: 0.01))
    report loss: mean(loss)
}
"""

# Neither 4 nor 2 shards can share 63, 27 or 7 evenly.
PADDED = SPLIT.replace("2 * N", "2 * N - 1").replace("x = dense(a, units: 32)", """param table: f32[27, 32] = normal(stddev: 0.1), shard: 0
    x = dense(a, units: 32) + table[i32(abs(a[:, 0]) * 9) % 27]
    h = conv2d(reshape(x, [B, 8, 4, 1]), filters: 7, kernel: 3, padding: same, activation: relu, shard: columns)
    x = x + flatten(conv2d(h, filters: 1, kernel: 3, padding: same, shard: rows))""").replace("dense(x, units: 1)", "max(x @ table.T, axis: 1, keep: true)")

# What shards give together of a microbatch, at the segment's end, is what is summed over microbatches.
REPORTS = """
use nn, optimizers

mesh model = 4

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

model Net(a: f32[B, 6]) {
    h = dense(a, units: 32, shard: columns)
    return dense(tanh(h), units: 1, shard: rows), h
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    y, h = Net(a)
    minimize(mean(square(y - b[:, :1]), axis: 1), sgd(learning_rate: 0.01))
    report greatest: max(h), all: sum(h)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    _y, h = Net(a)
    report least: min(h), all: sum(h)
}

step predict(a: f32[B, 6], b: f32[B, 6]) {
    y, h = Net(a)
    return value: y[:, 0], first: h[:, 0]
}
"""


def case(name, *flags):
    """NET with one of the updates; "norms", "gpt", "gan", "rows", "twice", "again", "recurrent", "split", "every": of all optimizers."""
    if name in UPDATES:
        text = NET.replace("UPDATE", UPDATES[name]).replace("PENALTY", {"penalty": PENALTY, "loop": LOOP}.get(name, ""))
        if name == "loop":
            text = text.replace("dense(a, units: 270)", "scale * dense(a, units: 270)")
        return layouts.Case(name + "".join(flags), text, 24, *flags, inputs=["a.npy", "b.npy"])
    if name == "gpt":
        for part, n in (("train", 4000), ("valid", 1000)):
            (layouts.DATA / f"{part}.txt").write_text("a rose is a rose is a rose, " * (n // 28))
        return layouts.Case(name, (EXAMPLES / "gpt.dt").read_text(), 8, "-D", "layers=3", "-D", "width=96", "-D", "context=32", *flags)
    if name == "gan":
        return layouts.Case(name, (EXAMPLES / "gan.dt").read_text().replace(".gz", "") + GAN_EVALUATE, 16, *flags)
    if name in ("rows", "twice"):
        return layouts.Case(name, ROWS if name == "rows" else TWICE, 24, *flags, rows=12)
    if name == "split":
        between = "x + dense(dense(x, units: 512, activation: tanh, shard: columns), units: 264, shard: rows)"  # columns and rows can be cut apart
        return layouts.Case(name, SPLIT.replace("units: 32", "units: 264").replace("part(x) }", between + " }"), 24, *flags, inputs=["a.npy", "b.npy"])
    if name in ("again", "recurrent"):
        return layouts.Case(name, AGAIN if name == "again" else RECURRENT, 24, *flags)
    if name == "every":
        return layouts.Case(name, (EXAMPLES.parent / "tests/programs/every_optimizer.dt").read_text(), 24, *flags)
    return layouts.Case(name, NORMS, 24, *flags)


def train(case, n, folder, *flags, replicas=6, devices="cpu:1x1", expect=0):
    """Output of `n` processes that train into the folder."""
    done = mpi.run("openmpi", n, ["dtrun", "train", case.artifact, *case.flags(replicas), "--devices", devices, "--seed", 3, "--checkpoint-dir", folder,
                                  *flags])
    check(done.returncode == expect, f"{case.name}, {n} processes {flags}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"


def goes_on(case, replicas, turns):
    """Stopped in mid-epoch, and gone on with in another layout each time; turns: (processes, devices, flags)."""
    wanted = layouts.train_one(case, replicas)[0]
    folder = new_folder()
    for i, (n, devices, *flags) in enumerate(turns):
        end = ["--max-steps", i + 1] if i + 1 < len(turns) else []
        train(case, n, folder, "--epochs", 2, *flags, *end, *(["--resume"] if i > 0 else []), replicas=replicas, devices=f"cpu:{devices}x1")
    check(layouts.left_by(folder) == wanted, f"{case.name}: {turns}, one after another, end with other bits than one")
    print(f"{case.name}, V={replicas}: {len(turns)} layouts, with and without shares, one after another, agree with one", flush=True)
