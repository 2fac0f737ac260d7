"""Networks of PyTorch and Keras, twins of examples/fashion_cnn.dt, answer here what they answer there: their weights come by the maps of
examples/names. The numbers are of tests/golden/weights.py."""
import os
import sys

import numpy
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
GOLDEN = SOURCE / "tests/golden/weights"

text = (SOURCE / "examples/fashion_cnn.dt").read_text()
program = compile_program(text.replace("filters: 64", "filters: 4").replace("filters: 128", "filters: 8"))
answers = load_file(GOLDEN / "answers.safetensors")
numpy.save(FOLDER / "images.npy", answers["images"])
for framework in ("pytorch", "keras"):
    weights, names = GOLDEN / f"{framework}.safetensors", SOURCE / f"examples/names/fashion_cnn_{framework}.txt"
    Run("predict", program, "--input", FOLDER / "images.npy", "--output", FOLDER / "out", "--init", weights, "--map", names)
    distance = abs(numpy.load(FOLDER / "out/probability.npy") - answers[framework]).max()
    check(distance < 1e-6, f"{framework}: probabilities differ by {distance}")

    Run("train", program, "--data", os.environ.get("DT_DATA", "/usr/share/datasets/fashion-mnist"), "--max-steps", 0, "--checkpoint-dir",
        FOLDER / framework, "--init", weights, "--map", names)
    back = FOLDER / "back.safetensors"
    done = subprocess.run(["dtrun", "export", FOLDER / framework / "step-0", "--map", names, "-o", back], capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    theirs, found = load_file(weights), load_file(back)
    check(theirs.keys() == found.keys() and all(numpy.array_equal(theirs[name], found[name]) for name in theirs), f"{framework}: not what was loaded")
finish()
