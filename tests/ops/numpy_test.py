"""Every row of the op table against its own NumPy expression, evaluated here in double, on what ops_table computed from random operands.

numpy_test.py [SEED]. A row without a case or expression fails; so does a planted error that goes unnoticed.
"""
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

DTYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i8": np.int8, "u8": np.uint8, "i32": np.int32, "i64": np.int64, "bool": np.bool_}
MANTISSA = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}
SMALLEST = {"f64": -1022, "f32": -126, "f16": -14, "bf16": -126}  # exponents of normal numbers
INFINITE = {"f64": np.inf, "f32": 2.0**128, "f16": 65520.0, "bf16": 2.0**128}  # from here on numbers are rounded to infinity


# ---- what NumPy lacks, written as plainly as it can be ----

def erf(x):
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def convert(x, to):
    if to == "bool":
        return x != 0
    if to in MANTISSA:
        return x.astype(np.float64)
    info = np.iinfo(DTYPES[to])
    if x.dtype.kind == "f":  # the greatest integer may not be a double, the one above it is
        inside = np.where((x > info.min) & (x < float(info.max)), x, 0).astype(DTYPES[to])
        return np.where(x <= info.min, info.min, np.where(x >= float(info.max), info.max, inside))
    return x.astype(DTYPES[to])


def iota(shape, axis):
    rows = ROW_OFFSET if "B" in CASE and SYMBOLIC_AXIS == axis else 0
    return np.broadcast_to(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape) + rows


def launch(name):
    return np.int64(LAUNCH[name])


def argmin(x, axes, keep):
    return argmax(x, axes, keep, np.argmin)


def argmax(x, axes, keep, find=np.argmax):
    rest = [d for d in range(x.ndim) if d not in axes]
    flat = np.transpose(x, rest + axes).reshape([x.shape[d] for d in rest] + [math.prod(x.shape[d] for d in axes)])
    found = find(flat, axis=-1)
    return found.reshape([1 if d in axes else x.shape[d] for d in range(x.ndim)]) if keep else found


def rounded(x, precision):
    """A factor of a product: to nearest with 10 bits behind the point, ties away from 0 (tf32), or with 7, ties to even (bf16)."""
    if precision == "f32":
        return x
    fraction, exponent = np.frexp(x)  # x = fraction * 2**exponent, 0.5 <= |fraction| < 1
    scaled = np.ldexp(fraction, 11 if precision == "tf32" else 8)
    nearest = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled) if precision == "tf32" else np.rint(scaled)
    return np.ldexp(nearest, exponent - (11 if precision == "tf32" else 8))


def matmul(a, b, transpose_a, transpose_b):
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    return np.matmul(a, np.swapaxes(b, -1, -2) if transpose_b else b)


def dot_general(a, b, a_batch, b_batch, a_contract, b_contract):
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    a_names, b_names = [None] * a.ndim, [None] * b.ndim
    for i, j in list(zip(a_batch, b_batch)) + list(zip(a_contract, b_contract)):
        a_names[i] = b_names[j] = next(letters)
    a_names = [name or next(letters) for name in a_names]
    b_names = [name or next(letters) for name in b_names]
    batch = [a_names[i] for i in a_batch]
    free = [n for i, n in enumerate(a_names) if i not in a_batch + a_contract] + [n for i, n in enumerate(b_names) if i not in b_batch + b_contract]
    return np.einsum("".join(a_names) + "," + "".join(b_names) + "->" + "".join(batch + free), a, b)


