"""What goes wrong in one process of several is everybody's error: said once, in one sentence that says where, and the run ends. Several runs go on at once:
they wait for one another's ends most of their time."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import sys
import tempfile

import numpy
import safetensors.numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import mpi
from training import FOLDER, PROGRAM, check, compile_program, finish, write_data, Run

N = 3
TEXT = PROGRAM.replace("take(1000) | shuffle(1000) | batch(32)", "batch(32)").replace('"images.gz", "labels.gz"', '"test-images", "test-labels"')
ARTIFACT = compile_program("launch rate = 1.0\n" + TEXT, "net")
DATA = write_data(FOLDER / "data", n=32, n_test=192)


def copy_of_data(name):
    folder = FOLDER / name
    shutil.copytree(DATA, folder)
    return folder


def run(which, *flags, artifact=None, data=DATA, before="", program=ARTIFACT, epochs=2, others=""):
    """Process `which` with an artifact, flags and data of its own, after `before` in its shell, which is told the folder; the others alike."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    common = f"--replicas {N} --devices cpu:1x1 --epochs {epochs} --log-every 0 --deadline 20 {others}"
    script = f"""if [ $OMPI_COMM_WORLD_RANK = {which} ]; then {before.format(folder=folder)}
                 exec dtrun train {artifact or program} --data {data} --checkpoint-dir {folder}/ck {common} {' '.join(map(str, flags))}; fi
                 exec dtrun train {program} --data {DATA} --checkpoint-dir {folder}/ck {common}"""
    return mpi.run("openmpi", N, ["sh", "-c", script])


POOL = concurrent.futures.ThreadPoolExecutor(3)
outcomes = []


def fails(what, pattern, start, *flags, **more):
    """A run that `start` starts, in its turn, and what it says in the end."""

    def fail():
        done = start(*flags, **more)
        said = re.findall(r"^dtrun: error: (.*)$", done.stderr, re.M)
        check(done.returncode == 1 and len(said) == 1 and re.search(pattern, said[0]),
              f"{what}: exit status {done.returncode}, {said}\n{done.stdout}{done.stderr}")
        print(f"{what}: {said[0]}", flush=True)

    outcomes.append(POOL.submit(fail))


