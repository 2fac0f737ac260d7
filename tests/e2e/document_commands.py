"""Runs the commands that the documents show, and looks for the output that they show.

    ```console
    $ dtc ops tanh                 run by the shell in a folder that holds a copy of examples/; `$ COMMAND # fails` must fail
    tanh(x: float)                 … stands in what it prints, and the next line right behind it;
    …                              … anything may come here; within a line … stands for any characters
        gradient  x: g * (…)
    ```

A block ```dt program NAME.dt is written there as NAME.dt first, for the commands of that document; what `$ export …` sets, all later ones have.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/support"))
import mpi  # noqa: E402

DOCUMENTS = ("README.md", "docs/tutorial.md", "docs/design.md", "docs/hacking.md", "docs/language.md", "docs/distributed.md", "docs/weights.md", "docs/watching.md")
TIME_LIMIT_S = 300

# What mpirun starts stays on this machine, whatever networks it has. The rest of what it needs, the documents say.
ENVIRONMENT = mpi.environment_of("openmpi", DT_MPI_PLUGIN=None, OMPI_ALLOW_RUN_AS_ROOT=None, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=None, OMPI_MCA_pml="ob1",
                                 OMPI_MCA_btl="self,vader", OMPI_MCA_oob_tcp_if_include="lo")


def blocks(text):
    """(info, line number, lines) of each fenced block."""
    found, start, info = [], None, ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start, info = number + 1, line[3:].strip()
        else:
            found.append((info, start, lines[start:number]))
            start = None
    return found


def commands(block):
    """[(command, [runs of lines that belong together])] of a console block."""
    found = []
    for line in block:
        if line.startswith("$ "):
            found.append((line[2:], [[]]))
        elif line.strip() == "…":
            found[-1][1].append([])
        else:
            found[-1][1][-1].append(line)
    return found


def fits(expected, line):
    return re.fullmatch(".*".join(map(re.escape, expected.rstrip().split("…"))), line.rstrip()) is not None


def missing(runs, printed):
    """The first run of lines that does not stand in what was printed, behind those before it; None when all do."""
    at = 0
    for run in filter(None, runs):
        for start in range(at, len(printed) - len(run) + 1):
            if all(fits(expected, line) for expected, line in zip(run, printed[start:])):
                at = start + len(run)
                break
        else:
            return run
    return None


def complaint(command, runs, exports, folder):
    must_fail = command.endswith("# fails")
    done = subprocess.run(["bash", "-o", "pipefail", "-c", exports + command], cwd=folder, env=ENVIRONMENT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIME_LIMIT_S)
    printed = done.stdout.decode(errors="replace")
    if (done.returncode != 0) != must_fail:
        return f"exit status {done.returncode}:\n{printed}"
    run = missing(runs, printed.splitlines())
    return run and "these lines are not printed:\n" + "\n".join(run) + "\nbut:\n" + printed


def check_document(text):
    found, exports = [], ""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCE / "examples", pathlib.Path(folder, "examples"))
        for info, start, lines in blocks(text):
            if match := re.fullmatch(r"dt program (\w+\.dt)", info):
                pathlib.Path(folder, match[1]).write_text("\n".join(lines) + "\n")
            for command, runs in commands(lines) if info == "console" else ():
                if command.startswith("export "):
                    exports += f"{command}; "
                else:
                    found.append((start, command, complaint(command, runs, exports, folder)))
    return found


def self_check():
    def wrong(block):
        return [sentence for _, _, sentence in check_document(f"```console\n{block}\n```\n") if sentence]

    assert not wrong("$ echo a; echo b; echo c\na\n…\nc")
    assert not wrong("$ echo 'one two three'\none … three\n$ false # fails")
    assert wrong("$ echo a; echo b; echo c\na\nc")
    assert wrong("$ echo a; echo b\nb\n…\na")
    assert wrong("$ false") and wrong("$ true # fails")
    assert not wrong("$ export ONE=1\n$ test \"$ONE\" = 2   # fails\n$ test \"$ONE\" = 1")
    [(_, _, sentence)] = check_document("```dt program t.dt\nx\n```\n```console\n$ cat t.dt\nx\n```\n")
    assert not sentence


def main():
    self_check()
    failed, n = False, 0
    for name in DOCUMENTS:
        for line, command, sentence in check_document((SOURCE / name).read_text()):
            n += 1
            if sentence:
                failed = True
                print(f"{name}:{line}: $ {command}\n{sentence}")
    print(f"{n} commands in {', '.join(DOCUMENTS)}")
    return failed


sys.exit(main())
