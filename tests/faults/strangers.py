"""strangers: trainings with parameter servers, beside 5,000 connections of strangers to a server, who come at a random moment, say nothing, or what is no greeting, and
come again when they are shown the door. Each ends with the bytes of one process, and all its checkpoints are whole.

    strangers.py N [SEED]
"""
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from strangers import Strangers  # noqa: E402
from training import FOLDER, PROGRAM, bits, check, compile_program, finish, pathlib, newest, write_data, Run  # noqa: E402

N_STRANGERS = 5000
DESCRIPTORS = (256, 1024, 4096, 20000)  # of a server; some of them are less than there are strangers
PROGRAM_SHORT = compile_program(PROGRAM.replace("take(1000) | shuffle(1000)", "shuffle(320)"), "net")
FLAGS = ["--data", write_data(FOLDER / "data", n=320, n_test=32), "--replicas", 2, "--devices", "cpu:1x1", "--seed", 3, "--max-steps", 200]


def start(n_descriptors, *words):
    hard = min(n_descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    return subprocess.Popen(["dtrun", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard)))


def run(i, seed, wanted):
    """What is wrong with a run, "" for nothing; how many descriptors a server may have; how many strangers have come."""
    numbers = random.Random(f"{seed} {i}")
    n_descriptors = numbers.choice(DESCRIPTORS)
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"
    server = start(n_descriptors, "ps-server", PROGRAM_SHORT, *FLAGS, "--staleness", 0, "--checkpoint-dir", folder, "--checkpoint-every", 1, "--listen",
                   "127.0.0.1:*", "--keys", FOLDER / "keys", "--deadline", 60)
    address = server.stderr.readline().rsplit(" ", 1)[-1].strip()
    if numbers.random() < 0.7:
        workers = start_workers(address)
        while newest(folder) is None and server.poll() is None:
            time.sleep(0.01)
        time.sleep(numbers.uniform(0, 0.3))
        strangers = Strangers(address, N_STRANGERS)
    else:
        strangers = Strangers(address, N_STRANGERS)
        time.sleep(numbers.uniform(0, 2))
        workers = start_workers(address)
    said = [process.communicate(timeout=240) for process in (server, *workers)]
    strangers.end()
    codes = [process.returncode for process in (server, *workers)]
    wrong = "" if codes == [0, 0, 0] else f"exit statuses {codes}: {' '.join(error[-600:] for _, error in said)}"
    if not wrong and bits(folder) != wanted:
        wrong = "it has other bits"
    return wrong, n_descriptors, strangers.n_begun


def start_workers(address):
    return [start(1024, "ps-worker", PROGRAM_SHORT, *FLAGS[:2], *FLAGS[4:6], "--servers", address, "--keys", FOLDER / "keys", "--deadline", 60) for _ in range(2)]


def main(n, seed):
    Run("train", PROGRAM_SHORT, *FLAGS, "--checkpoint-dir", FOLDER / "wanted")
    subprocess.run(["dtrun", "keys", FOLDER / "keys"], check=True, capture_output=True)
    wanted, n_wrong = bits(FOLDER / "wanted"), 0
    for i in range(n):
        wrong, n_descriptors, n_strangers = run(i, seed, wanted)
        n_wrong += wrong != ""
        print(f"{i + 1}: {n_strangers} strangers, {n_descriptors} descriptors: {wrong or 'ok'}", flush=True)
    print(f"{n - n_wrong} of {n} trainings ended with the bytes of one process")
    check(n_wrong == 0, "not all did")
    finish()


main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
