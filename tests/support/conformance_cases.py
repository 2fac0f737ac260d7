"""conformance_cases: for each op of the table what it is applied to where its conformance is tested, in every element type.

Elements are the same numbers in all float types: they have 8 significant bits and lie within f16's range, so one set of exact gradients serves them all
(tests/golden/op_gradients.py). What is at the ends of one type alone is added for values.
"""
import itertools
import math
import re
import zlib

import numpy as np

MANTISSA = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}
GREATEST = {"f64": np.finfo(np.float64).max, "f32": float(np.finfo(np.float32).max), "f16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127}
LEAST_NORMAL = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126}
INTEGERS = {"i8": np.int8, "u8": np.uint8, "i32": np.int32, "i64": np.int64}
N_RANDOM = 24
INF, NAN = math.inf, math.nan

# Zeros, infinities, NaN, ties of every pair with itself, halves, f16's greatest power and its least numbers.
EDGES = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 6.0, -6.0, 64.0, -64.0, 32768.0, -32768.0,
         2.0**-10, -(2.0**-10), 2.0**-14, 2.0**-24, -(2.0**-24)]  # fmt: skip
PAIRED_EDGES = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 0.5, -2.0, 3.0, 0.125, 32768.0]

# Where random numbers are drawn from, if not from -10 to 10: of each operand, or of all.
DOMAINS = {
    "divide": [(-10, 10), (0.5, 10)], "floor_divide": [(-10, 10), (0.5, 3)], "remainder": [(-10, 10), (0.5, 3)], "power": [(0.25, 4), (-3, 3)],
    "exp": [(-8, 8)], "expm1": [(-8, 8)], "log": [(0.25, 10)], "log1p": [(-0.75, 10)], "sqrt": [(0.25, 10)], "rsqrt": [(0.25, 10)],
    "tanh": [(-4, 4)], "erf": [(-3, 3)], "reduce_product": [(0.5, 1.5)],
}  # fmt: skip
# Elementwise rows of floats with two operands.
PAIRS = ("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "minimum", "maximum")

# Rows that are not elementwise. T is the element type; the sets of elements are drawn below.
SHAPED = {
    "constant": ["constant(; value=1, shape=[3], dtype=T)", "constant(; value=0, shape=[2], dtype=T)"],
    "iota": ["iota(; shape=[3, 5], axis=1, dtype=T)", "iota(; shape=[130], axis=0, dtype=T)"],
    "launch": ['launch(; name="steps_per_epoch")'],
    "random_uniform": ["random_uniform(; shape=[3, 5], stream=7)"],
    "reduce_sum": ["reduce_sum(T[3, 4, 5]; axes=[0, 2])"],
    "reduce_product": ["reduce_product(T[4, 5]; axes=[1])"],
    "reduce_max": ["reduce_max(T[3, 4, 5]; axes=[0, 2])"],
    "reduce_min": ["reduce_min(T[3, 4, 5]; axes=[0, 2], keep=true)"],
    "reduce_all": ["reduce_all(T[3, 4]; axes=[1])"],
    "reduce_any": ["reduce_any(T[3, 4]; axes=[1])"],
    "argmax": ["argmax(T[3, 4, 5]; axes=[0, 2])"],
    "argmin": ["argmin(T[3, 4, 5]; axes=[0, 2])"],
    "matmul": ["matmul(T[3, 5], T[4, 5]; transpose_b=true)"],
    "dot_general": ["dot_general(T[3, 2, 5], T[5, 3, 4]; a_batch=[0], b_batch=[1], a_contract=[2], b_contract=[0])"],
    "conv2d": ["conv2d(T[1, 5, 4, 2], T[2, 3, 2, 3]; strides=[2, 1], padding=[1, 0, 1, 1])"],
    "conv2d_input_gradient": ["conv2d_input_gradient(T[1, 3, 4, 3], T[2, 3, 2, 3]; size=[5, 4], strides=[2, 1], padding=[1, 0, 1, 1])"],
    "conv2d_kernel_gradient": ["conv2d_kernel_gradient(T[1, 5, 4, 2], T[1, 3, 4, 3]; size=[2, 3], strides=[2, 1], padding=[1, 0, 1, 1])"],
    "conv3d": ["conv3d(T[1, 3, 4, 3, 2], T[2, 2, 3, 2, 3]; padding=[1, 0, 0, 1, 1, 1])"],
    "conv3d_input_gradient": ["conv3d_input_gradient(T[1, 3, 4, 3, 3], T[2, 2, 3, 2, 3]; size=[3, 4, 3], padding=[1, 0, 0, 1, 1, 1])"],
    "conv3d_kernel_gradient": ["conv3d_kernel_gradient(T[1, 3, 4, 3, 2], T[1, 3, 4, 3, 3]; size=[2, 2, 3], padding=[1, 0, 0, 1, 1, 1])"],
    "max_pool2d": ["max_pool2d(T[1, 5, 4, 2]; size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])"],
    "max_pool2d_index": ["max_pool2d_index(T[1, 5, 4, 2]; size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])"],
    "sum_pool2d": ["sum_pool2d(T[1, 5, 4, 2]; size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])"],
    "sum_pool2d_gradient": ["sum_pool2d_gradient(T[1, 3, 4, 2]; input=[5, 4], size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])"],
    "window_gather": ["window_gather(T[1, 5, 4, 2], i32[1, 3, 4, 2]; size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])"],
    "window_scatter": ["window_scatter(T[1, 3, 4, 2], i32[1, 3, 4, 2]; input=[5, 4], size=[3, 2], strides=[2, 1], padding=[1, 1, 0, 1])"],
    "reshape": ["reshape(T[3, 4]; shape=[2, 6])"],
    "transpose": ["transpose(T[3, 2, 4]; permutation=[2, 0, 1])"],
    "broadcast": ["broadcast(T[3, 1]; shape=[2, 3, 4], dims=[1, 2])"],
    "slice": ["slice(T[5, 7]; starts=[1, 0], limits=[5, 6], steps=[2, 1])"],
    "pad": ["pad(T[3, 4]; low=[1, 0], high=[0, 2], value=1, steps=[2, 1])"],
    "concatenate": ["concatenate(T[3, 2], T[3, 4]; axis=1)"],
    "reverse": ["reverse(T[3, 4]; axes=[1])"],
    "gather": ["gather(T[5, 3], i32[7]; axis=0)"],
    "scatter_add": ["scatter_add(T[7, 3], i32[7]; axis=0, size=4)"],
}
# Sets of elements that shaped rows are given besides random ones: what the elements of float operands are drawn from.
SHAPED_EDGES = {
    "ties": [1.0, 1.0, 2.0, -1.0, 2.0],
    "zeros": [0.0, -0.0, 0.0, 1.5, -2.0],
    "infinities": [1.0, -2.0, 0.5, 3.0, 1.0, 2.0, INF],
    "either infinity": [1.0, 0.5, 3.0, 2.0, INF, -INF, 0.0],
    "NaN": [1.0, -2.0, 0.5, 3.0, 4.0, 2.0, NAN],
    "large": [250.0, 254.0, 224.0, 1.0, 2.0],
    "small": [2.0**-7, 2.0**-8, -(2.0**-10), 2.0**-6],
}


def source(*names):
    return np.random.default_rng(zlib.crc32(" ".join(map(str, names)).encode()))


def to_bits(x, n=8):
    """Rounded to n significant bits."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(fraction, n)), exponent - n)


def extremes(dtype):
    info = np.iinfo(INTEGERS[dtype])
    return sorted({info.min, info.min + 1, info.min // 2, -7, -1, 0, 1, 2, 3, 7, info.max // 2 + 1, info.max - 1, info.max} & set(range(0, 256))
                  if dtype == "u8" else {info.min, info.min + 1, info.min // 2, -7, -1, 0, 1, 2, 3, 7, info.max // 2 + 1, info.max - 1, info.max})  # fmt: skip


def ends(dtype):
    """Where one float type ends, which others go beyond or do not reach."""
    most, least, unit = GREATEST[dtype], LEAST_NORMAL[dtype], 2.0 ** -MANTISSA[dtype]
    return [most, -most, most / 2, most * (1 - unit), least, -least, least / 2, least * unit, -least * unit, 1 + unit, 1 - unit / 2]


def random_numbers(op, operand, n):
    domains = DOMAINS.get(op, [(-10, 10)])
    return to_bits(source(op, operand).uniform(*domains[min(operand, len(domains) - 1)], n))


class Case:
    """One function: a text of op_cases.h, its operands, and where the random ones of them end."""

    def __init__(self, name, text, dtypes, operands, n_sets, n_random, shape):
        self.name, self.text, self.dtypes, self.operands = name, text, dtypes, operands  # operands: [elements of all sets]
        self.n_sets, self.n_random = n_sets, n_random  # elements of a map, sets of others, that are random
        self.shape = shape  # of each operand


def map_case(op, words, dtype, to=None):
    """Of an elementwise row: a vector of random elements and one of edges behind it."""
    dtypes = ["bool" if word == "bool" else dtype for word in words]
    n = len([word for word in words if word != "bool"]) or len(words)
    wide = [k for k, word in enumerate(words) if word != "bool" or n == len(words)]
    if dtype == "bool":
        grid = list(itertools.product([False, True], repeat=len(wide)))
    elif dtype in INTEGERS:
        grid = list(itertools.product(extremes(dtype), repeat=len(wide)))
    else:
        grid = list(itertools.product(EDGES if len(wide) == 1 else PAIRED_EDGES, repeat=len(wide)))
    rows = {k: [row[i] for row in grid] for i, k in enumerate(wide)}
    if dtype in MANTISSA and op != "where":
        more = ends(dtype)
        for i, k in enumerate(wide):
            rows[k] += more if i == 0 else more[1:] + more[:1]
    columns = []
    n_edges = len(rows[wide[0]])
    for k in range(len(words)):
        if dtypes[k] == "bool":
            random = source(op, k).integers(0, 2, N_RANDOM).astype(bool)
            edges = np.array(rows[k] if k in rows else np.arange(n_edges) % 2, bool)
        elif dtypes[k] in INTEGERS:
            random = source(op, k).integers(0 if dtype == "u8" else -10, 10, N_RANDOM)
            edges = np.array(rows[k])
        else:
            random, edges = random_numbers(op, k, N_RANDOM), np.array(rows[k])
        columns.append(np.concatenate([random, edges]))
    if op == "where":  # every pair under both conditions
        columns = [np.concatenate([c[:N_RANDOM], c[N_RANDOM:], c[N_RANDOM:]]) for c in columns]
        columns[0][N_RANDOM:] = np.arange(2 * n_edges) < n_edges
    size = len(columns[0])
    text = f"{op}({', '.join(f'{d}[{size}]' for d in dtypes)}; {f'to={to}' if to else ''})"
    return Case(f"{op}.{dtype}" + (f".{to}" if to else ""), text, dtypes, columns, 1, N_RANDOM, [(size,)] * len(dtypes))


def shaped_cases(op, dtype):
    """Of any other row: sets of random elements, and a set of each kind of edges."""
    for number, template in enumerate(SHAPED[op]):
        text = re.sub(r"\bT\b", dtype, template)
        operands = [(d, tuple(map(int, dims.split(", ")))) for d, dims in re.findall(r"(\w+)\[([\d, ]+)\](?=[,;])", text.split(";")[0] + ";")]
        columns, n_sets = [], 1
        for k, (d, shape) in enumerate(operands):
            size, random = math.prod(shape), source(op, number, k)
            if template.split(";")[0].count("i32") and d == "i32" and k == 1:
                limit = 6 if "window" in op else 5 if op == "gather" else 4
                sets = [random.integers(0, limit, size) for _ in range(len(SHAPED_EDGES) + 2)]
                if "window" not in op:
                    sets[-1][::3] = [-1, limit, limit + 100]  # out of range
            elif d in MANTISSA:
                sets = [random_numbers(op, 10 * number + k, size)]
                sets += [random.choice(values, size) for values in SHAPED_EDGES.values()] + [random.choice(EDGES[:2] + EDGES[5:20], size)]
            elif d == "bool":
                sets = [random.integers(0, 2, size) != 0, *([value] * size for value in (False, True))]
            else:
                sets = [random.integers(0 if d == "u8" else -10, 10, size), random.choice(extremes(d), size), random.choice(extremes(d)[-3:], size)]
            columns.append(sets)
            n_sets = len(sets)
        if len({len(sets) for sets in columns}) > 1:  # indices beside integers
            n_sets = min(map(len, columns))
            columns = [sets[:n_sets - 1] + sets[-1:] for sets in columns]
        columns = [np.concatenate([np.asarray(one) for one in sets]) for sets in columns]
        yield Case(f"{op}.{dtype}.{number}", text, [d for d, _ in operands], columns, n_sets, 1, [shape for _, shape in operands])


def weights(case, name, size_of_set, is_map):
    """What a result or gradient is weighed with: multiples of 1/4 where elements are random, 1 at edges."""
    n = size_of_set if is_map else size_of_set * case.n_sets
    w = np.ones(n)
    first = case.n_random if is_map else size_of_set * case.n_random
    op = case.name.split(".")[0]
    w[:first] = source(op, name).integers(-8, 9, first) / 4
    return w
