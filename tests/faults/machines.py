"""machines: training over four machines whose links fail, are slow, or lose packets; see machines.sh.

    machines.py N [SEED]      N times a link is cut
"""
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import machines
from training import FOLDER, PROGRAM, Run, check, compile_program, finish, left_by, newest, write_data

ALL = range(len(machines.NAMES))
DEADLINE = 3
SLACK = 5  # seconds beyond the deadline
FEW = 30  # steps, where a step takes long

ARTIFACT = compile_program(PROGRAM.replace("batch(32)", "batch(16)"), "net")
DATA = write_data(FOLDER / "data", n=1000, n_test=60)
FLAGS = ["--data", DATA, "--replicas", len(ALL), "--devices", "cpu:1x1", "--epochs", 20, "--checkpoint-every", 50, "--log-every", 0]


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"


def train_on(some, folder, *flags):
    return machines.Mpirun(some, ["dtrun", "train", ARTIFACT, *FLAGS, "--deadline", DEADLINE, "--checkpoint-dir", folder, *flags])


def train_one(*flags):
    """By one process of this machine: what all others have to give."""
    folder = new_folder()
    Run("train", ARTIFACT, *FLAGS, "--seed", 3, "--checkpoint-dir", folder, *flags)
    return left_by(folder)


def ends_right(what, run, folder, wanted, seconds=120):
    code = run.wait(seconds)
    check(code == 0, f"{what}: exit status {code}\n{run.output()}")
    check(left_by(folder) == wanted, f"{what}: other bits than those of one process")


def compare(what, wanted, *flags, meanwhile=lambda: None):
    """A whole run on all machines ends with the bits of one process, whatever happens meanwhile."""
    folder, began = new_folder(), time.monotonic()
    with train_on(ALL, folder, "--seed", 3, *flags) as run:
        check(machines.wait_until(lambda: newest(folder) or run.process.poll() is not None, 60), f"{what}: no checkpoint\n{run.output()}")
        meanwhile()
        ends_right(what, run, folder, wanted)
    print(f"{what}: the bits of one process, {time.monotonic() - began:.1f} s", flush=True)


def silent_ones(text):
    """The machines that messages say are silent."""
    return set(re.findall(r"error: process \d \((m\d), pid \d+\) has given no sign of life", text))


def what_is_wrong(victim, run, seconds):
    """After a cut: who has to be named on each side of it."""
    others = [i for i in ALL if i != victim]
    said = {i: silent_ones(run.said_by(i)) for i in ALL}
    beyond = set().union(*(said[i] for i in others))
    if seconds > DEADLINE + SLACK:
        yield f"after {seconds:.1f} s there are processes: {machines.running('dtrun')}"
    if beyond != {machines.NAMES[victim]}:
        yield f"{beyond or 'nobody'} is named by the others: {[run.said_by(i) for i in others]}"
    if not said[victim] or machines.NAMES[victim] in said[victim]:
        yield f"{said[victim] or 'nobody'} is named by the one that is cut off: {run.said_by(victim)}"
    if not silent_ones(run.output()):
        yield f"mpirun has nothing to say: {run.output()}"


def cut_off(victim, delay, wanted):
    """Cuts a machine off after some seconds of training. Afterwards the others go on without it. None: the run was over; else what is wrong, and seconds."""
    folder = new_folder()
    with train_on(ALL, folder, "--seed", 3) as run:
        check(machines.wait_until(lambda: newest(folder), 60), f"no checkpoint\n{run.output()}")
        time.sleep(delay)
        began = time.monotonic()
        machines.cut(victim)
        machines.wait_until(lambda: not machines.running("dtrun"), DEADLINE + SLACK + 5)
        seconds = time.monotonic() - began
        if left_by(folder) == wanted:
            machines.mend(victim)
            return None
        wrong = list(what_is_wrong(victim, run, seconds))
    with train_on([i for i in ALL if i != victim], folder, "--resume") as run:
        ends_right("after a cut", run, folder, wanted)
    machines.mend(victim)
    return "; ".join(wrong), seconds


