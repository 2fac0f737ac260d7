"""What cannot be dealt to processes is refused, once, with the command that works."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
from training import check, finish

case = layouts.net()
for n_processes, devices, words in ((3, "cpu:1", "3 processes of 1 device for 2 replicas"), (2, "cpu:2x1", "2 processes of 2 devices for 2 replicas")):
    done = mpi.run("openmpi", n_processes, ["dtrun", "train", case.artifact, "--data", case.data, "--replicas", "2", "--devices", devices])
    check(done.returncode == 1 and done.stderr.count(words) == 1 and "mpirun -n" in done.stderr, f"{words}: {done.returncode}\n{done.stderr}")

# Commands that write what one process makes.
for command in (["generate", case.artifact, "--prompt", "In the"], ["data", case.artifact, "--data", case.data, "-o", "out"], ["export", "ck", "-o", "out"]):
    done = mpi.run("openmpi", 2, ["dtrun", *command])
    words = f"`dtrun {command[0]}` is for one process, and mpirun of Open MPI started 2: run it by itself"
    check(done.returncode == 1 and done.stderr.count(words) == 1, f"{command[0]}: {done.returncode}\n{done.stderr}")
finish()
