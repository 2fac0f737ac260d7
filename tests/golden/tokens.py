"""Tokens of 400 lines, by PyPI's `tokenizers`: what wordpiece and bpe are held against.

    python3 -m venv env && env/bin/pip install tokenizers==0.23.3
    examples/kjv.py FOLDER && env/bin/python tests/golden/tokens.py FOLDER

Writes into tests/golden/tokens: lines.txt; vocab.txt, of BERT's vocabulary the characters and the pieces that these lines have, with the tokens by it, in lower case and
as they are (wordpiece.txt, cased.txt); vocab.json and merges.txt, trained on the verses, with the tokens by them (bpe.txt). A line of tokens for each line."""
import pathlib
import sys

from text_lines import lines
from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer

N_LINES, LENGTH = 400, 48
verses = (pathlib.Path(sys.argv[1]) / "train.txt").read_text().split("\n")[:-1]
folder = pathlib.Path(__file__).resolve().parent / "tokens"
folder.mkdir(exist_ok=True)


def write(name, rows):
    (folder / name).write_text("".join(row + "\n" for row in rows), newline="\n")


def write_tokens(name, tokenizer):
    tokenizer.enable_truncation(LENGTH)
    tokenizer.enable_padding(length=LENGTH)
    write(name, (" ".join(map(str, row.ids)) for row in tokenizer.encode_batch(made)))


made = lines(N_LINES, 2, verses)
write("lines.txt", made)

whole = BertWordPieceTokenizer(str(pathlib.Path(sys.argv[1]) / "vocab.txt"))
used = {token for row in whole.encode_batch(made) for token in row.tokens}
pieces = [token for token, _ in sorted(whole.get_vocab().items(), key=lambda item: item[1])]
write("vocab.txt", [token for token in pieces if token in used or token == "[MASK]" or (len(token.removeprefix("##")) == 1 and ord(token[-1]) < 0x250)])
write_tokens("wordpiece.txt", BertWordPieceTokenizer(str(folder / "vocab.txt")))
write_tokens("cased.txt", BertWordPieceTokenizer(str(folder / "vocab.txt"), lowercase=False))

bpe = ByteLevelBPETokenizer()
bpe.train_from_iterator(verses[::50], vocab_size=1000, show_progress=False)
bpe.save_model(str(folder))
write_tokens("bpe.txt", ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt")))
