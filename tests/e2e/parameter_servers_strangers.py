"""Strangers who connect and say nothing take no descriptors that a training needs: it writes its checkpoints, ends, and has the bytes of one process. Where
there are too few descriptors from the beginning, that is an error."""
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from strangers import Strangers  # noqa: E402
from training import *  # noqa: E402,F403

N_DESCRIPTORS, N_STRANGERS = 1024, 1100
FLAGS = ["--data", write_data(n=320, n_test=32), "--replicas", 2, "--devices", "cpu:1x1", "--seed", 3, "--max-steps", 80]
WORKS = ["--data", FOLDER / "data", "--devices", "cpu:1x1", "--keys", FOLDER / "keys"]
program = compile_program(PROGRAM.replace("take(1000) | shuffle(1000)", "shuffle(320)"), "net")
wanted, ck = FOLDER / "wanted", FOLDER / "ck"
Run("train", program, *FLAGS, "--checkpoint-dir", wanted)
subprocess.run(["dtrun", "keys", FOLDER / "keys"], check=True, capture_output=True)


def start(n_descriptors, *words):
    def limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (n_descriptors, n_descriptors))
    return subprocess.Popen(list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limit)


server = start(N_DESCRIPTORS, "dtrun", "ps-server", program, *FLAGS, "--staleness", 0, "--checkpoint-dir", ck, "--checkpoint-every", 1, "--listen",
               "127.0.0.1:*", "--keys", FOLDER / "keys", "--deadline", 60)
address = server.stderr.readline().rsplit(" ", 1)[-1].strip()
worker = start(N_DESCRIPTORS, "dtrun", "ps-worker", program, *WORKS, "--servers", address)
while newest(ck) is None:
    time.sleep(0.01)
strangers = Strangers(address, N_STRANGERS)
ended = [(process, *process.communicate(timeout=120)) for process in (server, worker)]
strangers.end()
for process, out, error in ended:
    check(process.returncode == 0, f"exit status {process.returncode} beside {N_STRANGERS} strangers, {strangers.n_ended} of them ended:\n{out[-1000:]}{error}")
check(bits(ck) == bits(wanted), "the training has other bits")
check("connections that had not said who they are" in ended[0][2], f"nobody says that strangers have come:\n{ended[0][2]}")

for n in 6, 8, 12, 20:
    for command in (["ps-server", program, *FLAGS, "--listen", "127.0.0.1:*"], ["ps-worker", program, *WORKS[:-2], "--servers", "127.0.0.1:9"]):
        few = start(n, "dtrun", *command, "--deadline", 1)
        error = few.communicate(timeout=60)[1]
        check(few.returncode == 1 and "dtrun: error: " in error, f"{n} descriptors for {command[0]}: exit status {few.returncode}\n{error}")
finish()
