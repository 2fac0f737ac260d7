"""The transport over Open MPI."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support"))
import mpi_transport

mpi_transport.check("openmpi", "Open MPI", "libmpi.so.40", "openmpi-bin")
