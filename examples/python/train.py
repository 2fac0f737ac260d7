"""Trains examples/perceptron.dt on Fashion-MNIST from Python: first on the program's own data, then in a loop of its own with arrays of NumPy's.

    python examples/python/train.py [FOLDER OF FASHION-MNIST]
"""
import gzip
import pathlib
import sys
import tempfile

import dt
import numpy as np

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent
DATA = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/datasets/fashion-mnist")


def read_idx(name):
    """The array in a file of MNIST's format."""
    data = gzip.decompress((DATA / name).read_bytes())
    shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


program = dt.compile(EXAMPLES / "perceptron.dt")
print(program)
for step in program.steps.values():
    print("   ", step)

# The program says what its data is and how it is shuffled and batched. A report an epoch.
with tempfile.TemporaryDirectory() as checkpoints:
    session = program.session(replicas=2, devices="cpu:2", data=DATA, checkpoints=checkpoints)
    for report in session.train(epochs=2):
        print(report)
    print("evaluation", session.evaluate())

    # The same in a loop of one's own. A batch may have any number of rows up to the global batch.
    images, labels = read_idx("train-images-idx3-ubyte.gz"), read_idx("train-labels-idx1-ubyte.gz")
    order = np.random.default_rng(0).permutation(len(images))
    for first in range(0, 20 * session.global_batch, session.global_batch):
        rows = order[first:first + session.global_batch]
        report = session.step("train", image=images[rows], label=labels[rows])
    print(f"step {session.n_steps:,}: loss {report['loss']:.4f}")

    # Variables are arrays: read where they are, and written.
    bias = session["Perceptron/dense_1/bias"]
    print("bias", np.round(bias, 3))
    session["Perceptron/dense_1/bias"] = np.zeros_like(bias)

    # Back to what was written last, and predictions of any number of rows.
    session.load()
    predicted = session.predict(images[:1000])
    print(f"{np.mean(predicted['label'] == labels[:1000]):.1%} of the first 1,000 images are recognised")
