"""mpi_transport: the transport over an MPI, tried by processes of tests/mpi/transport.c."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

from mpi import BUILD, FLAVOURS, environment_of, run

PROGRAM = BUILD / "tests/mpi/transport"
LAUNCHED = {"openmpi": {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, "mpich": {"PMI_SIZE": "2", "PMI_RANK": "1"}}


def passes(flavour, n, *case, **settings):
    done = run(flavour, n, [PROGRAM, *case], **settings)
    assert done.returncode == 0 and done.stderr == "", (case, done.returncode, done.stdout, done.stderr)
    return done.stdout


def seconds(text, what):
    return [float(found) for found in re.findall(rf"{what} at ([\d.]+)", text)]


def closing_waits_for_all(flavour, n):
    said = passes(flavour, n, "unheard")
    begun, closed = seconds(said, "begins to close"), seconds(said, "has closed")
    assert len(begun) == 1 and len(closed) == n - 1 and min(closed) > begun[0], said


def runs(pid):
    """Whether there is such a process, and not only what init has yet to bury of it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def abort_ends_all(flavour, n):
    done = run(flavour, n, [PROGRAM, "aborts"])
    pids = [int(found) for found in re.findall(r"pid (\d+)", done.stdout)]
    assert done.returncode == 42 and len(pids) == n, (done.returncode, done.stdout, done.stderr)
    while any(map(runs, pids)):
        assert time.monotonic() - seconds(done.stdout, "aborts")[0] < 2, [pid for pid in pids if runs(pid)]
        time.sleep(0.01)
    assert time.monotonic() - seconds(done.stdout, "aborts")[0] < 2


def ends_with(flavour, case, sentence):
    done = run(flavour, 2, [PROGRAM, case])
    assert done.returncode == 1 and re.search(f"process 1: {sentence}", done.stderr), (case, done.returncode, done.stderr)


def alone(flavour, program=PROGRAM, **settings):
    """What a process says that a launcher seems to have started."""
    done = subprocess.run([program], env=environment_of(flavour, **LAUNCHED[flavour], **settings), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, (done.stdout, done.stderr)
    return done.stdout


def plugin_is_found_beside_the_program(flavour):
    for place in ("bin", "lib"):
        with tempfile.TemporaryDirectory(prefix="dt-test-") as folder:
            folder = pathlib.Path(folder)
            (folder / "bin").mkdir()
            (folder / place).mkdir(exist_ok=True)
            shutil.copy(PROGRAM, folder / "bin")
            shutil.copy(BUILD / FLAVOURS[flavour][1], folder / place)
            done = run(flavour, 2, [folder / "bin/transport"], DT_MPI_PLUGIN=None)
            assert "2 processes" in done.stdout, (done.stdout, done.stderr)


def moves_bytes(flavour, version):
    for n in (2, 4):
        said = passes(flavour, n)
        assert re.fullmatch(rf"{version}[\d.]+, {n} processes, {n} of this host\n", said), said
    for n, case in ((2, "sizes"), (3, "rounds"), (4, "rounds"), (2, "ahead"), (2, "memory"), (3, "sums"), (3, "busy")):
        passes(flavour, n, case)
    closing_waits_for_all(flavour, 3)
    abort_ends_all(flavour, 4)
    ends_with(flavour, "shorter", "process 0 sent 40 bytes, and process 1 expected 44")
    ends_with(flavour, "longer", rf"{version}[\d.]+, receiving from process 0: .*truncated")
    plugin_is_found_beside_the_program(flavour)


def says_what_is_missing(flavour, name, library, package):
    plugin = FLAVOURS[flavour][1]
    assert run(flavour, 1, [PROGRAM]).stdout == "no launcher\n"
    with tempfile.TemporaryDirectory(prefix="dt-test-") as folder:
        folder = pathlib.Path(folder)
        program, bad, library = folder / "transport", folder / "bad.so", folder / library
        shutil.copy(PROGRAM, program)
        said = alone(flavour, program, DT_MPI_PLUGIN=None)
        assert said.startswith(f"mpirun of {name} started this process as 1 of 2: there is no {plugin} in {folder} and {folder}/../lib: "), said
        assert "DT_MPI_PLUGIN" in said, said
        assert f"{bad} cannot be loaded: " in alone(flavour, DT_MPI_PLUGIN=str(bad))
        for text, sentence in (("int other;", "is no plugin for MPI: it has no dt_mpi_plugin"),
                               ("const struct { int version; } dt_mpi_plugin_entry = {99};", "is of another build: its interface has number 99, ")):
            subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", bad], input=text, text=True, check=True)
            assert f"{bad} {sentence}" in alone(flavour, DT_MPI_PLUGIN=str(bad))
        library.write_bytes(b"")  # the loader stops at what it cannot read
        said = alone(flavour, LD_LIBRARY_PATH=str(folder))
        assert f"{library}: file too short" in said and f"apt-get install {package}" in said, said
