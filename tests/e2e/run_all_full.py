"""examples/run_all.sh --quick: every example compiles, finds or makes its data, and trains for a few steps."""
import os
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory(prefix="dt-run-all-") as folder:
    done = subprocess.run([os.environ["DT_SOURCE"] + "/examples/run_all.sh", "--quick"], stdout=subprocess.PIPE, text=True, env={**os.environ, "DT_EXAMPLES": folder})
    print(done.stdout)
    examples = [name[:-3] for name in os.listdir(os.environ["DT_SOURCE"] + "/examples") if name.endswith(".dt")]
    ran = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    sys.exit(done.returncode or (sorted(examples) != sorted(ran) and f"{sorted(ran)} ran, there are {sorted(examples)}"))
