"""scan_sums: what the iterations of a scan give to the gradient of what is the same in all of them is added up in f32, wherever `hoist` takes the sum.
Several products that f16 just holds have a sum that it does not; what is less than a unit in the last place of a sum of f16 or bf16 counts.

The interpreter and compiled code against NumPy.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

TYPES = ("f16", "bf16", "f32")
# Each row's gradient is the row's `scale`, in the type: so that of the kernel is the sum of products, that of the bias the sum of scales.
SOURCE = "use optimizers\n" + "\n".join(
    f"""layer cell_{t}(h, x, scale) {{
    param kernel: f32[3, 2] = zeros()
    param bias: f32[2] = zeros()
    return h + f32(({t}(x) @ {t}(kernel) + {t}(bias)) * {t}(scale))
}}
layer loop_{t}(x: f32[B, T, 3], scale: f32[B, T, 2]) {{
    last, all = scan(fn(h, xs) => [cell_{t}(h, xs[0], xs[1]), none], zeros([x.shape[0], 2]), [x, scale])
    return last
}}
model Net_{t}(x: f32[B, 5, 3], scale: f32[B, 5, 2]) {{ return loop_{t}(x, scale) }}
step of_{t}(x: f32[B, 5, 3], scale: f32[B, 5, 2]) {{
    minimize(sum(Net_{t}(x, scale), axes: [1]), sgd(learning_rate: 1))
}}"""
    for t in TYPES
)
CASES = {
    "large": (np.full((1, 5, 3), 60000), np.ones((1, 5, 2))),
    "large scales": (np.ones((2, 5, 3)), np.full((2, 5, 2), 32000)),
    "small beside large": (np.array([4096, 1, 1, 1, 1])[None, :, None] * np.ones((1, 5, 3)), np.ones((1, 5, 2))),
}

checks = Checks()
program = write(SOURCE)
artifact = compile(program, batch=2)
for case, (x, scale) in CASES.items():
    x, scale = x.astype(np.float32), scale.astype(np.float32)
    wanted = {"kernel": np.einsum("bti,bto->io", x, scale) / len(x), "bias": scale.sum((0, 1)) / len(x)}
    for t in TYPES:
        given = {"input/x": x, "input/scale": scale}
        for how, found in (("interpreted", interpret(program, f"of_{t}", given)), ("compiled", execute(artifact, f"of_{t}", given))):
            for name, value in wanted.items():
                limit = 2.0**-8 if t == "bf16" and case == "large" else 0  # x is rounded to bf16
                checks.near(f"{t}, {case}, {name}, {how}", -found[f"variable/Net_{t}/loop_{t}/cell_{t}/{name}"], value, relative=limit)
checks.finish()
