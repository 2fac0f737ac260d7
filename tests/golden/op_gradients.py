"""op_gradients: makes op_gradients.safetensors, first and second gradients of what the op table says, on the elements of tests/support/conformance_cases.py.

    bench/peers/.venv/bin/python tests/golden/op_gradients.py

JAX in f64. Where its convention at a tie is another than the table's, the function here says the table's: the greatest of several goes to the first.
"""
import itertools
import math
import os
import re
import sys

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import conformance_cases as cases

MAPS = {
    "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply, "divide": jnp.divide, "floor_divide": jnp.floor_divide,
    "remainder": jnp.remainder, "power": jnp.power, "negate": jnp.negative, "absolute": jnp.abs, "sign": jnp.sign, "square": jnp.square,
    "minimum": jnp.minimum, "maximum": jnp.maximum, "relu": jax.nn.relu, "where": jnp.where, "exp": jnp.exp, "expm1": jnp.expm1, "log": jnp.log,
    "log1p": jnp.log1p, "sqrt": jnp.sqrt, "rsqrt": jax.lax.rsqrt, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "erf": jax.scipy.special.erf,
    "sin": jnp.sin, "cos": jnp.cos, "floor": jnp.floor, "ceil": jnp.ceil, "round": jnp.round, "convert": lambda x: x,
    "stop_gradient": jax.lax.stop_gradient,
}  # fmt: skip


def first_of(find):
    """The element that argmax or argmin of NumPy names: the first."""

    def reduce(x, axes, keep=False):
        rest = [d for d in range(x.ndim) if d not in axes]
        flat = jnp.transpose(x, rest + axes).reshape([x.shape[d] for d in rest] + [-1])
        chosen = jnp.take_along_axis(flat, find(flat, axis=-1)[..., None], -1)[..., 0]
        return chosen.reshape([1 if d in axes else x.shape[d] for d in range(x.ndim)]) if keep else chosen

    return reduce


def dot_general(a, b, a_batch, b_batch, a_contract, b_contract):
    return jax.lax.dot_general(a, b, ((a_contract, b_contract), (a_batch, b_batch)))


