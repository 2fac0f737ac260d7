"""warnings_reference: writes the table of warnings in docs/language.md from ir/warnings.def.

    python3 scripts/warnings_reference.py            # after a change of a row

tests/structure/warnings_reference.py sees that the page is up to date."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/language.md"
BEGIN, END = "<!-- warnings -->\n", "<!-- end of warnings -->\n"


def rows():
    return re.findall(r'^WARNING\(\w+, "([\w-]+)", \w+, "(.*)"\)$', (ROOT / "ir/warnings.def").read_text(), re.MULTILINE)


def page(text):
    begin, rest = text.split(BEGIN)
    _, end = rest.split(END)
    return begin + BEGIN + "| warning | |\n|---|---|\n" + "".join(f"| `{name}` | {says} |\n" for name, says in rows()) + END + end


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
