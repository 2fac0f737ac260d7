"""--shard-optimizer: processes that each keep a share of the optimizer's states end with the bytes of one that keeps all, whatever the optimizer adds
up: gradients clipped by the length of all, norms of each parameter and its update (LAMB). What a process keeps is said, and checkpoints are those of
any other run."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
from timeline import Timeline
from training import FOLDER, check, finish

# Tensors of blocks and a rest, of blocks alone, of no block; two are cut in other ways than the first.
PROGRAM = """
use nn, optimizers

data train_set = npy("a.npy", "b.npy") | shuffle(90) | batch(24)
data test_set  = npy("a.npy", "b.npy") | take(50) | batch(24)

model Net(a: f32[B, 6]) -> f32[B] {
    x = dense(a, units: 64, activation: tanh)
    x = dense(x, units: 256, activation: tanh)
    x = dense(x, units: 501, activation: tanh)
    return dense(x, units: 1)[:, 0]
}

step train(a: f32[B, 6], b: f32[B, 6]) from train_set {
    loss = square(Net(a) - b[:, 0])
    UPDATE
    report loss: mean(loss)
}

step evaluate(a: f32[B, 6], b: f32[B, 6]) from test_set {
    report loss: mean(square(Net(a) - b[:, 0]))
}
"""

UPDATES = {
    "adam": "minimize(loss, adam(learning_rate: 0.01))",
    "clipped": "apply(adam(learning_rate: 0.01), clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))",
    "lamb": "minimize(loss, lamb(learning_rate: 0.01, beta_2: 0.99, weight_decay: 0.01))",
    "sgd": "minimize(loss, sgd(learning_rate: 0.01))",
}


def case(name):
    return layouts.Case(name, PROGRAM.replace("UPDATE", UPDATES[name]), 24)


def train(case, n, folder, *flags, replicas=6, devices="cpu:1x1"):
    """Output of `n` processes that train into the folder."""
    done = mpi.run("openmpi", n, ["dtrun", "train", case.artifact, *case.flags(replicas), "--devices", devices, "--seed", 3, "--checkpoint-dir", folder,
                                  *flags])
    check(done.returncode == 0, f"{case.name}, {n} processes {flags}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"


def agrees(case, wanted, n, *flags, **options):
    folder = new_folder()
    said = train(case, n, folder, "--epochs", 2, "--shard-optimizer", *flags, **options)
    check(layouts.left_by(folder) == wanted, f"{case.name}: {n} processes that share out the update end with other bits than one")
    return said


def check_share(said, n):
    """At most 1/P of the optimizer's states and 5 % of that are in a process."""
    found = re.search(r"states: at most [\d.]+ MiB of [\d.]+ MiB in each of (\d+) processes, ([\d.]+) %", said)
    check(found and int(found[1]) == n and float(found[2]) <= 105 / n, f"{n} processes keep too much each, or do not say it:\n{said}")


def sent_bytes(case, n, *flags):
    """In the exchanges of three steps."""
    path = new_folder().parent / "timeline.json"
    train(case, n, new_folder(), "--max-steps", 3, "--timeline", path, *flags)
    return sum(begin["args"].get("bytes", 0) for begin, _ in Timeline(path).exchanges if begin["args"].get("function") == "train")


adam, clipped, lamb = map(case, ("adam", "clipped", "lamb"))
wanted = {one.name: layouts.train_one(one, 6)[0] for one in (adam, clipped, lamb)}
check_share(agrees(adam, wanted["adam"], 2), 2)
check_share(agrees(clipped, wanted["clipped"], 3), 3)
check_share(agrees(lamb, wanted["lamb"], 3), 3)
agrees(lamb, wanted["lamb"], 2, devices="cpu:1x2")
agrees(lamb, wanted["lamb"], 2, "--check-numerics")

# Every optimizer of the library at once, each with a model of its own; some keep states that are not updated element by element.
every = layouts.Case("every", (pathlib.Path(os.environ["DT_SOURCE"]) / "tests/programs/every_optimizer.dt").read_text(), 24)
agrees(every, layouts.train_one(every, 6)[0], 2)

# Whoever goes on, in mid-epoch, goes on from the same checkpoint.
folder = new_folder()
for i, (n, *flags) in enumerate(((2, "--shard-optimizer"), (3,), (1,), (3, "--shard-optimizer"))):
    end = ["--max-steps", i + 1] if i < 3 else []
    said = train(lamb, n, folder, "--epochs", 2, *flags, *end, *(["--resume"] if i > 0 else []))
    check(("in each of" in said) == bool(flags), f"lamb: {n} processes {flags} say of shares what does not hold\n{said}")
check(layouts.left_by(folder) == wanted["lamb"], "lamb: runs with and without shares, one after another, end with other bits than one")

# Half of the exchange of gradients is left, and a gather of parameters as large as the other half; sums of blocks are next to nothing.
without, shared = sent_bytes(clipped, 2), sent_bytes(clipped, 2, "--shard-optimizer")
check(0 < shared <= 1.01 * without, f"clipped: {shared} bytes are sent where the update is shared out, {without} where it is not")

# A small network too, where what goes into a norm is not cut within its blocks.
small = pathlib.Path(os.environ["DT_SOURCE"], "examples/perceptron.dt").read_text()
small = small.replace("minimize(loss, sgd(learning_rate: 0.1))", "apply(adam(), clip_by_global_norm(grad(objective(loss), params(Perceptron)), 1.0))")
small = layouts.Case("small", small, 32)
for n in (2, 3, 4):
    said = subprocess.run(["dtrun", "info", small.artifact, "--processes", str(n), "--replicas", str(n), "--shard-optimizer"], capture_output=True, text=True).stdout
    check_share(said, n)
    print(said.splitlines()[-1], flush=True)

said = train(adam, 1, new_folder(), "--max-steps", 1, "--shard-optimizer")
check("there is one process, which keeps all" in said, f"one process does not say that it shares nothing out\n{said}")
said = train(case("sgd"), 2, new_folder(), "--max-steps", 1, "--shard-optimizer")
check("the optimizer has no states to share out" in said, f"without states nobody says so\n{said}")
finish()
