"""recurrent: the library's recurrent layers against Keras's (tests/golden/recurrent.safetensors): values, gradients and three updates; what Keras has no
numbers for: dropout, states that are given and returned, orthogonal matrices."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
import layer_updates
from programs import Checks, compile, execute, write

PROGRAM = """
use recurrent, optimizers
model Matrices() {
    param square: f32[16, 16] = orthogonal()
    param wide: f32[2, 3, 20] = orthogonal(gain: 2.0)
    param tall: f32[40, 8] = orthogonal()
    return square, reshape(wide, [6, 20]), tall
}
step matrices(x: f32[B]) {
    square, wide, tall = Matrices()
    return square: square.T @ square, wide: wide @ wide.T, tall: tall.T @ tall
}
# In one walk, and in two, the second of which begins where the first one ended.
model Lstm(x: f32[B, T, 3], state: list) { return lstm(x, units: 4, initial_state: state, return_state: true) }
step states(x: f32[B, 6, 3]) {
    begin = [zeros([x.shape[0], 4]), zeros([x.shape[0], 4])]
    whole, end = Lstm(x, begin)
    _, middle = Lstm(x[:, :4], begin)
    parts, last = Lstm(x[:, 4:], middle)
    return whole: whole, parts: parts, end: end[1], last: last[1]
}
# With weights of 1 and no bias the output is the sum of the sequence: where a position drops what another one keeps, that is not all or nothing.
model Sums(x: f32[B, 6, 1]) {
    return simple_rnn(x, units: 1, activation: fn(x) => x, use_bias: false, dropout: 0.5, kernel_initializer: ones, recurrent_initializer: ones)
}
step train(x: f32[B, 6, 1]) {
    y = Sums(x)
    minimize(sum(y, axis: 1), sgd(learning_rate: 0.0))
    return y: y
}
step predict(x: f32[B, 6, 1]) { return y: Sums(x) }
"""

checks = Checks()
layer_updates.compare(checks, "recurrent", "use recurrent, optimizers", relative=4e-6, absolute=4e-6)

artifact = compile(write(PROGRAM), batch=64)
found = execute(artifact, "matrices", {"input/x": np.zeros(2, np.float32)})
for name, wanted in (("square", np.eye(16)), ("wide", 4 * np.eye(6)), ("tall", np.eye(8))):
    checks.near(f"orthogonal, {name}", found[f"result/{name}"][0], wanted, relative=1e-5, absolute=1e-5)
found = execute(artifact, "states", {"input/x": np.random.RandomState(0).standard_normal((5, 6, 3)).astype(np.float32)})
for whole, parts in (("whole", "parts"), ("end", "last")):
    checks.near(f"states: {parts}", found[f"result/{parts}"], found[f"result/{whole}"], relative=1e-6, absolute=1e-6)
ones = {"input/x": np.ones((64, 6, 1), np.float32)}
sums = execute(artifact, "train", ones)["result/y"].ravel()
checks.that(set(sums) == {0.0, 12.0} and 16 < np.sum(sums > 0) < 48, f"dropout: {sums}")
checks.that(set(execute(artifact, "predict", ones)["result/y"].ravel()) == {6.0}, "dropout in a step that does not train")
checks.finish()
