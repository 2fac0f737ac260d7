"""Names of Keras's, PyTorch's and NumPy's: each is unknown here, its message says what to write, and that compiles."""

import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, write

checks = Checks()
MOST_AT_ONCE = 10  # mistakes of one program

WITH = "use nn, losses, initializers\n"
# What the suggestions name.
HEAD = """
model M(a: f32[B, 4, 4], b: f32[B, 4, 4], signal: f32[B, 8, 4], image: f32[B, 8, 8, 4], volume: f32[B, 8, 8, 8, 4], mask: bool[B, 4, 4], label: i32[B],
        logits: f32[B, 4], target: f32[B, 4], predicted: f32[B, 4]) {
    x = a
    y = 2.0
    n = 4
    value = 0.0
    low = 0.0
    high = 1.0
    axes = [0, 2, 1]
    shape = [B, 16]
"""
RANKS = {"1d(x)": "1d(signal)", "2d(x)": "2d(image)", "3d(x)": "3d(volume)"}


def messages(program):
    done = subprocess.run(["dtc", "compile", "--emit=ir", write(program)], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def rows():
    text = (pathlib.Path(SOURCE) / "frontends/dsl/foreign_names.def").read_text()
    return re.findall(r'^FOREIGN\((\w+), "(.*)"\)$', text, re.MULTILINE)


def what_is_suggested_compiles(suggestions):
    lines = []
    for i, ours in enumerate(suggestions):
        ours = ours.removesuffix(", …")
        for old, new in RANKS.items():
            ours = ours.replace(old, new)
        is_initial = re.fullmatch(r"\w+\(\)", ours)
        lines += [f"    param w{i}: f32[4, 4] = {ours}" if is_initial else f"    v{i} = [{ours}]"]
    inputs = HEAD[HEAD.index("(") + 1 : HEAD.index(") {")]
    names = ", ".join(re.findall(r"(\w+):", inputs))
    program = WITH + HEAD + "\n".join(lines) + f"\n    return a\n}}\nstep s({inputs}) {{\n    return y: M({names})\n}}\n"
    code, said = messages(program)
    checks.that(code == 0, f"{program}\n{said}")


def every_name_is_answered(table):
    for begin in range(0, len(table), MOST_AT_ONCE):
        part = table[begin : begin + MOST_AT_ONCE]
        body = "".join(f"    v{i} = {theirs}(x)\n" for i, (theirs, _) in enumerate(part))
        code, said = messages(WITH + "step s(x: f32[B, 4]) {\n" + body + "    return y: x\n}\n")
        for theirs, ours in part:
            checks.that(f"unknown name {theirs}\n" in said and f"help: here that is {ours}\n" in said, f"{theirs}: {said}")
        checks.that(code == 1, said)


table = rows()
checks.that(len(table) > 40 and len({theirs for theirs, _ in table}) == len(table), f"{len(table)} names")
what_is_suggested_compiles([ours for _, ours in table])
every_name_is_answered(table)
checks.finish()
