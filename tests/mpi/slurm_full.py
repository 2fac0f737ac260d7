"""srun of Slurm starts the processes of a run: the bytes of one process; and the job of docs/distributed.md, which is asked to end, is queued again and goes on.

Slurm's daemons run on this machine in namespaces of their own: a network of loopback alone, and processes that end with this test."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))

UNSHARE = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
INSIDE = "inside"


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def enter():
    """This test again, in the namespaces."""
    for program in ("munged", "slurmctld", "slurmd", "srun", "ip"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed: scripts/test.sh --full installs it")
    if subprocess.run([*UNSHARE, "mount", "--bind", "/etc/hosts", "/etc/hosts"], capture_output=True).returncode != 0:
        skip("this process may not make namespaces, in which Slurm's daemons would run")
    sys.exit(subprocess.run([*UNSHARE, sys.executable, __file__, INSIDE]).returncode)


if sys.argv[1:] != [INSIDE]:
    enter()

import layouts  # noqa: E402
import mpi  # noqa: E402
from slurm import Slurm  # noqa: E402
from training import FOLDER, check, finish  # noqa: E402

os.environ.update(mpi.environment_of("openmpi"))

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
JOB_SECONDS = 120

def output_of(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=JOB_SECONDS, **options)
    check(done.returncode == 0, f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stdout}{done.stderr}\n{slurm.logs()}")
    return done.stdout


def wait_until(condition, what, seconds=JOB_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"not within {seconds} s: {what}\n{slurm.logs()}")
        time.sleep(0.1)


def make_machine():
    """A machine called so, whose network is itself. Names are looked up only where there is an address beside 127.0.0.1."""
    hosts = FOLDER / "hosts"
    hosts.write_text("127.0.0.1 localhost machine\n")
    for command in (["ip", "link", "set", "lo", "up"], ["ip", "address", "add", "10.255.0.1/32", "dev", "lo"], ["hostname", "machine"],
                    ["mount", "--bind", str(hosts), "/etc/hosts"]):
        output_of(*command)


def the_bytes_of_one_process():
    case = layouts.net()
    weights = layouts.train_one(case, 6)[0]
    for n in (3, 4):
        folder = FOLDER / f"pmix-{n}"
        output_of("srun", "--mpi=pmix", "-n", n, "dtrun", "train", case.artifact, *case.flags(6), "--devices", "cpu:1x1", "--epochs", 2, "--seed", 3,
                  "--checkpoint-dir", folder)
        check(layouts.left_by(folder) == weights, f"srun --mpi=pmix -n {n} ends with other bytes than one process")
        print(f"srun --mpi=pmix -n {n} agrees with one process", flush=True)


def without_mpi_each_process_says_that_it_is_alone():
    case = layouts.net()
    done = subprocess.run(["srun", "-n", "2", "dtrun", "train", str(case.artifact), *map(str, case.flags(6)), "--max-steps", "1"], capture_output=True, text=True)
    check(done.returncode == 0 and done.stderr.count("started with srun --mpi=pmix") == 2, done.stdout + done.stderr)


def job_of_document(folder):
    """The job as it is printed, for a program and data of this test, long enough to be asked to end."""
    [script] = re.findall(r"```sbatch\n(.*?)```", (SOURCE / "docs/distributed.md").read_text(), re.DOTALL)
    case = layouts.net()
    (folder / "data").symlink_to(case.data)
    shutil.copy(case.artifact, folder / "m.dtx")
    (folder / "job.sh").write_text(script.replace("--epochs 20", "--epochs 400"))
    return re.search(r"--replicas (\d+)", script)[1], 400


def a_job_is_asked_to_end_and_goes_on():
    folder = FOLDER / "job"
    folder.mkdir()
    replicas, epochs = job_of_document(folder)
    output_of("dtrun", "train", "m.dtx", "--data", "data", "--replicas", replicas, "--epochs", epochs, "--checkpoint-dir", "alone", cwd=folder)
    job = output_of("sbatch", "--parsable", "job.sh", cwd=folder).strip()
    wait_until(lambda: list((folder / "ck").glob("step-*")), "the first checkpoint of a job")
    output_of("scancel", "--signal=USR1", f"{job}.0")
    said = lambda: (folder / "train.log").read_text()  # noqa: E731
    wait_until(lambda: "stopped by a signal" in said(), "the job's end when it is asked to")
    wait_until(lambda: not output_of("squeue", "-h", "-j", job).strip(), "the end of the job that was queued again")
    check("going on from ck/step-" in said(), said())
    check(layouts.left_by(folder / "ck") == layouts.left_by(folder / "alone"), f"a job that was queued again ends with other bytes\n{said()}")
    print("a job that was asked to end went on, and agrees with one process", flush=True)


FOLDER.chmod(0o755)
slurm = Slurm(FOLDER / "slurm", {"machine": "127.0.0.1"}, lambda machine, command, **options: subprocess.Popen(command, **options))
make_machine()
if not slurm.starts():
    print(slurm.logs())
    skip("Slurm's daemons do not start on this machine")
the_bytes_of_one_process()
without_mpi_each_process_says_that_it_is_alone()
a_job_is_asked_to_end_and_goes_on()
finish()
