"""Launch values: `--set` gives the bits of a program that has the number written in it, whatever the layout; checkpoints hold them, and a resumed run goes on
with them; what cannot be set is refused; --reduce-on-plateau reduces at the same epochs in a run that was stopped."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

MINIMIZE = "minimize(loss, adam(learning_rate: 1e-3))"
LAUNCHED = "launch rate = 1e-3\nlaunch late = 20\nlaunch noisy = false\n" + PROGRAM.replace(
    MINIMIZE, "minimize(loss, adam(learning_rate: rate * where(noisy, 2, 1)))").replace(
    "report loss: mean(loss), acc", "report loss: mean(loss), rate: last(rate), late: last(late), acc").replace(
    "return label:", "return rate: rate, label:")
CONSTANT = PROGRAM.replace(MINIMIZE, "minimize(loss, adam(learning_rate: 2e-3))")

data, launched, constant = write_data(), compile_program(LAUNCHED, "launched"), compile_program(CONSTANT, "constant")
DATA = ("--data", data)
folders = (FOLDER / f"ck-{i}" for i in range(100))


def train(program, *flags, folder=None, **options):
    folder = folder or next(folders)
    return folder, Run("train", program, *DATA, "--checkpoint-dir", folder, "--log-every", 1, *flags, **options)


def launch(folder):
    return json.loads((newest(folder) / "progress.json").read_text())["launch"]


# what it is by default, and what it is set to
info = subprocess.run(["dtrun", "info", launched], capture_output=True, text=True).stdout
check("launch rate = 0.001, f32\nlaunch late = 20, i64\nlaunch noisy = false, bool\n" in info, info)
TWICE = ("--set", "rate=1e-3", "--set", "noisy=true")
wanted = bits(train(constant, "--max-steps", 40, "--replicas", 2)[0])
for flags in (TWICE, ("--set", "rate=2e-3"), ("--set", "rate=7", "--set", "rate=.002", "--devices", "cpu:2x2")):
    folder, run = train(launched, "--max-steps", 40, "--replicas", 2, *flags)
    check(bits(folder) == wanted, f"{flags}: {bits(folder)}, with the number in the program {wanted}")
check("launch value rate is 0.002, as --set says, and no longer 7" in run.error, run.error)
folder, run = train(launched, "--max-steps", 40, "--replicas", 2)
check(bits(folder) != wanted, "another rate gives the same bits: the comparison cannot fail")
check(run.all("epoch", step="train")[-1]["late"] == 20, "what a report says of late")

# a checkpoint holds them, and what is named on resuming comes first
whole, _ = train(launched, "--max-steps", 60, *TWICE)
folder, _ = train(launched, "--max-steps", 20, *TWICE)
check(launch(folder) == ["rate=0.001", "late=20", "noisy=true"], launch(folder))
_, run = train(launched, "--max-steps", 60, "--resume", folder=folder)
check(bits(folder) == bits(whole) and "launch value" not in run.error, "a resumed run has other launch values")
_, run = train(launched, "--max-steps", 61, "--resume", "--set", "rate=0.5", folder=folder)
check("launch value rate is 0.5, as --set says, and no longer 0.001" in run.error, run.error)
check(launch(folder)[0] == "rate=0.5" and launch(whole)[0] == "rate=0.001", launch(folder))

# so does what runs with its weights
import numpy  # noqa: E402

numpy.save(FOLDER / "images.npy", numpy.zeros((3, SIDE, SIDE), numpy.uint8))
for flags, rate in (((), 0.5), (("--set", "rate=0.25"), 0.25)):
    Run("predict", launched, "--input", FOLDER / "images.npy", "--output", FOLDER / "out", "--checkpoint-dir", folder, *flags)
    found = numpy.load(FOLDER / "out/rate.npy")
    check(found == rate, f"predict {flags}: rate is {found}")
progress = newest(folder) / "progress.json"
text = progress.read_text()
progress.write_text(text.replace("rate=0.5", "rate=fast"))
_, run = train(launched, "--max-steps", 62, "--resume", folder=folder, expect=1)
check('launch value rate cannot be "fast": it is a number' in run.error, run.error)

# what cannot be
for setting, words in (
    ("rat=1", "the program has no launch value rat; did you mean rate?; there are: rate (0.001), late (20), noisy (false)"),
    ("Net/dense/bias=1", "the program has no launch value Net/dense/bias; there are: "),
    ("rate", "launch value rate is given no value: write rate=VALUE"),
    ("rate=", "launch value rate is given no value: write rate=VALUE"),
    ("rate=nan", "launch value rate cannot be nan: it is a finite number"),
    ("rate=1e39", "launch value rate cannot be 1e+39: it is a finite number"),
    ("rate=1e-3x", 'launch value rate cannot be "1e-3x": it is a number'),
    ("late=1.5", "launch value late cannot be 1.5: it is a whole number, of 2^53 at most"),
    ("noisy=1", 'launch value noisy cannot be "1": it is true or false'),
):
    run = Run("train", launched, *DATA, "--set", setting, expect=1)
    check(words in run.error and run.events == [], f"--set {setting}: {run.error}")
run = Run("train", constant, *DATA, "--set", "rate=1", expect=1)
check("the program has no launch value rate, and no other: it declares one with `launch rate = ...`" in run.error, run.error)

# a schedule of dtrun's over one: 8 epochs, or 3 and 5
PLATEAU = "evaluate.loss:rate,factor=0.5,patience=0,threshold=0.3,cooldown=1,min=2e-4"
FEW = ("--replicas", 2, "--reduce-on-plateau", PLATEAU)
whole, run = train(launched, "--epochs", 8, *FEW)
said = [line for line in run.error.splitlines() if "brings no gain" in line]
check(len(said) >= 2 and said[0].startswith("dtrun: note: launch value rate is 0.0005 from epoch "), run.error)
check(said[0].endswith(" on, and no longer 0.001: evaluate.loss brings no gain"), run.error)
folder, first = train(launched, "--max-steps", 3 * 16 + 4, *FEW)
_, then = train(launched, "--epochs", 8, "--resume", *FEW, folder=folder)
check([line for line in (first.error + then.error).splitlines() if "brings no gain" in line] == said, first.error + then.error)
check(bits(folder) == bits(whole) and launch(folder) == launch(whole), "a resumed run reduces at other epochs")
for text, words in (
    ("evaluate.loss", "takes a report and a launch value, as in evaluate.loss:rate, not evaluate.loss"),
    ("min:evaluate.loss", "the program has no launch value evaluate.loss"),
    ("evaluate.lass:rate", "evaluate.lass is no report of this run; there are: evaluate.loss"),
    ("evaluate.loss:rat", "the program has no launch value rat; did you mean rate?"),
    ("evaluate.loss:late", "reduces an f32, launch value late is i64"),
    ("evaluate.loss:rate,patience=1.5", "1.5 is not a value of patience"),
    ("evaluate.loss:rate,factor=2", "2 is not a value of factor"),
    ("evaluate.loss:rate,wait=3", 'has no setting "wait=3": there are factor, patience, min, cooldown and threshold'),
):
    run = Run("train", launched, *DATA, "--reduce-on-plateau", text, expect=1)
    check(words in run.error, f"{text}: {run.error}")

# they are the program's own
(FOLDER / "part.dt").write_text("launch rate = 1\nfn twice(x) { return 2 * rate * x }\n")
source = FOLDER / "uses.dt"
source.write_text("use part\nstep train(x: f32[B]) { report loss: mean(twice(x)) }\n")
made = subprocess.run(["dtc", "compile", source, "-o", FOLDER / "uses.dtx"], capture_output=True, text=True)
check(made.returncode == 1 and "launch values are the whole program's, this is a module" in made.stderr, made.stderr)
finish()
