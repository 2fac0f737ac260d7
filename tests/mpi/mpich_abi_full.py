"""The transport over MPICH 5, by the ABI of MPI 5; and by that of MPICH 4, for which its plugin was built."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support"))
import mpi
import mpi_transport

mpi_transport.moves_bytes("mpich_abi", "MPICH 5.")
done = mpi.run("mpich_abi", 2, [mpi_transport.PROGRAM], DT_MPI_PLUGIN=str(mpi.BUILD / "libdt_mpi_mpich.so"))
assert done.stdout.startswith("MPICH 5.") and "2 processes" in done.stdout, (done.stdout, done.stderr)
