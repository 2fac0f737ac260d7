"""A worker, server 0 and server 1 are killed on the way, and a worker is stopped: the others go on, with whoever comes in their place, to the bytes of a
training that nothing happened to. What no restart helps against is an error that says who."""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from training import FOLDER, Run, check, command, finish, newest

REPLICAS, EPOCHS, SECONDS = 6, 40, 240
case = layouts.net()
flags = [*case.flags(REPLICAS), "--devices", "cpu:1x1", "--seed", 3, "--epochs", EPOCHS, "--keep", 1000]


def children(process):
    """{"ps-worker 0": pid, …}: those that were started last come last."""
    found = {}
    for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except FileNotFoundError:
            continue
        part = next((word[len("--part="):].split("/")[0] for word in words if word.startswith("--part=")), None)
        name = f"server {part}" if part is not None else f"worker {sum(name.startswith('worker') for name in found)}"
        found[name] = int(pid)
    return found


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
    process = subprocess.Popen(command("train", case.artifact, *flags, "--checkpoint-dir", folder, "--checkpoint-every", 1, "--local-servers", 2, "--workers", 2,
                                       "--deadline", 60), stdout=out, stderr=out)
    for name in ("worker 0", "server 0", "server 1"):
        wait_for_more_steps(process)
        os.kill(children(process)[name], signal.SIGKILL)
    wait_for_more_steps(process)
    stopped = children(process)["worker 0"]
    os.kill(stopped, signal.SIGSTOP)
    wait_for_more_steps(process)
    os.kill(stopped, signal.SIGCONT)
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
check(process.returncode == 0, f"exit status {process.returncode}\n{log.read_text()}")
said = log.read_text()
for name in ("worker 0", "server 0", "server 1"):
    check(f"{name} has disappeared: signal 9" in said or name == "worker 0" and "has disappeared: signal 9" in said, f"nobody says that {name} was killed\n{said}")
check(layouts.left_by(folder) == layouts.left_by(FOLDER / "whole"), "what is left is not what an undisturbed training leaves\n" + said)

# Nobody comes: an error after the deadline.
lonely = subprocess.run(["dtrun", "ps-server", str(case.artifact), "--listen", "127.0.0.1:*", "--deadline", "1"], capture_output=True, text=True, timeout=60)
check(lonely.returncode == 1 and "0 of 1 workers have come to the parameter servers within 1 s" in lonely.stderr, f"a server without workers: {lonely}")
lonely = subprocess.run(["dtrun", "ps-worker", str(case.artifact), "--servers", "127.0.0.1:9", "--deadline", "1"], capture_output=True, text=True, timeout=60)
check(lonely.returncode == 1 and "parameter server 0 (127.0.0.1:9) has not been there for 1 s" in lonely.stderr, f"a worker without servers: {lonely}")
finish()
