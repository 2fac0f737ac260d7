"""Training on a GPU with cuBLASLt doing what follows a product in the same call (gelu, and the gradients of gelu, relu and a bias), faked: the losses are
those of generated code and of a processor; what the library does is not launched besides; and whichever epilogue it refuses, alone or with the one that it
goes with, the rest still agrees.

The last batch of the epoch is short, so that rows that are not valid stand in what gradients are summed over.
"""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["DT_SOURCE"]) / "tests/support"))
from fake_gpu import *  # noqa: E402

NET = """
use nn, losses, optimizers

data train_set = idx("images.gz", "labels.gz") | take(80) | batch(32)

model Net(image: u8[B, 12, 12]) -> f32[B, 128] {
    x = dense(flatten(f32(image) / 255), units: 256, activation: fn(t) => gelu(t, approximate: true))
    x = dense(x, units: 256, activation: relu)
    return dense(x, units: 128)
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    loss = sparse_categorical_crossentropy(label, Net(image))
    minimize(loss, adam(learning_rate: 1e-3))
    report loss: mean(loss)
}
"""

# Numbers of cublasLtEpilogue_t, and how many calls of the step are generated where the library has none of them.
REFUSED = {"192": 1,         # the gradient of gelu
           "164": 1,         # gelu that keeps its argument, with a bias
           "136": 1,         # the gradient of a relu
           "134": 1,         # a relu that notes its mask: then it notes none, and its gradient is generated
           "6,134": 2,       # no relu at all: neither it nor its gradient
           "256,512": 0,     # the gradient of a bias: its sum is generated, the product is not
           "136,192,256,512": 2}


def losses(run):
    return [event["loss"] for event in run.all("epoch")]


def agree(found, wanted, what):
    check(len(found) == len(wanted) and all(abs(x - y) < 1e-4 * y for x, y in zip(found, wanted)), f"{what}: {found}, generated code gives {wanted}")


def sums_launched(log):
    """How often the sums beside products run as functions of their own."""
    return len(re.findall(r"^    runs .*: train_\d+_reduce_sum_matmul_part0 ", log.read_text(), re.MULTILINE))


def check_plan():
    shown = subprocess.run(["dtc", "compile", "--target", "cuda:sm_90", "--emit=plan", FOLDER / "epilogues.dt"], capture_output=True, text=True, check=True)
    said = [re.sub(", for [0-9]+ launches$", "", line.split("product ")[1]) for line in shown.stdout.splitlines() if " product 32 x " in line or " over 32" in line]
    wanted = ["bias, gelu, its argument kept", "bias, relu", "relu_gradient", "gelu_gradient"]
    check(all(sum(line.endswith(", " + what) for line in said) == 1 for what in wanted), f"the plan lists {said}, wanted {wanted}")
    check(sum(line.endswith(", bias gradient") for line in said) == 3, f"the plan lists {said}, wanted three gradients of a bias")


def main():
    data = write_data(n=100)
    artifact = Artifact(NET, "epilogues")
    flags = ("--data", data, "--replicas", 2, "--global-batch", 64, "--epochs", 3)
    check_plan()
    alone = losses(artifact.run("train", *flags, "--library", "none"))
    agree(losses(artifact.run("train", *flags, devices="cpu:1")), alone, "a processor")
    log = FOLDER / "log"
    found = artifact.run("train", *flags, log=log)
    agree(losses(found), alone, "the library")
    check("generated" not in str(found.all("library")), f"some of it is refused: {found.all('library')}")
    check(losses(found) == losses(artifact.run("train", *flags)), "a second run gives other bits")
    check(sums_launched(log) == 0, "the gradient of a bias is computed twice")
    for refused, generated in REFUSED.items():
        os.environ["FAKE_LIBRARY_REFUSE_EPILOGUES"] = refused
        found = artifact.run("train", *flags, log=log)
        del os.environ["FAKE_LIBRARY_REFUSE_EPILOGUES"]
        agree(losses(found), alone, f"without epilogues {refused}")
        said = str(found.all("library"))
        check(f", {generated} of them generated" in said if generated else "fallback" not in said, f"without epilogues {refused}: {said}")
        check((sums_launched(log) > 0) == ("256" in refused), f"without epilogues {refused}: sums beside products are launched {sums_launched(log)} times")
    finish()


if __name__ == "__main__":
    main()
