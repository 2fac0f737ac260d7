"""order: what the fixed order of sums over replicas costs (bench/reduction_order.c).

The step of bench/programs/wide.dt, eleven million parameters in dense layers, with 8 replicas of 64 rows on 2 devices; and the sum of its gradients
over all microbatches, in the fixed tree and in the order in which they come. What they differ by is a share of the step.
"""
import json

import side_by_side as bench

PROGRAM = bench.ROOT / "build/bench_wide.dtx"


def main():
    bench.n_pairs(__doc__)
    bench.run([bench.ROOT / "build/dtc", "compile", bench.ROOT / "bench/programs/wide.dt", "--batch", 64, "-o", PROGRAM])
    found = json.loads(bench.run([bench.ROOT / "build/bench/reduction_order", PROGRAM]).output)
    bench.head(f"{found['bytes'] / 4e6:.1f} M gradients, {found['leaves']} copies, 8 replicas on 2 devices", "ms", "% of the step")

    def row(name, seconds):
        bench.row(name, f"{1e3 * seconds:.1f}", f"{100 * seconds / found['step']:.1f}")

    row("a step", found["step"])
    row("their sum in the fixed tree", found["fixed"])
    row("their sum in the order in which they come", found["arrival"])
    row("the difference", found["difference"])


main()
