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


TABLE = (pathlib.Path(SOURCE) / "frontends/dsl/foreign_names.def").read_text()


def rows(kind="FOREIGN"):
    return re.findall(rf'^{kind}\((\w+), "(.*)"\)$', TABLE, re.MULTILINE)


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


# A call with each of their parameters.
CALLS = {"dim": "mean(x, dim: 1)", "eps": "layer_norm(x, eps: 0.1)", "keepdim": "sum(x, axis: 1, keepdim: true)", "keepdims": "sum(x, axis: 1, keepdims: true)",
         "kernel_size": "conv2d(image, filters: 2, kernel_size: 3)", "lr": "sgd(lr: 0.1)", "num_heads": "multi_head_attention(a, num_heads: 2)",
         "out_channels": "conv2d(image, out_channels: 2, kernel: 3)", "out_features": "dense(x, out_features: 4)", "p": "dropout(x, p: 0.5)",
         "pool_size": "max_pool2d(image, pool_size: 2)", "strides": "conv2d(image, filters: 2, kernel: 3, strides: 2)"}


def every_parameter_is_answered():
    table = re.findall(r"^FOREIGN_PARAMETER\((\w+), (\w+)\)$", TABLE, re.MULTILINE)
    checks.that({theirs for theirs, _ in table} == set(CALLS), f"a call for each of {table}")
    for theirs, ours in table:
        inputs = HEAD[HEAD.index("(") + 1 : HEAD.index(") {")]
        names = ", ".join(re.findall(r"(\w+):", inputs))

        def told(call):
            return messages("use nn, optimizers\n" + HEAD + f"    v = {call}\n    return a\n}}\nstep s({inputs}) {{ return y: M({names}) }}\n")

        code, said = told(CALLS[theirs])
        checks.that(code == 1 and f"has no parameter {theirs}\n" in said and f"help: here that is {ours}\n" in said, f"{theirs}: {said}")
        code, said = told(CALLS[theirs].replace(f"{theirs}:", f"{ours}:"))
        checks.that(code == 0, f"{ours}: {said}")


def told_of(line):
    return messages("use nn, losses, optimizers\nstep s(x: f32[B, 4]) {\n" + line + "\n    return y: x\n}\n")[1]


def lines_modules_and_classes_are_answered():
    for theirs, ours in rows("FOREIGN_LINE"):
        checks.that(f"help: here that is a line of a step: {ours}\n" in told_of(f"    {theirs}(x)"), f"{theirs}: {told_of(f'    {theirs}(x)')}")
        code, said = messages("use nn\nstep s(x: f32[B, 4]) {\n    " + ours + "\n    return y: x\n}\n")
        checks.that(code == 0, f"{ours}: {said}")
    modules = re.findall(r"^FOREIGN_MODULE\((\w+)\)$", TABLE, re.MULTILINE)
    checks.that(len(modules) > 3, f"{modules}")
    for module in modules:
        said = told_of(f"    v = {module}.relu(x)")
        checks.that(f"unknown name {module}\n" in said and "help: functions stand alone here: relu(x), mean(x)\n" in said, f"{module}: {said}")
    for theirs, ours in (("SGD", "did you mean sgd?"), ("Linear", "here that is dense(x, units: 4)"), ("ReLU", "did you mean relu?"), ("Conv2D", "did you mean conv2d?"),
                         ("LayerNorm", "did you mean layer_norm?")):
        checks.that(f"help: {ours}\n" in told_of(f"    v = {theirs}(x)"), f"{theirs}: {told_of(f'    v = {theirs}(x)')}")
    for theirs in re.findall(r"^FOREIGN_TRAINING\((\w+)\)$", TABLE, re.MULTILINE):
        checks.that("help: here minimize(loss, adam()) takes gradients and updates parameters\n" in told_of(f"    x.{theirs}()"), f"{theirs}: {told_of(f'    x.{theirs}()')}")
    for theirs, ours in (("torch.cat([x, x])", "here that is concatenate([a, b], axis: 1)"), ("tf.reduce_mean(x)", "here that is mean(x, axis: 1)"),
                         ("x.view(4)", "here that is reshape(x, shape)"), ("x.sum(1)", "functions stand before what they take: sum(x)"),
                         ("nn.BatchNorm2d(x)", "here that is batch_norm(x)"), ("nn.CrossEntropyLoss()", "here that is sparse_categorical_crossentropy(label, logits)"),
                         ("nn.Conv2d(x)", "did you mean conv2d?"), ("jax.value_and_grad(x)", "here minimize(loss, adam()) takes gradients and updates parameters"),
                         ("lax.scan(x)", "functions stand alone here: relu(x), mean(x)"), ("nn.LeakyReLU(x)", "here that is leaky_relu(x)")):
        checks.that(f"help: {ours}\n" in told_of(f"    v = {theirs}"), f"{theirs}: {told_of(f'    v = {theirs}')}")


table = rows()
checks.that(len(table) > 40 and len({theirs for theirs, _ in table}) == len(table), f"{len(table)} names")
what_is_suggested_compiles([ours for _, ours in table])
every_name_is_answered(table)
every_parameter_is_answered()
lines_modules_and_classes_are_answered()
checks.finish()
