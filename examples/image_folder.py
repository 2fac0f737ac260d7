#!/usr/bin/env python3
"""Writes Fashion-MNIST as folders of PNG files, train/CLASS/NUMBER.png and test/CLASS/NUMBER.png, which examples/image_folder.dt reads.

    python3 examples/image_folder.py FOLDER [FOLDER OF FASHION-MNIST]

The second folder is that of Debian's package dataset-fashion-mnist, unless it is named. Python's own library is enough."""
import gzip
import pathlib
import struct
import sys
import zlib

CLASSES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle_boot")
SIDE = 28


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(pixels):
    """A grey PNG file of these bytes, row after row."""
    rows = b"".join(b"\0" + pixels[at:at + SIDE] for at in range(0, SIDE * SIDE, SIDE))
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "/usr/share/datasets/fashion-mnist")
    for name, prefix in (("train", "train"), ("test", "t10k")):
        images = gzip.decompress((source / f"{prefix}-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress((source / f"{prefix}-labels-idx1-ubyte.gz").read_bytes())[8:]
        folders = [pathlib.Path(sys.argv[1]) / name / label for label in CLASSES]
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
        for i, label in enumerate(labels):
            (folders[label] / f"{i:05}.png").write_bytes(png(images[i * SIDE * SIDE:(i + 1) * SIDE * SIDE]))
        print(f"{sys.argv[1]}/{name}: {len(labels)} images of {len(CLASSES)} classes")


if __name__ == "__main__":
    main()
