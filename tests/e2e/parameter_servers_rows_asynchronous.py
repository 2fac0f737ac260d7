"""Asynchronous training of tables by rows: servers have their shares of the rows, a worker fetches those that its lease names. One worker leaves the bytes of
one process: of sgd those of training with all of each table, of Adam those of --lazy-rows. With more of them each batch is applied once, and an evaluation
says what it says of the checkpoint."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import ledger
import servers
from ratings import write_ratings
from training import Run, check, command, finish, left_by, newest

BATCH, BATCHES = 8, 12  # rows, and of an epoch
SOURCE = (pathlib.Path(os.environ["DT_SOURCE"]) / "tests/programs/recommend.dt").read_text()
write_ratings(layouts.DATA)


def train_one(case, folder, *flags):
    return Run("train", case.artifact, *case.flags(1), "--devices", "cpu:1x1", "--seed", 3, "--epochs", 2, "--checkpoint-dir", folder, *flags)


sgd, adam = layouts.Case("sgd", SOURCE, BATCH), layouts.Case("adam", SOURCE, BATCH, "-Dadaptive=true")
folder = servers.new_folder()
lazy = train_one(adam, folder, "--lazy-rows")
of_lazy, wanted = (left_by(folder), layouts.said(lazy.events)), layouts.train_one(sgd, 1)
for n_servers in 1, 2:
    servers.agrees(sgd, wanted, 1, n_servers, 1, "--rows", staleness=None)
    servers.agrees(adam, of_lazy, 1, n_servers, 1, "--lazy-rows", staleness=None)

# Three workers; and whoever goes on goes on from what they leave.
folder = servers.new_folder()
events = servers.train(adam, 1, 2, 3, folder, "--epochs", 2, "--lazy-rows", staleness=2)
ledger.check_epochs(folder / "ledger.jsonl", 2, BATCHES, most_lag=2)
evaluated = Run("evaluate", adam.artifact, *adam.flags(1), "--devices", "cpu:1x1", "--checkpoint-dir", folder)
last = [layouts.said([event])[0]["loss"] for event in events if event["event"] == "epoch" and event["step"] == "evaluate"][-1]
check(last == evaluated.one("epoch")["loss"], f"workers evaluate other rows than those of the checkpoint: {last}, {evaluated.events}")
servers.train(adam, 1, 3, 2, folder, "--epochs", 3, "--lazy-rows", "--resume", staleness=None)
check(newest(folder).name == f"step-{3 * BATCHES}", f"{newest(folder)}")

# A worker and a server are killed on the way.
folder = servers.new_folder()
process = subprocess.Popen(command("train", sgd.artifact, *sgd.flags(1), "--local-servers", 2, "--workers", 2, "--devices", "cpu:1x1", "--rows", "--epochs", 15,
                                   "--checkpoint-every", 5, "--checkpoint-dir", folder), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
for name in "worker", "server 1":
    before, end = newest(folder), time.monotonic() + servers.SECONDS
    while newest(folder) in (None, before) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    pid = next((pid for who, pid in servers.children(process).items() if who.startswith(name)), None)
    check(pid is not None, f"there is no {name}: {process.poll()}")
    os.kill(pid, signal.SIGKILL)
said = process.communicate(timeout=servers.SECONDS)[1]
check(process.returncode == 0 and len(re.findall("has disappeared: signal 9", said)) == 2, f"exit status {process.returncode}\n{said}")
ledger.check_epochs(folder / "ledger.jsonl", 15, BATCHES)
finish()
