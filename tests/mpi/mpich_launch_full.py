"""dtrun launch with MPICH's launcher: the bits of one process, also after a process was killed; a signal makes a checkpoint and exit status 75."""
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from launched import Launch
from training import FOLDER, PROGRAM, bits, check, compile_program, finish, write_data, Run

ARTIFACT = compile_program(PROGRAM.replace("batch(32)", "batch(16)"), "net")
DATA = write_data(FOLDER / "data", n=1000, n_test=60)
FLAGS = ["--data", DATA, "--replicas", 4, "--seed", 3, "--devices", "cpu:1x1", "--log-every", 0]


def who_is_killed_is_named():
    Run("train", ARTIFACT, *FLAGS, "--epochs", 40, "--checkpoint-dir", FOLDER / "one")
    run = Launch(4, "train", ARTIFACT, *FLAGS, "--epochs", 40, "--checkpoint-dir", FOLDER / "killed", restarts=1, flavour="mpich")
    pid = run.wait_for_step(4)[1][0]
    os.kill(pid, signal.SIGKILL)
    code, said = run.end(), run.messages()
    check(code == 0 and len(said) == 1 and re.match(rf"process 1 \(.*, pid {pid}\) has disappeared: signal 9", said[0]), run.error())
    check("restart 1 of 1" in run.error() and bits(FOLDER / "killed") == bits(FOLDER / "one"), "other bits than those of one process")


def a_signal_makes_a_checkpoint():
    run = Launch(3, "train", ARTIFACT, *FLAGS, "--epochs", 1000, "--checkpoint-dir", FOLDER / "stopped", flavour="mpich")
    run.wait_for_step(3)
    run.process.send_signal(signal.SIGTERM)
    code = run.end()
    check(code == 75 and run.messages() == [], f"exit status {code}\n{run.error()}")
    bits(FOLDER / "stopped")


who_is_killed_is_named()
a_signal_makes_a_checkpoint()
finish()
