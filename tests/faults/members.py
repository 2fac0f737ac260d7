"""members: runs in which one member is different: it was started with another option, artifact or data; it is stopped while the others look for it; it is a worker
that joins with other data.

    members.py N [SEED]      N runs of each kind

Over MPI the run ends in time, and the right process is named, with its machine where anybody can know it. With parameter servers the one that is different leaves and is
named, and the job goes on to the bits of one process, or with each batch in the ledger once.
"""
import concurrent.futures
import os
import random
import re
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import ledger
import mpi
import servers
from training import FOLDER, PROGRAM, Run, check, compile_program, finish, gzip, idx, left_by, make_examples, write_data

N_ROWS, EPOCHS, REPLICAS, PROCESSES = 640, 40, 2, 4
AT_ONCE = 2  # runs
START = 15  # seconds, for which processes wait for one another at least
LIMIT = 60  # seconds until a run whose member is stopped has ended
TEXT = PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", "shuffle(1000) | batch(32)")
ARTIFACT = compile_program(TEXT, "net")
WIDER = compile_program(TEXT.replace("units: 32", "units: 33"), "wider")
DATA = write_data(FOLDER / "data", n=N_ROWS, n_test=60)
FEWER = write_data(FOLDER / "fewer", n=N_ROWS // 2, n_test=60)


def with_labels(name, change):
    folder = write_data(FOLDER / name, n=N_ROWS, n_test=60)
    labels = bytes(change(row, label) for row, label in enumerate(make_examples(N_ROWS, 1)[1]))
    (folder / "labels.gz").write_bytes(gzip.compress(idx(labels, N_ROWS), mtime=0))
    return folder


OTHER = with_labels("other", lambda row, label: (label + 1) % 10)
OUT_OF_RANGE = with_labels("out-of-range", lambda row, label: 77 if row % 16 == 3 else label)
DIFFERS = r".*\(from 0\) of \S+/labels.gz differs"


def over_mpi(which, own, before=""):
    """Process `which` with words of its own, after `before` in its shell."""
    common = ["--replicas", PROCESSES, "--devices", "cpu:1x1", "--deadline", 3, "--log-every", 0]
    words = {"artifact": ARTIFACT, "data": DATA, "flags": ["--epochs", 100000]}
    both = [" ".join(map(str, ["exec dtrun train", one["artifact"], "--data", one["data"], *common, *one["flags"]])) for one in ({**words, **own}, words)]
    return mpi.run("openmpi", PROCESSES, ["sh", "-c", f"if [ $OMPI_COMM_WORLD_RANK = {which} ]; then {before} {both[0]}; fi; {both[1]}"])


LIES = {
    "--seed": ({"flags": ["--epochs", 100000, "--seed", 5]}, "has --seed 5"),
    "--epochs": ({"flags": ["--epochs", 3]}, "has --epochs 3"),
    "--max-steps": ({"flags": ["--epochs", 100000, "--max-steps", 9]}, "has --max-steps 9"),
    "--no-data-check": ({"flags": ["--epochs", 100000, "--no-data-check"]}, "has --no-data-check"),
    "artifact": ({"artifact": WIDER}, "runs the program with hash"),
    "fewer examples": ({"data": FEWER}, f"finds {N_ROWS // 2} examples in its files"),
    "labels": ({"data": OTHER}, "has other data than process 0: " + DIFFERS),
    "bad labels": ({"data": OUT_OF_RANGE}, "has other data than process 0: " + DIFFERS),
}


def lie(draw):
    which, (what, (own, pattern)) = draw.randrange(1, PROCESSES), draw.choice(list(LIES.items()))
    done = over_mpi(which, own)
    said = re.findall("^dtrun: error: (.*)$", done.stderr, re.M)
    right = len(said) == 1 and re.search(rf"process {which} \(\S+, pid \d+\) {pattern}", said[0])
    check(done.returncode == 1 and right, f"{what} of process {which}: exit status {done.returncode}, {said}\n{done.stderr}")
    return f"{what}: {said[0]}"


def stop(draw):
    which, after = draw.randrange(PROCESSES), draw.choice([0, draw.uniform(0, 0.4)])
    began = time.monotonic()
    done = over_mpi(which, {}, f"(sleep {after:.3f}; kill -STOP $$) &" if after else "kill -STOP $$;")
    seconds = time.monotonic() - began
    said = re.findall("^dtrun: error: (.*)$", done.stderr, re.M)
    check(done.returncode != 0 and said and re.search(rf"process {which} \(\S+, pid \d+\) (is stopped|has given no sign of life)", said[0]),
          f"process {which}, stopped after {after:.3f} s: {said}\n{done.stderr}")
    check(seconds < LIMIT, f"process {which}, stopped after {after:.3f} s: {seconds:.1f} s")
    return f"stopped after {after:.3f} s: {said[0]}"


def join(draw):
    """A worker with other data, and then one that is all right, comes to a job that runs already."""
    data, pattern = draw.choice([(FEWER, "examples in its files"), (OTHER, DIFFERS), (OUT_OF_RANGE, DIFFERS)])
    is_synchronous, folder = draw.random() < 0.5, servers.new_folder()
    mode = ["--staleness", 0, "--replicas", REPLICAS, "--checkpoint-every", 10] if is_synchronous else []
    server = servers.Process("ps-server", ARTIFACT, "--data", DATA, "--seed", 3, "--epochs", EPOCHS, *mode, "--devices", "cpu:1x1", "--listen", "127.0.0.1:*",
                             "--checkpoint-dir", folder, "--workers", 1, "--log-every", 1)
    server.wait_for(lambda: "listens on" in server.said(), "its address")
    address = server.said().split("listens on ")[1].split()[0]
    right, wrong = (["ps-worker", ARTIFACT, "--data", where, "--devices", "cpu:1x1", "--deadline", 60, "--servers", address] for where in (DATA, data))
    healthy = servers.Process(*right)
    at = draw.randrange(1, 40)
    server.wait_for(lambda: f"step {at} " in server.said(), f"step {at}")
    joined = servers.Process(*wrong)
    heard = joined.end(1)
    healthy.end(0)
    said = server.end(0)
    noted = re.findall(rf"^dtrun: note: .*{pattern}.*$", said, re.M)
    what = f"{'synchronous' if is_synchronous else 'asynchronous'}, {data.name}, from step {at} on"
    check(re.search(rf"^dtrun: error: .*{pattern}", heard, re.M) and noted, f"{what}: not said\n{heard}\n{said}")
    check(all(f"pid {joined.process.pid}" in line for line in noted) and f"pid {healthy.process.pid}" not in "".join(noted), f"{what}: another one is named\n{said}")
    if is_synchronous:
        check(left_by(folder) == WANTED, f"{what}: other bits\n{said}")
    else:
        ledger.check_epochs(folder / "ledger.jsonl", EPOCHS, N_ROWS // 32)
    return f"{what}: {noted[0]}"


count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
print(f"seed {seed}", flush=True)
Run("train", ARTIFACT, "--data", DATA, "--seed", 3, "--epochs", EPOCHS, "--replicas", REPLICAS, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / "whole")
WANTED = left_by(FOLDER / "whole")
with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
    for done in [pool.submit(kind, random.Random(f"{seed} {kind.__name__} {i}")) for i in range(count) for kind in (lie, stop, join)]:
        print(done.result(), flush=True)
finish()