def cuts(n, numbers, wanted):
    times, n_wrong = [], 0
    while len(times) < n:
        victim = numbers.choice(ALL)
        outcome = cut_off(victim, numbers.uniform(0, 1), wanted)
        if outcome is None:
            continue
        wrong, seconds = outcome
        times.append(seconds)
        n_wrong += wrong != ""
        print(f"cut {len(times)}, of {machines.NAMES[victim]}: {wrong or 'ok'}, {seconds:.1f} s", flush=True)
    print(f"{n - n_wrong} of {n} cuts: both sides named the other in time, and three machines went on to the undisturbed bits; "
          f"ended after {sorted(times)[n // 2]:.1f} s, {max(times):.1f} s at most, with a deadline of {DEADLINE} s", flush=True)
    check(n_wrong == 0, "not all did")


def short_cut(victim, seconds):
    machines.cut(victim)
    time.sleep(seconds)
    machines.mend(victim)


def launched(what, wanted, harm, said, flavour="openmpi"):
    """A launch over all machines that something happens to starts again, and ends with the bits of one process."""
    folder, began = new_folder(), time.monotonic()
    command = ["train", ARTIFACT, *FLAGS, "--seed", 3, "--checkpoint-dir", folder]
    with machines.Launch(["--restarts", 1, "--deadline", DEADLINE], command, flavour) as run:
        check(machines.wait_until(lambda: newest(folder) or run.process.poll() is not None, 60), f"{what}: no checkpoint\n{run.output()}")
        pid = harm(run)
        ends_right(what, run, folder, wanted)
        for pattern in said:
            check(len(re.findall(pattern.format(pid=pid), run.output(), re.M)) == 1, f"{what}: {pattern} is not said once\n{run.output()}")
    print(f"{what}: named, started again, and the bits of one process, {time.monotonic() - began:.1f} s", flush=True)


def pid_in_a_step(run, machine):
    check(machines.wait_until(lambda: re.match("(train|evaluate) step", (run.state(machine) or (0, ""))[1]), 10), "its state names no step")
    return run.state(machine)[0]


def kill_on(machine):
    def harm(run):
        pid = pid_in_a_step(run, machine)
        os.kill(pid, signal.SIGKILL)
        return pid

    return harm


def cut_for_good(machine):
    def harm(run):
        pid = pid_in_a_step(run, machine)
        machines.cut(machine)
        return pid

    return harm


def launches(wanted):
    """dtrun launch on machine 0; what it is not told by files of its own machine comes from the other machines."""
    killed = [r"^dtrun: error: process 2 \(m2, pid {pid}\) has disappeared: signal 9 \(Killed\) ended it. .* at: .* step \d+",
              r"^dtrun: note: restart 1 of 1, with 4 processes, from the newest checkpoint"]
    launched("a process is killed on another machine", wanted, kill_on(2), killed)
    launched("the same, with MPICH", wanted, kill_on(2), killed, "mpich")
    launched("a machine is gone", wanted, cut_for_good(3),
             [r"^dtrun: error: process 3 \(m3, pid {pid}\) has given no sign of life for .*; process \d waits for it at .* step \d+",
              r"^dtrun: note: m3 cannot be reached: it is left out\ndtrun: note: restart 1 of 1, with 3 processes, from the newest checkpoint"])
    machines.mend(3)


def main(n, seed):
    numbers = random.Random(seed)
    machines.build()
    wanted, wanted_few = train_one(), train_one("--max-steps", FEW)
    with machines.cables():
        compare("four machines", wanted)
        compare("a cut of 1 s", wanted, meanwhile=lambda: short_cut(2, 1))
        launches(wanted)
        cuts(n, numbers, wanted)
        machines.limit(3, "1gbit")
        compare("one machine at 1 Gbit/s", wanted)
    if os.path.exists("/dev/net/tun"):
        with machines.wires(delay_ms=10):
            compare("a delay of 20 ms", wanted_few, "--max-steps", FEW)
        with machines.wires(loss=0.01):
            compare("a loss of 1 %", wanted_few, "--max-steps", FEW)
    else:
        print("skipped: there is no /dev/net/tun for links that are slow or lose packets")
    finish()


main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
