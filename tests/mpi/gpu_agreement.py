"""GPUs of processes that would compute otherwise than one another are everybody's error, in one sentence that says what differs and where: fakes of the
driver and of libraries that say something else in one process."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu_processes import *  # noqa: E402,F403

# Products that are large enough for cuBLASLt: 32 rows of each of two replicas.
LARGE = NET.replace("units: 32", "units: 256").replace("batch(32) | prefetch(2)", "batch(64)")
ARTIFACT = Artifact(LARGE, "large", target="cuda:sm_80")
FLAGS = ["--data", DATA, "--replicas", "2", "--global-batch", "64", "--max-steps", "1", "--log-every", "0"]


def start(first, *flags, which=1):
    """Two processes, of which one runs `first` before, in its shell, and has these flags of its own."""
    script = f'if [ "$OMPI_COMM_WORLD_RANK" = {which} ]; then {first}\nset -- "$@" {" ".join(flags)}; fi; exec "$@"'
    environment = {**ARTIFACT.environment(count=2, check="", capability="8.0"), "DT_NCCL": str(NCCL), "FAKE_NCCL_FOLDER": str(FOLDER)}
    return mpi.run("openmpi", 2, ["sh", "-c", script, "sh", *command("train", ARTIFACT.path, "--devices", "cuda", *FLAGS)], **environment)


def fails(what, pattern, first, *flags):
    done = start(first, *flags)
    said = re.findall(r"^dtrun: error: (.*)$", done.stderr, re.M)
    check(done.returncode == 1 and len(said) == 1 and re.search(pattern, said[0]), f"{what}: exit status {done.returncode}, {said}\n{done.stdout}{done.stderr}")
    print(f"{what}: {said[0]}", flush=True)


done = start(":")
check(done.returncode == 0 and "cuBLASLt 13.0.2" in done.stdout, f"alike: {done.stdout}{done.stderr}")
ALIKE = r"the GPUs of a run are to compute alike: process 0 has {}, process 1 \(\S+, pid \d+\) has {}; {}$"
fails("another architecture", ALIKE.format("a GPU of sm_80 with code for sm_80", "a GPU of sm_86 with code for sm_80", "use GPUs of one architecture"),
      "export FAKE_CUDA_CAPABILITY=8.6")
fails("another version", ALIKE.format(r"cuBLASLt 13\.0\.2: \d+ calls", r"cuBLASLt 13\.1\.0: \d+ calls", "install the same libraries, .*--library none"),
      "export FAKE_CUBLASLT_VERSION=130100")
fails("another choice", ALIKE.format(r"cuBLASLt 13\.0\.2: \d+ calls", r"cuBLASLt 13\.0\.2: \d+ calls, \d+ of them generated as a fallback", ".*"),
      "export FAKE_LIBRARY_REFUSE=1")
fails("no libraries", r"process 1 \(\S+, pid \d+\) has --library=none \(1\) or auto \(0\): 1, process 0 0: all processes of a run are started alike", ":", "--library", "none")
fails("a CPU", r"process 1 \(\S+, pid \d+\) computes on --devices cpu, process 0 cuda: all processes of a run are started alike", ":", "--devices", "cpu:1x1")
finish()
