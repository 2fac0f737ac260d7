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
finish()
