"""programs: runs steps of programs for the tests in e2e, as the reference interpreter and as compiled code run them.

Both are given a dict of NumPy arrays and give one back, keyed as tests/support/recording.h says: "input/NAME" and "variable/PATH" in, "result/NAME",
"report/NAME" and "variable/PATH" out.
"""

import contextlib
import gzip
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

SOURCE = os.environ["DT_SOURCE"]
TOOLS = os.environ["DT_TOOLS"]
DATA = os.environ.get("DT_DATA", "/usr/share/datasets/fashion-mnist")

folder = tempfile.TemporaryDirectory(prefix="dt_")
n_files = 0


@contextlib.contextmanager
def own_folder():
    """Until it ends scratch paths are in a folder that nobody shares, a process made by fork either."""
    global folder
    before, folder = folder, tempfile.TemporaryDirectory(prefix="dt_")
    try:
        with folder:
            yield
    finally:
        folder = before


def scratch(suffix):
    """A path in the test's own folder that no file has yet."""
    global n_files
    n_files += 1
    return os.path.join(folder.name, f"{n_files}{suffix}")


def run(command, environment=None):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\nexit code {done.returncode}\n{done.stderr}")
    return done.stdout


def flags(options):
    return [f"--{name}={value}" for name, value in options.items() if value is not None]


def run_tool(name, program, step, given, options, environment=None):
    into, out = scratch(".safetensors"), scratch(".safetensors")
    save_file({key: np.ascontiguousarray(array) for key, array in given.items()}, into)
    run([os.path.join(TOOLS, name), *flags(options), program, step, into, out], environment)
    return load_file(out)


def interpret(program, step, given, **options):
    """Runs a step of PROGRAM.dt; options: rows, seed, epochs of tests/tools/interpret.c."""
    return run_tool("interpret", program, step, given, options)


def compile(program, batch=None, cpu="native", optimize=None, precision=None, target=None):
    """Compiles PROGRAM.dt; returns the path of the artifact."""
    artifact = scratch(".dtx")
    run(["dtc", "compile", program, "-o", artifact, *flags({"batch": batch, "cpu": cpu, "optimize": optimize, "precision": precision, "target": target})])
    return artifact


def execute(artifact, step, given, environment=None, **options):
    """Runs a step of an artifact; options: rows, seed, epochs, replicas, devices, level of tests/tools/execute.c."""
    return run_tool("execute", artifact, step, given, options, environment)


def need_data():
    """Ends the test where Fashion-MNIST is not installed."""
    if not os.path.exists(os.path.join(DATA, "train-images-idx3-ubyte.gz")):
        sys.exit(f"no Fashion-MNIST in {DATA}: scripts/install.sh installs it, DT_DATA names another folder")


def examples(n, first=0):
    """Images and labels of training examples first ... first + n - 1, as inputs of a step."""
    with gzip.open(os.path.join(DATA, "train-images-idx3-ubyte.gz")) as images, gzip.open(os.path.join(DATA, "train-labels-idx1-ubyte.gz")) as labels:
        image = np.frombuffer(images.read(16 + (first + n) * 784), np.uint8, offset=16 + first * 784).reshape(n, 28, 28)
        label = np.frombuffer(labels.read(8 + first + n), np.uint8, offset=8 + first)
    return {"input/image": image, "input/label": label}


def golden_curve(name):
    """The record NAME_curve.json of tests/golden; the initial weights as variables, and the path of a file that holds them."""
    golden = os.path.join(SOURCE, "tests", "golden")
    weights = scratch(".safetensors")
    run([sys.executable, os.path.join(golden, f"{name}_weights.py"), weights])
    with open(os.path.join(golden, f"{name}_curve.json")) as file:
        curve = json.load(file)
    return curve, {f"variable/{path}": array for path, array in load_file(weights).items()}, weights


def dtrun(command, artifact, *options):
    """The events of a run, one dict for each line."""
    return [json.loads(line) for line in run(["dtrun", command, artifact, "--log-format=json", *options]).splitlines()]


def losses(artifact, *options):
    """The loss of each step of a training run."""
    events = dtrun("train", artifact, "--data", DATA, "--log-every=1", *options)
    return np.array([event["loss"] for event in events if event["event"] == "step"])


def write(text):
    """The path of a program with that text."""
    path = scratch(".dt")
    with open(path, "w") as file:
        file.write(text)
    return path


def program(name):
    return os.path.join(SOURCE, "tests", "programs", name)


class Checks:
    """Compares and counts; finish() ends the test."""

    def __init__(self):
        self.n_done = self.n_failed = 0

    def that(self, holds, sentence):
        self.n_done += 1
        if not holds:
            self.n_failed += 1
            print(f"FAILED: {sentence}")
        return holds

    def curve(self, what, actual, expected, bounds):
        """Losses of steps: relative within each bound over its number of steps, {1: 1e-6, 10: 2e-5}."""
        for n, bound in bounds.items():
            if self.that(len(actual) >= n and len(expected) >= n, f"{what}: {len(actual)} steps and {len(expected)}, {n} are needed"):
                away = float(np.max(np.abs(actual[:n] / expected[:n] - 1)))
                print(f"{what}: {away:.1e} over {n} steps, {bound:.0e} allowed")
                self.that(away <= bound, f"{what}: {away:.3e} over {n} steps, {bound:.0e} allowed")

    def near(self, what, actual, expected, relative, absolute=0.0):
        """Each element within relative * |expected| + absolute."""
        actual, expected = np.asarray(actual), np.asarray(expected)
        if not self.that(actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"):
            return
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore"):
            wrong = ~((np.abs(a - e) <= relative * np.abs(e) + absolute) | (a == e))
        if wrong.any():
            at = np.unravel_index(np.argmax(np.where(wrong, np.nan_to_num(np.abs(a - e), nan=np.inf), -1)), a.shape)
            place = list(map(int, at))
            self.that(False, f"{what}: {int(wrong.sum())} of {a.size} differ, most at {place}: {a[at]:.9g}, expected {e[at]:.9g}")

    def fails(self, what, action):
        """What was not even run to its end."""
        try:
            action()
        except Exception as error:
            self.that(False, f"{what}: {error}")

    def finish(self):
        print(f"{self.n_done} checks, {self.n_failed} failed")
        sys.exit(1 if self.n_failed else 0)
