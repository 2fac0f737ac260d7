"""transformers_curve: makes NAME_curve.json, the losses of the first steps of the twins in tests/twins, for the names given, by default all.

    bench/peers/.venv/bin/python tests/golden/transformers_curve.py [bert gpt bert_full gpt_full]      seconds; minutes for the full ones

As the other curves (README.md), in f32 and in f64 from the same f32 weights.
"""

import json
import os
import platform
import sys

import glorot
import numpy as np
import torch
import transformers
from transformers_torch import Training

DESCRIPTION = {
    "bert_mlm": "loss is the weighted mean before the update of that step; rate falls from 1e-4 to 0 over `steps`",
    "gpt": "loss is the mean before the update of that step; rate warms up over 100 steps to a cosine over `steps`",
}


def losses(name, dtype):
    sizes, given = transformers.SIZES[name], transformers.batches(name)
    training = Training(sizes, transformers.weights(name), sizes["steps"], dtype)
    curve = []
    for i in range(sizes["steps"]):
        rows = slice(i * sizes["batch"], (i + 1) * sizes["batch"])
        batch = {n: torch.from_numpy(a[rows].astype(np.int64) if a.dtype == np.int32 else a[rows]) for n, a in given.items()}
        loss = training.step({n: a.to(dtype) if a.is_floating_point() else a for n, a in batch.items()})
        curve.append(float(f"{loss:.9g}"))
    return curve


def write(name):
    sizes = transformers.SIZES[name]
    f32, f64 = losses(name, torch.float32), losses(name, torch.float64)
    golden = {
        "model": f"tests/twins/{sizes['program']}.dt, -D rate=0",
        "loss_is": DESCRIPTION[sizes["program"]],
        **sizes,
        "made_with": {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__},
        "weights_sha256": glorot.digest(transformers.weights(name)),
        "loss": f32,
        "loss_f64": f64,
    }
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"{name}_curve.json")
    with open(path, "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")
    apart = [abs(a - b) / b for a, b in zip(f32, f64)]
    print(f"{path}: loss {f32[0]:.6f} .. {f32[-1]:.6f}; f32 from f64, relative, at most", end=" ")
    print(", ".join(f"{max(apart[:n]):.1e} over {n}" for n in (1, 10, sizes["steps"])), flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or transformers.SIZES:
        write(name)
