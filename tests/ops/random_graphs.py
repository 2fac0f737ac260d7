"""Random graphs, compiled and run on one and on three replicas, beside the interpreter: tests/tools/random_graphs.py. They reach every op of the table but loops."""
import os
import subprocess
import sys

TOOL = os.path.join(os.environ["DT_SOURCE"], "tests/tools/random_graphs.py")
sys.exit(subprocess.run([sys.executable, TOOL, "--count", "200", "--every-op"]).returncode)
