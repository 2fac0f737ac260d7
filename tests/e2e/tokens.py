"""wordpiece and bpe give the tokens that PyPI's `tokenizers` gives (tests/golden/tokens.py): verses, accents, CJK, emoji, control characters, over-long words."""
import os
import pathlib
import subprocess
import sys

GOLDEN = pathlib.Path(os.environ["DT_SOURCE"]) / "tests/golden/tokens"
TOKENIZE = pathlib.Path(os.environ["DT_TOOLS"]) / "tokenize"
LENGTH = "48"


def rows(text):
    return text.split("\n")[:-1]


def tokenize(*arguments):
    with open(GOLDEN / "lines.txt", "rb") as file:
        return rows(subprocess.run([TOKENIZE, *arguments], stdin=file, capture_output=True, check=True, encoding="utf-8", timeout=60).stdout)


failed = False
lines = rows((GOLDEN / "lines.txt").read_bytes().decode())
for name, arguments in (("wordpiece", ("wordpiece", GOLDEN / "vocab.txt", LENGTH)), ("cased", ("wordpiece", GOLDEN / "vocab.txt", LENGTH, "0")),
                        ("bpe", ("bpe", GOLDEN / "vocab.json", GOLDEN / "merges.txt", LENGTH))):
    wanted, got = rows((GOLDEN / f"{name}.txt").read_text()), tokenize(*arguments)
    assert len(wanted) == len(lines) == len(got) >= 400, (name, len(wanted), len(got))
    for line, a, b in zip(lines, wanted, got):
        if a != b:
            print(f"{name}: {line!r}\n  wanted {a}\n  got    {b}")
            failed = True
    assert len(set(wanted)) > 350, f"{name}: the lines are all alike"
sys.exit(failed)
