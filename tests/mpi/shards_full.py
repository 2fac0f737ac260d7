"""A GPT of 600 million parameters takes a step on four processes that hold its shards, none of which has room for more than 0.4 times what one process needs,
as `dtrun info` says; with the report of one process that has room for all. One that has not is refused before it starts, and told which mesh fits."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
from sharded import EXAMPLES
from training import check, compile_program, finish

MIB = 1 << 20
PART, PARAMETERS = 0.4, 600_000_000
FLAGS = ["--data", layouts.DATA, "--devices", "cpu:1x1", "--replicas", 1, "--global-batch", 1, "--max-steps", 1, "--log-every", 1]


def available():
    return 1024 * int(re.search(r"MemAvailable: +(\d+)", open("/proc/meminfo").read())[1])


def said_bytes(info):
    """Of one process of one core and one replica, a microbatch."""
    line = re.search(r"^up to .* memory: (.*)$", info, re.M)[1]
    return sum(float(n) for n in re.findall(r"([\d.]+) MiB", line)) * MIB


def reports(text):
    return re.findall(r"^step \d+ .*", text, re.M)


def limited(limit, *command):
    return ["bash", "-c", f'ulimit -v {limit // 1024} && exec "$@"', "limited", *map(str, command)]


gpt = compile_program((EXAMPLES / "gpt.dt").read_text(), "large", "-D", "shards=4", "-D", "layers=12", "-D", "width=2048", "-D", "heads=16", "--batch", "1")
info = subprocess.run(["dtrun", "info", gpt], capture_output=True, text=True, check=True).stdout
check(int(re.search(r"^([\d,]+) parameters", info, re.M)[1].replace(",", "")) > PARAMETERS, info)
needed = said_bytes(info)
limit = int(PART * needed)
print(f"one process needs {needed / MIB:.0f} MiB", flush=True)

for part in ("train", "valid"):
    (layouts.DATA / f"{part}.txt").write_text("a rose is a rose is a rose, " * 40)
refused = subprocess.run(limited(limit, "dtrun", "train", gpt, *FLAGS), capture_output=True, text=True)
check(refused.returncode == 1 and not reports(refused.stdout) and
      re.search(r"the plan needs .* with --shards-over 4 each of 4 processes needs [\d.]+ MiB", refused.stderr), refused)

room = available()
if room < 1.2 * needed:
    print(f"not run: that takes {1.2 * needed / MIB:.0f} MiB, and {room / MIB:.0f} are available", flush=True)
    finish()
    sys.exit()
four = mpi.run("openmpi", 4, limited(limit, "dtrun", "train", gpt, *FLAGS, "--shards-over", 4))
check(four.returncode == 0 and len(reports(four.stdout)) == 1, f"of {limit / MIB:.0f} MiB each:\n{four.stdout}{four.stderr}")
one = subprocess.run(["dtrun", "train", gpt, *map(str, FLAGS)], capture_output=True, text=True)
check(one.returncode == 0 and reports(one.stdout) == reports(four.stdout), f"{four.stdout}\n{one.stdout}{one.stderr}")
print(f"four of at most {limit / MIB:.0f} MiB report what one does: {reports(one.stdout)[0]}", flush=True)
finish()