def convolution(x, kernel, strides=None, padding=None):
    """Tap by tap: what lies outside of x is not multiplied by anything."""
    n = kernel.ndim - 2
    strides, padding = strides or [1] * n, padding or [0] * 2 * n
    shape = [(x.shape[d + 1] + padding[2 * d] + padding[2 * d + 1] - kernel.shape[d]) // strides[d] + 1 for d in range(n)]
    y = jnp.zeros((x.shape[0], *shape, kernel.shape[-1]))
    for tap in itertools.product(*map(range, kernel.shape[:n])):
        results, images = [], []
        for d in range(n):
            inside = [o for o in range(shape[d]) if 0 <= o * strides[d] + tap[d] - padding[2 * d] < x.shape[d + 1]]
            results.append(slice(inside[0], inside[-1] + 1) if inside else slice(0, 0))
            images.append([o * strides[d] + tap[d] - padding[2 * d] for o in inside])
        part = x[(slice(None), *np.ix_(*images))]
        y = y.at[(slice(None), *results)].add(jnp.einsum("...i,io->...o", part, kernel[tap]))
    return y


def convolution_input_gradient(g, kernel, size, **rest):
    return jax.vjp(lambda x: convolution(x, kernel, **rest), jnp.zeros((g.shape[0], *size, kernel.shape[-2])))[1](g)[0]


def convolution_kernel_gradient(x, g, size, **rest):
    return jax.vjp(lambda k: convolution(x, k, **rest), jnp.zeros((*size, x.shape[-1], g.shape[-1])))[1](g)[0]


def windows(x, size, strides, padding, outside):
    """[B, OH, OW, C, taps]"""
    padded = jnp.pad(x, [(0, 0), tuple(padding[:2]), tuple(padding[2:]), (0, 0)], constant_values=outside)
    shape = [(padded.shape[d + 1] - size[d]) // strides[d] + 1 for d in range(2)]
    taps = [padded[:, i : i + (shape[0] - 1) * strides[0] + 1 : strides[0], j : j + (shape[1] - 1) * strides[1] + 1 : strides[1]]
            for i in range(size[0]) for j in range(size[1])]  # fmt: skip
    return jnp.stack(taps, -1)


def max_pool2d(x, size, strides, padding):
    return first_of(jnp.argmax)(windows(x, size, strides, padding, -jnp.inf), [4])


def sum_pool2d(x, size, strides, padding):
    return windows(x, size, strides, padding, 0).sum(-1)


def sum_pool2d_gradient(g, input, **rest):
    return jax.vjp(lambda x: sum_pool2d(x, **rest), jnp.zeros((g.shape[0], *input, g.shape[-1])))[1](g)[0]


def window_gather(x, index, size, strides, padding):
    return jnp.take_along_axis(windows(x, size, strides, padding, 0), index[..., None], -1)[..., 0]


def window_scatter(g, index, input, **rest):
    return jax.vjp(lambda x: window_gather(x, index, **rest), jnp.zeros((g.shape[0], *input, g.shape[-1])))[1](g)[0]


def pad(x, low, high, value, steps):
    return jax.lax.pad(x, jnp.float64(value), [(a, b, s - 1) for a, b, s in zip(low, high, steps)])


def gather(x, index, axis):
    return jnp.where(((index >= 0) & (index < x.shape[0]))[:, None], x[jnp.clip(index, 0, x.shape[0] - 1)], 0)


def scatter_add(updates, index, axis, size):
    inside = (index >= 0) & (index < size)
    return jnp.zeros((size, updates.shape[1])).at[jnp.where(inside, index, size)].add(updates, mode="drop")


SHAPED = {
    "reduce_sum": lambda x, axes: jnp.sum(x, tuple(axes)),
    "reduce_product": lambda x, axes: jnp.prod(x, tuple(axes)),
    "reduce_max": first_of(jnp.argmax),
    "reduce_min": first_of(jnp.argmin),
    "matmul": lambda a, b, transpose_b: a @ b.T,
    "dot_general": dot_general,
    **{f"conv{n}d": convolution for n in (2, 3)},
    **{f"conv{n}d_input_gradient": convolution_input_gradient for n in (2, 3)},
    **{f"conv{n}d_kernel_gradient": convolution_kernel_gradient for n in (2, 3)},
    "max_pool2d": max_pool2d, "sum_pool2d": sum_pool2d, "sum_pool2d_gradient": sum_pool2d_gradient,
    "window_gather": window_gather, "window_scatter": window_scatter,
    "reshape": jnp.reshape, "transpose": lambda x, permutation: jnp.transpose(x, permutation),
    "broadcast": lambda x, shape, dims: jax.lax.broadcast_in_dim(x.reshape(3), shape, dims[:1]),
    "slice": lambda x, starts, limits, steps: jax.lax.slice(x, starts, limits, steps),
    "pad": pad, "concatenate": lambda *x, axis: jnp.concatenate(x, axis), "reverse": lambda x, axes: jnp.flip(x, axes),
    "gather": gather, "scatter_add": scatter_add,
}  # fmt: skip


def attributes_of(text):
    """"axes=[0], keep=true" as keyword arguments."""
    values = re.findall(r"(\w+)=(\[[^\]]*\]|[\w.-]+)", text.split(";")[1])
    return {name: {"true": True, "false": False}[value] if value in ("true", "false") else eval(value) for name, value in values}


def gradients(f, operands, floats, w, v):
    """First gradients of sum(w f), and those of what they come to when they are weighed with v."""

    def first(*xs):
        full = list(operands)
        for k, x in zip(floats, xs):
            full[k] = x
        return jnp.sum(w * f(*full))

    places = tuple(range(len(floats)))
    g = jax.grad(first, places)
    second = jax.grad(lambda *xs: sum(jnp.sum(a * b) for a, b in zip(v, g(*xs))), places)
    xs = [operands[k] for k in floats]
    return g(*xs), second(*xs)


def main():
    kept = {}
    for op, f in MAPS.items():
        words = ["bool", "T", "T"] if op == "where" else ["T"] * (2 if op in cases.PAIRS else 1)
        case = cases.map_case(op, words, "f64")
        n = len(case.operands[0]) - (len(cases.ends("f64")) if op != "where" else 0)
        operands = [jnp.asarray(x[:n]) for x in case.operands]
        floats = [k for k, word in enumerate(words) if word == "T"]
        g, h = gradients(f, operands, floats, cases.weights(case, "w", n, True), [cases.weights(case, f"v{k}", n, True) for k in floats])
        for k, first, second in zip(floats, g, h):
            kept[f"{op}.g{k}"], kept[f"{op}.h{k}"] = np.asarray(first), np.asarray(second)
    for op, f in SHAPED.items():
        for number, case in enumerate(cases.shaped_cases(op, "f64")):
            call = lambda *xs, attributes=attributes_of(case.text): f(*xs, **attributes)
            floats = [k for k, dtype in enumerate(case.dtypes) if dtype == "f64"]
            sets = [[jnp.asarray(x.reshape(case.n_sets, *shape)[i]) for x, shape in zip(case.operands, case.shape)] for i in range(case.n_sets)]
            result = call(*sets[0]).shape
            w = cases.weights(case, "w", math.prod(result), False).reshape(case.n_sets, *result)
            v = [cases.weights(case, f"v{k}", math.prod(case.shape[k]), False).reshape(case.n_sets, *case.shape[k]) for k in floats]
            found = [gradients(call, operands, floats, w[i], [one[i] for one in v]) for i, operands in enumerate(sets)]
            for i, k in enumerate(floats):
                kept[f"{op}.{number}.g{k}"] = np.stack([g[i] for g, _ in found])
                kept[f"{op}.{number}.h{k}"] = np.stack([h[i] for _, h in found])
    save_file(kept, os.path.join(HERE, "op_gradients.safetensors"), {"made_with": f"op_gradients.py, JAX {jax.__version__}"})


main()
