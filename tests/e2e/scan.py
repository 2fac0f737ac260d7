"""scan: loops in the graph, against PyTorch's LSTM and GRU, against the same written out iteration by iteration, and what a body may not hold."""

import os
import subprocess
import sys

import numpy as np
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, compile, execute, interpret, write

checks = Checks()

# Weights as PyTorch lays them out.
CELLS = """
use nn, optimizers
fn lstm(state: list, x, ih, hh, b, c) {
    gates = split(x @ ih.T + b + state[0] @ hh.T + c, 4)
    memory = sigmoid(gates[1]) * state[1] + sigmoid(gates[0]) * tanh(gates[2])
    hidden = sigmoid(gates[3]) * tanh(memory)
    return [hidden, memory], hidden
}
fn gru(state: list, x, ih, hh, b, c) {
    of_x = split(x @ ih.T + b, 3)
    of_h = split(state[0] @ hh.T + c, 3)
    update = sigmoid(of_x[1] + of_h[1])
    candidate = tanh(of_x[2] + sigmoid(of_x[0] + of_h[0]) * of_h[2])
    hidden = (1 - update) * candidate + update * state[0]
    return [hidden], hidden
}
"""
TORCH = """
layer recurrent(x: f32[B, T, I], units: int, gates: int, cell: function, states: int) {
    param weight_ih_l0: f32[gates * units, I] = zeros()
    param weight_hh_l0: f32[gates * units, units] = zeros()
    param bias_ih_l0: f32[gates * units] = zeros()
    param bias_hh_l0: f32[gates * units] = zeros()
    init = []
    for i in 0..states { init = init + [zeros([x.shape[0], units])] }
    state, hidden = scan(fn(s, row) => cell(s, row, weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0), init, x)
    return state[0], hidden
}
model Net(x: f32[B, 28, 5]) { return recurrent(x, units: 7, gates: GATES, cell: CELL, states: STATES) }
step train(x: f32[B, 28, 5], t: f32[B, 7]) {
    last, hidden = Net(x)
    e = mean(square(last - t), axis: 1)
    minimize(e, sgd(learning_rate: 0.5))
    report loss: mean(e)
}
step run(x: f32[B, 28, 5]) {
    last, hidden = Net(x)
    return hidden: hidden
}
"""
PREFIX = "variable/Net/recurrent/"


def torch_twin(name, gates, states):
    golden = load_file(os.path.join(SOURCE, "tests", "golden", "scan", f"{name}.safetensors"))
    source = write(CELLS + TORCH.replace("GATES", str(gates)).replace("CELL", name).replace("STATES", str(states)))
    before = {PREFIX + path[7:]: array for path, array in golden.items() if path.startswith("before.")}
    hidden = interpret(source, "run", {"input/x": golden["x"], **before}, rows=6)["result/hidden"]
    checks.near(f"{name}: hidden", hidden, golden["hidden"], relative=1e-5, absolute=1e-6)
    x, t = (np.concatenate([golden[key]] * 3) for key in "xt")  # a batch of six rows, three times
    trained = interpret(source, "train", {"input/x": x, "input/t": t, **before}, rows=6)
    checks.near(f"{name}: losses", trained["report/loss"], golden["losses"], relative=1e-5)
    for path, array in golden.items():
        if path.startswith("after."):
            checks.near(f"{name}: {path}", trained[PREFIX + path[6:]], array, relative=1e-5, absolute=1e-5)


# One program three ways: in a loop of the graph, written out by `for`, and compiled. SCAN is what differs.
WAYS = CELLS + """
layer rows(x: f32[B, 4, 3], units: int) {
    param ih: f32[4 * units, 3] = glorot_uniform()
    param hh: f32[4 * units, units] = glorot_uniform()
    param b: f32[4 * units] = zeros()
    zero = zeros([x.shape[0], units])
SCAN
    return state[0] + state[1], mean(all, axis: 1)
}
model Net(x: f32[B, 4, 3]) { return rows(x, units: 5) }
step train(x: f32[B, 4, 3], t: f32[B, 5]) {
    p, q = Net(x)
    minimize(square(p - t) + q, sgd(learning_rate: 0.2))
    return p: p, q: q
}
# a gradient of a gradient
step penalty(x: f32[B, 4, 3], t: f32[B, 5]) {
    p, q = Net(x)
    g = grad(sum(p * t) + sum(q * q), x)
    minimize(sum(square(g), axes: [1, 2]), sgd(learning_rate: 0.2))
    return g: g
}
"""
SCAN = """
    state, all = scan(fn(s, row) => lstm(s, row, ih, hh, b, b), [zero, zero], x, reverse: REVERSE)
"""
WRITTEN_OUT = """
    state = [zero, zero]
    parts = []
    for i in 0..4 {
        at = 3 - i if REVERSE else i
        state, h = lstm(state, x[:, at, :], ih, hh, b, b)
        parts = parts + [h[:, newaxis, :]]
    }
    all = concatenate(parts, axis: 1)
"""


