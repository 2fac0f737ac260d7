"""mpi: programs run by mpirun, on this machine alone: as root, on fewer cores than processes, bound to none, over shared memory or loopback.

A run that takes too long is ended, and that is an error; programs end themselves then, for mpirun may not get to it.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile

BUILD = pathlib.Path(os.environ["DT_BUILD"])
PREFIX = pathlib.Path(os.environ["DT_PYTHON"]).parent.parent  # where pip installs programs and libraries
SESSIONS = tempfile.TemporaryDirectory(prefix="dt-mpi-", ignore_cleanup_errors=True)
LONGEST_SECONDS = 300  # of a run that does not hang, with a sanitizer, on a busy machine



def openmpi(*links):
    return (("mpirun.openmpi", "mpirun"), "libdt_mpi_openmpi.so",
            ["--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", ",".join(("self", *links)), "--mca", "oob_tcp_if_include", "lo"],
            {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})


FLAVOURS = {  # commands, plugin, arguments for one machine, environment
    "openmpi": openmpi("vader"),
    "openmpi_tcp": openmpi("tcp"),
    "mpich": (("mpirun.mpich", "mpirun"), "libdt_mpi_mpich.so", ["-localhost", "127.0.0.1"], {"UCX_TLS": "self,sm"}),
    "mpich_abi": ((PREFIX / "bin/mpirun",), "libdt_mpi_abi.so", ["-localhost", "127.0.0.1"],
                  {"UCX_TLS": "self,sm", "LD_LIBRARY_PATH": str(PREFIX / "lib")}),
}


def environment_of(flavour, **settings):
    """What a program of this flavour needs to be told; a setting of None is taken away."""
    _, plugin, _, environment = FLAVOURS[flavour]
    own = tempfile.mkdtemp(dir=SESSIONS.name)  # else all of a user's have one, and who makes it while another does fails
    together = {**os.environ, "DT_MPI_PLUGIN": str(BUILD / plugin), "OMPI_MCA_orte_tmpdir_base": own, **environment, **settings}
    for options, what in (("ASAN_OPTIONS", "detect_leaks=0"), ("TSAN_OPTIONS", "ignore_noninstrumented_modules=1")):
        together[options] = f"{together.get(options, '')}:{what}"  # MPIs keep memory to the end, and have threads that nobody instrumented
    return {name: value for name, value in together.items() if value is not None}


def run(flavour, n, command, seconds=LONGEST_SECONDS, **settings):
    """The finished process of `mpirun -n n command`, with its output."""
    programs, _, arguments, _ = FLAVOURS[flavour]
    mpirun = next(filter(None, map(shutil.which, programs)), None)
    assert mpirun, f"{programs[0]} is not installed: scripts/test.sh installs it"
    with subprocess.Popen([mpirun, "-n", str(n), *arguments, *map(str, command)], env=environment_of(flavour, **settings), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            try:
                out, err = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
            raise AssertionError(f"mpirun -n {n} {command} has not ended after {seconds} s\n{out}{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
