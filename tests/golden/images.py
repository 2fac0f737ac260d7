"""images/: small PNG and JPEG files, and beside each, in NAME.pixels, what Pillow makes of it: in colour, grey, and in colour resized to 6 x 8,
stretched, cropped, padded. Run in an environment with Pillow 13 and NumPy: python tests/golden/images.py"""
import pathlib
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

FOLDER = pathlib.Path(__file__).parent / "images"
HEIGHT, WIDTH = 9, 13
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(path, colour, depth, channels, interlaced, generator):
    def rows(width, height):
        return b"".join(b"\0" + generator.bytes((width * depth * channels + 7) // 8) for _ in range(height))

    data = rows(WIDTH, HEIGHT)
    if interlaced:
        data = b"".join(rows(-(-(WIDTH - x) // dx), -(-(HEIGHT - y) // dy)) for x, y, dx, dy in ADAM7)
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, depth, colour, 0, 0, interlaced)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b""))


def main():
    FOLDER.mkdir(exist_ok=True)
    generator = np.random.default_rng(13)
    slope = np.add.outer(np.arange(HEIGHT) * 20, np.arange(WIDTH) * 9)[..., None] + np.arange(3) * 30
    colour = Image.fromarray(np.clip(slope % 256 + generator.normal(0, 15, slope.shape), 0, 255).astype(np.uint8))
    for name, settings in (("grey4", (0, 4, 1, 0)), ("rgb16", (2, 16, 3, 0)), ("grey_alpha16", (4, 16, 2, 0)), ("rgba_interlaced", (6, 8, 4, 1))):
        write_png(FOLDER / f"{name}.png", *settings, generator)
    write_png(FOLDER / "grey16.refused", 0, 16, 1, 0, generator)
    colour.save(FOLDER / "rgb.png")
    colour.quantize(7).save(FOLDER / "palette.png", transparency=1)
    colour.save(FOLDER / "halved.jpg", quality=80, subsampling="4:2:0")
    colour.save(FOLDER / "progressive.jpg", progressive=True)
    colour.convert("L").save(FOLDER / "grey.jpg")
    colour.convert("CMYK").save(FOLDER / "cmyk.jpg")
    for path in sorted(FOLDER.iterdir()):
        if path.suffix not in (".png", ".jpg"):
            continue
        image = Image.open(path).convert("RGB")
        pixels = image.tobytes() + Image.open(path).convert("L").tobytes()
        for resize in (Image.Image.resize, ImageOps.fit, ImageOps.pad):
            pixels += resize(image, (8, 6), Image.Resampling.BILINEAR).tobytes()
        path.with_suffix(".pixels").write_bytes(pixels)


if __name__ == "__main__":
    main()
