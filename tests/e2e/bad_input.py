"""Each bad input: one clear message, an exit code, no crash, and the last good checkpoint untouched."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

data, program = write_data(), compile_program()
GOOD = FOLDER / "good"
Run("train", program, "--data", data, "--max-steps", 20, "--checkpoint-dir", GOOD, "--checkpoint-every", 10, "--keep", 2)
n_refused = 0


def snapshot(folder):
    return {str(path): path.read_bytes() for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}


def refused(words, *flags, verb="train", artifact=None, code=1, checkpoint=None):
    """dtrun must refuse, saying all of `words` in one message, and leave the checkpoints as they were."""
    global n_refused
    folder = checkpoint or FOLDER / f"copy{n_refused}"
    if checkpoint is None:
        shutil.copytree(GOOD, folder)
    before = snapshot(folder)
    # --resume and --epochs come first, so that a test's own flags win
    resume = ("--resume", "--epochs", 5) if verb == "train" else ()
    run = Run(verb, artifact or program, *resume, "--data", data, "--checkpoint-dir", folder, *flags, expect=None)
    errors = [line for line in run.error.splitlines() if line.startswith("dtrun: error: ") or line.startswith(f"dtrun {verb}: ")]
    check(run.code == code, f"wanted exit status {code}, got {run.code} for {words}: {run.error}")
    check(len(errors) == 1, f"wanted one message, got {run.error}")
    message = run.error
    for word in [words] if isinstance(words, str) else words:
        check(word in message, f"wanted '{word}', got: {message}")
    check(snapshot(folder) == before, f"the checkpoints changed: {words}")
    check("Sanitizer" not in run.error, run.error)
    n_refused += 1
    if checkpoint is None:
        shutil.rmtree(folder)


def damaged(content, *, at=None, keep=None):
    """`content` with one byte changed, or cut."""
    if keep is not None:
        return content[:keep]
    return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1:]


# ---- artifacts ----
whole = program.read_bytes()
code, manifest = whole.index(b"\x7fELF") + 2000, whole.index(b"capacity")
for content in (whole[: len(whole) // 2], b"", b"PK\3\4" + bytes(100), b"hello", damaged(whole, at=code), damaged(whole, at=manifest), whole[:-1]):
    (FOLDER / "bad.dtx").write_bytes(content)
    refused("bad.dtx", artifact=FOLDER / "bad.dtx")
refused(["none.dtx", "No such file"], artifact=FOLDER / "none.dtx")

# ---- data ----
images, labels = (data / "images.gz").read_bytes(), (data / "labels.gz").read_bytes()
plain_images, plain_labels = gzip.decompress(images), gzip.decompress(labels)


def with_data(words, **files):
    folder = FOLDER / "bad data"
    shutil.copytree(data, folder)
    for name, content in files.items():
        (folder / f"{name}.gz").write_bytes(content)
    refused(words, "--data", folder)
    shutil.rmtree(folder)


with_data(["images.gz", "truncated"], images=damaged(images, keep=len(images) // 2))
with_data(["images.gz", "altered"], images=damaged(images, at=len(images) - 6))
with_data(["images.gz"], images=damaged(images, at=len(images) // 2))
with_data(["images.gz", "not a gzip file"], images=plain_images)
with_data(["images.gz", "not an IDX file"], images=gzip.compress(b"hello, this is text"))
with_data(["images.gz", "truncated"], images=gzip.compress(plain_images[:-100]))
with_data(["images.gz", "goes on after"], images=gzip.compress(plain_images + b"more"))
with_data(["disagree", "images.gz holds 1100", "labels.gz 1099"], labels=gzip.compress(idx(plain_labels[8:-1], 1099)))
with_data(["images.gz", "u8[6, 24]", "u8[B, 12, 12]"], images=gzip.compress(idx(plain_images[16:], 1100, 6, 24)))
with_data(["net.dt:", "train step", "index 77 is not within 0 to 9", "example", "(from 0) of ", "images.gz, ", "labels.gz. "], labels=gzip.compress(idx(bytes([77] * 1100), 1100)))
refused(["nowhere", "No such file", "--data"], "--data", FOLDER / "nowhere")
refused(["images.gz", "no such file", "--data"], "--data", GOOD)

# ---- checkpoints ----
for name in ("model.safetensors", "optimizer.safetensors", "progress.json"):
    for change in ("cut", "flip", "gone", "foreign"):
        folder = FOLDER / "bad checkpoint"
        shutil.copytree(GOOD, folder)
        path = folder / "step-20" / name
        content = path.read_bytes()
        if change == "gone":
            path.unlink()
        else:
            # a flipped byte of progress.json is one of a sum, so that it stays JSON
            at = content.rindex(b'"', 0, -8) - 5 if name == "progress.json" else len(content) - 3
            path.write_bytes({"cut": content[: len(content) // 2], "flip": damaged(content, at=at), "foreign": b"hello"}[change])
        refused(["step-20", "damaged", "to go on from step-10"], checkpoint=folder)
        shutil.rmtree(folder)

other = compile_program(PROGRAM.replace("units: 32", "units: 16"), "other")
refused(["another model", "program: Net/dense/kernel f32[144, 16], file: f32[144, 32]"], artifact=other)
(FOLDER / "init").write_bytes((GOOD / "step-20" / "model.safetensors").read_bytes())
refused(["init: does not fit the program", "Net/dense/kernel f32[144, 32] does not fit Net/dense/kernel f32[144, 16]"], "--init", FOLDER / "init", "--checkpoint-dir", FOLDER / "empty", artifact=other)
(FOLDER / "init").write_bytes(b"hello")
refused(["init", "not a safetensors file"], "--init", FOLDER / "init", verb="evaluate")

# ---- what was asked for ----
refused("--replicas", "--replicas", 0, code=2)
refused("--epochs", "--epochs", "many", code=2)
refused(["3 devices", "2 replicas"], "--replicas", 2, "--devices", "cpu:3")
refused(["multiple of --replicas"], "--replicas", 3, "--global-batch", 100)
refused(["dtc compile net.dt --batch 33", "at most 32"], "--replicas", 1, "--global-batch", 33)
refused(["no step", "trian", "train, evaluate, predict"], "--step", "trian")
refused(["no data", "--from", "train_set, test_set"], "--from", "nothing")
refused(["evaluate.f1", "evaluate.loss, evaluate.accuracy, train.loss, train.accuracy"], "--keep-best", "evaluate.f1")
refused(["gpu"], "--devices", "gpu:0")

refused("--devices is empty", "--devices", "", code=2)
refused("--checkpoint-dir is empty", "--checkpoint-dir", "", code=2)
check("PROGRAM is empty" in Run("train", "", expect=2).error, "an empty program")
refused(["updates nothing", "`dtrun evaluate`"], "--step", "evaluate")
refused(["updates nothing", "`dtrun predict`"], "--step", "predict")
check("--keep and --keep-best need --checkpoint-dir" in Run("train", program, "--keep", 2, expect=2).error, "--keep alone")

# ---- one thing named where another is meant: nobody is told to remove a folder that is no checkpoint ----
for verb in ("train", "evaluate"):
    refused(["step-20: is a checkpoint, not a folder of them", "--init"], "--checkpoint-dir", GOOD / "step-20", verb=verb, checkpoint=GOOD)
    refused([f"{GOOD}: holds checkpoints: name one of them, as in --init {GOOD}/step-20"], "--init", GOOD, "--checkpoint-dir", FOLDER / "empty", verb=verb)
    refused([f"{data}: is a folder, but no checkpoint: name a .safetensors file"], "--init", data, "--checkpoint-dir", FOLDER / "empty", verb=verb)
shutil.copytree(GOOD, FOLDER / "cut")
(FOLDER / "cut/step-20/model.safetensors").write_bytes(b"hello")
error = Run("evaluate", program, "--data", data, "--init", FOLDER / "cut/step-20", expect=1).error
check("model.safetensors: is not a safetensors file" in error and "remove" not in error, error)
both = Run("evaluate", program, "--data", data, "--init", GOOD / "step-20", "--checkpoint-dir", FOLDER / "empty")
check(f"--checkpoint-dir {FOLDER}/empty is not read: --init names the weights" in both.error, both.error)
file = FOLDER / "net.dt"
for flags in (("--output", file), ("--output", file / "out")):
    error = Run("predict", program, "--input", data / "test-images", "--checkpoint-dir", GOOD, *flags, expect=1).error
    check(f"{file}: cannot create the folder: Not a directory" in error, error)
OUTPUT = ("--output", FOLDER / "out", "--checkpoint-dir", GOOD)
error = Run("predict", program, "--input", "nowhere.npy", *OUTPUT, expect=1).error
check("data --input: nowhere.npy: no such file" in error and "--data" not in error, error)
error = Run("predict", program, "--input", data / "test-images", "--from", "test_set", *OUTPUT, expect=2).error
check("--input or --from, not both" in error, error)
error = Run("predict", program, "--from", "test_set", "--data", data, *OUTPUT, expect=1).error
check("an example has 2 components, but step predict takes 1 input\n" in error, error)
about = subprocess.run(["dtrun", "info", program, "--text", "plan"], capture_output=True, text=True)
check(about.returncode == 1 and f"{program}: holds no text plan; there are program.dt, program.ir and plan.txt" in about.stderr, about)

# ---- other data than before: said, and gone on ----
fewer = write_data(FOLDER / "fewer", n=900)
shutil.copytree(GOOD, FOLDER / "before")
run = Run("train", program, "--data", fewer, "--resume", "--epochs", 1, "--checkpoint-dir", FOLDER / "before")
check("was written with data of 32 steps an epoch, here it has 29: it goes on at the same place of other data" in run.error, run.error)
check(run.one("end")["steps"] == 29, run.events)

# ---- a loss that is not a number ----
wild = compile_program(PROGRAM.replace("mean(loss),", "mean(loss * log(f32(label) - 8.5) / log(f32(label) - 8.5)),"), "wild")
refused(["train step 21: loss is not a number"], artifact=wild)
nan = compile_program(PROGRAM.replace("minimize(loss,", "minimize(loss * sqrt(0.0 - f32(label) - 1.0),"), "nan")
refused(["not a number"], "--checkpoint-every", 1, artifact=nan)

# without --resume a folder that holds checkpoints is left alone
before = snapshot(GOOD)
run = Run("train", program, "--data", data, "--checkpoint-dir", GOOD, expect=1)
check("there is a checkpoint already" in run.error and snapshot(GOOD) == before, run.error)
print(n_refused + 1, "refused")
finish()