def written_out(reverse):
    random = np.random.RandomState(3)
    rows = 5
    given = {"input/x": random.standard_normal((2 * rows, 4, 3)).astype(np.float32), "input/t": random.standard_normal((2 * rows, 5)).astype(np.float32)}
    scan, loop = (write(WAYS.replace("SCAN", text).replace("REVERSE", reverse)) for text in (SCAN, WRITTEN_OUT))
    for step in ("train", "penalty"):
        one, other = (interpret(program, step, given, rows=rows) for program in (scan, loop))
        for key, value in other.items():
            checks.near(f"{step}, reverse {reverse}, {key}", one[key], value, relative=1e-5, absolute=1e-6)
    if reverse == "true":
        return
    artifact = compile(scan, batch=rows)
    one = interpret(scan, "train", given, rows=rows)
    runs = [execute(artifact, "train", given, rows=rows, replicas=2, devices=devices) for devices in ("cpu:1x1", "cpu:2", "cpu:1x2")]
    whole = execute(artifact, "train", given, rows=rows)
    for key, value in one.items():
        checks.near(f"compiled, {key}", whole[key], value, relative=1e-5, absolute=1e-6)
        for found in runs[1:]:
            checks.that(np.array_equal(runs[0][key], found[key]), f"{key} has other bits on other devices")
    wanted, found = interpret(scan, "penalty", given, rows=rows), execute(artifact, "penalty", given, rows=rows)
    for key, value in wanted.items():
        checks.near(f"compiled, a gradient of a gradient, {key}", found[key], value, relative=1e-5, absolute=1e-6)


# Scans within scans, over a list, without anything to scan, of integers, with other random numbers in each iteration.
SHAPES = """
use nn
step sums(x: i64[B, 3, 2], y: f32[B, 3]) {
    total, so_far = scan(fn(s, row) => inner(s, row), full([x.shape[0]], 0, dtype: i64), x)
    count, numbers = scan(fn(n, i) => [n + i, n * i], full([], 0, dtype: i64), length: 5, axis: 0)
    back, places = scan(fn(n, i) => [n, i], full([], 0, dtype: i64), length: 3, axis: 0, reverse: true)
    columns = transpose(y, [1, 0])
    begin = [zeros([x.shape[0]]), zeros([x.shape[0]])]
    last, both = scan(fn(s, p) => [[s[0] + p[0], p[1]], [p[0] * s[1], s[0]]], begin, [columns, 2 * columns], axis: 0)
    drawn, each = scan(fn(s, r) => [s, uniform([x.shape[0], 4])], zeros([]), length: 6)
    return total: total, so_far: so_far, count: count, numbers: numbers, places: places, sum: last[0], last: last[1], products: transpose(both[0], [1, 0]),
        each: each
}
fn inner(s, row) {
    s, all = scan(fn(s, x) => twice(s + x), s, row)
    return s, all
}
fn twice(x) { return x, x }
"""


def shapes():
    x = np.arange(24, dtype=np.int64).reshape(4, 3, 2)
    y = np.arange(12, dtype=np.float32).reshape(4, 3)
    source = write(SHAPES)
    given = {"input/x": x, "input/y": y}
    ways = {"interpreter": interpret(source, "sums", given, rows=4), "compiled": execute(compile(source, batch=4), "sums", given, rows=4)}
    for how, found in ways.items():
        checks.that(np.array_equal(found["result/total"], x.sum((1, 2))), f"{how}: total")
        checks.that(np.array_equal(found["result/so_far"], x.reshape(4, 6).cumsum(1).reshape(4, 3, 2)), f"{how}: so_far")
        checks.that(found["result/count"].item() == 10 and found["result/numbers"].ravel().tolist() == [0, 0, 2, 9, 24], f"{how}: numbers {found['result/numbers']}")
        checks.that(found["result/places"].ravel().tolist() == [0, 1, 2], f"{how}: places {found['result/places']}")
        before = np.hstack([np.zeros((4, 1)), 2 * y[:, :-1]])
        checks.near(f"{how}: products", found["result/products"], y * before, relative=1e-6)
        checks.near(f"{how}: sum", found["result/sum"], y.sum(1), relative=1e-6)
        checks.near(f"{how}: last", found["result/last"], 2 * y[:, -1], relative=1e-6)
        each = found["result/each"]
        checks.that(len(np.unique(each)) == each.size, f"{how}: an iteration draws what another one drew")
    checks.that(np.array_equal(ways["interpreter"]["result/each"], ways["compiled"]["result/each"]), "other random numbers in compiled code")


