"""start: from the start of the process to the end of the first training step of examples/fashion_cnn.dt, batch 128, two cores.

Both read Fashion-MNIST, compressed as it comes or decompressed. First step: the process's own clock, from its start to the end of the step, its
loss read. Whole process: `dtrun train --max-steps 1`, and the peer's script that ends after one step, from before the start to after the end.
"""
import gzip
import pathlib
import shutil
import tempfile

import side_by_side as bench


def decompress(folder):
    for path in pathlib.Path(bench.DATA).glob("*-ubyte.gz"):
        with gzip.open(path) as packed, open(pathlib.Path(folder) / path.stem, "wb") as plain:
            shutil.copyfileobj(packed, plain)


def our_times(data):
    events, finished = bench.train(bench.CNN, *bench.TWO_CORES, "--max-steps", 1, data=data)
    return events["end"]["first_step_seconds"], finished.seconds


def peer_times(name, data):
    measured, finished = bench.peer("cnn_step.py", "--peer", name, "--steps", 0, data=data)
    return measured["first_step_seconds"], finished.seconds


def main():
    n = bench.n_pairs(__doc__)
    bench.head(f"start to the first CNN step; {bench.counted(n)}", "ours, s", "peer, s", "times as fast")
    with tempfile.TemporaryDirectory() as plain:
        decompress(plain)
        for peer, title, data, files in (
            ("tensorflow", "TensorFlow", bench.DATA, ".gz files"),
            ("tensorflow", "TensorFlow", plain, "decompressed files"),
            ("jax", "JAX", plain, "decompressed files"),
        ):
            both = [(our_times(data), peer_times(peer, data)) for _ in range(n)]
            for which, what in enumerate(("first step", "whole process")):
                mine, other, ratio = bench.medians([(ours[which], theirs[which]) for ours, theirs in both])
                bench.row(f"{what}, {files}, beside {title}", f"{mine:.2f}", f"{other:.2f}", f"{ratio:.1f}")


main()
