"""The transport over Open MPI."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support"))
import mpi_transport

mpi_transport.moves_bytes("openmpi", "Open MPI ")
mpi_transport.passes("openmpi_tcp", 2, "unasked", OMPI_MCA_btl_tcp_eager_limit=str(257 << 10))  # dtrun's setting; without, the receiver is asked
mpi_transport.says_what_is_missing("openmpi", "Open MPI", "libmpi.so.40", "openmpi-bin")
