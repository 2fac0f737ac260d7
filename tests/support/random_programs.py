"""Random programs over the whole op table, each step with what it means: what tests/tools/random_graphs.py compiles, interprets and asks JAX about.

A graph is the step of one seed. It is made by drawing forms, each of which writes a line of the language on values that are there and says beside it
what that means, as an expression over tests/support/jax_reference.py. Four kinds are drawn:

    plain      ops of every kind, the types mixed
    trained    those that have gradients, within a model with parameters: a loss, its gradients to inputs, and one update by `minimize`
    curved     a few lines of smooth ones, trained as well, with second derivatives
    edges      elementwise ops, conversions, comparisons and extremes over NaN, infinities, zeros of both signs and the ends of integer types

A value knows how large it can be and, while it is exact, of which power of two it is a multiple: inputs are quarters, so sums and products stay exact
as long as they fit the type. Exact values are compared to the bit, and they alone meet ops that jump (comparisons, roundings, conversions to integers,
positions of extremes) and, where gradients are taken, ops with a kink: there a last place would decide about the whole. Of all other floats bounds keep
away what overflows.

Not here: subnormal numbers, which XLA takes for 0; the sign of a zero that a sum or an extreme gives, which nothing defines; and indices out of range,
which end a step. Random numbers are compared with the interpreter only. Collectives are what partition makes of sums over B, on three replicas."""

import math

from random_values import (DECISION, DTYPES, ELEMENTWISE, FLOATS, GREATEST, INDEXED, INPUTS, LEAST, MOVEMENT, N_PER_PROGRAM, PRECISION, ROWS, SUM, Graph, Value,
                           dims, draw_inputs, form, program_text)  # fmt: skip

__all__ = ["FLOATS", "GREATEST", "INPUTS", "LEAST", "N_PER_PROGRAM", "PRECISION", "ROWS", "Graph", "draw_inputs", "program_text"]


# ---- ops with a kink ----


def is_cut(g, *operands):
    """Operands of an op with a kink are exact, or no gradient flows through it."""
    return g.trained and not all(x.exact for x in operands)


def cut(g, x, *others):
    return f"stop_gradient({x.name})" if is_cut(g, x, *others) else x.name


def cut_reference(g, *operands):
    return (lambda j, v: j.stop(v)) if is_cut(g, *operands) else (lambda j, v: v)


def unary(g, text, reference, x, bound, quantum=None, dtype=None, kink=False, slopes=True):
    before = cut_reference(g, x) if kink else (lambda j, v: v)
    return g.add(text.format(cut(g, x) if kink else x.name), dtype or x.dtype, x.shape, lambda j, v: reference(j, before(j, v)), (x,), bound, quantum,
                 slopes=slopes and not (kink and is_cut(g, x)), how=ELEMENTWISE)


SMOOTH = {  # text, meaning, bound of the result by that of x, greatest x
    "exp({})": (lambda j, v: j.np.exp(v), lambda m: math.exp(m), 6),
    "expm1({})": (lambda j, v: j.expm1(v), lambda m: math.exp(m), 6),
    "log({0} * {0} + 0.5)": (lambda j, v: j.np.log(v * v + 0.5), lambda m: math.log(m * m + 0.5) + 1, 60),
    "log1p({0} * {0})": (lambda j, v: j.np.log1p(v * v), lambda m: math.log1p(m * m), 60),
    "sqrt({0} * {0} + 0.25)": (lambda j, v: j.np.sqrt(v * v + 0.25), lambda m: m + 1, 60),
    "({0} * {0} + 0.25) ** 0.5": (lambda j, v: j.np.sqrt(v * v + 0.25), lambda m: m + 1, 60),
    "rsqrt({0} * {0} + 0.25)": (lambda j, v: 1 / j.np.sqrt(v * v + 0.25), lambda m: 2, 60),
    "tanh({})": (lambda j, v: j.tanh(v), lambda m: 1, math.inf),
    "sigmoid({})": (lambda j, v: j.sigmoid(v), lambda m: 1, math.inf),
    "erf({})": (lambda j, v: j.erf(v), lambda m: 1, 4),
    "sin({})": (lambda j, v: j.np.sin(v), lambda m: 1, 30),
    "cos({})": (lambda j, v: j.np.cos(v), lambda m: 1, 30),
    "gelu({})": (lambda j, v: 0.5 * v * (1 + j.erf(v * 0.7071067811865476)), lambda m: m, 4),
    "gelu({}, approximate: true)": (lambda j, v: 0.5 * v * (1 + j.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))), lambda m: m, 4),
    "silu({})": (lambda j, v: v * j.sigmoid(v), lambda m: m, 60),
    "elu({}, alpha: 1.0)": (lambda j, v: j.np.where(v > 0, v, j.expm1(j.np.where(v > 0, 0, v))), lambda m: m + 1, 60),
}  # fmt: skip


@form(10, "plain trained curved")
def smooth(g):
    text, (reference, bound, most) = g.random.choice(list(SMOOTH.items()))
    narrow = text in ("elu({}, alpha: 1.0)",) or text.startswith("gelu") or text.startswith("silu")
    x = g.pick(lambda v: v.is_float and v.bound <= most and (v.dtype in ("f32", "f64") or not narrow))
    if x:
        kink = text.startswith("elu")
        unary(g, text, reference, x, bound(x.bound), kink=kink)


@form(4, "plain trained curved")
def polynomial(g):
    x = g.pick(lambda v: v.is_float or v.dtype in LEAST)
    if not x:
        return
    if not x.is_float:
        text, reference = g.random.choice((("square({})", lambda j, v: v * v), ("-{}", lambda j, v: -v), ("absolute({})", lambda j, v: j.absolute(v)),
                                           ("sign({})", lambda j, v: j.np.sign(v)), ("{} ** 2", lambda j, v: v * v)))
        unary(g, text, reference, x, GREATEST[x.dtype])
        return
    m, q = x.bound, x.quantum or 0
    text, reference, bound, quantum = g.random.choice((
        ("-{}", lambda j, v: -v, m, q), ("square({})", lambda j, v: v * v, m * m, 2 * q), ("{} ** 2", lambda j, v: v * v, m * m, 2 * q),
        ("{} ** 3", lambda j, v: v * v * v, m**3, 3 * q), ("{} ** 4", lambda j, v: v * v * (v * v), m**4, 4 * q)))  # fmt: skip
    unary(g, text, reference, x, bound, quantum)


