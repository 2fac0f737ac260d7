"""What random programs (random_programs.py) mean, said in JAX, op by op and not compiled as a whole, so that every op is rounded by itself.

Floats of every type are computed in f64, but in graphs of edges, which are computed in their own types: bits are compared there. How far a right answer
may be from this one is found out by computing each graph twice more, with noise: every result that is not exact is changed by up to
`ULP` units of the last place of its type, as are the terms of every sum, and the gradients that flow back through either. What an element moves by is how
it answers to roundings; a right answer may be `ROOM` times as far away, or as the mean of its tensor moves, so that no element is held to a chance.

Where ties have to be broken the language says how, and JAX would share a gradient out: extremes are therefore written by position."""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1")  # thousands of small functions

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

from random_programs import FLOATS, GREATEST, LEAST, PRECISION, ROWS  # noqa: E402

SAMPLES, ULP, ROOM = 2, 2, 16
TYPES = {"f32": jnp.float32, "f16": jnp.float16, "bf16": jnp.bfloat16, "f64": jnp.float64, "i8": jnp.int8, "u8": jnp.uint8, "i32": jnp.int32,
         "i64": jnp.int64, "bool": jnp.bool_}  # fmt: skip


class Language:
    """The words of references. `wide`: floats are f64, whatever type they have."""

    np = jnp
    stop = staticmethod(jax.lax.stop_gradient)
    erf = staticmethod(jax.lax.erf)

    def __init__(self, wide):
        self.wide = wide
        self.rounds = None  # with noise: a function from a shape to what results are changed by

    # Slopes that are computed from the result lose its last places where 1 minus it, or 1 plus it, is small.

    def sloped(self, x, y, slope):
        """y with a slope that is a function of y as it was rounded."""
        y = self.stop(y)
        return y + (x - self.stop(x)) * slope(y * (1 + self.rounds(y.shape)) if self.rounds else y)

    def tanh(self, x):
        return self.sloped(x, jnp.tanh(x), lambda y: 1 - y * y)

    def sigmoid(self, x):
        return self.sloped(x, 1 / (1 + jnp.exp(-x)), lambda y: y * (1 - y))

    def expm1(self, x):
        return self.sloped(x, jnp.expm1(x), lambda y: y + 1)

    def type(self, dtype):
        return jnp.float64 if self.wide and dtype in FLOATS else TYPES[dtype]

    def full(self, shape, number, dtype):
        return jnp.full(shape, number, self.type(dtype))

    def of_type(self, number, like):
        return jnp.asarray(number, like.dtype)

    def iota(self, shape, axis, dtype):
        shape = [ROWS if d == "B" else d for d in shape]
        return jnp.asarray(np.broadcast_to(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape), self.type(dtype))

    def convert(self, x, to):
        """Towards zero and to the range of an integer, NaN to 0; integers wrap around."""
        if to == "bool":
            return x != 0
        if to in FLOATS or not jnp.issubdtype(x.dtype, jnp.floating):
            return x.astype(self.type(to))
        x = jnp.trunc(x.astype(jnp.float64))
        inside = jnp.where((x >= LEAST[to]) & (x < float(GREATEST[to]) + 1), x, 0).astype(TYPES[to])
        return jnp.where(x >= float(GREATEST[to]) + 1, GREATEST[to], jnp.where(x < LEAST[to], LEAST[to], inside)).astype(TYPES[to])

    # sums of integers are i64, means of them f32

    def integers(self, x):
        return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.int64)

    def real(self, x):
        return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(self.type("f32"))

    # the first of equals, and what is NaN

    def maximum(self, x, y):
        return jnp.where((x >= y) | jnp.isnan(x), x, y) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.maximum(x, y)

    def minimum(self, x, y):
        return jnp.where((x <= y) | jnp.isnan(x), x, y) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.minimum(x, y)

    def absolute(self, x):
        """Its slope at 0 is 0, which JAX takes for 1."""
        return x * self.stop(jnp.sign(x)) if self.wide and jnp.issubdtype(x.dtype, jnp.floating) else jnp.abs(x)

    def sign(self, x):
        return jnp.where(x > 0, jnp.ones_like(x), jnp.where(x < 0, -jnp.ones_like(x), x))

    def flat(self, x, axes):
        """Those axes as one, the last."""
        rest = [d for d in range(x.ndim) if d not in axes]
        return jnp.reshape(jnp.transpose(x, rest + list(axes)), [x.shape[d] for d in rest] + [-1])

    def extreme(self, op, x, axes, keep):
        flat = self.flat(x, axes)
        first = (jnp.argmax if op == "max" else jnp.argmin)(flat, -1)
        y = jnp.take_along_axis(flat, first[..., None], -1)[..., 0]
        return jnp.expand_dims(y, axes) if keep else y

    def place(self, op, x, axes, keep):
        y = getattr(jnp, op)(self.flat(x, axes), -1).astype(jnp.int64)
        return jnp.expand_dims(y, axes) if keep else y

    # quotients, rounded down

    def integer_quotient(self, x, y):
        """By 0 it is 0; the least number by -1 wraps around to itself."""
        y = jnp.asarray(y, x.dtype)
        safe = jnp.where(y == 0, 1, y)
        return jnp.where(y == 0, 0, jnp.where(y == -1, -x, x // jnp.where(safe == -1, 1, safe))) if x.dtype != jnp.uint8 else jnp.where(y == 0, 0, x // safe)

    def integer_remainder(self, x, y):
        y = jnp.asarray(y, x.dtype)
        return jnp.where(y == 0, 0, x - self.integer_quotient(x, y) * y)

    def quotient(self, x, y):
        return self.stop(jnp.floor(x / y))

    def remainder(self, x, y):
        return x - self.quotient(x, y) * y

    # products

    def rounded(self, x, precision):
        """A factor, to nearest: ties are away from 0 for tf32 and to even for bf16; the gradient passes."""
        bits = {"tf32": 11, "bf16": 8}[precision]
        fraction, exponent = jnp.frexp(self.stop(x))
        scaled = jnp.ldexp(fraction, bits)
        nearest = jnp.copysign(jnp.floor(jnp.abs(scaled) + 0.5), scaled) if precision == "tf32" else jnp.round(scaled)
        return x + (jnp.ldexp(nearest, exponent - bits) - self.stop(x))

    def dot_general(self, x, y, a_batch, b_batch, a_contract, b_contract):
        return jax.lax.dot_general(x, y, ((a_contract, b_contract), (a_batch, b_batch)))

    def convolution(self, x, kernel, strides, padding, dilation=None):
        n, groups, shape = len(strides), 1, None
        if x.ndim == n + 3:
            groups, shape = x.shape[n + 1], (*kernel.shape[n + 1 :],)
            x = jnp.reshape(x, (*x.shape[: n + 1], -1))
            kernel = jnp.reshape(kernel, (*kernel.shape[: n + 1], -1))
        around = [(padding[2 * i], padding[2 * i + 1]) for i in range(n)]
        axes = "DHW"[3 - n :]
        y = jax.lax.conv_general_dilated(x, kernel, strides, around, rhs_dilation=dilation,
                                         dimension_numbers=(f"N{axes}C", f"{axes}IO", f"N{axes}C"), feature_group_count=groups)  # fmt: skip
        return y if shape is None else jnp.reshape(y, (*y.shape[: n + 1], *shape))

    def convolution_input_gradient(self, g, kernel, size, strides, padding):
        zeros = jnp.zeros((g.shape[0], *size, kernel.shape[len(size)]), g.dtype)
        return jax.vjp(lambda x: self.convolution(x, kernel, strides, padding), zeros)[1](g)[0]

    def convolution_kernel_gradient(self, x, g, size, strides, padding):
        zeros = jnp.zeros((*size, x.shape[-1], g.shape[-1]), g.dtype)
        return jax.vjp(lambda kernel: self.convolution(x, kernel, strides, padding), zeros)[1](g)[0]

    # windows

    def windows(self, x, size, strides, padding, outside):
        """[B, OH, OW, C, size]: each window's elements, row-major."""
        x = jnp.pad(x, ((0, 0), tuple(padding[:2]), tuple(padding[2:]), (0, 0)), constant_values=outside)
        n = [(x.shape[1 + i] - size[i]) // strides[i] + 1 for i in range(2)]
        ends = [(n[i] - 1) * strides[i] + 1 for i in range(2)]
        return jnp.stack([x[:, k : k + ends[0] : strides[0], m : m + ends[1] : strides[1]] for k in range(size[0]) for m in range(size[1])], -1)

    def max_pool2d(self, x, size, strides, padding):
        found = self.windows(x, size, strides, padding, -jnp.inf)
        return jnp.take_along_axis(found, jnp.argmax(found, -1)[..., None], -1)[..., 0]

    def max_pool2d_index(self, x, size, strides, padding):
        return jnp.argmax(self.windows(x, size, strides, padding, -jnp.inf), -1).astype(jnp.int32)

    def sum_pool2d(self, x, size, strides, padding):
        return jnp.sum(self.windows(x, size, strides, padding, 0), -1)

    def sum_pool2d_gradient(self, g, own, size, strides, padding):
        zeros = jnp.zeros((g.shape[0], *own, g.shape[3]), g.dtype)
        return jax.vjp(lambda x: self.sum_pool2d(x, size, strides, padding), zeros)[1](g)[0]

    def window_gather(self, x, index, size, strides, padding):
        return jnp.take_along_axis(self.windows(x, size, strides, padding, 0), index[..., None], -1)[..., 0]

    def window_scatter(self, g, index, own, size, strides, padding):
        zeros = jnp.zeros((g.shape[0], *own, g.shape[3]), g.dtype)
        return jax.vjp(lambda x: self.window_gather(x, index, size, strides, padding), zeros)[1](g)[0]

    # the same elements elsewhere

    def part(self, x, where):
        return x[where]

    def pad(self, x, axis, low, high, step, number):
        config = [(low, high, step - 1) if d == axis else (0, 0, 0) for d in range(x.ndim)]
        return jax.lax.pad(x, jnp.asarray(number, x.dtype), config)

    def gather(self, x, index, axis):
        left, shape = x.shape[:axis], x.shape[axis + 1 :]
        flat = jnp.reshape(x, (int(np.prod(left)), x.shape[axis], int(np.prod(shape))))
        places = jnp.reshape(index, (flat.shape[0], -1)).astype(jnp.int32)
        return jnp.reshape(jnp.take_along_axis(flat, places[..., None], 1), (*index.shape, *shape))

    def scatter_add(self, updates, index, axis, size):
        left, shape = index.shape[:axis], updates.shape[index.ndim :]
        n = int(np.prod(left))
        places = jnp.reshape(index, (n, -1)).astype(jnp.int32)
        flat = jnp.reshape(updates, (n, places.shape[1], int(np.prod(shape))))
        y = jnp.zeros((n, size, flat.shape[2]), updates.dtype).at[jnp.arange(n)[:, None], places].add(flat)
        return jnp.reshape(y, (*left, size, *shape))

    # the library

    def softmax(self, x):
        e = jnp.exp(x - self.stop(jnp.max(x, -1, keepdims=True)))
        return e / jnp.sum(e, -1, keepdims=True)

    def log_softmax(self, x):
        shifted = x - self.stop(jnp.max(x, -1, keepdims=True))
        return shifted - jnp.log(jnp.sum(jnp.exp(shifted), -1, keepdims=True))

    def sparse_crossentropy(self, label, logits, smoothing):
        logs = self.log_softmax(logits)
        own = self.gather(logs, label, label.ndim)
        return -(1 - smoothing) * own - smoothing * jnp.mean(logs, -1)


def noisy(x, exact, noise):
    """x, changed where it is not exact; the gradient is changed in any case."""
    return jax.lax.stop_gradient(x) + (x - jax.lax.stop_gradient(x)) * (1 + noise) if exact else x * (1 + noise)


def unit(value):
    """Of the last place of a float's type, relative."""
    return ULP * max(value.eps, 2.0 ** -PRECISION[value.dtype])


def noise_of(graph, source):
    """{name: noise of its operands, if it adds them up, and of itself} for each line of floats that has any."""
    flows = graph.kind == "trained"

    def draw(value, least=0.0):
        n = value.numbers()
        return source.uniform(0.5, 1, n) * source.choice((-1, 1), n) * max(unit(value), least)

    noise = {value.name: [draw(x) if x.is_float else None for x in value.operands if value.is_sum] + [draw(value)]
             for value in graph.values if value.line is not None and value.is_float and (flows or not value.exact)}  # fmt: skip
    return {**noise, "more": source, "loss": [draw(x, ULP * 2.0**-24) for x in graph.loss[1]] if graph.loss else []}


def run(graph, language, given, noise):
    """{name: array} of all values, and the loss of each row. `noise`: noise_of, or None."""
    values = dict(given)
    for value in graph.values:
        if value.line is None or not value.by_framework:
            continue
        operands = [values[x.name] for x in value.operands]
        language.rounds = (lambda shape, by=unit(value): by * noise["more"].uniform(-1, 1, shape)) if noise and value.is_float else None
        own = noise.get(value.name) if noise else None
        if own and value.is_sum:
            operands = [x if n is None else noisy(x, value.exact, n) for x, n in zip(operands, own)]
        result = jnp.asarray(value.reference(language, *operands))
        if result.shape != value.numbers():
            raise AssertionError(f"g{graph.seed}: {value.name} = {value.line} is {value.numbers()}, its reference {result.shape}")
        values[value.name] = noisy(result, value.exact, own[-1]) if own else result
    loss = 0
    for i, value in enumerate(graph.loss[1] if graph.loss else []):
        term = noisy(values[value.name], False, noise["loss"][i]) if noise else values[value.name]
        loss = loss + jnp.sum(jnp.log1p(term * term), range(1, len(value.shape)))
    return values, loss


def run_with_gradients(graph, language, given, noise=None):
    """{name: array} of all values, and d_NAME: gradients to inputs, and parameters after a step."""
    if not graph.gradients:
        return run(graph, language, given, noise)[0]

    def objective(chosen):
        values, loss = run(graph, language, {**given, **chosen}, noise)
        return jnp.sum(loss) / ROWS, values

    slopes, values = jax.grad(objective, has_aux=True)({name: given[name] for name in graph.gradients})
    return {**values, **{f"d_{name}": given[name] - 0.125 * slope if name in graph.parameters else slope for name, slope in slopes.items()}}


def evaluate(graph, arrays):
    """{key: (reference, room)} for what the graph compares, as `Graph.compared` names it. `room`: how far away a right answer may be, or None."""
    language = Language(graph.kind != "edges")
    given = {name: jnp.asarray(arrays[f"input/{name}"], language.type(value.dtype)) for name, value in graph.inputs.items()}
    given |= {name: jnp.asarray(arrays[f"variable/M{graph.seed}/{name}"], language.type(value.dtype)) for name, value in graph.parameters.items()}
    compared = {key: value for key, value in graph.compared().items() if value.by_framework}
    source, want = np.random.default_rng(graph.seed), run_with_gradients(graph, language, given)
    inexact = language.wide and any(value.is_float and not value.exact for value in compared.values())
    near = [run_with_gradients(graph, language, given, noise_of(graph, source)) for _ in range(SAMPLES)] if inexact else []
    outcome = {}
    for key, value in compared.items():
        reference, room = np.asarray(want[value.name]), None
        if language.wide and value.is_float and not value.exact:
            moved = np.max([np.abs(np.asarray(values[value.name]) - reference) for values in near], 0)
            room = ROOM * (moved + (np.mean(moved) if moved.size else 0)) + 8 * unit(value) * np.abs(reference) + 1e-30
        outcome[key] = (reference, room)
    return outcome
