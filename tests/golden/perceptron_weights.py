"""perceptron_weights: writes the initial weights of perceptron_curve. Needs NumPy and safetensors only.

    python3 tests/golden/perceptron_weights.py FILE.safetensors     prints their SHA-256, "weights_sha256" in perceptron_curve.json
"""

import glorot

SEED = 20240616
SHAPES = {
    "Mlp/dense/kernel": (784, 128),
    "Mlp/dense/bias": (128,),
    "Mlp/dense_1/kernel": (128, 10),
    "Mlp/dense_1/bias": (10,),
}


def weights():
    return glorot.initial_weights(SHAPES, SEED)


if __name__ == "__main__":
    glorot.main(weights())
