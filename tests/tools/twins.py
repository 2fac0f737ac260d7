"""twins: the programs of tests/twins on the weights and batches of tests/golden/transformers.py, beside the losses of PyTorch there."""

import json
import os
import sys

import numpy as np

from programs import SOURCE, dtrun, run, scratch

GOLDEN = os.path.join(SOURCE, "tests", "golden")
sys.path.insert(0, GOLDEN)
import transformers


class Twin:
    """A compiled program, its data and initial weights in a folder, and the golden curve."""

    def __init__(self, name, **options):
        self.sizes, self.folder = transformers.SIZES[name], scratch("")
        os.mkdir(self.folder)
        digest = run([sys.executable, os.path.join(GOLDEN, "transformers.py"), name, self.folder]).strip()
        with open(os.path.join(GOLDEN, f"{name}_curve.json")) as file:
            self.golden = json.load(file)
        assert digest == self.golden["weights_sha256"], f"{name}: these are not the weights of the golden curve"
        self.artifact = compile_twin(self.sizes, rate=0, **options)

    def train(self, *options):
        """The events of a training of one epoch."""
        return dtrun("train", self.artifact, "--data", self.folder, "--init", os.path.join(self.folder, "weights.safetensors"), "--log-every=1",
                     f"--global-batch={self.sizes['batch']}", *options)

    def losses(self, *options):
        return np.array([event["loss"] for event in self.train(*options) if event["event"] == "step"])


def source(sizes):
    return os.path.join(SOURCE, "tests", "twins", f"{sizes['program']}.dt")


def defines(sizes, **options):
    wanted = {**{n: sizes[n] for n in ("context", "predictions", "width", "layers", "heads") if n in sizes}, **options}
    return [f"--define={name}={value}" for name, value in wanted.items()]


def compile_twin(sizes, cpu="native", **options):
    artifact = scratch(".dtx")
    run(["dtc", "compile", source(sizes), "-o", artifact, f"--batch={sizes['batch']}", f"--cpu={cpu}", *defines(sizes, **options)])
    return artifact
