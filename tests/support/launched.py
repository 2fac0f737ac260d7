"""launched: runs of `dtrun launch` on this machine, whose processes are known by their state files: to be killed, stopped, and looked for afterwards."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import mpi
from training import FOLDER, check

STATE = re.compile(r"process (\d+) of (\d+) on (\S+), pid (\d+), began at (\d+)\nphase (\d), waits (\d), person knows (\d), progress at ([\d.]+)\n(.*)\n")


def read_states(folder):
    """What each process says: {process: (pid, phase, doing)}."""
    states = {}
    for path in list_files(folder):
        try:
            found = STATE.match(path.read_text())
        except OSError:
            continue
        if found:
            states[int(found[1])] = int(found[4]), int(found[6]), found[10]
    return states


def list_files(folder):
    """Of states; none where the launch takes its folder away meanwhile."""
    try:
        return list(pathlib.Path(folder).glob("dtrun-launch-*/process-*"))
    except OSError:
        return []


class Launch:
    """`dtrun launch`, under way. `seen`: the process ids of all its processes, as far as they were looked at."""

    def __init__(self, n, *arguments, deadline=4, restarts=0, flavour="openmpi", mpirun=None):
        programs, _, options, _ = mpi.FLAVOURS[flavour]
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        self.errors = open(self.folder / "errors", "w+")
        self.output = open(self.folder / "output", "w+")
        program = mpirun or next(filter(None, map(shutil.which, programs)))
        self.seen = {}
        self.process = subprocess.Popen(
            ["dtrun", "launch", "-n", str(n), *(["--deadline", str(deadline)] if deadline else []), "--restarts", str(restarts), "--mpirun", str(program), "--mpirun-options",
             " ".join(options), *map(str, arguments)],
            env=mpi.environment_of(flavour, TMPDIR=str(self.folder)), stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.errors)

    def states(self):
        states = read_states(self.folder)
        for pid, _, _ in states.values():
            self.seen[pid] = True
        return states

    def wait_until(self, condition, seconds=60):
        """The states for which it holds; None: the run ended before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            states = self.states()
            if states and condition(states):
                return states
            if self.process.poll() is not None:
                return None
            time.sleep(0.005)
        self.end_badly(f"waited {seconds} s in vain: {self.states()}")

    def wait_for_step(self, n, seconds=60):
        """Until n processes train."""
        return self.wait_until(lambda states: len(states) == n and all(doing.startswith("train step") for _, _, doing in states.values()), seconds)

    def error(self):
        return (self.folder / "errors").read_text()

    def messages(self):
        """The errors that are ours."""
        return re.findall(r"^dtrun: error: (.*)$", self.error(), re.M)

    def wait_for_message(self, pattern, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if re.search(pattern, self.error(), re.M) or self.process.poll() is not None:
                return
            time.sleep(0.01)

    def end(self, seconds=120):
        """Its exit status, when it has ended by itself; nothing is left of it."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            self.states()
            if time.monotonic() > end:
                self.end_badly(f"has not ended after {seconds} s")
            time.sleep(0.02)
        def here():
            return [pid for pid in self.seen if os.path.exists(f"/proc/{pid}")]

        end = time.monotonic() + 5  # of whom a signal has ended, on a busy machine
        while here() and time.monotonic() < end:
            time.sleep(0.02)
        left = here()
        check(not left, f"processes {left} are left\n{self.error()}")
        return self.process.returncode

    def end_badly(self, why):
        self.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        check(False, f"{why}\n{(self.folder / 'output').read_text()[-1000:]}{self.error()}")