def taps_of(image, kernel, strides, padding, dilation):
    """(the result's shape, [(place of the result, tap, place of the image)]) in all directions, where the image has that place."""
    shape, directions = [], []
    for i, extent in enumerate(image):
        n = (extent + padding[2 * i] + padding[2 * i + 1] - dilation[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        places = [(o, k, o * strides[i] + k * dilation[i] - padding[2 * i]) for o in range(n) for k in range(kernel[i])]
        shape.append(n)
        directions.append([p for p in places if 0 <= p[2] < extent])
    return shape, [tuple(zip(*places)) for places in itertools.product(*directions)]


def convolution(x, kernel, strides, padding, dilation):
    n = len(strides)
    shape, taps = taps_of(x.shape[1 : n + 1], kernel.shape[:n], strides, padding, dilation)
    y = np.zeros((x.shape[0], *shape) + kernel.shape[n + 1 :])
    for o, k, i in taps:
        y[:, *o] += np.einsum("b...i,i...o->b...o", x[:, *i], kernel[k])
    return y


def convolution_input_gradient(g, kernel, size, strides, padding, dilation):
    n = len(size)
    _, taps = taps_of(size, kernel.shape[:n], strides, padding, dilation)
    x = np.zeros((g.shape[0], *size) + kernel.shape[n + 1 : -1] + (kernel.shape[n],))
    for o, k, i in taps:
        x[:, *i] += np.einsum("b...o,i...o->b...i", g[:, *o], kernel[k])
    return x


def convolution_kernel_gradient(x, g, size, strides, padding, dilation):
    n = len(size)
    _, taps = taps_of(x.shape[1 : n + 1], size, strides, padding, dilation)
    kernel = np.zeros((*size, x.shape[-1]) + g.shape[n + 1 :])
    for o, k, i in taps:
        kernel[k] += np.einsum("b...i,b...o->i...o", x[:, *i], g[:, *o])
    return kernel


def windows(x, size, strides, padding, outside):
    """[B, OH, OW, C, size]: each window's elements, row-major."""
    padded = np.pad(x.astype(np.float64), [(0, 0), tuple(padding[:2]), tuple(padding[2:]), (0, 0)], constant_values=outside)
    views = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(1, 2))[:, :: strides[0], :: strides[1]]
    return views.reshape(views.shape[:4] + (math.prod(size),))


def max_pool2d(x, size, strides, padding):
    return windows(x, size, strides, padding, -np.inf).max(-1)


def max_pool2d_index(x, size, strides, padding):
    return windows(x, size, strides, padding, -np.inf).argmax(-1)


def sum_pool2d(x, size, strides, padding):
    return windows(x, size, strides, padding, 0).sum(-1)


def window_gather(x, index, size, strides, padding):
    view = windows(x, size, strides, padding, 0)
    inside = (index >= 0) & (index < view.shape[-1])
    return np.where(inside, np.take_along_axis(view, np.where(inside, index, 0)[..., None], -1)[..., 0], 0)


def spread(g, index, input, size, strides, padding):
    """Each window adds g at the position that index names, or everywhere when it is None."""
    x = np.zeros((g.shape[0], input[0] + sum(padding[:2]), input[1] + sum(padding[2:]), g.shape[3]))
    for o in range(g.shape[1]):
        for p in range(g.shape[2]):
            for k in range(size[0]):
                for l in range(size[1]):
                    chosen = True if index is None else index[:, o, p] == k * size[1] + l
                    x[:, o * strides[0] + k, p * strides[1] + l] += np.where(chosen, g[:, o, p], 0)
    return x[:, padding[0] : padding[0] + input[0], padding[2] : padding[2] + input[1]]


def sum_pool2d_gradient(g, input, size, strides, padding):
    return spread(g, None, input, size, strides, padding)


def window_scatter(g, index, input, size, strides, padding):
    return spread(g, index, input, size, strides, padding)


def broadcast(x, shape, dims):
    return np.broadcast_to(x.reshape([x.shape[dims.index(d)] if d in dims else 1 for d in range(len(shape))]), shape)


def slice_(x, starts, limits, steps):
    return x[tuple(slice(*one) for one in zip(starts, limits, steps or [1] * x.ndim))]


def pad(x, low, high, value, steps):
    for axis in range(x.ndim):
        step = steps[axis] if steps else 1
        n = (x.shape[axis] - 1) * step + 1 + low[axis] + high[axis]
        y = np.full(x.shape[:axis] + (n,) + x.shape[axis + 1 :], value, x.dtype)
        for i in range(x.shape[axis]):
            place = (slice(None),) * axis
            if 0 <= low[axis] + i * step < n:
                y[place + (low[axis] + i * step,)] = x[place + (i,)]
        x = y
    return x


def gather(x, index, axis):
    inside = (index >= 0) & (index < x.shape[axis])
    y = np.zeros(index.shape + x.shape[axis + 1 :], x.dtype)
    for place in np.ndindex(index.shape):
        if inside[place]:
            y[place] = x[place[:axis] + (int(index[place]),)]
    return y


def scatter_add(updates, index, axis, size):
    y = np.zeros(index.shape[:axis] + (size,) + updates.shape[index.ndim :], updates.dtype)
    for place in np.ndindex(index.shape):
        if 0 <= index[place] < size:
            y[place[:axis] + (int(index[place]),)] += updates[place]
    return y


def philox(counter, key):
    """Word 0 of Philox4x32-10, from the paper, on integers of any size."""
    mask = (1 << 32) - 1
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c[0]


def random_uniform(shape, stream):
    mask = (1 << 32) - 1
    key = (LAUNCH["seed"] ^ stream) & ((1 << 64) - 1)
    y = np.zeros(shape)
    order = [SYMBOLIC_AXIS] if "B" in CASE else []  # B counts outermost
    order += [d for d in range(len(shape)) if d not in order]
    for place in np.ndindex(*shape):
        element = 0
        for d in order:
            element = element * shape[d] + place[d] + (ROW_OFFSET if "B" in CASE and d == SYMBOLIC_AXIS else 0)
        word = philox([element & mask, element >> 32, LAUNCH["counter"] & mask, LAUNCH["counter"] >> 32], [key & mask, key >> 32])
        y[place] = (word >> 8) * 2.0**-24
    return y


# ---- comparing ----

def load(tensor):
    if tensor["dtype"] == "bf16":
        x = (np.fromfile(tensor["file"], np.uint16).astype(np.uint32) << 16).view(np.float32)
    else:
        x = np.fromfile(tensor["file"], DTYPES[tensor["dtype"]])
    x = x.reshape(tensor["shape"])
    return x.astype(np.float64) if tensor["dtype"] in MANTISSA else x


def evaluate(case, operands):
    global LAUNCH, ROW_OFFSET, CASE, SYMBOLIC_AXIS
    LAUNCH, ROW_OFFSET, CASE = case["launch"], case["launch"]["row_offset"], case["case"]
    dims = CASE.split("shape=[")[-1].split("]")[0].split(", ")
    SYMBOLIC_AXIS = dims.index("B") if "B" in dims else None
    scope = {**globals(), **operands, **case["attributes"]}
    if "axes" in scope and "argm" not in case["numpy"]:
        scope["axes"] = tuple(scope["axes"])
    with np.errstate(all="ignore"):
        return np.asarray(eval(case["numpy"], scope))


def magnitudes(x):
    return [np.abs(one) for one in x] if isinstance(x, list) else np.abs(x) if x.dtype.kind == "f" else x


def compare(case, operands, result):
    """None, or what is wrong."""
    dtype = case["result"]["dtype"]
    expected = evaluate(case, operands)
    if list(expected.shape) != case["result"]["shape"]:
        return f"shape {case['result']['shape']}, NumPy says {list(expected.shape)}"
    if dtype not in MANTISSA:
        with np.errstate(all="ignore"):
            held = expected.astype(DTYPES[dtype])
            wrong = (result != held) | (held != expected)  # of a type that cannot hold what NumPy says, if that does not wrap around
    else:
        scale = evaluate(case, {name: magnitudes(x) for name, x in operands.items()}) if case["sums"] else np.abs(expected)
        exponent = np.maximum(np.floor(np.log2(np.maximum(scale, 1e-320))), SMALLEST[dtype])
        spacing = 2.0 ** (exponent - MANTISSA[dtype])
        near = np.abs(result - expected) <= (case["ulp"] + 0.5 + 1e-9) * spacing
        wrong = ~np.where(np.abs(expected) < INFINITE[dtype], near, result == np.copysign(np.inf, expected))
    if not wrong.any():
        return None
    place = np.unravel_index(np.argmax(wrong), wrong.shape)
    return f"at {tuple(map(int, place))}: {result[place]}, NumPy says {expected[place]}"


def planted(result):
    """The result with one element changed, or None when it has none."""
    if result.size == 0:
        return None
    wrong = result.copy()
    old = wrong.flat[result.size // 2]
    wrong.flat[result.size // 2] = old + 1 + abs(old) if result.dtype.kind == "f" else old ^ 1
    return wrong


def main():
    seed = sys.argv[1] if len(sys.argv) > 1 else "1"
    tool = pathlib.Path(os.environ.get("DT_TOOLS", "build/tests/tools")) / "ops_table"
    failures, rows = [], {}
    with tempfile.TemporaryDirectory() as folder:
        lines = subprocess.run([tool, folder, seed], check=True, capture_output=True, text=True).stdout.splitlines()
        for case in map(json.loads, lines):
            if "error" in case:
                failures.append(f"{case['case']}: {case['error']}")
                continue
            rows[case["op"]] = rows.get(case["op"], 0) + 1
            operands = {name: [load(x) for x in one] if isinstance(one, list) else load(one) for name, one in case["operands"].items()}
            result = load(case["result"])
            wrong = compare(case, operands, result)
            if wrong:
                failures.append(f"{case['case']}: {wrong}")
            elif (changed := planted(result)) is not None and not compare(case, operands, changed):
                failures.append(f"{case['case']}: a planted error went unnoticed")
    for failure in failures:
        print(failure)
    print(f"{len(rows)} rows, {sum(rows.values())} cases, {len(failures)} failures; seed {seed}")
    return 1 if failures or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
