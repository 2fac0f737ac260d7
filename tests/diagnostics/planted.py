"""Mistakes planted into programs that have none: each is told once, in its line, and nothing follows from it. One alone, then five at once.

    planted.py [SEED [N]]      other mistakes, and how many programs with one and with five; a failure prints the seed, and the program stays there

A mistake is a word misspelt, a name of an argument misspelt, a character that means nothing, or a bracket left open; in a statement of a body, or in
a value of the top level, each in a statement of its own.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKEN = re.compile(r'#[^\n]*|"(?:\\.|[^"\\\n])*"|[A-Za-z_]\w*|\d[\d_]*(?:\.\d+)?(?:e[+-]?\d+)?|:=|=>|->|\.\.\.|\.\.|[^\s\w]')
WORDS = set("fn if else for in return and or not true false none as param state report update training trainable".split())


def statements(text):
    """(first, last) of each statement of one line, as offsets into the text: what stands in a body, ends in its line, and opens no block."""
    offset, depth = 0, 0
    for line in text.splitlines(keepends=True):
        code = line.split("#")[0].rstrip()
        whole = code.count("(") == code.count(")") and code.count("[") == code.count("]") and "{" not in code and "}" not in code
        begins = re.match(r"\s+(return\s|report\s|[\w, ]+:?=[^=]|\w+\()", code)
        if depth == 0 and whole and begins and not code.endswith((",", "|")) and not re.match(r"\s+\w+:", code):
            yield offset, offset + len(code)
        depth += code.count("(") + code.count("[") - code.count(")") - code.count("]")
        offset += len(line)


def places(text, first, last):
    """Where a mistake may be planted in a statement: (kind, offset, length)."""
    tokens = [m for m in TOKEN.finditer(text, first, last) if not m.group().startswith("#")]
    tokens = tokens[:next((i for i, m in enumerate(tokens) if m.group() == "fn"), len(tokens))]  # what a lambda does is seen when it is called
    at_value = next((i + 1 for i, m in enumerate(tokens) if m.group() in ("=", ":=")), 1)
    for i, token in list(enumerate(tokens))[at_value:]:
        word, before = token.group(), tokens[i - 1].group()
        after = tokens[i + 1].group() if i + 1 < len(tokens) else ""
        if re.match(r"[A-Za-z_]", word) and word not in WORDS and before not in (".", "as", "fn", "report", "ops"):
            choice = before == ":" and re.match(r"(relu|gelu|same|valid|causal)$", word)
            if after == ":" and before in ("(", ",") and tokens[0].group() not in ("return", "report"):
                yield "argument", token.start(), len(word)
            elif after not in (":", ".", "=") and not choice and after != "=>":
                yield "word", token.start(), len(word)
        if word in "+*":
            yield "character", token.start(), 0
        if word == ")" and i + 1 == len(tokens):
            yield "bracket", token.start(), 1


def owner(text, offset):
    """The function, layer or model that a place is in; "" at the top level."""
    heads = re.findall(r"^(?:(?:fn|layer|model|step) (\w+)|\w)", text[:offset], re.M)
    return heads[-1] if heads else ""


def hides(text, chosen):
    """Whether a mistake stands in a call of what holds another: that call is not made, so nobody gets to see the other."""
    for _, offset, _ in chosen:
        words = re.findall(r"\w+", text[text.rindex("\n", 0, offset) + 1:text.index("\n", offset)])
        if any(owner(text, other) in words for _, other, _ in chosen if other != offset):
            return True
    return False


def plant(text, chosen):
    for kind, offset, length in sorted(chosen, key=lambda place: -place[1]):
        wrong = {"word": "zzq" + str(offset), "argument": "zzq" + str(offset), "character": "$", "bracket": ""}[kind]
        text = text[:offset] + wrong + text[offset + length:]
    return text


def told(path):
    done = subprocess.run([pathlib.Path(os.environ["DT_TOOLS"]) / "dsl", path], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, f"{path}: exit status {done.returncode}\n{done.stderr}"
    return sorted(int(line) for line in re.findall(rf"^{re.escape(str(path))}:(\d+):\d+: error:", done.stderr, re.M)), done.stderr


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    draw = random.Random(seed)
    programs = sorted((ROOT / "examples").glob("*.dt"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="planted-"))
    n_wrong = 0
    for n_mistakes in (1, 5):
        for k in range(n):
            program = draw.choice(programs)
            text = program.read_text()
            options = [list(places(text, *s)) for s in statements(text)]
            while True:
                chosen = [draw.choice(o) for o in draw.sample([o for o in options if o], n_mistakes)]
                if not hides(text, chosen):
                    break
            path = folder / f"{program.stem}_{n_mistakes}_{k}.dt"
            path.write_text(plant(text, chosen))
            wanted = sorted(text.count("\n", 0, offset) + 1 for _, offset, _ in chosen)
            got, message = told(path)
            if got == wanted:
                path.unlink()
                continue
            n_wrong += 1
            print(f"--- seed {seed}: planted into {program.name} in lines {wanted}, told of {got}:\n{message}")
    if n_wrong == 0:
        folder.rmdir()
    print(f"planted: {2 * n} programs, {n_wrong} not as expected (seed {seed})")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
