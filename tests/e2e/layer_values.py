"""Layers that are bound by `layer`: a flow goes forward and, its layers in reverse, back to where it came from; NumPy finds the parameters by the names
that the language gives them, and computes the same. Names, states, shared gradients, layers as arguments, what is never called; lists run backwards."""

import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, compile, execute, interpret, run, write

ROWS = 8
checks = Checks()


def dense(given, path, x):
    return x @ given[f"variable/{path}/kernel"] + given[f"variable/{path}/bias"]


def flow(given, x):
    """What Flow makes of x, forward, from the parameters by their names."""
    for i in range(6):
        kept, changed = (x[:, 2:], x[:, :2]) if i % 2 else (x[:, :2], x[:, 2:])
        h = np.tanh(dense(given, f"Flow/blocks_{i}/dense", kept))
        changed = changed * np.exp(np.tanh(dense(given, f"Flow/blocks_{i}/dense_1", h))) + dense(given, f"Flow/blocks_{i}/dense_2", h)
        x = np.concatenate([changed, kept] if i % 2 else [kept, changed], axis=1)
    return x


source = os.path.join(SOURCE, "tests/programs/flow.dt")
artifact = compile(source, batch=ROWS)
chance = np.random.default_rng(3)
given = {"input/x": chance.standard_normal((20 * ROWS, 4)).astype(np.float32)}
trained = {name: array for name, array in execute(artifact, "train", given, rows=ROWS, seed=1).items() if name.startswith("variable/")}
given = {"input/x": given["input/x"][:ROWS], **trained}
for name, found in ("interpreter", interpret(source, "check", given, rows=ROWS)), ("compiled", execute(artifact, "check", given, rows=ROWS)):
    checks.near(f"{name}: there", found["result/there"], flow(given, given["input/x"]), 0, absolute=1e-5)
    checks.near(f"{name}: and back", found["result/back"], given["input/x"], 0, absolute=1e-5)
    checks.that(np.abs(found["result/there"] - given["input/x"]).mean() > 0.1, "the flow does nothing")
checks.that(run(["dtc", "check", source]), "")

MODELS = """use nn, optimizers

layer twice(x: f32[B, 4], f: function) { return f(f(x)) }
fn ends(width) {
    inner = layer dense(units: width)
    return [inner, layer dense(units: width, use_bias: false) as outer]
}
layer stack(x: f32[B, 4]) {
    c = layer dense(units: 4)
    return c(c(x))
}
model Net(x: f32[B, 4], swapped: bool = false) {
    norm = layer nn.batch_norm(momentum: 0.5)
    body = layer stack()
    wide = [layer dense(units: 4), layer dense(units: 4)]
    c = layer dense(units: 4, activation: tanh) if swapped or not swapped else none
    x = twice(x, c) + stack(x)
    for i in 0..2 {
        skip = layer dense(units: 4)
        x = x + skip(x)
    }
    first, last = ends(4)
    for f in [wide[1], first, wide[0]] if swapped else [wide[0], first, wide[1]] { x = x + f(x) }
    y = last(norm(norm(x))) @ c.kernel + body(x) + dense(x, units: 4)
    return layer dense(units: 1)(y)[:, 0]
}
step train(x: f32[B, 4]) {
    y = Net(x) - Net(x, swapped: true)
    minimize(y * y, sgd(1e-2))
    report loss: mean(y * y)
}
step predict(x: f32[B, 4]) { return y: Net(x), z: Net(x, swapped: true) }
"""
NAMES = """Net/norm/moving_mean Net/norm/moving_variance Net/norm/gamma Net/norm/beta Net/body/c/kernel Net/body/c/bias Net/stack/c/kernel Net/stack/c/bias
Net/wide_0/kernel Net/wide_0/bias Net/wide_1/kernel Net/wide_1/bias Net/c/kernel Net/c/bias Net/skip_0/kernel Net/skip_0/bias Net/skip_1/kernel
Net/skip_1/bias Net/inner/kernel Net/inner/bias Net/outer/kernel Net/dense/kernel Net/dense/bias Net/dense_1/kernel Net/dense_1/bias""".split()

program = write(MODELS)
given = {"input/x": chance.standard_normal((ROWS, 4)).astype(np.float32)}
found = interpret(program, "train", given, rows=ROWS, seed=1)
names = sorted(name.removeprefix("variable/") for name in found if name.startswith("variable/Net/"))
checks.that(names == sorted(NAMES), f"names: {set(names) ^ set(NAMES)}")
variables = {name: array for name, array in found.items() if name.startswith("variable/")}
compiled = execute(compile(program, batch=ROWS), "predict", {**variables, **given}, rows=ROWS)
for name, array in interpret(program, "predict", {**variables, **given}, rows=ROWS).items():
    if name.startswith("result/"):
        checks.near(name, compiled[name], array, 0, absolute=1e-4)
checks.that(not np.allclose(compiled["result/y"], compiled["result/z"]), "the order of two layers changes nothing")

# Two calls in training: two updates of the moving mean, from the same statistics.
two = write("""use nn
model Net(x: f32[B, 3]) {
    norm = layer batch_norm(momentum: 0.5)
    return norm(x) + norm(x)
}
step train(x: f32[B, 3]) {
    y = Net(x)
    apply(o(), grad(objective(y), params(Net)))
    report y: mean(y)
}
optimizer o() { update (p, g) { p := p - g } }
""")
x = chance.standard_normal((ROWS, 3)).astype(np.float32)
moved = interpret(two, "train", {"input/x": x}, rows=ROWS)["variable/Net/norm/moving_mean"]
checks.near("two calls move the mean twice", moved, 0.75 * x.mean(axis=0), 0, absolute=1e-6)

# A gradient through both calls of one layer: d/dk of k (k x) is 2 k x.
power = write("""layer scaled(x: f32[B]) {
    param k: f32 = 3
    return k * x
}
model Net(x: f32[B]) {
    c = layer scaled()
    return c(c(x))
}
step train(x: f32[B]) {
    apply(o(), grad(objective(Net(x)), params(Net)))
    report k: last(Net.c.k)
}
optimizer o() { update (p, g) { p := p - g } }
""")
moved = interpret(power, "train", {"input/x": np.full(ROWS, 0.25, np.float32)}, rows=ROWS)["variable/Net/c/k"].item()
checks.near("the gradient of both calls", moved, np.float32(3 - 2 * 3 * 0.25), 0, absolute=1e-6)

# Never called: a warning, and no parameters.
lazy = write("""use nn
model Net(x: f32[B, 3]) {
    unused = layer dense(units: 3)
    return dense(x, units: 1)
}
step predict(x: f32[B, 3]) { return y: Net(x) }
""")
done = subprocess.run(["dtc", "summary", lazy], capture_output=True, text=True)
checks.that(done.returncode == 0 and ":3:20: warning: Net/unused is bound and never called" in done.stderr, done.stderr)
checks.that("parameters   4:" in done.stdout, done.stdout)

# Lists run backwards, as Python's do.
ends = [None, *range(-7, 8)]
slices = [(a, b, c) for a in ends for b in ends for c in (None, -9, -3, -2, -1, 1, 2, 9)]
lines = []
for a, b, c in slices:
    text = ":".join("" if part is None else str(part) for part in (a, b, c))
    lines.append(f'if l[{text}] != {list(range(5))[a:b:c]} {{ error("l[{text}]") }}')
checks.that(run(["dtc", "compile", "--emit=ir", write("fn check(l) {\n" + "\n".join(lines) + "\n}\nstep s(x: f32[B]) {\ncheck(0..5)\nreturn y: x\n}\n")]), "")
checks.finish()
