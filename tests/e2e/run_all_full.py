"""examples/run_all.sh --quick: every example that trains compiles, finds or makes its data, and trains for a few steps."""
import os
import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory(prefix="dt-run-all-") as folder:
    done = subprocess.run([os.environ["DT_SOURCE"] + "/examples/run_all.sh", "--quick"], stdout=subprocess.PIPE, text=True, env={**os.environ, "DT_EXAMPLES": folder})
    print(done.stdout)
    programs = pathlib.Path(os.environ["DT_SOURCE"], "examples").glob("*.dt")
    examples = [path.stem for path in programs if "\nstep train(" in path.read_text()]
    ran = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    sys.exit(done.returncode or (sorted(examples) != sorted(ran) and f"{sorted(ran)} ran, there are {sorted(examples)}"))
