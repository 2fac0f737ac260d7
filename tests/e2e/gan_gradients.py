"""The gradients of both losses of examples/gan.dt are PyTorch's (tests/golden/gan.py): the example's text, with its noise as an input and without dropout,
and with an optimizer that keeps the gradient and changes nothing."""
import os
import sys

import numpy

sys.path[:0] = [os.path.join(os.environ["DT_SOURCE"], folder) for folder in ("tests/support", "tests/golden")]
import gan  # noqa: E402
import glorot  # noqa: E402
import safetensors.numpy  # noqa: E402
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
CHANGES = (
    ('idx("train-images-idx3-ubyte.gz") | shuffle(60000) | batch(128)', f'npy("image.npy", "z.npy") | batch({gan.ROWS})'),
    ("step train(image: u8[B, 28, 28])", "step train(image: u8[B, 28, 28], z: f32[B, 64])"),
    ("Generator(normal([B, 64]))", "Generator(z)"),
    ("        x = dropout(x, rate: 0.3)\n", ""),
    ("minimize(d_loss, adam(2e-4, beta_1: 0.5)", "minimize(d_loss, keep()"),
    ("minimize(g_loss, adam(2e-4, beta_1: 0.5)", "minimize(g_loss, keep()"),
)
KEEP = """
optimizer keep() {
    update (p, g) {
        state gradient = zeros_like(p)
        gradient := g
    }
}
"""


def gradients(*flags):
    ck = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    weights = ["--init", FOLDER / "w.safetensors", "--allow-missing"]  # the moving statistics
    run = Run("train", program, "--data", FOLDER, *weights, "--max-steps", 1, "--log-every", 1, "--checkpoint-dir", ck, *flags)
    slots = safetensors.numpy.load_file(ck / "step-1/optimizer.safetensors")
    found = {path: [value for name, value in slots.items() if path in name and name.endswith("gradient")] for path in gan.SHAPES}
    check(all(len(values) == 1 for values in found.values()), list(slots))
    return run.one("step"), {path: values[0] for path, values in found.items()}


golden, text = json.loads((SOURCE / "tests/golden/gan.json").read_text()), (SOURCE / "examples/gan.dt").read_text()
for old, new in CHANGES:
    check(text.count(old) == 1, f"examples/gan.dt has changed: {old}")
    text = text.replace(old, new)
program = compile_program(text + KEEP, "gan")
check(glorot.digest(gan.weights()) == golden["weights_sha256"], "other weights than those of the golden numbers")
safetensors.numpy.save_file(gan.weights(), FOLDER / "w.safetensors")
image, z = gan.inputs()
numpy.save(FOLDER / "image.npy", image)
numpy.save(FOLDER / "z.npy", z)
for flags in ((), ("--replicas", 2, "--global-batch", gan.ROWS)):
    reports, found = gradients(*flags)
    for loss in ("d_loss", "g_loss"):
        check(abs(reports[loss] / golden[loss] - 1) < 1e-6, f"{loss}: {reports[loss]}, PyTorch has {golden[loss]}")
    for path, wanted in golden["gradients"].items():
        mine, scale = gan.describe(path, found[path]), max(wanted["length"], 0.01)  # a bias before a normalisation has none
        check(abs(mine["length"] - wanted["length"]) < 1e-5 * scale, f"{path}: the gradient has length {mine['length']}, PyTorch's {wanted['length']}")
        check(abs(mine["product"] - wanted["product"]) < 1e-5 * scale, f"{path}: {mine['product']}, PyTorch has {wanted['product']}")
        check(numpy.allclose(mine["first"], wanted["first"], rtol=2e-5, atol=2e-6 * scale), f"{path}: {mine['first']}, PyTorch has {wanted['first']}")
finish()
