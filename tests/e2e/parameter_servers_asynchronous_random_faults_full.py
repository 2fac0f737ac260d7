"""A hundred faults of asynchronous parameter servers and their workers, at random moments: tests/faults/servers.py."""
import os
import pathlib
import subprocess
import sys

faults = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/faults/servers.py"
sys.exit(subprocess.run([sys.executable, faults, "100", "1", "asynchronous"]).returncode)
