"""examples/embed and examples/serve, built with what `cmake --install` made, by the commands that their documents give: an application's own loop leaves
the checkpoint of dtrun on the same batches, bit for bit, and a server answers one image at a time as `dtrun predict` does all at once. The program of
docs/c-api.md does what the page says."""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import numpy as np

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
PREFIX = pathlib.Path(os.environ["DT_INSTALLED"])
ENVIRONMENT = {**os.environ, "PATH": f"{PREFIX}/bin:/usr/bin:/bin"}
ROWS, SIDE, STEPS = 32, 28, 200


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, env=ENVIRONMENT, **options)


def build(folder, example):
    """As the README of the examples says, in a copy of them beside the installed tree."""
    shutil.copytree(SOURCE / "examples" / example, folder / "examples" / example)
    run(f"examples/{example}/build.sh", os.path.relpath(PREFIX, folder), cwd=folder)
    return folder / "examples" / example / example


def batches():
    """What embed.c makes, written anew from what its comments say: of each example its label, then its pixels, all from one generator."""
    n, multiplier, increment = STEPS * ROWS * (1 + SIDE * SIDE), np.uint32(1664525), np.uint32(1013904223)
    powers = np.multiply.accumulate(np.full(n, multiplier), dtype=np.uint32)  # uint32 wraps as the generator does
    sums = np.add.accumulate(np.concatenate([np.ones(1, np.uint32), powers[:-1]]), dtype=np.uint32)
    drawn = ((powers + increment * sums) >> 16).reshape(STEPS * ROWS, 1 + SIDE * SIDE)  # from the state 1 on
    labels, images = (drawn[:, 0] % 10).astype(np.uint8), (drawn[:, 1:] % 100).astype(np.uint8).reshape(-1, SIDE, SIDE)
    for image, label in zip(images, labels):
        top, left = label // 5 * 14 + 4, label % 5 * 5 + 1
        image[top : top + 6, left : left + 6] = 200
    return images, labels


def own_loop_equals_dtrun(folder):
    program = folder / "embed.dtx"
    run("dtc", "compile", SOURCE / "examples/embed/embed.dt", "-o", program)
    said = run(build(folder, "embed"), program, folder / "own").stdout.decode()
    assert re.findall(r"steps (\d+) to (\d+)", said) == [("1", "50"), ("51", "100"), ("101", "150"), ("151", "200")], said
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", said)]
    assert losses[-1] < losses[0] / 4, said

    images, labels = batches()
    np.save(folder / "image.npy", images)
    np.save(folder / "label.npy", labels)
    train = ["dtrun", "train", program, "--data", folder, "--checkpoint-dir", folder / "dtrun", "--epochs", "1"]
    run(*train, "--max-steps", STEPS // 2)
    run(*train, "--max-steps", STEPS, "--resume", "--set", "rate=0.02")
    for name in ("model.safetensors", "optimizer.safetensors"):
        own, other = ((folder / which / f"step-{STEPS}" / name).read_bytes() for which in ("own", "dtrun"))
        assert own == other, f"{name} differs"
    before = (folder / "dtrun" / f"step-{STEPS // 2}" / "model.safetensors").read_bytes()
    assert before != own  # the comparison itself works


def server_equals_predict(folder):
    program, n = folder / "cnn.dtx", 50
    run("dtc", "compile", SOURCE / "examples/fashion_cnn.dt", "-o", program)
    serve = build(folder, "serve")
    images, labels = batches()
    np.save(folder / "images.npy", images[:n])
    for name, array in (("train-images-idx3-ubyte.gz", images[:256]), ("train-labels-idx1-ubyte.gz", labels[:256]),
                        ("t10k-images-idx3-ubyte.gz", images[:64]), ("t10k-labels-idx1-ubyte.gz", labels[:64])):
        dims = b"".join(d.to_bytes(4, "big") for d in array.shape)
        (folder / name).write_bytes(gzip.compress(bytes([0, 0, 8, array.ndim]) + dims + array.tobytes(), 1))
    run("dtrun", "train", program, "--data", folder, "--checkpoint-dir", folder / "cnn", "--max-steps", "4")
    weights = folder / "cnn/step-4/model.safetensors"
    run("dtrun", "predict", program, "--init", weights, "--input", folder / "images.npy", "--output", folder / "out")
    served = run(serve, program, weights, input=images[:n].tobytes())
    assert re.fullmatch(rb"50 answers: p50 \S+ us, p99 \S+ us\n", served.stderr), served.stderr
    cut = subprocess.run([serve, program, weights], input=images[:2].tobytes()[:-100], capture_output=True)
    assert cut.returncode == 1 and cut.stderr == b"serve: request 2: 684 of the 784 bytes of an image\n", cut
    answers = [line.split() for line in served.stdout.decode().splitlines()]
    expected, probability = np.load(folder / "out/label.npy"), np.load(folder / "out/probability.npy")
    assert [int(label) for label, _ in answers] == list(expected)
    assert [p for _, p in answers] == ["%.4f" % p for p in probability.max(axis=1)]


def the_page_has_a_program(folder):
    program, = re.findall(r"^```c program\n(.*?)^```$", (SOURCE / "docs/c-api.md").read_text(), re.DOTALL | re.MULTILINE)
    (folder / "page.c").write_text(program)
    run("dtc", "compile", SOURCE / "examples/perceptron.dt", "-o", folder / "perceptron.dtx")
    run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-I", PREFIX / "include", folder / "page.c", "-o", folder / "page", "-L", PREFIX / "lib",
        f"-Wl,-rpath,{PREFIX / 'lib'}", "-ldtrt")
    said = run(folder / "page", cwd=folder).stdout.decode()
    loss, label, answer = re.fullmatch(r"loss (\S+)\nlabel (\d) is answered (\d)\n", said).groups()
    assert float(loss) < 0.5 and label == answer, said
    assert (folder / "checkpoints/step-100/model.safetensors").exists()


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    own_loop_equals_dtrun(folder)
    server_equals_predict(folder)
    the_page_has_a_program(folder)
print("the checkpoints are the same, and so are the answers")
