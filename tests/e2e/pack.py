"""dtc pack: an artifact with weights in it predicts what the artifact does with --init, and weights that do not fit are refused."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

PROGRAM = """use nn, losses, optimizers
model Net(x: f32[B, 4]) -> f32[B, 3] { return dense(dense(x, units: 5, activation: relu), units: 3) }
step train(x: f32[B, 4], label: i32[B]) {
    loss = sparse_categorical_crossentropy(label, Net(x))
    minimize(loss, adam())
    report loss: mean(loss)
}
step predict(x: f32[B, 4]) { return score: Net(x) }
"""


def run(*command, wrong=None):
    """Runs a command; with `wrong`, it must fail with that part of a message."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert (done.returncode != 0) == (wrong is not None), (command, done.stderr)
    assert wrong is None or wrong in done.stderr, (wrong, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    pathlib.Path("net.dt").write_text(PROGRAM)
    generator = np.random.default_rng(1)
    shapes = {"Net/dense/kernel": (4, 5), "Net/dense/bias": (5,), "Net/dense_1/kernel": (5, 3), "Net/dense_1/bias": (3,)}
    weights = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    x = generator.standard_normal((10, 4)).astype(np.float32)
    save_file(weights, "w.safetensors")
    np.save("x.npy", x)
    run("dtc", "compile", "net.dt", "--batch", "16", "-o", "plain.dtx")
    run("dtc", "pack", "plain.dtx", "w.safetensors", "-o", "packed.dtx")
    run("dtrun", "predict", "plain.dtx", "--input", "x.npy", "--output", "none", wrong="no weights")
    run("dtrun", "predict", "packed.dtx", "--input", "x.npy", "--output", "packed")
    run("dtrun", "predict", "plain.dtx", "--init", "w.safetensors", "--input", "x.npy", "--output", "init")
    assert (np.load("packed/score.npy") == np.load("init/score.npy")).all()
    hidden = np.maximum(x @ weights["Net/dense/kernel"] + weights["Net/dense/bias"], 0)
    assert np.allclose(np.load("packed/score.npy"), hidden @ weights["Net/dense_1/kernel"] + weights["Net/dense_1/bias"], rtol=1e-4, atol=1e-5)

    # in place, and in place of others; --init goes before what is packed
    save_file({name: tensor * 2 for name, tensor in weights.items()}, "twice.safetensors")
    run("dtc", "pack", "packed.dtx", "twice.safetensors")
    run("dtrun", "predict", "packed.dtx", "--input", "x.npy", "--output", "twice")
    run("dtrun", "predict", "packed.dtx", "--init", "w.safetensors", "--input", "x.npy", "--output", "again")
    assert not (np.load("twice/score.npy") == np.load("init/score.npy")).any()
    assert (np.load("again/score.npy") == np.load("init/score.npy")).all()

    before = pathlib.Path("packed.dtx").read_bytes()
    save_file({**weights, "Net/dense/bias": np.zeros(6, np.float32)}, "wrong.safetensors")
    run("dtc", "pack", "packed.dtx", "wrong.safetensors", wrong="Net/dense/bias is not of the type and shape")
    save_file({"Net/dense/kernel": load_file("w.safetensors")["Net/dense/kernel"]}, "few.safetensors")
    run("dtc", "pack", "packed.dtx", "few.safetensors", wrong="has no parameter Net/dense/bias")
    run("dtc", "pack", "packed.dtx", "x.npy", wrong="no safetensors file")
    whole = pathlib.Path("w.safetensors").read_bytes()
    pathlib.Path("cut.safetensors").write_bytes(whole[:-4])
    run("dtc", "pack", "packed.dtx", "cut.safetensors", wrong="is truncated or damaged")
    pathlib.Path("short.safetensors").write_bytes(whole.replace(b"[0,20]", b"[4,20]"))
    run("dtc", "pack", "packed.dtx", "short.safetensors", wrong="does not have the bytes of its shape")
    run("dtc", "pack", "none.dtx", "w.safetensors", wrong="none.dtx: cannot open: No such file")
    run("dtc", "pack", "net.dt", "w.safetensors", wrong="not an artifact")
    assert pathlib.Path("packed.dtx").read_bytes() == before  # nothing was lost
    cut = pathlib.Path("cut.dtx")
    for n in (0, 10, len(before) // 2, len(before) - 1):
        cut.write_bytes(before[:n])
        run("dtrun", "predict", cut, "--input", "x.npy", "--output", "cut", wrong="cut.dtx")
    shutil.rmtree("twice")
print("what is packed is what is predicted with")
