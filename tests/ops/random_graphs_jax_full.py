"""4,000 random graphs, compiled, beside JAX, in the environment of bench/peers: tests/tools/random_graphs.py."""
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
subprocess.run([SOURCE / "bench/peers/setup.sh"], check=True)
command = [SOURCE / "bench/peers/.venv/bin/python", SOURCE / "tests/tools/random_graphs.py", "--jax", "--count", "4000", "--jobs", "1"]
sys.exit(subprocess.run(command).returncode)
