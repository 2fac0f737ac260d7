"""lit: text in, text out. Runs the `# RUN:` lines of every file below this folder and looks for its `# WANT:` lines in what they print.

    # RUN: dtc opt --pass simplify %s        a shell command that must succeed; %s is this file, %S its folder, %t a scratch path of its own
    # RUN: not dtc compile %s 2>&1           … that must fail (but not by a signal)
    # WANT: %0 = exp(x)                      stands in the output, after what the WANT above it found; runs of blanks count as one
    # WANT-NEXT: %1 = …                      … on the very next line
    # WANT: %{{[0-9]+}} = …                  {{ }} holds a regular expression
    # WANT-NOT: all_reduce                   stands nowhere in the output

With arguments only the files whose path contains one of them. The runner first checks itself on planted files, so that it cannot pass everything.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DIRECTIVE = re.compile(r"^\s*(?:#|//)\s*(RUN|WANT|WANT-NEXT|WANT-NOT):\s*(.*?)\s*$")
TIME_LIMIT_S = 60


def directives(text):
    return [match.groups() for match in map(DIRECTIVE.match, text.splitlines()) if match]


def one_blank(line):
    return " ".join(line.split())


def run(path, commands, scratch):
    """What the commands print; raises AssertionError when one ends otherwise than it should."""
    output = ""
    for command in commands:
        must_fail = command.startswith("not ")
        line = command[4:] if must_fail else command
        for mark, value in (("%s", path), ("%S", path.parent), ("%t", scratch / "t")):
            line = line.replace(mark, str(value))
        try:
            done = subprocess.run(["bash", "-o", "pipefail", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {TIME_LIMIT_S} s: {line}")
        output += done.stdout.decode(errors="replace")
        crashed = done.returncode < 0 or done.returncode > 125
        assert not crashed and (done.returncode != 0) == must_fail, (
            f"exit status {done.returncode}: {line}\n{done.stdout.decode(errors='replace')}{done.stderr.decode(errors='replace')}")
    return output


def stands_in(text, line):
    """Does `line` hold `text`, in which {{…}} is a regular expression?"""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return re.search("".join(part if i % 2 else re.escape(part) for i, part in enumerate(parts)), line) is not None


def check(wants, output):
    lines = [one_blank(line) for line in output.splitlines()]
    at = 0
    for kind, text in wants:
        text = one_blank(text)
        if kind == "WANT-NOT":
            assert not any(stands_in(text, line) for line in lines), f"unwanted: {text}\n--- output\n{output}"
            continue
        end = min(at + 1, len(lines)) if kind == "WANT-NEXT" else len(lines)
        found = next((i for i in range(at, end) if stands_in(text, lines[i])), None)
        assert found is not None, f"not found from line {at + 1} of the output on: {text}\n--- output\n{output}"
        at = found + 1


def complaint(path):
    """None when the file holds, or what does not."""
    found = directives(path.read_text())
    commands = [text for kind, text in found if kind == "RUN"]
    wants = [(kind, text) for kind, text in found if kind != "RUN"]
    try:
        assert commands and wants, "a test needs at least one RUN and one WANT line"
        with tempfile.TemporaryDirectory() as scratch:
            check(wants, run(path, commands, pathlib.Path(scratch)))
    except AssertionError as error:
        return str(error)
    return None


PLANTED = (  # (must it hold, text)
    (True, "# RUN: echo a  b && echo c\n# WANT: a b\n# WANT-NEXT: c\n# WANT-NOT: d\n"),
    (True, "# RUN: echo 'a(17) b'\n# WANT: a({{[0-9]+}}) b\n"),
    (False, "# RUN: echo 'a(x) b'\n# WANT: a({{[0-9]+}}) b\n"),
    (True, "# RUN: not false\n# RUN: cat %s\n# WANT: cat %s\n"),
    (False, "# RUN: echo a; echo b\n# WANT: b\n# WANT: a\n"),
    (False, "# RUN: echo a; echo b; echo c\n# WANT: a\n# WANT-NEXT: c\n"),
    (False, "# RUN: echo a\n# WANT: a\n# WANT-NOT: a\n"),
    (False, "# RUN: echo a; false\n# WANT: a\n"),
    (False, "# RUN: not true\n# RUN: echo a\n# WANT: a\n"),
    (False, "# RUN: not kill -SEGV $$\n# RUN: echo a\n# WANT: a\n"),
    (False, "# WANT: a\n"),
)


def self_check():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "planted"
        for holds, text in PLANTED:
            path.write_text(text)
            assert (complaint(path) is None) == holds, f"the runner is wrong about:\n{text}{complaint(path)}"


def main():
    self_check()
    here = pathlib.Path(__file__).resolve().parent
    paths = [path for path in sorted(here.rglob("*")) if path.is_file() and path.suffix not in (".py", ".pyc", ".md")]
    paths = [path for path in paths if path.suffix != ".golden"]
    if sys.argv[1:]:
        paths = [path for path in paths if any(part in str(path) for part in sys.argv[1:])]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = list(pool.map(complaint, paths))
    for path, text in zip(paths, complaints):
        if text is not None:
            print(f"FAILED {path.relative_to(here)}\n{text}\n")
    n_failed = sum(text is not None for text in complaints)
    print(f"lit: {len(paths)} files, {n_failed} failed")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
