"""Twenty faults of parameter servers that have rows of tables, and of their workers, at random moments: tests/faults/servers.py."""
import os
import pathlib
import subprocess
import sys

faults = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/faults/servers.py"
sys.exit(subprocess.run([sys.executable, faults, "20", "1", "rows"]).returncode)
