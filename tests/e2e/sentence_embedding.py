"""examples/sentence_embedding.dt from lines of text to embeddings: a small BERT's are those of transformers (tests/golden/embedding.py)."""
import os
import sys

import numpy
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
GOLDEN = SOURCE / "tests/golden/embedding"
SMALL = {"length  = 256": "length  = 16", "layers  = 6": "layers  = 2", "width   = 384": "width   = 24", "heads   = 12": "heads   = 3",
         "vocab   = 30522": f"vocab   = {len((GOLDEN / 'vocab.txt').read_text().split())}", "f32[512, width]": "f32[20, width]"}

text = (SOURCE / "examples/sentence_embedding.dt").read_text()
for old, new in SMALL.items():
    check(old in text, f"the example has no {old}")
    text = text.replace(old, new)
program = compile_program(text)
answers = load_file(GOLDEN / "answers.safetensors")
numpy.save(FOLDER / "token.npy", answers["token"])
weights = ("--init", GOLDEN / "model.safetensors", "--map", SOURCE / "examples/names/sentence_embedding.txt")
for source in (("--data", GOLDEN), ("--input", FOLDER / "token.npy"), ("--data", GOLDEN, "--global-batch", 4, "--replicas", 2)):
    run = Run("predict", program, *source, *weights, "--output", FOLDER / "out")
    distance = abs(numpy.load(FOLDER / "out/embedding.npy") - answers["embedding"]).max()
    check(distance < 1e-5, f"{source}: embeddings differ by {distance}")
done = run.one("epoch")
check(done["examples"] == 8 and done["steps"] == 2 and done["seconds"] > 0 and done["examples_per_second"] > 0, done)
check("not used  pooler.dense.weight f32[24, 24], as the map says" in run.one("note")["message"], "the table of weights")
finish()
