"""--rows: processes that share out tables by rows, and send one another the rows that their microbatches name, end with the bits of one process with all
of each table; with --lazy-rows, of one that does the same. Whoever goes on, goes on from the same checkpoint."""
import json
import os
import pathlib
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from ratings import write_ratings
from training import FOLDER, check, compile_program, finish, newest

SOURCE = pathlib.Path(os.environ["DT_SOURCE"], "tests/programs/recommend.dt").read_text()
DATA = FOLDER / "data"
write_ratings(DATA)


def saved(folder):
    return [(newest(folder) / f"{name}.safetensors").read_bytes() for name in ("model", "optimizer")]


def train(program, n, *flags, folder=None, code=0, epochs=1):
    folder = folder or pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    command = ["dtrun", "train", program, "--data", DATA, "--replicas", 5, "--devices", "cpu:1x1", "--epochs", epochs, "--checkpoint-dir", folder, *flags]
    done = mpi.run("openmpi", n, command)
    check(done.returncode == code, f"{n} processes {flags}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if code != 0 else saved(folder)


sgd, adam = compile_program(SOURCE, "sgd"), compile_program(SOURCE, "adam", "-Dadaptive=true")
wanted = train(sgd, 1)
for n in (2, 3):
    check(train(sgd, n, "--rows") == wanted, f"{n} processes that take rows end with other bits than one that has all of each table")
wide = compile_program(SOURCE.replace("dense(mean(what, axis: 1) * 2,", "dense(dense(dense(mean(what, axis: 1), units: 300), units: 300) * 2,"), "wide")
check(train(wide, 3, "--rows", "--shard-parameters") == train(wide, 1), "processes that take rows, and have the rest in shares, end with other bits")
check(train(adam, 3, "--lazy-rows") == train(adam, 1, "--lazy-rows"), "three processes that are lazy end with other bits than one")

folder = FOLDER / "resumed"
train(sgd, 3, "--rows", "--max-steps", 2, folder=folder)
check(train(sgd, 2, "--rows", "--resume", folder=folder) == wanted, "other bits where other processes go on")

# ---- an application's own session ----
SCRIPT = """
import sys
import dt
with dt.Processes() as processes:
    session = dt.open(sys.argv[1]).session(replicas=5, devices="cpu:1x1", data=sys.argv[2], checkpoints=sys.argv[3], by_rows="exact", processes=processes)
    session.train(epochs=1).run()
    try:
        session["Taste/users/table"]
    except dt.FailedPrecondition as error:
        assert "this process has a part of it" in str(error), error
    else:
        raise AssertionError("a part of a table was given for all of it")
    session.close()
"""
MODULE = pathlib.Path(os.environ["DT_BUILD"]) / "python"
if (MODULE / "dt/_dt.abi3.so").exists():
    folder = FOLDER / "python"
    (FOLDER / "script.py").write_text(SCRIPT)
    done = mpi.run("openmpi", 2, [os.environ["DT_PYTHON"], FOLDER / "script.py", sgd, DATA, folder], PYTHONPATH=str(MODULE))
    check(done.returncode == 0 and saved(folder) == wanted, f"by_rows of two processes: {done.returncode}\n{done.stdout}{done.stderr}")

np.save(DATA / "user.npy", np.where(np.arange(90) == 70, 500, 3).astype(np.int32))
message = train(sgd, 2, "--rows", code=1)
check("index 500 is not within 0 to 499" in message, message)

# One in what says which rows: counted once, and not by each process.
looked_up = compile_program(SOURCE.replace("embedding(user,", "embedding(iota([500], dtype: i32)[user],"), "looked_up")
message = train(looked_up, 2, "--rows", code=1)
check(re.search(r"looked_up.dt:12:22: train step \d+, row \d+: index 500 is not within 0 to 499;", message), message)

# ---- memory: a process has the rows of its share ----
np.save(DATA / "user.npy", np.full(90, 3, np.int32))
logs = FOLDER / "logs"
train(sgd, 2, "--rows", "--max-steps", 1, "--log-dir", logs)
[plan] = [event for event in map(json.loads, (logs / "run.jsonl").read_text().splitlines()) if event["event"] == "plan"]
parameters = next(part["bytes"] for part in plan["memory"] if part["name"] == "parameters")
tables, dense = 4 * 5 * (500 + 2000), 4 * (5 * 5 + 5)
check(parameters == tables // 2 + dense, f"{parameters} bytes of parameters, {tables} of which are tables of two processes")
finish()
