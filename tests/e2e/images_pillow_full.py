"""The pixels of images() equal Pillow's, bit for bit: every kind of PNG and JPEG that Pillow writes, each grey and coloured, of its own size and
resized in every way. Pillow comes from PyPI, in an environment of the test's own."""
import io
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import venv

FITS = ("stretch", "crop", "pad")


def run_with_pillow():
    """Runs this file again in an environment that has Pillow and NumPy."""
    folder = pathlib.Path(os.environ["DT_BUILD"]) / "pillow_venv"
    if not (folder / "bin/python").exists():
        venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", "pillow", "numpy"], check=True)
    sys.exit(subprocess.run([python, __file__, "--here"]).returncode)


def make_files(folder, seed):
    """Noise over a gradient, in every mode and setting."""
    import numpy as np
    from PIL import Image
    generator = np.random.default_rng(seed)
    draw = random.Random(seed)
    paths = []

    def add(name, image, **settings):
        path = folder / f"{len(paths):03}_{name}"
        image.save(path, **settings)
        paths.append(path)

    for _ in range(6):
        height, width = draw.randint(1, 70), draw.randint(1, 90)
        slope = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[..., None] + np.arange(3) * 20
        pixels = np.clip(slope % 256 + generator.normal(0, 20, slope.shape), 0, 255).astype(np.uint8)
        colour = Image.fromarray(pixels)
        grey, alpha = colour.convert("L"), Image.fromarray(pixels[..., 0].copy())
        transparent = colour.copy()
        transparent.putalpha(alpha)
        grey_alpha = Image.merge("LA", (grey, alpha))
        palette = colour.quantize(draw.choice((2, 3, 7, 16, 100, 256)))
        for name, image in (("rgb", colour), ("grey", grey), ("rgba", transparent), ("la", grey_alpha), ("palette", palette),
                            ("bits", colour.convert("1"))):
            add(f"{name}.png", image)
        add("small.png", palette, optimize=True)
        add("seen_through.png", palette, transparency=1)
        add("rgb_key.png", colour, transparency=(1, 2, 3))
        for bits in (1, 2, 4):
            add(f"palette{bits}.png", colour.quantize(2 ** bits), bits=bits)
        for quality in (5, 50, 95):
            for sampling in ("4:4:4", "4:2:2", "4:2:0"):
                add(f"q{quality}_{sampling.replace(':', '')}.jpg", colour, quality=quality, subsampling=sampling)
        add("progressive.jpg", colour, progressive=True)
        add("grey.jpg", grey, quality=80)
        add("grey_progressive.jpg", grey, progressive=True)
        add("cmyk.jpg", colour.convert("CMYK"), quality=90)
        add("restart.jpg", colour, restart_marker_blocks=2)
        exif = Image.Exif()
        exif[0x0112] = 6
        add("turned.jpg", colour, exif=exif)
        (folder / f"{len(paths):03}_jpeg_named.png").write_bytes(paths[-1].read_bytes())
        paths.append(folder / f"{len(paths):03}_jpeg_named.png")
    return paths + write_png_by_hand(folder, generator)


def write_png_by_hand(folder, generator):
    """What Pillow does not write: 16 bits, interlacing, grey of 2 and 4 bits."""
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def rows(width, height, bits):
        return b"".join(b"\0" + generator.bytes((width * bits + 7) // 8) for _ in range(height))

    adam7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    paths = []
    for colour, depth, channels in ((0, 1, 1), (0, 2, 1), (0, 4, 1), (0, 8, 1), (2, 8, 3), (2, 16, 3), (4, 8, 2), (4, 16, 2), (6, 8, 4), (6, 16, 4)):
        for interlaced in (0, 1):
            width, height = 13, 9
            if interlaced:
                data = b"".join(rows(-(-(width - x) // dx), -(-(height - y) // dy), depth * channels) for x, y, dx, dy in adam7)
            else:
                data = rows(width, height, depth * channels)
            path = folder / f"hand_{colour}_{depth}_{interlaced}.png"
            path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)) +
                             chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))
            paths.append(path)
    return paths


def read(paths, channels, fit=0, height=0, width=0):
    """What dtrun makes of them: a list of arrays."""
    import numpy as np
    out = subprocess.run([f"{os.environ['DT_TOOLS']}/image_pixels", str(channels), str(fit), str(height), str(width), *map(str, paths)],
                         capture_output=True, check=True)
    assert out.stderr == b"", out.stderr.decode()
    stream = io.BytesIO(out.stdout)
    images = []
    for _ in paths:
        shape = struct.unpack("<3q", stream.read(24))
        images.append(np.frombuffer(stream.read(shape[0] * shape[1] * shape[2]), np.uint8).reshape(shape))
    return images


def pillow(path, mode, fit=0, height=0, width=0):
    import numpy as np
    from PIL import Image, ImageOps
    with Image.open(path) as opened:
        image = opened.convert(mode)
    if height:
        if fit == 2 and min(ImageOps.contain(image, (width, height)).size) == 0:
            return None  # all black: dtrun leaves a pixel of the image
        method = (Image.Image.resize, ImageOps.fit, ImageOps.pad)[fit]
        image = method(image, (width, height), Image.Resampling.BILINEAR)
    array = np.asarray(image)
    return array if array.ndim == 3 else array[..., None]


def compare(paths, channels, **how):
    import numpy as np
    mode = {1: "L", 3: "RGB"}[channels]
    for path, got in zip(paths, read(paths, channels, **how)):
        wanted = pillow(path, mode, **how)
        if wanted is None:
            continue
        assert got.shape == wanted.shape, (path.name, how, got.shape, wanted.shape)
        assert np.array_equal(got, wanted), f"{path.name} {mode} {how}: {np.count_nonzero(got != wanted)} of {got.size} differ"


def main():
    seed = int(os.environ.get("SEED", random.randrange(2 ** 32)))
    print(f"SEED={seed}")
    with tempfile.TemporaryDirectory() as scratch:
        paths = make_files(pathlib.Path(scratch), seed)
        for channels in (1, 3):
            compare(paths, channels)
            for fit in range(len(FITS)):
                for height, width in ((32, 32), (17, 61), (100, 3), (1, 1), (224, 160)):
                    compare(paths, channels, fit=fit, height=height, width=width)
        print(f"{len(paths)} files, grey and coloured, resized in 15 ways: the same bytes")


if __name__ == "__main__":
    main() if "--here" in sys.argv else run_with_pillow()
