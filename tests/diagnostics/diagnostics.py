"""Deliberate mistakes: each NAME.dt here, and each modules/use_NAME.dt, must be refused with exactly the text of NAME.txt, which names place, cause
and cure. Each warnings/NAME.dt is taken, with exactly these warnings; where every line allows its own, nothing is said of it. Each warning of the front
end has such a program.

    diagnostics.py             a line `# flags: a=1` in a program gives it -D a=1
    diagnostics.py --update    writes the .txt files anew: read what changed before keeping it
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]


def told(program, text, wanted):
    """What the front end says of a text; exit status `wanted`."""
    flags = [line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("# flags:")]
    command = [pathlib.Path(os.environ["DT_TOOLS"]) / "dsl", program.name, *(flag for line in flags for flag in line)]
    with tempfile.TemporaryDirectory() as folder:
        at = program.parent
        if text != program.read_text():
            at = pathlib.Path(folder)
            (at / program.name).write_text(text)
        done = subprocess.run(command, cwd=at, capture_output=True, text=True, timeout=60)
    assert done.returncode == wanted, f"{program.name}: exit status {done.returncode}, not {wanted}\n{done.stdout}{done.stderr}"
    return done.stderr


def silenced(text, warnings):
    """The program, in which each line with a warning allows it."""
    lines = text.splitlines()
    for line, name in sorted(set(re.findall(r"^[^:\n]+:(\d+):\d+: warning: .* \[([\w-]+)\]$", warnings, re.M))):
        before = lines[int(line) - 1]
        lines[int(line) - 1] = f"{before}, {name}" if "# allow:" in before else f"{before} # allow: {name}"
    return "\n".join(lines) + "\n"


def warnings_of_the_front_end():
    rows = re.findall(r'^WARNING\(\w+, "([\w-]+)", (\w+),', (SOURCE / "ir/warnings.def").read_text(), re.M)
    assert len(rows) > 5
    return {name for name, who in rows if who == "PROGRAM"}


def main():
    programs = sorted(HERE.glob("*.dt")) + sorted(HERE.glob("modules/use_*.dt"))
    warned = sorted(HERE.glob("warnings/*.dt"))
    n_wrong, seen = 0, {"namesake"}  # tests/e2e/modules.py
    for program in programs + warned:
        golden, text = program.with_suffix(".txt"), program.read_text()
        got = told(program, text, wanted=0 if program in warned else 1)
        if program in warned:
            seen |= set(re.findall(r"\[([\w-]+)\]$", got, re.M))
            quiet = told(program, silenced(text, got), wanted=0)
            if "allow" not in program.stem and quiet:
                n_wrong += 1
                print(f"--- {program.name}: not silenced by # allow:\n{quiet}")
        if "--update" in sys.argv:
            golden.write_text(got)
        elif not golden.exists() or golden.read_text() != got:
            n_wrong += 1
            print(f"--- {program.name}: wanted\n{golden.read_text() if golden.exists() else 'nothing yet'}\n--- got\n{got}")
    for golden in HERE.rglob("*.txt"):
        assert golden.with_suffix(".dt").exists(), f"{golden.name} has no program"
    assert len(programs) >= 25
    assert seen == warnings_of_the_front_end(), seen ^ warnings_of_the_front_end()
    print(f"diagnostics: {len(programs + warned)} programs, {n_wrong} not as expected")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
