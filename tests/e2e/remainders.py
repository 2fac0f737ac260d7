"""remainders: x % y is exact for all floats, with the sign of the divisor, and x // y belongs to it, beside Python's integers.

The interpreter and compiled code, on numbers over the whole range of each type, in vectors and what is left of them.
"""

import os
import sys
from fractions import Fraction

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

TYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16}  # no bf16 in NumPy: what f32 has is rounded to it
SOURCE = "\n".join(f"step of_{name}(x: {name}[B], y: {name}[B]) {{ return rest: x % y, by_three: x % 3, quotient: x // y }}" for name in TYPES) + """
step of_bf16(x: f32[B], y: f32[B]) { return rest: f32(bf16(x) % bf16(y)), by_three: f32(bf16(x) % 3), quotient: f32(bf16(x) // bf16(y)) }
"""
NAN, INF = float("nan"), float("inf")
EDGES = [0.0, -0.0, 1, -1, 3, -3, 0.1, -0.1, 1e17, -1e17, 1e20, 1e30, -3e38, 1e300, 65504, 2049, 5e-324, 1e-310, 1.4e-45, 1e-40, 6e-8, INF, -INF, NAN]


def rounded_bf16(x):
    bits = x.view(np.uint32)
    up = ((bits >> 16) & 1) + np.uint32(0x7FFF)
    return np.where(np.isnan(x), x, ((bits + up) & np.uint32(0xFFFF0000)).view(np.float32))


def rest_of(x, y):
    """The remainder with the sign of y, of numbers of one type: exact, but where the divisor is added to one of the other sign, which rounds."""
    if np.isnan(x) or np.isnan(y) or np.isinf(x) or y == 0:
        return NAN
    if np.isinf(y):
        return float(x) if x == 0 or (x < 0) == (y < 0) else float(y)
    rest = abs(Fraction(float(x))) % abs(Fraction(float(y)))
    rest = rest if x >= 0 else -rest
    return float(rest) if rest == 0 or (rest < 0) == (y < 0) else float(rest + Fraction(float(y)))


checks = Checks()
program = write(SOURCE)
artifact = compile(program, batch=700)
random = np.random.default_rng(8)
for name in (*TYPES, "bf16"):
    dtype = TYPES.get(name, np.float32)
    with np.errstate(over="ignore"):
        edges = np.array([(a, b) for a in EDGES for b in EDGES]).astype(dtype)
        bits = random.integers(0, 256, (700 - len(edges), 2, dtype().nbytes)).astype(np.uint8).view(dtype)[..., 0]
        given = np.concatenate([edges, np.where(np.isnan(bits), dtype(1), bits)])
    given = rounded_bf16(np.ascontiguousarray(given)) if name == "bf16" else given
    x, y = np.ascontiguousarray(given[:, 0]), np.ascontiguousarray(given[:, 1])
    with np.errstate(over="ignore"):
        rest = np.array([rest_of(a, b) for a, b in zip(x, y)]).astype(dtype)
        by_three = np.array([rest_of(a, 3.0) for a in x]).astype(dtype)
    if name == "bf16":
        rest, by_three = rounded_bf16(rest), rounded_bf16(by_three)
    few = np.abs(np.where(np.isfinite(x) & np.isfinite(y) & (y != 0), x, 0).astype(np.float64)) < 100 * np.abs(np.where(y == 0, 1, y).astype(np.float64))
    plain = few & np.isfinite(x) & np.isfinite(y) & (y != 0)
    quotient = np.array([float(Fraction(float(a)) // Fraction(float(b))) if p else 0 for a, b, p in zip(x, y, plain)])
    inputs = {"input/x": x, "input/y": y}
    runs = {"interpreted": interpret(program, "of_" + name, inputs), "compiled": execute(artifact, "of_" + name, inputs)}
    for how, found in runs.items():
        for key, wanted in (("rest", rest), ("by_three", by_three)):
            got = found[f"result/{key}"]
            wrong = np.flatnonzero(~((got == wanted) | (np.isnan(got) & np.isnan(wanted))))
            first = f"{x[wrong[0]]!r} by {y[wrong[0]]!r} is {got[wrong[0]]!r}, not {wanted[wrong[0]]!r}" if wrong.size else ""
            checks.that(wrong.size == 0, f"{name}, {how}, {key}: {wrong.size} are wrong, the first {first}")
        got = found["result/quotient"].astype(np.float64)
        checks.that((got == quotient)[plain].all(), f"{name}, {how}: quotients {got[plain & (got != quotient)][:5]}, not {quotient[plain & (got != quotient)][:5]}")
checks.finish()
