"""Two processes share one GPU and exchange through the host's memory, by MPI: the bits of one process."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu import *  # noqa: E402,F403

if shutil.which("mpirun") is None:
    print("skipped: there is no mpirun")
    sys.exit(77)
is_open_mpi = "Open MPI" in subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
MPIRUN = ["mpirun", *(["--oversubscribe", "--bind-to", "none"] if is_open_mpi else [])]
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
for options, what in (("ASAN_OPTIONS", "detect_leaks=0"), ("TSAN_OPTIONS", "ignore_noninstrumented_modules=1")):
    os.environ[options] = f"{os.environ.get(options, '')}:{what}"  # MPIs keep memory to the end, and have threads that nobody instrumented

SMALL = PROGRAM.replace("units: 32", "units: 8").replace("take(1000)", "take(100)")
STEPS = 6 if FAKE else 400
data = write_data(n=200, n_test=40)
artifact = for_gpu(SMALL if FAKE else PROGRAM, "net")


def train(n, folder):
    flags = ["--data", data, "--max-steps", STEPS, "--replicas", 4, "--global-batch", 32, "--devices", "cuda:0", "--checkpoint-dir", FOLDER / folder]
    done = subprocess.run([*MPIRUN, "-n", str(n), *command("train", artifact, *flags)], capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, f"{n} processes: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return bits(FOLDER / folder), done.stdout


wanted, _ = train(1, "one")
found, said = train(2, "two")
check("processes 0 and 1 share a GPU" in said, f"it does not say how they exchange:\n{said}")
check(found == wanted, f"two processes: {found}, one: {wanted}")
print("two processes on one GPU: their bits agree with those of one", flush=True)
finish()
