"""servers: trainings with parameter servers and workers on this machine, as `dtrun train --local-servers` starts them, or each a command of its own."""
import atexit
import json
import os
import pathlib
import re
import tempfile
import time

import layouts
from training import FOLDER, check, command, subprocess

SECONDS = 120  # for what is waited for


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"


def train(case, replicas, n_servers, n_workers, folder, *flags, staleness=0, seconds=SECONDS, expect=0):
    """The events of a training into the folder. staleness None: asynchronous, without a bound."""
    call = command("train", case.artifact, *case.flags(replicas), "--local-servers", n_servers, "--workers", n_workers,
                   *(["--staleness", staleness] if staleness is not None else []), "--devices", "cpu:1x1", "--seed", 3, "--checkpoint-dir", folder, *flags)
    done = subprocess.run(call, capture_output=True, text=True, timeout=seconds)
    check(done.returncode == expect, f"{case.name}, {n_servers} servers, {n_workers} workers {flags}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def agrees(case, wanted, replicas, n_servers, n_workers, *flags, **more):
    """Whether weights, slots, and what is reported of both epochs and their evaluations, are those of one process."""
    check(len(wanted[1]) >= 4, f"{case.name}: too little is reported to compare")
    folder = new_folder()
    events = train(case, replicas, n_servers, n_workers, folder, "--epochs", 2, *flags, **more)
    of_one = f"{case.name}, V={replicas}: {n_servers} servers and {n_workers} workers give other {{}} than one process"
    check(layouts.left_by(folder) == wanted[0], of_one.format("weights"))
    check(layouts.said(events) == wanted[1], of_one.format(f"reports: {layouts.said(events)} {wanted[1]}"))
    print(f"{case.name}, V={replicas}: {n_servers} servers and {n_workers} workers agree with one process", flush=True)


def children(process):
    """{"ps-worker 0": pid, …}: those that were started last come last."""
    found = {}
    for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        try:
            words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if not {"ps-server", "ps-worker"} & set(words):
            continue  # one that has not become a command yet; or a sanitizer's own, at the end
        part = next((word[len("--part="):].split("/")[0] for word in words if word.startswith("--part=")), None)
        name = f"server {part}" if part is not None else f"worker {sum(name.startswith('worker') for name in found)}"
        found[name] = int(pid)
    return found


class Process:
    def __init__(self, *words):
        self.log = FOLDER / f"log-{time.monotonic_ns()}"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(["dtrun", *map(str, words)], stdout=log, stderr=log, start_new_session=True)
        atexit.register(self.process.kill)  # it may have ended long since

    def said(self):
        return self.log.read_text()

    def wait_for(self, holds, what):
        end = time.monotonic() + SECONDS
        while not holds():
            check(time.monotonic() < end and self.process.poll() is None, f"waited for {what}, exit status {self.process.poll()}\n{self.said()}")
            time.sleep(0.02)

    def listens_to(self, number):
        """Whether that signal would not just end it."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"SigCgt:\t(\w+)", status)[1], 16) >> (number - 1) & 1

    def end(self, code, number=None):
        """The lines that it has printed; `number`: once that signal has asked it to end, as a terminal does: it, and whoever has stayed in its group."""
        if number is not None:
            self.wait_for(lambda: self.listens_to(number), f"its attention to signal {number}")
            os.killpg(self.process.pid, number)
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
        check(self.process.returncode == code, f"exit status {self.process.returncode}, not {code}\n{self.said()}")
        return self.said()
