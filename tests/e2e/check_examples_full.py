"""dtc check of every example: nothing is wrong, and it does not take long."""
import os
import pathlib
import resource
import subprocess
import sys

MOST_SECONDS = 10  # of one processor, which others may share


def check(program):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(["dtc", "check", program], capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    print(f"{program.name}: {seconds:.1f} s")
    if "Functions of text are not there yet" in done.stderr:
        return []
    mistakes = []
    if done.returncode != 0 or "not known" in done.stdout:
        mistakes.append(f"{program.name}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    if seconds > MOST_SECONDS:
        mistakes.append(f"{program.name}: {seconds:.1f} s, more than {MOST_SECONDS} s")
    return mistakes


found = [mistake for program in sorted((pathlib.Path(os.environ["DT_SOURCE"]) / "examples").glob("*.dt")) for mistake in check(program)]
print("\n".join(found))
sys.exit(1 if found else 0)
