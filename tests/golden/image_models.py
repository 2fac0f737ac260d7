"""image_models: initial weights and batches of examples/vit.dt and examples/infonce.dt, which any machine with NumPy makes again to the bit.

All numbers come from NumPy's RandomState, which is frozen for good. Images are noise around a picture for each class, so that there is something to learn.
"""

import glorot
import numpy as np

BATCH, STEPS, SEED = 16, 10, 5
VIT = {"patch": 7, "width": 32, "layers": 2, "heads": 2}  # the options of the program
INFONCE = {"width": 16, "temperature": 0.2}


def suffix(i):
    return f"_{i}" if i else ""


def vit_shapes():
    width, words = VIT["width"], (28 // VIT["patch"]) ** 2 + 1
    shapes = {"class": (1, width), "position": (words, width), "dense/kernel": (VIT["patch"] ** 2, width), "dense/bias": (width,)}
    for i in range(VIT["layers"]):
        block = f"block{suffix(i)}"
        for name in ("query", "key", "value", "output"):
            shapes |= {f"{block}/multi_head_attention/{name}/kernel": (width, width), f"{block}/multi_head_attention/{name}/bias": (width,)}
        shapes |= {f"{block}/dense/kernel": (width, 2 * width), f"{block}/dense/bias": (2 * width,)}
        shapes |= {f"{block}/dense_1/kernel": (2 * width, width), f"{block}/dense_1/bias": (width,)}
        shapes |= {f"{block}/layer_norm{suffix(j)}/{name}": (width,) for j in range(2) for name in ("gamma", "beta")}
    return shapes | {"layer_norm/gamma": (width,), "layer_norm/beta": (width,), "dense_1/kernel": (width, 10), "dense_1/bias": (10,)}


def infonce_shapes():
    layers = {"conv2d": (3, 3, 1, 32), "conv2d_1": (3, 3, 32, 64), "dense": (5 * 5 * 64, 128), "dense_1": (128, INFONCE["width"])}
    return {f"{path}/{name}": shape if name == "kernel" else shape[-1:] for path, shape in layers.items() for name in ("kernel", "bias")}


def weights(model):
    """{path: f32 array}; no bias is 0, so that a forgotten one is seen."""
    random = np.random.RandomState(SEED)
    found = {}
    for path, shape in (vit_shapes() if model == "Vit" else infonce_shapes()).items():
        drawn = glorot.glorot_uniform(random, shape) if path.endswith("kernel") else (0.1 * random.standard_normal(shape)).astype(np.float32)
        found[f"{model}/{path}"] = drawn + np.float32(1) if path.endswith("gamma") else drawn
    return found


def images(random, label):
    pictures = random.randint(0, 200, (10, 28, 28))
    return (pictures[label] + random.randint(0, 56, (len(label), 28, 28))).astype(np.uint8)


def inputs(model):
    """The inputs of the training step by name, of all steps one after the other."""
    random = np.random.RandomState(SEED + 1)
    label = random.randint(0, 10, BATCH * STEPS).astype(np.uint8)
    if model == "Vit":
        return {"image": images(random, label), "label": label}
    one = images(random, label)
    return {"a": one, "b": np.clip(one + random.randint(-20, 21, one.shape), 0, 255).astype(np.uint8)}