@form(4)
def kinked(g):
    x = g.pick(lambda v: v.is_float)
    if not x:
        return
    m, q = x.bound, x.quantum
    text, reference, bound, quantum = g.random.choice((
        ("relu({})", lambda j, v: j.np.where(v > 0, v, 0), m, q), ("abs({})", lambda j, v: j.absolute(v), m, q),
        ("clip({}, -1.5, 1.25)", lambda j, v: j.minimum(j.maximum(v, j.of_type(-1.5, v)), j.of_type(1.25, v)), 1.5, max(q or 0, 2)),
        ("leaky_relu({}, slope: 0.25)", lambda j, v: j.np.where(v > 0, v, 0.25 * v), m, (q or 0) + 2)))  # fmt: skip
    unary(g, text, reference, x, bound, quantum, kink=True)


@form(3)
def jumping(g):
    x = g.pick(lambda v: v.is_float and v.exact)
    if x:
        text, reference = g.random.choice((("floor({})", lambda j, v: j.np.floor(v)), ("ceil({})", lambda j, v: j.np.ceil(v)),
                                           ("round({})", lambda j, v: j.np.round(v)), ("sign({})", lambda j, v: j.np.sign(v))))  # fmt: skip
        unary(g, text, lambda j, v: reference(j, j.stop(v)), x, x.bound + 1, 0, slopes=False)


@form(5)
def converted(g):
    x = g.pick(lambda v: v.exact or v.is_float)
    to = g.random.choice(DTYPES if x and x.exact else FLOATS)
    if not x or to == x.dtype or (x.bound > 60000 and to in ("f16", "bf16")):
        return
    g.add(f"{to}({x.name})", to, x.shape, lambda j, v: j.convert(v, to), (x,), x.bound, x.quantum, how=ELEMENTWISE)


def partner(g, x, same_dtype=True, holds=lambda value: True):
    """What broadcasts with x: of its shape, or without rows and with as few dimensions, some of 1."""

    def fits(y):
        if same_dtype and y.dtype != x.dtype or not holds(y):
            return False
        if y.has_rows and len(y.shape) != len(x.shape) or len(y.shape) > len(x.shape):
            return False
        return all(a == b or (b == 1 and a != "B") or (a == 1 and b != "B") for a, b in zip(x.shape[::-1], y.shape[::-1]))

    y = g.pick(fits)
    if y is None or g.random.random() < 0.15:
        shape = [d for d in x.shape if d != "B"][-g.random.randint(0, 2) :]
        y = g.constant(x.dtype, tuple(shape[: len(shape)])) if x.dtype != "bool" else y
    return y if y is None or fits(y) else None


def together(x, y):
    """The shape of both, broadcast."""
    n = max(len(x.shape), len(y.shape))
    a, b = (1,) * (n - len(x.shape)) + x.shape, (1,) * (n - len(y.shape)) + y.shape
    return tuple(q if p == 1 else p for p, q in zip(a, b))


@form(14, "plain trained curved")
def arithmetic(g):
    x = g.pick(lambda v: v.dtype != "bool")
    y = x and partner(g, x)
    if not y:
        return
    if g.random.random() < 0.3:
        x, y = y, x
    shape, a, b, p, q = together(x, y), x.bound, y.bound, x.quantum or 0, y.quantum or 0
    op = g.random.choice("+-*")
    bound, quantum = (a * b, p + q) if op == "*" else (a + b, max(p, q))
    reference = {"+": lambda j, u, v: u + v, "-": lambda j, u, v: u - v, "*": lambda j, u, v: u * v}[op]
    g.add(f"{x.name} {op} {y.name}", x.dtype, shape, reference, (x, y), bound, quantum, how=ELEMENTWISE)


@form(3, "plain trained curved")
def with_literal(g):
    x = g.pick(lambda v: v.is_float)
    if not x:
        return
    c, op = g.number(), g.random.choice(("+", "*", "-"))
    bound, quantum = (x.bound * abs(c), (x.quantum or 0) + 2) if op == "*" else (x.bound + abs(c), max(x.quantum or 0, 2))
    reference = {"+": lambda j, v: v + c, "-": lambda j, v: c - v, "*": lambda j, v: v * c}[op]
    g.add(f"{x.name} {op} {c}" if op != "-" else f"{c} - {x.name}", x.dtype, x.shape, reference, (x,), bound, quantum, how=ELEMENTWISE)


@form(3, "plain trained curved")
def divided(g):
    x = g.pick(lambda v: v.is_float)
    y = x and partner(g, x, holds=lambda v: v.bound <= 60)
    if y:
        text, reference, bound = g.random.choice((
            (f"{x.name} / ({y.name} * {y.name} + 0.5)", lambda j, u, v: u / (v * v + 0.5), 2 * x.bound),
            (f"({x.name} * {x.name} + 0.5) ** tanh({y.name})", lambda j, u, v: (u * u + 0.5) ** j.tanh(v), x.bound**2 + 2)))  # fmt: skip
        if "**" not in text or x.bound <= 30:
            g.add(text, x.dtype, together(x, y), reference, (x, y), bound, how=ELEMENTWISE)


@form(3)
def floor_divided(g):
    x = g.pick(lambda v: v.dtype != "bool" and v.exact)
    y = x and partner(g, x, holds=lambda v: v.exact)
    if not y:
        return
    op = g.random.choice(("//", "%"))
    if not x.is_float:
        reference = (lambda j, u, v: j.integer_quotient(u, v)) if op == "//" else (lambda j, u, v: j.integer_remainder(u, v))
        g.add(f"{x.name} {op} {y.name}", x.dtype, together(x, y), reference, (x, y), GREATEST[x.dtype], how=ELEMENTWISE)
        return
    reference = (lambda j, u, v: j.quotient(u, j.np.where(v == 0, 0.5, v))) if op == "//" else (lambda j, u, v: j.remainder(u, j.np.where(v == 0, 0.5, v)))
    bound, quantum = (x.bound * 2 ** max(y.quantum, 1), 0) if op == "//" else (y.bound + 0.5, max(x.quantum, y.quantum, 1))
    g.add(f"{x.name} {op} where({y.name} == 0, 0.5, {y.name})", x.dtype, together(x, y), reference, (x, y), bound, quantum, slopes=op == "%",
          how=ELEMENTWISE)  # fmt: skip


