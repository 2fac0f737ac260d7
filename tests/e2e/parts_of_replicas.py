"""A replica of one microbatch on several cores, which run its kernels in parts: the same bits on 1, 2, 3 and 4 of them, those of the program whose kernels
stay whole up to rounding, and what is counted is counted once."""
import os
import re
import sys

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

CONVOLUTIONS = """
use nn, losses, optimizers
data train_set = bytes("train.txt") | windows(96 * 96 + 1, shift: 512) | batch(1)
model Net(x: f32[B, H, W, C]) -> f32[B, 300] {
    x = max_pool2d(conv2d(x, filters: 16, kernel: 3, padding: same, activation: relu), size: 2)
    x = conv2d(x, filters: 32, kernel: 3, padding: same, stride: 2, activation: relu)
    x = dropout(conv2d(x, filters: 32, kernel: 3, activation: relu), rate: 0.1)
    return dense(mean(x, axis: [1, 2]), units: 300)
}
step train(text: u8[B, 96 * 96 + 1]) from train_set {
    image = f32(reshape(text[:, :-1], [B, 96, 96, 1])) / 255
    loss  = sparse_categorical_crossentropy(i32(text[:, -1]) + LEAST, Net(image))
    minimize(loss, adam(learning_rate: 1e-3))
    report loss: mean(loss), largest: max(loss)
}
"""
GPT = pathlib.Path(os.environ["DT_SOURCE"], "examples/gpt.dt").read_text()
NUMBERS = {"BF16": None, "F32": "<f4", "F64": "<f8", "I64": "<i8"}


def tensors(folder):
    for path in sorted(folder.glob("step-*/*.safetensors")):
        data = path.read_bytes()
        n = int.from_bytes(data[:8], "little")
        for name, about in sorted(json.loads(data[8:8 + n]).items()):
            if name != "__metadata__":
                first, end = about["data_offsets"]
                yield name, numpy.frombuffer(data[8 + n + first:8 + n + end], NUMBERS[about["dtype"]])


def train(artifact, devices, ok=True):
    folder = FOLDER / f"{artifact.stem}-{devices.replace(':', '_')}"
    run = subprocess.run(["dtrun", "train", artifact, "--devices", devices, "--global-batch", "1", "--max-steps", "3", "--data", data,
                          "--checkpoint-dir", folder], capture_output=True, text=True)
    assert (run.returncode == 0) == ok, run.stderr
    return folder if ok else run.stderr


def compile(text, name, *options):
    source, artifact = FOLDER / f"{name}.dt", FOLDER / f"{name}.dtx"
    source.write_text(text)
    plan = subprocess.run(["dtc", "compile", source, "--batch", "1", "--emit=plan", *options], capture_output=True, text=True, check=True).stdout
    subprocess.run(["dtc", "compile", source, "--batch", "1", "-o", artifact, *options], check=True)
    return artifact, any(line.startswith("  replica") and ", divided" in line for line in plan.splitlines())


data = FOLDER / "texts"
data.mkdir()
numbers = random.Random(5)
for name, n in (("train.txt", 20000), ("valid.txt", 1000)):
    (data / name).write_bytes(bytes(numbers.randrange(256) for _ in range(n)))
for text, name, options in ((GPT, "gpt", ["-D", "context=200", "-D", "layers=2"]), (CONVOLUTIONS.replace("LEAST", "0"), "convolutions", []),
                            (CONVOLUTIONS.replace("LEAST", "0"), "bf16", ["--precision", "bf16"]),
                            (re.sub(" +report .*", "", CONVOLUTIONS.replace("LEAST", "0")), "silent", [])):
    artifact, divided = compile(text, name, *options)
    whole, undivided = compile(text, name + "-whole", *options, "-O", "no-parts")
    assert divided and not undivided, name
    one = dict(tensors(train(artifact, "cpu:1x1")))
    for devices in ("cpu:1x2", "cpu:1x3", "cpu:1x4"):
        other = dict(tensors(train(artifact, devices)))
        assert one.keys() == other.keys()
        for tensor in one:
            assert one[tensor].tobytes() == other[tensor].tobytes(), f"{name}, {devices}: {tensor}"
    for tensor, value in tensors(train(whole, "cpu:1x2")):
        assert numpy.allclose(one[tensor], value, rtol=1e-2, atol=2e-4), f"{name}: {tensor}"

wrong, divided = compile(CONVOLUTIONS.replace("LEAST", "290"), "wrong")
errors = [train(wrong, devices, ok=False) for devices in ("cpu:1x1", "cpu:1x2")]
assert divided and errors[0] == errors[1] and "index" in errors[0], errors
finish()
