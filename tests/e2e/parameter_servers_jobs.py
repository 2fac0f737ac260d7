"""Two trainings with parameter servers, and processes whose addresses lead to servers of both, or that name another job: each is told so, and ends alone. The
trainings end with the bytes of one process."""
import os
import pathlib
import subprocess
import sys

jobs = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/faults/jobs.py"
sys.exit(subprocess.run([sys.executable, jobs, "3"]).returncode)
