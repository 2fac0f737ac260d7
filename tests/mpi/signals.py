"""A signal to one process of several ends all of them with exit status 75, and a checkpoint of one step (launch.py): also while they wait for data, and in
an evaluation; without a launcher the exit status is 128 + its number."""
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from launched import Launch
from training import FOLDER, PROGRAM, check, compile_program, finish, newest, write_data, Run

N = 3
TEXT = PROGRAM.replace('idx("images.gz", "labels.gz") | take(1000) | shuffle(1000) | batch(32) | prefetch(2)', 'idx("test-images", "test-labels") | batch(8)')
ARTIFACT = compile_program(TEXT, "net")
DATA = write_data(FOLDER / "data", n=32, n_test=240)
FLAGS = ["--replicas", N, "--devices", "cpu:1x1", "--log-every", 0]


# Each example takes a while: a batch longer than anybody wants to wait.
SLOW = """
fn slow(image: u8[12, 12], label: u8) { return f32(image) + mean(uniform([3000, 3000], low: 0.0, high: 0.1)), label }
"""


def while_all_wait_for_data():
    text = SLOW + TEXT[:TEXT.index("step evaluate")].replace("| batch(8)", "| map(slow) | batch(80)", 1).replace("image: u8[B, 12, 12]", "image: f32[B, 12, 12]")
    folder = FOLDER / "ck"
    run = Launch(N, "train", compile_program(text, "slow"), "--data", DATA, *FLAGS, "--checkpoint-dir", folder, deadline=60)
    states = run.wait_until(lambda states: len(states) == N and all(doing.endswith("waiting for data") for _, _, doing in states.values()), 30)
    os.kill(states[0][0], signal.SIGUSR1)
    began = time.monotonic()
    code = run.end(60)
    check(code == 75 and time.monotonic() - began < 5, f"exit status {code} after {time.monotonic() - began:.1f} s\n{run.error()}")
    print(f"while all wait for data: {time.monotonic() - began:.1f} s", flush=True)


def in_an_evaluation():
    many = write_data(FOLDER / "many", n=32, n_test=1000)
    Run("train", ARTIFACT, "--data", DATA, *FLAGS, "--max-steps", 1, "--checkpoint-dir", FOLDER / "one")
    endless = compile_program(TEXT.replace('idx("test-images", "test-labels") | batch(32)', 'idx("test-images", "test-labels") | repeat(100) | batch(1)'), "endless")
    run = Launch(N, "evaluate", endless, "--data", many, "--replicas", N, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / "one")
    states = run.wait_until(lambda states: len(states) == N and all(doing.startswith("evaluate step") for _, _, doing in states.values()))
    os.kill(states[2][0], signal.SIGTERM)
    code = run.end(30)
    check(code == 75, f"exit status {code}\n{run.error()}")


def alone(number):
    folder = FOLDER / f"alone-{number}"
    process = subprocess.Popen(["dtrun", "train", ARTIFACT, "--data", DATA, *map(str, FLAGS), "--epochs", "100000", "--checkpoint-dir", folder],
                               stdout=subprocess.DEVNULL)
    while newest(folder) is None:
        time.sleep(0.01)
    process.send_signal(number)
    check(process.wait(30) == 128 + number, f"signal {number} to a process alone: exit status {process.returncode}")


while_all_wait_for_data()
in_an_evaluation()
alone(signal.SIGTERM)
alone(signal.SIGUSR1)
finish()
