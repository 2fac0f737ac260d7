"""`dtrun bench` over processes: one of them prints; what crosses is timed, and so is what of it is waited for."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
from training import check, finish

artifact = layouts.wide().artifact
flags = ["--replicas", 4, "--devices", "cpu:1x1", "--steps", 5]
done = mpi.run("openmpi", 2, ["dtrun", "bench", artifact, *flags, "--json"])
check(done.returncode == 0, f"dtrun bench over two processes: {done.stdout}{done.stderr}")
said = json.loads(done.stdout)
check(said["processes"] == 2 and said["cores"] == 1, f"it has {said['processes']} processes of {said['cores']} cores")
check(0 < said["exchanging"] <= said["median"], f"of a step of {said['median']} s, {said['exchanging']} s are said to be exchanged")
check(0 < said["exposed"] <= said["median"], f"of a step of {said['median']} s, {said['exposed']} s are said to be waited for")
text = mpi.run("openmpi", 2, ["dtrun", "bench", artifact, *flags]).stdout
check(text.count("between processes: ") == 1 and " of each of 2 processes" in text, f"the table does not say what crosses: {text}")
alone = mpi.run("openmpi", 1, ["dtrun", "bench", artifact, *flags]).stdout
check("processes" not in alone, f"of one process it says what crosses: {alone}")
finish()
