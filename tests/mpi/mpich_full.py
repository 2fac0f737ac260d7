"""The transport over MPICH, and what differs between families of MPIs."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support"))
import mpi
import mpi_transport

mpi_transport.moves_bytes("mpich", "MPICH ")
mpi_transport.passes("mpich", 2, "huge")
mpi_transport.says_what_is_missing("mpich", "MPICH", "libmpich.so.12", "mpich")

# The launcher of one MPI and the library of another: each process would be alone in the world.
done = mpi.run("mpich", 2, [mpi_transport.PROGRAM], DT_MPI_PLUGIN=str(mpi.BUILD / "libdt_mpi_openmpi.so"))
assert done.returncode == 1, (done.stdout, done.stderr)
assert "mpirun of MPICH started 2 processes, of which Open MPI 4" in done.stdout and "sees 1: it is the launcher of another MPI" in done.stdout, done.stdout
