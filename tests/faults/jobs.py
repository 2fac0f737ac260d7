"""jobs: two trainings with two parameter servers and a worker each, one synchronous and one asynchronous, and processes whose addresses are wrong: of servers of both, of
one in the place of another, or of the right ones under another job's name. Each ends alone, with an error that says which address or name is wrong, and the trainings
end as if nobody had come.

    jobs.py N [SEED]
"""
import os
import random
import re
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import ledger  # noqa: E402
from training import FOLDER, PROGRAM, bits, check, compile_program, finish, write_data, Run  # noqa: E402

AT_ONCE = 3
EPOCHS, BATCHES = 4, 10
PROGRAM_SHORT = compile_program(PROGRAM.replace("take(1000) | shuffle(1000)", "shuffle(320)"), "net")
DATA = write_data(FOLDER / "data", n=320, n_test=32)
FLAGS = ["--data", DATA, "--devices", "cpu:1x1", "--seed", 3, "--epochs", EPOCHS]
WORKS = ["--data", DATA, "--devices", "cpu:1x1", "--deadline", 60]
JOBS = {"sync": ["--replicas", 2, "--staleness", 0], "async": ["--replicas", 1]}


def start(*words):
    return subprocess.Popen(["dtrun", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def free_ports(n):
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


class Job:
    """Two servers, which wait for a worker."""

    def __init__(self, name):
        self.name, self.folder = name, FOLDER / f"ck-{name}"
        self.addresses = [f"localhost:{port}" for port in free_ports(2)]
        self.servers = [self.start_server(part, "--listen", self.addresses[part]) for part in range(2)]

    def start_server(self, part, *more, servers=None):
        return start("ps-server", PROGRAM_SHORT, *FLAGS, *JOBS[self.name], "--checkpoint-dir", self.folder, "--deadline", 3600, "--part", f"{part}/2",
                     "--servers", ",".join(servers or self.addresses), *more)

    def end(self):
        processes = [*self.servers, start("ps-worker", PROGRAM_SHORT, *WORKS, "--servers", ",".join(self.addresses))]
        for process in processes:
            out, error = process.communicate(timeout=240)
            check(process.returncode == 0, f"{self.name}: exit status {process.returncode}\n{out[-500:]}{error}")


def wrong_process(numbers, jobs):
    """A process, and what it is to say."""
    one, other = numbers.sample(jobs, 2)
    names = [re.escape(address) for address in one.addresses + other.addresses]
    kind = numbers.choice(["mixed", "mixed", "swapped", "named", "server"])
    if kind == "mixed":  # server 1 of another job
        return (start("ps-worker", PROGRAM_SHORT, *WORKS, "--servers", f"{one.addresses[0]},{other.addresses[1]}"),
                rf"server 1, .*, which is at {names[3]}, is of job (\w+), and this process of job (?!\1)\w+ with server 0, ")
    if kind == "swapped":
        return (start("ps-worker", PROGRAM_SHORT, *WORKS, "--servers", f"{one.addresses[1]},{one.addresses[0]}"),
                r"is where --servers has server [01]: name them in the order of their parts")
    if kind == "named":
        return (start("ps-worker", PROGRAM_SHORT, *WORKS, "--servers", ",".join(one.addresses), "--job", "mine"),
                r"server [01], .*, which is at .*, is of job \w+, and this process of job mine: is the address right\?")
    return (one.start_server(1, "--listen", "127.0.0.1:*", "--job", "mine", servers=[other.addresses[0], one.addresses[1]]),  # settings may tell it first
            "is of job .*, and this process of job mine|its settings are ")


def main(n, seed):
    Run("train", PROGRAM_SHORT, *FLAGS, *JOBS["sync"][:2], "--checkpoint-dir", FOLDER / "wanted")
    jobs, numbers, n_wrong = [Job(name) for name in JOBS], random.Random(seed), 0
    for begun in range(0, n, AT_ONCE):
        for process, words in [wrong_process(numbers, jobs) for _ in range(min(AT_ONCE, n - begun))]:
            try:
                _, error = process.communicate(timeout=90)
            except subprocess.TimeoutExpired:
                process.kill()
                _, error = process.communicate()
            is_right = process.returncode == 1 and re.search(words, error)
            n_wrong += not is_right
            print("ok" if is_right else f"exit status {process.returncode}, not '{words}':\n{error}", flush=True)
    for job in jobs:
        job.end()
    check(bits(FOLDER / "ck-sync") == bits(FOLDER / "wanted"), "the synchronous training has other bits")
    ledger.check_epochs(FOLDER / "ck-async/ledger.jsonl", EPOCHS, BATCHES)
    print(f"{n - n_wrong} of {n} wrong processes ended alone and said what is wrong; both trainings ended as if nobody had come")
    check(n_wrong == 0, "not all did")
    finish()


main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
