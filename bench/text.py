"""text: wordpiece and bpe beside PyPI's `tokenizers`, on one core: the King James Bible, a verse a line (examples/kjv.py), in runs by turns.

MB/s are of the text, by the time that the core worked on it: reading the file is left out on both sides, offsets in the text are left out on theirs
(encode_batch_fast). wordpiece has BERT's vocabulary, bpe 8,000 tokens that `tokenizers` finds in the same text. Our side pads to 256 tokens.
"""
import os
import sys

import side_by_side as bench

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import time  # noqa: E402

from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer  # noqa: E402

FOLDER = bench.ROOT / "build/bench_text"
TOKENIZE = bench.ROOT / "build/tests/tools/tokenize"


def prepare():
    if not (FOLDER / "vocab.txt").exists():
        bench.run([sys.executable, bench.ROOT / "examples/kjv.py", FOLDER])
    if not (FOLDER / "merges.txt").exists():
        trained = ByteLevelBPETokenizer()
        trained.train(str(FOLDER / "train.txt"), vocab_size=8000, show_progress=False)
        trained.save_model(str(FOLDER))


def ours(*arguments):
    output = bench.run(["bash", "-c", 'exec "$0" "$@" < ' + str(FOLDER / "train.txt"), TOKENIZE, *arguments], {"TOKENIZE_SECONDS": "1"}).output
    return float(output)


def theirs(tokenizer, lines):
    began = time.process_time()
    tokenizer.encode_batch_fast(lines)
    return time.process_time() - began


def main():
    n = bench.n_pairs(__doc__)
    prepare()
    text = (FOLDER / "train.txt").read_text()
    lines, mb = text.split("\n")[:-1], len(text.encode()) / 1e6
    vocab, merges = FOLDER / "vocab.json", FOLDER / "merges.txt"
    bench.head(f"MB/s a core; {bench.counted(n)}", "dt", "tokenizers", "ratio")
    for name, arguments, tokenizer in (("wordpiece", ("wordpiece", FOLDER / "vocab.txt", 256), BertWordPieceTokenizer(str(FOLDER / "vocab.txt"))),
                                       ("bpe", ("bpe", vocab, merges, 256), ByteLevelBPETokenizer(str(vocab), str(merges)))):
        mine, other, ratio = bench.pairs(n, lambda: ours(*arguments), lambda: theirs(tokenizer._tokenizer, lines))
        bench.row(name, f"{mb / mine:.0f}", f"{mb / other:.1f}", f"{ratio:.1f}")


main()
