"""gan: makes gan.json, PyTorch's gradients of both losses of examples/gan.dt, without dropout.

    PYTHON tests/golden/gan.py             a few seconds; PYTHON has torch and NumPy

Both gradients are taken at the same parameters, before either optimizer changed any. PyTorch computes in f64 from inputs and weights that are exact in
f32. Of the gradient of each parameter its length is kept, its product with a fixed random direction, and its first eight elements. What it was computed
from any NumPy makes again: `inputs`, `weights` and `direction` below, which the test uses too.
"""
import json
import os
import platform
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import glorot

SEED = 20240618
ROWS = 8
SHAPES = {
    "Discriminator/conv2d/bias": (32,),
    "Discriminator/conv2d/kernel": (4, 4, 1, 32),
    "Discriminator/conv2d_1/bias": (64,),
    "Discriminator/conv2d_1/kernel": (4, 4, 32, 64),
    "Discriminator/dense/bias": (1,),
    "Discriminator/dense/kernel": (3136, 1),
    "Generator/batch_norm/beta": (3136,),
    "Generator/batch_norm/gamma": (3136,),
    "Generator/batch_norm_1/beta": (32,),
    "Generator/batch_norm_1/gamma": (32,),
    "Generator/conv2d_transpose/bias": (32,),
    "Generator/conv2d_transpose/kernel": (4, 4, 32, 64),
    "Generator/conv2d_transpose_1/bias": (1,),
    "Generator/conv2d_transpose_1/kernel": (4, 4, 1, 32),
    "Generator/dense/bias": (3136,),
    "Generator/dense/kernel": (64, 3136),
}


def normal(random, shape):
    return random.standard_normal(shape).astype(np.float32)


def inputs():
    """image: u8[ROWS, 28, 28], z: f32[ROWS, 64]."""
    random = np.random.RandomState(SEED)
    return random.randint(0, 256, (ROWS, 28, 28)).astype(np.uint8), normal(random, (ROWS, 64))


def weights():
    """Kernels as glorot draws them; biases, gammas and betas are not their initial values either, so that a wrong one shows."""
    drawn, random = glorot.initial_weights(SHAPES, SEED + 1), np.random.RandomState(SEED + 2)
    for path, value in drawn.items():
        if value.ndim == 1:
            drawn[path] = (np.float32(path.endswith("gamma")) + np.float32(0.1) * normal(random, value.shape)).astype(np.float32)
    return drawn


def direction(path):
    """f64 of the parameter's shape."""
    return np.random.RandomState(SEED + 3 + sorted(SHAPES).index(path)).standard_normal(SHAPES[path])


def describe(path, gradient):
    """What is kept of a gradient."""
    gradient = np.asarray(gradient, np.float64)
    return {"length": float(np.linalg.norm(gradient)), "product": float((gradient * direction(path)).sum()), "first": gradient.ravel()[:8].tolist()}


def compute():
    import torch
    from torch.nn import functional

    def as_torch(kernel):  # [h, w, I, O] of a convolution and [h, w, O, I] of its transpose: PyTorch has the last two first, exchanged
        return kernel.permute(3, 2, 0, 1)

    def batch_norm(x, name):
        axes = tuple(range(x.ndim - 1))
        variance, mean = torch.var_mean(x, axes, unbiased=False)
        return (x - mean) / torch.sqrt(variance + 1e-3) * p[f"{name}/gamma"] + p[f"{name}/beta"]

    def convolve(function, x, name):  # images are [B, H, W, C]; 4 x 4 with stride 2 and padding `same` has one zero on each side
        y = function(x.permute(0, 3, 1, 2), as_torch(p[f"{name}/kernel"]), p[f"{name}/bias"], stride=2, padding=1)
        return y.permute(0, 2, 3, 1)

    def generator(z):
        x = torch.relu(batch_norm(z @ p["Generator/dense/kernel"] + p["Generator/dense/bias"], "Generator/batch_norm")).reshape(-1, 7, 7, 64)
        x = torch.relu(batch_norm(convolve(functional.conv_transpose2d, x, "Generator/conv2d_transpose"), "Generator/batch_norm_1"))
        return torch.tanh(convolve(functional.conv_transpose2d, x, "Generator/conv2d_transpose_1"))

    def discriminator(x):
        for name in ("conv2d", "conv2d_1"):
            x = functional.leaky_relu(convolve(functional.conv2d, x, f"Discriminator/{name}"), 0.2)
        return (x.flatten(1) @ p["Discriminator/dense/kernel"] + p["Discriminator/dense/bias"])[:, 0]

    def crossentropy(target, logits):
        return functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target), reduction="none")

    p = {path: torch.tensor(value, dtype=torch.float64, requires_grad=True) for path, value in weights().items()}
    image, z = inputs()
    fake = discriminator(generator(torch.tensor(z, dtype=torch.float64)))
    real = discriminator(torch.tensor(image, dtype=torch.float64)[..., None] / 127.5 - 1)
    d_loss, g_loss = (crossentropy(1.0, real) + crossentropy(0.0, fake)).mean(), crossentropy(1.0, fake).mean()
    found = {"d_loss": d_loss.item(), "g_loss": g_loss.item(), "gradients": {}}
    for loss, model in ((d_loss, "Discriminator"), (g_loss, "Generator")):
        paths = [path for path in SHAPES if path.startswith(model)]
        for path, gradient in zip(paths, torch.autograd.grad(loss, [p[path] for path in paths], retain_graph=True)):
            found["gradients"][path] = describe(path, gradient)
    versions = {"torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}
    return {"made_with": versions, "weights_sha256": glorot.digest(weights()), **found}


if __name__ == "__main__":
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gan.json"), "w") as file:
        json.dump(compute(), file, indent=1)
        file.write("\n")
