"""scan: makes scan/, what PyTorch's LSTM and GRU compute over 28 steps, and three updates of their weights.

    PYTHON tests/golden/scan.py             a few seconds; PYTHON has torch, NumPy and safetensors

PyTorch computes in f64 from inputs and weights that are exact in f32. A file holds x [rows, steps, inputs], the target t [rows, hidden], the weights in
PyTorch's layout before training and after three steps of plain gradient descent (`before.NAME`, `after.NAME`), the output of each step before training,
`hidden`, and the loss of each update, mean over rows and units of (last hidden - t)².
"""

import os

import numpy as np
import torch
from safetensors.numpy import save_file

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scan")
ROWS, STEPS, INPUTS, HIDDEN = 6, 28, 5, 7
LEARNING_RATE, UPDATES = 0.5, 3


def drawn(random, *shape, scale=1.0):
    return torch.tensor((random.standard_normal(shape) * scale).astype(np.float32).astype(np.float64))


def make(name, kind, seed):
    random = np.random.RandomState(seed)
    x, t = drawn(random, ROWS, STEPS, INPUTS), drawn(random, ROWS, HIDDEN)
    module = kind(INPUTS, HIDDEN, batch_first=True).double()
    tensors = {"x": x, "t": t}
    for path, weight in module.named_parameters():
        weight.data = drawn(random, *weight.shape, scale=0.4)
        tensors[f"before.{path}"] = weight.data.clone()
    losses = []
    for update in range(UPDATES):
        hidden, _ = module(x)
        if update == 0:
            tensors["hidden"] = hidden.detach()
        loss = ((hidden[:, -1] - t) ** 2).mean()
        losses.append(loss.item())
        module.zero_grad()
        loss.backward()
        for weight in module.parameters():
            weight.data -= LEARNING_RATE * weight.grad
    for path, weight in module.named_parameters():
        tensors[f"after.{path}"] = weight.data
    tensors["losses"] = torch.tensor(losses)
    save_file({path: np.ascontiguousarray(value.numpy().astype(np.float32)) for path, value in tensors.items()}, os.path.join(FOLDER, f"{name}.safetensors"))


os.makedirs(FOLDER, exist_ok=True)
make("lstm", torch.nn.LSTM, 20250611)
make("gru", torch.nn.GRU, 20250612)
