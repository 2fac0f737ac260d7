"""random_scans: scans with random bodies beside the same body written out, iteration by iteration: values, gradients and gradients of gradients.

    python3 tests/ops/random_scans.py [FIRST [COUNT]]

States, what is scanned, and what bodies read of outside have the batch in any place or not at all, so that some loops are each replica's and some are
the same for all; what is kept may be computed outside. Each runs on one and two replicas, and without some of the passes. A difference prints
the seed and the program."""

import os
import random
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, own_folder, write

ROWS = 5
SHAPES = [("B", 3), ("B", 3), (3,), (1, 3), ("B", 2, 3), (2, 3), (4, "B", 3), ("B", 1), ("B",), (), ("B", 3, 1), (1, 1, 3)]
WIDER = [("B", 3), ("B", 2, 3), (4, "B", 3), (2, 3), ("B", 1, 3)]
SWITCHES = ["no-hoist", "no-rematerialize,no-fuse", "no-simplify,no-shrink", "no-vectorize,no-tile", "no-fuse"]
REFUSED = "in the body of scan a value is made of all rows"


def dims(shape):
    return f"[{', '.join(map(str, shape))}]"


def together(x, y):
    """The shape of both, broadcast; None: they do not fit, or would pair rows."""
    n = max(len(x), len(y))
    pairs = list(zip((1,) * (n - len(x)) + x, (1,) * (n - len(y)) + y))
    shape = tuple(q if p == 1 else p for p, q in pairs)
    return shape if all(p == q or 1 in (p, q) for p, q in pairs) and shape.count("B") < 2 and n < 4 else None


