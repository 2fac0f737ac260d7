"""memory: the peak of resident memory of a process that trains examples/fashion_cnn.dt, batch 128, on two cores.

What the operating system counted for the process (ru_maxrss of wait4). Each reads the .gz files and runs some steps; ours shuffles all
60,000 images, the peers go round over a few batches. It hardly varies, so each runs once.
"""
import side_by_side as bench

STEPS = 30


def main():
    bench.n_pairs(__doc__)
    bench.head(f"peak memory, {STEPS} CNN steps", "MiB", "times ours")
    ours = bench.train(bench.CNN, *bench.TWO_CORES, "--max-steps", STEPS)[1].peak_mib
    bench.row("ours", f"{ours:.0f}", "")
    for peer, title in (("tensorflow", "TensorFlow"), ("jax", "JAX")):
        theirs = bench.peer("cnn_step.py", "--peer", peer, "--steps", STEPS)[1].peak_mib
        bench.row(title, f"{theirs:.0f}", f"{theirs / ours:.1f}")


main()
