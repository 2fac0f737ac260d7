"""What is no file where one is read: a pipe that nobody writes into, a folder, a device without an end. Each command says so in one line and ends; a pipe
that somebody writes into is read like a file, where all of it is read."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

data, program = write_data(), compile_program()
words = compile_program("""
use nn, optimizers

data train_set = lines("text.txt") | wordpiece("vocab.txt", length: 4) | batch(2)

model Net(token: i32[B, 4]) -> f32[B, 1] { return dense(f32(token), units: 1) }

step train(token: i32[B, 4]) from train_set { minimize(square(Net(token)), sgd(learning_rate: 0.1)) }
""", "words")
checkpoints, weights, out = FOLDER / "ck", FOLDER / "ck/step-3/model.safetensors", FOLDER / "out"
Run("train", program, "--data", data, "--max-steps", 3, "--checkpoint-dir", checkpoints)
SECONDS = 60  # a command that waits for a writer would wait forever
THINGS = {"pipe": FOLDER / "pipe", "folder": FOLDER / "folder", "device": pathlib.Path("/dev/zero")}
WHOLE = {"pipe": "is a pipe that nobody writes into", "folder": "cannot read: Is a directory", "device": "is a device, not a file"}  # of what is read to its end
PARTS = {"pipe": "is a pipe, not a file", "folder": "is a folder, not a file", "device": "is a device, not a file"}  # of what is read from anywhere
os.mkfifo(THINGS["pipe"])
THINGS["folder"].mkdir()


def make(kind, path):
    """A thing of that kind at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.unlink()
    if kind == "pipe":
        os.mkfifo(path)  # of its own: whoever writes run.jsonl opens it
    else:
        path.symlink_to(THINGS[kind])


def cases(kind):
    """(command, what it says) of each reader."""
    it, whole, part = THINGS[kind], WHOLE[kind], PARTS[kind]
    folder = FOLDER / f"{kind}s"
    train = ("dtrun", "train", program, "--data", data, "--max-steps", 1)
    yield ("dtc", "compile", it, "-o", out), whole
    yield ("dtc", "check", it), whole
    yield ("dtc", "graph", it, "-o", out), whole
    yield ("dtc", "pack", it, weights, "-o", out), part
    as_weights = whole if kind != "folder" else "is a folder, but no checkpoint"
    yield ("dtc", "pack", program, it, "-o", out), as_weights
    yield ("dtc", "compile", "--emit=onnx", FOLDER / "net.dt", "--weights", it, "-o", out), as_weights
    yield ("dtrun", "info", it), whole
    yield ("dtrun", "train", it, "--data", data), whole
    yield (*train, "--init", weights, "--map", it), whole
    yield (*train, "--init", it), as_weights
    yield ("dtrun", "export", weights, "--map", it, "-o", out), whole
    yield ("dtrun", "predict", program, "--input", it, "--checkpoint-dir", checkpoints, "--output", FOLDER / "results"), part
    # what is found in a folder
    shutil.copytree(data, folder / "data")
    make(kind, folder / "data/images.gz")
    yield ("dtrun", "train", program, "--data", folder / "data", "--max-steps", 1), part
    for name, says in (("progress.json", whole), ("model.safetensors", part if kind == "folder" else whole)):
        shutil.copytree(checkpoints, folder / name / "ck")
        make(kind, folder / name / f"ck/step-3/{name}")
        yield ("dtrun", "evaluate", program, "--data", data, "--checkpoint-dir", folder / name / "ck"), says
    make(kind, folder / "words/vocab.txt")
    (folder / "words/text.txt").write_text("one\ntwo\n")
    yield ("dtrun", "train", words, "--data", folder / "words", "--max-steps", 1), part
    make(kind, folder / "logs/run.jsonl")
    yield ("dtrun", "report", folder / "logs", "-o", out), whole
    make(kind, folder / "own logs/run.jsonl")
    yield (*train, "--log-dir", folder / "own logs", "--resume", "--checkpoint-dir", folder / "new"), "run.jsonl: cannot be written"
    make(kind, folder / "program/module.dt")
    (folder / "program/main.dt").write_text("use module\n" + PROGRAM)
    yield ("dtc", "compile", folder / "program/main.dt", "-o", out), whole


all_cases = [case for kind in THINGS for case in cases(kind)]
started = [(arguments, says, subprocess.Popen(list(map(str, arguments)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
           for arguments, says in all_cases]
for arguments, says, process in started:
    try:
        error = process.communicate(timeout=SECONDS)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        fail(f"{' '.join(map(str, arguments))} waits")
    lines = [line for line in error.splitlines() if says in line]
    check(process.returncode == 1 and len(lines) == 1 and "Sanitizer" not in error, f"{' '.join(map(str, arguments))}\nended with {process.returncode}, wanted '{says}':\n{error}")
check(not out.exists() and not list(FOLDER.glob("*.tmp")), "something was written")

# ---- somebody writes ----
source = (FOLDER / "net.dt").read_bytes()
made = subprocess.run(["dtc", "compile", "/dev/stdin", "-o", FOLDER / "piped.dtx"], input=source, capture_output=True)
check(made.returncode == 0 and (FOLDER / "piped.dtx").exists(), made.stderr)
for arguments in (("info", "/dev/stdin"), ("evaluate", "/dev/stdin", "--data", data, "--init", weights)):
    done = subprocess.run(["dtrun", *map(str, arguments)], input=program.read_bytes(), capture_output=True)
    check(done.returncode == 0, (arguments, done.stderr))
plain = subprocess.run(["dtrun", "evaluate", program, "--data", data, "--init", weights, "--log-format", "json"], capture_output=True, text=True)
piped = subprocess.run(["dtrun", "evaluate", program, "--data", data, "--init", "/dev/stdin", "--log-format", "json"], input=weights.read_bytes(), capture_output=True)
losses = [[json.loads(line)["loss"] for line in text.splitlines() if '"epoch"' in line][-1] for text in (plain.stdout, piped.stdout.decode())]
check(losses[0] == losses[1], losses)
print(len(all_cases), "refused")
finish()
