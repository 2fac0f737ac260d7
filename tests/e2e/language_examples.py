"""Compiles the programs that docs/language.md and README.md show, so that they cannot become untrue.

    ```dt program       a whole program: must compile, without a word on standard error; it may have a name, `dt program line.dt`
    ```dt error         a whole program that must be refused; the block right after it, without a language, is what dtc prints for it
    ```dt warning       a whole program that must compile, with warnings: the block right after it, likewise
    ```dt library nn    the heads of that module, as they are there: all that is not private
    ```dt               a piece of a program: not compiled

Functions built in and elementwise ops must all be named in docs/language.md. `--update` writes into the documents what dtc prints now for the
programs that it refuses; read the difference before you commit it.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("docs/language.md", "docs/tutorial.md", "docs/from-keras.md", "docs/from-pytorch.md", "docs/design.md", "docs/hacking.md", "README.md")
KINDS = re.compile(r"dt( program( \w+\.dt)?| error| warning| library \w+)?$")
WHOLE = ("dt program", "dt error", "dt warning")
LIBRARY = SOURCE / "frontends/dsl/std"
PROGRAM_NAME = "example.dt"  # what messages call the program


def blocks(lines):
    """(info, number of the line after the opening fence, number of the closing fence) of each fenced block."""
    found, start, info = [], None, ""
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start, info = number + 1, line[3:].strip()
        else:
            found.append((info, start, number))
            start = None
    assert start is None, f"the fence opened in line {start} is never closed"
    return found


def front_end(program):
    """Exit status and standard error of dtc for the program's text."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, PROGRAM_NAME).write_text(program)
        done = subprocess.run(["dtc", "compile", "--emit=ir", PROGRAM_NAME], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, text=True)
    return done.returncode, done.stderr


def message_block(lines, all_blocks, i):
    """The block of the message that belongs to block i, which it must follow with nothing but blank lines between; None when it is not there."""
    after = all_blocks[i][2] + 1
    if i + 1 == len(all_blocks):
        return None
    info, start, _ = all_blocks[i + 1]
    between = "".join(lines[after:start - 1]).strip()
    return all_blocks[i + 1] if info == "" and between == "" else None


def heads(text):
    """The heads of functions, layers and optimizers in a library text or a list of heads: {name: head with single blanks}."""
    text = re.sub(r"#.*", "", text)
    found = {}
    for match in re.finditer(r"^(?:fn|layer|optimizer) (\w+)\(", text, re.MULTILINE):
        end, depth = match.end(), 1
        while depth > 0:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found[match[1]] = " ".join(text[match.start():end].split())
    return found


def library_complaints(module, block):
    path = LIBRARY / f"{module}.dt"
    if not path.exists():
        return [f"the library has no module {module}"]
    text = path.read_text()
    there, shown = heads(text), heads(block)
    wrong = [f"{head}\nis in the library: {there.get(name)}" for name, head in shown.items() if there.get(name) != head]
    return wrong + [f"{module}.{name} is not shown" for name in there if name not in shown]


def unnamed(text):
    """Functions built in, sources and stages of data, and elementwise ops that a text names nowhere."""
    sources = "".join(path.read_text() for path in sorted((SOURCE / "frontends/dsl").glob("builtins*.c")))
    data = (SOURCE / "abi/pipeline.h").read_text()
    names = re.findall(r'^    \{"(\w+)", ', sources, re.MULTILINE) + re.findall(r"^    X\((\w+), (?:INT_MAX|\d+)\)", data, re.MULTILINE)
    names += re.findall(r'^    X\(\w+, "(\w+)"\)', data, re.MULTILINE) + re.findall(r"^OP\((\w+), MAP,", (SOURCE / "ir/ops.def").read_text(), re.MULTILINE)
    assert len(names) > 50, "the tables of names have moved"
    return [name for name in names if not re.search(rf"`{name}\b", text)]


def check_document(text):
    """Complaints about a document, as (line, sentence), and its text with the messages of today."""
    lines = text.splitlines()
    all_blocks, complaints, replaced = blocks(lines), [], []
    for i, (info, start, end) in enumerate(all_blocks):
        if not (info == "dt" or info.startswith("dt ")):
            continue
        if not KINDS.match(info):
            complaints.append((start, f"there is no kind of block `{info}`"))
        if info.startswith("dt library "):
            complaints += [(start, sentence) for sentence in library_complaints(info.split()[-1], "\n".join(lines[start:end]) + "\n")]
        if not info.startswith(WHOLE):
            continue
        status, printed = front_end("\n".join(lines[start:end]) + "\n")
        if info.startswith("dt program"):
            if status != 0 or printed:
                complaints.append((start, f"should compile without a word, exit status {status}:\n{printed}"))
            continue
        wanted = 1 if info == "dt error" else 0
        if status != wanted or not printed:
            complaints.append((start, f"should end with exit status {wanted} and a message, not {status}:\n{printed}"))
        message = message_block(lines, all_blocks, i)
        expected = "\n".join(lines[message[1]:message[2]]) + "\n" if message else ""
        if expected != printed:
            complaints.append((start, f"dtc says:\n{printed}the document says:\n{expected}"))
        replaced.append((message[1], message[2], printed.splitlines()) if message else (end + 1, end + 1, ["", "```", *printed.splitlines(), "```"]))
    for start, end, new in reversed(replaced):
        lines[start:end] = new
    return complaints, "\n".join(lines) + "\n"


def self_check():
    good = "```dt program\nstep s(x: f32[B]) {\n    return y: x + x\n}\n```\n"
    wrong = good.replace("x + x", "x + z")
    assert not check_document(good)[0]
    assert check_document(wrong)[0]
    assert check_document(good.replace("dt program", "dt error"))[0]
    assert check_document(good.replace("dt program", "dt warning"))[0]
    assert check_document(good.replace("dt program", "dt programme"))[0]
    assert check_document("```dt library losses\nfn huber(target, predicted)\n```\n")[0]
    assert unnamed("")
    complaints, put_right = check_document(wrong.replace("dt program", "dt error"))
    assert complaints and "unknown name z" in put_right
    assert not check_document(put_right)[0]


def main():
    self_check()
    failed, n = False, 0
    for name in DOCUMENTS:
        path = SOURCE / name
        text = path.read_text()
        complaints, new_text = check_document(text)
        n += sum(info.startswith(WHOLE) for info, _, _ in blocks(text.splitlines()))
        if "--update" in sys.argv[1:] and new_text != text:
            path.write_text(new_text)
            print(f"{name}: rewritten")
        for line, sentence in complaints:
            failed = True
            print(f"{name}:{line}: {sentence}")
    for name in unnamed((SOURCE / "docs/language.md").read_text()):
        failed = True
        print(f"docs/language.md: `{name}` is named nowhere")
    print(f"{n} programs in {', '.join(DOCUMENTS)}")
    return failed


sys.exit(main())
