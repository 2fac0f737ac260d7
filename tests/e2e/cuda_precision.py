"""A training with factors in f32, tf32 and bf16, on a GPU that is the fake driver and emulated kernels: the losses are those of the CPU with the same
rounding, and of no other; two replicas give the bits that the GPU gives again. So it is with mixed precision, where a sum that is off by one unit in f32 may
be rounded to another value of 16 bits; the scale of the loss is exactly that of the CPU."""
import os
import sys

from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import fake_gpu  # noqa: E402
from training import *  # noqa: E402,F403

STEPS = 3
PROGRAM = """
use nn, losses, optimizers

data train_set = idx("images.gz", "labels.gz") | batch(32)

model Net(image: u8[B, 12, 12]) -> f32[B, 10] {
    x = conv2d(f32(image)[..., newaxis] / 255, filters: 4, kernel: 3, stride: 2, activation: relu)
    return dense(dense(flatten(x), units: 32, activation: relu), units: 10)
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    logits = Net(image)
    loss   = sparse_categorical_crossentropy(label, logits)
    minimize(loss, sgd(learning_rate: 0.1))
    report loss: mean(loss)
}
"""


def losses(run):
    return [e["loss"] for e in run.all("step")]


def distance(a, b):
    return max(abs(x / y - 1) for x, y in zip(a, b))


data = write_data()
flags = ("--data", data, "--max-steps", STEPS, "--log-every", 1, "--replicas", 2, "--seed", 3)
on_cpu = {}
for precision in ("f32", "tf32", "bf16"):
    artifact = fake_gpu.Artifact(PROGRAM, f"net_{precision}", "--precision", precision)
    on_cpu[precision] = losses(Run("train", artifact.path, *flags, "--devices", "cpu:1x1"))
    on_gpu = losses(artifact.run("train", *flags))
    check(len(on_gpu) == STEPS, f"{precision}: {len(on_gpu)} steps")
    check(on_gpu == losses(artifact.run("train", *flags, seed=7)), f"{precision}: another order of threads gives other bits")
    for other, expected in on_cpu.items():
        apart = distance(on_gpu, expected)
        print(f"{precision}: {apart:.1e} from {other} on the CPU", flush=True)
        check((apart < 5e-6) == (other == precision), f"{precision}: {on_gpu}, the CPU gives {expected} in {other}")

for precision, bound in (("mixed_bf16", 2e-3), ("mixed_f16", 5e-4)):
    artifact = fake_gpu.Artifact(f"option precision: {precision}\n{PROGRAM}", precision)
    runs = {"cpu": Run("train", artifact.path, *flags, "--devices", "cpu:1x1", "--checkpoint-dir", FOLDER / f"{precision}-cpu")}
    runs["gpu"] = artifact.run("train", *flags, "--checkpoint-dir", FOLDER / f"{precision}-gpu")
    apart = distance(losses(runs["gpu"]), losses(runs["cpu"]))
    print(f"{precision}: {apart:.1e} from the CPU, {distance(losses(runs['gpu']), on_cpu['f32']):.1e} from f32 there", flush=True)
    check(apart < bound, f"{precision}: {losses(runs['gpu'])}, the CPU gives {losses(runs['cpu'])}")
    check(losses(runs["gpu"]) == losses(artifact.run("train", *flags, seed=7)), f"{precision}: another order of threads gives other bits")
    scales = [load_file(FOLDER / f"{precision}-{where}/step-{STEPS}/model.safetensors").get("loss_scale/scale") for where in runs]
    check(scales[0] == scales[1] and (scales[0] is None) == (precision == "mixed_bf16"), f"{precision}: the scales are {scales}")
finish()
