"""A program's own names come before the library's, those of its modules too: every function, layer, optimizer, constant, builtin and elementwise op that the
library has is declared by a program, or by a module of its own. The name then means what was declared; the library's functions, called with their module
before them, are what they were, to the byte of the graph. Models of one name have paths of their own."""

import os
import pathlib
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from programs import SOURCE, Checks, interpret, run, scratch, write

checks = Checks()
LIBRARY = sorted(pathlib.Path(SOURCE, "frontends/dsl/std").glob("*.dt"))
MODULES = [path.stem for path in LIBRARY]


def write_as(name, text):
    """The path of a file of that name, in a folder of its own."""
    folder = scratch("")
    os.mkdir(folder)
    path = os.path.join(folder, name)
    pathlib.Path(path).write_text(text)
    return path


def names_of_library():
    texts = "".join(path.read_text() for path in LIBRARY)
    sources = "".join(path.read_text() for path in sorted(pathlib.Path(SOURCE, "frontends/dsl").glob("builtins*.c")))
    found = re.findall(r"^(?:private )?(?:fn|layer|optimizer|model|const) (\w+)", texts, re.MULTILINE)
    found += re.findall(r'^    \{"(\w+)", ', sources, re.MULTILINE)
    found += re.findall(r"^OP\((\w+), MAP,", pathlib.Path(SOURCE, "ir/ops.def").read_text(), re.MULTILINE)
    return sorted(set(found))


names = names_of_library()
checks.that({"pair", "dense", "adam", "mean", "minimize", "exp", "sum", "loss_scale", "uniform_table", "one_hot"} <= set(names) and len(names) > 300, names)
own = "".join(f"fn {name}(x) {{ return x * 3 }}\n" for name in names)

# What the library computes, with and without these names.
program = f"""use {", ".join(MODULES)}
option precision: mixed_f16
model Net(image: f32[B, 8, 8, 3], word: i32[B, 5]) {{
    x = nn.conv2d(image, filters: 4, kernel: 3, padding: same, activation: nn.gelu)
    x = nn.batch_norm(nn.depthwise_conv2d(x, kernel: 3))
    x = nn.max_pool2d(nn.conv2d_transpose(x, filters: 2, kernel: 2), size: 2)
    x = nn.dense(nn.flatten(nn.up_sampling2d(nn.zero_padding2d(x))), units: 4)
    w = nn.multi_head_attention(nn.embedding(word, rows: 9, width: 8), heads: 2, rotary: true)
    w = recurrent.lstm(recurrent.gru(w, units: 4, return_sequences: true), units: 4)
    return nn.softmax(nn.group_norm(x[:, newaxis], groups: 2)[:, 0] + nn.selu(w)) + ordering.sort(core.pad(w, low: [0, 1], high: [0, 1], mode: reflect)[:, 1:-1])
}}
step train(image: f32[B, 8, 8, 3], word: i32[B, 5], label: u8[B]) {{
    p = Net(image, word)
    rate = schedules.warmup(schedules.cosine_decay(1e-3, steps: 100), steps: 10)
    core.minimize(losses.sparse_categorical_crossentropy(label, p), optimizers.adamw(learning_rate: rate))
    report loss: core.mean(losses.huber(p, p * 2)), auc: metrics.auc(p[:, 0] > 0.5, p[:, 0])
}}
"""
alone, beside = write_as("same.dt", program), write_as("same.dt", program + own)
graph = run(["dtc", "compile", "--emit=ir", alone])
checks.that(graph == run(["dtc", "compile", "--emit=ir", beside]), "the library's functions are others beside a program's own")
checks.that(graph.count("\n") > 1000, "the graph is small")

# What they mean: in the program, and where a module has them.
x = np.arange(4, dtype=np.float32)
body = "step s(x: f32[B]) { return " + ", ".join(f"r_{name}: {name}(x)" for name in names) + " }\n"
folder = os.path.dirname(write_as("mine.dt", own))
for what, text in ("own", body + own), ("of a module", "use mine\n" + body):
    path = os.path.join(folder, "names.dt")
    pathlib.Path(path).write_text(f"use {', '.join(MODULES)}\n" + text)
    found = interpret(path, "s", {"input/x": x}, rows=4)
    for name in names:
        checks.near(f"{name}, {what}", found[f"result/r_{name}"], 3 * x, 0)

# Two models of one name: the library's state loss_scale, and a program's model.
model = write("""use nn, optimizers
option precision: mixed_f16
model loss_scale(x: f32[B, 3]) {
    param scale: f32 = 1
    return dense(x, units: 1)[:, 0] * scale
}
step train(x: f32[B, 3]) {
    minimize(square(loss_scale(x)), sgd(0.1))
    report y: mean(loss_scale(x))
}
""")
found = interpret(model, "train", {"input/x": np.ones((2, 3), np.float32)}, rows=2)
paths = {name.removeprefix("variable/") for name in found if name.startswith("variable/")}
checks.that({"loss_scale/scale", "loss_scale/dense/kernel", "loss_scale_1/scale", "loss_scale_1/good"} <= paths, paths)
checks.finish()
