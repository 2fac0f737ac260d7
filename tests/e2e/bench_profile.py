"""dtc compile --profile: code that measures itself has the bits of code that does not, its plan is read back, its C compiles; dtrun bench divides each
kernel's time and arithmetic among its nests, by pass and layer, and draws them. Never how long."""
import os
import sys
import xml.etree.ElementTree

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
GPT = ["-D", "width=64", "-D", "layers=2", "-D", "heads=2", "-D", "context=32"]


def run(*command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    check(done.returncode == code, f"{command}: {done.returncode}: {done.stderr}")
    return done


def compile_gpt(output, *flags):
    run("dtc", "compile", SOURCE / "examples/gpt.dt", *GPT, "--cpu", "x86-64-v3", *flags, "-o", output)
    return output


timed, plain = compile_gpt(FOLDER / "timed.dtx", "--profile"), compile_gpt(FOLDER / "plain.dtx")

# The same bits, on two cores.
text = FOLDER / "text"
text.mkdir()
for file in ("train.txt", "valid.txt"):
    (text / file).write_bytes(bytes(range(32, 127)) * 200)
for name, program in (("timed", timed), ("plain", plain)):
    run("dtrun", "train", program, "--data", text, "--devices", "cpu:1x2", "--max-steps", 3, "--checkpoint-dir", FOLDER / name)
weights = [(FOLDER / name / "step-3/model.safetensors").read_bytes() for name in ("timed", "plain")]
check(weights[0] == weights[1], "timers change bits")

# The plan, as text, and as C.
compile_gpt(FOLDER / "timed.plan", "--profile", "--emit=kernels")
again = run("dtc", "compile", FOLDER / "timed.plan", "--emit=kernels").stdout
check(again == (FOLDER / "timed.plan").read_text() and "  timer 1" in again, "a plan with timers is not read back")
compile_gpt(FOLDER / "timed.o", "--profile", "--emit=object")
run("dtc", "compile", FOLDER / "timed.plan", "--emit=object", "-o", FOLDER / "again.o")
check((FOLDER / "timed.o").read_bytes() == (FOLDER / "again.o").read_bytes(), "another object of the plan")
compile_gpt(FOLDER / "timed.c", "--profile", "--emit=c")
run("cc", "-O0", "-mavx2", "-mfma", "-mf16c", "-fwrapv", "-Wno-psabi", "-c", FOLDER / "timed.c", "-o", FOLDER / "timed.c.o")
wrong = FOLDER / "wrong.plan"
wrong.write_text(again.replace("  timer 2 ", "  timer 7 "))
check("timers are numbered from 1" in run("dtc", "compile", wrong, "--emit=object", "-o", FOLDER / "wrong.o", code=1).stderr, "a plan without timer 2")

# Each kernel's nests are all measured, once, and together they do its arithmetic.
picture = FOLDER / "picture.svg"
found = json.loads(run("dtrun", "bench", timed, "--steps", 3, "--devices", "cpu:1x2", "--json", "--svg", picture).stdout)
for kernel in found["kernels"]:
    timers = [one for one in found["timers"] if one["kernel"] == kernel["name"]]
    ends = [0] + [one["first"] + one["nests"] for one in timers]
    check(timers and [one["first"] for one in timers] == ends[:-1], f"{kernel['name']}: {timers}")
    check(abs(sum(one["flops"] for one in timers) - kernel["flops"]) <= 1e-6 * kernel["flops"], f"{kernel['name']}: arithmetic")
    check(all(one["readings"] >= 1 and one["seconds"] >= 0 for one in timers), timers)
    check(sum(one["seconds"] for one in timers) > 0, timers)
check({one["part"] for one in found["timers"]} == {"forward", "backward", "update"}, "parts")
layers = {part: {one["layer"] for one in found["timers"] if one["part"] == part} for part in ("forward", "backward")}
for part, of in layers.items():
    for block in ("Gpt/block/", "Gpt/block_1/"):
        check(any(layer.startswith(block + "attention") for layer in of), f"{part}: no attention of {block}: {of}")
check(not any("#" in one["layer"] for one in found["timers"]), layers)

drawn = {title.text for title in xml.etree.ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}title")}
for name in ("train", "forward", "backward", "Gpt", "block_1", "attention"):
    check(any(title.startswith(f"{name}: ") for title in drawn), f"{name} is not drawn: {drawn}")
table = run("dtrun", "bench", timed, "--steps", 2).stdout
check("within kernels" in table and "the clock is read" in table, table)

check("timers" not in json.loads(run("dtrun", "bench", plain, "--steps", 1, "--json").stdout), "timers of code without any")
refused = run("dtrun", "bench", plain, "--svg", picture, code=1).stderr
check("does not measure itself: dtc compile --profile" in refused, refused)
finish()