def alike(*flags, artifact=ARTIFACT, data=DATA):
    """All processes have the same flags, and one finds something wrong."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    return mpi.run("openmpi", N, ["dtrun", "train", artifact, "--data", data, "--replicas", N, "--devices", "cpu:1x1", "--epochs", 2,
                                  "--log-every", 0, "--checkpoint-dir", folder / "ck", *flags])


# The second process of a batch of 96 has its rows 32 to 63.
bad = copy_of_data("bad")
labels = bytearray((bad / "test-labels").read_bytes())
labels[8 + 96 + 40] = 200
(bad / "test-labels").write_bytes(labels)
fails("a bad index", r"index 200.*example 136 of epoch 0", alike, data=bad)
fails("not a number", r"train step \d+: loss is not a number", alike, artifact=compile_program(TEXT.replace("adam(learning_rate: 1e-3)", "sgd(1e30)"), "nan"))

fails("fewer examples", r"process 1 \(\S+, pid \d+\) finds 160 examples in its files, process 0 192; --data names", run, 1, data=write_data(FOLDER / "fewer", n=32, n_test=160))
for value in (0, 1):
    safetensors.numpy.save_file({"spare": numpy.full(1, value)}, FOLDER / f"weights-{value}")
fails("other weights", r"not all processes find the same in \S+weights-\d: process 1 \([^)]+\) finds other bytes than process 0; --init and --map name files that are the same on all machines", run, 1, "--init",
      FOLDER / "weights-1", others=f"--allow-missing --init {FOLDER}/weights-0")
missing = copy_of_data("missing")
(missing / "test-images").unlink()
fails("a missing file", r"^process 2 \(\S+, pid \d+\): data \w+: \S+missing/test-images", run, 2, data=missing)
short = copy_of_data("short")
(short / "test-labels").write_bytes((short / "test-labels").read_bytes()[:100])
fails("a short file", r"^process 1 \(\S+, pid \d+\): data \w+: \S+short/test-labels", run, 1, data=short)

# The limit comes when MPI has made its own files, and with them a checkpoint.
full = "(until ls {folder}/ck/step-*; do sleep 0.02; done >/dev/null 2>&1; prlimit --pid $$ --fsize=1000) &"
fails("a full disk", r"cannot write: File too large", run, 0, before=full, epochs=100000)

other = FOLDER / "other.dtx"
other.write_bytes(compile_program(TEXT.replace("units: 32", "units: 33"), "wider").read_bytes())
fails("another program", r"process 1 \(\S+, pid \d+\) runs the program with hash \w+, process 0 \w+", run, 1, artifact=other)
damaged = bytearray(ARTIFACT.read_bytes())
damaged[len(damaged) // 2] ^= 1
(FOLDER / "damaged.dtx").write_bytes(damaged)
fails("a damaged artifact", r"process 1 \(\S+, pid \d+\) has an artifact whose bytes have hash \w+, process 0 \w+|damaged.dtx", run, 1, artifact=FOLDER / "damaged.dtx")

fails("another launch value", r"process 1 \(\S+, pid \d+\) has other options: --set, .* started alike", run, 1, "--set", "rate=2")
fails("another seed", r"process 2 \(\S+, pid \d+\) has --seed 4, process 0 0: all processes of a run are started alike", run, 2, "--seed", 4)
fails("another number of epochs", r"process 1 \(\S+, pid \d+\) has --epochs 3, process 0 2", run, 1, "--epochs", 3)
fails("another end", r"process 0 .*--max-steps|process 1 \(\S+, pid \d+\) has --max-steps -1, process 0 3", run, 0, "--max-steps", 3)

done = run(2, "--checkpoint-dir", FOLDER / "own")
said = re.findall(r"^dtrun: warning: .*not all processes see the same folder there and may write in it: process 2 \(\S+, pid \d+\) does not, .*$", done.stderr, re.M)
check(done.returncode == 0 and len(said) == 1, f"a folder of its own: {done.stdout}{done.stderr}")
check("not all processes" not in run(2).stderr, "a folder that all share is called one's own")
folder = tempfile.mkdtemp(dir=FOLDER)
Run("train", ARTIFACT, "--data", DATA, "--replicas", N, "--devices", "cpu:1x1", "--max-steps", 1, "--checkpoint-dir", folder)
shared = ["--checkpoint-dir", folder, "--resume"]
fails("an older folder of its own", r"process 2 \(\S+, pid \d+\) goes on with --resume \(1\)", run, 2, *shared)

for one in outcomes:
    one.result()

# Steps that compute for some time: so how slow a process is depends on its share of the time, not on how soon it is back when it is wanted.
busy = compile_program(TEXT.replace("flatten(f32(image) / 255)", "f32(image)[..., newaxis] / 255\n"
                                    + "    x = conv2d(x, filters: 64, kernel: 3, activation: relu)\n" * 2 + "    x = flatten(x)"), "busy", "--batch", "100")
slow = "(while kill -STOP $$; sleep 0.18; kill -CONT $$ && sleep 0.02; do :; done) 2>/dev/null &"  # a tenth of the time
many = write_data(FOLDER / "many", n=32, n_test=3000)
for attempt in range(3):  # while others keep the machine busy, all processes are slow
    done = run(1, before=slow, program=busy, epochs=1, others=f"--global-batch 300 --data {many}")
    said = re.findall(r"^dtrun: warning: (process .*)$", done.stderr, re.M)
    if done.returncode != 0 or said:
        break
check(done.returncode == 0 and len(said) == 1 and re.match(r"process 1 \(.* was at work for .*: they wait for it; look at", said[0]), f"a slow process: {done.stderr}")
print(f"a slow process: {said[0]}")
finish()
