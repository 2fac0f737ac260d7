"""lstm_weights: writes the initial weights of the LSTM of recurrent_curve. Needs NumPy and safetensors only.

    python3 tests/golden/lstm_weights.py FILE.safetensors       prints their SHA-256, "weights_sha256" in lstm_curve.json
"""

import glorot

SEED = 20250613
SHAPES = {
    "Rows/lstm/dense/kernel": (28, 512),
    "Rows/lstm/dense/bias": (512,),
    "Rows/lstm/dense_1/kernel": (128, 512),
    "Rows/dense/kernel": (128, 10),
    "Rows/dense/bias": (10,),
}


def weights():
    return glorot.initial_weights(SHAPES, SEED)


if __name__ == "__main__":
    glorot.main(weights())
