"""dtrun ps: launchers start it as often as they like, and the bytes are those of one process: mpirun of Open MPI, srun without MPI, and pods with
an index, both played by the variables that they set. What nobody can take a role from is an error."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts  # noqa: E402
import mpi  # noqa: E402
from servers import new_folder  # noqa: E402
from training import FOLDER, check, finish  # noqa: E402

case = layouts.net()
WANTED = layouts.train_one(case, 4)[0]
N, N_SERVERS = 4, 2


def line(folder, *flags, servers=N_SERVERS):
    return ["dtrun", "ps", "--servers", servers, case.artifact, *case.flags(4), "--epochs", 2, "--seed", 3, "--staleness", 0, "--checkpoint-dir", folder, *flags]


def agrees(folder, who):
    check(layouts.left_by(folder) == WANTED, f"{who}: other bytes than one process")
    print(f"{who} agrees with one process", flush=True)


def all_of(variables, command):
    """Each process with its variables, as a launcher starts them."""
    started = [subprocess.Popen(list(map(str, command)), env={**os.environ, **{name: value.format(p) for name, value in variables.items()}},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for p in range(N)]
    said = [process.communicate(timeout=120)[0] for process in started]
    check(all(process.returncode == 0 for process in started), f"{variables}: {said}")


folder = new_folder()
done = mpi.run("openmpi", N, line(folder, "--port", 7177))
check(done.returncode == 0, done.stdout + done.stderr)
agrees(folder, "mpirun")

keys = FOLDER / "keys"
subprocess.run(["dtrun", "keys", str(keys)], check=True, stdout=subprocess.DEVNULL)
folder = new_folder()
all_of({"SLURM_PROCID": "{}", "SLURM_STEP_NUM_TASKS": str(N), "SLURM_STEP_NODELIST": "localhost", "SLURM_STEP_TASKS_PER_NODE": str(N)},
       line(folder, "--keys", keys, "--port", 7277))
agrees(folder, "srun")
folder = new_folder()
all_of({"JOB_COMPLETION_INDEX": "{}"}, line(folder, "--insecure", "--workers", 2, "--port", 7377, servers="localhost,localhost"))
agrees(folder, "Kubernetes")


def refused(expected, variables, *flags, **more):
    done = subprocess.run(list(map(str, line(new_folder(), *flags, **more))), env={**os.environ, **variables}, capture_output=True, text=True, timeout=60)
    check(done.returncode in (1, 2) and expected in done.stderr and done.stdout == "", f"{variables}: {done}")


refused("by a launcher that numbers its processes", {})
refused("2 of the 2 processes that srun started would be servers", {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2"})
refused("Kubernetes does not tell where its processes are", {"JOB_COMPLETION_INDEX": "0"})
refused("SLURM_STEP_NODELIST=a[ is no list", {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "a[", "SLURM_STEP_TASKS_PER_NODE": "4"})
refused("--port takes at most", {}, "--port", 65536)
finish()
