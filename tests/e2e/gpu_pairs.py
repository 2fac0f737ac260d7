"""A loss over all pairs of the global batch on a GPU: rows of all replicas are gathered, gradients scattered, on its own queue. Kernels are emulated behind
the fake driver. Near what the CPU trains, and equal bits in any order of what may run at once, on one GPU and on several; short batches, and replicas
that have few of their rows."""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403

N, BATCH = 22, 12  # two steps an epoch, the second of ten examples: of four replicas one has a single row

random = np.random.default_rng(0)
a = random.normal(size=(N, 6)).astype(np.float32)
np.save(FOLDER / "a.npy", a)
np.save(FOLDER / "b.npy", a + 0.5 * random.normal(size=(N, 6)).astype(np.float32))

text = pathlib.Path(os.environ["DT_SOURCE"], "tests/programs/pairs.dt").read_text()
text += 'data views = npy("a.npy", "b.npy") | shuffle(22) | batch(12)\n'
artifact = Artifact(text, "pairs")


def train(step, folder, replicas, devices="cuda:0", **settings):
    run = artifact.run("train", "--step", step, "--from", "views", "--data", FOLDER, "--epochs", 2, "--global-batch", BATCH, "--replicas", replicas, "--log-every", 1,
                       "--library", "none", "--checkpoint-dir", FOLDER / folder, devices=devices, **settings)
    return [event["loss"] for event in run.all("step")]


for step in ("train", "train_symmetric"):
    for replicas in (1, 3, 4):
        wanted, found = train(step, f"{step}-cpu-{replicas}", replicas, devices="cpu:1"), None
        for seed, devices in enumerate(("cuda:0", "cuda:0", "cuda:0,1", "cuda:1,2,0")):
            if devices.count(",") >= replicas:
                continue
            folder = f"{step}-{replicas}-{seed}"
            losses = train(step, folder, replicas, devices=devices, count=3, seed=seed, check="" if seed == 0 else "memory")
            check(np.allclose(losses, wanted, rtol=2e-4), f"{step}, V={replicas}: {losses}, on the CPU {wanted}")
            again = losses, bits(FOLDER / folder)
            check(found is None or again == found, f"{step}, V={replicas}: {devices}, order {seed}, gives {again}, cuda:0 gave {found}")
            found = again
finish()
