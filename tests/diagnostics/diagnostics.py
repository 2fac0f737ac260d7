"""Deliberate mistakes: each NAME.dt here, and each modules/use_NAME.dt, must be refused with exactly the text of NAME.txt, which names place, cause
and cure.

    diagnostics.py             a line `# flags: a=1` in a program gives it -D a=1
    diagnostics.py --update    writes the .txt files anew: read what changed before keeping it
"""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def refused(program):
    text = program.read_text()
    flags = [line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("# flags:")]
    command = [pathlib.Path(os.environ["DT_TOOLS"]) / "dsl", program.name, *(flag for line in flags for flag in line)]
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1, f"{program.name}: exit status {done.returncode}, a mistake gives 1\n{done.stdout}{done.stderr}"
    return done.stderr


def main():
    programs = sorted(HERE.glob("*.dt")) + sorted(HERE.glob("modules/use_*.dt"))
    n_wrong = 0
    for program in programs:
        golden = program.with_suffix(".txt")
        got = refused(program)
        if "--update" in sys.argv:
            golden.write_text(got)
        elif not golden.exists() or golden.read_text() != got:
            n_wrong += 1
            print(f"--- {program.name}: wanted\n{golden.read_text() if golden.exists() else 'nothing yet'}\n--- got\n{got}")
    for golden in HERE.rglob("*.txt"):
        assert golden.with_suffix(".dt").exists(), f"{golden.name} has no program"
    assert len(programs) >= 25
    print(f"diagnostics: {len(programs)} programs, {n_wrong} not as expected")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
