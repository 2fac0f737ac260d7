"""The messages that docs/distributed.md explains are those that the runtime prints."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def literals(text):
    """The strings of a C file, those that follow each other joined."""
    joined = re.sub(r'"\s*(?:PRId64\s*)?"', "", text)
    return re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)


def explained(document):
    """The messages in the first column of the table under Messages, … in the place of what differs."""
    section = document.split("\n## Messages\n")[1]
    return re.findall(r"^\| `(.*?)` \|", section, re.MULTILINE)


def is_printed(message, strings):
    """In one string: where the document says … the string has a conversion, or any text."""
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in message.split("…")))
    return any(pattern.search(one) for one in strings)


strings = [one for path in sorted((SOURCE / "runtime").rglob("*.c")) for one in literals(path.read_text())]
messages = explained((SOURCE / "docs/distributed.md").read_text())
assert len(messages) >= 10, messages
assert is_printed("cannot … end", ['it cannot %s end']) and not is_printed("cannot end", ["cannot %s end"])
missing = [message for message in messages if not is_printed(message, strings)]
print("\n".join(f"docs/distributed.md explains a message that nothing prints: {message}" for message in missing))
sys.exit(1 if missing else 0)
