"""--placement central in several processes: each has a central device of its own, of cores or of GPUs (fakes of the driver), alone or with a share of the
optimizer's states alone. The bytes are those of one process with one device."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from gpu_processes import *  # noqa: E402,F403

CENTRAL, SHARED = ("--placement", "central"), "--shard-optimizer"

# Slots of enough elements to be shared out, gradients clipped by the length of all, batch statistics.
TEXT = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | take(36) | shuffle(36) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(30) | batch(24)

model Net(a: f32[B, 6]) -> f32[B] {
    x = batch_norm(dense(a, units: 32, activation: tanh))
    x = dense(x, units: 40, activation: tanh)
    return dense(x, units: 1)[:, 0]
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(Net(a) - b[:, 0])
    apply(adam(learning_rate: 0.01), clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))
    report loss: mean(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(square(Net(a) - b[:, 0]))
}
"""


def cores():
    case = layouts.Case("cores", TEXT, 24)
    wanted = layouts.train_one(case, 6)
    for n, devices, *flags in ((2, "cpu:3x1"), (2, "cpu:2x2", SHARED)):
        folder = FOLDER / f"cores-{n}-{len(flags)}"
        common = [*case.flags(6), "--devices", devices, *CENTRAL]
        events = layouts.mpirun("openmpi", n, "train", case, *common, *flags, "--epochs", 2, "--seed", 3, "--checkpoint-dir", folder)
        check((left_by(folder), said(events)) == wanted[:2], f"{n} processes of {devices} {flags}: other bytes than one device")
        evaluated = layouts.mpirun("openmpi", n, "evaluate", case, *common, "--checkpoint-dir", folder)
        check(said(evaluated) == wanted[2], f"{n} processes of {devices} evaluate otherwise")


def gpus():
    net = Case("gpus", TEXT, batch=24, replicas=6)
    for seed, flags in enumerate(((), (SHARED,))):
        done = net.agrees(2, seed, *CENTRAL, *flags, devices="cuda:0,1,2", count=3)
        check_said(done, "central storage: cuda:0 has the variables and updates them; cuda:1 and cuda:2 compute")
    net.agrees(2, 2, *CENTRAL)  # a GPU each: it has all and computes


def mistakes():
    case = layouts.Case("few", TEXT, 24)
    done = mpi.run("openmpi", 2, ["dtrun", "train", case.artifact, *case.flags(3), "--devices", "cpu:3x1", *CENTRAL])
    said_why = "2 processes of 2 devices, beside the central one, for 3 replicas: each device holds at least one replica; use --replicas 4"
    check(done.returncode != 0 and said_why in done.stdout + done.stderr, done)


cores()
gpus()
mistakes()
finish()
