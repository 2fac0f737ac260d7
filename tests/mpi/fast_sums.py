"""--reduce=fast: sums by MPI are near those of the tree, which --reduce=exact and one process have; what is given up is said; all processes agree."""
import json
import os
import re
import struct
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
from training import FOLDER, check, finish, newest

import numpy as np


def tensors(path):
    """Of a .safetensors file."""
    data = path.read_bytes()
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    return {name: np.frombuffer(data[8 + n:][slice(*about["data_offsets"])], np.float32)
            for name, about in header.items() if name != "__metadata__" and about["dtype"] == "F32"}


def train(case, replicas, n_processes, *flags):
    folder = tempfile.mkdtemp(dir=FOLDER)
    events = layouts.mpirun("openmpi", n_processes, "train", case, *case.flags(replicas), "--devices", "cpu:1x1", "--epochs", 1, "--seed", 3,
                            "--checkpoint-dir", folder, *flags)
    return tensors(newest(folder) / "model.safetensors"), json.dumps(events)


# Three processes hold two nodes of the tree of eight each: they are added up before they cross. Some sums are of 16 bits, some are the greatest.
for case, replicas, n_processes in ((layouts.wide(), 6, 2), (layouts.halves(), 8, 3), (layouts.pairs(), 6, 2)):
    exact, said = train(case, replicas, n_processes)
    check("--reduce" not in said, f"{case.name}: exact sums are said to be something else: {said}")
    fast, said = train(case, replicas, n_processes, "--reduce", "fast")
    check("Open MPI" in said and "the bits of results are not promised" in said, f"{case.name}: it is not said what is given up: {said}")
    for name, values in exact.items():
        error = float(np.abs(fast[name] - values).max() / (np.abs(values).max() + 1e-6))
        check(error < 1e-3, f"{case.name}, {name}: sums by MPI are {error:.2g} away from exact ones")
    # Processes hold parts of nodes of the tree, which MPI adds up in another order: bits that are all the same were not added up by it.
    check(any((fast[name] != values).any() for name, values in exact.items()), f"{case.name}: MPI has added nothing up")
    print(f"{case.name}: {n_processes} processes agree", flush=True)

one, other = ["dtrun", "train", layouts.wide().artifact, "--data", str(layouts.DATA), "--replicas", "2"], ["--reduce", "fast"]
done = mpi.run("openmpi", 1, [*one, ":", "-n", "1", *one, *other])
check(done.returncode != 0 and re.search(r"process 1 \(\S+, pid \d+\) has --reduce=fast \(1\) or exact \(0\): 1, process 0", done.stderr), f"two ways to add up: {done.stderr}")
finish()
