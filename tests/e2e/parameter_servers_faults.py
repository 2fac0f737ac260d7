"""A worker, server 0 and server 1 are killed on the way, and a worker is stopped: the others go on, with whoever comes in their place, to the bytes of a
training that nothing happened to. Without
checkpoints they begin again. What no restart helps against is an error that says who."""
import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from training import FOLDER, Run, check, command, finish, newest

REPLICAS, EPOCHS, SECONDS = 6, 100, 240
case = layouts.net()
flags = [*case.flags(REPLICAS), "--devices", "cpu:1x1", "--seed", 3, "--epochs", EPOCHS, "--keep", 1000]


def wait_for(what, holds, process):
    end = time.monotonic() + SECONDS
    while not holds():
        check(time.monotonic() < end and process.poll() is None, f"waited for {what}, exit status {process.poll()}\n{log.read_text()}")
        time.sleep(0.05)


def wait_for_more_steps(process):
    """Until something was trained that was not there before."""
    before = newest(folder)
    wait_for("another checkpoint", lambda: newest(folder) not in (None, before), process)


Run("train", case.artifact, *flags, "--checkpoint-dir", FOLDER / "whole")
folder, log = servers.new_folder(), FOLDER / "log"
with open(log, "w") as out:
    process = subprocess.Popen(command("train", case.artifact, *flags, "--checkpoint-dir", folder, "--checkpoint-every", 1, "--staleness", 0, "--local-servers", 2, "--workers", 2,
                                       "--deadline", 60), stdout=out, stderr=out)
    for name in ("worker 0", "server 0", "server 1"):
        wait_for_more_steps(process)
        os.kill(servers.children(process)[name], signal.SIGKILL)
    wait_for_more_steps(process)
    stopped = servers.children(process)["worker 0"]
    os.kill(stopped, signal.SIGSTOP)
    for _ in range(3):  # the first may have been under way
        wait_for_more_steps(process)
    os.kill(stopped, signal.SIGCONT)
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
check(process.returncode == 0, f"exit status {process.returncode}\n{log.read_text()}")
said = log.read_text()
for name in (r"worker \d", "server 0", "server 1"):
    check(re.search(f"{name} has disappeared: signal 9", said), f"nobody says that {name} was killed\n{said}")
check(layouts.left_by(folder) == layouts.left_by(FOLDER / "whole"), "what is left is not what an undisturbed training leaves\n" + said)

# Without a folder of checkpoints all begin again, in the same folder of the log.
logs = FOLDER / "logs"
brief = ["train", case.artifact, *flags[:-4], "--staleness", 0, "--deadline", 60]
with open(log, "w") as out:
    process = subprocess.Popen(command(*brief, "--epochs", EPOCHS, "--local-servers", 1, "--workers", 2, "--log-every", 1, "--log-dir", logs), stdout=out,
                               stderr=out)
    for name in ("worker 0", "server 0"):
        n = log.read_text().count('"event":"start"') + 1
        wait_for(f"start {n}", lambda n=n: log.read_text().count('"event":"step"') and log.read_text().count('"event":"start"') == n, process)
        os.kill(servers.children(process)[name], signal.SIGKILL)
    process.wait(SECONDS)
check(process.returncode == 0, f"exit status {process.returncode}\n{log.read_text()}")
starts = [line for line in (logs / "run.jsonl").read_text().splitlines() if '"event":"start"' in line]
check(len(starts) == 3, f"not three beginnings: {starts}")

# Server 0 is killed when it has told others that all is done: nothing is left to do.
with open(log, "w") as out:
    began = time.monotonic()
    process = subprocess.Popen(command(*brief, "--max-steps", 3, "--local-servers", 2, "--workers", 2), stdout=out, stderr=out)
    seen = {}
    while process.poll() is None and set(seen) <= set(there := servers.children(process)):
        seen = there
        time.sleep(0.001)
    if process.poll() is None and "server 0" in there:
        os.kill(there["server 0"], signal.SIGKILL)
    process.wait(SECONDS)
check(process.returncode == 0 and time.monotonic() - began < 40, f"exit status {process.returncode} after {time.monotonic() - began:.0f} s\n{log.read_text()}")

# A worker that crashes, and does so again.
with open(log, "w") as out:
    process = subprocess.Popen(command(*brief, "--epochs", EPOCHS, "--local-servers", 1, "--workers", 1), stdout=out, stderr=out)
    crashed = None
    while process.poll() is None:
        worker = servers.children(process).get("worker 0", crashed)
        if worker != crashed:
            os.kill(worker, signal.SIGABRT)
            crashed = worker
        time.sleep(0.01)
said = log.read_text()
check(process.returncode == 1 and "worker 0 has disappeared 5 times in a row" in said, f"exit status {process.returncode}\n{said}")

# Nobody comes: an error after the deadline.
lonely = subprocess.run(["dtrun", "ps-server", str(case.artifact), "--staleness", "0", "--listen", "127.0.0.1:*", "--deadline", "1"], capture_output=True, text=True, timeout=60)
check(lonely.returncode == 1 and "0 of 1 workers have come to the parameter servers within 1 s" in lonely.stderr, f"a server without workers: {lonely}")
lonely = subprocess.run(["dtrun", "ps-worker", str(case.artifact), "--servers", "127.0.0.1:9", "--deadline", "1"], capture_output=True, text=True, timeout=60)
check(lonely.returncode == 1 and "parameter server 0 (127.0.0.1:9) has not been there for 1 s" in lonely.stderr, f"a worker without servers: {lonely}")
finish()
