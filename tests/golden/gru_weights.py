"""gru_weights: writes the initial weights of the GRUs of recurrent_curve. Needs NumPy and safetensors only.

    python3 tests/golden/gru_weights.py FILE.safetensors        prints their SHA-256, "weights_sha256" in gru_curve.json
"""

import glorot

SEED = 20250614
SHAPES = {
    **{f"Rows/{cell}/dense{suffix}/kernel": (n, 192) for cell in ("gru", "gru_1") for suffix, n in (("", 28), ("_1", 64))},
    **{f"Rows/{cell}/dense{suffix}/bias": (192,) for cell in ("gru", "gru_1") for suffix in ("", "_1")},
    "Rows/dense/kernel": (128, 10),
    "Rows/dense/bias": (10,),
}


def weights():
    return glorot.initial_weights(SHAPES, SEED)


if __name__ == "__main__":
    glorot.main(weights())
