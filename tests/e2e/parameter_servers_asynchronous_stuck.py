"""A worker of an asynchronous training that lives and does not get on loses its lease after the deadline: others compute it, the worker is named, what it still sends
is dropped, and the ledger accounts for it. When it gets on again it takes part again."""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import ledger
import servers
from frozen import Frozen
from training import PROGRAM, check, finish

DEADLINE, SECONDS = 3, 60
LOST = "pid {} (127.0.0.1): it has not got on with its lease for"
case = layouts.Case("net", PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", "shuffle(250) | batch(16)").replace("units: 32", "units: 1024"), 32)
flags = [*case.flags(1), "--devices", "cpu:1x1"]
folder = servers.new_folder()


def wait_for(words):
    end = time.monotonic() + SECONDS
    while not re.search(words, server.said()):
        check(time.monotonic() < end and server.process.poll() is None, f"no '{words}', exit status {server.process.poll()}\n{server.said()}")
        time.sleep(0.02)


def is_lost(n, seconds):
    end = time.monotonic() + seconds
    while server.said().count(LOST.format(stuck.process.pid)) == n and time.monotonic() < end:
        time.sleep(0.05)
    return time.monotonic() < end


def returned():
    return [line for line in ledger.read(folder / "ledger.jsonl") if line["event"] == "returned" and str(stuck.process.pid) in line["worker"]]


def applied():
    return [line for line in ledger.read(folder / "ledger.jsonl") if line["event"] == "applied"]


server = servers.Process("ps-server", case.artifact, *flags, "--seed", 3, "--checkpoint-dir", folder, "--epochs", 100_000, "--listen", "127.0.0.1:*", "--deadline", DEADLINE)
wait_for(r"listens on \S+\n")
address = re.search(r"listens on (\S+)\n", server.said())[1]
works = ["ps-worker", case.artifact, *flags[:2], "--devices", "cpu:1x1", "--servers", address, "--deadline", 60]
stuck, other = (servers.Process(*works) for _ in range(2))
server.wait_for(lambda: (folder / "ledger.jsonl").exists() and len({line["worker"] for line in applied()}) == 2, "leases of both workers")
for _ in range(6):  # where it has pushed what it had, nothing is returned; where it waits for a server, it is not to blame
    n_lost = server.said().count(LOST.format(stuck.process.pid))
    thread = Frozen(stuck.process.pid)
    if is_lost(n_lost, DEADLINE + 4) and returned():
        break
    thread.let_go()
    time.sleep(0.3)
check(LOST.format(stuck.process.pid) in server.said(), f"nobody names the worker\n{server.said()}")
n = len(applied())
server.wait_for(lambda: len(applied()) > n + 20, "the other worker")
thread.let_go()
server.wait_for(lambda: any(str(stuck.process.pid) in line["worker"] for line in applied()[n + 20:]), "the worker that gets on again")
server.end(128 + signal.SIGTERM, signal.SIGTERM)
for worker in (stuck, other):
    worker.end(0)
lines = ledger.read(folder / "ledger.jsonl")
ledger.net(lines)  # each batch is applied once
check(returned(), "no lease was returned")
check(all(any(line["event"] == "applied" and (line["epoch"], line["batch"]) == (one["epoch"], one["batch"]) and line["line"] > one["line"] for line in lines) for one in returned()),
      f"what was returned nobody has computed: {returned()}")
finish()
