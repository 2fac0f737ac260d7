"""dtrun keys: secrets that only their owner can read, and that are never overwritten."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403


def keys(*arguments):
    return subprocess.run(["dtrun", "keys", *arguments], capture_output=True, text=True)


folder = FOLDER / "keys"
made = keys(folder)
check(made.returncode == 0 and made.stdout.startswith(f"keys in {folder}\n"), made)
named = {name for line in made.stdout.splitlines()[1:] for name in line.split("  ")[-1].split(", ")}
check({path.name for path in folder.iterdir()} == named, named)
for path in folder.iterdir():
    check((path.stat().st_mode & 0o777 == 0o600) == path.name.endswith(".secret"), path)
before = {path: path.read_bytes() for path in folder.iterdir()}
again = keys(folder)
check(again.returncode == 1 and again.stdout == "" and "keys are not overwritten" in again.stderr, again)
check({path: path.read_bytes() for path in folder.iterdir()} == before, "keys were overwritten")
check(keys().returncode == 2 and "where to?" in keys().stderr, keys())
with_no_library = subprocess.run(["dtrun", "keys", FOLDER / "none"], env=dict(os.environ, DT_ZEROMQ="/nowhere"), capture_output=True, text=True)
check(with_no_library.returncode == 1 and "DT_ZEROMQ=/nowhere cannot be loaded" in with_no_library.stderr, with_no_library)
check(not (FOLDER / "none").exists(), "a folder without keys was made")
finish()
