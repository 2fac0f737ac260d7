"""Runs the commands that the documents show, and looks for the output that they show.

    ```console
    $ dtc ops tanh                 run by the shell in a folder that holds a copy of examples/; `$ COMMAND # fails` must fail
    tanh(x: float)                 … stands in what it prints, and the next line right behind it;
    …                              … anything may come here; within a line … stands for any characters
        gradient  x: g * (…)
    ```

A block ```dt program NAME.dt is written there as NAME.dt first, for the commands of that document; what `$ export …` sets, all later ones have.

Commands that take long, install something, need other machines or change the sources stand in a block ```sh. They are not run here; but they must be
shell, and the scripts, commands and options in them must be there. A block without a language holds no commands.
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

DOCUMENTS = ("README.md", *(str(path.relative_to(SOURCE)) for path in sorted(SOURCE.glob("docs/*.md"))), "examples/README.md", "tests/golden/README.md")
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


# ---- commands that are not run ----

def says(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIME_LIMIT_S)
    return done.returncode, done.stdout


def stale(text):
    """What a block of commands says that is not so."""
    code, said = says("bash", "-n", "-c", text)
    found = [said] if code else []
    for path in re.findall(r"(?<![\w./-])(?:\./)?((?:bench|examples|scripts|tests)/[\w./-]+\.(?:sh|py|dt|txt))", text):
        found += [] if (SOURCE / path).exists() else [f"there is no {path}"]
    for tool, command, rest in re.findall(r"(?:^|[;&|] |do |build/|bin/|-n \d+ )(dtc|dtrun) ([a-z][a-z-]*)((?:\\\n|[^|;&#\n])*)", text, re.MULTILINE):
        code, said = says(tool, command, "--help")
        found += [said] if code else []
        found += [f"{tool} {command} has no {option}" for option in re.findall(r"(?<=\s)--[a-z-]+", rest) if option not in said]
    return "\n".join(found)


def is_command(line):
    return re.match(r"(\$ |\./|(scripts|bench|examples|build)/\S+ |(dtc|dtrun|mpirun|cmake|ctest|python3|cc|c\+\+|apt-get|export) )", line) is not None


def stale_blocks(text):
    for info, start, lines in blocks(text):
        if info == "sh" and (sentence := stale("\n".join(lines))):
            yield start, lines[0], sentence
        elif info == "" and lines and is_command(lines[0]):
            yield start, lines[0], "a block of commands is console (run), sh (not run) or text (what is printed)"


def self_check():
    assert not stale("dtrun train m.dtx --data … \\\n    --epochs 2 # --none\n./scripts/test.sh --full") and not stale("dtc ops tanh | grep --none")
    assert all(map(stale, ("for", "dtrun train m.dtx --none", "dtc none", "scripts/none.sh", "dtc compile examples/none.dt")))
    assert [start for start, *_ in stale_blocks("```\ndtc compile x\n```\n```\nno command\n```\n")] == [1]

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
        text = (SOURCE / name).read_text()
        for line, command, sentence in [*check_document(text), *stale_blocks(text)]:
            n += 1
            if sentence:
                failed = True
                print(f"{name}:{line}: $ {command}\n{sentence}")
    print(f"{n} commands in {len(DOCUMENTS)} documents")
    return failed


sys.exit(main())
