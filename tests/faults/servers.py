"""servers: parameter servers and workers meet faults at random moments: killed, stopped, asked to leave, cut off, silent wires, a full disk. Each run ends, in time: with the
bits of a run that nothing disturbed, or with an error that says what happened, after which it goes on to these bits.

    servers.py N [SEED [rows | asynchronous]]      N runs, a fault in each

With `rows` servers have rows of tables, and workers take those that they need. With `asynchronous` workers wait for nobody: in place of the bits each batch of
each epoch stands in the ledger once, and the model is about as good as the undisturbed one.

Each process is a command of its own, started again when it was killed, as one would on several machines; workers reach the servers through wires of this
script, which can be cut.
"""
import concurrent.futures
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

IN_NAMESPACE = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
if "DT_OWN_MOUNTS" not in os.environ:  # whatever is mounted is gone with this process
    if subprocess.run([*IN_NAMESPACE, "true"], capture_output=True).returncode != 0:
        print("skipped: this process may not mount a file system of its own")
        sys.exit(77)
    os.execvpe("unshare", [*IN_NAMESPACE, sys.executable, *sys.argv], {**os.environ, "DT_OWN_MOUNTS": "1"})

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import ledger  # noqa: E402
from training import FOLDER, PROGRAM, Run, check, compile_program, finish, left_by, newest, write_data  # noqa: E402

N_SERVERS, N_WORKERS, REPLICAS = 2, 2, 4
DEADLINE = 30
LIMIT = 240  # seconds of a run, on a busy machine
AT_ONCE = 2  # runs
DISK_BYTES = 16 << 20

BY_ROWS, IS_ASYNCHRONOUS = (sys.argv[3:] == [mode] for mode in ("rows", "asynchronous"))


def write_ratings(folder):
    folder.mkdir()
    random = np.random.default_rng(3)
    for name, values in (("user", random.integers(0, 500, 1000)), ("items", random.integers(0, 2000, (1000, 3))), ("rating", random.normal(size=1000))):
        np.save(folder / f"{name}.npy", values.astype({"user": np.int32, "items": np.int64, "rating": np.float32}[name]))
    return folder


if BY_ROWS:
    ARTIFACT = compile_program((pathlib.Path(os.environ["DT_SOURCE"]) / "tests/programs/recommend.dt").read_text(), "recommend")
    DATA = write_ratings(FOLDER / "data")
else:
    ARTIFACT = compile_program(PROGRAM.replace("batch(32)", "batch(16)"), "net")
    DATA = write_data(FOLDER / "data", n=1000, n_test=60)
