"""Random programs about numbers: every element type at its edges, pairs of rows, second gradients; each value with what it means in NumPy.

A graph is the step of a seed. It draws its inputs, then lines of the language, each computed at once by the words of tests/support/number_reference.py
on these inputs; a line of which nothing would be known is not taken. So, unlike in random_programs.py, a graph has numbers of its own, and may wrap
around, overflow, tie and divide by zero wherever the language says what comes out. What inputs hold is drawn for the whole graph:

    small    whole numbers and halves around 0, with zeros and ties; most of these graphs have gradients, of their gradients too, and updates
    middle   whole numbers up to a hundred, whose products and sums leave f16, and the whole numbers of bf16; gradients likewise
    large    near the greatest numbers of each type, and where it has gaps of more than 1
    edges    zeros of both signs, infinities, NaN, subnormal numbers, ends of integer types

Shapes have the batch once, twice, [B, n, B] or not at all. What has it otherwise than once, in front, is reduced before it is returned; reports take it
as it is. `row_wise` and `doubles` say of a value whether rows that are permuted, or there twice, permute it or leave it as it is."""

import math
import random

import numpy as np
from number_reference import FLOATS, INTEGERS, Number, Words, rounded

__all__ = ["FULL", "SHORT", "N_PER_PROGRAM", "NumberGraph", "program_text"]

FULL, SHORT, N_PER_PROGRAM = 6, 4, 20  # rows of a full batch and of a short one; graphs of a program
SIZES = (1, 2, 3, 5, 17)  # of other dimensions: never those of the batch
MOST_ELEMENTS = 1300
DTYPES = FLOATS + tuple(INTEGERS) + ("bool",)
EDGES = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-40, 1e-7, 127.5, 65504.0, 65519.0, 65520.0, 3.4e38)
SUBNORMAL = {"f64": (5e-324, -1e-310), "f32": (1e-45, -1e-40), "f16": (6e-8, -3e-5), "bf16": (1e-40, -9.2e-41)}
LARGE = {"f32": (1e17, 1e20, 3e38, 16777217.0, 33554434.0, 123456.0, 1e30), "f64": (1e17, 1e20, 9007199254740993.0, 1e300, 123456789.0),
         "f16": (60000.0, 65504.0, 2049.0, 300.0, 40000.0, 1000.0, 256.0), "bf16": (256.0, 100.0, 515.0, 1e30, 3e38, 3.0, 200.0)}  # fmt: skip
NUMPY = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bool": np.bool_, **INTEGERS}
FORMS = []


def form(weight, weight_trained=None):
    def register(function):
        FORMS.append((function, weight, weight if weight_trained is None else weight_trained))
        return function

    return register


def dims(shape):
    return f"[{', '.join(map(str, shape))}]"


class Value:
    """A name of the program: its type, its shape with "B" for the batch, and its number."""

    def __init__(self, name, shape, number, line=None, operands=(), row_wise=True, doubles=True, sign=True):
        self.name, self.shape, self.number, self.line, self.operands = name, tuple(shape), number, line, tuple(operands)
        self.row_wise, self.doubles, self.sign = row_wise, doubles, sign
        self.row_slopes = True

    @property
    def dtype(self):
        return self.number.dtype

    @property
    def is_float(self):
        return self.number.is_float

    @property
    def n_batch(self):
        return self.shape.count("B")

    @property
    def is_exact(self):
        return bool((self.number.radius == 0).all())


