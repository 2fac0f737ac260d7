"""constants: a constant is a number of its type, in a program's arithmetic and where it is folded: f16 and bf16 are rounded, i64 is exact.

The interpreter and compiled code against NumPy; what is CUDA text of it is in tests/ops/cuda_programs.c.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

checks = Checks()
BIG = 9007199254740993  # 2**53 + 1: no double


def bf16(x):
    """x in f32 with the eight bits that bf16 keeps, half to even."""
    bits = np.asarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)


PROGRAM = f"""
step predict(x: f32[B], l: i64[B], u: u8[B]) {{
    h = f16(x)
    b = bf16(x)
    return infinite:  f32(f16(1e6)) + 0 * x,
           product:   h * f16(3.1),
           literal:   h * 3.1,
           chosen:    where(x > 0, h, 0.1),
           folded:    x * f32(f16(3.1) * f16(1.7)),
           padded:    f32(pad(h[:, newaxis], [0, 1], [0, 0], value: 0.3)),
           sum:       f32(b + bf16(0.3)),
           beside:    f32(b * 0.7),
           plus:      l + {BIG},
           equal:     l == {BIG},
           times:     l * (i64({BIG}) * 3),
           kept:      where(l > 0, l, {BIG}),
           filled:    pad(l[:, newaxis], [0, 1], [0, 0], value: {BIG}),
           full:      l + full([1], {BIG}, dtype: i64),
           least:     u == 0,
           cut:       u + u8(2.9),
           narrow:    f32(l + {2**29}),
           small:     f32(bf16(i32(l % 1000) + 16842753)),
           average:   mean(h[:, newaxis] + full([1, 3001], 0, dtype: f16), axis: 1)
}}
"""


def expected(x, l, u):
    h = x.astype(np.float16)
    with np.errstate(over="ignore"):
        infinite = np.float32(np.float16(1e6)) + 0 * x
        times = l * (np.int64(BIG) * np.int64(3))
    return {
        "infinite": infinite,
        "product": h * np.float16(3.1),
        "literal": h * np.float16(3.1),
        "chosen": np.where(x > 0, h, np.float16(0.1)),
        "folded": x * np.float32(np.float16(3.1) * np.float16(1.7)),
        "padded": np.pad(h[:, np.newaxis], [(0, 0), (1, 0)], constant_values=np.float16(0.3)).astype(np.float32),
        "sum": bf16(bf16(x) + bf16(0.3)),
        "beside": bf16(bf16(x) * bf16(0.7)),
        "plus": l + BIG,
        "equal": l == BIG,
        "times": times,
        "kept": np.where(l > 0, l, BIG),
        "filled": np.pad(l[:, np.newaxis], [(0, 0), (1, 0)], constant_values=BIG),
        "full": l + np.full([1], BIG),
        "least": u == 0,
        "cut": u + np.uint8(2),
        "narrow": (l + 2**29).astype(np.float32),
        "small": bf16(((l % 1000).astype(np.int32) + 16842753).astype(np.float32)),
        "average": np.mean(np.broadcast_to(h[:, np.newaxis], (len(h), 3001)), axis=1),
    }


def main():
    x = np.array([1.0, -2.3, 0.1, 17.7, 300.3], np.float32)
    l = np.array([BIG - 1, BIG, BIG + 1, 0, -5], np.int64)
    u = np.array([0, 1, 128, 255, 7], np.uint8)
    given = {"input/x": x, "input/l": l, "input/u": u}
    source = write(PROGRAM)
    artifact = compile(source, batch=5)
    runs = {"interpreter": interpret(source, "predict", given), "V=1": execute(artifact, "predict", given), "V=2": execute(artifact, "predict", given, replicas=2)}
    for how, found in runs.items():
        for name, value in expected(x, l, u).items():
            got = found[f"result/{name}"]
            same = got.dtype == value.dtype and got.shape == value.shape and (got == value).all()
            checks.that(same, f"{name}, {how}: {got.dtype} {got.tolist()}, NumPy has {value.dtype} {value.tolist()}")
    checks.finish()


main()
