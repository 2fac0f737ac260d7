"""10,000 random graphs of numbers at their edges, pairs of rows and second gradients, beside NumPy: tests/tools/random_numbers.py."""
import os
import subprocess
import sys

TOOL = os.path.join(os.environ["DT_SOURCE"], "tests/tools/random_numbers.py")
sys.exit(subprocess.run([sys.executable, TOOL, "--count", "10000", "--jobs", str(len(os.sched_getaffinity(0)))]).returncode)
