"""What random programs (random_programs.py) mean, said in JAX, value by value, so that every value is rounded by itself.

Compiling is what takes JAX time, so what is compiled once serves all graphs. A line of the same words on operands of the same types means the same, in each
graph; and where each element is made of those at the same position, that is so whatever the shape: such lines run on N elements, of which the last ones are
nobody's. What moves or adds up elements is one gather or one scatter of N elements, whose positions NumPy finds out by the same reference. So
shapes count for the rest alone: products, convolutions, softmax, losses. Derivatives are those of JAX (jax.vjp), of each line; they are put together here.

Floats of every type are computed in f64, but in graphs of edges, which are computed in their own types: bits are compared there. How far a right answer
may be from this one is found out by computing each graph twice more, at the same time, with noise: every result that is not exact is changed by up to
`ULP` units of the last place of its type, as are the terms of every sum, and the gradients that flow back through either. What an element moves by is how
it answers to roundings; a right answer may be `ROOM` times as far away, or as the mean of its tensor moves, so that no element is held to a chance.

Where ties have to be broken the language says how, and JAX would share a gradient out: extremes are therefore written by position."""

import math
import os
import re

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1")  # thousands of small functions

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

from random_values import DECISION, ELEMENTWISE, FLOATS, GREATEST, INDEXED, LEAST, MOVEMENT, PRECISION, ROWS, SUM  # noqa: E402

SAMPLES, ULP, ROOM = 2, 2, 16
N = 704  # no value has more than 700 elements; the last one is what a pad fills in
TYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i8": np.int8, "u8": np.uint8, "i32": np.int32,
         "i64": np.int64, "bool": np.bool_}  # fmt: skip


def is_float(array):
    return jnp.issubdtype(array.dtype, jnp.floating)


