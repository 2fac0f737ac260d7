"""Processes of a run compare what they read: one whose files hold other bytes ends the run, before the step that would train on them, by an error that names the process,
its machine, the file and the row. A file that costs no reading is compared whole, others in part; --no-data-check compares nothing."""
import concurrent.futures
import gzip
import os
import re
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from training import FOLDER, PROGRAM, check, compile_program, finish, write_data

N, N_ROWS = 2, 300
DATA = write_data(FOLDER / "data", n=N_ROWS, n_test=96)
ARTIFACT = compile_program(PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", "shuffle(1000) | batch(32)"), "net")


def other(name, change, *rows, header=8, row_bytes=1):
    """The data, but for a byte in these rows of a file."""
    folder = FOLDER / f"other-{len(list(FOLDER.iterdir()))}"
    shutil.copytree(DATA, folder)
    is_zipped = name.endswith(".gz")
    content = bytearray((gzip.decompress if is_zipped else bytes)((folder / name).read_bytes()))
    for row in rows:
        content[header + row * row_bytes] = change(content[header + row * row_bytes])
    (folder / name).write_bytes(gzip.compress(content) if is_zipped else content)
    return folder


def run(which, folder, *flags, verb="train", n=N):
    own = ["dtrun", verb, ARTIFACT, "--replicas", n, "--devices", "cpu:1x1", "--deadline", 20, *flags]
    words = " ".join(map(str, own))
    return mpi.run("openmpi", n, ["sh", "-c", f"[ $OMPI_COMM_WORLD_RANK = {which} ] && exec {words} --data {folder}; exec {words} --data {DATA}"])


def next_label(label):
    return (label + 1) % 10


def names(which, folder, pattern, *flags, **more):
    done = run(which, folder, *flags, **more)
    said = re.findall(r"^dtrun: error: (.*)$", done.stderr, re.M)
    check(done.returncode == 1 and len(said) == 1 and re.search(pattern, said[0]), f"{pattern}: exit status {done.returncode}, {said}\n{done.stdout}{done.stderr}")
    check("epoch 2/" not in done.stdout, f"it trained on them\n{done.stdout}")
    print(said[0])


WHO = r"^process {} \(\S+, pid \d+\) has other data than process 0: .*"
cases = [
    (1, other("labels.gz", next_label, *range(N_ROWS)), WHO.format(1) + r"(row|rows) [\d, and]+ (others )?\(from 0\) of \S+/labels.gz differs; --data names"),
    (1, other("images.gz", lambda byte: byte ^ 1, *range(0, N_ROWS, 2), header=16, row_bytes=144), WHO.format(1) + r"of \S+/images.gz differs"),
    (0, other("labels.gz", next_label, *range(N_ROWS)), WHO.format(1) + r"labels.gz differs"),  # process 0 is right by definition
]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    for done in [pool.submit(names, which, folder, pattern, "--epochs", 2) for which, folder, pattern in cases]:
        done.result()

# A single row of a single process, which is its own in some epoch; the error holds that row. So do examples of a checkpoint's evaluation.
row = 123
done = run(1, other("labels.gz", next_label, row), "--epochs", 20, "--log-every", 0)
check(done.returncode == 1 and re.search(WHO.format(1)[1:] + rf"\b{row}\b.*labels.gz differs", done.stderr), f"a single row is not found\n{done.stdout}{done.stderr}")
folder = tempfile.mkdtemp(dir=FOLDER)
done = run(1, cases[1][1], "--no-data-check", "--epochs", 1, "--checkpoint-dir", folder)
check(done.returncode == 0 and "data compared" not in done.stdout, f"--no-data-check compares\n{done.stdout}{done.stderr}")
names(1, other("test-labels", next_label, *range(96)), WHO.format(1) + "test-labels differs", "--checkpoint-dir", folder, verb="evaluate")
done = run(1, DATA, "--epochs", 1)
check(done.returncode == 0 and re.search(r"^done: .*, data compared in \d+\.\d+ s$", done.stdout, re.M), f"what it costs is not said\n{done.stdout}{done.stderr}")
finish()