EPOCHS, BATCHES = 3, -(-1000 // 16)
WORTH = 0.2  # of accuracy, that lag may cost, and chance
FLAGS = ["--data", DATA, "--replicas", 1 if IS_ASYNCHRONOUS else REPLICAS, "--devices", "cpu:1x1", "--seed", 3, "--epochs", EPOCHS]
MODE = [] if IS_ASYNCHRONOUS else ["--staleness", 0, *(["--rows"] if BY_ROWS else [])]
LATEST_STEP = 150 if IS_ASYNCHRONOUS else 36  # at which something happens


class Wire:
    """A port that leads to another one, until it is cut: connections are closed, or nothing comes through any more."""

    def __init__(self, target):
        self.target, self.ends, self.is_refusing, self.is_silent = target, [], False, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                here, _ = self.listener.accept()
                if self.is_refusing:
                    here.close()
                    continue
                there = socket.create_connection(("127.0.0.1", self.target), 5)
                there.settimeout(None)
            except OSError:
                if self.listener.fileno() < 0:
                    return
                here.close()  # the server is not there
                continue
            self.ends += [here, there]
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        try:
            while data := one.recv(1 << 16):
                while self.is_silent:
                    time.sleep(0.02)
                other.sendall(data)
        except OSError:
            pass
        end(one), end(other)

    def cut(self, seconds):
        self.is_refusing = True
        for one in self.ends:
            end(one)
        time.sleep(seconds)
        self.is_refusing = False

    def silence(self, seconds):
        self.is_silent = True
        time.sleep(seconds)
        self.is_silent = False

    def close(self):
        self.listener.close()
        for one in self.ends:
            end(one)


def end(connection):
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended already
        pass


def free_ports(n):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Member:
    """A server or a worker, started again when a signal has ended it."""

    def __init__(self, name, command, log, again=()):
        self.name, self.command, self.again, self.log = name, [str(word) for word in command], list(again), log
        self.code, self.lock, self.is_over, self.is_asked = None, threading.Lock(), False, False
        self.start(self.command)

    def start(self, command):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def look(self):
        """Whether it has ended, other than by SIGKILL."""
        with self.lock:
            code = self.process.poll()
            if code == -signal.SIGKILL and not self.is_over:
                self.start(self.command + self.again)
            elif code is not None:
                self.code = 0 if self.is_asked and code == 128 + signal.SIGTERM else code
        return self.code is not None

    def send(self, number):
        with self.lock:
            if self.process.poll() is None:
                self.process.send_signal(number)

    def end(self):
        with self.lock:
            self.is_over = True
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()


class Team:
    def __init__(self, folder, *flags):
        self.folder = folder
        ports = free_ports(N_SERVERS)
        addresses = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.wires = [[Wire(port) for port in ports] for _ in range(N_WORKERS)]
        log = lambda name: folder.parent / f"{name}.log"  # noqa: E731
        self.members = [
            Member(f"server {s}", ["dtrun", "ps-server", ARTIFACT, "--listen", f"127.0.0.1:{ports[s]}", "--servers", addresses, "--part", f"{s}/{N_SERVERS}",
                                   "--workers", N_WORKERS, "--deadline", DEADLINE, "--log-every", 1, "--checkpoint-dir", folder, "--checkpoint-every", 20,
                                   *FLAGS, *MODE, *flags], log(f"server{s}"), ["--resume"]) for s in range(N_SERVERS)]
        self.members += [
            Member(f"worker {w}", ["dtrun", "ps-worker", ARTIFACT, "--servers", ",".join(wire.address for wire in self.wires[w]), "--data", DATA,
                                   "--devices", "cpu:1x1", "--deadline", DEADLINE], log(f"worker{w}")) for w in range(N_WORKERS)]

    def said(self):
        return "\n".join(member.log.read_text(errors="replace") for member in self.members)

    def wait_for_step(self, step):
        end_at = time.monotonic() + LIMIT
        while time.monotonic() < end_at and not any(member.code is not None for member in self.members):
            if re.search(rf"^step {step} ", self.members[0].log.read_text(), re.MULTILINE):
                return
            self.look()
            time.sleep(0.05)

    def look(self):
        return [member.look() for member in self.members]

    def wait(self, seconds):
        """Whether all have ended within that time."""
        end_at = time.monotonic() + seconds
        while time.monotonic() < end_at:
            if all(self.look()):
                return True
            time.sleep(0.05)
        return False

    def end(self):
        for member in self.members:
            member.end()
        for wire in (wire for wires in self.wires for wire in wires):
            wire.close()


# ---- faults: what each does to a team; numbers are the run's random ones ----

def kill(team, numbers):
    victim = numbers.choice(team.members)
    victim.send(signal.SIGKILL)
    return f"{victim.name} is killed"


def stop(team, numbers):
    victim, seconds = numbers.choice(team.members), numbers.uniform(0.1, 9)
    victim.send(signal.SIGSTOP)
    time.sleep(seconds)
    victim.send(signal.SIGCONT)
    return f"{victim.name} is stopped for {seconds:.1f} s"


def ask(team, numbers):
    victim = numbers.choice(team.members[N_SERVERS:])
    victim.is_asked = True
    victim.send(signal.SIGTERM)
    return f"{victim.name} is asked to leave"


def cut(team, numbers):
    worker, seconds = numbers.randrange(N_WORKERS), numbers.uniform(0, 3)
    numbers.choice(team.wires[worker]).cut(seconds)
    return f"worker {worker} is cut off from a server for {seconds:.1f} s"


def silence(team, numbers):
    worker, seconds = numbers.randrange(N_WORKERS), numbers.uniform(1, 9)
    numbers.choice(team.wires[worker]).silence(seconds)
    return f"worker {worker} hears nothing of a server for {seconds:.1f} s"


def fill_disk(team, numbers):
    del numbers
    filler = team.folder / "filler"
    try:
        with open(filler, "wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
    except OSError:
        pass
    return "the disk is full"


FAULTS = (kill, kill, stop, ask, cut, silence, fill_disk)


def accuracy_of(folder):
    return Run("evaluate", ARTIFACT, *FLAGS[:4], "--devices", "cpu:1x1", "--checkpoint-dir", folder).one("epoch")["accuracy"]


def find_wrong(folder, wanted):
    """What is wrong with what a run has left that should have ended right; "" for nothing."""
    if not IS_ASYNCHRONOUS:
        return "" if left_by(folder) == wanted else f"{(newest(folder) or folder).name} has other bits than {wanted[0]}"
    try:
        ledger.check_epochs(folder / "ledger.jsonl", EPOCHS, BATCHES)
    except ledger.Wrong as wrong:
        return str(wrong)
    accuracy = accuracy_of(folder)
    return "" if accuracy > wanted - WORTH else f"accuracy {accuracy}, undisturbed {wanted}"


def run(i, seed, wanted):
    """What is wrong with a run, "" for nothing; what was done to it; how it ended."""
    numbers = random.Random(f"{seed} {i}")
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", folder], check=True)
    team = Team(folder)
    try:
        team.wait_for_step(numbers.randrange(1, LATEST_STEP))
        time.sleep(numbers.uniform(0, 0.3))
        fault = numbers.choice(FAULTS)(team, numbers)
        if not team.wait(LIMIT):
            return f"not ended after {LIMIT} s:\n{team.said()}", fault, "hung"
        codes = [member.code for member in team.members]
        if codes == [0] * len(codes):
            wrong = find_wrong(folder, wanted)
            return wrong and f"{wrong}:\n{team.said()}", fault, "ended" if wrong else "ended right"
        (folder / "filler").unlink(missing_ok=True)
        errors = re.findall(r"^dtrun: error: (.*)", team.said(), re.MULTILINE)
        if not errors or not set(codes) <= {0, 1}:
            return f"exit status {codes}, errors {errors}:\n{team.said()}", fault, "without a name"
        if fault == "the disk is full" and not any("No space left on device" in error for error in errors):
            return f"the disk is not named: {errors}", fault, "without a name"
        team.end()
        team = Team(folder, "--resume") if newest(folder) or IS_ASYNCHRONOUS else Team(folder)
        wrong = "" if team.wait(LIMIT) and all(member.code == 0 for member in team.members) else f"exit status {[member.code for member in team.members]}"
        if wrong := wrong or find_wrong(folder, wanted):
            return f"it does not go on: {wrong}:\n{team.said()}", fault, "named"
        return "", fault, f"named: {errors[0]}; and gone on"
    finally:
        team.end()
        subprocess.run(["umount", folder], check=False)


def main(n, seed):
    folder = FOLDER / "undisturbed"
    Run("train", ARTIFACT, *FLAGS, "--checkpoint-dir", folder)
    wanted = accuracy_of(folder) if IS_ASYNCHRONOUS else left_by(folder)
    n_wrong = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for i, outcome in enumerate(pool.map(lambda i: run(i, seed, wanted), range(n))):
            wrong, fault, how = outcome
            n_wrong += wrong != ""
            print(f"{i + 1}: {fault}: {how}{': ' if wrong else ''}{wrong}", flush=True)
    print(f"{n - n_wrong} of {n} ended right, or with a name and gone on to the end of an undisturbed one")
    check(n_wrong == 0, "not all did")
    finish()


main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