class Language:
    """The words of references, over JAX or NumPy. `wide`: floats are f64, whatever type they have. `noise`: of slopes, see `sloped`, and of a scan's
    iterations. `twice`: slopes have slopes."""

    erf = staticmethod(jax.lax.erf)

    def __init__(self, module, wide, noise=0.0, twice=False):
        self.np, self.wide, self.noise, self.twice = module, wide, noise, twice

    def stop(self, x):
        return jax.lax.stop_gradient(x) if self.np is jnp else x

    # Slopes that are computed from the result lose its last places where 1 minus it, or 1 plus it, is small.

    def sloped(self, x, y, slope):
        """y with a slope that is a function of y as it was rounded."""
        if self.twice:
            return y
        y = self.stop(y)
        return y + (x - self.stop(x)) * slope(y * (1 + self.noise))

    def tanh(self, x):
        return self.sloped(x, self.np.tanh(x), lambda y: 1 - y * y)

    def sigmoid(self, x):
        return self.sloped(x, 1 / (1 + self.np.exp(-x)), lambda y: y * (1 - y))

    def expm1(self, x):
        return self.sloped(x, self.np.expm1(x), lambda y: y + 1)

    def type(self, dtype):
        return np.float64 if self.wide and dtype in FLOATS else TYPES[dtype]

    def full(self, shape, number, dtype):
        return self.np.full(shape, number, self.type(dtype))

    def of_type(self, number, like):
        return self.np.asarray(number, like.dtype)

    def iota(self, shape, axis, dtype):
        shape = [ROWS if d == "B" else d for d in shape]
        return self.np.asarray(np.broadcast_to(np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))]), shape), self.type(dtype))

    def convert(self, x, to):
        """Towards zero and to the range of an integer, NaN to 0; integers wrap around."""
        if to == "bool":
            return x != 0
        if to in FLOATS or not is_float(x):
            return x.astype(self.type(to))
        x = self.np.trunc(x.astype(np.float64))
        inside = self.np.where((x >= LEAST[to]) & (x < float(GREATEST[to]) + 1), x, 0).astype(TYPES[to])
        return self.np.where(x >= float(GREATEST[to]) + 1, GREATEST[to], self.np.where(x < LEAST[to], LEAST[to], inside)).astype(TYPES[to])

    # sums of integers are i64

    def integers(self, x):
        return x if is_float(x) else x.astype(np.int64)

    def sum(self, x, axes, keep):
        return self.np.sum(x, tuple(axes), keepdims=keep)

    def mean(self, x, axes, keep):
        return self.np.mean(x, tuple(axes), keepdims=keep)

    # the first of equals, and what is NaN

    def maximum(self, x, y):
        return self.np.where((x >= y) | self.np.isnan(x), x, y) if is_float(x) else self.np.maximum(x, y)

    def minimum(self, x, y):
        return self.np.where((x <= y) | self.np.isnan(x), x, y) if is_float(x) else self.np.minimum(x, y)

    def absolute(self, x):
        """Its slope at 0 is 0, which JAX takes for 1."""
        return x * self.stop(self.np.sign(x)) if self.wide and is_float(x) else self.np.abs(x)

    def sign(self, x):
        return self.np.where(x > 0, self.np.ones_like(x), self.np.where(x < 0, -self.np.ones_like(x), x))

    def flat(self, x, axes):
        """Those axes as one, the last."""
        rest = [d for d in range(x.ndim) if d not in axes]
        return self.np.reshape(self.np.transpose(x, rest + list(axes)), [x.shape[d] for d in rest] + [-1])

    def place(self, op, x, axes, keep):
        y = getattr(self.np, op)(self.flat(x, axes), -1).astype(np.int64)
        return self.np.expand_dims(y, tuple(axes)) if keep else y

    # along an axis

    def order(self, x, axis, descending):
        """Where what is sorted stood: of equals the first comes first, and NaN is greater than any number."""
        x = x.astype(np.float64) if is_float(x) else x
        if not descending:
            return np.argsort(x, axis, kind="stable")
        return x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)

    def first(self, x, axis, n):
        return x[(slice(None),) * axis + (slice(n),)]

    def running_sum(self, x, axis, back):
        return self.np.flip(self.np.cumsum(self.np.flip(x, axis), axis), axis) if back else self.np.cumsum(x, axis)

    def scan(self, body, init, x, shape, axis, back, kept, exact):
        """The last state of body(words, state, part), or what is kept, along the axis; the state has that shape and, without `init`, begins with zeros."""
        shape = [ROWS if d == "B" else d for d in shape]
        state = self.np.zeros(shape, x.dtype) if init is None else init
        noise = self.np.broadcast_to(self.noise, (*shape[:axis], x.shape[axis], *shape[axis:]) if kept else (x.shape[axis], *shape))
        noise = self.np.moveaxis(noise, axis if kept else 0, 0)

        def iteration(state, given):
            part, own = given
            state, keep = body(Language(self.np, self.wide, own, self.twice), state, part)
            return (state, keep) if exact else (state * (1 + own), keep * (1 + own))

        last, every = jax.lax.scan(iteration, state, (self.np.moveaxis(x, axis, 0), noise), reverse=back)
        return self.np.moveaxis(every, 0, axis) if kept else last

    # quotients, rounded down

    def integer_quotient(self, x, y):
        """By 0 it is 0; the least number by -1 wraps around to itself."""
        y = self.np.asarray(y, x.dtype)
        safe = self.np.where(y == 0, 1, y)
        if x.dtype == np.uint8:
            return self.np.where(y == 0, 0, x // safe)
        return self.np.where(y == 0, 0, self.np.where(y == -1, -x, x // self.np.where(safe == -1, 1, safe)))

    def integer_remainder(self, x, y):
        y = self.np.asarray(y, x.dtype)
        return self.np.where(y == 0, 0, x - self.integer_quotient(x, y) * y)

    def quotient(self, x, y):
        return self.stop(self.np.floor(x / y))

    def remainder(self, x, y):
        return x - self.quotient(x, y) * y

    # products

    def rounded(self, x, precision):
        """A factor, to nearest: ties are away from 0 for tf32 and to even for bf16; the gradient passes."""
        bits = {"tf32": 11, "bf16": 8}[precision]
        fraction, exponent = self.np.frexp(self.stop(x))
        scaled = self.np.ldexp(fraction, bits)
        nearest = self.np.copysign(self.np.floor(self.np.abs(scaled) + 0.5), scaled) if precision == "tf32" else self.np.round(scaled)
        return x + (self.np.ldexp(nearest, exponent - bits) - self.stop(x))

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
        x = self.np.pad(x, ((0, 0), tuple(padding[:2]), tuple(padding[2:]), (0, 0)), constant_values=outside)
        n = [(x.shape[1 + i] - size[i]) // strides[i] + 1 for i in range(2)]
        ends = [(n[i] - 1) * strides[i] + 1 for i in range(2)]
        return self.np.stack([x[:, k : k + ends[0] : strides[0], m : m + ends[1] : strides[1]] for k in range(size[0]) for m in range(size[1])], -1)

    def max_pool2d_index(self, x, size, strides, padding):
        return self.np.argmax(self.windows(x, size, strides, padding, -np.inf), -1).astype(np.int32)

    def sum_pool2d(self, x, size, strides, padding):
        return self.np.sum(self.windows(x, size, strides, padding, 0), -1)

    def sum_pool2d_gradient(self, g, own, size, strides, padding):
        zeros = self.np.zeros((g.shape[0], *own, g.shape[3]), g.dtype)
        return jax.vjp(lambda x: self.sum_pool2d(x, size, strides, padding), zeros)[1](g)[0]

    def window_gather(self, x, index, size, strides, padding):
        return self.np.take_along_axis(self.windows(x, size, strides, padding, 0), index[..., None], -1)[..., 0]

    def window_scatter(self, g, index, own, size, strides, padding):
        zeros = self.np.zeros((g.shape[0], *own, g.shape[3]), g.dtype)
        return jax.vjp(lambda x: self.window_gather(x, index, size, strides, padding), zeros)[1](g)[0]

    # the same elements elsewhere

    def part(self, x, where):
        return x[where]

    def pad(self, x, axis, low, high, step, number):
        config = [(low, high, step - 1) if d == axis else (0, 0, 0) for d in range(x.ndim)]
        return jax.lax.pad(x, self.np.asarray(number, x.dtype), config)

    def gather(self, x, index, axis):
        left, shape = x.shape[:axis], x.shape[axis + 1 :]
        flat = self.np.reshape(x, (int(np.prod(left)), x.shape[axis], int(np.prod(shape))))
        places = self.np.reshape(index, (flat.shape[0], -1)).astype(np.int32)
        return self.np.reshape(self.np.take_along_axis(flat, places[..., None], 1), (*index.shape, *shape))

    # the library

    def softmax(self, x):
        e = self.np.exp(x - self.stop(self.np.max(x, -1, keepdims=True)))
        return e / self.np.sum(e, -1, keepdims=True)

    def log_softmax(self, x):
        shifted = x - self.stop(self.np.max(x, -1, keepdims=True))
        return shifted - self.np.log(self.np.sum(self.np.exp(shifted), -1, keepdims=True))

    def sparse_crossentropy(self, label, logits, smoothing):
        logs = self.log_softmax(logits)
        own = self.gather(logs, label, label.ndim)
        return -(1 - smoothing) * own - smoothing * self.np.mean(logs, -1)


class Positions(Language):
    """NumPy's, for references of what moves elements: they are given the positions of one sample's elements and give those of the result; -1 is what a
    pad fills in."""

    def __init__(self, elements):
        super().__init__(np, True)
        self.elements, self.fill = elements, 0

    def values(self, at):
        return np.where(at < 0, self.fill, self.elements[at])

    def pad(self, x, axis, low, high, step, number):
        self.fill = number
        size = (x.shape[axis] - 1) * step + 1
        y = np.full([low + size + high if d == axis else n for d, n in enumerate(x.shape)], -1)
        y[(slice(None),) * axis + (slice(low, low + size, step),)] = x
        return y

    def windows(self, x, size, strides, padding, outside):
        self.fill = outside
        return super().windows(x, size, strides, padding, -1)

    def extreme(self, op, x, axes, keep):
        flat = self.flat(x, axes)
        first = (np.argmax if op == "max" else np.argmin)(self.values(flat), -1)
        y = np.take_along_axis(flat, first[..., None], -1)[..., 0]
        return np.expand_dims(y, tuple(axes)) if keep else y

    def ordered(self, x, axis, descending, n):
        return self.first(np.take_along_axis(x, self.order(self.values(x), axis, descending), axis), axis, n)

    def max_pool2d(self, x, size, strides, padding):
        found = self.windows(x, size, strides, padding, -np.inf)
        return np.take_along_axis(found, np.argmax(self.values(found), -1)[..., None], -1)[..., 0]


class Targets(Language):
    """NumPy's, for references of sums: they are given the positions of the operand's elements and give for each where in the result it is added."""

    def __init__(self):
        super().__init__(np, True)
        self.divisor = 1

    def sum(self, x, axes, keep):
        kept = [1 if d in axes else n for d, n in enumerate(x.shape)]
        return np.broadcast_to(np.arange(math.prod(kept)).reshape(kept), x.shape)

    def mean(self, x, axes, keep):
        self.divisor = math.prod(x.shape[d] for d in axes)
        return self.sum(x, axes, keep)

    def scatter_add(self, x, index, axis, size):
        left, width = math.prod(index.shape[:axis]), math.prod(x.shape[index.ndim :])
        rows = np.arange(left)[:, None] * size + index.reshape(left, -1)
        return rows[..., None] * width + np.arange(width)


# ---- a line for all samples: arrays [samples, ...] in; out, and a function from the result's gradient to those of the operands, None for integers ----


class Compiled:
    """function(operands, noise), and what pulls a gradient of its result back to operands that are floats."""

    def __init__(self, function):
        def pull(operands, noise, gradient):
            floats = {i: x for i, x in enumerate(operands) if is_float(x)}
            slopes = jax.vjp(lambda chosen: function([chosen.get(i, x) for i, x in enumerate(operands)], noise), floats)[1](gradient)[0]
            return [slopes.get(i) for i in range(len(operands))]

        self.run, self.pull = jax.jit(function), jax.jit(pull)


def padded(x):
    """[samples, ...] as [samples, N]"""
    y = np.zeros((len(x), N), x.dtype)
    y[:, : x[0].size] = x.reshape(len(x), -1)
    return y


def unpadded(y, shape):
    return np.asarray(y)[:, : math.prod(shape)].reshape(len(y), *shape)


def spread(x, shape):
    """x broadcast to a shape."""
    return np.broadcast_to(x.reshape(len(x), *[1] * (len(shape) + 1 - x.ndim), *x.shape[1:]), (len(x), *shape))


def spread_back(g, shape):
    """The gradient of `spread`'s operand, which had that shape."""
    g = g.sum(tuple(range(1, g.ndim - len(shape))))
    return g.sum(tuple(d + 1 for d, n in enumerate(shape) if n == 1 and g.shape[d + 1] != 1), keepdims=True)


def elementwise(function, operands, noise, shape):
    given, noise = [padded(spread(x, shape)) for x in operands], padded(noise)

    def pull(g):
        slopes = function.pull(given, noise, padded(g))
        return [None if s is None else spread_back(unpadded(s, shape), x.shape[1:]) for s, x in zip(slopes, operands)]

    return unpadded(function.run(given, noise), shape), pull


TAKE = Compiled(lambda operands, at: jnp.take_along_axis(operands[0], at, 1))
ADD = Compiled(lambda operands, at: jnp.zeros((len(at), N + 1), operands[0].dtype).at[jnp.arange(len(at))[:, None], at].add(operands[0])[:, :N])


def movement(value, operands):
    operands, chosen = (operands[:-1], operands[-1:]) if value.how == INDEXED else (operands, [])
    ends = np.cumsum([x[0].size for x in operands])
    positions = [np.arange(end - x[0].size, end).reshape(x.shape[1:]) for x, end in zip(operands, ends)]
    source, at = padded(np.concatenate([x.reshape(len(x), -1) for x in operands], 1)), np.full((len(operands[0]), N), N - 1)
    for elements, row, *index in zip(source, at, *chosen):
        language = Positions(elements)
        y = value.reference(language, *positions, *index)
        row[: y.size] = np.where(y < 0, N - 1, y).reshape(-1)
        elements[N - 1] = language.fill

    def pull(g):
        slopes = np.split(unpadded(TAKE.pull([source], at, padded(g))[0], (ends[-1],)), ends[:-1], 1)
        return [s.reshape(x.shape) for s, x in zip(slopes, operands)] + [None for _ in chosen]

    return unpadded(TAKE.run([source], at), value.numbers()), pull


def summed(value, operands, dtype):
    x, chosen = operands[0].astype(dtype), operands[1:]
    language, at = Targets(), np.full((len(x), N), N)
    positions = np.arange(x[0].size).reshape(x.shape[1:])
    at[:, : x[0].size] = value.reference(language, positions, *(index[0] for index in chosen)).reshape(-1)

    def pull(g):
        return [unpadded(ADD.pull([given], at, padded(g / language.divisor))[0], x.shape[1:])] + [None for _ in chosen]

    given = padded(x)
    y = unpadded(ADD.run([given], at), value.numbers())
    return y / language.divisor if language.divisor > 1 else y, pull


class Evaluation:
    """A graph, line by line: {name: array [samples, ...]}, of which the first sample has no noise; and gradients and parameters after a step, as d_NAME."""

    lines = {}  # {words and types: Compiled}

    def __init__(self, graph, arrays):
        self.graph, self.wide, self.source = graph, graph.kind != "edges", np.random.default_rng(graph.seed)
        self.language = Language(np, self.wide)
        self.n = 1 + SAMPLES if self.wide else 1
        self.pulls = []  # (value, pull), in the order of lines
        self.drawn = {}  # {name: (noise of the operands, of the value)}
        self.drawn_by_loss = {}  # {name: noise of a term, which is f32 there}
        self.values = {name: self.of_all(arrays[f"input/{name}"], value) for name, value in graph.inputs.items()}
        self.values |= {name: self.of_all(arrays[f"variable/M{graph.seed}/{name}"], value) for name, value in graph.parameters.items()}
        for value in graph.values:
            if value.line is not None and value.by_framework:
                self.add(value)
        if graph.gradients:
            self.add_gradients()
        if graph.curved:
            self.add_second_derivatives()

    def of_all(self, array, value):
        return np.repeat(np.asarray(array, self.language.type(value.dtype))[None], self.n, 0)

    # ---- noise, [samples, ...]: 0 in the first ----

    def noise(self, value, least=0.0):
        shape = (SAMPLES, *value.numbers())
        drawn = self.source.uniform(0.5, 1, shape) * self.source.choice((-1, 1), shape) * max(unit(value), least)
        return np.concatenate([np.zeros((1, *shape[1:])), drawn])

    def noise_of_slopes(self, value):
        shape = (self.n - 1, *value.numbers())
        return np.concatenate([np.zeros((1, *shape[1:])), unit(value) * self.source.uniform(-1, 1, shape) if value.is_float else np.zeros(shape)])

    # ---- forward ----

    def compiled(self, words, types, reference, whole):
        key = (words, self.wide, *types)
        if key not in self.lines:
            wide = self.wide

            def function(operands, noise):
                return reference(Language(jnp, wide, noise), *operands)

            self.lines[key] = Compiled(jax.vmap(function) if whole else function)
        return self.lines[key]

    def apply(self, value, operands):
        if value.how == DECISION:
            y = np.asarray(value.reference(self.language, *(x[0] for x in operands)))
            return np.broadcast_to(y, (self.n, *y.shape)), None
        if value.how in (MOVEMENT, INDEXED):
            return movement(value, operands)
        if value.how == SUM:
            return summed(value, operands, self.language.type(value.dtype))
        words = value.line
        for i, x in enumerate(value.operands):
            words = re.sub(rf"\b{x.name}\b", f"{{{i}}}", words)
        noise = self.noise_of_slopes(value)
        if value.how == ELEMENTWISE:
            function = self.compiled(words, [x.dtype.name for x in operands], value.reference, whole=False)
            return elementwise(function, operands, noise, value.numbers())
        function = self.compiled(words, [(x.dtype.name, x.shape) for x in operands], value.reference, whole=True)
        return np.asarray(function.run(operands, noise)), lambda g: function.pull(operands, noise, g)

    def add(self, value):
        operands = [self.values[x.name] for x in value.operands]
        noisy = self.wide and value.is_float and (self.graph.trained or not value.exact)
        before = [self.noise(x) if noisy and value.is_sum and x.is_float else None for x in value.operands]
        after = self.noise(value) if noisy else None
        if not value.exact:
            operands = [x if noise is None else x * (1 + noise) for x, noise in zip(operands, before)]
        y, pull = self.apply(value, operands)
        if y.shape != (self.n, *value.numbers()):
            raise AssertionError(f"g{self.graph.seed}: {value.name} = {value.line} is {value.numbers()}, its reference {y.shape[1:]}")
        self.values[value.name] = y if after is None or value.exact else y * (1 + after)
        self.drawn[value.name] = (before, after)
        if noisy and value.slopes and pull:
            self.pulls.append((value, pull))

    # ---- backward ----

    def add_gradients(self):
        slopes = {}

        def accumulate(name, slope):
            slopes[name] = slopes[name] + slope if name in slopes else slope

        term = self.compiled("the loss", ["float64"], lambda j, x: j.np.log1p(x * x), whole=False)
        for value in self.graph.loss[1]:
            self.drawn_by_loss[value.name] = self.noise(value, ULP * 2.0**-24)
            noise = 1 + self.drawn_by_loss[value.name]
            y, pull = elementwise(term, [self.values[value.name] * noise], np.zeros_like(noise), value.numbers())
            accumulate(value.name, pull(np.full_like(y, 1 / ROWS))[0] * noise)
        for value, pull in reversed(self.pulls):
            before, after = self.drawn[value.name]
            if value.name in slopes:
                for x, noise, slope in zip(value.operands, before, pull(slopes[value.name] * (1 + after))):
                    if slope is not None:
                        accumulate(x.name, np.asarray(slope) if noise is None else slope * (1 + noise))
        for name in self.graph.gradients:
            slope = slopes.get(name, np.zeros_like(self.values[name]))
            self.values[f"d_{name}"] = self.values[name] - 0.125 * slope if name in self.graph.parameters else slope

    def add_second_derivatives(self):
        """Those of all lines at once: derivatives of derivatives are JAX's too."""
        language = Language(jnp, True, twice=True)
        lines = [value for value in self.graph.values if value.line is not None]
        given = {name: x for name, x in self.values.items() if name in self.graph.inputs or name in self.graph.parameters}

        def loss(wanted, given, noise, of_terms):
            values = {**given, **wanted}
            for value in lines:
                before, after = noise[value.name]
                operands = [noisy(values[x.name], n, value.exact) for x, n in zip(value.operands, before)]
                values[value.name] = noisy(jnp.asarray(value.reference(language, *operands)), after, value.exact)
            terms = [noisy(values[term.name], of_terms[term.name], False) for term in self.graph.loss[1]]
            return sum(jnp.sum(jnp.log1p(term * term)) for term in terms) / ROWS

        def curvature(wanted, given, noise, of_terms, of_slope):
            (slope,) = jax.grad(loss)(wanted, given, noise, of_terms).values()
            return jnp.sum(jnp.log1p(noisy(slope, of_slope, False) ** 2)) / ROWS

        second = jax.jit(jax.vmap(jax.grad(curvature)))
        for name, value in self.graph.curved.items():
            noise = self.noise(value, ULP * 2.0**-24)
            self.values[f"dd_{name}"] = second({name: given[name]}, given, self.drawn, self.drawn_by_loss, noise)[name]


def noisy(x, noise, exact):
    """x, changed where it is not exact; the gradient is changed in any case."""
    if noise is None:
        return x
    return jax.lax.stop_gradient(x) + (x - jax.lax.stop_gradient(x)) * (1 + noise) if exact else x * (1 + noise)


def unit(value):
    """Of the last place of a float's type, relative."""
    return ULP * max(value.eps, 2.0 ** -PRECISION[value.dtype])


def evaluate(graph, arrays):
    """{key: (reference, room)} for what the graph compares, as `Graph.compared` names it. `room`: how far away a right answer may be, or None."""
    with np.errstate(all="ignore"):
        values, outcome = Evaluation(graph, arrays).values, {}
    for key, value in graph.compared().items():
        if not value.by_framework:
            continue
        reference, *near = values[value.name]
        room = None
        if near and value.is_float and not value.exact:
            moved = np.max([np.abs(sample - reference) for sample in near], 0)
            room = ROOM * (moved + (np.mean(moved) if moved.size else 0)) + 8 * unit(value) * np.abs(reference) + 1e-30
            if value.name.startswith("dd_"):  # it goes twice through each line, whose noise is drawn once; JAX in f32 is as far from it
                room = 16 * room
            if graph.loops:  # no noise stands for the roundings within an iteration; states are of size 1
                room = 2 * room + 8 * unit(value)
        outcome[key] = (reference, room)
    return outcome
