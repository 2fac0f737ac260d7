"""perceptron_precision_curve: perceptron_tf32_curve.json and perceptron_bf16_curve.json, the training of perceptron_curve.py with the factors of
all products, forwards and backwards, rounded to tf32 or bf16 and added up as before.

    bench/peers/.venv/bin/python tests/golden/perceptron_precision_curve.py        a few seconds

What JAX's own precision of a product means depends on the device, and on CPUs it means nothing: so the rounding is written out here, as arithmetic.
"""

import functools
import os

import curve
import jax
import jax.numpy as jnp
from jax import nn

import perceptron_curve
import perceptron_weights


def to_tf32(x):
    """To nearest with 10 bits behind the point, ties away from 0."""
    fraction, exponent = jnp.frexp(x)  # x = fraction * 2**exponent, 0.5 <= |fraction| < 1
    return jnp.ldexp(jnp.sign(x) * jnp.floor(jnp.abs(fraction) * 2048 + 0.5), exponent - 11).astype(x.dtype)


def to_bf16(x):
    """To nearest, ties to even."""
    return x.astype(jnp.bfloat16).astype(x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def product(rounded, a, b):
    return rounded(a) @ rounded(b)


def product_forwards(rounded, a, b):
    return product(rounded, a, b), (a, b)


def product_backwards(rounded, saved, g):
    a, b = saved
    return rounded(g) @ rounded(b).T, rounded(a).T @ rounded(g)


product.defvjp(product_forwards, product_backwards)


def perceptron(rounded, p, x):
    x = x.reshape(x.shape[0], -1)
    x = nn.relu(product(rounded, x, p["Mlp/dense/kernel"]) + p["Mlp/dense/bias"])
    return product(rounded, x, p["Mlp/dense_1/kernel"]) + p["Mlp/dense_1/bias"]


if __name__ == "__main__":
    for name, rounded in (("tf32", to_tf32), ("bf16", to_bf16)):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"perceptron_{name}_curve.json")
        description = {**perceptron_curve.DESCRIPTION, "precision": f"both factors of each product rounded to {name}"}
        curve.write(path, description, functools.partial(perceptron, rounded), perceptron_curve.sgd, perceptron_weights.weights(), perceptron_curve.BATCH)
