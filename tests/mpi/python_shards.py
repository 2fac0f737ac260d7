"""The module dt in several processes that have some shards each of a model: a script's own loop leaves the bytes of one process, and a
variable of which a process has a part is not given to it as if it were whole."""
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
from sharded import SPLIT
from training import FOLDER, check, finish

MODULE = pathlib.Path(os.environ["DT_BUILD"]) / "python"
if not (MODULE / "dt/_dt.abi3.so").exists():
    print("skipped: the module dt is not built")
    sys.exit(77)

STEPS = """
import sys
import dt, numpy
program, folder = dt.open(sys.argv[1]), sys.argv[2]
a, b = numpy.load(f"{folder}/a.npy"), numpy.load(f"{folder}/b.npy")
with dt.Processes() as processes:
    over = min(processes.count, 2)
    session = program.session(replicas=4, global_batch=24, seed=5, checkpoints=f"{folder}/ck", processes=processes, shards_over=over)
    wanted = numpy.arange(32 * 64, dtype=numpy.float32).reshape(32, 64) / 2048
    name = next(path for path in session if path.endswith("kernel") and "part" in path)
    session[name] = wanted
    for at in range(0, 90, 24):
        session.step("train", a=a[at:at + 24][session.rows], b=b[at:at + 24][session.rows])
    session.save()
    try:
        assert over == 1 or not session[name].any()
    except dt.FailedPrecondition as error:
        assert over == 2 and "this process has a part of it" in str(error), error
    print(session.evaluate(a=a, b=b), flush=True)
    session.close()
"""


def left_by(artifact, n):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "run"
    shutil.copytree(layouts.DATA, folder)
    (folder / "script.py").write_text(STEPS)
    done = mpi.run("openmpi", n, [os.environ["DT_PYTHON"], folder / "script.py", artifact, folder], PYTHONPATH=str(MODULE))
    check(done.returncode == 0, f"{n} processes: {done.returncode}\n{done.stdout}{done.stderr}")
    return layouts.left_by(folder / "ck"), set(re.findall(r"{'loss'.*?}", done.stdout))


split = layouts.Case("split", SPLIT, 24)
one = left_by(split.artifact, 1)
check(len(one[1]) == 1, f"{one[1]}")
for n in (2, 4):
    check(left_by(split.artifact, n) == one, f"shards over 2 of {n} processes leave other bytes than one process, or evaluate to something else")
finish()
