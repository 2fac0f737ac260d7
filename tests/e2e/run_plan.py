"""`dtc run`: a plan in text form, run element by element with initial weights of its own, gives the bits that `dtrun` gives with these weights."""
import os
import pathlib
import subprocess
import tempfile

import numpy
import safetensors.numpy

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
LEVEL = "x86-64-v3"
ROWS = 6


def run(*command, code=0):
    done = subprocess.run([str(word) for word in command], capture_output=True)
    assert done.returncode == code, f"{command}: exit status {done.returncode}: {done.stderr.decode()}"
    return done.stderr.decode()


def arrays(folder):
    return {path.stem: numpy.load(path) for path in folder.glob("*.npy")}


def check_program(scratch, name):
    folder = scratch / name
    folder.mkdir()
    program, plan, artifact = SOURCE / f"examples/{name}.dt", folder / f"{name}.plan", folder / f"{name}.dtx"
    run("dtc", "compile", program, "--batch", ROWS, "--cpu", LEVEL, "--emit=kernels", "-o", plan)
    run("dtc", "compile", program, "--batch", ROWS, "--cpu", LEVEL, "-o", artifact)
    run("dtc", "run", plan, "--plan", "init", "--seed", 7, "-o", folder / "init")
    weights = {path.replace(".", "/"): array for path, array in arrays(folder / "init").items() if path.split(".")[0] not in ("adam", "sgd")}
    safetensors.numpy.save_file(weights, folder / "weights.safetensors")
    given = [word for path in weights for word in ("--variable", f"{path}={folder / 'init' / path.replace('/', '.')}.npy")]
    numpy.save(folder / "image.npy", numpy.random.default_rng(3).integers(0, 256, (ROWS - 1, 28, 28)).astype(numpy.uint8))
    run("dtc", "run", plan, "--plan", "predict", *given, "--input", folder / "image.npy", "-o", folder / "naive")
    run("dtrun", "predict", artifact, "--init", folder / "weights.safetensors", "--input", folder / "image.npy", "-o", folder / "code")
    naive, code = arrays(folder / "naive"), arrays(folder / "code")
    assert set(naive) == set(code) and len(code) > 1
    for result in code:
        assert naive[result].tobytes() == code[result].tobytes(), f"{name}: {result} has other bits"
    assert len(numpy.unique(code["probability"])) > ROWS
    numpy.save(folder / "label.npy", numpy.arange(ROWS - 1, dtype=numpy.uint8) * 60)
    bad = run("dtc", "run", plan, "--plan", "train", *given, "--input", folder / "image.npy", "--input", folder / "label.npy", "-o", folder / "bad", code=1)
    assert "indices are out of range; the first, of row 1, is 60, and is to be below 10" in bad, bad


def check_errors(folder):
    plan = folder / "perceptron/perceptron.plan"
    for options, message in (([], "say with --plan which one"), (["--plan", "train"], "has 2 inputs, image, label"), (["--plan", "x"], "has no plan x"),
                             (["--plan", "init", "--variable", "a=b"], "no variable of that name"),
                             (["--plan", "predict", "--input", folder / "none.npy"], "none.npy: cannot open"),
                             (["--plan", "predict", "--input", plan], "is not a .npy file")):
        said = run("dtc", "run", plan, *options, "-o", folder / "out", code=1)
        assert message in said, f"{options}: {said!r}"
    numpy.save(folder / "wrong.npy", numpy.zeros((2, 28, 27), numpy.uint8))
    numpy.save(folder / "long.npy", numpy.zeros((ROWS + 1, 28, 28), numpy.uint8))
    for file, message in (("wrong.npy", "is u8[2, 28, 27], and image is u8[B, 28, 28]"), ("long.npy", f"the plan has room for {ROWS} rows, not for {ROWS + 1}")):
        said = run("dtc", "run", plan, "--plan", "predict", "--input", folder / file, "-o", folder / "out", code=1)
        assert message in said, said
    run("dtc", "run", plan, code=2)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_program(folder, "fashion_cnn")
        check_program(folder, "perceptron")
        check_errors(folder)


if __name__ == "__main__":
    main()
