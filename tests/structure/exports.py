"""What libdtc and libdtrt show, shared and static, is what include/dtc.h and include/dtrt.h declare, and nothing else. So it is in debian/*.symbols, and the
version of Debian's packages is that of the project.

Before the real comparison a name too many and one too few must be found.
"""
import os
import pathlib
import re
import subprocess
import sys

SOURCE, BUILD = (pathlib.Path(os.environ[name]) for name in ("DT_SOURCE", "DT_BUILD"))
HEADERS = {name: SOURCE / f"include/{name}.h" for name in ("dtc", "dtrt")}


def declared(text):
    """The functions that a header marks with DT_API."""
    text = re.sub(r"/\*.*?\*/|^#.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"\bDT_API\s[^;(]*?\b(\w+)\(", text))


def defined(library, *options):
    """The global names that a library defines."""
    lines = subprocess.run(["nm", "--defined-only", "--extern-only", *options, library], check=True, capture_output=True, text=True).stdout.splitlines()
    return {line.split()[2] for line in lines if len(line.split()) == 3 and line.split()[1] != "A"}


def differences(name, wanted, found):
    return [f"{name}: {what} {', '.join(sorted(names))}" for what, names in (("lacks", wanted - found), ("shows", found - wanted)) if names]


assert declared("DT_API int *a(int b); /* DT_API c(); */\nDT_API void\nd(void);\n#define DT_API e()\n") == {"a", "d"}
assert differences("x", {"a", "b"}, {"b", "c"}) == ["x: lacks a", "x: shows c"]

found = []
for name, header in HEADERS.items():
    wanted = declared(header.read_text())
    assert len(wanted) > 10
    found += differences(f"lib{name}.so", wanted, defined(BUILD / f"lib{name}.so", "--dynamic"))
    found += differences(f"lib{name}.a", wanted, defined(BUILD / f"lib{name}.a"))
    symbols = f"debian/lib{name}0.symbols"
    found += differences(symbols, wanted, set(re.findall(r"^ (\w+)@Base", (SOURCE / symbols).read_text(), re.MULTILINE)))
version = re.search(r'DT_VERSION "(.*)"', (SOURCE / "abi/version.h").read_text())[1]
if not (SOURCE / "debian/changelog").read_text().startswith(f"dt ({version}) "):
    found.append(f"debian/changelog does not begin with version {version}")
print("\n".join(found) or "what is declared is what is shown")
sys.exit(1 if found else 0)
