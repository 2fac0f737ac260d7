"""Options of the run that servers tell workers: as many bytes as there may be arrive, to the bytes of a run of one process; more are an error at once, said
once, by whoever starts servers."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from training import FOLDER, Run, check, command, finish, left_by, subprocess

case = layouts.pairs()
LOCAL = "--local-servers", 2, "--workers", 2, "--staleness", 0


def flags(zeros, folder):
    return [*case.flags(2), "--seed", 3, "--max-steps", 2, "--checkpoint-dir", folder, "--devices", "cpu:1x1", "--set", "rate=0.01" + "0" * zeros]


def refusal(call):
    """How many bytes there are, as the error says that there are too many."""
    done = subprocess.run(command(*call), capture_output=True, text=True, timeout=servers.SECONDS)
    found = re.findall(r"error: servers tell workers the options of the run, which have (\d+) bytes, in at most 1024; --set alone has \d+\n", done.stderr)
    check(done.returncode == 1 and len(found) == 1 and done.stderr.count("error: ") == 1, f"exit status {done.returncode}:\n{done.stderr}")
    return int(found[0])


folder, whole = servers.new_folder(), FOLDER / "whole"
n = refusal(["train", case.artifact, *flags(2000, folder), *LOCAL])
zeros = 2000 - (n - 1024)
check(refusal(["train", case.artifact, *flags(zeros + 1, folder), *LOCAL]) == 1025, "one byte too many is not found")
check(refusal(["ps-server", case.artifact, *flags(zeros + 1, folder), "--staleness", 0, "--listen", "127.0.0.1:*"]) == 1025, "or not by a server alone")
check(not folder.exists(), f"an error has left {folder}")
Run("train", case.artifact, *flags(zeros, folder), *LOCAL)
Run("train", case.artifact, *flags(0, whole))
check(left_by(folder) == left_by(whole), "options of 1,024 bytes do not arrive")
finish()
