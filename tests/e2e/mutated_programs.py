"""Programs with a few tokens, lines or bytes changed are refused with a place, or compiled: tests/tools/mutated_programs.c, on the examples, on what the
tests have, and on random graphs. mutated_programs.py [COUNT ARTIFACTS]."""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
sys.path.insert(0, str(SOURCE / "tests/support"))
from random_programs import Graph, program_text  # noqa: E402

count, artifacts = sys.argv[1:3] or ("400", "8")
with tempfile.TemporaryDirectory(prefix="dt_") as folder:
    for seed in range(1, 41):
        (pathlib.Path(folder) / f"g{seed}.dt").write_text(program_text([Graph(seed)]))
    programs = [*sorted(SOURCE.glob("examples/*.dt")), *sorted(SOURCE.glob("tests/programs/*.dt")), *sorted(SOURCE.glob("tests/twins/*.dt")),
                *sorted(SOURCE.glob("tests/fuzz/dsl/*.dt")), *sorted(pathlib.Path(folder).glob("*.dt"))]  # fmt: skip
    tool = os.path.join(os.environ["DT_TOOLS"], "mutated_programs")
    sys.exit(subprocess.run([tool, "--count", count, "--artifacts", artifacts, *programs]).returncode)
