"""Rows of the batch that are taken from anywhere in it: indices, reversed, rolled and in a random order, and their gradients, against NumPy; interpreted,
compiled, on two and three replicas whose batch is short, over which the bits are the same on any devices."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

checks = Checks()

PROGRAM = """
model Weights() {
    param w: f32[3] = ones()
    return w
}
step s(x: f32[B, 3], i: i32[B], j: i32[B, 2], t: f32[B, 3]) {
    w = Weights()
    order = permutation(B)
    taken = sum((x * w)[i] * t + x[j][:, 1] * x, axis: 1)
    return taken: x[i], many: x[j], reversed: reverse(x, axis: 0), rolled: roll(x, 2, axis: 0), back: roll(x, -1, axis: 0), order: order, moved: x[order],
        of_x: grad(sum(taken), x), of_w: grad(sum(taken), w) + 0 * x[:, 0:1], of_reversed: grad(sum(reverse(square(x), axis: 0) * t), x)
}
step inner(x: f32[B, 5]) { return a: roll(x, 2), b: roll(x, -7, axis: 1) }
"""


def expected(x, i, j, t, order):
    of_x = np.zeros_like(x)
    np.add.at(of_x, i, t)
    np.add.at(of_x, j[:, 1], x)
    of_x += x[j[:, 1]]
    of_w = np.broadcast_to((x[i] * t).sum(0), x.shape)
    return {"taken": x[i], "many": x[j], "reversed": x[::-1], "rolled": np.roll(x, 2, 0), "back": np.roll(x, -1, 0), "moved": x[order], "of_x": of_x, "of_w": of_w,
            "of_reversed": 2 * x * t[::-1]}


def compare(how, found, x, i, j, t):
    order = found["result/order"]
    checks.that(sorted(order) == list(range(len(x))), f"{how}: {order} is no order")
    for name, value in expected(x, i, j, t, order).items():
        checks.near(f"{how}: {name}", found[f"result/{name}"], value, relative=2e-6, absolute=2e-6)


random = np.random.RandomState(3)
n = 7
x, t = random.standard_normal((2, n, 3)).astype(np.float32)
i, j = random.randint(0, n, n).astype(np.int32), random.randint(0, n, (n, 2)).astype(np.int32)
given = {"input/x": x, "input/i": i, "input/j": j, "input/t": t}
source = write(PROGRAM)
compare("interpreted", interpret(source, "s", given, rows=n), x, i, j, t)
orders = []
for rows, replicas in ((n, 1), (4, 2), (3, 3)):
    artifact = compile(source, batch=rows)
    one, other = (execute(artifact, "s", given, rows=n, replicas=replicas, devices=devices) for devices in ("cpu:1", f"cpu:{min(replicas, 2)}"))
    compare(f"{replicas} replicas", one, x, i, j, t)
    checks.that(all(np.array_equal(value, other[key]) for key, value in one.items()), f"{replicas} replicas: other bits on other devices")
    orders.append(list(one["result/order"]))
checks.that(orders[0] == orders[1] == orders[2] != list(range(n)), f"the order is another one on other replicas: {orders}")
y = random.standard_normal((2, 5)).astype(np.float32)
found = interpret(source, "inner", {"input/x": y}, rows=2)
for name, value in (("a", np.roll(y, 2, 1)), ("b", np.roll(y, -7, 1))):
    checks.that(np.array_equal(found[f"result/{name}"], value), f"roll: {name}")
checks.finish()
