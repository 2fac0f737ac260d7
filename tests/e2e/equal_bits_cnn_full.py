"""Same program, data, seed and V: the same bits after 50 steps on any number of devices and cores. The CNN of the examples, over a thousand images."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

text = pathlib.Path(os.environ["DT_SOURCE"], "examples/fashion_cnn.dt").read_text().replace("shuffle(60000)", "take(1000) | shuffle(1000)")
data = FOLDER / "data"
data.mkdir()
for prefix, n in (("train", 1000), ("t10k", 100)):
    images, labels = make_examples(n, n, side=28)
    (data / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images, n, 28, 28)))
    (data / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels, n)))
assert_equal_bits(compile_program(text, "cnn", "--batch", "96"), data)
finish()
