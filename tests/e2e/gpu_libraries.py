"""Training on a GPU with cuBLASLt and cuDNN, all three faked: what they do agrees with generated code, which --library none runs alone; a library
that is missing is named with that flag, what it refuses, all or one call, is generated and said, and a call of it that fails ends the run with its
name.

A long sum that is generated as parts is one call, or both launches; with --library none its bits are those of a program compiled with that flag.

The last batch of the epoch is short, so rows that are not valid stand in what weight gradients are summed over.
"""
import json
import os
import pathlib
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support"))
from fake_gpu import *  # noqa: E402

NET = """
use nn, losses, optimizers

data train_set = idx("images.gz", "labels.gz") | take(40) | batch(16)

model Net(image: u8[B, 12, 12]) -> f32[B, 10] {
    x = conv2d(f32(image)[..., newaxis] / 255, filters: 16, kernel: 3, activation: relu)
    x = conv2d(x, filters: 16, kernel: 3, padding: same, groups: 2, activation: relu)
    x = conv2d(x, filters: 16, kernel: 3, stride: 2, padding: same, activation: relu)
    x = conv2d(x, filters: 32, kernel: 3, activation: relu)
    x = dense(flatten(x), units: 256, activation: relu)
    return dense(x, units: 10)
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    loss = sparse_categorical_crossentropy(label, Net(image))
    minimize(loss, sgd(learning_rate: 0.1))
    report loss: mean(loss)
}
"""


def losses(run):
    return [event["loss"] for event in run.all("epoch")]


def library_calls(path):
    calls = path.read_text().split()
    return {name: calls.count(name) for name in ("cublasLtMatmul", "cublasLtMatmulAlgoGetHeuristic", "cudnnBackendExecute")}


def check_results(artifact, flags):
    """One epoch: a full step, and one whose replicas have 8 rows of 16, and none."""
    log = FOLDER / "library-log"
    os.environ["FAKE_LIBRARY_LOG"] = str(log)
    found = artifact.run("train", *flags)
    del os.environ["FAKE_LIBRARY_LOG"]
    calls = library_calls(log)
    check(calls["cublasLtMatmul"] > 0 and calls["cudnnBackendExecute"] > 0, f"libraries are not called: {calls}")
    check(all(n < 40 for n in calls.values()), f"what is asked once, or captured once, is asked in each step: {calls}")
    said = " ".join(event["message"] for event in found.all("library"))
    check("cuBLASLt 13.0.2: " in said and "cuDNN 9.13.0: " in said and "generated" not in said, f"what libraries do is not said: {found.events}")
    again, alone = artifact.run("train", *flags), artifact.run("train", *flags, "--library", "none")
    check(losses(found) == losses(again), "a second run gives other bits")
    check(not alone.all("library"), "--library none uses one")
    check(abs(losses(found)[0] - losses(alone)[0]) < 1e-4 * losses(alone)[0], f"libraries give {losses(found)}, generated code {losses(alone)}")
    return alone


def check_fallbacks(artifact, flags, alone):
    """One call of a library is not supported, when it is described, when its plan is made, or when it is first made: training goes on without it."""
    for setting, library, reason in (("cudnnBackendFinalize:5=3002", "cuDNN", "cuDNN, cudnnBackendFinalize: CUDNN_STATUS_NOT_SUPPORTED, 3002"),
                                     ("cudnnBackendExecute:1=3000", "cuDNN", "cuDNN, cudnnBackendExecute: CUDNN_STATUS_NOT_SUPPORTED, 3000"),
                                     ("cublasLtMatmulAlgoGetHeuristic:1=8", "cuBLASLt", "CUBLAS_STATUS_ARCH_MISMATCH, 8"),
                                     ("cublasLtMatmul:2=15", "cuBLASLt", "cuBLASLt, cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED, 15")):
        os.environ["FAKE_LIBRARY_FAIL"] = setting
        found = artifact.run("train", *flags)
        said = [event["message"] for event in found.all("library")]
        check([", 1 of them generated as a fallback" in line for line in said] == [library in line for line in said], f"{setting}: {said}")
        check(abs(losses(found)[0] - losses(alone)[0]) < 1e-4 * losses(alone)[0], f"{setting}: {losses(found)}, generated code {losses(alone)}")
    bench = subprocess.run(["dtrun", "bench", artifact.path, "--devices", "cuda:0", "--steps", "1"], capture_output=True, text=True, timeout=300,
                           env={**os.environ, **artifact.environment()})
    check(f"generated: {reason}" in bench.stdout, f"why a call is generated is not said: {bench.stdout}{bench.stderr}")
    del os.environ["FAKE_LIBRARY_FAIL"]


def launches_of(artifact):
    """Of the step's calls for libraries that stand for several launches: the names of these."""
    with zipfile.ZipFile(artifact.path) as archive:
        functions = json.loads(archive.read("manifest.json"))["cuda"]["functions"]
    kernels = [kernel["calls"] for function in functions for kernel in function["plan"]["kernels"]]
    return [[call["function"] for call in calls[i : i + calls[i]["library"]["launches"]]]
            for calls in kernels for i in range(len(calls)) if calls[i].get("library", {"launches": 1})["launches"] > 1]