class Scan:
    def __init__(self, seed):
        self.random = source = random.Random(f"scans {seed}")
        self.trips, self.state, self.part = source.choice((2, 3, 4)), source.choice(SHAPES), source.choice(SHAPES)
        self.axis = source.randint(int(self.part[:1] == ("B",)), len(self.part))
        self.back = source.random() < 0.4
        self.values = [("s", self.state), ("p", self.part), ("w", (3, 3)), ("b", (3,)), ("k", ("B", 3))]
        self.lines = []
        for _ in range(source.randint(2, 7)):
            made = self.line()
            if made is not None:
                name = f"t{len(self.lines)}"
                self.lines.append(f"    {name} = {made[0]}")
                self.values.append((name, made[1]))
        goes_on = [name for name, shape in self.values[1:] if together(shape, self.state) == self.state]
        new = [name for name in goes_on if name[0] == "t"]
        self.next = f"tanh(s * 0.5 + {source.choice(new or goes_on)})" if goes_on else "tanh(s * 0.5)"
        kept = [value for value in self.values[-3:] if self.can_keep(value[1])] or [value for value in self.values[:1] if self.can_keep(value[1])]
        self.kept = source.choice(kept) if kept else None

    def can_keep(self, shape):
        return int(shape[:1] == ("B",)) <= self.axis <= len(shape)

    def line(self):
        """Text and shape of a value of the body; None: what was drawn does not fit."""
        source = self.random
        (x, shape), (y, other) = source.choice(self.values), source.choice(self.values)
        kind = source.choice(("arithmetic", "arithmetic", "product", "product", "sum", "tanh", "wider", "where", "reshape", "transpose", "slice"))
        if kind == "arithmetic" and together(shape, other) is not None:
            return f"{x} {source.choice('+-*')} {y}", together(shape, other)
        if kind == "product" and len(shape) > 1 and shape[-1] == 3:
            return f"{x} @ w", shape
        if kind == "sum" and any(n != "B" for n in shape):
            axis, keep = source.choice([d for d, n in enumerate(shape) if n != "B"]), source.random() < 0.5
            text = f"0.3 * sum({x}, axis: {axis}{', keep: true' if keep else ''})"
            return text, shape[:axis] + (1,) * keep + shape[axis + 1 :]
        if kind == "tanh":
            return f"tanh({x})", shape
        if kind == "wider":
            to = source.choice(WIDER)
            return (f"broadcast({x}, {dims(to)})", to) if together(shape, to) == to else None
        if kind == "where" and other == shape:
            return f"where({x} > 0.1, {x}, {y})", shape
        if kind == "reshape" and shape == ("B", 3):
            return f"reshape({x}, [B, 1, 3])", ("B", 1, 3)
        if kind == "transpose" and len(shape) > 1:
            order = source.sample(range(len(shape)), len(shape))
            return f"transpose({x}, {order})", tuple(shape[d] for d in order)
        if kind == "slice" and shape[-1:] == (3,):
            return f"{x}[..., ::2]", shape[:-1] + (2,)
        return None

    def given(self):
        """Of each name that the step needs: its input, the input's shape, and what makes the one of the other. Rows stand first in inputs."""
        scanned = self.part[: self.axis] + (self.trips,) + self.part[self.axis :]
        for name, shape in (("x", scanned), ("first", self.state), ("w", (3, 3)), ("b", (3,)), ("k", ("B", 3))):
            if "B" not in shape:
                yield name, f"of_{name}", ("B", *shape), f"max(of_{name}, axis: 0)"
            else:
                at = shape.index("B")
                order = [*range(1, at + 1), 0, *range(at + 1, len(shape))]
                yield name, f"of_{name}", ("B", *shape[:at], *shape[at + 1 :]), f"transpose(of_{name}, {order})"

    def step(self, name, written_out):
        given, ax, body = list(self.given()), [":"] * self.axis, "body(s, p, w, b, k)"
        lines = [f"step {name}({', '.join(f'{i}: f32{dims(shape)}' for _, i, shape, _ in given)}) {{"] + [f"    {n} = {text}" for n, _, _, text in given]
        if written_out:
            lines += ["    last = first", "    parts = []", f"    for i in (0..{self.trips}){'[::-1]' if self.back else ''} {{",
                      f"        last, y = body(last, x[{', '.join(ax + ['i'])}], w, b, k)"]  # fmt: skip
            if self.kept:
                part = f"y[{', '.join(ax + ['newaxis'] + [':'] * (len(self.kept[1]) - self.axis))}]"
                lines.append(f"        parts = {f'[{part}] + parts' if self.back else f'parts + [{part}]'}")
            lines += ["    }"] + ([f"    all = concatenate(parts, axis: {self.axis})"] if self.kept else [])
        else:
            function = f"fn(s, p) => {body}" if self.kept else f"fn(s, p) => [{body}[0], none]"
            lines.append(f"    last, all = scan({function}, first, x, axis: {self.axis}, reverse: {str(self.back).lower()})")
        lines.append(f"    total = sum(square(last)) + 0.01 * (sum(square(x)) + sum(square(w)) + sum(square(first))){' + sum(tanh(all))' if self.kept else ''}")
        wanted = ("of_x", "of_first", "of_w")
        lines += [f"    d_{i} = grad(total, {i})" for i in wanted]
        lines.append("    dd_w = grad(sum(square(d_of_w)) + 0.5 * sum(d_of_first), of_w)")
        lines.append("    dd_first = grad(sum(square(d_of_x)) + sum(square(d_of_first)), of_first)")
        results = [f"d_{i}: d_{i}" for i in wanted] + ["dd_w: dd_w", "dd_first: dd_first", f"last: {self.rows_first('last', self.state)}"]
        if self.kept:
            kept = self.kept[1]
            results.append(f"all: {self.rows_first('all', kept[: self.axis] + (self.trips,) + kept[self.axis :])}")
        return "\n".join([*lines, f"    return {', '.join(results)}", "}", ""])

    def rows_first(self, name, shape):
        if shape.index("B") if "B" in shape else 0:
            return f"transpose({name}, {[shape.index('B')] + [d for d in range(len(shape)) if shape[d] != 'B']})"
        return name

    def text(self):
        head = "\n".join(["fn body(s, p, w, b, k) {", *self.lines, f"    return {self.next}, {self.kept[0] if self.kept else 's'}", "}", ""])
        return head + self.step("scanned", False) + self.step("written", True)


def check(seed, checks):
    scan = Scan(seed)
    numbers = np.random.default_rng(seed)
    given = {f"input/{i}": (0.7 * numbers.standard_normal([ROWS, *shape[1:]])).astype(np.float32) for _, i, shape, _ in scan.given()}
    program = write(scan.text())
    for replicas, optimize in ((1, None), (2, None), (2, scan.random.choice(SWITCHES))):
        try:
            artifact = compile(program, batch=ROWS + 1, optimize=optimize)
        except RuntimeError as error:
            checks.that(REFUSED in str(error), f"seed {seed}, {optimize}: {error}\n{scan.text()}")
            continue
        got, wanted = (execute(artifact, step, given, rows=ROWS + 1, replicas=replicas, devices="cpu:1") for step in ("scanned", "written"))
        for name, value in wanted.items():
            near = got[name].shape == value.shape and np.allclose(got[name], value, rtol=2e-4, atol=2e-4)
            if not checks.that(near, f"seed {seed}, V={replicas}, {optimize}: {name}"):
                print(scan.text())


def main():
    first, count = (int(x) for x in (sys.argv[1:] + ["1", "25"][len(sys.argv) - 1 :]))
    checks = Checks()
    print(f"seeds {first} to {first + count - 1}")
    for seed in range(first, first + count):
        with own_folder():
            check(seed, checks)
    checks.finish()


main()
