"""mobilenet_weights: writes the initial weights of mobilenet_curve, moving statistics among them. Needs NumPy and safetensors only.

    python3 tests/golden/mobilenet_weights.py FILE.safetensors        prints their SHA-256, "weights_sha256" in mobilenet_curve.json
"""

import glorot
import numpy as np

SEED = 3
BLOCKS = [(32, 1), (64, 2), (64, 1), (128, 2), (128, 1)]  # filters and stride of each


def normalisation(path, channels):
    return {f"{path}/{name}": (channels,) for name in ("moving_mean", "moving_variance", "gamma", "beta")}


def shapes():
    channels = 16
    found = {"MobileNet/conv2d/kernel": (3, 3, 1, channels)} | normalisation("MobileNet/batch_norm", channels)
    for i, (filters, _) in enumerate(BLOCKS):
        path = f"MobileNet/block_{i}" if i > 0 else "MobileNet/block"
        found |= {f"{path}/depthwise_conv2d/kernel": (3, 3, channels, 1)} | normalisation(f"{path}/batch_norm", channels)
        found |= {f"{path}/conv2d/kernel": (1, 1, channels, filters)} | normalisation(f"{path}/batch_norm_1", filters)
        channels = filters
    return found | {"MobileNet/dense/kernel": (channels, 10), "MobileNet/dense/bias": (10,)}


def weights():
    found = glorot.initial_weights(shapes(), SEED)
    return {path: w + np.float32(path.endswith(("gamma", "moving_variance"))) for path, w in found.items()}


if __name__ == "__main__":
    glorot.main(weights())
