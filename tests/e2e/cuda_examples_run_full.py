"""Every example takes two steps, the second of them short, on a GPU that the fake driver pretends (tests/support/fake_cuda.h), as it takes them on the CPU:
results, reports and variables are near, with one replica and with two, and with two another order of what runs at once gives equal bits.

Inputs are made up: what a program takes for its tokens or labels is below ten. Needs c++ and NVRTC; skipped without NVRTC."""
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
sys.path[:0] = [str(SOURCE / "tests/support"), str(SOURCE / "tests/tools")]

import numpy as np  # noqa: E402
from fake_gpu import DRIVER, FOLDER, Artifact, finish  # noqa: E402
from programs import Checks, execute  # noqa: E402

ROWS, GIVEN = 4, 7  # of a step, and all together
# What is emulated takes long, and layers that are alike are one text.
SMALLER = {"sentence_embedding": {"length": 16}, "bert_mlm": {"context": 128, "predictions": 24}, "gpt": {"layers": 2}, "resnet": {"blocks": 1}, "vit": {"layers": 2}}
# A softmax over keys is the same whatever is added to all scores of a query: the gradient of a key's bias is zero but for rounding, and Adam makes a
# step of its full size of that. Two steps of the warm-up are below this.
NOISE, NOISE_SIZE = re.compile(r"^variable/.*/key/bias$"), 1e-4
checks = Checks()


def made_up(function, random):
    given = {}
    for tensor in function["inputs"]:
        shape = [GIVEN if extent < 0 else extent for extent in tensor["shape"]]
        if tensor["dtype"] in ("f32", "f64"):
            given[f"input/{tensor['name']}"] = random.normal(size=shape).astype({"f32": np.float32, "f64": np.float64}[tensor["dtype"]])
        else:
            kind = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i32": np.int32, "i64": np.int64}[tensor["dtype"]]
            given[f"input/{tensor['name']}"] = random.integers(0, 2 if kind == np.bool_ else 10, shape).astype(kind)
    return given


def compare(artifact, step, given, replicas):
    def run(devices, seed=0):
        os.environ.update(artifact.environment(seed=seed), FAKE_CUDA_MULTIPROCESSORS="1")
        return execute(str(artifact.path), step, given, rows=ROWS, replicas=replicas, devices=devices)

    expected, found = run("cpu:1"), run("cuda:0")
    again = run("cuda:0", seed=1) if replicas > 1 else found
    what = f"{artifact.path.stem} {step}, V={replicas}"
    checks.that(found.keys() == expected.keys(), f"{what}: {found.keys()}, on the CPU {expected.keys()}")
    for name, array in expected.items():
        checks.that(found[name].tobytes() == again[name].tobytes(), f"{what}, {name}: another order, other bits")
        if NOISE.match(name):
            checks.that(np.abs(found[name]).max() < NOISE_SIZE and np.abs(array).max() < NOISE_SIZE, f"{what}, {name}: more than rounding")
        elif array.dtype.kind == "f":
            scale = float(np.abs(array).max()) if array.size else 0.0
            checks.near(f"{what}, {name}", found[name], array, relative=2e-3, absolute=2e-3 * min(scale, 1.0) + 1e-6)
        else:
            checks.near(f"{what}, {name}", found[name], array, relative=0)
    print(f"{what}: {len(expected)} tensors", flush=True)


def main():
    assert DRIVER.exists(), DRIVER
    chosen = os.environ.get("EXAMPLES", "").split() or sorted(path.stem for path in (SOURCE / "examples").glob("*.dt"))
    for name in chosen:
        if subprocess.run(["dtc", "compile", "--emit=opt-ir", SOURCE / f"examples/{name}.dt"], capture_output=True).returncode != 0:
            print(f"{name}: does not compile yet")
            continue
        text = re.sub(r"bytes\((.*?)\) \| windows\(.*?\)", r"npy(\1)", (SOURCE / f"examples/{name}.dt").read_text())  # data that dtrun has; none is read
        artifact = Artifact(text, name, f"--batch={ROWS}", *(f"-D{option}={value}" for option, value in SMALLER.get(name, {}).items()))
        with zipfile.ZipFile(artifact.path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
        functions = {f["name"]: f for f in manifest["functions"]}
        for step in manifest["steps"]:
            given = made_up(functions[step["function"]], np.random.default_rng(1))
            for replicas in (1, 2):
                compare(artifact, step["name"], given, replicas)
        artifact.path.unlink()
    assert FOLDER.exists()
    checks.finish() if checks.n_failed else finish()


main()
