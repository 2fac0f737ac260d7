"""perceptron_curve: makes perceptron_curve.json, the losses of the first 100 steps of a perceptron 784-128-10.

    bench/peers/.venv/bin/python tests/golden/perceptron_curve.py        a few seconds
"""

import os

import curve
from jax import nn

import perceptron_weights

BATCH = 32
RATE, MOMENTUM = 0.05, 0.9

DESCRIPTION = {
    "model": "flatten, dense 128 relu, dense 10; image / 255",
    "loss_is": "mean over the batch of sparse categorical crossentropy from logits, before the update of that step",
    "optimizer": "sgd, learning_rate 0.05, momentum 0.9, not nesterov, as Keras 3: v = 0.9 v - 0.05 g; p = p + v",
    "examples": "Fashion-MNIST training set in file order, no shuffle: step i (from 0) takes rows [32 i, 32 (i + 1))",
    "weights": "perceptron_weights.py",
}


def perceptron(p, x):
    x = x.reshape(x.shape[0], -1)
    x = nn.relu(x @ p["Mlp/dense/kernel"] + p["Mlp/dense/bias"])
    return x @ p["Mlp/dense_1/kernel"] + p["Mlp/dense_1/bias"]


def sgd(p, g, slots, t):
    v = MOMENTUM * slots[0] - RATE * g
    return p + v, (v, slots[1])


if __name__ == "__main__":
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "perceptron_curve.json")
    curve.write(path, DESCRIPTION, perceptron, sgd, perceptron_weights.weights(), BATCH)
