"""mobilenet_curve: makes mobilenet_curve.json, the losses of the first 10 steps of the network of examples/mobilenet.dt.

    bench/peers/.venv/bin/python tests/golden/mobilenet_curve.py        a few minutes

A depthwise convolution is written as the sum of nine shifted images, each times its weight: no convolution of JAX's is asked for it.
"""

import os

import curve
import jax.numpy as jnp
from jax import lax, nn

import mobilenet_weights

BATCH, STEPS = 64, 10
RATE, MOMENTUM = 1e-4, 0.9  # at 1e-3 rounding alone is 3e-4 after ten steps

DESCRIPTION = {
    "model": "conv2d 16 3x3, five blocks of a depthwise 3x3 and a conv2d of kernel 1, batch normalisation and relu after each, mean, dense 10; image / 255",
    "loss_is": "mean over the batch of sparse categorical crossentropy from logits, before the update of that step",
    "optimizer": "sgd, learning_rate 1e-4, momentum 0.9, as Keras 3",
    "examples": "Fashion-MNIST training set in file order, no shuffle: step i (from 0) takes rows [64 i, 64 (i + 1))",
    "weights": "mobilenet_weights.py",
}


def around(extent, stride):
    total = max((-(-extent // stride) - 1) * stride + 3 - extent, 0)
    return total // 2, total - total // 2


def depthwise(x, kernel, stride):
    n = x.shape[1]
    padded = jnp.pad(x, ((0, 0), around(n, stride), around(n, stride), (0, 0)))
    last = (-(-n // stride) - 1) * stride + 1
    return sum(padded[:, i : i + last : stride, j : j + last : stride] * kernel[i, j, :, 0] for i in range(3) for j in range(3))


def normalised(p, path, x):
    mean = x.mean((0, 1, 2))
    variance = ((x - mean) ** 2).mean((0, 1, 2))
    return nn.relu((x - mean) / jnp.sqrt(variance + 1e-3) * p[path + "/gamma"] + p[path + "/beta"])


def mobilenet(p, x):
    x = lax.conv_general_dilated(x, p["MobileNet/conv2d/kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x = normalised(p, "MobileNet/batch_norm", x)
    for i, (_, stride) in enumerate(mobilenet_weights.BLOCKS):
        path = f"MobileNet/block_{i}" if i > 0 else "MobileNet/block"
        x = normalised(p, path + "/batch_norm", depthwise(x, p[path + "/depthwise_conv2d/kernel"], stride))
        x = normalised(p, path + "/batch_norm_1", x @ p[path + "/conv2d/kernel"][0, 0])
    return x.mean((1, 2)) @ p["MobileNet/dense/kernel"] + p["MobileNet/dense/bias"]


def sgd(p, g, slots, t):
    velocity = MOMENTUM * slots[0] - RATE * g
    return p + velocity, (velocity, slots[1])


if __name__ == "__main__":
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mobilenet_curve.json")
    curve.write(path, DESCRIPTION, mobilenet, sgd, mobilenet_weights.weights(), BATCH, STEPS)
