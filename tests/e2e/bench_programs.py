"""The programs of bench/ compile and run like any other: where they have data the loss falls, and the bits are the same on one device and on two;
the others are there for `dtrun bench`."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

data = FOLDER / "data"
data.mkdir()
for prefix, n, seed in (("train", 320, 1), ("t10k", 64, 2)):
    images, labels = make_examples(n, seed, 28)
    (data / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images, n, 28, 28)))
    (data / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels, n)))


def train(program, devices):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    run = Run("train", program, "--data", data, "--epochs", 3, "--global-batch", 64, "--replicas", 2, "--devices", devices, "--checkpoint-dir", folder)
    losses = [e["loss"] for e in run.all("epoch", step="train")]
    check(len(losses) == 3 and losses[-1] < losses[0] < 5, losses)
    return losses, bits(folder)


programs = sorted((pathlib.Path(os.environ["DT_SOURCE"]) / "bench/programs").glob("*.dt"))
check(programs, "no programs")
for path in programs:
    program = compile_program(path.read_text(), path.stem)
    if "from train_set" in path.read_text():
        check(train(program, "cpu:1x1") == train(program, "cpu:2x1"), f"{path.name}: one device and two disagree")
    else:
        done = subprocess.run(["dtrun", "bench", program, "--steps", "1", "--json"], capture_output=True, text=True)
        check(done.returncode == 0 and json.loads(done.stdout)["median"] > 0, f"{path.name}: {done.stderr}")
finish()
