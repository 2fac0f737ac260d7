"""The reference in docs/c-api.md says what the headers say."""
import os
import pathlib
import sys

SOURCE = pathlib.Path(os.environ["DT_SOURCE"])
sys.path.insert(0, str(SOURCE / "scripts"))
import c_api_reference  # noqa: E402

text = c_api_reference.PAGE.read_text()
assert c_api_reference.page(text + "x") == c_api_reference.page(text) != text + "x"  # what is written by hand is noticed
assert "dtrt_step(" in c_api_reference.reference()
if c_api_reference.page(text) != text:
    sys.exit("docs/c-api.md is not what the headers say: python3 scripts/c_api_reference.py")
print("docs/c-api.md is up to date")
