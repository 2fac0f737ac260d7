"""recompute, in full: every example at each level, with `option recompute: layers` and without, leaves the same bytes."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/tools"))
import weights_sha256  # noqa: E402

SOURCE = weights_sha256.SOURCE
again = FOLDER / "again"
shutil.copytree(SOURCE / "examples", again / "examples")
for program in (again / "examples").glob("*.dt"):
    program.write_text("option recompute: layers\n" + program.read_text())

n = 0
for training in weights_sha256.trainings():
    if (training.replicas, training.devices) not in ((2, "cpu:2"), (3, "cpu:1")):
        continue
    sums = []
    for folder in (SOURCE, again):
        weights_sha256.SOURCE = folder
        table = weights_sha256.Table("dtc", shutil.which("dtrun"), pathlib.Path(tempfile.mkdtemp(dir=FOLDER)))
        sums.append(weights_sha256.sum_of(table.train(training._replace(steps=8))))
    check(sums[0] == sums[1], f"{weights_sha256.heading(training)}: other weights")
    n += 1
check(n >= 16, f"only {n} trainings")
finish()
