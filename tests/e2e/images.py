"""A folder of images, from end to end: `dtrun data` shows what a step sees of it, which NumPy makes too; the functions of the module images over one
example; a training that is the same on any number of threads, after a restart, and that says what it read; files that are wrong."""
import os
import sys
import zlib

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

HEIGHT, WIDTH, N = 9, 13, 120
CROPS = """
use images

data some = images("set", channels: 3) | shuffle(1000) | map(change) | batch(32)

fn change(image: u8[9, 13, 3], label: i32) {
    return image, label, center_crop(image, height: 4, width: 6), random_crop(image, height: 9, width: 8, padding: 2, value: 7), random_flip(image),
           random_flip(image, axis: 0, probability: 1.0), normalize(image, mean: [0.1, 0.2, 0.3], deviation: 0.5),
           random_brightness(image, 0.2), random_contrast(image, 0.3)
}

step train(image: u8[B, 9, 13, 3], label: i32[B], center: u8[B, 4, 6, 3], crop: u8[B, 9, 8, 3], flip: u8[B, 9, 13, 3], upset: u8[B, 9, 13, 3],
           normal: f32[B, 9, 13, 3], bright: f32[B, 9, 13, 3], contrast: f32[B, 9, 13, 3]) from some {
    report mean: mean(f32(image))
}
"""
TRAIN = """
use nn, losses, optimizers, images

data train_set = images("set", height: 8, width: 8, channels: 1, fit: crop) | shuffle(1000) | map(change) | batch(16) | prefetch(2)

fn change(image: u8[8, 8, 1], label: i32) { return random_flip(random_crop(image, height: 8, width: 8, padding: 1)), label }

model Net(image: u8[B, 8, 8, 1]) -> f32[B, 3] { return dense(flatten(normalize(image)), units: 3) }

step train(image: u8[B, 8, 8, 1], label: i32[B]) from train_set {
    loss = sparse_categorical_crossentropy(label, Net(image))
    minimize(loss, adam())
    report loss: mean(loss)
}
"""


def png(pixels):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_folder():
    """N images in three classes; the pixel at 0, 0 says which one it is."""
    pixels = numpy.random.default_rng(1).integers(0, 256, (N, HEIGHT, WIDTH, 3), dtype=numpy.uint8)
    for i in range(N):
        pixels[i, 0, 0] = (i, 17, 99)
        folder = FOLDER / "data/set" / "abc"[i % 3]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i:03}.png").write_bytes(png(pixels[i]))
    return pixels


def where_cut(padded, crop):
    """The places in `padded` that `crop` may have been cut from."""
    height, width = crop.shape[:2]
    return [(top, left) for top in range(padded.shape[0] - height + 1) for left in range(padded.shape[1] - width + 1)
            if numpy.array_equal(padded[top:top + height, left:left + width], crop)]


pixels, data = write_folder(), FOLDER / "data"
Run("data", compile_program(CROPS, "crops"), "--data", data, "--seed", 3, "-o", FOLDER / "seen")
seen = {path.stem: numpy.load(path) for path in (FOLDER / "seen").iterdir()}
number = seen["image"][:, 0, 0, 0]
check(sorted(number) == list(range(N)) and list(number) != list(range(N)), "an epoch is a permutation")
check(numpy.array_equal(seen["image"], pixels[number]) and numpy.array_equal(seen["label"], number % 3), "pixels and labels")
check(numpy.array_equal(seen["center"], pixels[number][:, 2:6, 3:9]), "center_crop")
check(numpy.array_equal(seen["upset"], pixels[number][:, ::-1]), "random_flip along axis 0")
normal = (pixels[number] / numpy.float32(255) - numpy.array([0.1, 0.2, 0.3], numpy.float32)) / numpy.float32(0.5)
check(numpy.allclose(seen["normal"], normal, rtol=0, atol=1e-6), "normalize")

tops, lefts, n_flipped = [], [], 0
for i, own in enumerate(pixels[number]):
    padded = numpy.pad(own, ((2, 2), (2, 2), (0, 0)), constant_values=7)
    places = where_cut(padded, seen["crop"][i])
    check(len(places) == 1, f"random_crop of example {i} is cut from {places}")
    tops.append(places[0][0]), lefts.append(places[0][1])
    flipped = numpy.array_equal(seen["flip"][i], own[:, ::-1])
    check(flipped or numpy.array_equal(seen["flip"][i], own), f"random_flip of example {i}")
    n_flipped += flipped
    dark = own < 200  # what is not cut off at 255
    factor = numpy.median(seen["bright"][i][dark & (own > 0)] / own[dark & (own > 0)])
    check(0.8 <= factor <= 1.2 and numpy.allclose(seen["bright"][i], numpy.clip(own * factor, 0, 255), atol=1e-3), f"random_brightness {i}")
    average = own.mean(axis=(0, 1), dtype=numpy.float64)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        factors = (seen["contrast"][i] - average) / (own - average)
    inside = (seen["contrast"][i] > 0) & (seen["contrast"][i] < 255) & (abs(own - average) > 20)
    factor = numpy.median(factors[inside])
    check(0.7 <= factor <= 1.3 and numpy.allclose(seen["contrast"][i], numpy.clip((own - average) * factor + average, 0, 255), atol=1e-2),
          f"random_contrast {i}")
check(set(tops) == set(range(5)) and set(lefts) == set(range(10)), f"random_crop reaches rows {sorted(set(tops))} and columns {sorted(set(lefts))}")
check(35 <= n_flipped <= 85, f"{n_flipped} of {N} are flipped")

# the same bits on any number of threads and after a restart in the middle of an epoch; the classes are said
program = compile_program(TRAIN, "net")


def train(name, devices, *flags):
    folder = FOLDER / name
    run = Run("train", program, "--data", data, "--replicas", 2, "--devices", devices, "--checkpoint-dir", folder, "--epochs", 3, *flags)
    return run, bits(folder)


run, wanted = train("one", "cpu:1")
check("data train_set: 3 classes: 0 a, 1 b, 2 c" in str(run.events) + run.error, f"the classes are not said: {run.events}")
check(train("two", "cpu:2")[1] == wanted, "two devices give other bits")
train("three", "cpu:2", "--max-steps", 6)
check(train("three", "cpu:1", "--resume")[1] == wanted, "a restart gives other bits")

# a file that is cut is named, also when it is only met in the middle of an epoch
victim = data / "set/b/052.png"
victim.write_bytes(victim.read_bytes()[:-30])
check("set/b/052.png: the PNG file is cut" in Run("train", program, "--data", data, expect=1).error, "a cut file")
victim.unlink()
victim.symlink_to(data)
error = Run("train", program, "--data", data, expect=1).error
check("052.png" in error and "link to a folder" in error, error)
finish()
