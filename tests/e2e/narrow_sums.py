"""narrow_sums: sums of f16 and bf16 are added up in f32 and rounded once, wherever they are added up: in registers, in memory, over the rows of a batch, over
the iterations of a scan, and by an index. Added one by one in their own type, ones stop at 2,048 and at 256.

The interpreter and compiled code, on one and three replicas, against NumPy.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

N, ROWS, TRIPS = 3000, 6, 700
STEP = """
step of_TYPE(x: f32[B, 3000], image: f32[B, 60, 60, 1], index: i32[B, 3000], wave: f32[B, 700, 1]) {
    one     = TYPE(x)
    table   = TYPE(ones([4, 1]))
    kernel  = TYPE(ones([3, 3, 1, 2]))
    w       = TYPE(ones([3000, 2]))
    bias    = TYPE(ones([1]))
    named   = f32(gather(table, index))
    pairs   = f32(gather(one, index[:, 0:2], axis: 1))
    product = f32(one @ w)
    edges   = f32(ops.conv2d(TYPE(image), kernel))
    last, all = scan(fn(h, row) => [h, f32(TYPE(row) * bias)], zeros([B, 1]), wave)
    return row_sum: f32(sum(one, axes: [1])), column_sum: f32(sum(one, axes: [0])), product: product,
           product_slope: f32(grad(sum(product), w)), kernel_slope: f32(grad(sum(edges), kernel)),
           table_slope: f32(grad(sum(named), table)), scan_slope: f32(grad(sum(all), bias)), pair_slope: f32(grad(sum(pairs), one)),
           scattered: f32(ops.scatter_add(one, index, axis: 1, size: 4)), counted: f32(ops.scatter_add(TYPE(wave), index[:, 0], axis: 0, size: 4))
}
"""
checks = Checks()
program = write("".join(STEP.replace("TYPE", t) for t in ("f16", "bf16", "f32")))
artifact = compile(program, batch=ROWS)
given = {"input/x": np.ones((ROWS, N)), "input/image": np.ones((ROWS, 60, 60, 1)), "input/wave": np.ones((ROWS, TRIPS, 1))}
given = {key: value.astype(np.float32) for key, value in given.items()} | {"input/index": np.ones((ROWS, N), np.int32)}
at_one = np.array([0, 1, 0, 0])
wanted = {"row_sum": np.full(ROWS, N), "column_sum": np.full(N, ROWS), "product": np.full((ROWS, 2), N), "product_slope": np.full((N, 2), ROWS),
          "kernel_slope": np.full((3, 3, 1, 2), 58 * 58 * ROWS), "table_slope": ROWS * N * at_one[:, None], "scan_slope": [ROWS * TRIPS],
          "pair_slope": 2 * np.eye(N)[[1] * ROWS], "scattered": N * at_one[None] * np.ones((ROWS, 1)),
          "counted": ROWS * at_one[:, None, None] * np.ones((1, TRIPS, 1))}  # fmt: skip
for t, half_unit in (("f16", 2.0**-11), ("bf16", 2.0**-9), ("f32", 0)):
    runs = {"interpreted": interpret(program, f"of_{t}", given)}
    for v in (1, 3):
        runs[f"compiled, {v} replicas"] = execute(artifact, f"of_{t}", given, replicas=v)
    for how, found in runs.items():
        for name, value in wanted.items():
            checks.near(f"{t}, {name}, {how}", found[f"result/{name}"].reshape(np.shape(value)), value, relative=2 * half_unit)
checks.finish()