def launched(artifact, name, flags):
    """The functions that a training launches, and the weights that it ends with."""
    log = FOLDER / f"{name}.log"
    artifact.run("train", *flags, "--checkpoint-dir", FOLDER / name, log=log)
    ran = re.findall(r"^    runs .*: (\w+) \d+x\d+: ", log.read_text(), re.MULTILINE)
    return ran, bits(FOLDER / name)


def check_parts(artifact, flags):
    """What stands for parts and their sum is one call or both launches, never one of them."""
    parts = launches_of(artifact)
    check(len(parts) == 2 and all(len(names) == 2 for names in parts), f"the program has other sums of parts than the test is about: {parts}")
    with_libraries, others = launched(artifact, "with", flags)
    without, found = launched(artifact, "without", (*flags, "--library", "none"))
    for names in parts:
        check(not set(names) & set(with_libraries), f"a library does it, and it is launched: {names}")
        check(all(without.count(name) == without.count(names[0]) > 0 for name in names), f"not launched, or not all of it: {names}")
    _, wanted = launched(Artifact(NET, "generated", "--library", "none"), "generated", flags)
    check(found == wanted, f"--library none gives {found}, compiled with that flag {wanted}")
    check(found != others, "libraries have the bits of generated code: the comparison cannot fail")


def check_resumed(artifact, flags):
    """A training that goes on with other libraries, or other choices of theirs, says what differs before its first step."""
    flags = (*flags, "--epochs", 9, "--checkpoint-dir", FOLDER / "noted")
    artifact.run("train", *flags, "--max-steps", 1)
    noted = json.loads((FOLDER / "noted/step-1/progress.json").read_text())["libraries"]
    check("cuBLASLt 13.0.2: " in noted[0] and sum(line.startswith("  ") for line in noted) > 2, noted)
    call = [line for line in noted if " product " in line][-1]

    def resumed(steps, *more, **settings):
        os.environ.update(settings)
        run = artifact.run("train", *flags, "--max-steps", steps, "--resume", *more)
        for name in settings:
            del os.environ[name]
        said = [event["message"] for event in run.all("warning")]
        check(all(run.events.index(w) < run.events.index(run.one("start")) for w in run.all("warning")), run.events)
        return said[0] if said else ""

    def check_difference(said, *lines):
        check(said.startswith("the checkpoint was written with other libraries, or other choices of theirs: the bits differ from here on:"), said)
        check(all(line in said for line in lines), said)

    check(resumed(2) == "", "the same libraries are told apart")
    n_calls = noted[0].split(": ")[1]
    check_difference(resumed(3, FAKE_CUBLASLT_VERSION="130100"), f"checkpoint: cuBLASLt 13.0.2: {n_calls}", f"this run: cuBLASLt 13.1.0: {n_calls}")
    check_difference(resumed(4, FAKE_LIBRARY_FAIL="cublasLtMatmulAlgoGetHeuristic:1=8"), "this run: cuBLASLt 13.0.2: ", "1 of them generated")
    check_difference(resumed(5, "--library", "none"), f"checkpoint: {call}", "checkpoint: cuDNN 9.13.0", "this run: generated code alone")
    check(resumed(6, "--library", "none") == "", "generated code is told apart from itself")
    check_difference(resumed(7), "checkpoint: generated code alone", f"this run: {call}")


def check_trouble(artifact, flags, alone):
    os.environ["FAKE_LIBRARY_REFUSE"] = "1"
    refused = artifact.run("train", *flags)
    del os.environ["FAKE_LIBRARY_REFUSE"]
    check(losses(refused) == losses(alone), "what libraries refuse is not what is generated")
    check("of them generated as a fallback" in str(refused.all("library")), f"that they refuse is not said: {refused.events}")
    os.environ["FAKE_LIBRARY_FAIL"] = "cudnnBackendExecute:2=5000"
    failed = artifact.run("train", *flags, expect=1)
    del os.environ["FAKE_LIBRARY_FAIL"]
    check("cuDNN, cudnnBackendExecute: CUDNN_STATUS_EXECUTION_FAILED" in failed.error and "libraries.dt:" in failed.error, failed.error)
    where = artifact.environment
    artifact.environment = lambda **settings: {**where(**settings), "DT_CUDNN": "/nowhere/libcudnn.so.9"}
    missing = artifact.run("train", *flags, expect=1)
    check("/nowhere/libcudnn.so.9" in missing.error and "--library none" in missing.error, missing.error)
    artifact.run("train", *flags, "--library", "none")


def main():
    data = write_data(n=60)
    artifact = Artifact(NET, "libraries")
    flags = ("--data", data, "--replicas", 2, "--global-batch", 32)
    alone = check_results(artifact, flags)
    check_fallbacks(artifact, flags, alone)
    check_parts(artifact, flags)
    check_resumed(artifact, flags)
    check_trouble(artifact, flags, alone)
    finish()


if __name__ == "__main__":
    main()
