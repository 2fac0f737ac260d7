"""images: how fast images() reads, decodes and resizes a file, beside Pillow (PyPI's newest, in an environment of its own): Image.open(path).convert("RGB"),
resize where it says so, and the pixels as a NumPy array. One core each, in turn; microseconds a file."""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import venv

import side_by_side as bench

SECONDS = 0.3
SIZE = 224

MAKE = """
import sys, numpy as np
from PIL import Image
folder = sys.argv[1]
generator = np.random.default_rng(1)
def photo(height, width):
    coarse = generator.integers(0, 256, (height // 24 + 2, width // 24 + 2, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).astype(float)
    return Image.fromarray(np.clip(smooth + generator.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8))
large, small = photo(375, 500), photo(32, 32)
large.save(f"{folder}/large.jpg", quality=90)
large.save(f"{folder}/progressive.jpg", quality=90, progressive=True)
large.save(f"{folder}/large.png")
small.save(f"{folder}/small.png")
small.save(f"{folder}/small.jpg", quality=90)
large.quantize(64).save(f"{folder}/palette.png")
"""
READ = """
import json, sys, time, numpy as np
from PIL import Image
seconds, size, paths = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
out = []
for path in paths:
    least, began = 1e9, time.perf_counter()
    now = began
    while now - began < seconds:
        with Image.open(path) as image:
            image = image.convert("RGB")
        if size: image = image.resize((size, size), Image.Resampling.BILINEAR)
        array = np.asarray(image)
        then, now = now, time.perf_counter()
        least = min(least, now - then)
    out.append(least * 1e6)
print(json.dumps(out))
"""


def environment():
    folder = bench.ROOT / "build/pillow_venv"
    if not (folder / "bin/python").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", "pillow", "numpy"], check=True)
    return folder / "bin/python"


def main():
    n, python = bench.n_pairs(__doc__), environment()
    with tempfile.TemporaryDirectory() as folder:
        bench.run([python, "-c", MAKE, folder])
        paths = sorted(pathlib.Path(folder).iterdir())
        version = bench.run([python, "-c", "import PIL; print(PIL.__version__)"]).output.strip()
        bench.head(f"microseconds a file, one core, {bench.counted(n)}", "dtrun", f"Pillow {version}", "ratio")
        for size in (0, SIZE):
            pairs = []
            for _ in range(n):
                ours = bench.run([bench.ROOT / "build/bench/image_decode", SECONDS, size, size, *paths]).output.split()
                pairs.append((list(map(float, ours)), json.loads(bench.run([python, "-c", READ, SECONDS, size, *paths]).output)))
            for i, path in enumerate(paths):
                own, theirs = (statistics.median(pair[k][i] for pair in pairs) for k in (0, 1))
                ratio = statistics.median(pair[1][i] / pair[0][i] for pair in pairs)
                bench.row(path.name + (f", resized to {size} x {size}" if size else ""), f"{own:.0f}", f"{theirs:.0f}", f"{ratio:.2f} ×")


if __name__ == "__main__":
    main()