@form(3)
def extremes_of_two(g):
    x = g.pick(lambda v: v.dtype != "bool")
    y = x and partner(g, x)
    if y:
        op = g.random.choice(("maximum", "minimum"))
        stop = cut_reference(g, x, y)
        g.add(f"{op}({cut(g, x, y)}, {cut(g, y, x)})", x.dtype, together(x, y), lambda j, u, v: getattr(j, op)(stop(j, u), stop(j, v)), (x, y),
              max(x.bound, y.bound), max(x.quantum or 0, y.quantum or 0), slopes=not is_cut(g, x, y), how=ELEMENTWISE)  # fmt: skip


@form(5)
def compared(g):
    x = g.pick(lambda v: v.exact and v.dtype != "bool")
    any_integer = x and not x.is_float
    y = x and partner(g, x, same_dtype=not any_integer, holds=lambda v: v.exact and (v.dtype == x.dtype or (any_integer and v.dtype in LEAST)))
    if y:
        op, name = g.random.choice((("==", "equal"), ("!=", "not_equal"), ("<", "less"), ("<=", "less_equal"), (">", "greater"), (">=", "greater_equal")))
        text = f"{x.name} {op} {y.name}" if x.dtype != y.dtype or g.random.random() < 0.7 else f"{name}({x.name}, {y.name})"
        g.add(text, "bool", together(x, y), lambda j, u, v: getattr(j.np, name)(u, v), (x, y), how=ELEMENTWISE)


@form(2)
def logical(g):
    x = g.pick(lambda v: v.dtype == "bool")
    if x and g.random.random() < 0.3:
        g.add(f"not {x.name}", "bool", x.shape, lambda j, v: j.np.logical_not(v), (x,), how=ELEMENTWISE)
        return
    y = x and partner(g, x)
    if y:
        op = g.random.choice(("and", "or"))
        g.add(f"{x.name} {op} {y.name}", "bool", together(x, y), lambda j, u, v: getattr(j.np, f"logical_{op}")(u, v), (x, y),
              how=ELEMENTWISE)  # fmt: skip


@form(4)
def chosen(g):
    condition = g.pick(lambda v: v.dtype == "bool")
    x = condition and partner(g, condition, same_dtype=False, holds=lambda v: v.dtype != "bool")
    if not x:
        return
    shape = together(condition, x)
    y = partner(g, Value("", x.dtype, shape))
    if y is None or g.random.random() < 0.3:
        number = g.number() if x.is_float else 1
        g.add(f"where({condition.name}, {x.name}, {number})", x.dtype, shape, lambda j, c, u: j.np.where(c, u, j.of_type(number, u)), (condition, x),
              max(x.bound, abs(number)), max(x.quantum or 0, 2), how=ELEMENTWISE)  # fmt: skip
        return
    shape = together(Value("", x.dtype, shape), y)
    g.add(f"where({condition.name}, {x.name}, {y.name})", x.dtype, shape, lambda j, c, u, v: j.np.where(c, u, v), (condition, x, y),
          max(x.bound, y.bound), max(x.quantum or 0, y.quantum or 0), how=ELEMENTWISE)  # fmt: skip


def moved(g, x, text, shape, reference, bound=None, quantum=None):
    return g.add(text, x.dtype, shape, reference, (x,), x.bound if bound is None else bound, x.quantum if quantum is None else max(quantum, x.quantum or 0),
                 how=MOVEMENT)  # fmt: skip


@form(4, "plain trained edges curved")
def transposed(g):
    x = g.pick(lambda v: len(v.shape) >= 2)
    if not x:
        return
    first = 1 if x.has_rows else 0
    order = list(range(len(x.shape)))
    rest = order[first:]
    g.random.shuffle(rest)
    order = order[:first] + rest
    text = f"{x.name}.T" if order == [1, 0] else f"transpose({x.name}, {order})"
    moved(g, x, text, [x.shape[i] for i in order], lambda j, v: j.np.transpose(v, order))


