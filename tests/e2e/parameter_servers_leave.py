"""Who is asked to leave a training with parameter servers: a worker leaves at the end of a step, and the others go on to the bytes of one process; server 0,
or the command that has started all of them, ends the run for all with a checkpoint, from which it goes on without saying --replicas again. Processes that
do not belong to the run keep nobody from it, and what is wrong is said once."""
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from training import FOLDER, Run, check, finish, left_by, newest

REPLICAS, EPOCHS = 6, 60
case = layouts.net()
data = case.flags(REPLICAS)[:2]
check(data[0] == "--data", data)
flags = [*case.flags(REPLICAS), "--seed", 3, "--epochs", EPOCHS]
whole = FOLDER / "whole"
Run("train", case.artifact, *flags, "--devices", "cpu:1x1", "--checkpoint-dir", whole)
wanted = left_by(whole)


def server(*more):
    """Server 0 of 1, and its address."""
    process = servers.Process("ps-server", case.artifact, *data, "--staleness", 0, "--devices", "cpu:1x1", "--deadline", 60, "--listen", "127.0.0.1:*", "--log-every", 1, *more)
    process.wait_for(lambda: "listens on" in process.said(), "its address")
    return process, process.said().split("listens on ")[1].split()[0]


def worker(address, *more):
    return servers.Process("ps-worker", case.artifact, *data, "--devices", "cpu:1x1", "--deadline", 60, "--servers", address, *more)


# A worker, in the middle; and one that has other settings, which leaves by itself.
folder = servers.new_folder()
first, address = server(*flags, "--checkpoint-dir", folder, "--workers", 2)
workers = [worker(address) for _ in range(2)]
first.wait_for(lambda: "step 20 " in first.said(), "step 20")
stays, leaves = workers
check("--library" in worker(address, "--library", "none").end(1), "a worker with other settings does not say which")
leaves.end(128 + signal.SIGTERM, signal.SIGTERM)
stays.end(0)
said = first.end(0)
check("signal 15 (Terminated) has asked it to end: the others go on without it" in said, f"nobody notes that a worker has left\n{said}")
check("workers have come or gone: " in said and "stopped by a signal" not in said, f"server 0 was not stopped, and says so\n{said}")
check(left_by(folder) == wanted, f"without a worker that has left the bits are others\n{said}")

# One that waits for a place, or for a server.
first, address = server(*flags[:-2], "--max-steps", 100000, "--replicas", 1)
second = worker(address)
first.wait_for(lambda: "step 20 " in first.said(), "step 20")
waits = worker(address)
waits.end(128 + signal.SIGTERM, signal.SIGTERM)
worker("127.0.0.1:9").end(128 + signal.SIGINT, signal.SIGINT)
first.end(128 + signal.SIGTERM, signal.SIGTERM)
second.end(128 + signal.SIGTERM)

# The command that has started all; then server 0 of what goes on, in as many replicas as the checkpoint says.
folder = servers.new_folder()
local = ["train", case.artifact, *data, "--staleness", 0, "--devices", "cpu:1x1", "--checkpoint-dir", folder, "--local-servers", 2, "--workers", 2, "--log-every", 1]
run = servers.Process(*local, *flags)
run.wait_for(lambda: "step 10 " in run.said(), "step 10")
run.end(128 + signal.SIGINT, signal.SIGINT)
before = newest(folder)
check(before is not None, f"an end that was asked for leaves no checkpoint\n{run.said()}")
run = servers.Process(*local, "--epochs", EPOCHS, "--resume")
run.wait_for(lambda: f"{REPLICAS} replicas" in run.said() and run.said().count("step ") > 5, f"{REPLICAS} replicas")
said = run.end(0)
check("workers" not in said and left_by(folder) == wanted, f"what goes on has other bits\n{said}")

# What is wrong is said once, at once.
for words, flag in (("there is a checkpoint already", flags), ("nowhere: cannot open", [*flags, "--data", "nowhere", "--resume"])):
    began = time.monotonic()
    said = servers.Process(*local, *flag).end(1)
    check(said.count("error: ") == 1 and words in said, f"not once '{words}':\n{said}")
    check(time.monotonic() - began < 30, f"{time.monotonic() - began:.1f} s for an error")
finish()
