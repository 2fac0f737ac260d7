"""What `dtc ops --conformance` says of each op and element type, held against NumPy's values and JAX's gradients, neither more nor less.

    conformance.py [--all]     compiled code of the level that runs here and the interpreter; --all: of every level that this machine has

Elements and cases are those of tests/support/conformance_cases.py. Values come from the op's NumPy expression in double, rounded to the element type,
gradients from tests/golden/op_gradients.safetensors. What ir/conformance.def says besides is held too: a convention must be needed, and a gap must be one.
"""
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tests/support"), str(ROOT / "tests/ops")]
import conformance_cases as cases
import numpy_test

NUMPY = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bool": np.bool_, **cases.INTEGERS}
ASPECTS = {"v": "values", "g": "gradient", "h": "second gradient"}
LAUNCH = {"counter": 11, "seed": 5, "row_offset": 0, "steps_per_epoch": 7, "valid": 1}
GRADIENT_UNITS = 64  # in the last place, of the gradient or of 1, whichever is greater: what a few roundings of terms of that size leave


# ---- elements ----

def rounded(x, dtype):
    """Doubles as the element type holds them, in double."""
    with np.errstate(all="ignore"):
        if dtype != "bf16":
            return np.asarray(x, np.float64).astype(NUMPY[dtype]).astype(np.float64)
        fraction, exponent = np.frexp(np.asarray(x, np.float64))
        bits = np.clip(8 - np.maximum(-126 - (exponent - 1), 0), -2, 8)  # fewer below the normal numbers
        y = np.ldexp(np.rint(np.ldexp(fraction, bits)), exponent - bits)
        return np.where(np.abs(y) > cases.GREATEST["bf16"], np.copysign(np.inf, y), np.where(np.isfinite(x), y, x))


def save(path, x, dtype):
    if dtype == "bf16":
        (np.asarray(x, np.float64).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).tofile(path)
    else:
        with np.errstate(all="ignore"):
            np.asarray(x).astype(NUMPY[dtype]).tofile(path)


