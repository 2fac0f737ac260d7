"""mixed: makes mixed/, what Keras's policies mixed_bfloat16 and mixed_float16 compute: a small network, and six updates of its weights.

    bench/peers/.venv/bin/python tests/golden/mixed.py             half a minute

Keras runs on PyTorch, which rounds the result of every operation. A file holds the inputs and labels, the weights by their paths in tests/e2e/mixed.py before
and after each update (`weights/PATH` [7, …]), the logits before each of them and their loss, and of mixed_float16 the scale of the loss after each: it
begins where gradients overflow, so that the first updates do not happen.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch
from safetensors.numpy import save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mixed")
ROWS, UPDATES = 8, 6
PATHS = {
    "conv/kernel": "Net/conv2d/kernel",
    "conv/bias": "Net/conv2d/bias",
    "batch/gamma": "Net/batch_norm/gamma",
    "batch/beta": "Net/batch_norm/beta",
    "batch/moving_mean": "Net/batch_norm/moving_mean",
    "batch/moving_variance": "Net/batch_norm/moving_variance",
    "hidden/kernel": "Net/dense/kernel",
    "hidden/bias": "Net/dense/bias",
    "layer/gamma": "Net/layer_norm/gamma",
    "layer/beta": "Net/layer_norm/beta",
    "head/kernel": "Net/dense_1/kernel",
    "head/bias": "Net/dense_1/bias",
}


def make(name, policy, loudness):
    """loudness: of what the last layer is given; its square divides the rate."""
    random = np.random.RandomState(20250613)
    keras.config.set_dtype_policy(policy)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(3, 3, activation="relu", name="conv"),
            layers.BatchNormalization(name="batch"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(16, activation="relu", name="hidden"),
            layers.LayerNormalization(name="layer"),
            layers.Dense(4, name="head"),
        ]
    )
    weights = {PATHS["/".join(v.path.split("/")[-2:])]: v for v in model.weights}
    assert sorted(weights) == sorted(PATHS.values())
    for path, v in weights.items():
        drawn = random.standard_normal(v.shape) * 0.3
        drawn = np.abs(drawn) + 0.5 if path.endswith(("gamma", "variance")) else drawn
        v.assign(drawn * loudness if path == "Net/layer_norm/gamma" else drawn)
    x = random.standard_normal((ROWS, 6, 6, 2)).astype(np.float32)
    label = random.randint(0, 4, ROWS).astype(np.int32)
    optimizer = keras.optimizers.SGD(0.1 / loudness**2)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = {path: [v.numpy().copy()] for path, v in weights.items()}
    logits, losses, scales = [], [], []
    for _ in range(UPDATES):
        y = model(x, training=True)
        loss = criterion(label, y)
        model.zero_grad()
        optimizer.scale_loss(loss).backward()
        with torch.no_grad():
            optimizer.apply([v.value.grad for v in model.trainable_variables], model.trainable_variables)
        logits.append(y.detach().float().numpy())
        losses.append(loss.item())
        scales.append(float(optimizer.dynamic_scale.numpy()) if policy == "mixed_float16" else 1.0)
        for path, v in weights.items():
            found[path].append(v.numpy().copy())
    tensors = {f"weights/{path}": np.stack(v).astype(np.float32) for path, v in found.items()}
    tensors |= {"image": x, "label": label, "logits": np.stack(logits), "losses": np.float32(losses), "scales": np.float32(scales)}
    os.makedirs(FOLDER, exist_ok=True)
    save_file({path: np.ascontiguousarray(t) for path, t in tensors.items()}, os.path.join(FOLDER, name + ".safetensors"))
    print(name, losses, scales)


make("mixed_bf16", "mixed_bfloat16", 1.0)
make("mixed_f16", "mixed_float16", 12.0)
