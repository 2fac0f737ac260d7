"""serve: how long fashion_cnn takes to answer one image, on one thread: examples/serve, which embeds libdtrt, beside ONNX Runtime and PyTorch with the same
weights. p50 and p99 over the first 3,000 images of the test set, each a call of its own; the peers' calls are made from Python."""
import gzip
import pathlib
import re
import statistics
import subprocess
import tempfile

import numpy as np

import side_by_side as bench

N_IMAGES = 3000
PEERS = {"onnxruntime": "ONNX Runtime", "torch": "PyTorch"}


def prepare(folder):
    """Trained weights, the images in two forms, and the server."""
    bench.train(bench.CNN, "--max-steps", "100", "--checkpoint-dir", folder / "ck")
    (folder / "model.safetensors").symlink_to(folder / "ck/step-100/model.safetensors")
    with gzip.open(pathlib.Path(bench.DATA) / "t10k-images-idx3-ubyte.gz") as file:
        pixels = file.read()[16:16 + N_IMAGES * 28 * 28]
    (folder / "images").write_bytes(pixels)
    np.save(folder / "images.npy", np.frombuffer(pixels, np.uint8).reshape(-1, 28, 28))
    (folder / "include").symlink_to(bench.ROOT / "include")
    (folder / "lib").symlink_to(bench.ROOT / "build")
    bench.run([bench.ROOT / "examples/serve/build.sh", folder, folder])


def ours(folder):
    with open(folder / "images", "rb") as images:
        done = subprocess.run([folder / "serve", bench.CNN, folder / "model.safetensors"], stdin=images, check=True, capture_output=True, text=True)
    p50, p99 = map(float, re.search(r"p50 (\S+) us, p99 (\S+) us", done.stderr).groups())
    return p50, p99, [int(line.split()[0]) for line in done.stdout.splitlines()]


def theirs(folder, framework):
    said = bench.peer("serve.py", "--framework", framework, data=folder, environment={"OMP_NUM_THREADS": "1"})[0]
    return said["p50"], said["p99"], said["labels"]


def main():
    n = bench.n_pairs(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prepare(folder)
        bench.head(f"microseconds an answer, one thread, {bench.counted(n)}", "libdtrt p50", "p99", "p50", "p99", "libdtrt's p50 is", "other labels")
        for framework, title in PEERS.items():
            pairs = [(ours(folder), theirs(folder, framework)) for _ in range(n)]
            cells = [statistics.median(pair[who][which] for pair in pairs) for who in (0, 1) for which in (0, 1)]
            ratio = statistics.median(pair[0][0] / pair[1][0] for pair in pairs)
            others = sum(a != b for a, b in zip(pairs[0][0][2], pairs[0][1][2]))
            bench.row(title, *(f"{cell:,.1f}" for cell in cells), f"{ratio:.2f} × theirs", f"{others} of {N_IMAGES:,}")


if __name__ == "__main__":
    main()