@form(4)
def reshaped(g):
    x = g.pick(lambda v: v.size > 0)
    if not x:
        return
    head, rest = x.shape[: int(x.has_rows)], x.shape[int(x.has_rows) :]
    n = math.prod(rest)
    shapes = [(n,), (1, n), (n, 1)] + [(d, n // d) for d in (3, 9) if n % d == 0]
    shape = head + g.random.choice(shapes)
    if shape != x.shape:
        moved(g, x, f"reshape({x.name}, {dims(shape)})", shape, lambda j, v: j.np.reshape(v, [ROWS if d == "B" else d for d in shape]))


@form(4, "plain trained edges curved")
def sliced(g):
    x = g.pick(lambda v: len(v.shape) > int(v.has_rows) and v.size > 0)
    if not x:
        return
    axis = g.random.randrange(int(x.has_rows), len(x.shape))
    size = x.shape[axis]
    begin, step = g.random.randrange(size), g.random.choice((1, 1, 2, 3))
    end = g.random.randint(begin + 1, size)
    if size >= 3 and g.random.random() < 0.7:  # three of them
        begin, step = g.random.choice([(i, k) for i in range(size) for k in (1, 2, 3) if i + 2 * k < size])
        end = min(begin + 3 * step, size)
    if g.random.random() < 0.25:
        index, shape = str(begin - g.random.choice((0, size))), x.shape[:axis] + x.shape[axis + 1 :]
    elif g.random.random() < 0.1:
        index, shape = f"{begin}:{begin}", x.shape[:axis] + (0,) + x.shape[axis + 1 :]
    else:
        index, shape = f"{begin}:{end}:{step}", x.shape[:axis] + (len(range(begin, end, step)),) + x.shape[axis + 1 :]
    place = ", ".join([":"] * axis + [index])
    parts = [None if part == "" else int(part) for part in index.split(":")]
    where = (slice(None),) * axis + (parts[0] if len(parts) == 1 else slice(*parts),)
    moved(g, x, f"{x.name}[{place}]", shape, lambda j, v: j.part(v, where))


@form(2)
def new_axis(g):
    x = g.pick(lambda v: len(v.shape) < 4)
    if x:
        axis = g.random.randint(int(x.has_rows), len(x.shape))
        place = ", ".join([":"] * axis + ["newaxis"] + ["..."] * (axis < len(x.shape)))
        moved(g, x, f"{x.name}[{place}]", x.shape[:axis] + (1,) + x.shape[axis:], lambda j, v: j.np.expand_dims(v, axis))


@form(2)
def repeated(g):
    x = g.pick(lambda v: any(d == 1 for d in v.shape))
    if x:
        shape = tuple(3 if d == 1 else d for d in x.shape)
        moved(g, x, f"broadcast({x.name}, {dims(shape)})", shape, lambda j, v: j.np.broadcast_to(v, [ROWS if d == "B" else d for d in shape]))


@form(2, "plain trained edges")
def reversed_(g):
    x = g.pick(lambda v: len(v.shape) > int(v.has_rows))
    if x:
        axis = g.random.randrange(int(x.has_rows), len(x.shape))
        moved(g, x, f"reverse({x.name}, axis: {axis})", x.shape, lambda j, v: j.np.flip(v, axis))


@form(3)
def padded(g):
    x = g.pick(lambda v: v.dtype != "bool" and len(v.shape) > int(v.has_rows))
    if not x:
        return
    axis = g.random.randrange(int(x.has_rows), len(x.shape))
    if x.shape[axis] == 0:
        return
    low, high, step = g.random.choice({1: ((1, 1, 1), (2, 0, 1)), 3: ((2, 4, 1), (1, 3, 2), (1, 1, 3))}.get(x.shape[axis], ((0, 0, 1),)))
    size = (x.shape[axis] - 1) * step + 1 + low + high
    number = g.number() if x.is_float else 1
    each = lambda at, other: dims([at if d == axis else other for d in range(len(x.shape))])  # noqa: E731
    text = f"ops.pad({x.name}, low: {each(low, 0)}, high: {each(high, 0)}, value: {number}, steps: {each(step, 1)})"
    if step == 1:
        text = f"pad({x.name}, {each(low, 0)}, {each(high, 0)}, value: {number})"
    moved(g, x, text, x.shape[:axis] + (size,) + x.shape[axis + 1 :], lambda j, v: j.pad(v, axis, low, high, step, number), max(x.bound, abs(number)), 2)


@form(4)
def joined(g):
    x = g.pick(lambda v: len(v.shape) > int(v.has_rows) and any(d in (1, 3) for d in v.shape[int(v.has_rows) :]))
    if not x:
        return
    axis = g.random.choice([d for d in range(int(x.has_rows), len(x.shape)) if x.shape[d] in (1, 3)])
    parts = [x, *(g.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape, new_inputs=False) for _ in range(2))]
    g.random.shuffle(parts)
    g.add(f"concatenate([{', '.join(part.name for part in parts)}], axis: {axis})", x.dtype, x.shape[:axis] + (3 * x.shape[axis],) + x.shape[axis + 1 :],
          lambda j, u, v, w: j.np.concatenate([u, v, w], axis), parts, max(v.bound for v in parts), max(v.quantum or 0 for v in parts),
          how=MOVEMENT)  # fmt: skip


@form(1)
def split(g):
    x = g.pick(lambda v: len(v.shape) > int(v.has_rows) and v.shape[-1] in (3, 9))
    if x:
        n = 3
        part, size = g.random.randrange(n), x.shape[-1] // n
        moved(g, x, f"split({x.name}, {n})[{part}]", x.shape[:-1] + (size,), lambda j, v: j.part(v, (..., slice(part * size, (part + 1) * size))))


@form(2)
def positions(g):
    x = g.pick()
    axis = g.random.randrange(len(x.shape)) if x and x.shape else None
    if axis is not None:
        dtype, shape = g.random.choice(("i64", "f32", "i32")), x.shape
        g.add(f"iota({dims(shape)}, axis: {axis}, dtype: {dtype})", dtype, shape, lambda j: j.iota(shape, axis, dtype), (), 64, 0, how=DECISION)


def over(g, x, with_empty=True):
    """Axes to reduce over: a list, the shapes without and with them, and how they are written."""
    axes = sorted(g.random.sample(range(len(x.shape)), g.random.randint(1, len(x.shape))))
    if not with_empty and any(x.shape[a] == 0 for a in axes):
        return None
    keep = g.random.random() < 0.3
    shape = tuple(1 if d in axes else size for d, size in enumerate(x.shape)) if keep else tuple(s for d, s in enumerate(x.shape) if d not in axes)
    text = f"axis: {axes[0]}" if len(axes) == 1 else f"axes: {axes}"
    return axes, shape, keep, text + (", keep: true" if keep else ""), math.prod(x.numbers()[a] for a in axes)


@form(8, "plain trained curved")
def summed(g):
    x = g.pick(lambda v: len(v.shape) > 0)
    if not x:
        return
    axes, shape, keep, text, n = over(g, x)
    dtype = x.dtype if x.is_float else "i64"
    rows = 3 if 0 in axes and x.has_rows else 1  # the most replicas
    g.add(f"sum({x.name}, {text})", dtype, shape, lambda j, v: j.sum(v, axes, keep), (x,), x.bound * n * rows, x.quantum, is_sum=True, how=SUM)  # fmt: skip


@form(3, "plain trained curved")
def averaged(g):
    x = g.pick(lambda v: len(v.shape) > 0 and v.size > 0 and (v.is_float or v.dtype != "i64"))
    if not x or x.bound > 1e6:
        return
    axes, shape, keep, text, n = over(g, x)
    dtype = x.dtype if x.is_float else "f32"
    g.add(f"mean({x.name}, {text})", dtype, shape, lambda j, v: j.mean(v, axes, keep), (x,), x.bound, is_sum=True, how=SUM)


@form(2)
def multiplied(g):
    x = g.pick(lambda v: len(v.shape) > 0 and v.dtype != "bool" and (not v.is_float or v.bound <= 4))
    if not x:
        return
    axes, shape, keep, text, n = over(g, x)
    if x.is_float and n > 6 or (x.has_rows and 0 in axes):
        return
    g.add(f"product({x.name}, {text})", x.dtype if x.is_float else "i64", shape, lambda j, v: j.np.prod(j.integers(v), tuple(axes), keepdims=keep), (x,),
          max(x.bound, 1) ** n, (x.quantum or 0) * max(n, 1))  # fmt: skip


@form(5)
def extremes(g):
    x = g.pick(lambda v: len(v.shape) > 0 and v.dtype != "bool" and v.size > 0)
    drawn = x and over(g, x, with_empty=False)
    if drawn:
        axes, shape, keep, text, _ = drawn
        op, before = g.random.choice(("max", "min")), cut_reference(g, x)
        g.add(f"{op}({cut(g, x)}, {text})", x.dtype, shape, lambda j, v: j.extreme(op, before(j, v), axes, keep), (x,), x.bound, x.quantum,
              slopes=not is_cut(g, x), how=MOVEMENT)  # fmt: skip


@form(3)
def places_of_extremes(g):
    x = g.pick(lambda v: v.exact and len(v.shape) > 0 and v.dtype != "bool" and v.size > 0)
    drawn = x and over(g, x, with_empty=False)
    if drawn:
        axes, shape, keep, text, _ = drawn
        op = g.random.choice(("argmax", "argmin"))
        name = op if len(axes) == 1 else f"ops.{op}"
        g.add(f"{name}({x.name}, {text})", "i64", shape, lambda j, v: j.place(op, v, axes, keep), (x,), 64, how=DECISION)


@form(2)
def quantified(g):
    x = g.pick(lambda v: v.dtype == "bool" and len(v.shape) > 0)
    if x:
        axes, shape, keep, text, _ = over(g, x)
        op = g.random.choice(("all", "any"))
        g.add(f"{op}({x.name}, {text})", "bool", shape, lambda j, v: getattr(j.np, op)(v, tuple(axes), keepdims=keep), (x,), how=DECISION)


@form(1, "plain")
def counted(g):
    x = g.pick(lambda v: v.has_rows)
    if x:
        g.add(f"count({x.name})", "i64", (), lambda j, v: j.full((), x.size, "i64"), (x,), 1000, how=DECISION)


PRODUCT_PRECISION = {"tf32": 11, "bf16": 8}


def product(g, text, shape, reference, x, y, n, precision=None):
    """A sum of n products. Factors rounded to a precision are exact where they have no more places than it."""
    q = (x.quantum or 0) + (y.quantum or 0)
    if precision and x.exact and y.exact and max(v.bound * 2**v.quantum for v in (x, y)) > 2 ** PRODUCT_PRECISION[precision]:
        return None
    value = g.add(text, x.dtype, shape, reference, (x, y), x.bound * y.bound * max(n, 1), q, is_sum=True)
    if value and precision:  # gradients are rounded too, where the value itself is exact
        value.eps = max(value.eps, 2.0 ** -PRODUCT_PRECISION[precision])
    return value


def rounding(g, x):
    precision = g.random.choice(("tf32", "bf16")) if x.dtype == "f32" and g.random.random() < 0.15 else None
    return precision, f', precision: "{precision}"' if precision else ""


@form(6, "plain trained curved")
def matrix_product(g):
    x = g.pick(lambda v: v.is_float and len(v.shape) >= 2 and v.shape[-1] != "B" and (v.shape[-2] != "B" or len(v.shape) == 2))
    if not x:
        return
    k = x.shape[-1]
    y = g.pick(lambda v: v.dtype == x.dtype and len(v.shape) >= 2 and v.shape[-2] == k and v.shape[:-2] in ((), x.shape[:-2]) and len(v.shape) <= len(x.shape))
    if y is None or g.random.random() < 0.5:
        y = g.constant(x.dtype, (k, g.random.choice((1, 3, 9))))
    if y is None or y.shape[-2] == "B":
        return
    shape = x.shape[:-1] + y.shape[-1:]
    precision, said = rounding(g, x)
    if not said:
        product(g, f"{x.name} @ {y.name}", shape, lambda j, u, v: u @ v, x, y, k)
        return
    product(g, f"ops.matmul({x.name}, {y.name}{said})", shape, lambda j, u, v: j.rounded(u, precision) @ j.rounded(v, precision), x, y, k, precision)


@form(3)
def transposed_product(g):
    x = g.pick(lambda v: v.is_float and len(v.shape) == 3)
    y = x and g.pick(lambda v: v.dtype == x.dtype and len(v.shape) == 3 and v.shape[0] == x.shape[0])
    if not y:
        return
    choices = [(a, b) for a in (False, True) for b in (False, True) if x.shape[1 if a else 2] == y.shape[2 if b else 1]]
    if not choices:
        return
    a, b = g.random.choice(choices)
    flip = lambda j, v, on: j.np.swapaxes(v, 1, 2) if on else v  # noqa: E731
    words = f"{', transpose_a: true' if a else ''}{', transpose_b: true' if b else ''}"
    product(g, f"ops.matmul({x.name}, {y.name}{words})", (x.shape[0], x.shape[2 if a else 1], y.shape[1 if b else 2]),
            lambda j, u, v: flip(j, u, a) @ flip(j, v, b), x, y, x.shape[1 if a else 2])  # fmt: skip


@form(2)
def general_product(g):
    x = g.pick(lambda v: v.is_float and v.has_rows and 2 <= len(v.shape) <= 3)
    y = x and g.pick(lambda v: v.dtype == x.dtype and 2 <= len(v.shape) <= 3 and any(d in v.shape for d in x.shape[1:] if d != 1))
    if not y:
        return
    batch = [0] if y.has_rows else []
    pairs = [(i, k) for i in range(1, len(x.shape)) for k in range(len(batch), len(y.shape)) if x.shape[i] == y.shape[k]]
    if not pairs:
        return
    i, k = g.random.choice(pairs)
    shape = tuple(d for n, d in enumerate(x.shape) if n != i) + tuple(d for n, d in enumerate(y.shape) if n not in (k, *batch))
    text = f"ops.dot_general({x.name}, {y.name}, a_batch: {batch}, b_batch: {batch}, a_contract: [{i}], b_contract: [{k}])"
    product(g, text, shape, lambda j, u, v: j.dot_general(u, v, batch, batch, [i], [k]), x, y, x.shape[i])


@form(1, "plain")
def pairs_of_rows(g):
    x = g.pick(lambda v: v.has_rows and v.is_float and len(v.shape) == 2)
    y = x and g.pick(lambda v: v.has_rows and v.dtype == x.dtype and v.shape == x.shape)
    if y:
        g.add(f"sum({x.name}[:, newaxis] * {y.name}[newaxis, :], axis: 1)", x.dtype, x.shape, lambda j, u, v: j.np.sum(u[:, None] * v[None], 1), (x, y),
              x.bound * y.bound * ROWS * 3, (x.quantum or 0) + (y.quantum or 0), is_sum=True)  # fmt: skip


def image(g):
    return g.pick(lambda v: v.dtype in ("f32", "f64") and v.has_rows and len(v.shape) == 4 and v.size > 0)


def windows(g, size):
    """Strides and padding: height and width."""
    return [g.random.choice((1, 1, 2)) for _ in size], [g.random.choice((0, 0, 1)) if k > 1 else 0 for k in (size[0], size[0], size[1], size[1])]


def extent(n, k, stride, before, after, dilation=1):
    return (n + before + after - dilation * (k - 1) - 1) // stride + 1


def result_size(x, size, strides, padding, dilation=(1, 1)):
    found = [extent(x.shape[1 + i], size[i], strides[i], padding[2 * i], padding[2 * i + 1], dilation[i]) for i in range(2)]
    return found if min(found) > 0 else None


@form(4)
def convolved(g):
    x = image(g)
    if not x:
        return
    size = [g.random.randint(1, 3), g.random.randint(1, 3)]
    strides, padding = windows(g, size)
    dilation = [g.random.choice((1, 1, 2)) for _ in size]
    found, channels, filters = result_size(x, size, strides, padding, dilation), x.shape[3], g.random.choice((1, 3))
    kernel = found and g.constant(x.dtype, (*size, channels, filters))
    if kernel:
        precision, said = rounding(g, x)
        rounded = (lambda j, v: j.rounded(v, precision)) if precision else (lambda j, v: v)
        product(g, f"ops.conv2d({x.name}, {kernel.name}, strides: {strides}, padding: {padding}, dilation: {dilation}{said})", ("B", *found, filters),
                lambda j, u, w: j.convolution(rounded(j, u), rounded(j, w), strides, padding, dilation), x, kernel, math.prod(size) * channels, precision)  # fmt: skip


@form(2)
def convolved_in_groups(g):
    x = g.pick(lambda v: v.dtype in ("f32", "f64") and v.has_rows and len(v.shape) == 4 and v.shape[1] >= 3 and v.shape[2] >= 3 and v.shape[3] == 3)
    if x:
        kernel = g.constant(x.dtype, (3, 3, 1, 3, 1))
        found = result_size(x, [3, 3], [1, 1], [0, 0, 0, 0])
        if kernel and found:
            product(g, f"ops.conv2d(reshape({x.name}, {dims((*x.shape, 1))}), {kernel.name})[..., 0]", ("B", *found, 3),
                    lambda j, u, w: j.convolution(u[..., None], w, [1, 1], [0] * 4, [1, 1])[..., 0], x, kernel, 9)  # fmt: skip


@form(3)
def convolved_back(g):
    y = image(g)
    if not y:
        return
    size, strides, padding = [], [], [0, 0, 0, 0]
    for extent_of_y in y.shape[1:3]:  # such that it is allowed to be as large
        k, stride = g.random.choice({1: ((1, 1), (3, 1), (3, 2)), 3: ((1, 1), (3, 1), (1, 2)), 5: ((1, 1),)}[extent_of_y])
        size.append(k)
        strides.append(stride)
    grown = [(y.shape[1 + i] - 1) * strides[i] + size[i] for i in range(2)]
    channels = g.random.choice((1, 3))
    kernel = g.constant(y.dtype, (*size, channels, y.shape[3]))
    if kernel:
        product(g, f"ops.conv2d_input_gradient({y.name}, {kernel.name}, size: {grown}, strides: {strides}, padding: {padding})", ("B", *grown, channels),
                lambda j, u, w: j.convolution_input_gradient(u, w, grown, strides, padding), y, kernel, math.prod(size) * y.shape[3])  # fmt: skip


@form(3)
def kernel_of_convolution(g):
    x = image(g)
    size = [3, 3]
    strides, padding = windows(g, size)
    found = x and result_size(x, size, strides, padding)
    y = found and summed_windows(g, x, size, strides, padding)
    if y:
        product(g, f"ops.conv2d_kernel_gradient({x.name}, {y.name}, size: {size}, strides: {strides}, padding: {padding})", (*size, x.shape[3], y.shape[3]),
                lambda j, u, v: j.convolution_kernel_gradient(u, v, size, strides, padding), x, y, 3 * ROWS * math.prod(found))  # fmt: skip


@form(4)
def convolved_boxes(g):
    """Of three planes, each the image, to one plane; or that one's gradients."""
    x = image(g)
    if not x:
        return
    planes = f"concatenate([{', '.join([f'{x.name}[:, newaxis]'] * 3)}], axis: 1)"
    stacked = lambda j, v: j.np.stack([v] * 3, 1)
    size = [g.random.choice((1, 3)) for _ in range(3)]
    strides, padding = windows(g, size[1:])
    found = result_size(x, size[1:], strides, padding)
    strides, padding, channels, filters = [3, *strides], [0, 0, *padding], x.shape[3], g.random.choice((1, 3))
    words = f"strides: {strides}, padding: {padding}"
    kernel = found and g.constant(x.dtype, (*size, channels, filters))
    y = kernel and product(g, f"ops.conv3d({planes}, {kernel.name}, {words})[:, 0]", ("B", *found, filters),
                           lambda j, u, w: j.convolution(stacked(j, u), w, strides, padding)[:, 0], x, kernel, math.prod(size) * channels)  # fmt: skip
    if y and g.random.random() < 0.5:
        own = [3, *x.shape[1:3]]
        product(g, f"ops.conv3d_input_gradient({y.name}[:, newaxis], {kernel.name}, size: {own}, {words})[:, 0]", x.shape,
                lambda j, v, w: j.convolution_input_gradient(v[:, None], w, own, strides, padding)[:, 0], y, kernel, math.prod(size) * filters)  # fmt: skip
    elif y:
        product(g, f"ops.conv3d_kernel_gradient({planes}, {y.name}[:, newaxis], size: {size}, {words})", (*size, channels, filters),
                lambda j, u, v: j.convolution_kernel_gradient(stacked(j, u), v[:, None], size, strides, padding), x, y, 3 * ROWS * math.prod(found))  # fmt: skip


def summed_windows(g, x, size, strides, padding):
    return g.add(f"ops.sum_pool2d({x.name}, size: {size}, strides: {strides}, padding: {padding})", x.dtype,
                 ("B", *result_size(x, size, strides, padding), x.shape[3]), lambda j, v: j.sum_pool2d(v, size, strides, padding), (x,),
                 x.bound * math.prod(size), x.quantum, True)  # fmt: skip


@form(6)
def pooled(g):
    x = image(g)
    if not x:
        return
    size = [g.random.choice((1, 2, 3)), g.random.choice((1, 3, 3))]
    strides, padding = windows(g, size)
    found = result_size(x, size, strides, padding)
    if not found:
        return
    shape, n = ("B", *found, x.shape[3]), math.prod(size)
    words = f"size: {size}, strides: {strides}, padding: {padding}"
    which = g.random.choice(("max", "sum", "index", "average"))
    if which == "max":
        before = cut_reference(g, x)
        g.add(f"ops.max_pool2d({cut(g, x)}, {words})", x.dtype, shape, lambda j, v: j.max_pool2d(before(j, v), size, strides, padding), (x,), x.bound, x.quantum,
              slopes=not is_cut(g, x), how=MOVEMENT)  # fmt: skip
    elif which == "sum":
        summed_windows(g, x, size, strides, padding)
    elif which == "average" and min(x.shape[1:3]) >= 3:
        g.add(f"average_pool2d({x.name}, size: 3, stride: 2)", x.dtype, ("B", *result_size(x, [3, 3], [2, 2], [0] * 4), x.shape[3]),
              lambda j, v: j.sum_pool2d(v, [3, 3], [2, 2], [0] * 4) / 9, (x,), x.bound * 9, None, True)  # fmt: skip
    elif which == "index" and x.exact:
        index = g.add(f"ops.max_pool2d_index({x.name}, {words})", "i32", shape, lambda j, v: j.max_pool2d_index(v, size, strides, padding), (x,), n,
                      how=DECISION)  # fmt: skip
        if index and g.random.random() < 0.5:
            g.add(f"ops.window_gather({x.name}, {index.name}, {words})", x.dtype, shape, lambda j, v, i: j.window_gather(v, i, size, strides, padding),
                  (x, index), x.bound, x.quantum, how=INDEXED)  # fmt: skip
        elif index:
            own = list(x.shape[1:3])
            updates = summed_windows(g, x, size, strides, padding)
            if updates:
                g.add(f"ops.window_scatter({updates.name}, {index.name}, input: {own}, {words})", x.dtype, x.shape,
                      lambda j, u, i: j.window_scatter(u, i, own, size, strides, padding), (updates, index), updates.bound * n, updates.quantum, True)  # fmt: skip


@form(2)
def spread(g):
    y = image(g)
    if y and max(y.shape[1:3]) <= 3:
        size, strides = [3, 3], [1, 1]
        own = [y.shape[1 + i] + 2 for i in range(2)]
        g.add(f"ops.sum_pool2d_gradient({y.name}, input: {own}, size: {size}, strides: {strides})", y.dtype, ("B", *own, y.shape[3]),
              lambda j, v: j.sum_pool2d_gradient(v, own, size, strides, [0] * 4), (y,), y.bound * 9, y.quantum, True)  # fmt: skip


def index_below(g, n, holds):
    """A value of integers and how it is written such that it is below n."""
    index = g.pick(lambda v: v.dtype in LEAST and holds(v))
    return (index, f"{index.name} % {n}") if index and n <= 127 else (None, None)


@form(3)
def gathered(g):
    x = g.pick(lambda v: not v.has_rows and len(v.shape) in (1, 2) and v.size > 0)
    if x is None or g.random.random() < 0.5:
        x = g.constant(g.random.choice(("f32", "f64", "i32")), (g.random.choice((3, 9)), g.random.choice((1, 3))))
    index, text = index_below(g, x.shape[0], lambda v: len(v.shape) <= 2) if x else (None, None)
    if index:
        n = x.shape[0]
        written = f"{x.name}[{text}]" if g.random.random() < 0.5 else f"gather({x.name}, {text})"
        g.add(written, x.dtype, index.shape + x.shape[1:], lambda j, v, i: j.gather(v, j.integer_remainder(i, n), 0), (x, index), x.bound, x.quantum,
              how=INDEXED)  # fmt: skip


@form(3)
def gathered_in_rows(g):
    x = g.pick(lambda v: v.has_rows and len(v.shape) >= 2 and v.shape[1] > 0)
    index, text = index_below(g, x.shape[1], lambda v: v.has_rows and len(v.shape) <= 2) if x else (None, None)
    if index:
        n = x.shape[1]
        g.add(f"gather({x.name}, {text}, axis: 1)", x.dtype, index.shape + x.shape[2:], lambda j, v, i: j.gather(v, j.integer_remainder(i, n), 1), (x, index),
              x.bound, x.quantum, how=INDEXED)  # fmt: skip


@form(2)
def scattered(g):
    x = g.pick(lambda v: v.has_rows and v.dtype != "bool" and len(v.shape) >= 2)
    size = g.random.choice((3, 9))
    axis = g.random.choice((0, 1))
    index, text = index_below(g, size, lambda v: v.shape == x.shape[: len(v.shape)] and len(v.shape) >= (2 if axis else 1)) if x else (None, None)
    if index:
        shape = index.shape[:axis] + (size,) + x.shape[len(index.shape) :]
        n = math.prod(index.numbers()[axis:])
        g.add(f"ops.scatter_add({x.name}, {text}, axis: {axis}, size: {size})", x.dtype, shape,
              lambda j, v, i: j.scatter_add(v, j.integer_remainder(i, size), axis, size), (x, index), 3 * x.bound * n, x.quantum, True,
              how=SUM)  # fmt: skip


@form(4, "plain trained curved")
def normalised(g):
    x = g.pick(lambda v: v.dtype in ("f32", "f64") and len(v.shape) >= 2 and v.bound <= 60 and isinstance(v.shape[-1], int) and v.shape[-1] > 0)
    if x:
        op = g.random.choice(("softmax", "log_softmax", "silu_softmax"))
        if op == "silu_softmax":
            axis = len(x.shape) - 1
            g.add(f"softmax(silu({x.name}), axis: {axis})", x.dtype, x.shape, lambda j, v: j.softmax(v * j.sigmoid(v)), (x,), 1)
        else:
            g.add(f"{op}({x.name})", x.dtype, x.shape, lambda j, v: getattr(j, op)(v), (x,), 1 if op == "softmax" else 2 * x.bound + 4)


@form(3)
def lost(g):
    x = g.pick(lambda v: v.dtype in ("f32", "f64") and len(v.shape) >= 2 and v.bound <= 60 and isinstance(v.shape[-1], int) and v.shape[-1] > 0)
    if not x:
        return
    n, shape = x.shape[-1], x.shape[:-1]
    which = g.random.choice(("sparse", "smooth", "categorical", "sigmoid", "squared", "absolute", "huber"))
    if which in ("sparse", "smooth"):
        index, text = index_below(g, n, lambda v: v.shape == shape)
        rate = 0.25 if which == "smooth" else 0.0
        if index:
            said = f", label_smoothing: {rate}" if rate else ""
            g.add(f"sparse_categorical_crossentropy({text}, {x.name}{said})", x.dtype, shape,
                  lambda j, v, i: j.sparse_crossentropy(j.integer_remainder(i, n), v, rate), (x, index), 2 * x.bound + 4, is_sum=True)  # fmt: skip
        return
    y = g.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
    if not y:
        return
    if which == "categorical":
        g.add(f"categorical_crossentropy(softmax({y.name}), {x.name})", x.dtype, shape,
              lambda j, u, v: -j.np.sum(j.softmax(v) * j.log_softmax(u), -1), (x, y), 2 * x.bound + 4, is_sum=True) if y.bound <= 60 else None  # fmt: skip
        return
    cuts = which != "squared" and is_cut(g, x, y)
    a, b = (cut(g, x, y), cut(g, y, x)) if cuts else (x.name, y.name)
    stop = cut_reference(g, x, y) if cuts else lambda j, v: v
    if which == "sigmoid":
        g.add(f"sigmoid_crossentropy({b}, {a})", x.dtype, x.shape,
              lambda j, u, v: j.np.logaddexp(stop(j, u), j.of_type(0, u)) - stop(j, u) * stop(j, v), (x, y),
              x.bound * (y.bound + 1) + 1, slopes=not cuts)  # fmt: skip
        return
    text, reference, bound = {
        "squared": ("mean_squared_error({b}, {a})", lambda j, e: e * e, (x.bound + y.bound) ** 2),
        "absolute": ("mean_absolute_error({b}, {a})", lambda j, e: j.absolute(e), x.bound + y.bound),
        "huber": ("huber({b}, {a})", lambda j, e: j.np.where(j.absolute(e) <= 1, 0.5 * e * e, j.absolute(e) - 0.5), x.bound + y.bound),
    }[which]  # fmt: skip
    g.add(text.format(a=a, b=b), x.dtype, shape, lambda j, u, v: j.np.sum(reference(j, stop(j, u) - stop(j, v)), -1) / n, (x, y), bound, is_sum=True, slopes=not cuts)


@form(1, "plain")
def random_numbers(g):
    value = g.add("uniform([B, 9]) - 0.5", "f32", ("B", 9), None, (), 1)
    if value:
        value.by_framework = False


# ---- forms of edges: ops that IEEE 754 and the language define to the bit, in the types themselves ----


@form(10, "edges")
def edge_arithmetic(g):
    x = g.pick(lambda v: v.dtype != "bool")
    y = x and g.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
    if not y:
        return
    op = g.random.choice("+-*/" if x.is_float and y.sign_of_zero else "+-*")
    reference = {"+": lambda j, u, v: u + v, "-": lambda j, u, v: u - v, "*": lambda j, u, v: u * v, "/": lambda j, u, v: u / v}[op]
    g.add(f"{x.name} {op} {y.name}", x.dtype, x.shape, reference, (x, y), how=ELEMENTWISE)


@form(4, "edges")
def edge_quotient(g):
    x = g.pick(lambda v: v.dtype in LEAST)
    y = x and g.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
    if y:
        op = g.random.choice(("//", "%"))
        reference = (lambda j, u, v: j.integer_quotient(u, v)) if op == "//" else (lambda j, u, v: j.integer_remainder(u, v))
        g.add(f"{x.name} {op} {y.name}", x.dtype, x.shape, reference, (x, y), how=ELEMENTWISE)


@form(11, "edges")
def edge_unary(g):
    x = g.pick(lambda v: v.dtype != "bool")
    if not x:
        return
    forms = {"-{}": lambda j, v: -v, "absolute({})": lambda j, v: j.absolute(v), "square({})": lambda j, v: v * v, "sign({})": lambda j, v: j.sign(v)}
    if x.is_float:
        forms |= {"floor({})": lambda j, v: j.np.floor(v), "ceil({})": lambda j, v: j.np.ceil(v), "round({})": lambda j, v: j.np.round(v),
                  "sqrt({})": lambda j, v: j.np.sqrt(v), "isfinite({})": lambda j, v: j.np.isfinite(v), "relu({})": lambda j, v: j.maximum(v, j.of_type(0, v))}  # fmt: skip
    text, reference = g.random.choice(list(forms.items()))
    g.add(text.format(x.name), "bool" if "isfinite" in text else x.dtype, x.shape, reference, (x,), sign_of_zero="relu" not in text, how=ELEMENTWISE)


@form(8, "edges")
def edge_conversion(g):
    x, to = g.pick(), g.random.choice(DTYPES)
    if x and to != x.dtype:
        g.add(f"{to}({x.name})", to, x.shape, lambda j, v: j.convert(v, to), (x,), how=ELEMENTWISE)


@form(6, "edges")
def edge_comparison(g):
    x = g.pick(lambda v: v.dtype != "bool")
    y = x and g.pick(lambda v: v.shape == x.shape and (v.dtype == x.dtype or (v.dtype in LEAST and x.dtype in LEAST)))
    if y:
        op, name = g.random.choice((("==", "equal"), ("!=", "not_equal"), ("<", "less"), ("<=", "less_equal"), (">", "greater"), (">=", "greater_equal")))
        g.add(f"{x.name} {op} {y.name}", "bool", x.shape, lambda j, u, v: getattr(j.np, name)(u, v), (x, y), how=ELEMENTWISE)


@form(5, "edges")
def edge_choice(g):
    x = g.pick(lambda v: v.dtype != "bool")
    y = x and g.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
    if not y:
        return
    condition = g.pick(lambda v: v.dtype == "bool" and v.shape == x.shape, new_inputs=False)
    if condition and g.random.random() < 0.6:
        g.add(f"where({condition.name}, {x.name}, {y.name})", x.dtype, x.shape, lambda j, c, u, v: j.np.where(c, u, v), (condition, x, y), how=ELEMENTWISE)
    else:
        op = g.random.choice(("maximum", "minimum"))
        g.add(f"{op}({x.name}, {y.name})", x.dtype, x.shape, lambda j, u, v: getattr(j, op)(u, v), (x, y), sign_of_zero=False, how=ELEMENTWISE)


@form(5, "edges")
def edge_reduction(g):
    x = g.pick(lambda v: len(v.shape) > 1 and v.dtype != "bool" and v.size > 0)
    if not x:
        return
    axis = len(x.shape) - 1
    op = g.random.choice(("max", "min", "argmax", "argmin"))
    if op in ("max", "min"):
        g.add(f"{op}({x.name}, axis: {axis})", x.dtype, x.shape[:-1], lambda j, v: getattr(j.np, op)(v, axis), (x,), sign_of_zero=False)
    else:
        g.add(f"{op}({x.name}, axis: {axis})", "i64", x.shape[:-1], lambda j, v: j.place(op, v, [axis], False), (x,))
