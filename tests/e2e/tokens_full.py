"""wordpiece and bpe beside PyPI's `tokenizers` on 10,000 lines, with the whole vocabulary of BERT and merges trained on the King James Bible.

The package and the vocabulary are fetched into a folder of their own; skipped where they cannot be."""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
TOKENIZE = pathlib.Path(os.environ["DT_TOOLS"]) / "tokenize"
N_LINES, LENGTH = 10000, 64
folder = tempfile.TemporaryDirectory()
work = pathlib.Path(folder.name)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print("skipped: " + (done.stderr.strip().splitlines() or [f"{command[0]} fails"])[-1])
        sys.exit(77)


run(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", work / "packages", "tokenizers==0.23.3")
run(sys.executable, SOURCE / "examples/kjv.py", work)
sys.path[:0] = [str(work / "packages"), str(SOURCE / "tests/golden")]
from text_lines import lines  # noqa: E402
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer  # noqa: E402


def differing(tokenizer, made, *arguments):
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    text = "".join(line + "\n" for line in made)
    got = subprocess.run([TOKENIZE, *arguments], input=text, capture_output=True, check=True, encoding="utf-8").stdout.split("\n")[:-1]
    assert len(got) == len(made)
    wrong = 0
    for line, row, printed in zip(made, tokenizer.encode_batch(made), got):
        if " ".join(map(str, row.ids)) != printed:
            wrong += 1
            if wrong <= 5:
                print(f"{arguments[0]}: {line!r}\n  wanted {row.ids}\n  got    {printed}")
    print(f"{arguments[0]}: {wrong} of {len(made)} lines differ")
    return wrong


verses = (work / "train.txt").read_text().split("\n")[:-1]
trained = ByteLevelBPETokenizer()
trained.train(str(work / "train.txt"), vocab_size=8000, show_progress=False)
trained.save_model(str(work))
vocab, merges = str(work / "vocab.json"), str(work / "merges.txt")
n_wrong = 0
for seed in (1, 2):
    made = lines(N_LINES, seed, verses)
    n_wrong += differing(BertWordPieceTokenizer(str(work / "vocab.txt")), made, "wordpiece", work / "vocab.txt", str(LENGTH))
    n_wrong += differing(BertWordPieceTokenizer(str(work / "vocab.txt"), lowercase=False), made, "wordpiece", work / "vocab.txt", str(LENGTH), "0")
    n_wrong += differing(ByteLevelBPETokenizer(vocab, merges), made, "bpe", vocab, merges, str(LENGTH))
sys.exit(n_wrong > 0)
