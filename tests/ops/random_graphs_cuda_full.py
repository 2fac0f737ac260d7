"""60 random graphs, compiled for a GPU as well, whose kernels run by emulation: tests/tools/random_graphs.py."""
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests/support"))
import emulated_kernels  # noqa: E402

if not emulated_kernels.is_possible():
    sys.exit(77)
command = [sys.executable, SOURCE / "tests/tools/random_graphs.py", "--cuda", "--count", "60", "--jobs", str(len(os.sched_getaffinity(0)))]
sys.exit(subprocess.run(command).returncode)
