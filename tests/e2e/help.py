"""--help fits a terminal of 80 columns; an option that is not there is told with what was meant, and where they are listed."""
import re
import subprocess


def run(*arguments, code):
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (arguments, done)
    return done.stdout if code == 0 else done.stderr


def main():
    for program in "dtc", "dtrun":
        commands = re.findall(r"^  ([a-z][a-z-]*)  ", run(program, "--help", code=0), re.MULTILINE)
        assert len(commands) > 7, commands
        for command in commands:
            text = run(program, command, "--help", code=0)
            assert "--help" in text and max(map(len, text.splitlines())) <= 80, [line for line in text.splitlines() if len(line) > 80]
            told = run(program, command, "--no-such-thing", code=2)
            assert told == f"{program} {command}: there is no option --no-such-thing: `{program} {command} --help` lists them\n", told

    told = run("dtrun", "train", "--replicass=2", "m.dtx", code=2)
    assert told == "dtrun train: there is no option --replicass; did you mean --replicas? `dtrun train --help` lists them\n", told
    told = run("dtc", "compile", "m.dt", "--emti=ir", code=2)
    assert "--emti; did you mean --emit?" in told, told
    assert "cannot open" in run("dtc", "compile", "/none.dt", "-o", "--emti", code=1)  # the value of -o
    assert "cannot open" in run("dtc", "compile", "/none.dt", "--output", "--emti", code=1)
    assert "cannot open" in run("dtc", "compile", "--outp=x", "/none.dt", code=1)  # begun
    assert "cannot open" in run("dtc", "compile", "/none.dt", code=1)
    assert "one program at a time" in run("dtc", "compile", "/none.dt", "--", "--emti", code=2)


if __name__ == "__main__":
    main()
