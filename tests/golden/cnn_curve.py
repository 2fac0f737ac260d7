"""cnn_curve: makes cnn_curve.json, the losses of the first 100 steps of the CNN of examples/fashion_cnn.dt without dropout.

    bench/peers/.venv/bin/python tests/golden/cnn_curve.py        about two minutes
"""

import os

import curve
import jax.numpy as jnp
from jax import lax, nn

import cnn_weights

BATCH = 128
RATE, BETA_1, BETA_2, EPSILON = 1e-3, 0.9, 0.999, 1e-7

DESCRIPTION = {
    "model": "conv2d 64 3x3 relu, max_pool2d 2, conv2d 128 3x3 relu, max_pool2d 2, flatten, dense 10; image / 255; no dropout",
    "loss_is": "mean over the batch of sparse categorical crossentropy from logits, before the update of that step",
    "optimizer": "adam, learning_rate 1e-3, beta_1 0.9, beta_2 0.999, epsilon 1e-7 added to sqrt(v), as Keras 3",
    "examples": "Fashion-MNIST training set in file order, no shuffle: step i (from 0) takes rows [128 i, 128 (i + 1))",
    "weights": "cnn_weights.py",
}


def conv2d(x, kernel, bias):
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias


def max_pool2d(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def cnn(p, x):
    x = max_pool2d(nn.relu(conv2d(x, p["Cnn/conv2d/kernel"], p["Cnn/conv2d/bias"])))
    x = max_pool2d(nn.relu(conv2d(x, p["Cnn/conv2d_1/kernel"], p["Cnn/conv2d_1/bias"])))
    return x.reshape(x.shape[0], -1) @ p["Cnn/dense/kernel"] + p["Cnn/dense/bias"]


def adam(p, g, slots, t):
    m, v = slots
    m = m + (g - m) * (1 - BETA_1)
    v = v + (g * g - v) * (1 - BETA_2)
    alpha = RATE * jnp.sqrt(1 - BETA_2**t) / (1 - BETA_1**t)
    return p - alpha * m / (jnp.sqrt(v) + EPSILON), (m, v)


if __name__ == "__main__":
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cnn_curve.json")
    curve.write(path, DESCRIPTION, cnn, adam, cnn_weights.weights(), BATCH)
