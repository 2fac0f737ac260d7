"""What lines of the language mean, to the bit where the language defines bits: numbers of every element type in NumPy, and their gradients.

A `Number` is an array and how far each element may be from it. The radius is 0 where a result is defined to the bit: each op rounds once, to nearest, to
the type of its result, and a sum is exact while all partial sums fit the type in which it is added up (f64 for f64, else f32), whatever their order.
Where that is not so the radius is what roundings in any order may come to. An infinite radius means that nothing is known. So what overflows in its own
type and not in that of a sum, wraps around, is a tie, an infinity or a NaN has one right value, and what depends on the order of a sum has an interval.
Of a sum over rows in 16 bits each replica rounds its part to the type.

Gradients are taken by a tape: the derivative of each word is written in words, so that derivatives have derivatives. Ties go where the language says:
to the first position, to the first operand. It does not say by what operations a gradient is computed, so where one of them rounds, the gradient has a
radius. All that moves or adds up elements is three words: `take`, `put`, which is its transpose, and `contract`."""

import math

import numpy as np

PRECISION = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
GREATEST_EXPONENT = {"f64": 1024, "f32": 128, "f16": 16, "bf16": 128}  # of a power of two that overflows
LEAST_EXPONENT = {"f64": -1074, "f32": -149, "f16": -24, "bf16": -133}  # of the smallest subnormal number
FLOATS = tuple(PRECISION)
INTEGERS = {"i8": np.int8, "u8": np.uint8, "i32": np.int32, "i64": np.int64}
SUM_PRECISION = {"f64": 53, "f32": 24, "f16": 24, "bf16": 24}
TYPES = {**INTEGERS, "bool": np.bool_, "f64": np.float64, "f32": np.float64, "f16": np.float64, "bf16": np.float64}


def rounded(x, dtype):
    """Doubles to the nearest number of a type, ties to even; what is beyond its numbers is infinite."""
    if dtype == "f64":
        return x
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(x)
        places = np.maximum(exponent - PRECISION[dtype], LEAST_EXPONENT[dtype])
        y = np.ldexp(np.rint(np.ldexp(x, -places)), places)
        y = np.where(np.abs(y) >= 2.0 ** GREATEST_EXPONENT[dtype], np.copysign(np.inf, x), y)
        return np.where(np.isfinite(x), y, x)


def lowest_place(x):
    """The exponent of the lowest bit that is set; of 0, infinities and NaN a large one."""
    finite = np.where(np.isfinite(x), x, 0)
    fraction, exponent = np.frexp(finite)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    low = (whole & -whole).astype(np.float64)
    return np.where(whole == 0, 4000, exponent - 53 + np.frexp(low)[1] - 1)


def beside(x, y):
    """x where it is a number, else y."""
    return np.where(np.isnan(x), y, x)


class Number:
    """`value` with a `radius`; `given` is both before they were rounded to the type. `pull(gradient)` gives the gradients of `parents`."""

    n_made = 0

    def __init__(self, dtype, value, radius=0.0, parents=(), pull=None, backward=False):
        Number.n_made += 1
        self.order, self.dtype, self.parents, self.pull = Number.n_made, dtype, parents, pull
        self.overflows = False  # where an infinity is a product of numbers, which within a sum need not be rounded
        value = np.asarray(value, TYPES[dtype])
        radius = np.broadcast_to(np.asarray(radius, np.float64), value.shape)
        self.given = (value, radius)
        if dtype in FLOATS:
            unit, least = 2.0 ** -PRECISION[dtype], 2.0 ** LEAST_EXPONENT[dtype]
            limit = math.inf if dtype == "f64" else 2.0 ** GREATEST_EXPONENT[dtype]
            with np.errstate(all="ignore"):
                nearest = rounded(value, dtype)
                spread = radius + unit * (np.abs(value) + radius) + least
                spread = np.where(np.isfinite(spread), spread, np.inf)
                overflows = np.isfinite(value) & (np.abs(value) + spread >= limit)
                spread = np.where(overflows, np.inf, spread)
                if backward:  # where each rounding may fall elsewhere: the language does not say by what words a gradient is computed
                    spread = np.where(np.isinf(nearest), np.inf, 2 * spread)
                    radius = np.where((radius == 0) & ((nearest == value) | np.isnan(value)), 0, spread)
                    self.given = (value, radius)
                else:
                    radius = np.where(radius == 0, 0, spread)
            value = nearest
        self.value, self.radius = value, radius

    @property
    def shape(self):
        return self.value.shape

    @property
    def is_float(self):
        return self.dtype in FLOATS

    @property
    def known(self):
        return np.isfinite(self.radius)


