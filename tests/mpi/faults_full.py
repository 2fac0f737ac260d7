"""Thirty faults at random moments, and thirty where processes hold shards of a model, or layers: tests/faults/faults.py."""
import os
import pathlib
import subprocess
import sys

faults = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/faults/faults.py"
for arguments in (["15"], ["15", "1", "shards"], ["15", "1", "stages"]):
    if subprocess.run([sys.executable, faults, *arguments]).returncode != 0:
        sys.exit(1)
