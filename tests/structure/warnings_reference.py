"""The table of warnings in docs/language.md is that of ir/warnings.def: scripts/warnings_reference.py writes it. Names are words with dashes, each once."""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import warnings_reference  # noqa: E402

text = warnings_reference.PAGE.read_text()
begin = text.index(warnings_reference.BEGIN) + len(warnings_reference.BEGIN)
assert warnings_reference.page(text[:begin] + "x" + text[begin:]) == warnings_reference.page(text)  # what is written by hand is noticed
names = [name for name, _ in warnings_reference.rows()]
definitions = (warnings_reference.ROOT / "ir/warnings.def").read_text()
assert len(names) == len(re.findall(r"^WARNING\(", definitions, re.MULTILINE)) == len(set(names)) > 5
assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names), names
if warnings_reference.page(text) != text:
    sys.exit("docs/language.md is not what ir/warnings.def says: python3 scripts/warnings_reference.py")
