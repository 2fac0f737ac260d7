"""A disk that breaks while checkpoints are written: each write, ftruncate, fsync and rename of one fails once with EIO. The run ends with one error that names the
file and the reason, the checkpoints that were there are whole, and it goes on from them to the bits of a run that was never disturbed."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

BUILD = pathlib.Path(os.environ["DT_BUILD"])
data, program = write_data(), compile_program()
before, whole = FOLDER / "before", FOLDER / "whole"
TRAIN = ("--data", data, "--devices", "cpu:1x1", "--log-every", 0)
Run("train", program, *TRAIN, "--max-steps", 4, "--checkpoint-dir", before)
Run("train", program, *TRAIN, "--max-steps", 8, "--checkpoint-dir", whole)
wanted = bits(whole)
n_failed = 0


def fails(call, at, below):
    """Whether the run has come to such a call."""
    global n_failed
    folder, log = FOLDER / f"{call}-{at}", FOLDER / f"{call}-{at}.log"
    shutil.copytree(before, folder / "ck")
    sanitizer = subprocess.run(["sh", "-c", f"ldd {shutil.which('dtrun')} | grep -o '/.*lib[at]san.so[^ ]*'"], capture_output=True, text=True).stdout.split()
    environment = {"LD_PRELOAD": ":".join([*sanitizer, str(BUILD / "tests/libfail_files.so")]), "FAIL_CALL": call, "FAIL_AT": str(at), "FAIL_BELOW": below,
                   "FAIL_LOG": str(log)}
    run = Run("train", program, *TRAIN, "--max-steps", 8, "--resume", "--checkpoint-dir", folder / "ck", environment=environment, expect=None, seconds=60)
    if not log.exists():
        check(run.code == 0, f"{call} {at}: {run.error}")
        return False
    errors = [line for line in run.error.splitlines() if line.startswith("dtrun: error: ")]
    check(run.code == 1 and len(errors) == 1 and "Input/output error" in errors[0] and str(folder / "ck") in errors[0] and "Sanitizer" not in run.error,
          f"{call} {at}: ended with {run.code}\n{run.error}")
    Run("train", program, *TRAIN, "--max-steps", 8, "--resume", "--checkpoint-dir", folder / "ck")
    check(bits(folder / "ck") == wanted, f"{call} {at}: another training")
    n_failed += 1
    return True


for call, least, below in (("write", 3, "/ck/"), ("ftruncate", 2, "/ck/.unfinished"), ("fsync", 4, "/ck/"), ("rename", 1, "/ck/")):
    at = 1
    while at <= 12 and fails(call, at, below):
        at += 1
    check(at > least, f"only {at - 1} calls of {call} have failed")
print(n_failed, "failed")
finish()
