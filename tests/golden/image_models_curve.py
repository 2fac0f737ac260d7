"""image_models_curve: makes image_models_curve.json, the losses of the first steps of examples/vit.dt and examples/infonce.dt, without dropout, by PyTorch.

    bench/peers/.venv/bin/python tests/golden/image_models_curve.py        a few seconds

Weights and batches are those of image_models.py; all is computed in f64, from weights that are exact in f32.
"""

import json
import math
import os
import platform

import glorot
import image_models
import torch
from image_models import BATCH, INFONCE, STEPS, VIT
from torch.nn import functional

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "image_models_curve.json")


def dense(p, path, x):
    return x @ p[f"{path}/kernel"] + p[f"{path}/bias"]


def layer_norm(p, path, x):
    return functional.layer_norm(x, x.shape[-1:], p[f"{path}/gamma"], p[f"{path}/beta"], eps=1e-3)


def attention(p, path, x):
    heads = VIT["heads"]
    query, key, value = (dense(p, f"{path}/{name}", x).unflatten(2, (heads, -1)).transpose(1, 2) for name in ("query", "key", "value"))
    y = functional.scaled_dot_product_attention(query, key, value)
    return dense(p, f"{path}/output", y.transpose(1, 2).flatten(2))


def vit(p, image):
    size = VIT["patch"]
    x = functional.unfold(image[:, None] / 255, size, stride=size).transpose(1, 2)
    x = dense(p, "Vit/dense", x)
    x = torch.cat([p["Vit/class"].expand(len(x), 1, -1), x], dim=1) + p["Vit/position"]
    for i in range(VIT["layers"]):
        path = f"Vit/block{image_models.suffix(i)}"
        x = x + attention(p, f"{path}/multi_head_attention", layer_norm(p, f"{path}/layer_norm", x))
        x = x + dense(p, f"{path}/dense_1", functional.gelu(dense(p, f"{path}/dense", layer_norm(p, f"{path}/layer_norm_1", x))))
    return dense(p, "Vit/dense_1", layer_norm(p, "Vit/layer_norm", x[:, 0]))


def encoder(p, image):
    x = image[:, None] / 255
    for path in ("Encoder/conv2d", "Encoder/conv2d_1"):
        kernel = p[f"{path}/kernel"].permute(3, 2, 0, 1)
        x = functional.max_pool2d(functional.relu(functional.conv2d(x, kernel, p[f"{path}/bias"])), 2)
    x = functional.relu(dense(p, "Encoder/dense", x.permute(0, 2, 3, 1).flatten(1)))
    z = dense(p, "Encoder/dense_1", x)
    return z * (z.square().sum(1, keepdim=True) + 1e-12).rsqrt()


def vit_loss(p, image, label):
    return functional.cross_entropy(vit(p, image), label.long())


def infonce_loss(p, a, b):
    logits = encoder(p, a) @ encoder(p, b).T / INFONCE["temperature"]
    own = torch.arange(len(a))
    return (functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)) / 2


def pace(count):
    """Of vit.dt: half a cosine over all steps, with a warm-up over half of them."""
    return 1e-3 * 0.5 * (1 + math.cos(math.pi * count / STEPS)) * min((count + 1) / (STEPS // 2), 1)


def train(model, loss_of, rate_of, decay):
    p = {path: torch.tensor(array, dtype=torch.float64, requires_grad=True) for path, array in image_models.weights(model).items()}
    slots = {path: (torch.zeros_like(t), torch.zeros_like(t)) for path, t in p.items()}
    inputs = [torch.tensor(array, dtype=torch.float64) for array in image_models.inputs(model).values()]
    losses = []
    for step in range(STEPS):
        loss = loss_of(p, *(x[step * BATCH : (step + 1) * BATCH] for x in inputs))
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(p.values()))
        rate = rate_of(step)
        with torch.no_grad():
            for (path, t), g in zip(p.items(), gradients):
                m, v = slots[path]
                m += (g - m) * (1 - 0.9)
                v += (g * g - v) * (1 - 0.999)
                if t.ndim > 1:
                    t -= rate * decay * t
                t -= rate * math.sqrt(1 - 0.999 ** (step + 1)) / (1 - 0.9 ** (step + 1)) * m / (v.sqrt() + 1e-7)
    return losses


if __name__ == "__main__":
    curves = {
        "Vit": {"program": "vit", "options": {**VIT, "rate": 0}, "loss_f64": train("Vit", vit_loss, pace, 0.05)},
        "Encoder": {"program": "infonce", "options": INFONCE, "loss_f64": train("Encoder", infonce_loss, lambda step: 1e-3, 0.0)},
    }
    for model, curve in curves.items():
        curve["weights_sha256"] = glorot.digest(image_models.weights(model))
    with open(PATH, "w") as file:
        json.dump({"made_with": {"torch": torch.__version__, "python": platform.python_version()}, "curves": curves}, file, indent=1)
        file.write("\n")
