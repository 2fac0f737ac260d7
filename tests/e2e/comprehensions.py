"""Lists made of others, infinity and nan: what they are worth beside Python's and NumPy's, interpreted and compiled; layers in them; mistakes."""

import os
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import Checks, compile, execute, interpret, write

checks = Checks()

# The same in Python, with range for 0..n.
LISTS = ["[i * i for i in 0..5]", "[i for i in [3, 1, 2] if i != 1]", "[i + 10 * j for i in 0..4 for j in 0..i if i + j != 3]", "[i for i in 0..0]",
         "[i if i > 1 else -i for i in 0..4]", "[a * b for a, b in zip([1, 2], [3, 4])]", "[len([j for j in 0..i]) for i in 0..4]", "[i for i in 0..9 if i > 2 if i < 5]"]


def values():
    given = {"input/x": np.float32([[1, 2], [3, -4]])}
    results = [f"list{i}: concatenate([full([1], -9)] + [full([1], v) for v in {text}])" for i, text in enumerate(LISTS)]
    program = write(f"""
const squares = {LISTS[0]}
step s(x: f32[B, 2]) {{
    i = 5
    after = [i for i in squares][4] + i
    return {", ".join(results)}, after: x + after, most: where(x > 2, x, infinity), least: max(where(x > 2, x, -infinity), axis: 1), none: x + nan
}}
""")
    of_python = [eval(re.sub(r"0\.\.(\w+)", r"range(\1)", text)) for text in LISTS]
    wanted = {f"list{i}": [[-9, *items]] for i, items in enumerate(of_python)}
    x = given["input/x"]
    wanted |= {"after": x + 21, "most": np.where(x > 2, x, np.inf), "least": [-np.inf, 3], "none": x * np.nan}
    for how, found in (("interpreted", interpret(program, "s", given, rows=2)), ("compiled", execute(compile(program, batch=2), "s", given, rows=2))):
        for name, value in wanted.items():
            checks.that(np.array_equal(found[f"result/{name}"], np.float32(value), equal_nan=True), f"{how}: {name}: {found[f'result/{name}']}, not {value}")


def layers():
    text = """use nn
model Net(x: f32[B, 3]) {
    blocks = [layer dense(units: n) for n in [4, 5]]
    for block in blocks { x = block(x) }
    return concatenate([dense(x, units: n) for n in 1..3], axis: 1)
}
step s(x: f32[B, 3]) { return y: Net(x) }
"""
    said = subprocess.run(["dtc", "summary", write(text)], capture_output=True, text=True, timeout=60).stdout
    found = [line.split()[0] for line in said.splitlines() if line.startswith("  ") and " dense " in line]
    checks.that(found == ["blocks_0", "blocks_1", "dense", "dense_1"], said)


values()
layers()
checks.finish()
