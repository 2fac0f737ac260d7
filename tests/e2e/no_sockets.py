"""A process that nobody launched opens no socket, neither to listen nor to talk: what docs/security.md says."""
import os
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *


def sockets(pid):
    """The sockets among the open files of a process."""
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found += [target] if (target := os.readlink(entry)).startswith("socket:") else []
        except FileNotFoundError:  # closed meanwhile
            pass
    return found


with socket.socket():
    check(sockets(os.getpid()), "a socket is not seen")

run = subprocess.Popen(command("train", compile_program(), "--data", write_data(), "--epochs", 100000, "--log-every", 1), stdout=subprocess.PIPE, text=True)
for _ in range(100):  # lines, from the start into the first epochs
    run.stdout.readline()
    check(run.poll() is None, "dtrun has ended")
    check(not sockets(run.pid), f"dtrun has opened {sockets(run.pid)}")
run.terminate()
run.communicate()
finish()
