"""Compiles the programs that docs/language.md and README.md show, so that they cannot become untrue.

    ```dt program     a whole program: must compile, without a word on standard error
    ```dt error       a whole program that must be refused; the block right after it, without a language, is what dtc prints for it
    ```dt             a piece of one: not compiled

`--update` writes into the documents what dtc prints now; read the difference before you commit it.
"""
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = ("docs/language.md", "README.md")
KINDS = ("dt program", "dt error", "dt")
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


def check_document(text, update=False):
    """Complaints about a document, as (line, sentence), and its text with the messages of today."""
    lines = text.splitlines()
    all_blocks, complaints, replaced = blocks(lines), [], []
    for i, (info, start, end) in enumerate(all_blocks):
        if not (info == "dt" or info.startswith("dt ")):
            continue
        if info not in KINDS:
            complaints.append((start, f"a block of kind `{info}`; there are: {', '.join(KINDS)}"))
        if info not in ("dt program", "dt error"):
            continue
        status, printed = front_end("\n".join(lines[start:end]) + "\n")
        if info == "dt program":
            if status != 0 or printed:
                complaints.append((start, f"should compile without a word, exit status {status}:\n{printed}"))
            continue
        if status != 1:
            complaints.append((start, f"should be refused with exit status 1, not {status}:\n{printed}"))
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
    assert check_document(good.replace("dt program", "dt programme"))[0]
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
        n += sum(info in ("dt program", "dt error") for info, _, _ in blocks(text.splitlines()))
        if "--update" in sys.argv[1:] and new_text != text:
            path.write_text(new_text)
            print(f"{name}: rewritten")
        for line, sentence in complaints:
            failed = True
            print(f"{name}:{line}: {sentence}")
    print(f"{n} programs in {', '.join(DOCUMENTS)}")
    return failed


sys.exit(main())
