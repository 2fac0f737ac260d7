"""curve: trains a model in JAX on the CPU and keeps the loss of each step.

What cnn_curve, mobilenet_curve and perceptron_curve have in common. Everything that could differ between two programs is fixed: the weights
to start from (glorot.py), the order of the examples (that of the files), no dropout. Each curve is made twice, in f32 and in
f64 from the same f32 weights: the distance of the two says how far rounding alone carries a correct program at each step.
"""

import gzip
import hashlib
import json
import os
import platform

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)  # every array below states its own type

import glorot

DATA = "/usr/share/datasets/fashion-mnist"  # Debian package dataset-fashion-mnist
FILES = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
N_STEPS = 100


def read_idx(path):
    """The array in a gzip-compressed IDX file of unsigned bytes."""
    with gzip.open(path) as file:
        raw = file.read()
    n_dims = raw[3]
    shape = np.frombuffer(raw, ">u4", n_dims, offset=4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * n_dims).reshape(shape)


def crossentropy(logits, label):
    """The mean over the batch of -log softmax(logits)[label]."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), label[:, None].astype(jnp.int32), axis=1).mean()


def losses(model, optimizer, weights, batch, dtype, n_steps=N_STEPS):
    """The loss of each of n_steps steps, before the step's update, as Python floats.

    model      (weights, image dtype[batch, 28, 28, 1] in 0..1) -> logits [batch, 10]
    optimizer  (p, g, slots, t) -> (p, slots) for one tensor, t = 1 at the first step; slots is a pair that starts as zeros
    """
    image, label = (read_idx(os.path.join(DATA, name)) for name in FILES)

    @jax.jit
    def step(p, slots, t, image, label):
        x = image.astype(dtype)[..., None] / 255
        loss, g = jax.value_and_grad(lambda p: crossentropy(model(p, x), label))(p)
        new = {n: optimizer(p[n], g[n], slots[n], t) for n in p}
        return {n: new[n][0] for n in p}, {n: new[n][1] for n in p}, loss

    p = {n: jnp.asarray(w, dtype) for n, w in weights.items()}
    slots = {n: (jnp.zeros_like(w), jnp.zeros_like(w)) for n, w in p.items()}
    curve = []
    for i in range(n_steps):
        rows = slice(i * batch, (i + 1) * batch)
        p, slots, loss = step(p, slots, jnp.asarray(i + 1, dtype), image[rows], label[rows])
        assert loss.dtype == dtype
        curve.append(float(str(np.asarray(loss))))  # the shortest decimal that reads back as the same number
    return curve


def write(path, description, model, optimizer, weights, batch, n_steps=N_STEPS):
    """Writes the golden file and says how far the two curves are apart."""
    f32, f64 = (losses(model, optimizer, weights, batch, dtype, n_steps) for dtype in (np.float32, np.float64))
    golden = {
        **description,
        "batch": batch,
        "steps": n_steps,
        "made_with": {"python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__},
        "weights_sha256": glorot.digest(weights),
        "data_sha256": {n: hashlib.sha256(open(os.path.join(DATA, n), "rb").read()).hexdigest() for n in FILES},
        "loss": f32,
        "loss_f64": f64,
    }
    with open(path, "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")
    apart = [abs(a - b) / b for a, b in zip(f32, f64)]
    print(f"{path}: loss {f32[0]:.6f} .. {f32[-1]:.6f}; f32 from f64, relative, at most", end=" ")
    print(", ".join(f"{max(apart[:n]):.1e} over {n}" for n in (1, 10, n_steps)))
