"""recurrent_curve: makes lstm_curve.json and gru_curve.json, the losses of the first 100 steps of examples/lstm.dt and gru.dt.

    bench/peers/.venv/bin/python tests/golden/recurrent_curve.py        about two minutes
"""

import os

import curve
import jax.numpy as jnp
from jax import lax, nn

import gru_weights
import lstm_weights
from cnn_curve import adam

BATCH = 64
DESCRIPTION = {
    "loss_is": "mean over the batch of sparse categorical crossentropy from logits, before the update of that step",
    "optimizer": "adam, learning_rate 1e-3, beta_1 0.9, beta_2 0.999, epsilon 1e-7 added to sqrt(v), as Keras 3",
    "examples": "Fashion-MNIST training set in file order, no shuffle: step i (from 0) takes rows [64 i, 64 (i + 1))",
}


def dense(p, path, x):
    return x @ p[f"{path}/kernel"] + p.get(f"{path}/bias", 0)


def sequence(x):
    """[28, batch, 28]: the rows of the images, from the top."""
    return jnp.transpose(x[..., 0], (1, 0, 2))


def lstm(p, x):
    def cell(state, row):
        forget, add, candidate, say = jnp.split(dense(p, "Rows/lstm/dense", row) + dense(p, "Rows/lstm/dense_1", state[0]), 4, axis=1)
        memory = nn.sigmoid(forget) * state[1] + nn.sigmoid(add) * jnp.tanh(candidate)
        return (nn.sigmoid(say) * jnp.tanh(memory), memory), None

    zero = jnp.zeros((x.shape[0], 128), x.dtype)
    return dense(p, "Rows/dense", lax.scan(cell, (zero, zero), sequence(x))[0][0])


def gru(p, x):
    def walk(path, reverse):
        def cell(hidden, row):
            of_row = jnp.split(dense(p, f"{path}/dense", row), 3, axis=1)
            of_hidden = jnp.split(dense(p, f"{path}/dense_1", hidden), 3, axis=1)
            update = nn.sigmoid(of_row[0] + of_hidden[0])
            candidate = jnp.tanh(of_row[1] + nn.sigmoid(of_row[2] + of_hidden[2]) * of_hidden[1])
            hidden = update * hidden + (1 - update) * candidate
            return hidden, hidden

        return lax.scan(cell, jnp.zeros((x.shape[0], 64), x.dtype), sequence(x), reverse=reverse)[1].mean(axis=0)

    return dense(p, "Rows/dense", jnp.concatenate([walk("Rows/gru", False), walk("Rows/gru_1", True)], axis=1))


if __name__ == "__main__":
    for name, model, weights, about in (
        ("lstm", lstm, lstm_weights, "LSTM of 128 units over the rows, dense 10 of its last output; image / 255"),
        ("gru", gru, gru_weights, "GRUs of 64 units over the rows from the top and from the bottom, dense 10 of the mean of their outputs; image / 255"),
    ):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}_curve.json")
        curve.write(path, {"model": about, **DESCRIPTION, "weights": f"{name}_weights.py"}, model, adam, weights.weights(), BATCH)
