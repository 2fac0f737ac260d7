"""A table by rows that no process but the servers has room for: the memory of each while servers and workers begin with weights, write checkpoints, and go on."""
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import servers
from ratings import write_ratings
from training import FOLDER, check, command, finish, newest

TABLES = (pathlib.Path(os.environ["DT_SOURCE"]) / "tests/programs/recommend.dt").read_text()
write_ratings(layouts.DATA)
ITEMS, WIDTH = 6_000_000, 5
TABLE_MIB = ITEMS * WIDTH * 4 / 2**20
large = layouts.Case("large", TABLES.replace("rate = cosine_decay(0.5, steps: 100)", "rate = 0.5"), 40, f"-Ditems={ITEMS}")


def peaks(folder, *flags):
    """The peak memory of a server and of a worker, in MiB."""
    found = {}
    process = subprocess.Popen(command("train", large.artifact, *large.flags(4), "--local-servers", 2, "--workers", 2, "--devices", "cpu:1x1", "--rows",
                                       "--checkpoint-dir", folder, *flags), stdout=subprocess.DEVNULL)
    while process.poll() is None:
        for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            try:
                role = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1]
                line = next(line for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
                found[role] = max(found.get(role, 0), int(line.split()[1]) / 1024)
            except (OSError, IndexError, StopIteration):  # it has ended
                pass
        time.sleep(0.005)
    check(process.returncode == 0, f"{flags}: exit status {process.returncode}")
    return found


first, second, third = servers.new_folder(), servers.new_folder(), servers.new_folder()
synchronous = ["--staleness", 0]
seen = [peaks(first, "--epochs", 1, *synchronous), peaks(first, "--epochs", 2, "--resume", *synchronous)]
weights = FOLDER / "weights.safetensors"
(newest(first) / "model.safetensors").rename(weights)
seen += [peaks(second, "--epochs", 1, "--init", weights, *synchronous), peaks(third, "--epochs", 1)]
for one in seen:
    check(one["ps-worker"] < 40, f"a worker has {one['ps-worker']:.0f} MiB, of a table of {TABLE_MIB:.0f}")
    check(TABLE_MIB / 2 < one["ps-server"] < TABLE_MIB + 40, f"a server has {one['ps-server']:.0f} MiB, half a table and a copy of that are {TABLE_MIB:.0f}")
print(f"a table of {TABLE_MIB:.0f} MiB: {seen}")
finish()
