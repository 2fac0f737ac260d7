"""second: convolutions of shapes that no tile divides (bench/programs/odd_channels.dt: 48 and 33 channels, 5 x 5, stride 2, a border of zeros)
beside those of examples/fashion_cnn.dt, one step of each in turn (`dtrun bench --vs`), batch 128 on two cores.

GFLOP/s counts two operations for each multiplication of the convolutions and matrix products that are computed, whatever the kernels do beside
them: read off the graph of the artifact, after what nobody reads has been left out. Of the convolutions' kernels it is that of one core.
"""
import json
import math
import re
import statistics

import side_by_side as bench

STEPS = 40
VALUE = r"(%\d+)[^:,(%]*: \w+\[([^]]*)\]"


def flops_of(artifact):
    """(of the convolutions, of the matrix products) for each row of a training step."""
    graph = bench.run([bench.ROOT / "build/dtrun", "info", "--text", "program.ir", artifact]).output
    body = re.search(r"^function train step \(.*?^}", graph, re.MULTILINE | re.DOTALL)[0]
    shapes = {number: [1 if dim == "B" else int(dim) for dim in shape.split(", ") if dim] for number, shape in re.findall(VALUE, body)}
    convolutions = products = 0
    for result, _, op, a, b in re.findall(VALUE + r" = (\w+)\((%\d+), (%\d+)", body):
        sizes = [math.prod(shapes[number]) for number in (result, a, b)]
        if op == "matmul":  # m n, m k and k n
            products += 2 * math.isqrt(math.prod(sizes))
        elif op.startswith("conv2d"):  # every position meets the whole kernel
            of_result, kernel = {"conv2d": (result, b), "conv2d_input_gradient": (a, b), "conv2d_kernel_gradient": (b, result)}[op]
            convolutions += 2 * math.prod(shapes[of_result][:-1]) * math.prod(shapes[kernel])
    return convolutions, products


def measure():
    """Of the second network and of the CNN: (GFLOP/s of the convolutions' kernels, of the step)."""
    command = [bench.ROOT / "build/dtrun", "bench", bench.ODD, "--vs", bench.CNN, *bench.TWO_CORES, "--global-batch", bench.BATCH, "--steps", STEPS,
               "--json"]
    second = json.loads(bench.run(command).output)
    for found, artifact in ((second, bench.ODD), (second["vs"], bench.CNN)):
        convolutions, products = flops_of(artifact)
        seconds = sum(kernel["seconds"] for kernel in found["kernels"] if "conv2d" in kernel["name"])
        yield 1e-9 * bench.BATCH * convolutions / seconds, 1e-9 * bench.BATCH * (convolutions + products) / found["median"]


def main():
    n = bench.n_pairs(__doc__)
    runs = [tuple(measure()) for _ in range(n)]
    bench.head(f"GFLOP/s, batch 128, 2 cores; {bench.counted(n)} of {STEPS} steps", "48 and 33 channels", "the CNN", "ratio")
    for which, name in enumerate(("kernels with convolutions, a core", "the training step, both cores")):
        second, cnn = (statistics.median(run[program][which] for run in runs) for program in (0, 1))
        bench.row(name, f"{second:.1f}", f"{cnn:.1f}", f"{statistics.median(run[0][which] / run[1][which] for run in runs):.2f}")


main()
