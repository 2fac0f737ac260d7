"""Four machines, twenty cuts of a link, slow links and lost packets: tests/faults/machines.sh."""
import os
import pathlib
import subprocess
import sys

machines = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/faults/machines.sh"
sys.exit(subprocess.run([machines, "20"]).returncode)
