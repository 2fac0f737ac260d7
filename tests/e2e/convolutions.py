"""convolutions: each form of convolution against tests/golden/convolutions.safetensors: values, gradients and three updates, by the interpreter and by
compiled code on three replicas; all of them in one network by dtc check; what is said of wrong arguments."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests", "tools"))
import layer_updates
from programs import Checks, program, run, write

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


def mistake(text, message):
    program = f"use nn\nmodel Net(x: f32[B, 9, 8, 6]) {{ return {text} }}\nstep predict(x: f32[B, 9, 8, 6]) {{ return y: Net(x) }}\n"
    try:
        run(["dtc", "compile", "--emit=ir", write(program)])
    except RuntimeError as error:
        place = f":2:{len('model Net(x: f32[B, 9, 8, 6]) { return ') + 1}: "
        checks.that(f"{place}error: {message}\n" in str(error), f"{text}: {message}, got {error}")
    else:
        checks.that(False, f"{text} is refused")


layer_updates.compare(checks, "convolutions", "use nn, optimizers", **TOLERANCE)
for text, message in MISTAKES:
    mistake(text, message)
said = run(["dtc", "check", program("convolutions.dt")])
checks.that("21 are the slopes" in said and "3 replicas: 24 results and variables are those of one" in said, said)
checks.finish()
