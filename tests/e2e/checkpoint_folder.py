"""The folder of checkpoints: one run at a time writes there, whoever was killed with the lock, and what cannot be written is known before the first
step. What computes nothing saves nothing."""
import os
import re
import signal
import socket
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
from training import *  # noqa: E402,F403

data, program = write_data(), compile_program()
folder = FOLDER / "ck"
FLAGS = ("--data", data, "--checkpoint-dir", folder)

# ---- the second run says who is the first, and leaves everything as it is ----
first = subprocess.Popen(command("train", program, *FLAGS, "--epochs", 10 ** 6, "--checkpoint-every", 1, "--log-every", 0), stdout=subprocess.PIPE, text=True)
for line in first.stdout:
    if '"checkpoint"' in line:
        break
for flags in ((), ("--resume",)):
    second = Run("train", program, *FLAGS, *flags, expect=1)
    holder = re.escape(f"process {first.pid} on {socket.gethostname()} since ") + r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}: "
    check(re.search(re.escape(f"dtrun: error: {folder}: another run writes its checkpoints here, ") + holder, second.error), second.error)
    check(second.events == [], second.events)
check(first.poll() is None, "the first run ended")
Run("evaluate", program, *FLAGS)  # who reads needs no lock

# ---- killed, it leaves none; nor does one that ends ----
first.send_signal(signal.SIGKILL)
first.communicate()
for steps in (1, 2):
    Run("train", program, *FLAGS, "--resume", "--max-steps", int(newest(folder).name[5:]) + 1)
Run("train", program, *FLAGS, expect=1)  # refused, for there are checkpoints: that lock is gone too
Run("train", program, *FLAGS, "--resume", "--max-steps", 1)
check((folder / ".lock").read_bytes() == b"", "a run that has ended is named in the lock")

# ---- a checkpoint that a training removes while it is read: there is a newer one ----
shutil.copytree(folder, FOLDER / "read")
whole = newest(FOLDER / "read")
step = int(whole.name[5:])
shutil.copytree(whole, FOLDER / "newer")
(whole / "model.safetensors").unlink()
os.mkfifo(whole / "model.safetensors")
reader = subprocess.Popen(command("evaluate", program, "--data", data, "--checkpoint-dir", FOLDER / "read"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
with open(whole / "model.safetensors", "wb"):  # it has opened it
    (FOLDER / "newer").rename(FOLDER / f"read/step-{step + 1}")
    whole.rename(FOLDER / "removed")
out, error = reader.communicate()
check(reader.returncode == 0 and b'"end"' in out, error)

# ---- a folder that cannot be written ----
FOLDER.chmod(0o755)
for path, what in ((FOLDER / "locked", "a folder of somebody else's"), (folder, "one with checkpoints")):
    path.mkdir(exist_ok=True)
    for part in (path, path / ".lock"):
        if part.exists():
            part.chmod(0o555 if part.is_dir() else 0o666)
    done = subprocess.run(command("train", program, "--data", data, "--checkpoint-dir", path, "--resume"), capture_output=True, text=True,
                          preexec_fn=(lambda: os.setuid(65534)) if os.getuid() == 0 else None)
    check(done.returncode == 1 and done.stderr.count("\n") == 1 and "Permission denied" in done.stderr and str(path) in done.stderr, (what, done))
    check('"step"' not in done.stdout, done.stdout)
    path.chmod(0o755)
refused = Run("train", program, "--data", data, "--checkpoint-dir", "/proc/none", expect=1)
check("/proc/none" in refused.error and refused.events == [], refused.error)

# ---- devices that compute nothing ----
refused = Run("train", program, "--data", data, "--devices", "null", "--checkpoint-dir", FOLDER / "null", expect=1)
check("--devices null computes nothing: there is nothing to save in --checkpoint-dir" in refused.error and not (FOLDER / "null").exists(), refused.error)
refused = Run("predict", program, "--input", data / "test-images", "--output", FOLDER / "out", "--devices", "null:1", "--checkpoint-dir", folder, expect=1)
check("--devices null:1 computes nothing: there are no results to write" in refused.error and not (FOLDER / "out").exists(), refused.error)
Run("train", program, "--data", data, "--devices", "null", "--max-steps", 3)
finish()
