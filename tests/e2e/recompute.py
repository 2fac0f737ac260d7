"""recompute: a training whose gradients compute activations again leaves the bytes of one that keeps them, and takes less memory."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/tools"))
import weights_sha256  # noqa: E402

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
GPT_DATA = weights_sha256.write_data(FOLDER / "text", 100)
SMALL = ("-D", "layers=6", "-D", "width=32", "-D", "context=16", "--batch", "8")

# Layers of a model's own, a layer that is bound and called twice, a scan, a state, two uses of one activation, and a part that is kept.
OWN = """
use nn, losses, optimizers

data train_set = idx("images.gz", "labels.gz") | take(330) | shuffle(330) | batch(32)

layer residual(x: f32[B, C], units: int) {
    h = dropout(tanh(dense(x, units: units)), rate: 0.3)
    param scale: f32[C] = ones()
    state seen: f32 = 0
    if training { seen := seen + mean(h * h) }
    return x + scale * dense(h * sigmoid(h), units: C)
}

layer steps(x: f32[B, C]) {
    param w: f32[C // 4, C // 4] = glorot_uniform()
    last, all = scan(fn(h, row) => next_of(h, row, w), zeros([B, C // 4]), reshape(x, [B, 4, C // 4]))
    return x + reshape(all, [B, C])
}

fn next_of(h: f32[B, N], row: f32[B, N], w: f32[N, N]) {
    next = tanh(h @ w + row)
    return next, next
}

model Net(image: u8[B, 12, 12]) -> f32[B, 10] {
    twice = layer residual(units: 24)
    x = dense(flatten(f32(image) / 255), units: 32, activation: relu)
    x = residual(x, units: 48 MARK)
    x = twice(batch_norm(x) MARK)
    x = steps(x MARK)
    x = twice(x MARK)
    return dense(x, units: 10)
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    loss = sparse_categorical_crossentropy(label, Net(image))
    apply(adam(learning_rate: 1e-3), clip_by_global_norm(grad(objective(loss), params(Net)), 1.0))
    report loss: mean(loss)
}
"""


def scratch_of(program, *flags):
    """Bytes of scratch a core that step train takes."""
    text = subprocess.run(["dtc", "compile", program, "--emit=plan", *flags], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"^train:.*?([\d,]+) of scratch a core", text, re.S | re.M)[1].replace(",", ""))


def trained(name, text, data, *flags, compile_flags=()):
    folder = FOLDER / f"ck-{name}"
    Run("train", compile_program(text, name, *compile_flags), "--data", data, "--checkpoint-dir", folder, *flags)
    return left_by(folder)


def with_option(text):
    return text.replace("\nuse ", "\noption recompute: layers\nuse ", 1)


data = write_data(n=330, n_test=40)
for level in ("f32", "mixed_bf16"):
    kept = trained(f"kept-{level}", OWN.replace("MARK", ""), data, "--epochs", 2, "--replicas", 3, compile_flags=("--precision", level))
    for name, text in {"calls": OWN.replace("MARK", ", recompute: true"), "option": with_option(OWN.replace("MARK", "")),
                       "some": with_option(OWN.replace("MARK", ", recompute: false", 2).replace("MARK", ""))}.items():
        again = trained(f"{name}-{level}", text, data, "--epochs", 2, "--replicas", 3, "--devices", "cpu:2", compile_flags=("--precision", level))
        check(again == kept, f"{name}, {level}: other bytes than without")

# What a call computes again is in each case of another kind.
CASES = {
    # A sum over rows that shares no loop over the rows with what it follows any more, as it reads what crosses replicas first.
    "a sum over rows": """
layer part(x: f32[B, C]) {
    h = tanh(dense(x, units: C))
    return x + softmax(h @ h.T) @ h * max(h, axis: 0) + mean(h)
}
""",
    # The gradient's loop reads a factor in the middle of its body.
    "a factor of what a scan carries": """
layer part(x: f32[B, C]) {
    param w: f32[4, 4] = glorot_uniform()
    param u: f32[4, 4] = glorot_uniform()
    g = tanh(dense(x, units: C))
    h = sigmoid(dense(g, units: 4))
    last, _ = scan(fn(s, row) => [tanh((row * mean(h, axis: 1, keep: true)) @ w + s @ u), none], h, reshape(g, [B, 4, 4]))
    return x + dense(last * h, units: C)
}
""",
    # Indices that are made in the call, some of them out of range: each is counted once.
    "a lookup": """
layer part(x: f32[B, C]) {
    param table: f32[4, C] = glorot_uniform()
    h = dense(x, units: C)
    return tanh(h) * tanh(table[i32(h[:, 0] * 8)])
}
""",
    # Three calls, of which the second has a value that gradients compute from what its group stores, before it is known that the group has a copy.
    "a value between calls": """
fn part(x) { return third(second(first(x))) }
layer first(x: f32[B, C]) { return 2 * x + tanh(mean(x)) }
layer second(x: f32[B, C]) {
    state n: f32[C] = ones()
    y = x * n + x * n
    e = exp(-y * y)
    m = maximum(e, x)
    return e + m * m
}
layer third(x: f32[B, C]) {
    c = conv2d(reshape(x, [B, 4, 4, 1]), filters: 2, kernel: 3, padding: same, stride: 2)
    return tanh(dense(flatten(c), units: C) + x)
}
""",
}
CALLS = """
use nn, losses, optimizers

data train_set = idx("images.gz", "labels.gz") | take(330) | batch(16)
LAYER
model Net(image: u8[B, 12, 12]) -> f32[B, 10] {
    x = dense(flatten(f32(image) / 255), units: 16)
    x = part(x MARK)
    x = part(x MARK)
    return dense(x, units: 10)
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    loss = sparse_categorical_crossentropy(label, Net(image))
    minimize(loss, adam(learning_rate: 1e-2))
    report loss: mean(loss)
}
"""


def ran(name, text, data):
    """What a short training leaves, and what it says."""
    folder = tempfile.mkdtemp(dir=FOLDER)
    run = Run("train", compile_program(text, name), "--data", data, "--checkpoint-dir", folder, "--max-steps", 3, "--replicas", 2, "--log-every", 1,
              "--bad-index", "ignore")
    return left_by(folder), [e["loss"] for e in run.all("step")], [e["message"] for e in run.all("warning")]


for what, layer in CASES.items():
    text = CALLS.replace("LAYER", layer)
    kept = text.replace("MARK", "")
    left = [ran(what.replace(" ", "-"), of, data) for of in (kept, text.replace("MARK", ", recompute: true"), with_option(kept))]
    check(left[1] == left[0] and left[2] == left[0], f"{what}: {left[1][1:]}, {left[2][1:]}, kept {left[0][1:]}")

gpt = (SOURCE / "examples/gpt.dt").read_text()
call = "block(x, heads: heads)"
check(call in gpt, "examples/gpt.dt calls its blocks in another way")
programs = {"kept": gpt, "calls": gpt.replace(call, "block(x, heads: heads, recompute: true)"), "option": with_option(gpt),
            "none": with_option(gpt).replace(call, "block(x, heads: heads, recompute: false)")}
flags = ("--max-steps", 4, "--replicas", 2, "--global-batch", 16)
left = {name: trained(f"gpt-{name}", text, GPT_DATA, *flags, compile_flags=SMALL) for name, text in programs.items()}
check(len({bytes_of for bytes_of in left.values()}) == 1, "GPT: other bytes where blocks are computed again")
scratch = {name: scratch_of(FOLDER / f"gpt-{name}.dt", *SMALL) for name in programs}
print(scratch)
check(scratch["calls"] == scratch["option"] and scratch["none"] == scratch["kept"], f"calls and the option: {scratch}")
check(scratch["calls"] < 0.5 * scratch["kept"], f"memory: {scratch}")
scratch = {name: scratch_of(FOLDER / f"gpt-{name}.dt", *SMALL, "--target", "cuda") for name in ("kept", "calls")}
print("on a GPU", scratch)
check(scratch["calls"] < 0.5 * scratch["kept"], f"memory of a GPU: {scratch}")
finish()
