"""glorot: initial weights that any machine with NumPy makes again to the bit, so that no weight file has to be kept.

The stream is NumPy's RandomState, which is frozen for good (a Generator's may change with a version), drawn as doubles and
rounded once to f32; tensors are filled in the order of the table, each in row-major order.
"""

import hashlib
import math
import sys

import numpy as np
from safetensors.numpy import save_file


def glorot_uniform(random, shape):
    """f32[shape] from ±sqrt(6 / (fan in + fan out)); all dimensions but the last two are the receptive field, as in Keras."""
    field = math.prod(shape[:-2])
    limit = math.sqrt(6 / (field * (shape[-2] + shape[-1])))
    return ((2 * random.random_sample(shape) - 1) * limit).astype(np.float32)


def initial_weights(shapes, seed):
    """{path: f32 array} for {path: shape}: kernels from glorot_uniform, biases 0."""
    random = np.random.RandomState(seed)
    return {n: np.zeros(s, np.float32) if len(s) == 1 else glorot_uniform(random, s) for n, s in shapes.items()}


def digest(weights):
    """SHA-256 of the tensors' little-endian bytes, one after another in the order of their paths."""
    return hashlib.sha256(b"".join(weights[n].astype("<f4").tobytes() for n in sorted(weights))).hexdigest()


def main(weights):
    """The command line of the *_weights.py scripts: FILE is written, the digest printed."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} FILE.safetensors")
    save_file(weights, sys.argv[1])
    print(digest(weights))
