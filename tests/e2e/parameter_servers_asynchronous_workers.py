"""Workers of an asynchronous training come and go: one that is asked to leave ends after its lease, one that joins late gets leases, one that cannot work
leaves alone. A run that is asked to end leaves a checkpoint to go on from; what no other worker could do better ends it, said once."""
import os
import re
import signal
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import ledger
import servers
from training import FOLDER, PROGRAM, check, compile_program, finish, newest

BATCH, BATCHES = 16, 16  # rows, and of an epoch
case = layouts.Case("net", PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", f"shuffle(250) | batch({BATCH})"), 32)
case.batch = BATCH
DATA = case.flags(1)[:2]
FLAGS = [*case.flags(1), "--devices", "cpu:1x1", "--seed", 3]


def server(folder, *more):
    """Server 0 of 1, and its address."""
    process = servers.Process("ps-server", case.artifact, *FLAGS, "--checkpoint-dir", folder, "--deadline", 60, "--listen", "127.0.0.1:*", *more)
    process.wait_for(lambda: "listens on" in process.said(), "its address")
    return process, process.said().split("listens on ")[1].split()[0]


def worker(address, *more):
    return servers.Process("ps-worker", case.artifact, *DATA, "--devices", "cpu:1x1", "--deadline", 60, "--servers", address, *more)


def applied(folder):
    """Lines of what was applied, by the worker's process."""
    return [int(pid) for pid in re.findall(r'"event":"applied".*, pid (\d+) ', (folder / "ledger.jsonl").read_text())]


def wait_for_more(process, folder, n, pid):
    """Until that worker has done so many."""
    process.wait_for(lambda: applied(folder).count(pid) >= n, f"{n} leases of pid {pid}")


# One leaves, one joins late, one has no data and leaves alone, and so does one that is to wait for a place.
EPOCHS = 60
folder = servers.new_folder()
first, address = server(folder, "--epochs", EPOCHS, "--checkpoint-every", 500)
leaves, stays = worker(address), worker(address)
wait_for_more(first, folder, 30, leaves.process.pid)
wait_for_more(first, folder, 30, stays.process.pid)
leaves.end(128 + signal.SIGTERM, signal.SIGTERM)
late = worker(address)
lost = worker(address, "--data", FOLDER / "nowhere").end(1)
check("nowhere: cannot open the data folder" in lost, f"a worker without data does not say so:\n{lost}")
wait_for_more(first, folder, 30, late.process.pid)
stays.end(0)
late.end(0)
said = first.end(0)
check("signal 15 (Terminated) has asked it to end: the others go on without it" in said, f"nobody notes that a worker has left\n{said}")
check("nowhere: cannot open the data folder" in said, f"nobody notes that a worker has no data\n{said}")
counts = ledger.check_epochs(folder / "ledger.jsonl", EPOCHS, BATCHES)
check(set(applied(folder)) == {one.process.pid for one in (leaves, stays, late)} and counts["lost"] == 0, counts)

# The run is asked to end, by the command that has started all of them; what goes on from there is asked everywhere at once, so that nobody is left to
# compute what is leased. It goes on from its newest checkpoint then too.
folder = servers.new_folder()
local = ["train", case.artifact, *FLAGS, "--checkpoint-dir", folder, "--local-servers", 2, "--workers", 3]
run = servers.Process(*local, "--epochs", 1000)
run.wait_for(lambda: (folder / "ledger.jsonl").exists() and len(applied(folder)) > 40, "40 leases")
run.end(128 + signal.SIGTERM, signal.SIGTERM)
step = int(newest(folder).name[5:])
check(step > 40 and step == len(applied(folder)), f"{newest(folder)} after {len(applied(folder))} leases")
first, address = server(folder, "--epochs", 1000, "--checkpoint-every", 5, "--resume")
all_workers = [worker(address) for _ in range(2)]
first.wait_for(lambda: len(applied(folder)) > step + 20, "20 leases more")
for one in all_workers:
    one.process.send_signal(signal.SIGINT)
first.end(128 + signal.SIGINT, signal.SIGINT)
n = int(newest(folder).name[5:])
check(n > step + 10, f"{newest(folder)} after {len(applied(folder))} leases")
servers.Process(*local, "--epochs", n // BATCHES + 2, "--resume").end(0)
ledger.check_epochs(folder / "ledger.jsonl", n // BATCHES + 2, BATCHES)

# A server is lost, and the worker learns of it when server 0 waits for another one: afterwards the worker counts as there, however long a lease takes.
DEADLINE = 6
folder = servers.new_folder()
run = servers.Process("train", case.artifact, *FLAGS, "--checkpoint-dir", folder, "--epochs", 100000, "--local-servers", 2, "--workers", 1, "--deadline", DEADLINE)
run.wait_for(lambda: newest(folder), "a checkpoint")
lost = servers.children(run.process)
os.kill(lost["worker 0"], signal.SIGSTOP)
os.kill(lost["server 1"], signal.SIGKILL)
run.wait_for(lambda: servers.children(run.process).get("server 1", lost["server 1"]) != lost["server 1"], "another server 1")
again = servers.children(run.process)["server 1"]
os.kill(again, signal.SIGSTOP)
run.wait_for(lambda: "the connection was lost" in run.said(), "its loss")
began = time.monotonic()
os.kill(lost["worker 0"], signal.SIGCONT)
time.sleep(1)
os.kill(again, signal.SIGCONT)
before = len(applied(folder))
run.wait_for(lambda: len(applied(folder)) > before and time.monotonic() - began > DEADLINE, "leases with another server 1")
os.kill(lost["worker 0"], signal.SIGSTOP)
time.sleep(0.5)
os.kill(lost["worker 0"], signal.SIGCONT)
before = len(applied(folder))
run.wait_for(lambda: len(applied(folder)) > before + 2, "leases after a slow one")
run.end(128 + signal.SIGTERM, signal.SIGTERM)

# Nobody comes, or everybody goes.
first, address = server(servers.new_folder(), "--deadline", 1)
said = first.end(1)
check("error: no worker has been there for 1 s" in said, said)
first, address = server(servers.new_folder(), "--epochs", 100000, "--deadline", 1)
one = worker(address)
first.wait_for(lambda: "epoch 2/" in first.said(), "an epoch")
one.end(128 + signal.SIGTERM, signal.SIGTERM)
said = first.end(1)
check(said.count("error: no worker has been there for 1 s") == 1, said)

# An index out of range, and NaN in the data, of one batch: said once, by whoever has started the run.
TABLE = """
use nn, optimizers
data rows = npy("x.npy", "i.npy") | batch(8)
model Net(x: f32[B, 6], i: i32[B]) -> f32[B] {
    param table: f32[5, 6] = glorot_uniform()
    return dense(x * table[i], units: 1)[:, 0]
}
step train(x: f32[B, 6], i: i32[B]) from rows {
    loss = square(Net(x, i))
    minimize(loss, sgd(learning_rate: 0.01))
    report loss: mean(loss)
}
"""
x, i = np.random.default_rng(1).normal(size=(400, 6)).astype(np.float32), np.zeros(400, np.int32)
for name, column, value, words, flags in (("index", i, 9, "index 9 is not within 0 to 4", ()), ("nan", x, np.nan, "input x holds NaN", ["--check-numerics"])):
    changed = column.copy()
    changed[300] = value
    data = FOLDER / name
    data.mkdir()
    np.save(data / "x.npy", changed if column is x else x)
    np.save(data / "i.npy", changed if column is i else i)
    table = compile_program(TABLE, name)
    folder = servers.new_folder()
    began = time.monotonic()
    said = servers.Process("train", table, "--data", data, "--epochs", 50, "--devices", "cpu:1x1", "--checkpoint-dir", folder, "--local-servers", 2,
                           "--workers", 3, *flags).end(1)
    check(said.count(words) == 1 and said.count("error: ") == 1 and "train step 38" in said, f"not once '{words}':\n{said}")
    check(time.monotonic() - began < 30, f"{time.monotonic() - began:.1f} s for an error")
    ledger.net(ledger.read(folder / "ledger.jsonl"))
finish()
