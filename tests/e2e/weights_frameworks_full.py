"""What examples/fashion_cnn.dt has learned goes to PyTorch and to Keras, and comes back: their answers are ours. In the environment of bench/peers."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
PYTHON = SOURCE / "bench/peers/.venv/bin/python"
DATA = os.environ.get("DT_DATA", "/usr/share/datasets/fashion-mnist")
os.environ["KERAS_BACKEND"] = "torch"
ENDINGS = {"pytorch": "pt", "keras": "weights.h5"}


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def installed():
    done = subprocess.run([SOURCE / "bench/peers/setup.sh"], capture_output=True, text=True)
    return done.returncode == 0 and subprocess.run([PYTHON, "-c", "import h5py, keras, torch"], capture_output=True).returncode == 0


if not installed():
    print("skipped: bench/peers/setup.sh cannot install PyTorch and Keras")
    sys.exit(77)
program = compile_program((SOURCE / "examples/fashion_cnn.dt").read_text())
Run("train", program, "--data", DATA, "--max-steps", 100, "--checkpoint-dir", FOLDER / "ck")
images = numpy.frombuffer(gzip.open(f"{DATA}/t10k-images-idx3-ubyte.gz").read()[16:], numpy.uint8).reshape(-1, 28, 28)[:1000]
numpy.save(FOLDER / "images.npy", images)


def predict(*weights):
    Run("predict", program, "--input", FOLDER / "images.npy", "--output", FOLDER / "out", *weights)
    return numpy.load(FOLDER / "out/probability.npy")


ours = predict("--checkpoint-dir", FOLDER / "ck")
for framework, ending in ENDINGS.items():
    names = SOURCE / f"examples/names/fashion_cnn_{framework}.txt"
    out, theirs, back = FOLDER / f"{framework}.safetensors", FOLDER / f"{framework}.{ending}", FOLDER / f"{framework}_back.safetensors"
    run("dtrun", "export", newest(FOLDER / "ck"), "--map", names, "-o", out)
    run(PYTHON, SOURCE / "scripts/convert_weights.py", out, theirs)
    run(PYTHON, SOURCE / "tests/golden/weights.py", framework, theirs, FOLDER / "images.npy", FOLDER / "answers.npy")
    distance = abs(numpy.load(FOLDER / "answers.npy") - ours).max()
    print(f"{framework}: answers differ by {distance:.1e}")
    check(distance < 1e-5, "other answers")
    run(PYTHON, SOURCE / "scripts/convert_weights.py", theirs, back)
    check(numpy.array_equal(predict("--init", back, "--map", names), ours), f"{framework}: other weights come back")
check(len(set(ours.argmax(axis=1))) > 5, "nothing was learned: all answers are alike")
finish()
