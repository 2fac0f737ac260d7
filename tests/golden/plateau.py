"""What PyTorch's ReduceLROnPlateau makes of sequences of a metric: `plateau.py > plateau.txt`.

A case is a line with its settings, then a line for each epoch: the metric, and the rate after it, which begins at 1.
"""
import random

import torch

print("# made by plateau.py with PyTorch", torch.__version__)
numbers = random.Random(1)
for mode, factor, patience, least, cooldown, threshold in (
    ("min", 0.1, 2, 1e-6, 0, 1e-4),
    ("max", 0.5, 0, 0.01, 0, 1e-2),
    ("min", 0.3, 1, 0.0, 3, 1e-1),
    ("max", 0.7, 3, 0.2, 1, 0.0),
    ("min", 0.5, 10, 0.0, 0, 1e-4),
):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, factor, patience, threshold, "rel", cooldown, least)
    print("case", mode, factor, patience, least, cooldown, threshold)
    value = 1.0
    for epoch in range(60):
        value += numbers.uniform(-0.1, 0.08) * (1 if mode == "min" else -1) * (epoch < 25)
        metric = float("nan") if epoch == 5 else round(value + numbers.uniform(0, 0.02), 4)
        schedule.step(metric)
        print(metric, optimizer.param_groups[0]["lr"])
