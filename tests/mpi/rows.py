"""--rows: processes that share out tables by rows, and send one another the rows that their microbatches name, end with the bits of one process with all
of each table; with --lazy-rows, of one that does the same. Whoever goes on, goes on from the same checkpoint."""
import os
import pathlib
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from training import FOLDER, check, compile_program, finish, newest

SOURCE = pathlib.Path(os.environ["DT_SOURCE"], "tests/programs/recommend.dt").read_text()
DATA = FOLDER / "data"
DATA.mkdir()
numbers = np.random.default_rng(3)
np.save(DATA / "user.npy", numbers.integers(0, 7, 90).astype(np.int32))
np.save(DATA / "items.npy", numbers.integers(0, 2000, (90, 3)))
np.save(DATA / "rating.npy", numbers.normal(size=90).astype(np.float32))


def train(program, n, *flags, folder=None, code=0, epochs=1):
    folder = folder or pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    command = ["dtrun", "train", program, "--data", DATA, "--replicas", 5, "--devices", "cpu:1x1", "--epochs", epochs, "--checkpoint-dir", folder, *flags]
    done = mpi.run("openmpi", n, command, seconds=120)
    check(done.returncode == code, f"{n} processes {flags}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if code != 0 else [(newest(folder) / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")]


sgd, adam = compile_program(SOURCE, "sgd"), compile_program(SOURCE, "adam", "-Dadaptive=true")
wanted = train(sgd, 1)
for n in (2, 3):
    check(train(sgd, n, "--rows") == wanted, f"{n} processes that take rows end with other bits than one that has all of each table")
check(train(adam, 3, "--lazy-rows") == train(adam, 1, "--lazy-rows"), "three processes that are lazy end with other bits than one")

folder = FOLDER / "resumed"
train(sgd, 3, "--rows", "--max-steps", 2, folder=folder)
check(train(sgd, 2, "--rows", "--resume", folder=folder) == wanted, "other bits where other processes go on")

np.save(DATA / "user.npy", np.where(np.arange(90) == 70, 500, 3).astype(np.int32))
message = train(sgd, 2, "--rows", code=1)
check("index 500 is not within 0 to 499" in message, message)
finish()
