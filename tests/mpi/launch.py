"""dtrun launch: a signal makes a whole checkpoint and exit status 75, whoever is sent it; a launcher that dies or hangs leaves no process; what mpirun
refuses is said."""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from launched import Launch
from training import FOLDER, PROGRAM, check, command, compile_program, finish, newest, write_data, Run

ARTIFACT = compile_program(PROGRAM.replace("batch(32)", "batch(16)"), "net")
DATA = write_data(FOLDER / "data", n=1000, n_test=60)
FLAGS = ["--data", DATA, "--replicas", 4, "--seed", 3, "--epochs", 1000, "--keep", 1, "--log-every", 0, "--devices", "cpu:1x1"]


def stopped_by(number, whom):
    """A signal to the launch, or to one process of the run: all end with one checkpoint, from which a run goes on."""
    folder = FOLDER / f"{number.name}-{whom}"
    run = Launch(3, "train", ARTIFACT, *FLAGS, "--checkpoint-dir", folder)
    states = run.wait_for_step(3)
    os.kill(run.process.pid if whom == "launch" else states[whom][0], number)
    code = run.end()
    check(code == 75 and run.messages() == [], f"{number.name} to {whom}: exit status {code}\n{run.error()}")
    step = int(newest(folder).name[5:])
    check(f"done: {step:,} step" in (run.folder / "output").read_text(), f"{number.name} to {whom}: step {step} is not the last one")
    Run("train", ARTIFACT, *FLAGS, "--checkpoint-dir", folder, "--resume", "--max-steps", step + 1)
    print(f"{number.name} to {whom}: step {step}", flush=True)


def a_second_signal_ends_at_once():
    run = Launch(2, "train", ARTIFACT, *FLAGS, "--checkpoint-dir", FOLDER / "twice")
    states = run.wait_for_step(2)
    os.kill(states[1][0], signal.SIGSTOP)  # so that the first signal is in vain
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGINT)
    began = time.monotonic()
    code = run.end()
    check(code == 75 and time.monotonic() - began < 3, f"two signals: exit status {code} after {time.monotonic() - began:.1f} s\n{run.error()}")


def parent_of(pid):
    return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])


def whoever_dies_is_named_by_its_parent():
    """Also where mpirun says nothing, and before it does; and one that ends the parent ends the process."""
    run = Launch(2, "train", ARTIFACT, *FLAGS, "--checkpoint-dir", FOLDER / "killed")
    states = run.wait_for_step(2)
    os.kill(states[1][0], signal.SIGABRT)  # which no sanitizer catches
    code, said = run.end(), run.messages()
    check(code != 0 and len(said) == 1, f"exit status {code}\n{run.error()}")
    check(re.match(rf"process 1 \(.*, pid {states[1][0]}\) has disappeared: signal 6 \(Aborted\) ended it. .* at: .* step \d+", said[0]), said[0])
    check(run.error().index(said[0]) < run.error().index("exited on signal 6"), f"mpirun does not see the signal, or before\n{run.error()}")
    run = Launch(2, "train", ARTIFACT, *FLAGS, "--checkpoint-dir", FOLDER / "orphan")
    states = run.wait_for_step(2)
    os.kill(parent_of(states[0][0]), signal.SIGKILL)
    code, said = run.end(), run.messages()
    check(code != 0 and len(said) == 1 and f"pid {states[0][0]}) has disappeared" in said[0], f"exit status {code}\n{run.error()}")


def machines_without_a_launch_keep_nothing():
    """Where states are kept, and no launch is there to take them away: as on the other machines of one."""
    folder = FOLDER / "elsewhere"
    done = mpi.run("openmpi", 2, command("train", ARTIFACT, *FLAGS, "--max-steps", 2, "--checkpoint-dir", folder / "ck"), DT_STATE_DIR=str(folder / "states"))
    check(done.returncode == 0 and folder.is_dir() and not (folder / "states").exists(), f"states are left, or there were none\n{done.stderr}")


