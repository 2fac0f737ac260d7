"""--placement central over GPUs: the first one has the optimizer's states and updates the variables, the others have a copy of the weights and compute; the
bytes are those of one GPU. The fake driver (tests/support/fake_cuda.h) has up to four, whose queues it interleaves in any order that nobody has
forbidden, and finds what one touches of memory that it does not have."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403
from central import *  # noqa: E402,F403

BATCH, REPLICAS = 8, 4  # three steps an epoch, the last of 4 rows: two replicas have none

# As little as leaves every kind of kernel: they are emulated.
SMALL = {name: re.sub(r"shuffle\(60000\)", "take(20) | shuffle(20)", text).replace("batch(32)", "batch(2)").replace("batch(64)", "batch(2)")
         for name, text in PROGRAMS.items()}
PRODUCTS = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | take(20) | shuffle(20) | batch(2)

model Net(a: f32[B, 6]) -> f32[B] {
    return dense(dense(dense(a, units: 256), units: 128, activation: relu), units: 1)[:, 0]
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(Net(a) - b[:, 0])
    minimize(loss, adam())
    report loss: mean(loss)
}
"""
SMALL = {name: text.replace("f32(image)", "f32(image[:, 8:20, 8:20])") for name, text in SMALL.items()}
SMALL["perceptron"] = SMALL["perceptron"].replace("units: 128", "units: 8")
SMALL["cnn"] = SMALL["cnn"].replace("filters: 8", "filters: 3").replace("filters: 12", "filters: 4")
SMALL["resnet"] = SMALL["resnet"].replace("[8, 16]", "[2, 3]")


def train(artifact, folder, devices, *flags, epochs=1, **settings):
    return artifact.run("train", "--data", DATA, "--global-batch", BATCH, "--replicas", REPLICAS, "--epochs", epochs, "--checkpoint-dir", FOLDER / folder, *flags,
                        devices=devices, **settings)


def leaves_what_one_gpu_leaves(name, *layouts):
    artifact = Artifact(SMALL[name], name)
    one = train(artifact, f"{name}-one", "cuda:0")
    wanted = left_by(FOLDER / f"{name}-one"), said(one.events)
    for seed, devices in enumerate(layouts):
        folder = f"{name}-{seed}"
        run = train(artifact, folder, devices, *CENTRAL, count=4, seed=seed, check="" if seed % 2 else "memory")
        check((left_by(FOLDER / folder), said(run.events)) == wanted, f"{name} on {devices}, order {seed}: other bytes than one GPU leaves")
    print(f"{name}: {', '.join(layouts)} leave the bytes of one GPU", flush=True)
    return artifact, run


def libraries_are_called_where_something_is_computed():
    """The central GPU calls none, and is no other GPU for that."""
    artifact = Artifact(PRODUCTS, "products", "--batch", "64")
    for folder, devices, *flags in (("products-one", "cuda:0"), ("products", "cuda:0,1,2", *CENTRAL)):
        run = train(artifact, folder, devices, *flags, count=3)
        check(any("cuBLASLt" in e["message"] and " 0 calls" not in e["message"] for e in run.all("library")), run.events)
    check(left_by(FOLDER / "products") == left_by(FOLDER / "products-one"), "with libraries: other bytes than one GPU leaves")
    train(artifact, "products", "cuda:1", "--resume", "--max-steps", 99, count=3)


def slots_are_on_the_first_alone(run):
    memory = memory_of_devices(run.events)
    check(list(memory) == ["cuda:0", "cuda:1", "cuda:2"], memory)
    check(memory["cuda:0"][2] > 0 and all(memory[d][2] == 0 and 0 < memory[d][1] <= memory["cuda:0"][1] for d in ("cuda:1", "cuda:2")), memory)
    check("cuda:0 has the variables and updates them; cuda:1 and cuda:2 compute" in notes(run.events), run.events)


def goes_on(artifact, name):
    train(artifact, "whole", "cuda:0", epochs=2)
    for devices, count, *flags in (("cuda", 3, *CENTRAL, "--max-steps", 2), ("cuda:0,1", 2, "--resume", "--max-steps", 4), ("cuda:1,0", 2, *CENTRAL, "--resume")):
        train(artifact, "turns", devices, *flags, epochs=2, count=count)
    check(left_by(FOLDER / "turns") == left_by(FOLDER / "whole"), f"{name}: central and mirrored GPUs in turn leave other bytes")
    flags = ("--data", DATA, "--replicas", REPLICAS, "--global-batch", BATCH, "--checkpoint-dir", FOLDER / "whole")
    pair = [artifact.run("evaluate", *flags, *more, devices=d, count=3) for d, *more in (("cuda:0",), ("cuda:0,1,2", *CENTRAL))]
    check(said(pair[0].events) == said(pair[1].events), [run.events for run in pair])


def those_that_do_not_wait_show(artifact, name):
    """What is handed over is waited for."""
    wanted = left_by(FOLDER / f"{name}-one")
    found = [train(artifact, f"unordered-{seed}", "cuda:0,1", *CENTRAL, count=2, seed=seed, ignore_waits="peers", expect=None) for seed in range(3)]
    check(any(run.code != 0 or left_by(FOLDER / f"unordered-{seed}") != wanted for seed, run in enumerate(found)), "without waits nothing shows")


leaves_what_one_gpu_leaves("perceptron", "cuda:0,1,2")
cnn, run = leaves_what_one_gpu_leaves("cnn", "cuda:0,1", "cuda:3,1,0,2", "cuda:0,1,2")
slots_are_on_the_first_alone(run)
libraries_are_called_where_something_is_computed()
leaves_what_one_gpu_leaves("resnet", "cuda:0,1,2")
goes_on(cnn, "cnn")
those_that_do_not_wait_show(cnn, "cnn")
finish()
