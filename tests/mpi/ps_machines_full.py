"""dtrun ps on four machines, two servers and two workers, under mpirun of Open MPI and MPICH and under srun: the bytes of one process; and what each launcher does
when a worker or a server is killed, as the table of docs/distributed.md says."""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
INSIDE = "inside"
if sys.argv[1:] != [INSIDE]:
    sys.exit(subprocess.run([SOURCE / "tests/support/machines.sh", __file__, INSIDE]).returncode)

sys.path.insert(0, str(SOURCE / "tests/support"))
import layouts  # noqa: E402
import machines  # noqa: E402
import mpi  # noqa: E402
from slurm import Slurm  # noqa: E402
from training import FOLDER, check, finish  # noqa: E402

REPLICAS, DEADLINE = 4, 8
case = layouts.net()
WANTED = layouts.train_one(case, REPLICAS)[0]


def on(machine, command, **options):
    """As a Popen. /sys stays what it is, for Slurm."""
    line = ["nsenter", f"--net=/run/netns/{machine}", "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', machine, *map(str, command)]
    return subprocess.Popen(line, **options)


def mpirun(flavour, *flags):
    hosts = pathlib.Path(tempfile.mkdtemp()) / "hosts"
    hosts.write_text("".join(f"{name} slots=1\n" if flavour == "openmpi" else f"{name}:1\n" for name in machines.NAMES))
    return [f"mpirun.{flavour}", "-n", 4, "--hostfile" if flavour == "openmpi" else "-f", hosts, *machines.OPTIONS[flavour], *flags]


def srun(*flags):
    return ["srun", "-N", 4, "-n", 4, *flags]


NUMBERS = {"openmpi": b"OMPI_COMM_WORLD_RANK", "mpich": b"PMI_RANK", "slurm": b"SLURM_PROCID"}


def process_of(flavour, number):
    """The id of a dtrun; None: it is not there."""
    for pid in machines.running("dtrun"):
        with contextlib.suppress(OSError):
            if b"%s=%d" % (NUMBERS[flavour], number) in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
    return None


class Training:
    def __init__(self, flavour, launcher, *flags):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"
        self.flavour, self.output = flavour, self.folder.parent / "output"
        command = [*launcher, "dtrun", "ps", "--servers", 2, "--insecure", case.artifact, *case.flags(REPLICAS), "--seed", 3, "--staleness", 0, "--deadline",
                   DEADLINE, "--checkpoint-dir", self.folder, *flags]
        environment = mpi.environment_of(flavour) if flavour != "slurm" else os.environ
        with self.output.open("w") as output:
            self.process = on("m0", command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def kill(self, number):
        check(machines.wait_until(lambda: list(self.folder.glob("step-*")), 60), f"no checkpoint\n{self.output.read_text()}")
        os.kill(process_of(self.flavour, number), signal.SIGKILL)

    def end(self, seconds=90):
        """Exit status, and what was said."""
        check(machines.wait_until(lambda: self.process.poll() is not None, seconds), f"{self.flavour} does not end\n{self.output.read_text()}")
        check(machines.wait_until(lambda: not machines.running("dtrun"), 20), f"{self.flavour} leaves processes behind")
        return self.process.returncode, self.output.read_text()


# Launcher, whether others go on when a process is killed, and the exit status then: where a worker was, where a server was.
CASES = [("openmpi", mpirun("openmpi"), False, 137, 137), ("openmpi", mpirun("openmpi", "--enable-recovery"), True, 0, 0),
         ("mpich", mpirun("mpich"), False, None, None), ("mpich", mpirun("mpich", "-disable-auto-cleanup"), True, 9, 9),
         ("slurm", srun(), True, 137, 137), ("slurm", srun("--no-kill"), True, 137, 137)]
LOST = {0: r"parameter server 0 \(\S+\) has not been there", 1: r"parameter server 1 of 2( \(\S+\))? has not come within"}

machines.build()
with machines.cables():
    slurm = Slurm(pathlib.Path(os.environ["TMPDIR"]) / "slurm", {name: f"10.0.0.{i + 1}" for i, name in enumerate(machines.NAMES)}, on)
    check(slurm.starts(), f"Slurm does not start\n{slurm.logs()}")
    for flavour, launcher in (("openmpi", mpirun("openmpi")), ("mpich", mpirun("mpich")), ("slurm", srun())):
        training = Training(flavour, launcher, "--epochs", 2)
        code, said = training.end()
        check(code == 0 and layouts.left_by(training.folder) == WANTED, f"{flavour}: exit status {code}, or other bytes than one process\n{said}")
        print(f"{flavour} on four machines agrees with one process", flush=True)
    for flavour, launcher, goes_on, code_of_worker, code_of_server in CASES:
        for victim, wanted in ((3, code_of_worker), (1, code_of_server), (0, code_of_server)):
            training = Training(flavour, launcher, "--epochs", 2000 if victim < 2 or not goes_on else 300, "--checkpoint-every", 50, "--log-every", 0)
            training.kill(victim)
            code, said = training.end()
            told = f"{' '.join(map(str, launcher))}, {victim} killed: exit status {code}\n{said}"
            check(code == wanted if wanted is not None else code != 0, told)
            has_ended = re.search(r"^\{\"event\":\"done\"|^done: ", said, re.MULTILINE) is not None and "stopped by a signal" not in said
            check(has_ended == (goes_on and victim == 3), told)
            if goes_on and victim < 2:
                check(re.search(LOST[victim], said), told)
            print(f"{flavour} {' '.join(map(str, launcher[-1:]))}: process {victim} killed, exit status {code}", flush=True)
finish()
