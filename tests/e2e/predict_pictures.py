"""`dtrun predict --png`: values become bytes of pictures, read back by a decoder of this test's own; what is no picture is refused, and why."""
import os
import sys
import zlib

import numpy

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SAMPLE = """
step sample(x: f32[B, 5, 7, 3]) {
    return %s
}
"""


def read_png(path):
    """[height, width, channels] of u8. Of PNG all that matters here: 8 bits, grey or RGB, the five filters of a line."""
    content, chunks, at = path.read_bytes(), {}, 8
    check(content[:8] == b"\x89PNG\r\n\x1a\n", f"{path} is no PNG")
    while at < len(content):
        n, kind = struct.unpack(">I4s", content[at : at + 8])
        check(zlib.crc32(content[at + 4 : at + 8 + n]) == struct.unpack(">I", content[at + 8 + n : at + 12 + n])[0], f"{path}: CRC")
        chunks[kind] = chunks.get(kind, b"") + content[at + 8 : at + 8 + n]
        at += 12 + n
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    check(depth == 8 and colour in (0, 2) and interlaced == 0, chunks[b"IHDR"])
    channels, data, before, lines = (3 if colour == 2 else 1), zlib.decompress(chunks[b"IDAT"]), None, []
    for y in range(height):
        start = y * (1 + width * channels)
        kind, line = data[start], list(data[start + 1 : start + 1 + width * channels])
        before = before or [0] * len(line)
        for i in range(len(line)):
            a, b, c = line[i - channels] if i >= channels else 0, before[i], before[i - channels] if i >= channels else 0
            nearest = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, nearest)[kind]) & 255
        lines.append(line)
        before = line
    return numpy.array(lines, numpy.uint8).reshape(height, width, channels)


def sample(results, x, *flags, expect=0):
    shutil.rmtree(FOLDER / "png", ignore_errors=True)
    numpy.save(FOLDER / "x.npy", x)
    program = compile_program(SAMPLE % results, "s", "--batch", "8")
    run = Run("predict", program, "--step", "sample", "--input", FOLDER / "x.npy", "--png", FOLDER / "png", *flags, expect=expect)
    return run if expect != 0 else (run, {path.name: read_png(path) for path in sorted((FOLDER / "png").iterdir())})


numbers = numpy.random.default_rng(1)
unit = numbers.random((12, 5, 7, 3), numpy.float32)
unit[0, 0, 0] = (0, 1, 0.5)
both = 2 * unit - 1

# from 0 to 1; from -1 to 1; bytes; grey with a channel and without
run, found = sample("picture: x", unit)
check(list(found) == [f"picture-{i:02}.png" for i in range(12)], list(found))
wanted = numpy.rint(unit.astype(numpy.float64) * 255).astype(int)
check(all(abs(found[f"picture-{i:02}.png"].astype(int) - wanted[i]).max() <= 1 for i in range(12)), "colours")
check(found["picture-00.png"][0, 0].tolist() == [0, 255, 128], found["picture-00.png"][0, 0])
check([(e["path"], e["type"]) for e in run.all("result")] == [(f"{FOLDER}/png/picture-*.png", "f32[12, 5, 7, 3]")], run.events)
_, again = sample("picture: x", both)
check(all(abs(again[name].astype(int) - found[name].astype(int)).max() <= 1 for name in found), "from -1 to 1")
_, bytes_ = sample("picture: u8(x * 255)", unit[:3])
check(all((bytes_[f"picture-{i}.png"] == (unit[i] * numpy.float32(255)).astype(numpy.uint8)).all() for i in range(3)), "bytes")
_, grey = sample("a: x[..., 0], b: x[..., 1:2]", unit[:2])
check(list(grey) == ["a-0.png", "a-1.png", "b-0.png", "b-1.png"] and grey["a-0.png"].shape == (5, 7, 1), list(grey))
check(all((grey[f"{k}-{i}.png"][..., 0] == found[f"picture-{i:02}.png"][..., c]).all() for k, c in (("a", 0), ("b", 1)) for i in (0, 1)), "grey")

# the other results: a note, or their own files
run, found = sample("picture: x, brightness: mean(x, axes: [1, 2, 3])", unit)
check(len(found) == 12 and "result brightness is no row of pictures: [B, H, W] or [B, H, W, C]: --output writes it" in run.error, run.error)
run, found = sample("picture: x, brightness: mean(x, axes: [1, 2, 3])", unit, "--output", FOLDER / "arrays")
check("brightness" not in run.error and numpy.load(FOLDER / "arrays/picture.npy").shape == unit.shape, run.error)

# what is no picture
unit[9, 1, 2, 0] = 1.5
for result, words in (("p: x[..., :2]", "result p has neither one channel nor three"), ("p: i32(x)", "is neither of u8 nor of f32: convert it, f32(x)"),
                      ("p: x[:, :0]", "has pictures that are empty, or too large"), ("p: mean(x)", "result p is no row of pictures"),
                      ("p: x", "result p: 1.5 in row 9 is no brightness"), ("p: x / x - x / x", "nan in row 0")):
    error = sample(result, unit if result == "p: x" else 0 * unit[:6], expect=1).error
    check(words in error, error)
    check(not list((FOLDER / "png").glob("*")), "something was written")
error = Run("predict", FOLDER / "s.dtx", "--step", "sample", "--input", FOLDER / "x.npy", expect=1).error
check("with --output, or for pictures with --png" in error, error)
error = sample("p: x", unit[:2], "--png", "/dev/null/no", expect=1).error
check("cannot create the folder" in error, error)

# a step that draws what it is made of needs no input: the same for the same seed, normal
NOISE = """
fn draw(number: i64) { return normal([40, 50]), number }

data noise = range(30) | map(draw) | batch(8)

step sample(z: f32[B, 40, 50], number: i64[B]) from noise {
    return picture: sigmoid(z), z: reshape(z, [B, 2000]), number: number
}
"""
drawn = {}
for seed in (0, 0, 1):
    flags = ("--seed", seed, "--png", FOLDER / f"seed-{seed}", "--output", FOLDER / f"seed-{seed}")
    Run("predict", compile_program(NOISE, "noise", "--batch", "8"), "--step", "sample", *flags)
    z = numpy.load(FOLDER / f"seed-{seed}/z.npy")
    check(numpy.load(FOLDER / f"seed-{seed}/number.npy").tolist() == list(range(30)) and (drawn.setdefault(seed, z) == z).all(), "the same seed")
    check(abs(z.mean()) < 5 / 60000**0.5 and abs(z.std() - 1) < 5 / 120000**0.5 and len(numpy.unique(z)) > 55000, f"not normal: {z.mean()}, {z.std()}")
    grey = read_png(FOLDER / f"seed-{seed}/picture-29.png")[..., 0]
    check(abs(grey - 255 / (1 + numpy.exp(-z[29].reshape(40, 50)))).max() < 0.6, "the picture of the last one")
check((drawn[0] != drawn[1]).mean() > 0.99, "another seed, the same numbers")
finish()
