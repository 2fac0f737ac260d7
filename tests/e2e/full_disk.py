"""A disk that fills up under each command, at each of its files: one error with the file and the reason, what was there before is as it was, nothing
half written stays, and a run goes on from its checkpoint to the bits of one that was never disturbed. The disk is a tmpfs: it is full in the middle of a
file (size) or when one is to be made (nr_inodes). A disk that may only be read is the same, as a whole."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

IN_NAMESPACE = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
if "DT_OWN_MOUNTS" not in os.environ:  # whatever is mounted is gone with this process
    if subprocess.run([*IN_NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True).returncode != 0:
        print("skipped: this process may not mount a file system of its own")
        sys.exit(77)
    os.execvpe("unshare", [*IN_NAMESPACE, sys.executable, *sys.argv], {**os.environ, "DT_OWN_MOUNTS": "1"})

PAGE = 4096
DISK = FOLDER / "disk"
DISK.mkdir()
data, program = write_data(), compile_program()
before, whole, logs = FOLDER / "before", FOLDER / "whole", FOLDER / "logs"
Run("train", program, "--data", data, "--max-steps", 10, "--checkpoint-dir", before, "--log-dir", logs)
Run("train", program, "--data", data, "--max-steps", 20, "--checkpoint-dir", whole)
wanted, weights = bits(whole), before / "step-10/model.safetensors"
FULL, READ_ONLY = "No space left on device; make room there, or name another place", "Read-only file system"
n_refused = 0


def run(*arguments):
    return subprocess.run(list(map(str, arguments)), capture_output=True, text=True, timeout=60)


class Disk:
    """A small disk, for as long as the block lasts."""

    def __init__(self, limit):
        self.limit = limit

    def __enter__(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", self.limit, "tmpfs", DISK], check=True)

    def __exit__(self, *_):
        subprocess.run(["umount", DISK], check=True)


def change(options):
    subprocess.run(["mount", "-o", f"remount,{options}", DISK], check=True)


def one_error(done, reason, what):
    global n_refused
    errors = [line for line in done.stderr.splitlines() if line.startswith(("dtc: ", "dtrun: error: "))]
    check(done.returncode == 1 and len(errors) == 1 and reason in errors[0] and str(DISK) in errors[0] and "Sanitizer" not in done.stderr,
          f"{what}: ended with {done.returncode}, wanted '{reason}':\n{done.stderr}")
    n_refused += 1


# ---- what is written in one piece, or as several whole files ----
def files():
    return {path.relative_to(DISK): path.read_bytes() for path in DISK.rglob("*") if path.is_file()}


def fills_up(*command):
    """The command in full, then on each disk that is too small for it."""
    with Disk("size=10m"):
        done = run(*command)
        check(done.returncode == 0, done.stderr)
        made = files()
        made = {name: len(content) for name, content in made.items()}
    pages = sum(-(-n // PAGE) for n in made.values())
    folders = len({name.parent for name in made} - {pathlib.Path(".")})
    for limit in [f"size={n * PAGE}" for n in sorted({1, pages // 2, pages - 1}) if 0 < n < pages] + [f"nr_inodes={n}" for n in range(1, 1 + folders + len(made))]:
        with Disk(limit):
            done = run(*command)
            one_error(done, "No space left on device", f"{command[1]} {limit}")
            for name, content in files().items():
                check(made.get(name) == len(content), f"{command[1]} {limit}: {name} is left with {len(content)} bytes")
    # on a disk that has the file already, which stays as it was
    target = next(iter(made))
    if len(made) == 1:
        with Disk(f"size={2 * PAGE}"):
            (DISK / target).parent.mkdir(exist_ok=True)
            (DISK / target).write_bytes(b"before" * 1000)
            (DISK / "more").write_bytes(b"")
            while True:
                try:
                    with open(DISK / "more", "ab", buffering=0) as more:
                        if more.write(bytes(PAGE)) < PAGE:
                            break
                except OSError:
                    break
            one_error(run(*command), FULL, f"{command[1]} over a file")
            check((DISK / target).read_bytes() == b"before" * 1000 and len(files()) == 2, f"{command[1]}: {files().keys()}")
            change("ro")
            one_error(run(*command), READ_ONLY, f"{command[1]} read-only")


fills_up("dtc", "compile", FOLDER / "net.dt", "-o", DISK / "net.dtx")
fills_up("dtc", "compile", FOLDER / "net.dt", "--emit=ir", "-o", DISK / "net.ir")
fills_up("dtc", "graph", FOLDER / "net.dt", "-o", DISK / "net.dot")
if shutil.which("dot") is not None:
    fills_up("dtc", "graph", FOLDER / "net.dt", "-o", DISK / "net.svg")
fills_up("dtc", "pack", program, weights, "-o", DISK / "net.dtx")
fills_up("dtrun", "export", weights, "-o", DISK / "weights.safetensors")
fills_up("dtrun", "report", logs, "-o", DISK / "report.html")
fills_up("dtrun", "predict", program, "--input", data / "test-images", "--checkpoint-dir", before, "--output", DISK / "results")
fills_up("dtrun", "data", program, "--data", data, "--from", "test_set", "-o", DISK / "batches")
fills_up("dtrun", "train", program, "--data", data, "--max-steps", 2, "--timeline", DISK / "timeline.json")

# ---- checkpoints: each page of the second one, and each of its files ----
size = -(-sum(-(-path.stat().st_size // PAGE) for path in before.rglob("*") if path.is_file()))
TRAIN = ("train", program, "--data", data, "--max-steps", 20, "--checkpoint-dir", DISK / "ck", "--checkpoint-every", 5, "--keep", 1, "--resume")
where = set()
STRIDE = 1 if "--full" in sys.argv else 3
for limit in [f"size={n * PAGE}" for n in range(size + 1, 2 * size + 1, STRIDE)] + [f"nr_inodes={n}" for n in range(7, 11)]:
    with Disk(limit):
        shutil.copytree(before, DISK / "ck")
        done = run("dtrun", *TRAIN)
        one_error(done, "No space left on device", limit)
        where.add(pathlib.Path(done.stderr.split(": cannot")[0]).name)
        left = sorted(path.name for path in (DISK / "ck").iterdir())
        check(left == [".lock", "step-10"], f"{limit}: {left}")
        check(f"; then --resume goes on from {DISK}/ck/step-10" in done.stderr or "/.lock: " in done.stderr or ".unfinished-trial: " in done.stderr, done.stderr)
        change("size=100m,nr_inodes=1000")
        Run(*TRAIN)
        check(bits(DISK / "ck") == wanted, f"{limit}: resumed: {bits(DISK / 'ck')}, undisturbed: {wanted}")
check({"model.safetensors", "optimizer.safetensors", "progress.json"} <= where, f"full only at {where}")

# ---- a disk that becomes one to be read only, under a run that has begun ----
with Disk("size=100m"):
    shutil.copytree(before, DISK / "ck")
    change("ro")
    one_error(run("dtrun", *TRAIN), READ_ONLY, "read-only")
    evaluated = run("dtrun", "evaluate", program, "--data", data, "--checkpoint-dir", DISK / "ck")
    check(evaluated.returncode == 0, f"who only reads may: {evaluated.stderr}")
    one_error(run("dtrun", "train", program, "--data", data, "--max-steps", 1, "--log-dir", DISK / "logs"), READ_ONLY, "read-only logs")

# ---- logs: the training is worth more than they are ----
n_warned = 0
for limit in ("size=4096", "size=8192", "size=12288", "nr_inodes=3"):
    with Disk(limit):
        logged = run("dtrun", "train", program, "--data", data, "--max-steps", 10, "--log-every", 1, "--log-dir", DISK / "logs", "--checkpoint-dir", FOLDER / limit)
        warned = [line for line in logged.stderr.splitlines() if line.startswith("dtrun: warning: ")]
        check(logged.returncode == 0 and bits(FOLDER / limit) == bits(before), logged.stderr)
        n_warned += len(warned)
        check(len(warned) <= 1 and ("nothing more is written to --log-dir; the training goes on" in warned[0] if warned else True), logged.stderr)
check(n_warned >= 2, f"{n_warned} of the disks were full")
print(n_refused, "full disks")
finish()
