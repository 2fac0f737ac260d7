"""The gradient of a relu at exactly 0 is 0, where cuBLASLt does it too: it goes by a mask that the library noted with the relu, of which NVIDIA does
not say to which side 0 belongs.

A layer begins with a kernel and a bias of zeros, so each of its sums is 0, in whatever order it is added, and one step leaves the layer as it is. The
same layer with a bias of ones learns: there a step moves it, or nothing could be seen to stand still.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from gpu import *  # noqa: E402,F403

NET = """
use nn, losses, optimizers, initializers

option start = 0.0

data train_set = idx("images.gz", "labels.gz") | batch(32)

model Net(image: u8[B, 12, 12]) -> f32[B, 128] {
    x = dense(flatten(f32(image) / 255), units: 256)
    x = dense(x, units: 256, activation: relu, kernel_initializer: zeros, bias_initializer: fn(shape) => constant(shape, value: start)) as middle
    return dense(x, units: 128)
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    loss = sparse_categorical_crossentropy(label, Net(image))
    minimize(loss, sgd(learning_rate: 0.1))
    report loss: mean(loss)
}
"""
CLOSE = 1e-4  # parameters of one step, by the library and by generated code
data = write_data(n=64)


def check_plan():
    """The step asks the library for what this test is about."""
    command = ["dtc", "compile", "--target", f"cuda:{ARCHITECTURE}", "--emit=plan", FOLDER / "relu.dt"]
    plan = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    check(", bias, relu" in plan and ", relu_gradient" in plan, f"no call of a library has the relu and its gradient:\n{plan}")


def one_step(artifact, library):
    """The parameters behind it."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    run = Run("train", artifact, "--data", data, "--max-steps", 1, "--global-batch", 32, "--devices", "cuda:0", "--library", library,
              "--checkpoint-dir", folder)
    print(f"--library {library}: {run.all('library')}")
    return tensors(newest(folder) / "model.safetensors")


for start in ("0.0", "1.0"):
    artifact = for_gpu(NET, "relu", "--batch", "32", "-D", f"start={start}")
    check_plan()
    generated, by_library = one_step(artifact, "none"), one_step(artifact, "auto")
    middle = [name for name in generated if "middle" in name]
    check(len(middle) == 2, f"the layer's parameters are {middle}, of {list(generated)}")
    for name, found in (("generated code", generated), ("the library", by_library)):
        still = [all(x == (float(start) if "bias" in parameter else 0) for x in found[parameter]) for parameter in middle]
        check(still == [start == "0.0"] * 2, f"{name}, from a bias of {start}: do {middle} stand still? {still}")
    far = max(distance(by_library[name], generated[name]) for name in generated)
    print(f"from a bias of {start}: after a step a parameter by the library differs by {far:.1e} from generated code's", flush=True)
    check(far <= CLOSE, "the library's gradients are others")
finish()
