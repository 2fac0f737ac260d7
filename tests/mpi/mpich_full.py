"""The transport over MPICH."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support"))
import mpi_transport

mpi_transport.check("mpich", "MPICH")