# An LSTM as long as an image is high, in a loop and iteration by iteration; and an outer loop whose body has one, with what both share.
NESTED = """
use nn, optimizers
layer walk(x: f32[B, 5, 4, 3]) {
    param w: f32[3, 3] = glorot_uniform()
    param u: f32[3, 3] = glorot_uniform()
    last, all = OUTER
    return last + mean(all, axis: 1)
}
fn outer(h, rows, w, u) {
    state, inner = INNER
    return state * 0.5 + h @ u, mean(inner, axis: 1)
}
fn step_of(s, row, w, h) {
    next = tanh(row @ w + s * h)
    return next, next * h
}
model Net(x: f32[B, 5, 4, 3]) { return walk(x) }
step train(x: f32[B, 5, 4, 3]) {
    y = Net(x)
    minimize(sum(square(y - 1), axis: 1), sgd(learning_rate: 0.1))
    return y: y
}
step penalty(x: f32[B, 5, 4, 3]) {
    y = Net(x)
    g = grad(sum(y * y), x)
    minimize(sum(square(g), axes: [1, 2, 3]), sgd(learning_rate: 0.1))
    return g: g
}
"""
OUTER = "scan(fn(h, rows) => outer(h, rows, w, u), zeros([B, 3]), x)"
INNER = "scan(fn(s, row) => step_of(s, row, w, h), h, rows, reverse: true)"


def of_length(length, scan):
    """The program over so many rows."""
    text = WAYS.replace("SCAN", scan).replace("REVERSE", "false")
    return write(text.replace("4, 3]", f"{length}, 3]").replace("0..4", f"0..{length}"))


def long():
    random = np.random.RandomState(4)
    given = {"input/x": random.standard_normal((10, 28, 3)).astype(np.float32), "input/t": random.standard_normal((10, 5)).astype(np.float32)}
    wanted, found = interpret(of_length(28, WRITTEN_OUT), "train", given, rows=5), execute(compile(of_length(28, SCAN), batch=5), "train", given, rows=5)
    for key, value in wanted.items():
        checks.near(f"28 iterations, {key}", found[key], value, relative=1e-5, absolute=1e-6)


def nested():
    x = np.random.RandomState(5).standard_normal((8, 5, 4, 3)).astype(np.float32)
    source = write(NESTED.replace("OUTER", OUTER).replace("INNER", INNER))
    artifact = compile(source, batch=4)
    for step in ("train", "penalty"):
        wanted, found = interpret(source, step, {"input/x": x}, rows=4), execute(artifact, step, {"input/x": x}, rows=4)
        for key, value in wanted.items():
            checks.near(f"nested, {step}, {key}", found[key], value, relative=1e-5, absolute=1e-6)


def plan_of_train(example, *options):
    plan = subprocess.run(["dtc", "compile", "--emit=plan", *options, os.path.join(SOURCE, "examples", example)], capture_output=True, text=True).stdout
    return plan[plan.index("\ntrain:") :]


def plan_says_what_is_kept():
    """Forwards both states are carried; of each iteration the gradients need four gates, the tangent of the memory, and both states before it, which are
    kept with the state after the last one."""
    train = plan_of_train("lstm.dt")
    bytes_of_a_state = 16 * 128 * 4  # a microbatch's
    checks.that(f"loop 0: 28 times 2 kernels, carries 2, stacks 7 in {(7 * 28 + 2) * bytes_of_a_state:,} bytes\n" in train, train)


