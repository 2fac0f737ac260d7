"""Two runs of each kind in which one member is different: tests/faults/members.py."""
import os
import pathlib
import subprocess
import sys

faults = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/faults/members.py"
sys.exit(subprocess.run([sys.executable, faults, "2"]).returncode)
