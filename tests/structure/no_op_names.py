"""No op is known by name after the passes: not one row of ir/ops.def is named in compiler/kernel or compiler/codegen.

A name counts as a whole string literal ("conv2d") or as an enumerator (DT_OP_CONV2D). Comments may name ops.
With --self-check only, or before every real run: a violation of each kind is looked for in text that holds it.
"""
import pathlib
import re
import sys

FOLDERS = ("compiler/kernel", "compiler/codegen")
ROW = re.compile(r"^OP\((\w+),", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
ENUMERATOR = re.compile(r"\bDT_OP_([A-Z0-9_]+)\b")


def without_comments(text):
    """The text with comments blanked out, lines kept; a comment sign within a string is no comment."""
    pieces = re.compile(LITERAL.pattern + "|(" + COMMENT.pattern + ")", re.DOTALL)
    return pieces.sub(lambda m: m.group(0) if m.group(2) is None else re.sub(r"[^\n]", " ", m.group(0)), text)


def named_ops(text, ops):
    """(line, what) for each op that the text names."""
    text = without_comments(text)
    found = [(m.start(), m.group(0)) for m in LITERAL.finditer(text) if m.group(1) in ops]
    found += [(m.start(), m.group(0)) for m in ENUMERATOR.finditer(text) if m.group(1).lower() in ops]
    return [(text.count("\n", 0, at) + 1, what) for at, what in sorted(found)]


def self_check():
    ops = {"conv2d", "add"}
    assert named_ops('x;\nif (strcmp(name, "conv2d") == 0)', ops) == [(2, '"conv2d"')]
    assert named_ops("case DT_OP_ADD:", ops) == [(1, "DT_OP_ADD")]
    assert named_ops('/* "add", DT_OP_ADD */ "addend" DT_ADD // "conv2d"', ops) == []
    assert named_ops('"/*" "add"', ops) == [(1, '"add"')]


def main():
    self_check()
    if "--self-check" in sys.argv:
        return 0
    root = pathlib.Path(__file__).resolve().parents[2]
    ops = set(ROW.findall((root / "ir/ops.def").read_text()))
    assert len(ops) > 50, "the rows of ir/ops.def were not found"
    problems = []
    for folder in FOLDERS:
        for path in sorted(path for ending in ("*.[ch]", "*.cu") for path in (root / folder).rglob(ending)):
            problems += [f"{path.relative_to(root)}:{line}: names the op {what}" for line, what in named_ops(path.read_text(), ops)]
    print("\n".join(problems) if problems else f"{len(ops)} ops, none named in {' and '.join(FOLDERS)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
