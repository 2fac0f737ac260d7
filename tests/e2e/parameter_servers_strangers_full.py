"""Two trainings beside 5,000 strangers: tests/faults/strangers.py."""
import os
import pathlib
import subprocess
import sys

faults = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/faults/strangers.py"
sys.exit(subprocess.run([sys.executable, faults, "2"]).returncode)