class Words:
    """The words. `rows`: how many a batch has, a number that no other dimension has. `backward` is set while gradients are computed, in which no
    overflow has a place of its own."""

    def __init__(self, rows):
        self.rows, self.backward = rows, False

    def number(self, dtype, value, radius=0.0, parents=(), pull=None):
        parents = tuple(parents) if any(p.is_float for p in parents) and dtype in FLOATS else ()
        return Number(dtype, value, radius, parents, pull if parents else None, self.backward)

    def constant(self, dtype, value):
        return self.number(dtype, value)

    # ---- what moves and what adds up elements ----

    def take(self, operands, at, fill=0, extra=0.0):
        """Elements of the operands, one after another, at these positions; -1 is `fill`. `extra`: a radius."""
        x = operands[0]
        all_values = np.concatenate([o.value.reshape(-1) for o in operands] + [np.asarray([fill], TYPES[x.dtype])])
        all_radii = np.concatenate([o.radius.reshape(-1) for o in operands] + [np.zeros(1)])

        def pull(g):
            ends = np.cumsum([o.value.size for o in operands])
            found = self.put(g, at, (int(ends[-1]),))
            return [self.take([found], np.arange(end - o.value.size, end).reshape(o.shape)) for o, end in zip(operands, ends)]

        return self.number(x.dtype, all_values[at], all_radii[at] + extra, operands, pull)

    def rounds_parts(self, dtype, loops, shape):
        """Whether a sum of 16 bits runs over rows, of which each replica rounds its part to the type."""
        return dtype in ("f16", "bf16") and loops.count(self.rows) > tuple(shape).count(self.rows)

    def sums(self, terms, radii, at, n, precision, parts=None):
        """Sums of terms at their targets below n, -1: nowhere; and radii, of any order. `parts`: the type to which parts of a sum are rounded."""
        keep = at.reshape(-1) >= 0
        at, terms, radii = at.reshape(-1)[keep], terms.reshape(-1)[keep], radii.reshape(-1)[keep]
        total, size, radius, count = (np.zeros(n) for _ in range(4))
        place, is_odd = np.full(n, 4000), np.zeros(n, bool)
        with np.errstate(all="ignore"):
            np.add.at(total, at, terms)
            np.add.at(size, at, np.where(np.isfinite(terms), np.abs(terms), 0))
            np.add.at(radius, at, radii)
            np.add.at(count, at, 1)
            np.minimum.at(place, at, lowest_place(terms))
            np.logical_or.at(is_odd, at, ~np.isfinite(terms))
            least = PRECISION[parts] if parts else precision
            smallest = LEAST_EXPONENT[parts or ("f64" if precision == 53 else "f32")]  # below it bits are lost
            exact = (size == 0) | (np.log2(np.where(size > 0, size, 1)) <= place + least) & (place >= smallest) & (radius == 0)
            slack = (count + 1) * 2.0**-precision * (size + radius) + count * 2.0**smallest + radius
            slack += 2.0**-least * (size + radius) if parts else 0
            too_large = size >= (2.0**1023 if precision == 53 else 65000.0 if parts == "f16" else 2.0**127)
            result = np.where(too_large | ~np.isfinite(slack), np.inf, np.where((exact | is_odd) & (radius == 0), 0, slack))
        return total, result

    def put(self, x, at, shape, dtype=None):
        """Zeros of a shape to which elements are added at these positions; sums of integers are i64."""
        dtype = dtype or (x.dtype if x.is_float else "i64")
        n = math.prod(shape)
        if not x.is_float:
            total, radius = np.zeros(n, np.int64), np.zeros(n)
            keep = at.reshape(-1) >= 0
            np.add.at(total, at.reshape(-1)[keep], x.value.reshape(-1)[keep].astype(np.int64))
            np.add.at(radius, at.reshape(-1)[keep], x.radius.reshape(-1)[keep])
            return self.number(dtype, total.reshape(shape).astype(TYPES[dtype]), radius.reshape(shape))
        terms, radii = x.value, x.radius
        if x.dtype in ("f32", "f64"):  # products may be added without having been rounded
            before = np.broadcast_to(x.given[0], terms.shape)
            with np.errstate(all="ignore"):
                extra = np.abs(before - terms) if x.dtype == "f32" else np.where((terms != 0) & (np.abs(terms) < 2.0**-969), 2.0**-1074, 0)
            radii = np.where(x.overflows, np.inf, radii + np.where(np.isfinite(extra), extra, 0))
        total, radius = self.sums(terms, radii, at, n, SUM_PRECISION[x.dtype], x.dtype if self.rounds_parts(x.dtype, at.shape, shape) else None)
        return self.number(dtype, total.reshape(shape), radius.reshape(shape), (x,), lambda g: [self.take([g], at)])

    def contract(self, x, y, x_at, y_at, at, shape):
        """Sums of products of elements at positions: matrix products, with products that are not rounded."""
        u, v = x.value.reshape(-1)[x_at], y.value.reshape(-1)[y_at]
        p, q = x.radius.reshape(-1)[x_at], y.radius.reshape(-1)[y_at]
        precision = SUM_PRECISION[x.dtype]
        with np.errstate(all="ignore"):
            terms = u * v
            radii = beside(np.abs(u) * q, np.where(q == 0, 0, np.inf)) + beside(np.abs(v) * p, np.where(p == 0, 0, np.inf)) + beside(p * q, np.inf)
            if precision == 53:
                fits = lowest_place(u) + lowest_place(v) >= np.maximum(np.frexp(terms)[1] - 53, -1074)
                radii = radii + np.where(fits | (u == 0) | (v == 0), 0, 2.0**-53 * np.abs(terms) + 2.0**-1074)
        total, radius = self.sums(terms, radii, at, math.prod(shape), precision, x.dtype if self.rounds_parts(x.dtype, x_at.shape, shape) else None)

        def pull(g):
            return [self.contract(g, y, at, y_at, x_at, x.shape), self.contract(g, x, at, x_at, y_at, y.shape)]

        return self.number(x.dtype, total.reshape(shape), radius.reshape(shape), (x, y), pull)

    def broadcast(self, x, shape):
        return x if x.shape == tuple(shape) else self.take([x], np.broadcast_to(np.arange(x.value.size).reshape(x.shape), shape))

    def back_to(self, g, shape):
        """The gradient of what was broadcast."""
        if g.shape == tuple(shape):
            return g
        return self.put(g, np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), g.shape), shape)

    def moved(self, x, function):
        """function of an array of positions"""
        return self.take([x], function(np.arange(x.value.size).reshape(x.shape)))

    # ---- element by element ----

    def pair(self, function, radius, x, y, slopes=None):
        """function(values), radius(value, radius of both); slopes(gradient): of both."""
        with np.errstate(all="ignore"):
            value = function(x.value, y.value)
            if x.is_float:
                p, q = np.broadcast_arrays(x.radius, y.radius)
                spread = np.where((p == 0) & (q == 0), 0, beside(radius(x.value, y.value, p, q), np.inf))
            else:
                spread = x.radius + y.radius
        return self.number(x.dtype, value, spread, (x, y),
                           slopes and (lambda g: [s if s is None else self.back_to(s, o.shape) for s, o in zip(slopes(g), (x, y))]))  # fmt: skip

    def add(self, x, y):
        return self.pair(np.add, lambda u, v, p, q: p + q, x, y, lambda g: (g, g))

    def subtract(self, x, y):
        return self.pair(np.subtract, lambda u, v, p, q: p + q, x, y, lambda g: (g, self.negative(g)))

    def multiply(self, x, y):
        z = self.pair(np.multiply, lambda u, v, p, q: np.where(q == 0, 0, np.abs(u) * q) + np.where(p == 0, 0, np.abs(v) * p) + p * q, x, y,
                      lambda g: (self.multiply(g, y), self.multiply(g, x)))  # fmt: skip
        if z.is_float:
            z.overflows = np.isinf(z.value) & np.isfinite(x.value) & np.isfinite(y.value)
        return z

    def divide(self, x, y):
        def radius(u, v, p, q):
            return np.where(np.abs(v) > q, (p + np.abs(u / v) * q) / (np.abs(v) - q), np.inf)

        def slopes(g):
            return self.divide(g, y), self.negative(self.loose(self.divide(self.multiply(g, x), self.multiply(y, y)), 8))

        return self.pair(np.divide, radius, x, y, slopes)

    def loose(self, x, units):
        """x as it comes out of another way to compute it: so many units of the last place away."""
        with np.errstate(all="ignore"):
            spread = x.radius + units * 2.0 ** -PRECISION[x.dtype] * np.abs(x.value)
        return self.number(x.dtype, x.value, np.where(np.isfinite(spread), spread, np.inf), (x,), lambda g: [self.loose(g, units)])

    def by_number(self, x, n, units):
        """x divided by a number, or multiplied by what 1 divided by it is."""
        y = self.divide(x, self.constant(x.dtype, float(n)))
        return y if n & (n - 1) == 0 else self.loose(y, units)

    def remainder(self, x, y):
        def slopes(g):
            return g, self.negative(self.multiply(g, self.floor_divide(x, y)))

        if x.is_float:
            return self.pair(np.remainder, lambda u, v, p, q: np.inf, x, y, slopes)
        return self.pair(lambda u, v: np.where(v == 0, 0, u - self.whole_quotient(u, v) * v), None, x, y)

    def whole_quotient(self, x, y):
        """By 0 it is 0; the least number by -1 wraps around to itself."""
        x, y = np.broadcast_arrays(x, y)
        safe = np.where((y == 0) | ((y == -1) if x.dtype != np.uint8 else False), 1, y).astype(x.dtype)
        quotient = np.floor_divide(x, safe)
        if x.dtype != np.uint8:
            quotient = np.where(y == -1, -x, quotient)
        return np.where(y == 0, 0, quotient).astype(x.dtype)

    def floor_divide(self, x, y):
        if x.is_float:
            return self.pair(np.floor_divide, lambda u, v, p, q: np.inf, x, y)
        return self.pair(self.whole_quotient, None, x, y)

    def maximum(self, x, y, sign=1):
        u, v = np.broadcast_arrays(x.value, y.value)
        p, q = np.broadcast_arrays(x.radius, y.radius)
        with np.errstate(all="ignore"):
            first = ((u >= v) if sign > 0 else (u <= v)) | ((u != u) if x.is_float else False)
            decided = ((p == 0) & (q == 0)) | (np.abs(u - v) > p + q) if x.is_float else (p + q == 0)
        value, radius = np.where(first, u, v), np.where(decided, np.where(first, p, q), p + q)

        def pull(g):
            mask = self.number(x.dtype, first, np.where(decided, 0, np.inf))
            other = self.number(x.dtype, ~first, np.where(decided, 0, np.inf))
            return [self.back_to(self.masked(g, mask), x.shape), self.back_to(self.masked(g, other), y.shape)]

        return self.number(x.dtype, value, radius, (x, y), pull)

    def minimum(self, x, y):
        return self.maximum(x, y, -1)

    def masked(self, g, mask):
        """g where the mask is 1, and 0 elsewhere, also of infinities and NaN."""
        def pull(h):
            return [self.masked(h, mask), None]

        g_value, m = np.broadcast_arrays(g.value, mask.value)
        radius = np.where(np.isinf(mask.radius), np.inf, np.where(m != 0, g.radius, 0))
        return self.number(g.dtype, np.where(m != 0, g_value, 0), radius, (g, mask), pull)

    def where(self, condition, x, y):
        c, u, v = np.broadcast_arrays(condition.value, x.value, y.value)
        d, p, q = np.broadcast_arrays(condition.radius, x.radius, y.radius)

        def pull(g):
            masks = [self.number(x.dtype, m, d) for m in (c, ~c)]
            return [None, self.back_to(self.masked(g, masks[0]), x.shape), self.back_to(self.masked(g, masks[1]), y.shape)]

        return self.number(x.dtype, np.where(c, u, v), np.where(d == 0, np.where(c, p, q), np.inf), (condition, x, y), pull)

    def one(self, function, x, slope=None, radius=None, dtype=None):
        """function(value); radius(value, radius), by default none but the operand's; slope(gradient)"""
        with np.errstate(all="ignore"):
            value = function(x.value)
            spread = x.radius if radius is None else beside(radius(x.value, x.radius), np.inf)
        return self.number(dtype or x.dtype, value, spread, (x,), slope and (lambda g: [slope(g)]))

    def negative(self, x):
        return self.one(np.negative, x, lambda g: self.negative(g))

    def slope_of_kink(self, x, slope):
        """A constant of the gradient: slope(value) where the sign of x is known."""
        with np.errstate(all="ignore"):
            return self.number(x.dtype, slope(x.value), np.where((x.radius == 0) | (np.abs(x.value) > x.radius), 0, np.inf))

    def absolute(self, x):
        return self.one(np.abs, x, lambda g: self.multiply(g, self.slope_of_kink(x, np.sign)))

    def relu(self, x):
        return self.one(lambda v: np.where(v > 0, v, np.where(v != v, v, 0)), x, lambda g: self.masked(g, self.slope_of_kink(x, lambda v: v > 0)))

    def square(self, x):
        return self.multiply(x, x)

    def jump(self, function, x):
        """A step function: 1 away where the operand's interval has a step."""
        def radius(v, r):
            return np.where(r == 0, 0, np.where(function(v - r) == function(v + r), 0, 1 + r))

        return self.one(function, x, radius=radius if x.is_float else None)

    def smooth(self, function, x, slope, least, units=4):
        """`slope(gradient, result)`; the radius is that of the ends, and units of the last place."""
        def radius(v, r):
            y = function(v)
            ends = np.maximum(np.abs(function(v - r) - y), np.abs(function(v + r) - y))
            return np.where(r == 0, 0, ends) + units * 2.0 ** -PRECISION["f64" if x.dtype == "f64" else "f32"] * (np.abs(y) + least)

        result = self.one(function, x, lambda g: slope(g, result), radius)  # which is its own slope's operand
        return result

    def exp(self, x):
        return self.smooth(np.exp, x, lambda g, y: self.multiply(g, y), 0)

    def tanh(self, x):
        def slope(g, y):
            return self.loose(self.subtract(g, self.multiply(g, self.square(y))), 4)

        return self.smooth(np.tanh, x, slope, 0)

    def sqrt(self, x):
        return self.smooth(np.sqrt, x, lambda g, y: self.loose(self.divide(g, self.add(y, y)), 4), 0, 1)

    def convert(self, x, to):
        """Towards zero and to the range of an integer, NaN to 0; integers wrap around."""
        if x.dtype == to:
            return x
        back = (lambda g: [self.convert(g, x.dtype)]) if x.is_float and to in FLOATS else None
        with np.errstate(all="ignore"):
            if to == "bool":
                value = x.value != 0
            elif to in FLOATS:
                value = x.value.astype(np.float64)
                if x.dtype == "i64" and to != "f64":
                    return self.number(to, value, np.where(x.value == value, x.radius, 2.0**-52 * np.abs(value)))
                radius = x.radius
                if self.backward and x.is_float and PRECISION[to] > PRECISION[x.dtype]:  # gradients that are added up in more need not be rounded before
                    radius = np.maximum(radius, np.abs(x.given[0] - x.value))
                return self.number(to, value, np.where(np.isnan(radius), np.inf, radius), (x,), back)
            elif not x.is_float:
                return self.number(to, x.value.astype(INTEGERS[to]), x.radius)
            else:
                limits = np.iinfo(INTEGERS[to])
                whole = np.trunc(x.value)
                inside = np.where((whole >= limits.min) & (whole < float(limits.max) + 1), whole, 0).astype(INTEGERS[to])
                value = np.where(whole >= float(limits.max) + 1, limits.max, np.where(whole < limits.min, limits.min, inside))
            if x.is_float:
                same = (x.radius == 0) | (np.isfinite(x.radius) & (np.trunc(x.value - x.radius) == np.trunc(x.value + x.radius)) & (np.abs(x.value) > x.radius))
                return self.number(to, value, np.where(same, 0, np.inf))
        return self.number(to, value, x.radius)

    def compare(self, name, x, y):
        with np.errstate(all="ignore"):
            u, v = x.value, y.value
            if not x.is_float and x.dtype != y.dtype:
                u, v = u.astype(object), v.astype(object)
            value = getattr(np, name)(u, v).astype(bool)
            p, q = np.broadcast_arrays(x.radius, y.radius)
            decided = (p == 0) & (q == 0)
            if x.is_float:
                decided |= np.abs(x.value - y.value) > p + q
        return self.number("bool", value, np.where(decided, 0, np.inf))

    def logical(self, function, *operands):
        return self.number("bool", function(*(x.value for x in operands)), sum(x.radius for x in operands))

    # ---- along axes ----

    def kept(self, x, axes):
        return tuple(1 if d in axes else n for d, n in enumerate(x.shape))

    def without(self, x, axes):
        return tuple(n for d, n in enumerate(x.shape) if d not in axes)

    def targets(self, x, axes):
        shape = self.kept(x, axes)
        return np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), x.shape)

    def sum(self, x, axes, dtype=None):
        return self.put(x, self.targets(x, axes), self.without(x, axes), dtype)

    def mean(self, x, axes):
        """Of integers it is f32, after an exact sum; others are added up in f32 or f64, and rounded once."""
        n = math.prod(x.shape[d] for d in axes)
        dtype = x.dtype if x.is_float else "f32"
        if not x.is_float:
            total = self.put(x, self.targets(x, axes), self.without(x, axes))
            return self.number(dtype, total.value / n, np.where(total.radius == 0, 3 * 2.0**-24 * np.abs(total.value / n), np.inf))
        total, radius = self.sums(x.value, x.radius, self.targets(x, axes), math.prod(self.without(x, axes)), SUM_PRECISION[dtype])
        with np.errstate(all="ignore"):
            value = total / n
            size = np.abs(np.where(np.isfinite(x.value), x.value, 0)).sum(tuple(axes)).reshape(-1)
            one_way = 2.0 ** -SUM_PRECISION[dtype] * 3 * size / n  # parts of the sum may be divided before they are added
            exact = (radius == 0) & ((n & (n - 1)) == 0) | ~np.isfinite(value)
            spread = np.where(exact, radius / n, radius / n + one_way)
        shape = self.without(x, axes)

        def pull(g):
            whole = self.moved_back(g, x, axes)
            return [self.by_number(whole, n, 4)]

        return self.number(dtype, value.reshape(shape), spread.reshape(shape), (x,), pull)

    def moved_back(self, g, x, axes):
        return self.take([g], self.targets(x, axes))

    def flat(self, x, axes):
        """Positions, those axes as one, the last."""
        at = np.arange(x.value.size).reshape(x.shape)
        rest = [d for d in range(len(x.shape)) if d not in axes]
        return np.transpose(at, rest + list(axes)).reshape([x.shape[d] for d in rest] + [-1])

    def first_of(self, op, x, axes):
        """Positions in x of extremes, their places among those of the axes, of which rows are the outermost, and whether each is sure."""
        at = self.flat(x, sorted(axes, key=lambda d: x.shape[d] != self.rows))
        values, radii = x.value.reshape(-1)[at], x.radius.reshape(-1)[at]
        place = (np.argmax if op == "max" else np.argmin)(values, -1)[..., None]
        best, reach = np.take_along_axis(values, place, -1), np.take_along_axis(radii, place, -1)
        with np.errstate(all="ignore"):
            if x.is_float:
                near = ~(np.abs(values - best) > radii + reach) & ((radii > 0) | (reach > 0))
            else:
                near = radii > 0
            sure = ~near.any(-1) | ((near.sum(-1) == 1) & np.take_along_axis(near, place, -1)[..., 0] & np.isfinite(reach[..., 0]))
        return np.take_along_axis(at, place, -1)[..., 0], place[..., 0], sure, radii.max(-1)

    def extreme(self, op, x, axes):
        at, _, sure, reach = self.first_of(op, x, axes)
        y = self.take([x], at, extra=np.where(sure, 0, reach))
        if not sure.all() and y.parents:  # whose gradient goes somewhere else, who knows where
            n = x.value.size

            def pull(g):
                found = self.put(g, at, (n,))
                unsure = np.zeros(n, bool)
                unsure[self.flat(x, axes)[~sure].reshape(-1)] = True
                return [self.take([found], np.arange(n).reshape(x.shape), extra=np.where(unsure, np.inf, 0).reshape(x.shape))]

            y.pull = pull
        return y

    def place(self, op, x, axes):
        _, place, sure, _ = self.first_of(op, x, axes)
        return self.number("i64", place, np.where(sure, 0, np.inf))

    def product(self, x, axes):
        at = self.flat(x, axes)
        values, radii = x.value.reshape(-1)[at], x.radius.reshape(-1)[at]
        dtype = x.dtype if x.is_float else "i64"
        if not x.is_float:
            return self.number(dtype, np.prod(values.astype(np.int64), -1), radii.sum(-1))
        with np.errstate(all="ignore"):
            value = np.prod(values, -1)
            bits = np.where((values == 0) | ~np.isfinite(values), 0, np.frexp(values)[1] - lowest_place(values)).sum(-1)
            most = np.prod(np.maximum(np.abs(beside(values, 1)), 1), -1)
            least = np.prod(np.where(values == 0, 1, np.minimum(np.abs(beside(values, 1)), 1)), -1)
            smallest = 2.0 ** (-14 if dtype == "f16" else LEAST_EXPONENT[dtype] + 60)  # below it partial products lose bits
            inside = (most < 2.0 ** (GREATEST_EXPONENT[dtype] - 1)) & (least > smallest) | (values.shape[-1] == 1)
            inside &= np.isfinite(values).all(-1)
            radius = np.where((bits <= PRECISION[dtype]) & inside, 0, values.shape[-1] * 2.0 ** -PRECISION[dtype] * np.abs(value))
            radius = np.where((radii == 0).all(-1) & inside, radius, np.inf)

        def pull(g):
            n, found = at.shape[-1], []
            with np.errstate(all="ignore"):  # of g and some of the factors: who knows which are multiplied first
                overflows = (np.abs(g.value) + g.radius) * most >= 2.0 ** (GREATEST_EXPONENT[dtype] - 1)
            parts = [self.take([x], at[..., i]) for i in range(n)]
            for i in range(n):
                slope = g
                for k in range(n):
                    slope = self.multiply(slope, parts[k]) if k != i else slope
                slope = self.loose(slope, 2 * n) if n > 2 or (radius != 0).any() else slope  # the product of all, which is rounded, over one
                found.append(self.take([slope], np.arange(slope.value.size).reshape(slope.shape), extra=np.where(overflows, np.inf, 0)))
            order = np.argsort(np.moveaxis(at, -1, 0).reshape(-1))
            return [self.take(found, order.reshape(x.shape))]

        return self.number(dtype, value, radius, (x,), pull)

    def running_sum(self, x, axis, back):
        n = x.shape[axis]
        at = np.moveaxis(np.arange(x.value.size).reshape(x.shape), axis, -1)
        pairs = [(i, j) for i in range(n) for j in range(n) if (j >= i if back else j <= i)]
        source = np.stack([at[..., j] for _, j in pairs], -1)
        target = np.stack([at[..., i] for i, _ in pairs], -1)
        return self.put(self.take([x], source), target, x.shape)

    # ---- gradients ----

    def grad(self, y, wanted):
        """The gradients of a scalar. What y does not depend on has zeros."""
        self.backward, slopes, reached, left = True, {id(y): [self.constant(y.dtype, 1.0)]}, {}, [y]
        while left:
            x = left.pop()
            if id(x) not in reached:
                reached[id(x)] = x
                left.extend(p for p in x.parents if p.is_float)
        wanted_ids = {id(x) for x in wanted}
        for x in sorted(reached.values(), key=lambda x: -x.order):
            if id(x) not in slopes:
                continue
            total = slopes[id(x)] = self.added(slopes[id(x)])
            if x.pull is None or (id(x) in wanted_ids and not x.parents):
                continue
            for parent, slope in zip(x.parents, x.pull(total)):
                if slope is not None and parent.is_float:
                    slopes.setdefault(id(parent), []).append(slope)
        self.backward = False
        return [slopes[id(x)] if isinstance(slopes.get(id(x)), Number) else self.constant(x.dtype, np.zeros(x.shape)) for x in wanted]

    def added(self, parts):
        """The sum of gradients, in any order, each rounded."""
        total = parts[0]
        for part in parts[1:]:
            total = self.add(total, part)
        is_short = total.dtype in ("f16", "bf16")  # each may be a sum over rows, of which a replica has added up and rounded its own
        if len(parts) > 2 and not self.exact_sum(parts) or len(parts) > 1 and is_short:
            return self.loose(total, 2 * len(parts))
        return total

    def exact_sum(self, parts):
        """Whether sums of these are exact in any order."""
        size = sum(np.abs(part.value) for part in parts)
        place = np.min([lowest_place(part.value) for part in parts], 0)
        with np.errstate(all="ignore"):
            fits = (size == 0) | (np.log2(np.where(size > 0, size, 1)) <= place + PRECISION[parts[0].dtype])
        return bool(fits.all()) and all((part.radius == 0).all() for part in parts)


def differs(number, got, with_sign=False):
    """Whether elements of an array cannot be the number's."""
    value, radius = number.given
    got = np.asarray(got)
    if got.shape != value.shape:
        return np.ones(value.shape, bool)
    if not number.is_float:
        return (got != value) & (radius == 0)
    got = got.astype(np.float64)
    with np.errstate(all="ignore"):
        low, high = rounded(value - radius, number.dtype), rounded(value + radius, number.dtype)
        if number.dtype == "bf16":  # comes as f32: what was widened with parts of a sum was not rounded after them
            low, high = np.minimum(low, value - radius), np.maximum(high, value + radius)
        right = np.where(radius > 0, (got >= low) & (got <= high), got == rounded(value, number.dtype)) | (np.isnan(value) & np.isnan(got))
        right |= np.isinf(radius) | np.isinf(number.radius) & (radius > 0)
        if with_sign:
            right &= ~((value == 0) & (radius == 0)) | (np.signbit(got) == np.signbit(value))
    return ~right
