"""The table of messages in docs/distributed.md is that of runtime/ps/messages.def: scripts/messages_reference.py writes it."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import messages_reference  # noqa: E402

text = messages_reference.PAGE.read_text()
begin = text.index(messages_reference.BEGIN) + len(messages_reference.BEGIN)
assert messages_reference.page(text[:begin] + "x" + text[begin:]) == messages_reference.page(text)  # what is written by hand is noticed
assert messages_reference.rows()[0][0] == "hello" and "`lowest_version` 2" in messages_reference.rows()[0][2]
if messages_reference.page(text) != text:
    sys.exit("docs/distributed.md is not what runtime/ps/messages.def says: python3 scripts/messages_reference.py")