class NumberGraph:
    def __init__(self, seed, rows):
        self.seed, self.rows, self.random, self.words = seed, rows, random.Random(f"numbers {seed}"), Words(rows)
        self.mood = self.random.choices(("small", "middle", "large", "edges"), (9, 7, 5, 3))[0]
        self.trained = self.mood in ("small", "middle") and self.random.random() < 0.6
        self.inputs, self.parameters, self.values, self.arrays, self.used = {}, {}, [], {}, set()
        self.results, self.reports, self.gradients, self.second = {}, {}, {}, {}
        favoured = self.random.sample(("f16", "bf16", "f32") if self.mood == "middle" else FLOATS if self.trained else DTYPES[:-1], 2)
        self.dtypes = favoured * 3 + list(DTYPES)
        n = self.random.randint(2, 6) if self.trained else self.random.randint(4, 11)
        for _ in range(self.random.randint(2, 3)):
            self.input()
        weights = [trained if self.trained else plain for _, plain, trained in FORMS]
        n += len(self.values)
        for _ in range(30 * n):
            if len(self.values) >= n:
                break
            self.random.choices(FORMS, weights)[0][0](self)
        self.finish()

    # ---- drawing ----

    def draw(self, dtype, shape):
        """An array of a type; of bf16 one of f32."""
        source, size = self.random, math.prod(shape)
        kind = self.mood if source.random() < 0.8 else "small"
        if dtype == "bool":
            numbers = [source.random() < 0.5 for _ in range(size)]
        elif dtype in INTEGERS:
            limits = np.iinfo(INTEGERS[dtype])
            least, most, wide = int(limits.min), int(limits.max), source.random() < 0.5
            edge = [least, least + 1, most, most - 1, most // 2 + 1, most // 3, 0, 1, 2, 7]
            few = range(max(least, -3), 6)
            if kind == "small" and self.trained or not wide:
                numbers = [source.choice(few) for _ in range(size)]
            else:
                any_of = (max(least, -(2**62)), min(most, 2**62))
                numbers = [source.randint(*any_of) if source.random() < 0.5 else source.choice(edge) for _ in range(size)]
        elif kind == "small":
            most, step = source.choice(((3, 1), (3, 1), (2, 0.5), (9, 1)))
            some = [step * source.randint(-int(most / step), int(most / step)) for _ in range(size)]
            numbers = [0.0 if source.random() < 0.15 else x for x in some]
        elif kind == "middle":
            most = source.choice((120, 60, 30, 12))
            numbers = [float(source.randint(-most // 3, most)) for _ in range(size)]
        elif kind == "large":
            some = LARGE[dtype]
            few = source.sample(some, 2)
            numbers = [source.choice(few) * source.choice((1, 1, 1, -1)) + source.choice((0, 0, 1, 3)) for _ in range(size)]
        else:
            numbers = [source.choice(EDGES + SUBNORMAL[dtype]) for _ in range(size)]
        with np.errstate(all="ignore"):
            array = np.array(numbers, np.float64 if dtype in FLOATS else NUMPY[dtype]).reshape(shape)
            return array if dtype not in FLOATS else rounded(array, dtype).astype(NUMPY.get(dtype, np.float32))

    def input(self):
        """Of bf16 as f32, with a line that converts it."""
        dtype = self.random.choice(self.dtypes)
        shape = self.random.choices(((), (None,), (None, None)), (1, 5, 5) if self.trained else (2, 5, 3))[0]
        shape = ("B", *(self.random.choice(SIZES if len(shape) == 1 else SIZES[:4]) for _ in shape))
        name = f"x{self.seed}_{len(self.inputs)}"
        array = self.draw(dtype, self.numbers(shape))
        self.arrays[f"input/{name}"] = array
        value = Value(name, shape, Number("f32" if dtype == "bf16" else dtype, array))
        self.inputs[name] = value
        self.values.append(value)
        if dtype == "bf16":
            value = self.add(f"bf16({name})", shape, self.words.convert(value.number, "bf16"), (value,))
        return value

    def parameter(self, dtype, shape):
        """A tensor without the batch: a parameter where there is a model, or a number everywhere."""
        if self.trained and len(self.parameters) < 3:
            kept = dtype if dtype in ("f64", "f16") else "f32"
            name, array = f"w{len(self.parameters)}", self.draw(kept, shape)
            self.arrays[f"variable/M{self.seed}/{name}"] = array
            value = self.parameters[name] = Value(name, shape, Number(kept, array))
            self.values.append(value)
            return value if kept == dtype else self.add(f"{dtype}({name})", shape, self.words.convert(value.number, dtype), (value,))
        axis, factor, least = self.random.randrange(max(len(shape), 1)), self.random.choice((1, 2, 3, 50)), self.random.choice((0, 1, -1))
        if dtype not in FLOATS or not shape:
            number = self.random.randint(1, 3) * (factor if dtype in FLOATS else 1)
            return self.add(f"full({dims(shape)}, {number}, dtype: {dtype})", shape, self.words.constant(dtype, np.full(shape, number)), ())
        w, at = self.words, np.arange(shape[axis]).reshape([-1 if d == axis else 1 for d in range(len(shape))])
        number = w.multiply(w.constant(dtype, np.broadcast_to(at, shape)), w.constant(dtype, factor))
        return self.add(f"iota({dims(shape)}, axis: {axis}, dtype: {dtype}) * {factor} + {least}".replace("+ -", "- "), shape,
                        w.add(number, w.constant(dtype, least)), ())  # fmt: skip

    def numbers(self, shape):
        return tuple(self.rows if d == "B" else d for d in shape)

    def pick(self, holds=lambda value: True):
        """A value of which that holds, the later the likelier, and most often one that nothing has used; None: there is none."""
        found = [value for value in self.values if holds(value)]
        if not found:
            return None
        fresh = [value for value in found if value.name not in self.used]
        found = fresh if fresh and self.random.random() < 0.5 else found
        return self.random.choices(found, [1 + i for i in range(len(found))])[0]

    def add(self, line, shape, number, operands, row_wise=True, doubles=True, sign=True, row_slopes=True):
        """A line of the program; None, and no line, where it is too large or nothing is known of it."""
        if number.value.shape != self.numbers(shape):
            raise AssertionError(f"n{self.seed}: {line} is {number.value.shape}, not {shape}")
        if any(d in (FULL, SHORT) for d in shape) or len(shape) > 4 or list(shape).count("B") > 2 or not 0 < number.value.size <= MOST_ELEMENTS:
            return None
        if not number.known.mean() > 0.6 or (number.is_float and np.isnan(number.value).mean() > 0.6):
            return None
        value = Value(f"v{len(self.values)}", shape, number, line, operands, row_wise and all(x.row_wise for x in operands),
                      doubles and all(x.doubles for x in operands), sign and all(x.sign for x in operands))  # fmt: skip
        value.row_slopes = row_slopes and all(x.row_slopes for x in operands)
        self.values.append(value)
        self.used |= {x.name for x in operands}
        return value

    # ---- what comes out ----

    def finish(self):
        made = [value for value in self.values if value.line is not None] or [self.input()]
        used = {x.name for value in made for x in value.operands}
        last = [value for value in made if value.name not in used]
        chosen = last + [value for value in made if value.name in used and self.random.random() < 0.4]
        terms = [value for value in made if value in last or value.n_batch == 2]
        terms = [value for value in terms if value.is_float and value.n_batch and np.isfinite(value.number.value).all()]
        for value in chosen:
            self.choose_report(value)
            result = self.returnable(value)
            if result is not None:
                self.results[f"n{self.seed}_{result.name}"] = result
        self.loss, self.weights = None, []
        if self.trained and terms:
            self.choose_loss(terms)

    def returnable(self, value):
        """The value, or what a reduction leaves of pairs of rows."""
        if value.shape[:1] == ("B",) and value.n_batch == 1 or value.n_batch == 0:
            return value
        axes = [d for d in range(len(value.shape)) if value.shape[d] == "B"]
        rest = self.random.choice([axes, axes[1:], axes[:1]]) if value.shape[0] == "B" and len(axes) == 2 else axes
        shape = tuple(n for d, n in enumerate(value.shape) if d not in rest)
        if shape.count("B") and shape[0] != "B":
            rest, shape = axes, tuple(n for n in value.shape if n != "B")
        return reduced(self, value, rest, value.dtype == "bool")

    def choose_report(self, value):
        """A report of it by an aggregator; with a weight for some."""
        if not value.n_batch or self.random.random() < (0.4 if value.n_batch == 1 else 0.1) or value.dtype == "i64":
            return
        which = self.random.choice(("mean", "mean", "sum", "count", "weighted", "weighted"))
        w, x, axes = self.words, value.number, list(range(len(value.shape)))
        n, name = x.value.size, f"r{self.seed}_{len(self.reports)}"
        if which == "count":
            self.reports[name] = (f"count({{{value.name}}})", [value], w.constant("f64", float(n)), False, True)
            return
        wide = Number("f64", x.value.astype(np.float64), np.where(x.radius == 0, 0, x.radius))
        wide.overflows = x.overflows
        if which == "weighted":
            weight = self.weight_of(value)
            if weight is None:
                return
            weights = w.broadcast(w.moved(Number("f64", weight.number.value), over(weight.shape, value.shape)), x.shape)
            number = w.loose(w.divide(w.sum(w.multiply(wide, weights), axes), w.sum(weights, axes)), 8)
            self.reports[name] = (f"mean({{{value.name}}}, weight: f32({{{weight.name}}}))", [value, weight], number, value.doubles and weight.doubles,
                                  value.row_wise and weight.row_wise)  # fmt: skip
            return
        number = w.sum(wide, axes) if which == "sum" else w.by_number(w.sum(wide, axes), n, 4)
        if number.known.all():
            self.reports[name] = (f"{which}({{{value.name}}})", [value], number, which == "mean" and value.doubles, value.row_wise)

    def weight_of(self, value):
        """What weighs elements of it, or all that a row has, or all pairs of one; None: nothing does."""
        def weighs(v):
            return (v.n_batch and v.shape == value.shape[: len(v.shape)] and v.dtype in ("f32", "f16", "i8", "u8", "i32", "bool") and v.is_exact
                    and v.doubles and (np.abs(v.number.value.astype(np.float64)) < 1e4).all() and v.number.value.astype(np.float64).sum() > 0)  # fmt: skip

        return self.pick(weighs)

    def choose_loss(self, terms):
        """Losses over rows or pairs of rows, the objective, its gradients and their gradients."""
        w, texts, parts = self.words, [], []
        pairs = [value for value in terms if value.n_batch == 2]
        chosen = self.random.sample(terms, min(2, len(terms)))
        for value in dict.fromkeys([self.random.choice(pairs), chosen[0]] if pairs else chosen):
            text, number = f"f32({value.name})", w.convert(value.number, "f32")
            if self.random.random() < 0.5:
                text, number = f"square({text})", w.square(number)
            texts.append(text)
            parts.append((value, number))
        self.loss, self.normalize = list(zip(texts, parts)), self.random.choice(("batch", "examples", "examples", "weights"))
        self.weights = [self.weight_of(value) if self.normalize == "weights" or self.random.random() < 0.3 else None for value, _ in parts]
        self.normalize = "examples" if self.normalize == "weights" and not all(self.weights) else self.normalize
        by = FULL if self.normalize == "batch" else self.rows
        total = None
        for (value, number), weight in zip(parts, self.weights):
            n, axes = math.prod(by if d == "B" else d for d in value.shape), list(range(len(value.shape)))
            if weight is not None:
                weights = w.broadcast(w.moved(w.convert(weight.number, "f32"), over(weight.shape, value.shape)), number.shape)
                number = w.loose(w.multiply(number, weights), 2)
            if self.normalize == "weights":
                part = w.loose(w.divide(w.sum(number, axes), w.sum(weights, axes)), 8)
            else:
                part = w.by_number(w.sum(number, axes), n, 8)
            total = part if total is None else w.add(total, part)
        of_loss = [value for value, _ in parts] + [weight for weight in self.weights if weight]
        wanted = [x for x in {**self.inputs, **self.parameters}.values() if x.is_float and x.name in self.reached(of_loss)]
        slopes = w.grad(total, [x.number for x in wanted])
        self.row_wise_slopes = all(value.row_wise and value.row_slopes for value in of_loss)
        self.doubling_slopes = self.row_wise_slopes and all(value.doubles for value in of_loss)
        trains = any(depends(total, x.number) for x in wanted if x.name in self.parameters)  # not only by comparisons
        for x, slope in zip(wanted, slopes):
            if trains if x.name in self.parameters else slope.known.mean() > 0.6 and slope.parents:
                self.gradients[x.name] = slope
        inputs = [x for x in wanted if x.name in self.gradients and x.name in self.inputs]
        if inputs and self.random.random() < 0.7:
            first = self.random.choice(inputs)
            scale = self.random.choice((1, 6, 36))
            slope = w.multiply(w.square(w.convert(self.gradients[first.name], "f32")), w.constant("f32", float(scale)))
            n = math.prod(by if d == "B" else d for d in first.shape)
            total = w.by_number(w.sum(slope, list(range(len(first.shape)))), n, 8)
            found = w.grad(total, [x.number for x in wanted])
            self.first_of_second = (first, scale)
            for x, slope in zip(wanted, found):
                if slope.known.mean() > 0.6 and slope.parents:
                    self.second[x.name] = slope

    def reached(self, values):
        found, left = set(), list(values)
        while left:
            value = left.pop()
            if value.name not in found:
                found.add(value.name)
                left.extend(value.operands)
        return found

    def losses(self):
        """What the objective reads."""
        return [value for _, (value, _) in self.loss or []] + [weight for weight in self.weights if weight]

    def given(self):
        """The arrays of what the step has: all inputs, and the parameters that something needs."""
        wanted = [*self.results.values(), *(v for r in self.reports.values() for v in r[1]), *self.losses()]
        left_out = {f"variable/M{self.seed}/{name}" for name in self.parameters.keys() - self.reached(wanted)}
        return {key: array for key, array in self.arrays.items() if key not in left_out}

    # ---- the outcome: {key: (number, value or None, row_wise, doubles, sign)} ----

    def compared(self):
        found = {f"result/{key}": (v.number, v, v.row_wise, v.doubles, v.sign) for key, v in self.results.items()}
        for name, (_, _, number, doubles, row_wise) in self.reports.items():
            found[f"report/{name}"] = (number, None, row_wise, doubles, False)
        for name, slope in self.gradients.items():
            if name in self.inputs:
                found[f"result/n{self.seed}_d_{name}"] = (slope, self.inputs[name], self.row_wise_slopes, False, False)
            else:
                after = updated(self.words, self.parameters[name].number, slope)
                found[f"variable/M{self.seed}/{name}"] = (after, None, self.row_wise_slopes, self.doubling_slopes, False)
        for name, slope in self.second.items():
            found[f"result/n{self.seed}_dd_{name}"] = (slope, self.inputs.get(name) or self.parameters[name], self.row_wise_slopes, False, False)
        return found

    # ---- the text ----

    def text(self, only=None):
        """The step; `only`: the key of one outcome, with no line that it does not need."""
        key = only.split("/")[-1] if only else None
        results = {name: v for name, v in self.results.items() if key in (None, name)}
        reports = {name: r for name, r in self.reports.items() if key in (None, name)}
        trained = self.loss is not None and self.gradients and (key is None or not (results or reports))
        losses = self.loss if trained else []
        wanted = [*results.values(), *(v for r in reports.values() for v in r[1]), *(self.losses() if trained else [])]
        names = self.reached(wanted)
        inputs = [x for x in self.inputs.values() if x.name in names] or list(self.inputs.values())[:1]
        takes = ", ".join(f"{x.name}: {x.dtype}{dims(x.shape)}" for x in inputs)
        lines = [f"    {v.name} = {v.line}" for v in self.values if v.line is not None and v.name in names]
        parameters = [f"    param {p.name}: {p.dtype}{dims(p.shape)} = zeros()" for p in self.parameters.values() if p.name in names]
        weights = self.weights if trained else []
        given = list(dict.fromkeys(v.name for v in [*results.values(), *(v for r in reports.values() for v in r[1]), *weights] if v))
        texts, head = [text for text, _ in losses], [f"step n{self.seed}({takes}) {{"]
        called = {name: name if name in self.inputs else f"y_{name}" for name in given}
        if parameters:
            made = [f"l{i}" for i in range(len(texts))] + [called[name] for name in given if name not in self.inputs]
            model = [f"model M{self.seed}({takes}) {{", *parameters, *lines,
                     f"    return {', '.join(texts + [name for name in given if name not in self.inputs])}", "}"]  # fmt: skip
            body = [f"    {', '.join(made)} = M{self.seed}({', '.join(x.name for x in inputs)})"]
        else:
            called = {name: name for name in given}
            model, body = [], lines + [f"    l{i} = {text}" for i, text in enumerate(texts)]
        returned = [f"{name}: {f'f32({called[v.name]})' if v.dtype == 'bf16' else called[v.name]}" for name, v in results.items()]
        if trained:
            weighed = [f", weight: f32({called[v.name]})" if v else "" for v in weights]
            body.append(f"    total = {' + '.join(f'objective(l{i}{weight}, normalize: {self.normalize})' for i, weight in enumerate(weighed))}")
            for name in self.gradients:
                if name in self.inputs:
                    second = self.second and self.first_of_second[0].name == name
                    if second or key in (None, f"n{self.seed}_d_{name}"):
                        body.append(f"    d_{name} = grad(total, {name})")
                    if key in (None, f"n{self.seed}_d_{name}"):
                        returned.append(f"n{self.seed}_d_{name}: d_{name}")
            for name in self.second:
                if key in (None, f"n{self.seed}_dd_{name}"):
                    (first, scale), by = self.first_of_second, "batch" if self.normalize == "batch" else "examples"
                    to = name if name in self.inputs else f"M{self.seed}.{name}"
                    body.append(f"    dd_{name} = grad(objective(square(f32(d_{first.name})) * {scale}, normalize: {by}), {to})")
                    returned.append(f"n{self.seed}_dd_{name}: dd_{name}")
            if any(name in self.parameters for name in self.gradients) and key in (None, *self.parameters):
                body.append("    apply(descend(), grad(total, params(M%d)))" % self.seed)
        if reports:
            words = [f"{name}: {text.format(**called)}" for name, (text, *_) in reports.items()]
            body.append(f"    report {', '.join(words)}")
        if not returned:
            returned = [f"n{self.seed}_none: {inputs[0].name}"]
        return "\n".join([*model, *head, *body, f"    return {', '.join(returned)}", "}", ""])


def updated(w, p, slope):
    """p - 0.125 * g"""
    w.backward = True
    after = w.loose(w.subtract(p, w.multiply(w.constant(p.dtype, 0.125), slope)), 2)
    w.backward = False
    return after


HEAD = "use nn, ordering\n\noptimizer descend() { update (p, g) { p := p - 0.125 * g } }\n\n"


def program_text(graphs):
    return HEAD + "\n".join(graph.text() for graph in graphs)


# ---- elementwise ----


def depends(y, x):
    """Whether a number is computed from another by what has gradients."""
    left, seen = [y], set()
    while left:
        number = left.pop()
        if id(number) not in seen:
            seen.add(id(number))
            left.extend(number.parents)
    return id(x) in seen


def over(inner, outer):
    """Of positions of what has the leading dimensions of a shape: with the others as 1."""
    return lambda at: at.reshape(at.shape + (1,) * (len(outer) - len(inner)))


def together(x, y):
    n = max(len(x.shape), len(y.shape))
    a, b = (1,) * (n - len(x.shape)) + x.shape, (1,) * (n - len(y.shape)) + y.shape
    return tuple(q if p == 1 else p for p, q in zip(a, b))


def partner(g, x, holds=lambda v: True, same_dtype=True):
    """What broadcasts with x: of its shape, with dimensions of 1, or without the batch."""

    def fits(y):
        if (same_dtype and y.dtype != x.dtype) or not holds(y) or len(y.shape) > len(x.shape):
            return False
        if y.n_batch and len(y.shape) != len(x.shape):
            return False
        return all(a == b or (b == 1 and a != "B") or (a == 1 and b != "B") for a, b in zip(x.shape[::-1], y.shape[::-1]))

    y = g.pick(fits)
    if y is None or g.random.random() < 0.1:
        shape = tuple(d for d in x.shape if d != "B")
        shape = shape[-1:] if shape and x.shape[-1] != "B" else ()
        y = g.parameter(x.dtype, shape) if x.dtype != "bool" else None
    return y if y and fits(y) else None


@form(12)
def arithmetic(g):
    x = g.pick(lambda v: v.dtype != "bool")
    y = x and partner(g, x)
    if not y:
        return
    if g.random.random() < 0.3:
        x, y = y, x
    op, word = g.random.choice((("+", g.words.add), ("-", g.words.subtract), ("*", g.words.multiply), ("*", g.words.multiply)))
    g.add(f"{x.name} {op} {y.name}", together(x, y), word(x.number, y.number), (x, y))


def literal(g, x):
    """A number; of integers often one with which elements come to the end of the range, and those that are greater beyond."""
    if x.dtype in INTEGERS:
        most = int(np.iinfo(INTEGERS[x.dtype]).max)
        to_the_end = most - int(g.random.choice(x.number.value.reshape(-1)))
        return to_the_end if 0 < to_the_end <= most and g.random.random() < 0.5 else g.random.choice((1, 2, 3, most // 2, most, most // 3))
    return g.random.choice((1, 2, 3, 0.5, 4, 10, 0.25, 100, 1000 if g.mood == "large" else 6))


@form(10, 8)
def with_literal(g):
    x = g.pick(lambda v: v.dtype != "bool")
    if x:
        c = literal(g, x)
        op, word = g.random.choice((("+", g.words.add), ("-", g.words.subtract), ("*", g.words.multiply)))
        operands = [(x.name, x.number), (str(c), g.words.constant(x.dtype, c))]
        if g.random.random() < 0.3:
            operands.reverse()
        g.add(f"{operands[0][0]} {op} {operands[1][0]}", x.shape, word(operands[0][1], operands[1][1]), (x,))


@form(5, 2)
def divided(g):
    x = g.pick(lambda v: v.is_float)
    y = x and partner(g, x, lambda v: v.sign and v.is_exact and (g.mood != "small" or (v.number.value != 0).all()))
    if y:
        g.add(f"{x.name} / {y.name}", together(x, y), g.words.divide(x.number, y.number), (x, y))


@form(6, 1)
def divided_down(g):
    x = g.pick(lambda v: v.dtype != "bool" and v.is_exact)
    if not x:
        return
    op, word = g.random.choice((("//", g.words.floor_divide), ("%", g.words.remainder), ("%", g.words.remainder)))
    if g.random.random() < 0.5:
        c = g.random.choice((3, 7, 10, 5, 2)) if not x.is_float else g.random.choice((3, 7, 10, 0.5, 2.5))
        g.add(f"{x.name} {op} {c}", x.shape, word(x.number, g.words.constant(x.dtype, c)), (x,), sign=not x.is_float)
        return
    y = partner(g, x, lambda v: v.is_exact and (not v.is_float or (np.isfinite(v.number.value) & (v.number.value != 0)).all()))
    if y:
        g.add(f"{x.name} {op} {y.name}", together(x, y), word(x.number, y.number), (x, y), sign=not x.is_float)


@form(9, 7)
def unary(g):
    x = g.pick(lambda v: v.dtype != "bool")
    if not x:
        return
    w = g.words
    forms = [("-{}", w.negative), ("absolute({})", w.absolute), ("square({})", w.square), ("{} ** 2", w.square)]
    if x.is_float:
        forms += [("relu({})", w.relu)] * 2
    if not g.trained:
        forms += [("sign({})", lambda v: w.jump(lambda u: np.where(u != u, u, np.sign(u)).astype(u.dtype), v))]
        forms += [(f"{name}({{}})", lambda v, f=f: w.jump(f, v)) for name, f in (("floor", np.floor), ("ceil", np.ceil), ("round", np.rint)) if x.is_float]
    text, word = g.random.choice(forms)
    g.add(text.format(x.name), x.shape, word(x.number), (x,), sign="relu" not in text and "sign" not in text)


@form(2, 3)
def smooth(g):
    x = g.pick(lambda v: v.is_float and (np.abs(v.number.value) < 8).all())
    if x:
        w = g.words
        text, word = g.random.choice((("exp({})", w.exp), ("tanh({})", w.tanh), ("sqrt({0} * {0} + 1)", None)))
        if word is None:
            number = w.sqrt(w.add(w.multiply(x.number, x.number), w.constant(x.dtype, 1.0)))
        else:
            number = word(x.number)
        g.add(text.format(x.name), x.shape, number, (x,))


@form(8, 4)
def converted(g):
    x = g.pick()
    to = g.random.choice(DTYPES if not g.trained else FLOATS)
    if x and to != x.dtype and not (g.trained and not x.is_float):
        g.add(f"{to}({x.name})", x.shape, g.words.convert(x.number, to), (x,), sign=x.is_float and to in FLOATS or not x.is_float)


@form(4, 4)
def extremes_of_two(g):
    x = g.pick(lambda v: v.dtype != "bool")
    y = x and partner(g, x)
    if y:
        op = g.random.choice(("maximum", "minimum"))
        g.add(f"{op}({x.name}, {y.name})", together(x, y), getattr(g.words, op)(x.number, y.number), (x, y), sign=False)


@form(4, 2)
def compared(g):
    x = g.pick(lambda v: v.dtype != "bool")
    y = x and partner(g, x)
    if y:
        op, name = g.random.choice((("==", "equal"), ("!=", "not_equal"), ("<", "less"), ("<=", "less_equal"), (">", "greater"), (">=", "greater_equal")))
        return g.add(f"{x.name} {op} {y.name}", together(x, y), g.words.compare(name, x.number, y.number), (x, y))


@form(8, 6)
def chosen(g):
    c = g.pick(lambda v: v.dtype == "bool") or compared(g)
    x = c and partner(g, c, lambda v: v.dtype != "bool", same_dtype=False)
    y = x and partner(g, Value("", together(c, x), Number(x.dtype, 0)))
    if y:
        shape = together(Value("", together(c, x), x.number), y)
        g.add(f"where({c.name}, {x.name}, {y.name})", shape, g.words.where(c.number, x.number, y.number), (c, x, y))


@form(3, 0)
def logical(g):
    x = g.pick(lambda v: v.dtype == "bool") or compared(g)
    y = x and partner(g, x)
    if y:
        op, function = g.random.choice((("and", np.logical_and), ("or", np.logical_or)))
        g.add(f"{x.name} {op} not {y.name}", together(x, y), g.words.logical(lambda u, v: function(u, ~v), x.number, y.number), (x, y))


# ---- moves ----


@form(3)
def sliced(g):
    x = g.pick(lambda v: any(d != "B" and d > 1 for d in v.shape))
    if not x:
        return
    axis = g.random.choice([d for d, n in enumerate(x.shape) if n != "B" and n > 1])
    size = x.shape[axis]
    begin, step = g.random.randrange(size), g.random.choice((1, 1, 2))
    end = g.random.randint(begin + 1, size)
    if g.random.random() < 0.3:
        index, where, shape = str(begin), begin, x.shape[:axis] + x.shape[axis + 1 :]
    else:
        index, where = f"{begin}:{end}:{step}", slice(begin, end, step)
        shape = x.shape[:axis] + (len(range(begin, end, step)),) + x.shape[axis + 1 :]
    g.add(f"{x.name}[{', '.join([':'] * axis + [index])}]", shape, g.words.moved(x.number, lambda at: at[(slice(None),) * axis + (where,)]), (x,))


@form(3)
def turned(g):
    """Axes in another order, or one of them the other way round."""
    x = g.pick(lambda v: len(v.shape) >= 2)
    if not x:
        return
    if g.random.random() < 0.4:
        axes = [d for d, n in enumerate(x.shape) if n != "B"]
        if axes:
            axis = g.random.choice(axes)
            g.add(f"reverse({x.name}, axis: {axis})", x.shape, g.words.moved(x.number, lambda at: np.flip(at, axis)), (x,))
        return
    order = list(range(len(x.shape)))
    first = 1 if x.shape[0] == "B" and x.n_batch == 1 else 0
    rest = order[first:]
    g.random.shuffle(rest)
    order = order[:first] + rest
    text = f"{x.name}.T" if order == [1, 0] else f"transpose({x.name}, {order})"
    g.add(text, [x.shape[i] for i in order], g.words.moved(x.number, lambda at: np.transpose(at, order)), (x,))


@form(2)
def reshaped(g):
    x = g.pick(lambda v: v.shape[:1] == ("B",) and v.n_batch == 1 and len(v.shape) > 1)
    if x:
        n = math.prod(x.shape[1:])
        shape = ("B", *g.random.choice([(n,), (1, n), (n, 1)]))
        if shape != x.shape:
            g.add(f"reshape({x.name}, {dims(shape)})", shape, g.words.moved(x.number, lambda at: at.reshape(g.numbers(shape))), (x,))


@form(2)
def joined(g):
    x = g.pick(lambda v: any(n != "B" and n <= 5 for n in v.shape))
    if x:
        axis = g.random.choice([d for d, n in enumerate(x.shape) if n != "B" and n <= 5])
        y = g.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape)
        shape = x.shape[:axis] + (2 * x.shape[axis],) + x.shape[axis + 1 :]
        places = np.concatenate([np.arange(x.number.value.size).reshape(x.number.shape) + i * x.number.value.size for i in range(2)], axis)
        g.add(f"concatenate([{x.name}, {y.name}], axis: {axis})", shape, g.words.take([x.number, y.number], places), (x, y))


@form(3)
def gathered(g):
    index = g.pick(lambda v: v.dtype in INTEGERS and v.n_batch <= 1 and v.shape[:1] == ("B",) and len(v.shape) <= 2 and v.is_exact)
    if not index:
        return
    w = g.words
    if g.random.random() < 0.5:
        x = g.pick(lambda v: v.shape[:1] == ("B",) and v.n_batch == 1 and len(v.shape) >= 2 and v.shape[1] > 1)
        if not x:
            return
        n, rest = x.shape[1], math.prod(x.shape[2:])
        i = w.remainder(index.number, w.constant(index.dtype, n)).value.astype(np.int64)
        rows = np.arange(g.rows).reshape([-1] + [1] * (i.ndim - 1)) * n
        at = ((rows + i)[..., None] * rest + np.arange(rest)).reshape(g.numbers(index.shape + x.shape[2:]))
        g.add(f"gather({x.name}, {index.name} % {n}, axis: 1)", index.shape + x.shape[2:], w.take([x.number], at), (x, index))
        return
    n, m = g.random.choice((3, 5)), g.random.choice((1, 3))
    x = g.parameter(g.random.choice(g.dtypes[:6]) if g.dtypes[0] != "bool" else "f32", (n, m))
    if x:
        i = w.remainder(index.number, w.constant(index.dtype, n)).value.astype(np.int64)
        at = i[..., None] * m + np.arange(m)
        g.add(f"gather({x.name}, {index.name} % {n})", index.shape + (m,), w.take([x.number], at), (x, index))


@form(6)
def scattered(g):
    """Added up at indices of which several are the same, within rows or over the batch."""
    x = g.pick(lambda v: v.shape[:1] == ("B",) and v.n_batch == 1 and v.dtype != "bool" and len(v.shape) >= 2)
    if not x:
        return
    index = g.pick(lambda v: v.dtype in INTEGERS and v.is_exact and v.shape in (x.shape[:1], x.shape[:2]))
    axis = g.random.choice((0, 1)) if index is None or len(index.shape) == 2 else 0
    size, w = g.random.choice((1, 2, 3)), g.words
    if index is None or g.random.random() < 0.3:
        shape = x.shape[:2]
        index = g.add(f"iota({dims(shape)}, axis: 1, dtype: i32)", shape, w.constant("i32", np.broadcast_to(np.arange(shape[1]), g.numbers(shape))), ())
        if index is None:
            return
    n_index = len(index.shape)
    i = w.remainder(index.number, w.constant(index.dtype, size)).value.astype(np.int64)
    width = math.prod(x.shape[n_index:])
    outer = np.arange(g.rows).reshape([-1] + [1] * (i.ndim - 1)) * size if axis else 0
    at = ((outer + i)[..., None] * width + np.arange(width)).reshape(x.number.shape)
    shape = index.shape[:axis] + (size,) + x.shape[n_index:]
    if x.dtype in INTEGERS:
        wide = w.put(x.number, at, g.numbers(shape))
        number = Number(x.dtype, wide.value.astype(INTEGERS[x.dtype]), wide.radius)
    else:
        number = w.put(x.number, at, g.numbers(shape))
    g.add(f"ops.scatter_add({x.name}, {index.name} % {size}, axis: {axis}, size: {size})", shape, number, (x, index), doubles=bool(axis), sign=False)


# ---- pairs of rows ----


@form(8, 12)
def paired(g):
    """p @ q.T, [B, B] or [B, n, B]; or rows beside rows by newaxis."""
    x = g.pick(lambda v: v.shape[:1] == ("B",) and v.n_batch == 1 and 2 <= len(v.shape) <= 3)
    if not x:
        return
    w = g.words
    if x.is_float and g.random.random() < 0.7:
        y = g.pick(lambda v: v.dtype == x.dtype and v.shape == ("B", x.shape[-1]))
        if y:
            shape = x.shape[:-1] + ("B",)
            g.add(f"{x.name} @ {y.name}.T", shape, contracted(g, x.number, w.moved(y.number, np.transpose)), (x, y), sign=False)
        return
    y = g.pick(lambda v: v.dtype == x.dtype and v.shape == x.shape) if len(x.shape) == 2 and x.dtype != "bool" else None
    if y:
        op, word = g.random.choice((("+", w.add), ("-", w.subtract), ("*", w.multiply)))
        u = w.moved(x.number, lambda at: at[:, None])
        v = w.moved(y.number, lambda at: at[None])
        g.add(f"{x.name}[:, newaxis] {op} {y.name}[newaxis, :]", ("B", "B", x.shape[1]), word(u, v), (x, y))


def contracted(g, x, y):
    """A matrix product: leading dimensions of x, and those of y paired with them where it has some."""
    m, k, n = x.shape[-2], x.shape[-1], y.shape[-1]
    lead = x.shape[:-2]
    x_at = np.broadcast_to(np.arange(x.value.size).reshape(*lead, m, 1, k), (*lead, m, n, k))
    y_places = np.arange(y.value.size).reshape(y.shape).swapaxes(-1, -2)[..., None, :, :]
    y_at = np.broadcast_to(y_places, (*lead, m, n, k))
    at = np.broadcast_to(np.arange(math.prod((*lead, m, n))).reshape(*lead, m, n, 1), (*lead, m, n, k))
    return g.words.contract(x, y, x_at, y_at, at, (*lead, m, n))


@form(4, 6)
def product_with_weights(g):
    x = g.pick(lambda v: v.is_float and len(v.shape) >= 2 and v.shape[-1] != "B")
    if not x:
        return
    k = x.shape[-1]
    y = g.pick(lambda v: v.dtype == x.dtype and v.n_batch == 0 and len(v.shape) == 2 and v.shape[0] == k)
    if y is None or g.random.random() < 0.5:
        y = g.parameter(x.dtype, (k, g.random.choice((1, 2, 3))))
    if y:
        g.add(f"{x.name} @ {y.name}", x.shape[:-1] + y.shape[-1:], contracted(g, x.number, y.number), (x, y), sign=False)


@form(3, 3)
def product_over_rows(g):
    """[B, B] @ [B, n]; or [n, B] @ [B, m], without the batch."""
    x = g.pick(lambda v: v.is_float and len(v.shape) == 2 and v.shape[-1] == "B")
    if x is None or g.random.random() < 0.4:
        z = g.pick(lambda v: v.is_float and len(v.shape) == 2 and v.shape[0] == "B" and v.n_batch == 1)
        y = z and g.pick(lambda v: v.dtype == z.dtype and len(v.shape) == 2 and v.shape[0] == "B" and v.n_batch == 1)
        if y:
            number = contracted(g, g.words.moved(z.number, np.transpose), y.number)
            g.add(f"ops.matmul({z.name}, {y.name}, transpose_a: true)", (z.shape[1], y.shape[1]), number, (z, y), doubles=False, sign=False)
        return
    y = g.pick(lambda v: v.dtype == x.dtype and len(v.shape) == 2 and v.shape[0] == "B" and v.n_batch == 1)
    if y:
        g.add(f"{x.name} @ {y.name}", (x.shape[0], y.shape[1]), contracted(g, x.number, y.number), (x, y), doubles=False, sign=False)


# ---- reductions ----


def reduced(g, x, axes, of_bool=False, keep=False, choices=None):
    """x by a reduction that is drawn."""
    w, over_rows = g.words, any(x.shape[d] == "B" for d in axes)
    rest = tuple(1 if d in axes else n for d, n in enumerate(x.shape) if keep or d not in axes)
    text = (f"axis: {axes[0]}" if len(axes) == 1 else f"axes: {list(axes)}") + (", keep: true" if keep else "")
    chosen = choices or (["sum", "sum", "mean", "max", "min", "argmax"] if not of_bool else ["all", "any", "sum"])
    if not choices and len(axes) == 1 and not over_rows and not g.trained and not of_bool:
        chosen.append("argmin")
    op = g.random.choice(chosen)
    kept = lambda number: w.moved(number, lambda at: at.reshape(g.numbers(rest))) if keep else number  # noqa: E731
    if op == "sum":
        return g.add(f"sum({x.name}, {text})", rest, kept(w.sum(x.number, axes)), (x,), doubles=not over_rows, sign=False)
    if op == "mean":
        return g.add(f"mean({x.name}, {text})", rest, kept(w.mean(x.number, axes)), (x,), sign=False) if x.dtype != "i64" else None
    if op in ("max", "min"):
        return g.add(f"{op}({x.name}, {text})", rest, kept(w.extreme(op, x.number, axes)), (x,), sign=False, row_slopes=not over_rows)
    if op in ("all", "any"):
        number = w.constant("bool", getattr(np, op)(x.number.value, tuple(axes)))
        return g.add(f"{op}({x.name}, {text})", rest, kept(number), (x,)) if x.is_exact else None
    name = op if len(axes) == 1 else f"ops.{op}"
    return g.add(f"{name}({x.name}, {text})", rest, kept(w.place(op[3:], x.number, axes)), (x,), row_wise=not over_rows, doubles=not over_rows)


@form(14, 10)
def reduction(g):
    x = g.pick(lambda v: len(v.shape) > 0)
    if x:
        axes = sorted(g.random.sample(range(len(x.shape)), g.random.randint(1, min(2, len(x.shape)))))
        reduced(g, x, axes, x.dtype == "bool", g.random.random() < 0.5)


@form(9, 5)
def extreme_of_new(g):
    """The extreme of a line that nothing else uses, as what moves past extremes wants it."""
    n = len(g.values)
    g.random.choice((arithmetic, with_literal, with_literal, unary, converted, extremes_of_two))(g)
    x = g.values[-1]
    if len(g.values) > n and any(d != "B" and d > 1 for d in x.shape) and x.dtype != "bool":
        axes = [d for d, n in enumerate(x.shape) if n != "B" and n > 1]
        reduced(g, x, sorted(g.random.sample(axes, g.random.randint(1, len(axes)))), keep=g.random.random() < 0.7, choices=("max", "max", "max", "min"))


@form(1, 4)
def multiplied(g):
    """Zeros among the factors included."""
    x = g.pick(lambda v: v.dtype != "bool" and any(n != "B" and 2 <= n <= 5 for n in v.shape))
    if x:
        axis = g.random.choice([d for d, n in enumerate(x.shape) if n != "B" and 2 <= n <= 5])
        g.add(f"product({x.name}, axis: {axis})", x.shape[:axis] + x.shape[axis + 1 :], g.words.product(x.number, [axis]), (x,), sign=False)


@form(1)
def counted(g):
    x = g.pick(lambda v: v.n_batch > 0)
    if x:
        g.add(f"count({x.name})", (), g.words.constant("i64", x.number.value.size), (x,), doubles=False)


@form(2)
def running_sum(g):
    x = g.pick(lambda v: (v.dtype in INTEGERS or v.dtype in ("f32", "f64")) and any(n != "B" and n <= 5 for n in v.shape))
    if x:
        axis = g.random.choice([d for d, n in enumerate(x.shape) if n != "B" and n <= 5])
        back = g.random.choice((False, True))
        g.add(f"cumsum({x.name}, axis: {axis}, reverse: {str(back).lower()})", x.shape, g.words.running_sum(x.number, axis, back), (x,), sign=False)


# ---- loops ----


def part_expression(g, x, others, dtype, shape):
    """What an iteration adds: a text over `p`, a part of x, and a function of its number and the iteration's; of a type and shape, or None."""
    w = g.words
    choices = []
    part_shape = x.shape[:1] + x.shape[2:]
    convert = (lambda t: t) if dtype == x.dtype else (lambda t: f"{dtype}({t})")
    cast = lambda n: w.convert(n, dtype)  # noqa: E731
    if part_shape == shape:
        choices += [(convert("p"), lambda p: cast(p)), (convert("p * p"), lambda p: cast(w.multiply(p, p))),
                    (convert("p * 2"), lambda p: cast(w.multiply(p, w.constant(x.dtype, 2))))]  # fmt: skip
    if shape == part_shape[:1] and len(part_shape) == 2:
        if x.is_float or dtype in ("i64",):
            choices.append((convert("sum(p, axis: 1)") if x.is_float else "sum(p, axis: 1)", lambda p: cast(w.sum(p, [1]))))
        if x.is_float:
            choices.append((convert("sum(p * p, axis: 1)"), lambda p: cast(w.sum(w.multiply(p, p), [1]))))
    for y in others:
        if x.is_float and len(part_shape) == 2 and y.n_batch == 0 and y.shape[:1] == part_shape[1:] and (part_shape[0], y.shape[1]) == shape:
            weights = y.name if y.dtype == x.dtype else f"{x.dtype}({y.name})"
            choices.append((convert(f"p @ {weights}"), lambda p, y=y: cast(contracted(g, p, w.convert(y.number, x.dtype)))))
    return g.random.choice(choices) if choices else None


@form(6, 10)
def scanned(g):
    """A state to which each iteration adds; of another type than what it adds, or the same."""
    x = g.pick(lambda v: v.shape[:1] == ("B",) and v.n_batch == 1 and 2 <= len(v.shape) <= 3 and 2 <= v.shape[1] <= 5 and v.dtype != "bool")
    if not x:
        return
    w, steps = g.words, x.shape[1]
    part_shape = x.shape[:1] + x.shape[2:]
    dtype = g.random.choice((x.dtype, "f32", "f64") if x.is_float else (x.dtype, "i64", "i32"))
    shapes, others = [part_shape, part_shape], []
    if len(part_shape) == 2:
        shapes.append(part_shape[:1])
        if x.is_float:
            y = g.pick(lambda v: v.is_float and v.n_batch == 0 and len(v.shape) == 2 and v.shape[0] == part_shape[1])
            if y is None or g.random.random() < 0.7:
                y = g.parameter(g.random.choice((x.dtype, "f32", "f32")), (part_shape[1], g.random.choice((1, 2, 3))))
            if y:
                others.append(y)
                shapes += [("B", y.shape[1])] * 8
    shape = g.random.choice(shapes)
    drawn = part_expression(g, x, others, dtype, shape)
    if drawn is None:
        return
    text, function = drawn
    kept, back, sign = g.random.random() < 0.4 and shape[:1] == ("B",), g.random.choice((False, True)), g.random.choice("++-")
    state = w.constant(dtype, np.zeros(g.numbers(shape)))
    states, order = {}, range(steps - 1, -1, -1) if back else range(steps)
    for i in order:
        p = w.moved(x.number, lambda at, i=i: at[:, i])
        follow = (lambda s, p: w.add(s, function(p))) if sign == "+" else (lambda s, p: w.subtract(function(p), s))
        states[i] = follow(state, p)  # what is kept is computed by itself, and has a gradient of its own
        state = follow(state, p)
    number, out = state, shape
    if kept:
        places = np.stack([np.arange(state.value.size).reshape(state.shape) + i * state.value.size for i in range(steps)], 1)
        number, out = w.take([states[i] for i in range(steps)], places), (shape[0], steps, *shape[1:])
    body = f"s + {text}" if sign == "+" else f"{text} - s"
    operands = [x, *(y for y in others if y.name in text)]
    g.add(f"scan(fn(s, p) => [{body}, {'s + ' + text if sign == '+' else text + ' - s'}], full({dims(shape)}, 0, dtype: {dtype}), {x.name}, axis: 1"
          f"{', reverse: true' if back else ''})[{int(kept)}]", out, number, operands, doubles=shape[:1] == ("B",), sign=False)  # fmt: skip
