"""gpu_processes: trainings by several processes that mpirun starts, with a fake GPU each (fake_cuda.h), compared with one by one process."""
import array
import struct

import mpi
from fake_gpu import *
from layouts import HALVES, PAIRS, WIDE, left_by, predictions, said, write_pairs

DATA = write_data(n=136, n_test=72)
write_pairs(DATA)
NCCL = DRIVER.with_name("libfake_nccl.so")
NET = PROGRAM.replace("take(1000) | shuffle(1000)", "take(136) | shuffle(136)")  # five steps an epoch, the last of 8 examples: most replicas have none


# The greatest gradient is complete before the rest is computed.
EARLY = WIDE.replace("600", "900").replace("units: 900, activation: tanh)\n    x = dense(x, units: 500", "units: 320, activation: tanh)\n    x = dense(x, units: 500")
EARLY = EARLY.replace("shuffle(90)", "take(36) | shuffle(36)").replace("take(50)", "take(30)")


class Case:
    """A program whose training is compared; `wanted`: what one process with one GPU leaves."""

    def __init__(self, name, text, batch=32, replicas=4):
        self.artifact = Artifact(text, name)
        self.name, self.replicas = name, replicas
        self.flags = ["--data", DATA, "--log-every", "1", "--global-batch", str(batch), "--replicas", str(replicas), "--epochs", "2"]
        one = self.artifact.run("train", *self.flags, "--checkpoint-dir", FOLDER / f"{name}-one")
        self.wanted = left_by(FOLDER / f"{name}-one"), said(one.events)

    def train(self, n, folder, *flags, **more):
        return self.start(n, "train", *self.flags, *flags, "--checkpoint-dir", FOLDER / folder, **more)

    def start(self, n, verb, *flags, expect=0, devices="cuda", first="", settings=(), **fake):
        """`n` processes, each of which runs the commands `first` in its shell before. `settings`: of the environment; `fake`: of the fake driver, which has
        a GPU for each process unless they say otherwise."""
        environment = {**self.artifact.environment(**{"count": n, **fake}), "DT_NCCL": str(NCCL), "FAKE_NCCL_FOLDER": str(FOLDER), **dict(settings)}
        done = mpi.run("openmpi", n, ["sh", "-c", f'{first}\nexec "$@"', "sh", *command(verb, self.artifact.path, "--devices", devices, *flags)],
                       **environment)
        check(expect is None or done.returncode == expect, f"{verb} by {n} processes {flags} {fake}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        done.events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return done

    def leaves(self, folder, done):
        return left_by(FOLDER / folder), said(done.events)

    def agrees(self, n, seed, *flags, **settings):
        """A run whose fakes take this order of events leaves what one process left."""
        folder = f"{self.name}-{n}-{seed}-{len(list(FOLDER.iterdir()))}"
        done = self.train(n, folder, *flags, seed=seed, **settings)
        check(self.leaves(folder, done) == self.wanted, f"{self.name}: {n} processes {flags}, order {seed}: other bits than one GPU's\n{done.stderr}")
        return done


def tensors(folder):
    """Of the newest checkpoint."""
    data = (newest(folder) / "model.safetensors").read_bytes()
    n, = struct.unpack("<Q", data[:8])
    return {name: array.array("f", data[8 + n:][slice(*about["data_offsets"])])
            for name, about in json.loads(data[8:8 + n]).items() if name != "__metadata__" and about["dtype"] == "F32"}


def is_added_up_by(case, engine, n, **settings):
    """With --reduce=fast the engine says so, and the run leaves other bits than the tree's, though not by much. Eight replicas on three processes, or six on
    two, are parts of nodes of the tree, which it adds up in another order."""
    folder = f"{case.name}-fast-{n}"
    done = case.train(n, folder, "--reduce", "fast", "--epochs", 1, **settings)
    check_said(done, f"--reduce=fast: {engine}", "adds up sums over processes, and the bits of results are not promised")
    case.train(n, f"{folder}-exact", "--epochs", 1, **settings)
    fast, exact = tensors(FOLDER / folder), tensors(FOLDER / f"{folder}-exact")
    check(fast != exact, f"{case.name}: {engine} has added nothing up")
    for name, values in exact.items():
        error = max(abs(a - b) for a, b in zip(fast[name], values)) / (max(map(abs, values)) + 1e-6)
        check(error < 1e-3, f"{case.name}, {name}: sums by {engine} are {error:.2g} away from exact ones")


def check_said(done, *wanted):
    """Its first lines say this."""
    notes = " ".join(str(event) for event in done.events if event["event"] == "note")
    for one in wanted:
        check(one in notes, (one, done.events))
