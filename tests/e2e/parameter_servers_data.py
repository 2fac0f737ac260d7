"""Parameter servers and a worker that reads other data: fewer examples, other bytes, an index that is out of range there alone. Server 0 refuses it, both say which row
of which file, and the job goes on as if it had never come: with the bits of one process, each batch in the ledger once. What is wrong with the data that all have ends the
run, and names the worker."""
import concurrent.futures
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import ledger
import servers
from training import FOLDER, PROGRAM, Run, check, compile_program, finish, left_by, write_data, gzip, idx, make_examples

N_ROWS, EPOCHS = 320, 6
TEXT = PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", "shuffle(1000) | batch(32)")
ARTIFACT = compile_program(TEXT, "net")
DATA = write_data(FOLDER / "data", n=N_ROWS, n_test=60)
FEWER = write_data(FOLDER / "fewer", n=N_ROWS // 2, n_test=60)


def with_labels(name, change):
    folder = write_data(FOLDER / name, n=N_ROWS, n_test=60)
    labels = bytearray(make_examples(N_ROWS, 1)[1])
    for row in range(N_ROWS):
        labels[row] = change(row, labels[row])
    (folder / "labels.gz").write_bytes(gzip.compress(idx(labels, N_ROWS), mtime=0))
    return folder


OTHER = with_labels("other", lambda row, label: (label + 1) % 10)
OUT_OF_RANGE = with_labels("out-of-range", lambda row, label: 77 if row % 8 == 3 else label)
FLAGS = ["--devices", "cpu:1x1", "--deadline", 60]
common = ["--seed", 3, "--epochs", EPOCHS, "--data", DATA]
Run("train", ARTIFACT, *common, "--replicas", 2, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / "two")
Run("train", ARTIFACT, *common, "--replicas", 1, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / "one")
WANTED = {True: left_by(FOLDER / "two"), False: left_by(FOLDER / "one")}


def refuses(is_synchronous, data, pattern):
    """One healthy worker, and one with `data`, which comes first."""
    folder = servers.new_folder()
    mode = ["--staleness", 0, "--replicas", 2] if is_synchronous else []
    server = servers.Process("ps-server", ARTIFACT, *common, *mode, "--devices", "cpu:1x1", "--listen", "127.0.0.1:*", "--checkpoint-dir", folder, "--workers", 2)
    server.wait_for(lambda: "listens on" in server.said(), "its address")
    address = server.said().split("listens on ")[1].split()[0]
    wrong = servers.Process("ps-worker", ARTIFACT, "--data", data, *FLAGS, "--servers", address)
    if not is_synchronous:
        wrong.end(1)  # before the other one has done all there is
    right = servers.Process("ps-worker", ARTIFACT, "--data", DATA, *FLAGS, "--servers", address)
    said_by_worker, said = wrong.end(1), (right.end(0), server.end(0))[1]
    check(re.search(rf"^dtrun: error: .*{pattern}", said_by_worker, re.M), f"{pattern}: the worker does not say it\n{said_by_worker}")
    noted = re.findall(rf"^dtrun: note: .*{pattern}.*$", said, re.M)
    check(noted and all(f"pid {wrong.process.pid}" in line for line in noted), f"{pattern}: the server does not say who\n{said}")
    check(f"pid {right.process.pid}" not in "".join(re.findall("^dtrun: .*$", said, re.M)), f"the healthy one is blamed\n{said}")
    check(left_by(folder) == WANTED[is_synchronous], f"{pattern}: other bits\n{said}")
    if not is_synchronous:
        ledger.check_epochs(folder / "ledger.jsonl", EPOCHS, N_ROWS // 32)
    print(noted[0])


cases = [(FEWER, "examples in its files"), (OTHER, r"\(from 0\) of \S+/labels.gz differs"), (OUT_OF_RANGE, r"\(from 0\) of \S+/labels.gz differs")]


def is_refused_once(artifact):
    """Of a step so long that devices are at work when they hear of it: the worker does not come again and again, until the job gives up."""
    server = servers.Process("ps-server", artifact, *common, "--staleness", 0, "--replicas", 2, "--devices", "cpu:1x1", "--listen", "127.0.0.1:*", "--workers", 2)
    server.wait_for(lambda: "listens on" in server.said(), "its address")
    workers = [servers.Process("ps-worker", artifact, "--data", data, *FLAGS, "--servers", server.said().split("listens on ")[1].split()[0]) for data in (OTHER, DATA)]
    workers[0].end(1)
    workers[1].end(0)
    said = server.end(0)
    check(len(re.findall(r"^dtrun: note: process \d .* has other data than process 0", said, re.M)) == 1, f"not refused at once\n{said}")


def counts(data):
    """Under --no-data-check, where only the numbers of examples are compared."""
    server = servers.Process("ps-server", ARTIFACT, *common, "--devices", "cpu:1x1", "--listen", "127.0.0.1:*", "--workers", 1, "--no-data-check")
    server.wait_for(lambda: "listens on" in server.said(), "its address")
    address = server.said().split("listens on ")[1].split()[0]
    said = servers.Process("ps-worker", ARTIFACT, "--data", data, *FLAGS, "--servers", address).end(1)
    check(re.search(r"^dtrun: error: server 0, .* refuses this process: it has other data than server 0: it finds", said, re.M), f"it is not said who\n{said}")
    servers.Process("ps-worker", ARTIFACT, "--data", OTHER, *FLAGS, "--servers", address).end(0)
    server.end(0)


for units in (4096, 16384):
    is_refused_once(compile_program(TEXT.replace("units: 32", f"units: {units}").replace("    x = batch_norm(x)\n", ""), f"wide-{units}"))
counts(FEWER)
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for done in [pool.submit(refuses, is_synchronous, *case) for case in cases for is_synchronous in (True, False)]:
        done.result()

# Data that all have.
for mode in (["--staleness", 0], []):
    said = servers.Process("train", ARTIFACT, "--data", OUT_OF_RANGE, "--epochs", 2, "--devices", "cpu:1x1", "--local-servers", 1, "--workers", 2, "--replicas", 2, *mode).end(1)
    errors = re.findall("^dtrun: error: .*$", said, re.M)
    check(len(errors) == 1 and re.search(r"(worker|process \d) ?\(?\S+, pid \d+.*index 77 .*: row \d+ \(from 0\) of .*labels.gz|"
                                         r"index 77 .* in process \d \(\S+, pid \d+\): row \d+ \(from 0\) of .*labels.gz", errors[0]), f"not once, or not who and where:\n{said}")
    print(errors[0])
finish()
