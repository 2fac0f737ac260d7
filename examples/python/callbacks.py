"""What a script may do while a session trains: watch steps, log numbers and pictures of its own, change a launch value, stop. The data is made up, by a
generator function, as data may come from anywhere.

    python examples/python/callbacks.py [FOLDER FOR WHAT IT WRITES]
"""
import pathlib
import sys
import tempfile

import dt
import numpy as np

PROGRAM = """
use nn, optimizers

launch rate = 0.05

model Smooth(image: f32[B, 16, 16]) -> f32[B, 16, 16] {
    return conv2d(image[..., newaxis], filters: 1, kernel: 5, padding: same)[..., 0]
}

step train(image: f32[B, 16, 16], wanted: f32[B, 16, 16]) {
    error = Smooth(image) - wanted
    minimize(error * error, adam(learning_rate: rate))
    report loss: mean(error * error)
}
"""


def batches():
    """An epoch of pictures with noise, and without it."""
    random = np.random.default_rng(0)
    row, column = np.mgrid[0:16, 0:16] / 16
    for _ in range(50):
        phase = random.random((32, 1, 1))
        wanted = (0.5 + 0.5 * np.sin(6.3 * (row + column + phase))).astype(np.float32)
        yield wanted + random.normal(scale=0.2, size=wanted.shape).astype(np.float32), wanted


class Watch:
    """Methods are called at the moments that they are named after; those that are not there cost nothing."""

    def step(self, moment):
        if moment.step % 25 == 0:
            kernel = moment.session["Smooth/conv2d/kernel"][:, :, 0, 0]
            moment.log_scalar("kernel/sum", kernel.sum())
            moment.log_image("kernel", np.clip(kernel * 5, 0, 1))

    def epoch(self, moment):
        print(f"epoch {moment.epoch} of {moment.epochs}: loss {moment.values['loss']:.4f}, rate {moment.session.launch['rate']:.3g}")
        moment.session.launch["rate"] *= 0.7
        if moment.values["loss"] < 0.0095:
            moment.stop()

    def checkpoint(self, moment):
        print("   ", moment.path)

    def end(self, moment):
        print(f"it ends after {moment.step} steps: {moment.reason}")


folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
session = dt.compile(PROGRAM, batch=32).session(checkpoints=folder / "checkpoints")
counts = dict.fromkeys(("step", "epoch", "checkpoint", "end"), 0)


def count(moment):
    """A function is called at every moment."""
    counts[moment.kind] += 1


session.train(batches, epochs=8, log_dir=folder / "log", callbacks=[Watch(), count]).run()
dt.report(folder / "log", output=folder / "report.html")
print(counts, "curves and pictures in", folder / "report.html")
