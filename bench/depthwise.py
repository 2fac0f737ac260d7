"""depthwise: a depthwise convolution, 3 x 3 with a border of zeros, of images of MobileNet's sizes, batch 16 on one core, beside PyTorch.

forward is the result, backward both gradients, each stored in memory; weights and images are there before. Ours is `dtrun bench` of a step that returns
them, PyTorch's (bench/peers/depthwise.py) what conv2d and its backward take, in the layout of memory in which that is faster. Of both it is the tenth
percentile of the steps, which other work on the machine disturbs least.
"""
import json
import tempfile

import side_by_side as bench

BATCH, STEPS = 16, 30
SIZES = ((112, 32), (56, 128), (14, 512))  # height and width, channels
PROGRAM = """use nn
model Net(x: f32[B, {n}, {n}, {c}]) {{ return depthwise_conv2d(x, kernel: 3, padding: same, use_bias: false) }}
step forward(x: f32[B, {n}, {n}, {c}]) {{ return y: Net(x) }}
step backward(x: f32[B, {n}, {n}, {c}], g: f32[B, {n}, {n}, {c}]) {{
    total = sum(Net(x) * g)
    return x: grad(total, x), kernel: grad(total, Net.depthwise_conv2d.kernel)
}}
"""


def compiled(folder, n, c):
    program, artifact = f"{folder}/{n}.dt", f"{folder}/{n}.dtx"
    with open(program, "w") as file:
        file.write(PROGRAM.format(n=n, c=c))
    bench.run([bench.ROOT / "build/dtc", "compile", program, "--batch", BATCH, "-o", artifact])
    return artifact


def ours(artifact, step):
    command = [bench.ROOT / "build/dtrun", "bench", artifact, "--step", step, "--devices", "cpu:1x1", "--global-batch", BATCH, "--steps", STEPS, "--json"]
    return 1e3 * json.loads(bench.run(command).output)["p10"]


def theirs(n, c, step):
    return bench.peer("depthwise.py", "--size", n, "--channels", c, "--step", step, "--batch", BATCH, "--threads", 1, "--steps", STEPS)[0]["step_ms_low"]


def main():
    n_pairs = bench.n_pairs(__doc__)
    bench.head(f"batch {BATCH}, one core; {bench.counted(n_pairs)} of {STEPS} steps", "ours, ms", "PyTorch, ms", "times as fast")
    with tempfile.TemporaryDirectory() as folder:
        for n, c in SIZES:
            artifact = compiled(folder, n, c)
            for step in ("forward", "backward"):
                mine, peer, ratio = bench.pairs(n_pairs, lambda: ours(artifact, step), lambda: theirs(n, c, step))
                bench.row(f"{n} x {n} x {c}, {step}", f"{mine:.2f}", f"{peer:.2f}", f"{ratio:.2f}")


main()
