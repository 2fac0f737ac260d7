"""faults: processes of a run are killed, or stopped, at random moments; each time the run names the right one, ends in time, and goes on from its newest
checkpoint to the bits of a run that nothing disturbed.

    faults.py N [SEED [shares|shards|stages]]      N times SIGKILL, N times SIGSTOP; of processes that have parameters in shares (--shard-parameters), some of
                                                   a model's shards each (--shards-over), or some of its layers, and some shards or all of these (--stages):
                                                   every second run goes on in another layout, with these or without
"""
import concurrent.futures
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import time
import typing

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from launched import Launch
from training import FOLDER, PROGRAM, check, compile_program, finish, left_by, write_data, Run

N_PROCESSES = 4
DEADLINE = 3
SLACK = 5  # seconds beyond the deadline
AT_ONCE = 5  # runs: they wait most of their time

N_SHARDS = 4


class Kind(typing.NamedTuple):
    """Of runs: what they are launched with, where they go on, the layers of their model, epochs."""
    launched: tuple  # of flags, of which each run has one
    elsewhere: tuple = ()  # (processes, devices, flags)
    layers: str = "x = dense(x, units: 32, activation: relu)"
    epochs: int = 30


def over(k):
    return ("--shards-over", str(k))


def staged(s):
    return ("--stages", str(s))


KINDS = {
    "": Kind(((),)),
    "shares": Kind((("--shard-parameters",),),
                   ((2, "cpu:2x1", "--shard-parameters"), (3, "cpu:1x1", "--shard-parameters"), (2, "cpu:1x1"), (1, "cpu:2x1")),
                   "x = dense(x, units: 400, activation: relu)\n    x = dense(x, units: 300, activation: relu)", 6),
    "shards": Kind((over(2), over(4)),
                   ((2, "cpu:2x1", *over(2)), (4, "cpu:1x1", *over(2)), (4, "cpu:1x1", *over(4)), (6, "cpu:1x1", *over(2)), (3, "cpu:1x1"), (1, "cpu:2x1")),
                   "x = dense(x, units: 64, activation: relu, shard: columns)\n    x = dense(x, units: 32, shard: rows)", 12),
    "stages": Kind((staged(2), (*staged(2), *over(2)), staged(4)),
                   ((2, "cpu:2x1", *staged(2)), (4, "cpu:1x1", *staged(2)), (4, "cpu:1x1", *staged(2), *over(2)), (3, "cpu:1x1", *staged(3)), (6, "cpu:1x1", *staged(3), *over(2)),
                    (4, "cpu:1x1", *staged(4)), (2, "cpu:2x1", *over(2)), (3, "cpu:1x1"), (1, "cpu:2x1")),
                   "for i in 0..2 { x = dense(dense(x, units: 512, activation: relu, shard: columns), units: 160, shard: rows) }", 6),
}
NAME = "".join(sys.argv[3:])
KIND = KINDS[NAME]
NET = PROGRAM.replace("x = dense(x, units: 32, activation: relu)", KIND.layers)
if NAME in ("shards", "stages"):
    NET = NET.replace("\ndata ", f"\nmesh model = {N_SHARDS}\n\ndata ", 1)
ARTIFACT = compile_program(NET.replace("batch(32)", "batch(16)"), "net")
DATA = write_data(FOLDER / "data", n=1000, n_test=60)
FLAGS = ["--data", DATA, "--replicas", N_PROCESSES, "--seed", 3, "--epochs", KIND.epochs, "--checkpoint-every", 50, "--log-every", 0]


def place(process, flags):
    """What messages say of where it is in the mesh."""
    settings = {name: int(n) for name, n in zip(flags[::2], flags[1::2])}
    k, n_stages = settings.get("--shards-over", 1), settings.get("--stages", 1)
    if k * n_stages == 1:
        return ""
    n, n_data = N_SHARDS // k, N_PROCESSES // (k * n_stages)
    first = process % k * n
    said = f"data {process // k % n_data}"
    if n_stages > 1:
        said += f", stage {process // (k * n_data)}"
    if k > 1:
        said += f", shard {first} of {N_SHARDS}" if n == 1 else f", shards {first} to {first + n - 1} of {N_SHARDS}"
    return f"({said})"


