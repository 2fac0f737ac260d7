"""dtrun launch on several machines: what mpirun is told, of either family, and which machines a run goes on without. The mpirun here is a script, for which
machines are names; tests/faults/machines.py has real ones, as far as namespaces are."""
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import FOLDER, check, finish

# Asked for `uname -n` it answers, for machines that are there. Started with anything else it writes down what it was told, and ends as the next line of a
# script says: the exit status, who is gone from then on ("-": nobody), and a sentence.
MPIRUN = """#!/bin/sh
if [ "$1" = --version ]; then echo "$VERSION"; exit; fi
while [ "$1" != uname ] && [ "${1%dtrun}" = "$1" ]; do
    told="$told $1"
    case $1 in -f|--hostfile) hosts=$2;; esac
    shift
done
if [ "$1" = uname ]; then
    name=$(sed 's/[ :].*//' "$hosts")
    if grep -qx "$name" gone; then exit 1; fi
    if grep -qx hangs gone; then setsid sleep 1000 & echo $! >> asking; wait; fi
    echo "$name.cluster"
    exit
fi
echo "$told |" $(cat "$hosts") "| $*" >> runs
read -r code gone sentence < script
sed -i 1d script
echo "$gone" >> gone
if [ "$sentence" ]; then echo "dtrun: error: $sentence" >&2; fi
exit "$code"
"""
OPEN_MPI, HYDRA = "mpirun (Open MPI) 4.1.4", "HYDRA build details:"


def prepare(*script):
    """The folder of a launch."""
    folder = pathlib.Path(FOLDER / "launch")
    folder.mkdir(exist_ok=True)
    for name, text in (("mpirun", MPIRUN), ("script", "".join(line + "\n" for line in script)), ("gone", ""), ("runs", ""), ("asking", "")):
        (folder / name).write_text(text)
    (folder / "mpirun").chmod(0o755)
    return folder


def command_of(hosts=("--hosts", "a:2,b:2,c:1"), restarts=3, options=()):
    return ["dtrun", "launch", *hosts, "--restarts", str(restarts), "--mpirun", "./mpirun", *options, "train", "m.dtx", "--checkpoint-dir", "ck"]


def launch(*script, hosts=("--hosts", "a:2,b:2,c:1"), restarts=3, version=OPEN_MPI, options=(), expect=0):
    """The runs that mpirun was asked for, and what was said."""
    folder = prepare(*script)
    command = command_of(hosts, restarts, options)
    done = subprocess.run(command, cwd=folder, env={**os.environ, "VERSION": version}, capture_output=True, text=True, timeout=60)
    check(done.returncode == expect, f"{command}: exit status {done.returncode}\n{done.stderr}")
    return (folder / "runs").read_text().splitlines(), done.stderr


def told(runs):
    """How many processes, on which machines."""
    return [re.match(r" -n (\d+) .* \| (.*) \| ", run).groups() for run in runs]


def what_launchers_are_told():
    runs, _ = launch("0 -", options=("--mpirun-options", "--bind-to none"))
    check(re.match(r" -n 5 --hostfile \S+/hosts -x DT_STATE_DIR --bind-to none \| a slots=2 b slots=2 c slots=1 \| \S+/dtrun train m.dtx", runs[0]), runs)
    runs, _ = launch("0 -", version=HYDRA)
    check(re.match(r" -n 5 -f \S+/hosts \| a:2 b:2 c:1 \| \S+/dtrun train m.dtx", runs[0]), runs)
    hostfile = FOLDER / "hostfile"
    hostfile.write_text("# three\na slots=2 max_slots=4\n\nb:2 # of four\nc\n")
    check(told(launch("0 -", hosts=("--hostfile", hostfile))[0]) == [("5", "a slots=2 b slots=2 c slots=1")], "a hostfile")
    check(told(launch("0 -", options=("-n", "3"))[0]) == [("3", "a slots=2 b slots=2 c slots=1")], "-n")


def who_cannot_be_reached_is_left_out():
    runs, said = launch("1 b process 3 (b.cluster, pid 7) has given no sign of life for 60 s", "0 -")
    check(told(runs) == [("5", "a slots=2 b slots=2 c slots=1"), ("3", "a slots=2 c slots=1")], runs)
    check("--resume" not in runs[0] and runs[1].endswith("--resume"), runs)
    check("dtrun: note: b cannot be reached: it is left out\ndtrun: note: restart 1 of 3, with 3 processes, from the newest checkpoint\n" in said, said)
    check(said.count("no sign of life") == 1, f"said again: {said}")
    runs, _ = launch("1 a", "1 b", "0 -", hosts=("--hosts", "a,b"))
    check(told(runs) == [("2", "a slots=1 b slots=1"), ("1", "b slots=1"), ("1", "b slots=1")], f"the last one, or nobody, was left out: {runs}")
    runs, _ = launch("1 -", "1 -", "0 -", options=("-n", "4"))
    check([n for n, _ in told(runs)] == ["4", "4", "4"], f"all of them are there: {runs}")


def who_fails_twice_in_a_row_is_left_out():
    fails = "1 - process 2 (b.cluster, pid 7) has disappeared: signal 9 (Killed) ended it"
    runs, said = launch(fails, fails, "0 -")
    check([n for n, _ in told(runs)] == ["5", "5", "3"] and told(runs)[2][1] == "a slots=2 c slots=1", runs)
    check("dtrun: note: b has failed twice in a row: it is left out" in said, said)
    runs, _ = launch(fails, fails.replace("b.cluster", "a.cluster"), fails, "0 -")
    check([n for n, _ in told(runs)] == ["5"] * 4, f"not in a row: {runs}")
    runs, _ = launch(fails, fails, restarts=1, expect=1)
    check(len(runs) == 2, f"one restart: {runs}")


def an_interrupted_question_leaves_nobody():
    """Nor what a launcher has started for it, in a session of its own."""
    folder = prepare("1 hangs")
    run = subprocess.Popen(command_of(), cwd=folder, env={**os.environ, "VERSION": OPEN_MPI}, stderr=subprocess.PIPE, text=True)
    while len((folder / "asking").read_text().split()) < 3:
        time.sleep(0.02)
    began = time.monotonic()
    run.terminate()
    run.communicate(timeout=60)
    check(time.monotonic() - began < 5, f"it ended {time.monotonic() - began:.1f} s after it was told to")
    left = [pid for pid in (folder / "asking").read_text().split() if pathlib.Path(f"/proc/{pid}").exists()]
    check(left == [], f"processes {left} are left")


def what_makes_no_sense_is_said():
    for flags, words in ((("--hosts", "a:x"), "a machine is its name"), (("--hosts", ","), "a machine is its name"), (("--hosts", "a", "-n", "2"), "more than the 1 that"),
                         (("--hostfile", "/no/hosts"), "/no/hosts"), (("--hosts", "a:0"), "a machine is its name")):
        _, said = launch(hosts=flags, expect=1)
        check(words in said, (flags, said))
    _, said = launch(options=("-n", "4294967297"), expect=2)
    check("--processes 4294967297: that many processes cannot be" in said, said)
    _, said = launch(hosts=("--hosts", "a", "--hostfile", "b"), expect=2)
    check("not both" in said, said)
    _, said = launch(version="slurm 22.05", expect=1)
    check("neither Open MPI nor MPICH" in said, said)


what_launchers_are_told()
who_cannot_be_reached_is_left_out()
who_fails_twice_in_a_row_is_left_out()
an_interrupted_question_leaves_nobody()
what_makes_no_sense_is_said()
finish()