def load(path, dtype):
    if dtype == "bf16":
        return (np.fromfile(path, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    x = np.fromfile(path, NUMPY[dtype])
    return x.astype(np.float64) if dtype in cases.MANTISSA else x


def wrong_floats(got, want, dtype, ulp, scale=0.0):
    """Where `got` is not `want` in that type: within units of the last place; to the bit, the sign of a zero too, where they are 0."""
    with np.errstate(all="ignore"):
        if ulp == 0:
            held = rounded(want, dtype)
            same = (got == held) & (np.signbit(got) == np.signbit(held))
            return ~(same | (np.isnan(got) & np.isnan(held)))
        least = cases.LEAST_NORMAL[dtype]
        size = np.maximum(np.maximum(np.abs(want), scale), least)
        unit = 2.0 ** (np.floor(np.log2(np.where(np.isfinite(size), size, 1))) - cases.MANTISSA[dtype])
        near = np.abs(got - want) <= (ulp + 1) * unit
        tiny = (np.abs(want) < least) & (np.abs(got) <= least)
        most = cases.GREATEST[dtype]
        beyond = (np.abs(want) >= most - (ulp + 1) * unit) & np.isinf(got) & (np.sign(got) == np.sign(want))
        return ~(near | tiny | beyond | (got == want) | (np.isnan(got) & np.isnan(want)))


# ---- what is claimed ----

def read_claims():
    """{(op, dtype): letters} of the printed table, {op: signature}, {op: (numpy, ulp, is a sum)}."""
    run = lambda *arguments: subprocess.run(["dtc", "ops", *arguments], check=True, capture_output=True, text=True).stdout
    lines = run("--conformance").splitlines()
    head = next(line for line in lines if line.startswith("op "))
    dtypes = head.split()[1:]
    table = {}
    for line in lines[lines.index(head) + 1 :]:
        if not line.strip():
            break
        cells = line.split()
        table |= {(cells[0], d): cell.strip(".") for d, cell in zip(dtypes, cells[1:])}
    return table


def read_rows():
    """{op: (operands as (name, word), defaults of attributes, NumPy's expression, units of the last place, does it add up)} of the op table."""
    text, rows = re.sub(r'"\s*\n\s*"', "", (ROOT / "ir/ops.def").read_text().split("*/", 1)[1]), {}
    for name, row in re.findall(r"^OP\((\w+), (.*?)\)$", text, re.M | re.S):
        strings = [one.replace('\\"', '"') for one in re.findall(r'"((?:[^"\\]|\\.)*)"', row)]
        signature, formula, numpy = strings[0], strings[1], strings[-2]
        ulp = re.findall(r'", ([\d.]+),\s*"', row)[-1]
        operands, _, attributes = signature.split("->")[0].partition(";")
        operands = [tuple(part.strip().removesuffix("...").split(": ")) for part in operands.split(",") if part.strip()]
        defaults = {a: literal(value) for a, value in re.findall(r'(\w+): \w+ = (\[[^\]]*\]|"\w+"|[\w.]+)', attributes)}
        rows[name] = (operands, "..." in signature, defaults, numpy, float(ulp), formula == "sum")
    return rows


def literal(text):
    return {"true": True, "false": False}.get(text) if text in ("true", "false") else text if text in NUMPY or text == "bf16" else eval(text)


def read_said():
    """The rows of ir/conformance.def: conventions as (ops, aspects, when, is), gaps as (ops, types, aspects)."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / "ir/conformance.def").read_text(), flags=re.S)
    rows = [(kind, re.findall(r'"([^"]*)"', row)) for kind, row in re.findall(r"^(\w+)\((.*?)\)$", text, re.M | re.S)]
    conventions = [(row[0].split(), row[1], row[2], row[3]) for kind, row in rows if kind == "CONVENTION"]
    return conventions, [(row[0].split(), row[1].split(), row[2]) for kind, row in rows if kind == "GAP"]


# ---- one case ----

class Subject:
    """A case with what it is compared with."""

    def __init__(self, op, dtype, row, case, letters, is_map, conventions):
        self.op, self.dtype, self.row, self.case, self.letters, self.is_map = op, dtype, row, case, letters, is_map
        self.failures = {}  # {(aspect, at an edge): sentences}
        self.caught = False  # is a planted error seen?
        self.needed = set()  # (when of a convention, aspect)
        self.conventions = [c for c in conventions if op in c[0]]
        self.has_gradients = any(letter in letters.lower() for letter in "gh")

    def write(self, folder):
        case = self.case
        for k, (x, dtype) in enumerate(zip(case.operands, case.dtypes)):
            save(folder / f"{case.name}.x{k}", x, dtype)
        if self.has_gradients:
            shape, to = self.values(0).shape, self.to()
            n = math.prod(shape)
            save(folder / f"{case.name}.w", self.weights("w", n), to)
            for k in self.floats():
                save(folder / f"{case.name}.v{k}", self.weights(f"v{k}", math.prod(case.shape[k])), case.dtypes[k])
        return f"{case.name}\t{case.text}\t{case.n_sets}{' gradients' if self.has_gradients else ''}"

    def to(self):
        m = re.search(r"\b(?:to|dtype)=(\w+)", self.case.text)
        return m.group(1) if m else self.dtype

    def floats(self):
        return [k for k, dtype in enumerate(self.case.dtypes) if dtype in cases.MANTISSA]

    def weights(self, name, n):
        return cases.weights(self.case, name, n, self.is_map)

    def set(self, k, i):
        """Operand k of set i, as the program reads it."""
        x = self.case.operands[k].reshape(self.case.n_sets, *self.case.shape[k])[i]
        return rounded(x, self.case.dtypes[k]) if self.case.dtypes[k] in cases.MANTISSA else np.asarray(x).astype(NUMPY[self.case.dtypes[k]])

    def values(self, i, magnitudes=False):
        operands, variadic, defaults, numpy, _, _ = self.row
        given = [np.abs(self.set(k, i)) if magnitudes else self.set(k, i) for k in range(len(self.case.operands))]
        named = {operands[0][0]: given} if variadic else {name: x for (name, _), x in zip(operands, given)}
        attributes = {a: literal(v) for a, v in re.findall(r'(\w+)=(\[[^\]]*\]|"\w+"|[\w.-]+)', self.case.text.split(";")[1])}
        return numpy_test.evaluate({"case": self.case.text, "launch": LAUNCH, "numpy": numpy, "attributes": {**defaults, **attributes}}, named)

    def places(self, count):
        """Which of so many elements of all sets are random, and not edges."""
        n = self.case.n_random if self.is_map else self.case.n_random * (count // self.case.n_sets)
        return np.arange(count) < n

    def named(self, i):
        """The operands of set i, by name."""
        return {name: self.set(k, i) for k, (name, _) in enumerate(self.row[0]) if not self.row[1]}

    def excused(self, aspect, operand, wrong, got, want):
        """`wrong` without what conventions say is so; which conventions were needed."""
        size = len(wrong) // self.case.n_sets
        for convention in self.conventions:
            _, aspects, when, what = convention
            if aspect not in aspects or not when:
                continue
            for i in range(self.case.n_sets):
                part = slice(i * size, (i + 1) * size)
                scope = {"np": np, "exact": 2.0 ** (cases.MANTISSA.get(self.dtype, 63) + 1), "result": want[part]}
                scope |= {name: np.ravel(x)[:size] if self.is_map else x for name, x in self.named(i).items()}
                chosen = np.broadcast_to(eval(when, scope), size) & ~self.places(len(wrong))[part]
                if what == "either sign":
                    held = np.abs(want[part]) == np.abs(got[part])
                elif what == "anything":
                    held = np.ones(size, bool)
                else:
                    said = dict(one.split(": ") for one in what.split("; ")) if operand is not None else {None: what}
                    if operand not in said:
                        continue
                    value = np.broadcast_to(eval(said[operand], scope), size)
                    held = (got[part] == value) | (np.isnan(got[part]) & np.isnan(value))
                if (wrong[part] & chosen & held).any():
                    self.needed.add((when, aspect))
                wrong[part] &= ~(chosen & held)
        return wrong

    def note(self, aspect, way, operand, wrong, got, want):
        wrong = self.excused(aspect, operand, wrong, got, want)
        random = self.places(len(wrong))
        where = lambda at: ", ".join(f"{x[at]:g}" for x in self.case.operands) if self.is_map else f"set {at // (len(wrong) // self.case.n_sets)}"
        for at_edge in (False, True):
            here = np.flatnonzero(wrong & (random != at_edge))
            if len(here):
                some = "; ".join(f"({where(at)}) {got[at]}, should be {want[at]}" for at in here[:: max(1, len(here) // 4)])
                part = ASPECTS[aspect] + (f" for {operand}" if operand else "")
                self.failures.setdefault((aspect, at_edge), []).append(f"{self.case.text}, {way}, {part}: {some}; {len(here)} such")

    def check(self, folder, way, golden):
        to, (_, _, _, _, ulp, is_sum) = self.result_type(), self.row
        want = np.concatenate([np.ravel(self.values(i)) for i in range(self.case.n_sets)])
        got = load(folder / f"{self.case.name}.{way}.y", to)
        if to in cases.MANTISSA:
            scale = np.concatenate([np.ravel(self.values(i, True)) for i in range(self.case.n_sets)]) if is_sum else 0.0
            wrong = wrong_floats(got, want.astype(np.float64), to, ulp, scale)
        else:
            want = want.astype(NUMPY[to])
            wrong = got != want
        self.note("v", way, None, wrong, got, want)
        self.caught = self.notices(got, want, to, ulp)
        if not self.has_gradients:
            return
        key = self.op if self.is_map else f"{self.op}.{self.case.name.split('.')[2]}"
        for aspect in "gh":
            for k in self.floats():
                dtype = self.case.dtypes[k]
                name = f"{key}.{aspect}{k}"
                if name not in golden:
                    self.failures.setdefault((aspect, False), []).append(f"{name}: tests/golden/op_gradients.py does not compute it")
                    continue
                want = np.ravel(golden[name])
                got = load(folder / f"{self.case.name}.{way}.{aspect}{k}", dtype)[: len(want)]
                operand = self.row[0][0 if self.row[1] else k][0]
                self.note(aspect, way, operand, wrong_floats(got, want, dtype, GRADIENT_UNITS, 1.0), got, want)

    def notices(self, got, want, to, ulp):
        """Can a comparison fail? One element is another."""
        other = got.copy()
        other[0] = other[0] + 1 + abs(other[0]) if to in cases.MANTISSA else other[0] ^ 1
        return bool((wrong_floats(other, want.astype(np.float64), to, ulp) if to in cases.MANTISSA else other != want)[0])

    def result_type(self):
        if self.op in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isfinite"):
            return "bool"
        if self.op in ("argmax", "argmin", "launch") or (self.op in ("reduce_sum", "reduce_product") and self.dtype not in cases.MANTISSA):
            return "i64"
        return "i32" if self.op == "max_pool2d_index" else "f32" if self.op == "random_uniform" else self.to()


def subjects(table, rows, conventions):
    for (op, dtype), letters in table.items():
        if not letters:
            continue
        row = rows[op]
        if op in cases.SHAPED:
            for case in cases.shaped_cases(op, dtype):
                yield Subject(op, dtype, row, case, letters, False, conventions)
        elif op == "convert":
            for to in NUMPY.keys() | {"bf16"}:
                yield Subject(op, dtype, row, cases.map_case(op, ["T"], dtype, to), letters if to in cases.MANTISSA else "V", True, conventions)
        else:
            yield Subject(op, dtype, row, cases.map_case(op, [word for _, word in row[0]], dtype), letters, True, conventions)


def judge(every, conventions, gaps, all_types):
    """Sentences about what is claimed and does not hold, and what is not claimed and does."""
    for s in every:
        for (aspect, at_edge), sentences in s.failures.items():
            if aspect.upper() in s.letters or (aspect in s.letters and not at_edge):
                yield from sentences
        if not s.caught:
            yield f"{s.case.text}: a planted error went unnoticed"
    failing = {(s.op, s.dtype, aspect, at_edge) for s in every for aspect, at_edge in s.failures}
    for ops, dtypes, aspects in gaps:
        for op in ops:
            for dtype in dtypes:
                for aspect in aspects:
                    ran = any((s.op, s.dtype) == (op, dtype) for s in every)
                    if (ran or all_types) and (op, dtype, aspect.lower(), aspect.islower()) not in failing:
                        yield f"{op} of {dtype}: its {ASPECTS[aspect.lower()]} holds, and ir/conformance.def has a gap there"
    for ops, aspects, when, _ in conventions:
        for op in ops if when and all_types else ():
            for aspect in aspects:
                if not any(s.op == op and (when, aspect) in s.needed for s in every):
                    yield f"{op}: nothing needs the convention for its {ASPECTS[aspect]} where {when}"


def run(every, folder, levels, golden):
    """Fills in what is wrong."""
    tool = pathlib.Path(os.environ.get("DT_TOOLS", "build/tests/tools")) / "conformance"
    lines = "\n".join(s.write(folder) for s in every) + "\n"
    out = subprocess.run([tool, folder, levels], input=lines, check=True, capture_output=True, text=True).stdout
    by_name, ways = {s.case.name: s for s in every}, set()
    for line in out.splitlines():
        case, way, said = line.split(" ", 2)
        if case == "skipped:":
            print(line)
        elif said != "ok":
            yield f"{case}, {way}: {said}"
        else:
            ways.add(way)
            by_name[case].check(folder, way, golden)
    print(f"{len({(s.op, s.dtype) for s in every})} cells of {len({s.op for s in every})} ops, {len(every)} cases by {', '.join(sorted(ways))}")


def main():
    everything = "--all" in sys.argv
    table, rows, (conventions, gaps) = read_claims(), read_rows(), read_said()
    golden = load_file(ROOT / "tests/golden/op_gradients.safetensors")
    wrong = [f"{op}: no case in tests/support/conformance_cases.py" for op, _ in table if table[op, _] and op not in cases.SHAPED and not rows[op][0]]
    every = sorted(subjects(table, rows, conventions), key=lambda s: (s.op, s.case.name))
    if not everything:  # of each op two types, by turns
        turn = {op: i for i, op in enumerate(sorted({s.op for s in every}))}
        types = {op: sorted({s.dtype for s in every if s.op == op}) for op in turn}
        every = [s for s in every if (types[s.op].index(s.dtype) - turn[s.op]) % len(types[s.op]) in (0, 3)]
    with tempfile.TemporaryDirectory() as name, np.errstate(all="ignore"):
        wrong += run(every, pathlib.Path(name), "all" if everything else "best", golden)
    wrong += judge(every, conventions, gaps, everything)
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