def goes_on_elsewhere(folder, numbers):
    """Exit status of the rest of a run."""
    n, devices, *flags = numbers.choice(KIND.elsewhere)
    return mpi.run("openmpi", n, ["dtrun", "train", ARTIFACT, *FLAGS, *flags, "--devices", devices, "--checkpoint-dir", folder, "--resume"]).returncode


def disturb(number, numbers, wanted, elsewhere):
    """One run in which one process is sent a signal. None: it ended before; else what is wrong with it, "" for nothing, and the seconds it took."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"
    launched = numbers.choice(KIND.launched)
    run = Launch(N_PROCESSES, "train", ARTIFACT, *FLAGS, *launched, "--devices", "cpu:1x1", "--checkpoint-dir", folder, deadline=DEADLINE,
                 restarts=0 if elsewhere else 1)
    victim = numbers.randrange(N_PROCESSES)
    if run.wait_for_step(N_PROCESSES) is None:
        return None
    time.sleep(numbers.uniform(0, 1.2))
    pid, phase, _ = run.states().get(victim, (0, 2, ""))
    if phase != 0:
        run.end()
        return None
    os.kill(pid, number)
    began = time.monotonic()
    run.wait_for_message("^dtrun: note: restart", DEADLINE + SLACK + 10)
    seconds = time.monotonic() - began
    code = run.end()
    if elsewhere and code != 0:
        code = goes_on_elsewhere(folder, numbers)
    messages = run.messages()
    if not messages and code == 0 and left_by(folder) == wanted:
        return None  # it came when there was nothing to wait for any more
    wrong = []
    if len(messages) != 1 or not messages[0].startswith(f"process {victim} (") or f"pid {pid})" not in messages[0]:
        wrong.append(f"process {victim}, pid {pid}, is not named once: {messages or run.error()}")
    if messages and not re.search(r"(train|evaluate) step \d+, segment \d+, \S", messages[0]):
        wrong.append(f"where it was is not said: {messages}")
    if messages and place(victim, launched) not in messages[0]:
        wrong.append(f"its place in the mesh, {place(victim, launched)}, is not said: {messages}")
    if seconds > DEADLINE + SLACK:
        wrong.append(f"it took {seconds:.1f} s")
    if code != 0 or left_by(folder) != wanted:
        wrong.append(f"exit status {code}, and the bits are {'the same' if left_by(folder) == wanted else 'others'}")
    return "; ".join(wrong), seconds


def disturb_until_it_counts(number, numbers, wanted, elsewhere):
    while True:
        outcome = disturb(number, numbers, wanted, elsewhere)
        if outcome is not None:
            return outcome


def main(n, seed):
    folder = FOLDER / "undisturbed"
    Run("train", ARTIFACT, *FLAGS, "--devices", "cpu:1x1", "--checkpoint-dir", folder)
    wanted = left_by(folder)
    n_wrong = 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for number in (signal.SIGKILL, signal.SIGSTOP):
            outcomes = [pool.submit(disturb_until_it_counts, number, random.Random(f"{seed} {number.name} {i}"), wanted,
                                    KIND.elsewhere != () and i % 2 == 1) for i in range(n)]
            for i, outcome in enumerate(outcomes):
                wrong, seconds = outcome.result()
                n_wrong += wrong != ""
                print(f"{number.name} {i + 1}: {wrong or 'ok'}, {seconds:.1f} s", flush=True)
            times = sorted(outcome.result()[1] for outcome in outcomes)
            print(f"{number.name}: {n} times, ended after {times[n // 2]:.1f} s, {times[-1]:.1f} s at most", flush=True)
    print(f"{2 * n - n_wrong} of {2 * n} named the right process, ended in time, and went on to the undisturbed bits")
    check(n_wrong == 0, "not all did")
    finish()


main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
