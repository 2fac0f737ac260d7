"""The greater of 0 and -0 does not depend on what else a program has: code that serves several bounds gives what code for one gives."""
import pathlib
import subprocess
import tempfile

import numpy

ONE = "step predict(x: f32[B, 4096], y: f32[B, 4096]) { return a: maximum(x, 0.0) }\n"
TWO = "step predict(x: f32[B, 4096], y: f32[B, 4096]) { return a: maximum(x, 0.0), b: maximum(y, 0.5) }\n"


def predict(folder, program):
    (folder / "m.dt").write_text(program)
    subprocess.run(["dtc", "compile", "m.dt", "--batch", "4", "-o", "m.dtx"], cwd=folder, check=True, timeout=60)
    subprocess.run(["dtrun", "predict", "m.dtx", "--input", "x.npy", "--input", "y.npy", "-o", "out"], cwd=folder, check=True, timeout=60)
    return numpy.signbit(numpy.load(folder / "out/a.npy"))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        x = numpy.zeros((4, 4096), numpy.float32)
        x[:, ::2] = -0.0
        numpy.save(folder / "x.npy", x)
        numpy.save(folder / "y.npy", x)
        assert (predict(folder, ONE) == predict(folder, TWO)).all()


if __name__ == "__main__":
    main()
