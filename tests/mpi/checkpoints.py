"""Checkpoints over processes: each writes its ranges of the files, which are those of one process; killed while they are written, a run leaves whole
checkpoints, from which any number of processes goes on; a folder that not all see is written by process 0; a byte that was changed is refused, in
whichever range."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
import sharded
from training import FOLDER, check, finish, newest

N_KILLS = int(os.environ.get("N_KILLS", 6))
FILES = ("model.safetensors", "optimizer.safetensors")
case = layouts.wide()


def new_folder():
    return pathlib.Path(tempfile.mkdtemp(dir=FOLDER)) / "ck"


def command(folder, *flags):
    return ["dtrun", "train", case.artifact, *case.flags(6), "--devices", "cpu:1x1", "--seed", 3, "--checkpoint-dir", folder, *flags]


def train(n, folder, *flags):
    done = mpi.run("openmpi", n, command(folder, *flags))
    check(done.returncode == 0, f"{n} processes {flags}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def tensors(checkpoint):
    return [(checkpoint / name).read_bytes() for name in FILES]


def ranges(checkpoint, name):
    return [(int(one["first"]), int(one["bytes"])) for one in json.loads((checkpoint / "progress.json").read_text())["sha256"][name]]


# ---- the files are those of one process, whoever writes what ----
one = new_folder()
said = train(1, one, "--max-steps", 6)
wanted = tensors(newest(one))
for n in (2, 3):
    for flags in ([], ["--shard-optimizer"]):
        folder = new_folder()
        said = train(n, folder, "--max-steps", 6, "--log-format", "json", *flags)
        check("not all processes see the same folder" not in said, said)
        check(tensors(newest(folder)) == wanted, f"{n} processes {flags} write other files than one")
        events = [json.loads(line) for line in said.splitlines() if '"checkpoint"' in line]
        check(events and all(0 <= event["stall_seconds"] < 60 for event in events), events)
        for name in FILES:
            found = ranges(newest(folder), name)
            check(len(found) >= n, f"{n} processes {flags} have written {name} as {found}")
            at = 0
            for first, length in found:
                check(first == at and length > 0, f"{name}: {found}")
                at += length
            check(at == (newest(folder) / name).stat().st_size, f"{name}: {found}")
            if not flags:
                lengths = [length for _, length in found]
                check(len(found) == n and max(lengths) - min(lengths) <= 128 + 64 * n, f"{n} processes divide {name} into {lengths}")
check(not list(folder.glob(".unfinished*")), list(folder.iterdir()))

# ---- of a model in shards and stages each process writes its pieces: a changed byte is one process's ----
split = sharded.case("split")
one = new_folder()
sharded.train(split, 1, one, "--max-steps", 2)
for n, flags in ((4, ["--shards-over", 2]), (4, ["--shards-over", 2, "--shard-optimizer"]), (3, ["--shard-optimizer"]), (4, ["--stages", 2, "--shards-over", 2])):
    folder = new_folder()
    sharded.train(split, n, folder, "--max-steps", 2, *flags)
    checkpoint = newest(folder)
    check(tensors(checkpoint) == tensors(newest(one)), f"{n} processes {flags} write other files than one")
    pieces = [one for one in json.loads((checkpoint / "progress.json").read_text())["sha256"]["optimizer.safetensors"] if "times" in one]
    check(pieces, f"{n} processes {flags}: none writes pieces of a shard")
    at = int(pieces[0]["first"]) + (int(pieces[0]["times"]) - 1) * int(pieces[0]["stride"])
    altered = bytearray((checkpoint / "optimizer.safetensors").read_bytes())
    altered[at] ^= 1
    (checkpoint / "optimizer.safetensors").write_bytes(altered)
    said = sharded.train(split, n, folder, "--max-steps", 3, "--resume", *flags, expect=1)
    check(f"was altered: bytes {pieces[0]['first']} to " in said and f", {pieces[0]['bytes']} of each {pieces[0]['stride']}, of " in said, said)

# ---- process 0 writes all of it where the others see other folders ----
for flags in ([], ["--shard-optimizer"]):
    folder = new_folder().parent
    line = " ".join(f"'{word}'" for word in command("FOLDER", "--max-steps", 6, *flags)).replace("'FOLDER'", f"{folder}/own$OMPI_COMM_WORLD_RANK")
    done = mpi.run("openmpi", 3, ["sh", "-c", f"exec {line}"])
    check(done.returncode == 0 and re.search(r"process 1 \(.*\) does not, so process 0 writes the checkpoints alone", done.stderr), done.stderr)
    check(tensors(newest(folder / "own0")) == wanted, f"{flags}: process 0 writes other files than one process")
    check(newest(folder / "own1") is None and newest(folder / "own2") is None, "another process has written too")

# ---- or may not write in the one that all see ----
MOUNTS = ["unshare", "--mount"]
if os.getuid() == 0 and subprocess.run([*MOUNTS, "true"], capture_output=True).returncode == 0:
    folder = new_folder()
    folder.mkdir()
    read_only = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    line = f"[ $OMPI_COMM_WORLD_RANK != 1 ] || exec {' '.join(MOUNTS)} sh -c '{read_only} && exec \"$@\"' sh \"$@\"; exec \"$@\""
    done = mpi.run("openmpi", 3, ["sh", "-c", line, "sh", *command(folder, "--max-steps", 6, "--shard-optimizer")])
    check(done.returncode == 0 and "process 1 (" in done.stderr and "may write in it" in done.stderr, done.stderr)
    check(tensors(newest(folder)) == wanted, "process 0 writes other files where another one may not write")

# ---- a byte in each range ----
folder = new_folder()
train(2, folder, "--max-steps", 6, "--shard-optimizer")
n_ranges = 0
for name in FILES:
    path = newest(folder) / name
    for first, length in ranges(newest(folder), name):
        before = path.read_bytes()
        at = first + length - 1
        path.write_bytes(before[:at] + bytes([before[at] ^ 16]) + before[at + 1:])
        done = subprocess.run(["dtrun", "train", case.artifact, *map(str, case.flags(6)), "--checkpoint-dir", folder, "--resume"], capture_output=True, text=True)
        said = f"{name}: was altered: bytes {first} to {first + length - 1}, of "
        check(done.returncode == 1 and said in done.stderr and ("Net/" in done.stderr), f"{said}\n{done.stderr}")
        path.write_bytes(before)
        n_ranges += 1
check(n_ranges > 4, n_ranges)
path.write_bytes(path.read_bytes()[:-4])
done = subprocess.run(["dtrun", "train", case.artifact, *map(str, case.flags(6)), "--checkpoint-dir", folder, "--resume"], capture_output=True, text=True)
check(done.returncode == 1 and "the checkpoint is damaged" in done.stderr, done.stderr)

# ---- killed while it is written ----
numbers = random.Random(int(os.environ.get("SEED", 1)))
flags = ["--epochs", 12, "--checkpoint-every", 1]
undisturbed = new_folder()
train(1, undisturbed, *flags)
n_unfinished = 0
folder = new_folder()
for i in range(N_KILLS):
    n = numbers.choice((2, 3))
    shared = numbers.choice(([], ["--shard-optimizer"]))
    programs, _, arguments, _ = mpi.FLAVOURS["openmpi"]
    run = subprocess.Popen([programs[0], "-n", str(n), *arguments, *map(str, command(folder, *flags, "--resume", *shared))], env=mpi.environment_of("openmpi"),
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 60
    seen = set(folder.glob("step-*"))
    while run.poll() is None and time.monotonic() < end:  # a checkpoint after those that were there is being written
        if list(folder.glob(".unfinished-*/model.safetensors")) and set(folder.glob("step-*")) - seen:
            break
    time.sleep(numbers.uniform(0, 0.02))
    for pid in subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True).stdout.split():  # mpirun, and all that it started
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass
    run.wait()
    while subprocess.run(["pgrep", "-f", str(folder)], capture_output=True).stdout:
        time.sleep(0.01)
    n_unfinished += bool(list(folder.glob(".unfinished-*")))
    for checkpoint in folder.glob("step-*"):
        alone = new_folder()
        alone.mkdir()
        shutil.copytree(checkpoint, alone / checkpoint.name)
        done = subprocess.run(["dtrun", "evaluate", case.artifact, *map(str, case.flags(6)), "--checkpoint-dir", alone], capture_output=True, text=True)
        check(done.returncode == 0, f"{checkpoint.name} is not whole: {done.stderr}")
        shutil.rmtree(alone)
train(3, folder, *flags, "--resume")
check(tensors(newest(folder)) == tensors(newest(undisturbed)), "what was killed ends with other bits")
check(not list(folder.glob(".unfinished*")), "what was unfinished is still there")
print(f"{n_unfinished} of {N_KILLS} runs were killed with an unfinished checkpoint", flush=True)
finish()
