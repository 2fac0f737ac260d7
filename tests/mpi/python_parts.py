"""The module dt in several processes that have a part each of a model, some of its shards or of its layers: a script's own loop leaves the bytes of one
process, each process has the results of its rows, and a variable of which a process has a part is not given to it as if it were whole."""
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
import numpy
from sharded import SPLIT, case
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
    session = program.session(replicas=4, global_batch=24, seed=5, checkpoints=f"{folder}/ck", processes=processes, **{sys.argv[3]: over})
    name = next(path for path in session if path.endswith("kernel") and "part" in path)
    shape = program.variables[name].shape
    wanted = numpy.sin(numpy.arange(shape[0] * shape[1], dtype=numpy.float32)).reshape(shape) / 9
    session[name] = wanted
    for at in range(0, 90, 24):
        session.step("train", a=a[at:at + 24][session.rows], b=b[at:at + 24][session.rows])
    session.save()
    try:
        assert over == 1 or not session[name].any()
    except dt.FailedPrecondition as error:
        assert over == 2 and "this process has a part of it" in str(error), error
    values = session.step("predict", a=a[:24][session.rows], b=b[:24][session.rows])["value"]
    numpy.save(f"{folder}/value-{session.rows.start}-{processes.number}.npy", values)
    print(session.evaluate(a=a, b=b), flush=True)
    session.close()
"""


def left_by(artifact, n, option):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "run"
    shutil.copytree(layouts.DATA, folder)
    (folder / "script.py").write_text(STEPS)
    done = mpi.run("openmpi", n, [os.environ["DT_PYTHON"], folder / "script.py", artifact, folder, option], PYTHONPATH=str(MODULE))
    check(done.returncode == 0, f"{n} processes: {done.returncode}\n{done.stdout}{done.stderr}")
    values = {}
    for path in folder.glob("value-*.npy"):
        values.setdefault(int(path.name.split("-")[1]), set()).add(numpy.load(path).tobytes())
    check(all(len(same) == 1 for same in values.values()), f"{n} processes, {option}: those with the same rows have other results")
    return layouts.left_by(folder / "ck"), set(re.findall(r"{'loss'.*?}", done.stdout)), b"".join(values[first].pop() for first in sorted(values))


for model, option in ((layouts.Case("split", SPLIT, 24), "shards_over"), (case("clipped"), "stages")):
    one = left_by(model.artifact, 1, option)
    check(len(one[1]) == 1, f"{one[1]}")
    for n in (2, 4):
        check(left_by(model.artifact, n, option) == one, f"{option} 2 of {n} processes leave other bytes than one process, or give other results")
finish()