def mpirun_that_dies_takes_all_along():
    run = Launch(2, "train", ARTIFACT, *FLAGS, "--checkpoint-dir", FOLDER / "dead")
    states = run.wait_for_step(2)
    os.kill(parent_of(parent_of(states[0][0])), signal.SIGKILL)  # between the two is what watches over a process
    code = run.end()
    check(code == 137 and run.messages() == ["mpirun has disappeared: signal 9 ended it"], f"exit status {code}\n{run.error()}")


class MpirunThatHangs:
    """A launcher that stays when its processes have ended, one that never starts any, and one that is stopped: each is given some seconds, while other tests run."""

    def __init__(self):
        self.stays = self.launch("stays", 'mpirun "$@"', "--max-steps", 5)
        self.never = self.launch("never", "", deadline=1)
        self.stopped = self.launch("stopped", "kill -STOP $$", "--deadline", 1, deadline=None)  # that of the command holds for both

    def is_named(self):
        said = self.stopped.messages() if self.stopped.end(20) == 1 else []
        check(len(said) == 1 and re.match(r"mpirun \(pid \d+\) was stopped by a signal and has not gone on for", said[0]), self.stopped.error())

    @staticmethod
    def launch(name, first, *flags, **more):
        mpirun = FOLDER / name
        mpirun.write_text(f"#!/bin/sh\n{first}\nsleep 1000\n")
        mpirun.chmod(0o755)
        return Launch(2, "train", ARTIFACT, *FLAGS, *flags, "--checkpoint-dir", FOLDER / f"{name}-ck", mpirun=mpirun, **more)

    def is_ended(self):
        check(self.stays.end() == 0 and "mpirun has not" in self.stays.error(), self.stays.error())
        check(self.never.end(20) == 1 and self.never.messages() == ["process 0 has not begun; process 1 has not begun"], self.never.error())


class OneProcess:
    """It says nothing of how it gets on, and nobody waits for it: it runs for longer than processes may take to find one another, and its end is told like any
    other."""

    def __init__(self):
        self.run = Launch(1, "train", ARTIFACT, *FLAGS, "--epochs", 100000, "--checkpoint-dir", FOLDER / "alone", deadline=1)
        self.began = time.monotonic()

    def is_named(self):
        time.sleep(max(0, self.began + 19 - time.monotonic()))
        pid = self.run.states()[0][0]
        check(self.run.process.poll() is None, f"it was ended\n{self.run.error()}")
        os.kill(pid, signal.SIGKILL)
        code, said = self.run.end(), self.run.messages()
        check(code != 0 and len(said) == 1 and f"pid {pid}) has disappeared: signal 9" in said[0], f"exit status {code}\n{self.run.error()}")


def what_cannot_be_started_is_said():
    run = Launch(2, "train", ARTIFACT, *FLAGS, mpirun="/no/mpirun")
    check(run.end() == 1 and "cannot run /no/mpirun: No such file or directory" in run.messages()[0], run.error())
    run = Launch(2, "train", ARTIFACT, "--no-such-option", restarts=3)
    check(run.end() == 2 and "restart" not in run.error(), run.error())
    folder = FOLDER / "another"
    Run("train", ARTIFACT, *FLAGS, "--checkpoint-dir", folder, "--max-steps", 2)
    run = Launch(2, "train", ARTIFACT, *FLAGS, "--checkpoint-dir", folder, restarts=3)  # which would go on from it
    check(run.end() == 1 and "there is a checkpoint already" in run.messages()[0] and "restart" not in run.error(), run.error())


mpirun_that_hangs = MpirunThatHangs()
one_process = OneProcess()
stopped_by(signal.SIGTERM, "launch")
stopped_by(signal.SIGINT, "launch")
stopped_by(signal.SIGTERM, 2)
stopped_by(signal.SIGUSR1, 0)
a_second_signal_ends_at_once()
whoever_dies_is_named_by_its_parent()
machines_without_a_launch_keep_nothing()
mpirun_that_dies_takes_all_along()
what_cannot_be_started_is_said()
mpirun_that_hangs.is_ended()
mpirun_that_hangs.is_named()
one_process.is_named()
finish()
