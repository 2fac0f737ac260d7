"""The module dt in several processes: a script's own loop and session.train, on files, arrays and batches, leave the bytes of `dtrun train`; a mistake of one process raises in all; an
exception that leaves the `with` of one ends the others, each with the reason."""
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from applications import ARTIFACT, DATA, same_bytes
from training import FOLDER, check, finish

MODULE = pathlib.Path(os.environ["DT_BUILD"]) / "python"
if not (MODULE / "dt/_dt.abi3.so").exists():
    print("skipped: the module dt is not built")
    sys.exit(77)

BEGIN = """
import sys
import dt, numpy
program, folder = dt.open(sys.argv[1]), sys.argv[2]
x, label = numpy.load(f"{folder}/x.npy"), numpy.load(f"{folder}/label.npy")
def create(processes):
    return program.session(replicas=6, global_batch=12, seed=5, data=folder, checkpoints=f"{folder}/ck", processes=processes)
"""
STEPS = BEGIN + """
with dt.Processes() as processes:
    session = create(processes)
    try:
        session.launch["rate"] = processes.number
    except dt.FailedPrecondition as error:
        assert processes.count == 1 or "process 1 gives it other arguments" in str(error), error
    session.launch["rate"] = 0.01
    for epoch in range(3):
        for at in range(0, 30, 12):
            session.step("train", x=x[at:at + 12][session.rows], label=label[at:at + 12][session.rows])
    session.save()
    whole = session.evaluate(x=x, label=label)
    assert whole == session.evaluate(), whole
    session.close()
"""
TRAIN = BEGIN + """
with dt.Processes() as processes:
    session = create(processes)
    reports = list(session.train(epochs=3))
    assert [report.epoch for report in reports] == [1, 2, 3], reports
    try:
        session.predict(x)
    except dt.FailedPrecondition as error:
        assert processes.count > 1 and "run step() on them" in str(error), error
    session.close()
"""
GIVEN = BEGIN + """
with dt.Processes() as processes:
    session = create(processes)
    by_hand = lambda: ((x[at:at + 12][session.rows], label[at:at + 12][session.rows]) for at in range(0, 30, 12))
    session.train({"x": x, "label": label}, shuffle=False, validation=(x, label)).run()
    session.train(by_hand, validation=by_hand, epochs=2).run()
    try:
        session.train((x[processes.number:], label[processes.number:])).run()
    except dt.FailedPrecondition as error:
        assert "process 1 gives it other arguments" in str(error), error
    assert session.evaluate(by_hand) == session.evaluate((x, label)) == session.evaluate()
    session.close()
"""
FAILS = BEGIN + """
try:
    with dt.Processes() as processes:
        session = create(processes)
        if processes.number == 1:
            raise KeyError("camera")
        session.step("train", x=x[:12][session.rows], label=label[:12][session.rows])
except Exception as error:
    print(f"{type(error).__name__}: {error}", flush=True)
"""
# The other one leaves meanwhile: both have closed their processes, though with an error.
LEAVES = BEGIN + """
with dt.Processes() as processes:
    session = create(processes)
    if processes.number == 0:
        session.save()
    session.close()
"""


def run(text, n):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "run"
    shutil.copytree(DATA, folder)
    (folder / "script.py").write_text(text)
    done = mpi.run("openmpi", n, [os.environ["DT_PYTHON"], folder / "script.py", ARTIFACT, folder], PYTHONPATH=str(MODULE))
    return done, folder


for what, text, n in (("step", STEPS, 1), ("step", STEPS, 2), ("step", STEPS, 3), ("train", TRAIN, 2), ("given", GIVEN, 2), ("given", GIVEN, 3)):
    done, folder = run(text, n)
    check(done.returncode == 0, f"{what} on {n}: {done.returncode}\n{done.stdout}{done.stderr}")
    same_bytes(f"{what} on {n}", folder / "ck")
done, _ = run(FAILS, 2)
said = sorted(line for line in done.stdout.splitlines() if "Error" in line or "Aborted" in line)
check(said == ["Aborted: process 1: KeyError: 'camera'", "KeyError: 'camera'"], f"{said}\n{done.stdout}{done.stderr}")
done, _ = run(LEAVES, 2)
check(done.returncode == 1 and "process 1 calls session.processes_close, process 0 session.save" in done.stderr, f"{done.returncode}\n{done.stdout}{done.stderr}")
finish()
