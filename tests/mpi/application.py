"""An application of several processes (application.c): what it trains, by its own loop, by a callback, on the program's data or with dtrt_train, are the
bytes that `dtrun train` writes; each process gets its rows; a mistake of one is everybody's, after which the run goes on; and what ends the run is told to
all, by the call that they are in."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from applications import ARTIFACT, DATA, same_bytes
from training import FOLDER, check, finish

APPLICATION = pathlib.Path(os.environ["DT_BUILD"]) / "tests/mpi/application"


def run(case, n, setup=lambda folder: None):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "run"
    shutil.copytree(DATA, folder)
    setup(folder)
    done = mpi.run("openmpi", n, [APPLICATION, case, ARTIFACT, folder])
    return done, done.stdout.splitlines(), folder


def succeeds(case, n):
    done, lines, folder = run(case, n)
    check(done.returncode == 0, f"{case} on {n}: {done.returncode}\n{done.stdout}{done.stderr}")
    return lines, folder


def weights(case, n, below="", pattern=None):
    lines, folder = succeeds(case, n)
    same_bytes(f"{case} on {n}", folder / below)
    said = {re.sub(r"^process \d+: ", "", line) for line in lines}
    if pattern:
        check(len(lines) == n and len(said) == 1 and re.fullmatch(pattern, said.pop()), f"{case} on {n}: {lines}")


def loads(n):
    lines, folder = succeeds("load", n)
    for p in range(n):
        mine = [line.removeprefix(f"process {p}: ") for line in lines if line.startswith(f"process {p}: ")]
        check(mine == [f"saved {folder}/step-0", "the same, rate 0.5", "as written"], f"load on {n}: {mine}")


def predicts():
    rows = [succeeds("predict", n)[0] for n in (1, 2, 3)]
    check(len(rows[0]) == 7 and all(sorted(some) == sorted(rows[0]) for some in rows), f"predict: {rows}")


def mistakes(n):
    lines, folder = succeeds("mistakes", n)
    wanted = {
        "shape": (r"net: x is f32\[B, 4\], not f32\[4, 5\]|train: x .*", r"process 1: .*"),
        "rows": (r"dtrt_step: process 0 gives 2 rows of a batch of \d, of which it holds [34]: .*",) * 2,
        "call": (r"process 1 calls dtrt_initialize, process 0 dtrt_step: .*",) * 2,
        "step": (r"dtrt_step: process 1 gives it other arguments than process 0: .*",) * 2,
        "value": (r"dtrt_set_launch: process 1 gives it other arguments .*",) * 2,
        "weights": (r"dtrt_write: process 1 gives it other arguments .*",) * 2,
        "epochs": (r"dtrt_train: process 1 gives it other arguments .*",) * 2,
        "folder": (r"dtrt_save: process 1 gives it other arguments .*",) * 2,
        "bench": (r"-1 steps, .*", r"process 1: -1 steps, .*"),
        "timeline": (r"a pipeline of the session is open, .*", r"process 1: a pipeline of the session is open, .*"),
        "text": (r"dtrt_generate is for one process, and the session is of \d: .*",) * 2}
    for what, (own, others) in wanted.items():
        for p in range(n):
            said = [line for line in lines if line.startswith(f"process {p}: {what}: ")]
            check(len(said) == 1 and re.fullmatch(f"process {p}: {what}: ({own if p == 1 else others})", said[0]), f"{what}, process {p}: {said}")
    same_bytes(f"mistakes on {n}", folder)


def ends(case, n, patterns, setup=lambda folder: None):
    """What the processes say of it."""
    done, lines, _ = run(case, n, setup)
    for p in range(n):
        for what, pattern in patterns(p).items():
            said = [line for line in lines if line.startswith(f"process {p}: {what}: ")]
            check(len(said) == 1 and re.search(pattern, said[0]), f"{case}: {what} of process {p}: {said}\n{done.stdout}{done.stderr}")


def lose_data(folder):
    for p in range(2):
        shutil.copytree(DATA, folder / str(p))
    (folder / "1/x.npy").unlink()


LOST = r"1/x.npy: no such file"
LEFT = r"process 1 calls dtrt_processes_close, process 0 dtrt_step: all processes of a run make the same calls"
jobs = [(weights, "step", 2, "", r"loss 0x\S+"), (weights, "step", 3, "", r"loss 0x\S+"), (weights, "step", 1), (weights, "callback", 3, "", "9 steps"),
        (weights, "pipeline", 2), (weights, "pipeline", 3), (weights, "train", 2, "trained", r"accuracy 0x\S+"),
        (weights, "train", 3, "trained", r"accuracy 0x\S+"), (weights, "shares", 2), (loads, 2), (loads, 3), (predicts,), (mistakes, 2), (mistakes, 3),
        (ends, "lost", 2, lambda p: {"train": LOST, "step": LOST, "close": LOST}, lose_data),
        (ends, "leaves", 3, lambda p: {"close": LEFT} if p == 1 else {"step": LEFT, "close": LEFT}),
        (ends, "gives-up", 3, lambda p: {"abort": "no error"} if p == 1 else {"step": "process 1: the camera is gone", "close": "camera"}),
        (ends, "sleeps", 2, lambda p: {} if p == 1 else {"step": r"process 1 \(.*\) is alive and has not got on for .*the application's own work"})]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for job in [pool.submit(*job) for job in jobs]:
        job.result()
finish()
