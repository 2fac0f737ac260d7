"""The values, inputs and steps of random programs (random_programs.py), to which forms add lines."""

import math
import random

import numpy as np

ROWS = 4  # of a replica
PRECISION = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
FLOATS = tuple(PRECISION)
LEAST = {"i8": -(2**7), "u8": 0, "i32": -(2**31), "i64": -(2**63)}
GREATEST = {"i8": 2**7 - 1, "u8": 2**8 - 1, "i32": 2**31 - 1, "i64": 2**63 - 1}
DTYPES = FLOATS + tuple(LEAST) + ("bool",)
MOST = 1e4  # no inexact value is allowed to be larger
SIZES = (0, 1, 3, 9)  # of dimensions, and 5 of images: few, since JAX compiles an op for each shape; 9 is more than a vector of f32 has
N_PER_PROGRAM = 20

# How the elements of a line come about, which jax_reference.py has to know: each from those of its operands at the same position; each is one of the
# operands', or what a pad fills in, and the same but that the last operand says which; sums of the first operand's; exactly, by no arithmetic on floats.
ELEMENTWISE, MOVEMENT, INDEXED, SUM, DECISION, WHOLE = "elementwise", "movement", "indexed", "sum", "decision", "whole"

# What steps are given: of each file the same inputs, with other numbers. `a…` hold quarters, `r…` any numbers, `e…` edges.
INPUTS = {
    "a0": ("f32", (9,)), "a1": ("f32", (3, 9)), "a2": ("f32", (5, 5, 3)), "a3": ("f32", ()), "a4": ("f64", (9,)), "a5": ("f64", (3, 9)),
    "a6": ("f64", (3, 3, 1)), "r0": ("f32", (9,)), "r1": ("f32", (3, 9)), "r2": ("f64", (3,)),
    "i0": ("i32", (3,)), "i1": ("i64", (9,)), "i2": ("u8", (3, 9)), "i3": ("i8", (9,)), "i4": ("bool", (3, 9)), "i5": ("bool", (9,)),
    "e0": ("f32", (9,)), "e1": ("f64", (9,)), "e2": ("f32", (3, 9)), "e3": ("i8", (9,)), "e4": ("u8", (9,)), "e5": ("i32", (9,)), "e6": ("i64", (3, 9)),
}  # fmt: skip
EDGES = (0.0, -0.0, math.inf, -math.inf, math.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 0.25, 3, 127.5, -129, 300)


