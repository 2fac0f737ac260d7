"""examples/run_all.sh: a line for each example, and an exit status that says whether all reached their targets. Two examples alone, a few steps of each;
run_all_full.py runs all."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
DATA = pathlib.Path(os.environ.get("DT_DATA", "/usr/share/datasets/fashion-mnist"))


def run_all(*flags, expect=0, **environment):
    done = subprocess.run([SOURCE / "examples/run_all.sh", *flags], capture_output=True, text=True, env={**os.environ, "DT_EXAMPLES": str(FOLDER), **environment})
    check(done.returncode == expect, f"{flags}: ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines(), done.stderr


(FOLDER / "diabetes").mkdir()
shutil.copy(SOURCE / "tests/golden/diabetes.csv", FOLDER / "diabetes/numbers.csv")
lines, _ = run_all("--quick", "perceptron", "own_parts")
check(lines[0].split() == ["program", "target", "reached", "time"] and len(lines) == 3, lines)
for line, name in zip(lines[1:], ("perceptron", "own_parts")):
    check(re.fullmatch(name + r" +- +[0-9]\.[0-9]{4} +[0-9]+:[0-9]{2}", line), line)
    check((FOLDER / f"{name}-checkpoints/step-3").is_dir(), f"{name}: three steps")

# targets that are reached and missed, in a second: another program stands for an example in a copy of the folder
copy = FOLDER / "copy"
shutil.copytree(SOURCE / "examples", copy / "examples")
script = copy / "examples/run_all.sh"
script.write_text(script.read_text().replace("0.2413", "9.5"))
done = subprocess.run([script, "own_parts"], capture_output=True, text=True, env={**os.environ, "DT_EXAMPLES": str(FOLDER)})
check(done.returncode == 0 and re.search(r"own_parts +train.loss <= 9.5 +0\.[0-9]+ ", done.stdout), done)
script.write_text(script.read_text().replace("9.5", "0.00001"))
done = subprocess.run([script, "own_parts"], capture_output=True, text=True, env={**os.environ, "DT_EXAMPLES": str(FOLDER)})
check(done.returncode == 1 and re.search(r"own_parts +train.loss <= 0.00001 +0\.[0-9]+ ", done.stdout), done)

# what fails is said, with the end of its log; what there is none of, too
lines, error = run_all("--quick", "perceptron", expect=1, DT_DATA="/nowhere")
check(re.match(r"perceptron +- +failed ", lines[1]) and "/nowhere" in error, (lines, error))
check("there is no example percetron; there are: perceptron " in run_all("percetron", expect=2)[1], "an unknown name")
check("examples/run_all.sh" in "\n".join(run_all("--help", expect=2)[0]), "usage")
finish()
