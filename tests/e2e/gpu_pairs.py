"""Losses over all pairs of the global batch on GPUs: rows of all replicas are gathered, what they leave is summed and scattered, on one GPU and on several;
by the fake driver (tests/support/fake_cuda.h).

Curves near the CPU's; the bits of one GPU on two and three, in any order of what runs at once, with a short last batch that leaves replicas without a row."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403

PROGRAM = """
use nn, optimizers

data train_set = idx("images.gz") | take(40) | batch(16)

model Encoder(image: u8[B, 12, 12]) -> f32[B, 6] {
    z = dense(dropout(flatten(f32(image) / 255), rate: 0.3), units: 6)
    return z / sqrt(sum(z * z, axis: 1, keep: true) + 1e-6)
}

# Two views of each image, by dropout; each row's partner is its own other view, of all rows of the global batch.
step train(image: u8[B, 12, 12]) from train_set {
    p = Encoder(image)
    q = Encoder(image)
    logits = p @ q.T / 0.2
    most = stop_gradient(max(logits, axis: 1, keep: true))
    loss = log(sum(exp(logits - most), axis: 1)) + most[:, 0] - sum(p * q, axis: 1) / 0.2
    minimize(loss, adam(learning_rate: 0.01))
    report loss: mean(loss)
}
"""
REPLICAS = 4

data = write_data(n=48, n_test=8)
artifact = Artifact(PROGRAM, "pairs")


def train(folder, devices, replicas=REPLICAS, **settings):
    return artifact.run("train", "--data", data, "--log-every", 1, "--epochs", 2, "--global-batch", 16, "--replicas", replicas, "--checkpoint-dir", FOLDER / folder,
                        devices=devices, count=3, **settings)


def losses(run):
    return [e["loss"] for e in run.all("step")]


def main():
    for replicas in (1, REPLICAS):
        on_cpu, on_gpu = (losses(train(f"{d}-{replicas}", d, replicas)) for d in ("cpu:1", "cuda:0"))
        check(len(on_gpu) == 6 and all(abs(a - b) <= 2e-3 * abs(b) for a, b in zip(on_gpu, on_cpu)), f"V={replicas}: {on_gpu}, on the CPU {on_cpu}")
        check(on_gpu[-1] < on_gpu[0], f"it does not learn: {on_gpu}")
    wanted = bits(FOLDER / f"cuda:0-{REPLICAS}")
    for devices in ("cuda:0,1", "cuda"):
        for seed in range(3):
            train(f"{devices}-{seed}", devices, seed=seed, check="" if seed % 2 == 0 else "memory")
            check(bits(FOLDER / f"{devices}-{seed}") == wanted, f"{devices}, order {seed}: other bits than one GPU's")


main()