def draw_inputs(seed, rows):
    """Arrays for INPUTS, {"input/NAME": array}."""
    source = np.random.default_rng(seed)
    arrays = {}
    for name, (dtype, shape) in INPUTS.items():
        shape = (rows, *shape)
        numpy_type = {"f32": np.float32, "f64": np.float64, "bool": np.bool_, "i8": np.int8, "u8": np.uint8, "i32": np.int32, "i64": np.int64}[dtype]
        if name[0] == "e" and dtype in FLOATS:
            array = source.choice(EDGES, shape)
        elif name[0] == "e":
            array = source.choice([LEAST[dtype], LEAST[dtype] + 1, 0, 1, 2, 7, GREATEST[dtype] // 2 + 1, GREATEST[dtype] - 1, GREATEST[dtype]], shape)
        elif name[0] == "r":
            array = source.uniform(-3, 3, shape)
        elif dtype in FLOATS:
            array = source.integers(-8, 9, shape) / 4
        else:
            array = source.integers(0, 2 if dtype == "bool" else 6, shape)
        arrays[f"input/{name}"] = array.astype(numpy_type)
    return arrays


class Value:
    """A name of the program. `shape` begins with "B" or has numbers only; `quantum` is q where all elements are multiples of 2**-q, else None."""

    def __init__(self, name, dtype, shape, bound=1, quantum=None, eps=0.0, sign_of_zero=True):
        self.name, self.dtype, self.shape, self.bound, self.sign_of_zero = name, dtype, tuple(shape), bound, sign_of_zero
        self.quantum, self.eps = quantum, eps
        self.line = self.reference = None
        self.operands = ()
        self.is_sum = False  # it adds up its operands
        self.how = WHOLE
        self.slopes = {name} if name[:1] in "arw" and self.is_float else set()  # the names of inputs and parameters that have gradients of it
        self.by_framework = True  # no random numbers are in it

    @property
    def exact(self):
        return self.quantum is not None

    @property
    def is_float(self):
        return self.dtype in FLOATS

    @property
    def has_rows(self):
        return bool(self.shape) and self.shape[0] == "B"

    def numbers(self, rows=ROWS):
        return tuple(rows if d == "B" else d for d in self.shape)

    @property
    def size(self):
        return math.prod(self.numbers())


def dims(shape):
    return f"[{', '.join(map(str, shape))}]"


def summed_up(name, value):
    """What a loss makes of a value: a number a row, of a slope that is exact to the last places everywhere."""
    axes = list(range(1, len(value.shape)))
    square = f"log1p(square(f32({name})))"
    return f"sum({square}, axes: {axes})" if axes else square


def exact_quantum(dtype, bound, quantum):
    """The quantum, if numbers up to `bound` of it fit the type; else None."""
    if dtype not in FLOATS:
        return 0
    return quantum if quantum is not None and bound * 2.0**quantum <= 2.0 ** PRECISION[dtype] else None


class Graph:
    """The step of a seed. Made anew from the seed it is the same."""

    def __init__(self, seed):
        self.seed, self.random = seed, random.Random(seed)
        self.kind = self.random.choices(("plain", "trained", "edges", "curved"), (50, 40, 20, 3))[0]
        self.trained = self.kind in ("trained", "curved")
        self.inputs, self.parameters, self.values, self.loss = {}, {}, [], None
        self.results, self.gradients, self.curved = {}, {}, {}
        self.loops = False
        n = self.random.randint(8, 18) if self.kind != "curved" else self.random.randint(2, 6)
        for _ in range(3):
            self.input(self.random.choice(self.input_names()))
        for _ in range(60 * n):
            if len(self.values) >= n + 3:
                break
            forms = FORMS[self.kind]
            self.random.choices(forms, [form.weight for form in forms])[0](self)
        self.choose_results()

    # ---- drawing ----

    def input_names(self):
        return [name for name in INPUTS if (name[0] == "e") == (self.kind == "edges") or (self.kind == "edges" and name in ("a0", "a4", "i5"))]

    def input(self, name):
        if name not in self.inputs:
            dtype, shape = INPUTS[name]
            bound = {"a": 2, "r": 3, "i": 5}.get(name[0], math.inf) if dtype in FLOATS else GREATEST.get(dtype, 1)
            quantum = None if name[0] == "r" or (name[0] == "e" and dtype in FLOATS) else 2 if dtype in FLOATS else 0
            value = Value(name, dtype, ("B", *shape), bound, quantum)
            self.inputs[name] = value
            self.values.append(value)
        return self.inputs[name]

    def pick(self, holds=lambda value: True, new_inputs=True):
        """A value of which that holds, the later the likelier, or a new input; None: there is none."""
        found = [value for value in self.values if holds(value)]
        if new_inputs and (not found or self.random.random() < 0.1):
            probes = [name for name in self.input_names() if name not in self.inputs]
            self.random.shuffle(probes)
            for name in probes:
                dtype, shape = INPUTS[name]
                bound = {"a": 2, "r": 3}.get(name[0], math.inf) if dtype in FLOATS else GREATEST.get(dtype, 1)
                quantum = None if name[0] == "r" or (name[0] == "e" and dtype in FLOATS) else 0
                if holds(Value(name, dtype, ("B", *shape), bound, quantum)):
                    return self.input(name)
        if not found:
            return None
        return self.random.choices(found, [1 + i for i in range(len(found))])[0]

    def number(self, least=0.0):
        """A literal of quarters that every float type holds."""
        return max(least, self.random.randint(-8, 8) / 4) or 0.5

    def constant(self, dtype, shape):
        """A tensor without B: a parameter where there are such, or numbers that follow one another."""
        if self.trained and dtype in ("f32", "f64") and len(self.parameters) < 3:
            value = Value(f"w{len(self.parameters)}", dtype, shape, 2, 2)
            self.parameters[value.name] = value
            self.values.append(value)
            return value
        axis, factor = self.random.randrange(max(len(shape), 1)), self.random.choice((0.25, 0.5, -0.5))
        if not shape or dtype not in FLOATS:
            number = self.random.randint(1, 3)
            return self.add(f"full({dims(shape)}, {number}, dtype: {dtype})", dtype, shape, lambda j: j.full(shape, number, dtype), (), number, 0,
                            how=DECISION)  # fmt: skip
        return self.add(f"ops.iota(shape: {dims(shape)}, axis: {axis}, dtype: {dtype}) * {factor} - 0.5", dtype, shape,
                        lambda j: j.iota(shape, axis, dtype) * factor - 0.5, (), max(abs(shape[axis] * factor), 1) + 1, 2, how=DECISION)  # fmt: skip

    def add(self, text, dtype, shape, reference, operands, bound=1, quantum=None, is_sum=False, sign_of_zero=True, slopes=True, how=WHOLE):
        """A line of the program; None, and no line, where it would be too large. `quantum`: of the result, if the operands are exact and it fits.
        `slopes`: gradients flow through it, from all operands or from these."""
        value = Value(f"v{len(self.values)}", dtype, shape, bound, None, 0.0)
        allowed = (1, 3, 5) if len(shape) >= 4 else SIZES
        if value.size > 700 or any(d not in allowed for d in shape[int(value.has_rows) :]) or len(shape) > 5 - value.has_rows:
            return None
        if self.kind == "edges":
            value.bound, value.quantum = math.inf, None if dtype in FLOATS else 0
            value.sign_of_zero = sign_of_zero and all(x.sign_of_zero for x in operands)
        elif dtype not in FLOATS:
            value.bound, value.quantum = min(bound, GREATEST.get(dtype, 1)), 0
        else:
            value.quantum = exact_quantum(dtype, bound, quantum) if all(x.exact for x in operands) else None
            value.eps = max([x.eps for x in operands], default=0.0)
            if value.quantum is None:
                value.eps = max(value.eps, 2.0 ** -PRECISION[dtype])
            if bound > (1000 if dtype in ("f16", "bf16") else MOST) and not value.exact:
                return None
        value.line, value.reference, value.operands, value.is_sum = text, reference, tuple(operands), is_sum
        value.how = how
        value.by_framework = all(x.by_framework for x in operands)
        through = operands if slopes is True else slopes or ()
        value.slopes = set().union(*(x.slopes for x in through)) if dtype in FLOATS else set()
        self.values.append(value)
        return value

    # ---- what comes out ----

    def choose_results(self):
        used = {x.name for value in self.values for x in value.operands}
        made = [value for value in self.values if value.line is not None]
        chosen = [value for value in made if value.name not in used or self.random.random() < 0.2]
        self.results = {f"g{self.seed}_{value.name}": value for value in chosen}
        if not self.trained:
            return
        terms = [value for value in made if value.is_float and value.has_rows and value.by_framework and value.name not in used]
        terms = terms or [self.input("a0")]
        texts = []
        for value in terms:
            texts.append(summed_up(value.name, value))
        self.loss = (" + ".join(texts), terms)
        wanted = self.reached([*chosen, *terms])
        self.parameters = {name: value for name, value in self.parameters.items() if name in wanted}
        # a gradient is rounded to the type of each value that it goes through
        eps = max([value.eps for value in made] + [2.0 ** -PRECISION[value.dtype] for value in made if value.slopes] + [2.0**-24])
        reached = set().union(*(value.slopes for value in terms))
        for name, value in {**self.inputs, **self.parameters}.items():
            if name in reached:
                self.gradients[name] = Value(f"d_{name}", value.dtype, value.shape, eps=eps)
                if self.kind == "curved" and name in self.inputs:
                    self.curved[name] = Value(f"dd_{name}", value.dtype, value.shape, eps=eps)

    def reached(self, values):
        """The names of these values and of what they are made of."""
        found, left = set(), list(values)
        while left:
            value = left.pop()
            if value.name not in found:
                found.add(value.name)
                left.extend(value.operands)
        return found

    def compared(self):
        """{key of a run's outcome: value}: results, the gradients to inputs, parameters after the step."""
        found = {f"result/{name}": value for name, value in self.results.items()}
        for name, value in self.gradients.items():
            found[f"result/g{self.seed}_d_{name}" if name in self.inputs else f"variable/M{self.seed}/{name}"] = value
        return found | {f"result/g{self.seed}_{value.name}": value for value in self.curved.values()}

    def text(self, only=None):
        """The step. `only`: the key of one outcome, with no line that it does not need."""
        key = only.split("/")[-1] if only else None
        results = {name: value for name, value in self.results.items() if key in (None, name)}
        trained = self.trained and (only is None or not results)
        wanted = self.reached([*results.values(), *(self.loss[1] if trained else [])])
        inputs = [value for value in self.inputs.values() if value.name in wanted or (only is None)]
        takes = ", ".join(f"{value.name}: {value.dtype}{dims(value.shape)}" for value in inputs)
        lines = [f"    {value.name} = {value.line}" for value in self.values if value.line is not None and value.name in wanted]
        returned = ", ".join(f"{name}: {value.name if value.dtype != 'bf16' else f'f32({value.name})'}" for name, value in results.items())
        if not self.trained:
            return "\n".join([f"step g{self.seed}({takes}) {{", *lines, f"    return {returned}", "}", ""])
        parameters = [f"    param {value.name}: {value.dtype}{dims(value.shape)} = zeros()" for value in self.parameters.values() if value.name in wanted]
        return "\n".join(self.model(takes, parameters, lines, results, trained) + self.step(takes, inputs, results, trained, key))

    def model(self, takes, parameters, lines, results, trained):
        given = ([self.loss[0]] if trained else []) + [value.name for value in results.values()]
        return [f"model M{self.seed}({takes}) {{", *parameters, *lines, f"    return {', '.join(given)}", "}"]

    def step(self, takes, inputs, results, trained, key):
        names = (["loss"] if trained else []) + [f"y{i}" for i in range(len(results))]
        lines = [f"step g{self.seed}({takes}) {{", f"    {', '.join(names)} = M{self.seed}({', '.join(value.name for value in inputs)})"]
        returned = [f"{name}: {f'f32(y{i})' if value.dtype == 'bf16' else f'y{i}'}" for i, (name, value) in enumerate(results.items())]
        if trained:
            for name in self.gradients:
                if name in self.inputs and key in (None, f"g{self.seed}_d_{name}", f"g{self.seed}_dd_{name}"):
                    lines.append(f"    d_{name} = grad(objective(loss), {name})")
                    returned.append(f"g{self.seed}_d_{name}: d_{name}")
                if name in self.curved and key in (None, f"g{self.seed}_dd_{name}"):
                    lines.append(f"    dd_{name} = grad(objective({summed_up(f'd_{name}', self.curved[name])}), {name})")
                    returned.append(f"g{self.seed}_dd_{name}: dd_{name}")
            if any(name in self.parameters for name in self.gradients):
                lines.append("    minimize(loss, descend())")
            returned.append(f"g{self.seed}_loss: loss")
        return [*lines, f"    return {', '.join(returned)}", "}", ""]


HEAD = "use nn, losses, ordering\n\noptimizer descend() { update (p, g) { p := p - 0.125 * g } }\n\n"


def program_text(graphs):
    return HEAD + "\n".join(graph.text() for graph in graphs)


# ---- forms: what adds lines to a graph, by its kind ----

FORMS = {"plain": [], "trained": [], "edges": [], "curved": []}


def form(weight, kinds="plain trained"):
    def register(function):
        function.weight = weight
        for kind in kinds.split():
            FORMS[kind].append(function)
        return function

    return register
