"""convolutions: each form of convolution against tests/golden/convolutions.safetensors: values, gradients and three updates, by the interpreter and by
compiled code on three replicas; what is said of wrong arguments."""

import json
import os
import sys

from safetensors import safe_open

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
from golden_cases import call
from programs import Checks, compile, execute, interpret, run, write

GOLDEN = os.path.join(os.environ["DT_SOURCE"], "tests", "golden", "convolutions.safetensors")
TOLERANCE = dict(relative=2e-6, absolute=4e-6)

# A call on an image [B, 9, 8, 6], and the first line of its error.
MISTAKES = [
    ("conv2d(x, filters: 8, kernel: 3, groups: 4)", "conv2d: 4 groups do not divide 6 channels and 8 filters"),
    ("conv2d(x, filters: 8, kernel: 3, groups: 3)", "conv2d: 3 groups do not divide 6 channels and 8 filters"),
    ("conv2d(x, filters: 8, kernel: 3, groups: 0)", "conv2d: 0 groups do not divide 6 channels and 8 filters"),
    ("conv2d(x, filters: 8, kernel: 3, stride: -1)", "conv2d: stride must be at least 1, got -1"),
    ("conv2d(x, filters: 8, kernel: 3, dilation: [1, 0])", "conv2d: dilation must be at least 1, got [1, 0]"),
    ("conv2d(x, filters: 8, kernel: 3, dilation: 4)", "conv2d: an image of [9, 8] is smaller than the kernel [9, 9]"),
    ("depthwise_conv2d(x, kernel: [3, 3, 3])", "depthwise_conv2d: kernel is one number or a list of 2, not [3, 3, 3]"),
    ("separable_conv2d(x, filters: 8, kernel: 0)", "separable_conv2d: kernel must be at least 1, got 0"),
    ("conv2d_transpose(x, filters: 8, kernel: 3, output_padding: 1)", "conv2d_transpose: output_padding 1 must be below the stride, [1, 1]"),
    ("conv2d_transpose(x, filters: 8, kernel: 3, output_padding: -1)", "conv2d_transpose: output_padding must be at least 0, got -1"),
    ("conv1d(x, filters: 8, kernel: 3)", "conv1d expects x: float[B, T, C], got f32[B, 9, 8, 6]"),
]  # fmt: skip

checks = Checks()


def read():
    with safe_open(GOLDEN, "np") as file:
        return json.loads(file.metadata()["cases"]), {name: file.get_tensor(name) for name in file.keys()}


def program_of(case, number, tensors):
    """A model of that one layer with a step for its gradients and one for its updates."""
    dims = lambda name: ", ".join(["B", *map(str, tensors[f"{case['name']}/{name}"].shape[1:])])
    weights, layer = case["weights"], f"M{number}.{case['call']}"
    return f"""model M{number}(x: f32[{dims('input')}]) {{ return {call(case['call'], case['arguments'], ['x'])} }}
step gradients{number}(input: f32[{dims('input')}], cotangent: f32[{dims('cotangent')}]) {{
    output = M{number}(input)
    total  = sum(output * cotangent)
    return output: output, input: grad(total, input), {', '.join(f'{name}: grad(total, {layer}.{name})' for name in weights)}
}}
step update{number}(input: f32[{dims('input')}], cotangent: f32[{dims('cotangent')}]) {{
    distance = M{number}(input) - cotangent
    minimize(sum(square(distance), axes: 1..distance.rank), sgd(learning_rate: 0.02))
    return {', '.join(f'{name}: {layer}.{name}' for name in weights)}
}}
"""


def check(case, number, tensors, how, runs):
    """`runs`: of a step, what is given to it and its options, what it found."""
    of = lambda name: tensors[f"{case['name']}/{name}"]
    given = {"input/input": of("input"), "input/cotangent": of("cotangent")}
    given |= {f"variable/M{number}/{case['call']}/{name}": of(name) for name in case["weights"]}
    found = runs(f"gradients{number}", given)
    checks.near(f"{case['name']}, {how}: output", found["result/output"], of("output"), **TOLERANCE)
    for name in ("input", *case["weights"]):
        wanted = of("gradient/" + name)
        checks.near(f"{case['name']}, {how}: gradient of {name}", found["result/" + name].reshape(wanted.shape), wanted, **TOLERANCE)
    found = runs(f"update{number}", given, rows=3)
    for name in case["weights"]:
        checks.near(f"{case['name']}, {how}: updates of {name}", found["result/" + name], of("updated/" + name), **TOLERANCE)


def mistake(text, message):
    program = f"use nn\nmodel Net(x: f32[B, 9, 8, 6]) {{ return {text} }}\nstep predict(x: f32[B, 9, 8, 6]) {{ return y: Net(x) }}\n"
    try:
        run(["dtc", "compile", "--emit=ir", write(program)])
    except RuntimeError as error:
        place = f":2:{len('model Net(x: f32[B, 9, 8, 6]) { return ') + 1}: "
        checks.that(f"{place}error: {message}\n" in str(error), f"{text}: {message}, got {error}")
    else:
        checks.that(False, f"{text} is refused")


cases, tensors = read()
program = write("use nn, optimizers\n" + "".join(program_of(case, number, tensors) for number, case in enumerate(cases)))
artifact = compile(program, batch=9)
for number, case in enumerate(cases):
    check(case, number, tensors, "interpreted", lambda step, given, **options: interpret(program, step, given, **options))
    check(case, number, tensors, "3 replicas", lambda step, given, **options: execute(artifact, step, given, replicas=3, **options))
for text, message in MISTAKES:
    mistake(text, message)
checks.finish()
