"""Several GPUs in one process train what one trains, to the bit: the fake driver (tests/support/fake_cuda.h) with two and three GPUs, whose queues it
interleaves in any order that nobody has forbidden.

Equal weights and losses for one, two and three GPUs, by list and by `cuda`, in every order tried; a wait between GPUs that is left out shows; what the
start says; a GPU without peers, one that fails and one that hangs are errors that name it, and nothing hangs."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from fake_gpu import *  # noqa: E402,F403

N, BATCH, REPLICAS = 136, 32, 4  # five steps an epoch, the last of 8 examples: three replicas have none
SEEDS = range(4)

data = write_data(n=N, n_test=72)
artifact = Artifact(PROGRAM.replace("take(1000) | shuffle(1000)", f"take({N}) | shuffle({N})"), "net")
FLAGS = ("--data", data, "--log-every", 1, "--global-batch", BATCH)


def train(folder, devices, *flags, replicas=REPLICAS, count=3, epochs=2, **settings):
    return artifact.run("train", *FLAGS, "--epochs", epochs, "--replicas", replicas, "--checkpoint-dir", FOLDER / folder, *flags, devices=devices, count=count, **settings)


def losses(run):
    return [e["loss"] for e in run.all("step")]


def equal_bits_on_any_number_of_gpus():
    one = train("one", "cuda:0")
    wanted = bits(FOLDER / "one"), losses(one)
    for devices in ("cuda:0,1", "cuda:2,0", "cuda:0,1,2", "cuda"):
        for seed in SEEDS:
            folder = f"{devices.replace(':', '-')}-{seed}"
            run = train(folder, devices, seed=seed, check="" if seed % 2 == 0 else "memory")
            check((bits(FOLDER / folder), losses(run)) == wanted, f"{devices}, order {seed}: other bits than one GPU's")
        print(f"{devices}: {len(SEEDS)} orders, the bits of one GPU", flush=True)
    without = [train(f"without-{seed}", "cuda:0,1", seed=seed, epochs=1, ignore_waits="peers", expect=None) for seed in SEEDS]
    check(any(run.code != 0 or losses(run) != wanted[1][:5] for run in without), "GPUs that do not wait for each other show in no order: the comparison cannot fail")


def they_resume_and_evaluate():
    wanted = bits(FOLDER / "one")
    train("turns", "cuda:0,1", "--max-steps", 3)
    train("turns", "cuda:1", "--max-steps", 7, "--resume")
    train("turns", "cuda", "--resume", seed=1)
    check(bits(FOLDER / "turns") == wanted, "resumed on other GPUs, other bits")
    flags = ("--data", data, "--replicas", REPLICAS, "--global-batch", BATCH, "--checkpoint-dir", FOLDER / "one")
    pair = [artifact.run("evaluate", *flags, devices=d, count=2).one("epoch") for d in ("cuda:0", "cuda:0,1")]
    check(pair[0]["loss"] == pair[1]["loss"] and pair[0]["examples"] == pair[1]["examples"] == 72, pair)


def the_start_says_which():
    start = train("start", "cuda:0,2", "--max-steps", 1).one("start")
    check(start["devices"] == ["cuda:0", "cuda:2"], start)
    spare = train("spare", "cuda", "--max-steps", 1, replicas=2)
    check(spare.one("start")["devices"] == ["cuda:0", "cuda:1"], spare.one("start"))
    check(any("1 of 3 GPUs have nothing to do" in str(event) for event in spare.events), spare.events)
    missing = train("missing", "cuda:0,3", expect=1)
    check("cuda:3: this machine has 3 GPUs, counted from 0" in missing.error, missing.error)
    many = train("many", "cuda:0,1,2", replicas=2, expect=1)
    check("3 devices for 2 replicas" in many.error, many.error)


def what_fails_is_named():
    alone = train("alone", "cuda:0,1", expect=1, peers=0)
    check("cuda:0 cannot reach the memory of cuda:1" in alone.error, alone.error)
    failed = train("failed", "cuda:0,1", expect=1, fail_late="cuGraphLaunch@1:3=700")
    check("cuda:1, train step" in failed.error and "CUDA_ERROR_ILLEGAL_ADDRESS" in failed.error, failed.error)
    hung = train("hung", "cuda:0,1", "--deadline", 1, expect=1, hang="cuGraphLaunch@1:5")
    check("has not finished after 1 s; enqueued last" in hung.error and "cuda:" in hung.error, hung.error)


def main():
    equal_bits_on_any_number_of_gpus()
    they_resume_and_evaluate()
    the_start_says_which()
    what_fails_is_named()


main()
