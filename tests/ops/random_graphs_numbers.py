"""60 random graphs of numbers at their edges, pairs of rows and second gradients, beside NumPy: tests/tools/random_numbers.py. A wrong number is seen, and
what graphs are to hold is drawn again and again."""
import collections
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
sys.path[:0] = [str(SOURCE / "tests/support")]
import numpy as np  # noqa: E402
from number_reference import FLOATS, INTEGERS, LEAST_EXPONENT, PRECISION, Number, Words, differs  # noqa: E402
from random_numbers import FULL, SHORT, NumberGraph  # noqa: E402

words = Words(rows=4)
half = words.sum(Number("f16", np.full(3, 40000.0)), [0])
assert differs(half, np.float64(65504.0)) and not differs(half, np.float64(np.inf))  # f16 is rounded once, to infinity
wide = words.sum(words.convert(Number("f16", np.full(3, 40000.0)), "f32"), [0])
assert differs(wide, np.float32(np.inf)) and not differs(wide, np.float32(120000))
third = words.divide(Number("f32", np.float64(1)), Number("f32", np.float64(3)))
assert differs(third, np.nextafter(np.float32(1 / 3), np.float32(1))) and not differs(third, np.float32(1 / 3))



def kinds(graph):
    """What a graph holds, of all that it may."""
    yield from (f"{value.dtype}{', pairs of rows' if value.n_batch == 2 else ''}" for value in graph.values)
    yield from (f"{word} of {value.operands[0].dtype}" for value in graph.values if value.line for word in ("scan(", "scatter_add(") if word in value.line)
    for value in graph.values:
        if value.is_float:
            x = value.number.value
            yield from (f"{what} {value.dtype}" for what, is_there in (("infinite", np.isinf(x)), ("NaN", np.isnan(x)), ("zero", x == 0)) if is_there.any())
            if ((x != 0) & (np.abs(x) < 2.0 ** (LEAST_EXPONENT[value.dtype] + PRECISION[value.dtype] - 1))).any():
                yield f"subnormal {value.dtype}"
        if (value.line or "").startswith("product(") and (value.operands[0].number.value == 0).any():
            yield "zero in a product"
    for text, values, *_ in graph.reports.values():
        yield f"{'weighted' if 'weight' in text else text.split('(')[0]}, rows {values[0].n_batch} times"
    for _, (value, _) in graph.loss or []:
        yield f"loss, {graph.normalize}, rows {value.n_batch} times"
    yield from ("loss with weights" for weight in graph.weights if weight)
    yield from (f"gradient {slope.dtype}" for slope in graph.gradients.values())
    yield from (f"second gradient {slope.dtype}" for slope in graph.second.values())


drawn = collections.Counter(kind for seed in range(1, 801) for kind in set(kinds(NumberGraph(seed, FULL if seed % 3 else SHORT))))
wanted = {*FLOATS, *INTEGERS, "bool", "zero in a product", "loss with weights"}
wanted |= {f"{dtype}, pairs of rows" for dtype in (*FLOATS, *INTEGERS)} | {f"{word} of {dtype}" for word in ("scan(", "scatter_add(") for dtype in (*FLOATS, *INTEGERS)}
wanted |= {f"{what} {dtype}" for what in ("infinite", "NaN", "zero", "subnormal") for dtype in FLOATS}
wanted |= {f"{order} {dtype}" for order in ("gradient", "second gradient") for dtype in ("f16", "f32", "f64")}  # bf16 is no type of inputs
wanted |= {f"{report}, rows {n} times" for report in ("mean", "sum", "count", "weighted") for n in (1, 2)}
wanted |= {f"loss, {by}, rows {n} times" for by in ("batch", "examples", "weights") for n in (1, 2)}
rare = sorted(kind for kind in wanted if drawn[kind] < 3)
assert not rare, f"hardly ever drawn: {rare}"

tool = SOURCE / "tests/tools/random_numbers.py"
sys.exit(subprocess.run([sys.executable, tool, "--count", "60"]).returncode)