def plan_says_what_is_computed_again():
    """1 - z of the gate z, in each of two layers. The states before and after, which are one stack, two gates, the candidate, and what the product makes
    of it are kept, by the layer that goes backwards too."""
    bytes_of_a_state = 16 * 64 * 4  # a microbatch's
    for options, stacks, again in (([], 5, 2), (["-O", "no-rematerialize"], 6, 0)):
        train = plan_of_train("gru.dt", *options)
        kept = f"carries 1, stacks {stacks} in {(stacks * 28 + 1) * bytes_of_a_state:,} bytes\n"
        checks.that(train.count(kept) == 2 and train.count(", computes 1 again\n") == again, train)


def loops_of_train(plan):
    return [line.strip() for line in plan.split("\n") if line.startswith(" loop ")][:2]


def less_precision_is_no_other_loop():
    """Weights in sixteen bits are made once, not stacked; so both loops stay loops, with as many kernels, carries and stacks, of half the size."""
    of = lambda line: line.split(" in ")[0]
    whole = [of(line) for line in loops_of_train(plan_of_train("lstm.dt"))]
    for precision in ("mixed_bf16", "mixed_f16"):
        found = [of(line) for line in loops_of_train(plan_of_train("lstm.dt", "--precision", precision))]
        checks.that(found == whole and len(found) == 2, f"{precision}: {found}, f32: {whole}")


# What plans have of a loop grows with no trip count.
def compile_time():
    for length in (28, 100):
        source = of_length(length, SCAN)
        for precision in ("f32", "mixed_f16"):
            before = os.times()
            compile(source, batch=5, precision=precision)
            seconds = os.times().children_user - before.children_user
            checks.that(seconds < 2, f"{length} iterations of {precision} take {seconds} s of a core to compile")


# Weights that the body makes of weights, each value twice of the one before.
GROWN = """
use nn, optimizers
fn grown(w) {
    for i in 0..30 { w = tanh(w) * (1 - w) }
    return w
}
layer cell(s, row) {
    param w: f32[4, 4] = glorot_uniform()
    y = tanh(s @ grown(w) + row)
    return y, y
}
model M(x: f32[B, 5, 4]) {
    last, all = scan(fn(s, row) => cell(s, row), zeros([B, 4]), x)
    return last
}
step train(x: f32[B, 5, 4]) {
    y = M(x)
    minimize(mean(y * y, axis: 1), sgd(learning_rate: 0.1))
    return y: y
}
"""


def weights_of_weights():
    """They are not stacked, and what is the same in all iterations is found out in no more time than there are values."""
    source = write(GROWN)
    x = np.random.RandomState(6).standard_normal((4, 5, 4)).astype(np.float32)
    before = os.times()
    artifact = compile(source, batch=4)
    checks.that(os.times().children_user - before.children_user < 2, "weights made of weights take more than 2 s to compile")
    wanted, found = interpret(source, "train", {"input/x": x}, rows=4), execute(artifact, "train", {"input/x": x}, rows=4)
    for key, value in wanted.items():
        checks.near(f"weights of weights, {key}", found[key], value, relative=1e-5, absolute=1e-6)
    plan = subprocess.run(["dtc", "compile", "--emit=plan", source], capture_output=True, text=True).stdout
    checks.that("loop 0: 5 times 1 kernel, carries 1, stacks 1 in " in plan, plan)


def refused(text, sentence):
    done = subprocess.run(["dtc", "compile", write("use nn, optimizers\n" + text), "-o", os.devnull], capture_output=True, text=True)
    checks.that(done.returncode == 1 and sentence in done.stderr, f"wanted: {sentence}\ngot {done.returncode}: {done.stderr}")


def refusals():
    refused("step s(x: f32[B, 3]) { a, b = scan(fn(s, x) => [s + mean(x), none], zeros([]), x)\n return a: sum(x) + a }", ".dt:2:53: error: in the body of scan a value is made of all rows")
    refused(
        "step s(x: f32[B, 3]) { a, b = scan(fn(s, r) => [[s[0] + f32(r), s[1] * s[0]], none], [zeros([]), zeros([x.shape[0]])], length: 70000)\n"
        "return a: a[0], b: a[1] }",
        "too many to compile",
    )


torch_twin("lstm", 4, 2)
torch_twin("gru", 3, 1)
written_out("false")
written_out("true")
long()
nested()
plan_says_what_is_kept()
plan_says_what_is_computed_again()
less_precision_is_no_other_loop()
compile_time()
weights_of_weights()
shapes()
refusals()
checks.finish()
