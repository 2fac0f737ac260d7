"""transformers_epochs: trains the twin of an example in PyTorch on the batches of its epochs, and says what the example's own validation reports.

    bench/peers/.venv/bin/python tests/golden/transformers_epochs.py gpt WEIGHTS.safetensors TRAIN VALIDATION

WEIGHTS are the program's initial ones (`dtrun train --max-steps 0`), TRAIN and VALIDATION folders of `dtrun data`: the batches of all epochs one after the
other, and those of the validation. With dropout, and for BERT with masks of its own, so results agree as two runs with other random numbers do.
"""

import math
import os
import sys

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file
from torch.nn import functional as F
from transformers_torch import AdamW, Training, masked_lm, polynomial_decay

VOCABULARY, MASK, KEPT = transformers.VOCABULARY, 103, (0, 101, 102)
RATE = 0.1
PREDICTIONS = 20


def masked(token, random):
    """As mask_tokens of the library: 15 % of the tokens, at most PREDICTIONS: 80 % become [MASK], 10 % a random token, 10 % stay."""
    given, position = token.copy(), np.zeros((len(token), PREDICTIONS), np.int64)
    weight = np.zeros(position.shape, np.float32)
    for row, (old, new) in enumerate(zip(token, given)):
        candidates = np.flatnonzero(~np.isin(old, KEPT))
        picked = random.permutation(candidates)[: min(round(0.15 * len(candidates)), PREDICTIONS)]
        choice = random.random(len(picked))
        new[picked] = np.where(choice < 0.8, MASK, np.where(choice < 0.9, random.integers(VOCABULARY, size=len(picked)), old[picked]))
        position[row, : len(picked)], weight[row, : len(picked)] = picked, 1
    return {"masked": given, "position": position, "label": np.take_along_axis(token, position, 1), "weight": weight}


class EpochTraining(Training):
    """The same in less time: without predictions of weight 0, which are most, and what is padding in all rows."""

    def loss(self, batch):
        if not self.is_bert:
            return super().loss(batch)
        counted = batch["weight"] > 0
        longest = int((batch["masked"] != 0).sum(1).max())
        logits = masked_lm(self.p, batch["masked"][:, :longest], batch["position"], self.sizes["layers"], self.sizes["heads"], self.rate, counted)
        total = F.cross_entropy(logits, batch["label"][counted], reduction="sum")
        return total / counted.numel(), total / counted.sum()


def batches(folder, random):
    name = "token" if os.path.exists(os.path.join(folder, "token.npy")) else "text"
    rows, first = np.load(os.path.join(folder, f"{name}.npy")), 0
    for n in np.load(os.path.join(folder, "batch-rows.npy")):
        batch = masked(rows[first : first + n].astype(np.int64), random) if name == "token" else {"text": rows[first : first + n]}
        yield {column: torch.from_numpy(array) for column, array in batch.items()}
        first += n


def main():
    name, weights, train, validation = sys.argv[1:]
    sizes = transformers.SIZES[f"{name}_full"]
    random = np.random.default_rng(0)
    given = list(batches(train, random))
    training = EpochTraining(sizes, load_file(weights), len(given), rate=RATE)
    if name == "bert":
        training.optimizer = AdamW(training.trained, polynomial_decay(2e-4, len(given)), 0.004)
    for i, batch in enumerate(given):
        loss = training.step(batch)
        if i % 50 == 0:
            print(f"step {i + 1} of {len(given)}: loss {loss:.4f}", flush=True)
    training.rate = total = n = 0
    with torch.no_grad():
        for batch in batches(validation, random):
            weight = batch["weight"].sum().item() if name == "bert" else len(batch["text"])
            total, n = total + training.loss(batch)[1].item() * weight, n + weight
    print(f"validation: loss {total / n:.4f}, {total / n / math.log(2):.4f} bits")


if __name__ == "__main__":
    main()
