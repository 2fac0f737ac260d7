"""10,000 random graphs, compiled and run on one and on three replicas, beside the interpreter: tests/tools/random_graphs.py."""
import os
import subprocess
import sys

TOOL = os.path.join(os.environ["DT_SOURCE"], "tests/tools/random_graphs.py")
sys.exit(subprocess.run([sys.executable, TOOL, "--count", "10000", "--jobs", str(len(os.sched_getaffinity(0)))]).returncode)
