"""messages_reference: writes the table of messages in docs/distributed.md from runtime/ps/messages.def.

    python3 scripts/messages_reference.py            # after a change of a row

tests/structure/messages_reference.py sees that the page is up to date."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/distributed.md"
BEGIN, END = "<!-- messages -->\n", "<!-- end of messages -->\n"
BYTES = {"U8": "1", "U16": "2", "U32": "4", "U64": "8", "F64": "8, a float"}


def constants():
    """The numbers that bounds are made of."""
    text = (ROOT / "runtime/ps/message.h").read_text()
    found = {name: int(value) for name, value in re.findall(r"\b(DT_PS_\w+) = (\d+)", text)}
    for body in re.findall(r"typedef enum \w+ \{(.*?)\}", text, re.DOTALL):  # enumerations count from 0
        found.update({name: i for i, name in enumerate(re.findall(r"^    (DT_PS_\w+)", body, re.MULTILINE))})
    return found | {f"UINT{bits}_MAX": 2 ** bits - 1 for bits in (8, 16, 32, 64)} | {f"INT{bits}_MAX": 2 ** (bits - 1) - 1 for bits in (32, 64)}


def field(kind, arguments, numbers):
    name, bound = arguments[0], arguments[1] if len(arguments) > 1 else None
    most = None if bound is None else eval(bound, {}, numbers)  # pylint: disable=eval-used
    if kind == "PAYLOAD":
        return f"a payload, a multiple of {eval(name, {}, numbers)} bytes"
    if kind in ("TEXT", "WORDS"):
        return f"`{name}` text, at most {most:,} bytes"
    if kind == "BYTES":
        return f"`{name}` {most}"
    if kind == "NUMBERS":
        return f"`{name}` numbers, at most {most:,}"
    widest = kind == "F64" or most == numbers[f"UINT{kind[1:]}_MAX"]
    return f"`{name}` {BYTES[kind]}" + ("" if widest else f", at most {most:,}")


def rows():
    """[(name, what it says, [fields])] in the order of their numbers."""
    text = (ROOT / "runtime/ps/messages.def").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    numbers, found = constants(), []
    for name, says, body in re.findall(r'^MESSAGE\((\w+), \w+,\s*"(.*?)"\)\n(.*?)^END\(\1\)', text, re.DOTALL | re.MULTILINE):
        fields = re.findall(r"^\s+([A-Z]+\d*)\((.*?)\)\s*$", body, re.MULTILINE)
        found.append((name, re.sub(r'"\s+"', "", says), [field(kind, [one.strip() for one in arguments.split(",")], numbers) for kind, arguments in fields]))
    return found


def page(text):
    begin, rest = text.split(BEGIN)
    _, end = rest.split(END)
    table = "| | message | fields: bytes | |\n|---|---|---|---|\n"
    table += "".join(f"| {i} | `{name}` | {'; '.join(fields)} | {says} |\n" for i, (name, says, fields) in enumerate(rows()))
    return begin + BEGIN + table + END + end


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
