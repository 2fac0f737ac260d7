"""training: what the tests that run dtc and dtrun share: programs, data made on the spot, runs as lists of events, bits compared.

A test says `from training import *` after putting this folder on its path.
"""
import gzip
import hashlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

for tool in ("dtc", "dtrun"):
    if shutil.which(tool) is None:
        sys.exit(f"no {tool} in PATH")

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="dt-e2e-"))
SIDE = 12

# A network with dropout, Adam and a state, so that random numbers, slots and states all are part of the bits.
PROGRAM = """
use nn, losses, optimizers

data train_set = idx("images.gz", "labels.gz") | take(1000) | shuffle(1000) | batch(32) | prefetch(2)
data test_set  = idx("test-images", "test-labels") | batch(32)

model Net(image: u8[B, 12, 12]) -> f32[B, 10] {
    x = flatten(f32(image) / 255)
    x = dense(x, units: 32, activation: relu)
    x = batch_norm(x)
    x = dropout(x, rate: 0.2)
    return dense(x, units: 10)
}

step train(image: u8[B, 12, 12], label: u8[B]) from train_set {
    logits = Net(image)
    loss   = sparse_categorical_crossentropy(label, logits)
    minimize(loss, adam(learning_rate: 1e-3))
    report loss: mean(loss), accuracy: mean(argmax(logits) == label)
}

step evaluate(image: u8[B, 12, 12], label: u8[B]) from test_set {
    logits = Net(image)
    report loss: mean(sparse_categorical_crossentropy(label, logits)), accuracy: mean(argmax(logits) == label)
}

step predict(image: u8[B, 12, 12]) {
    logits = Net(image)
    return label: argmax(logits), probability: softmax(logits)
}
"""


def idx(data, *shape):
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape) + bytes(data)


def make_examples(n, seed, side=SIDE):
    """n images of ten classes: noise, and two bright rows that say which class it is."""
    numbers = random.Random(seed)
    images, labels = bytearray(), bytearray()
    for _ in range(n):
        label = numbers.randrange(10)
        image = bytearray(numbers.randrange(128) for _ in range(side * side))
        for row in (label, (3 * label + 1) % side):
            for column in range(side):
                image[row * side + column] |= 0x80 | numbers.randrange(64)
        images += image
        labels.append(label)
    return images, labels


def write_data(folder=None, n=1100, n_test=200):
    folder = pathlib.Path(folder or FOLDER / "data")
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, suffix, count, seed in (("", ".gz", n, 1), ("test-", "", n_test, 2)):
        images, labels = make_examples(count, seed)
        for name, content in (("images", idx(images, count, SIDE, SIDE)), ("labels", idx(labels, count))):
            (folder / (prefix + name + suffix)).write_bytes(gzip.compress(content, mtime=0) if suffix else content)
    return folder


def compile_program(text=PROGRAM, name="net", *flags):
    source, artifact = FOLDER / f"{name}.dt", FOLDER / f"{name}.dtx"
    source.write_text(text)
    made = subprocess.run(["dtc", "compile", source, "-o", artifact, *flags], capture_output=True, text=True)
    if made.returncode != 0:
        fail(f"dtc compile {source}:\n{made.stderr}")
    return artifact


def command(verb, program, *flags):
    return ["dtrun", verb, str(program), "--log-format", "json", *map(str, flags)]


class Run:
    """One dtrun that has ended: its events, what it said, its exit status. `environment`: what is set beside what is."""

    def __init__(self, verb, program, *flags, expect=0, environment=None, seconds=None):
        done = subprocess.run(command(verb, program, *flags), capture_output=True, text=True, timeout=seconds,
                              env={**os.environ, **(environment or {})})
        self.code, self.error = done.returncode, done.stderr
        self.events = [json.loads(line) for line in done.stdout.splitlines()]
        if expect is not None and self.code != expect:
            fail(f"{' '.join(command(verb, program, *flags))}\nended with {self.code}, wanted {expect}:\n{self.error}")

    def all(self, event, **wanted):
        return [e for e in self.events if e["event"] == event and all(e.get(k) == v for k, v in wanted.items())]

    def one(self, event, **wanted):
        found = self.all(event, **wanted)
        check(len(found) == 1, f"wanted one {event} event {wanted}, got {len(found)}: {self.events}")
        return found[0]


def fail(message):
    print(message)
    sys.exit(1)


def check(condition, message):
    if not condition:
        fail(message)


def newest(folder):
    steps = [int(path.name[5:]) for path in pathlib.Path(folder).glob("step-*")]
    return pathlib.Path(folder) / f"step-{max(steps)}" if steps else None


def left_by(folder):
    """The newest checkpoint's name and the bytes of its tensors; None: there is none."""
    path = newest(folder)
    return path and (path.name, *((path / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")))


def assert_equal_bits(program, data):
    """50 steps over 1000 examples in batches of 96: ten full ones, then one of 40, which leaves the last replicas without a row. Any D and T, twice; the program
    holds up to 96 rows a replica, so each has several blocks."""

    def train(replicas, devices, *flags):
        folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        run = Run("train", program, "--data", data, "--max-steps", 50, "--global-batch", 96, "--replicas", replicas, "--devices", f"cpu:{devices}",
                  "--checkpoint-dir", folder, *flags)
        check(run.one("end")["steps"] == 50, "50 steps were asked for")
        return bits(folder), [e["loss"] for e in run.all("epoch")]

    for replicas, all_devices in ((1, ("1x2", "1x4")), (2, ("1x2", "1x4", "2x2")), (4, (1, 2, 4, "2x2")), (3, (1, 2, 3)), (8, (1, 2))):
        wanted = train(replicas, "1x1")
        for devices in all_devices:
            found = train(replicas, devices)
            check(found == wanted, f"V={replicas}: cpu:{devices} gives {found}, cpu:1x1 gave {wanted}")
        print(f"V={replicas}: cpu:{', cpu:'.join(map(str, all_devices))} agree", flush=True)
    check(train(8, 1, "--seed", 1)[0] != wanted[0], "another seed gives the same bits: the comparison cannot fail")


def bits(folder):
    """A sum of the newest checkpoint's tensors, and its step."""
    path = newest(folder)
    check(path is not None, f"{folder} holds no checkpoint")
    sums = [hashlib.sha256((path / name).read_bytes()).hexdigest() for name in ("model.safetensors", "optimizer.safetensors")]
    return path.name, *sums


def finish():
    shutil.rmtree(FOLDER, ignore_errors=True)
    print("ok")
