"""edges: makes edges.json, values and gradients of activations and losses where formulas break: at 0, where one piece of a function meets the next, and where
exponentials overflow.

    bench/peers/.venv/bin/python tests/golden/edges.py

PyTorch in f64. Left out is what is convention alone: the slope where two pieces meet in a corner (relu6 at 6, hard_tanh at 1).
"""

import json
import os

import torch
from torch.nn import functional as F

SMOOTH = [0.0, -0.0, 1e-30, -1e-30, 1e-6, -1e-6, 3.0, -3.0, 17.0, -17.0, 100.0, -100.0, 1e4, -1e4]
HALF = torch.tensor(0.3, dtype=torch.float64)

# name in the library, its arguments, PyTorch's, points besides SMOOTH
FUNCTIONS = [
    ("relu", {}, F.relu),
    ("relu6", {}, F.relu6),
    ("gelu", {}, F.gelu),
    ("gelu", {"approximate": True}, lambda x: F.gelu(x, approximate="tanh")),
    ("silu", {}, F.silu),
    ("softplus", {}, F.softplus),
    ("log_sigmoid", {}, F.logsigmoid),
    ("mish", {}, F.mish),
    ("leaky_relu", {"slope": 0.3}, lambda x: F.leaky_relu(x, 0.3)),
    ("elu", {}, F.elu),
    ("elu", {"alpha": 0.5}, lambda x: F.elu(x, 0.5)),
    ("celu", {}, F.celu),
    ("celu", {"alpha": 0.5}, lambda x: F.celu(x, 0.5)),
    ("selu", {}, F.selu),
    ("softsign", {}, F.softsign),
    ("hard_silu", {}, F.hardswish),
    ("hard_sigmoid", {}, F.hardsigmoid),
    ("hard_tanh", {}, F.hardtanh),
    ("tanh_shrink", {}, F.tanhshrink),
    ("soft_shrink", {}, F.softshrink),
    ("hard_shrink", {}, F.hardshrink),
]
CORNERS = {"hard_silu": 3, "hard_sigmoid": 3}  # of both signs

LOSSES = [
    *((f"sigmoid_crossentropy({t}, x)", lambda x, t=t: F.binary_cross_entropy_with_logits(x, torch.full_like(x, t), reduction="none")) for t in (0, 1, 0.25)),
    ("huber(zeros_like(x), x)", lambda x: F.huber_loss(x, torch.zeros_like(x), reduction="none")),
    ("mean_absolute_error(zeros_like(x), x)", lambda x: F.l1_loss(x, torch.zeros_like(x), reduction="none")),
    ("mean_squared_error(zeros_like(x), x)", lambda x: F.mse_loss(x, torch.zeros_like(x), reduction="none")),
    ("log_cosh(zeros_like(x), x)", lambda x: x + F.softplus(-2 * x) - torch.log(torch.tensor(2.0, dtype=torch.float64))),
]


def row(call, f, points):
    x = torch.tensor(points, dtype=torch.float64, requires_grad=True)
    y = f(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert torch.isfinite(y).all() and torch.isfinite(slope).all(), call
    return {"call": call, "x": points, "y": y.tolist(), "gradient": slope.tolist()}


def main():
    rows = []
    for name, arguments, f in FUNCTIONS:
        text = "".join(f", {key}: {str(value).lower()}" for key, value in arguments.items())
        rows.append(row(f"{name}(x{text})", f, [x for x in SMOOTH if abs(x) != CORNERS.get(name)]))
    rows += [row(call, f, SMOOTH) for call, f in LOSSES]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "edges.json")
    with open(path, "w") as file:
        json.dump({"made_by": f"edges.py, PyTorch {torch.__version__}", "rows": rows}, file, indent=1)
        file.write("\n")


main()
