"""mpi_transport: the transport over an MPI, tried by processes of tests/mpi/transport.c."""
import re

from mpi import BUILD, run

PROGRAM = BUILD / "tests/mpi/transport"


def passes(flavour, n, case):
    done = run(flavour, n, [PROGRAM, case])
    assert done.returncode == 0, (case, done.returncode, done.stdout, done.stderr)
    return done.stdout


def check(flavour, version):
    for n in (2, 3, 4):
        said = passes(flavour, n, "sizes")
        assert re.fullmatch(rf"{version} \d[\d.]+, {n} processes, {n} of this host\n", said), said
    assert run(flavour, 1, [PROGRAM, "sizes"]).stdout == "no launcher\n"
