"""dtrun info --processes says what a run sends: its bytes, rounded as it prints them, are those of the exchanges that a timeline has of a step, without
the records of the step itself."""
import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
from sharded import SHARED, SPLIT, case as sharded_case
from timeline import Timeline
from training import FOLDER, check, finish

SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
ROW = re.compile(r" +\d+ +\w+ +\d+ +[\d.]+ (?:B|KiB|MiB) +\d+ +\w+ +\d+ +([\d.]+) (B|KiB|MiB) .*")


def said_of(case, n, replicas, flags):
    """Bytes of a step that trains, of the process that sends most, and how much rounding may be."""
    text = subprocess.run(["dtrun", "info", case.artifact, "--processes", str(n), "--replicas", str(replicas), *flags], capture_output=True, text=True,
                          check=True).stdout
    rows = [ROW.fullmatch(line) for line in re.search(r"^step train:.*?(?=^step |\Z)", text, re.MULTILINE | re.DOTALL).group().splitlines()]
    rows = [(float(row[1]) * SIZES[row[2]], 0.05 * SIZES[row[2]] if row[2] != "B" else 0) for row in rows if row]
    return sum(row[0] for row in rows), sum(row[1] for row in rows)


def sent_by(case, n, replicas, flags):
    """The same of each process in each step of a run."""
    path = FOLDER / "trace.json"
    layouts.mpirun("openmpi", n, "train", case, *case.flags(replicas), "--devices", "cpu:1x1", "--timeline", path, "--max-steps", 3, *flags)
    bytes_of = collections.Counter()
    for begin, _ in Timeline(path).exchanges:
        a = begin["args"]
        if a["function"] == "train" and begin["name"] != "records":
            bytes_of[begin["pid"], a["step"]] += a.get("bytes", 0)
    return bytes_of


for case in (layouts.net(), layouts.pairs(), layouts.halves(), layouts.wide()):
    for n, replicas, flags in ((2, 2, []), (3, 4, []), (2, 4, ["--shard-optimizer"])):
        said, rounding = said_of(case, n, replicas, [f"--global-batch={case.batch // replicas * replicas}", *flags])
        sent = sent_by(case, n, replicas, flags)
        name = f"{case.artifact}, {n} processes, {replicas} replicas {flags}: {said} said, {dict(sent)}"
        check(len(sent) == 3 * n, name)
        # Where all send alike the sum of what is said is one process's; else each row is of the one that sends most of it.
        exact = n == 2 and not flags
        check(all(bytes <= said + rounding for bytes in sent.values()) and (not exact or max(sent.values()) >= said - rounding), name)

PLACE = re.compile(r"^ {6}\S+:\d+ +\w+ +\d+ +[\d.]+ \w+ +([\d.]+) (\w+) *$", re.MULTILINE)


def said_of_places(case, n, replicas, flags):
    """Bytes that are sent where the program combines shards."""
    text = subprocess.run(["dtrun", "info", case.artifact, "--processes", str(n), "--replicas", str(replicas), *flags], capture_output=True, text=True,
                          check=True).stdout
    return sum(float(sent) * SIZES[unit] for sent, unit in PLACE.findall(re.search(r"^step train:.*?(?=^step |\Z)", text, re.MULTILINE | re.DOTALL)[0]))


# Of a model in shards what combines these crosses for each microbatch, between other processes than sums over microbatches. Where all processes are of one
# group there is nothing else, and places of the program are all of it, but for what rounds.
split = layouts.Case("split", SPLIT, 24)
for n, replicas, over in ((2, 2, 2), (4, 4, 2), (4, 1, 4)):
    flags = ["--shards-over", str(over)]
    said, rounding = said_of(split, n, replicas, [f"--global-batch={split.batch // replicas * replicas}", *flags])
    sent = sent_by(split, n, replicas, flags)
    check(len(sent) == 3 * n and max(sent.values()) >= said - rounding and all(bytes <= said + rounding for bytes in sent.values()),
          f"{n} processes, {flags}: {said} said, {dict(sent)}")
    if over == n:
        flags += [f"--global-batch={split.batch // replicas * replicas}"]
        places = said_of_places(split, n, replicas, flags)
        check(0.95 <= places / max(sent.values()) <= 1.001, f"{n} processes, {flags}: {places} said of places, {dict(sent)}")

# The same with shares of what a process has of the model; and what it takes of memory, as a run says it.
def check_memory(case, n, replicas, flags):
    options = [*map(str, case.flags(replicas)), *flags]
    about = subprocess.run(["dtrun", "info", case.artifact, "--processes", str(n), *options[-len(flags) - 4:]], capture_output=True, text=True, check=True).stdout
    run = mpi.run("openmpi", n, ["dtrun", "train", case.artifact, *options, "--devices", "cpu:1x1", "--max-steps", 1]).stdout
    said, taken = (float(re.search(pattern, text)[1]) for pattern, text in ((r"a process of one core takes ([\d.]+) MiB", about), (r"([\d.]+) MiB of memory", run)))
    check(abs(said - taken) <= 0.1 + 0.01 * taken, f"{n} processes, {flags}: {said} MiB said, {taken} MiB in the run")


wide = sharded_case("split")
for n, flags in ((2, ["--shard-optimizer"]), (2, [SHARED]), (4, ["--shards-over", "2", "--shard-optimizer"]), (4, ["--shards-over", "2", SHARED]), (4, ["--shards-over", "2"])):
    said, rounding = said_of(wide, n, 8, [f"--global-batch={wide.batch // 8 * 8}", *flags])
    sent = sent_by(wide, n, 8, flags)
    check(len(sent) == 3 * n and all(0.95 * said <= bytes <= said + rounding for bytes in sent.values()), f"{n} processes, {flags}: {said} said, {dict(sent)}")
    check_memory(wide, n, 8, flags)

# Stages hand microbatches on, and numbers once a step: each row is of the stage that sends most of it.
gpt = sharded_case("gpt")
split = sharded_case("gpt", "-D", "shards=2")
for case, n, flags in ((gpt, 2, []), (gpt, 4, []), (gpt, 4, ["--shard-optimizer"]), (split, 8, ["--shards-over", "2", "--shard-optimizer"])):
    flags = ["--stages", "2", *flags]
    said, rounding = said_of(case, n, 8, [*flags, "--global-batch=8"])
    sent = sent_by(case, n, 8, flags)
    check(len(sent) == 3 * n and all(bytes <= said + rounding for bytes in sent.values()) and max(sent.values()) >= 0.8 * said,
          f"{n} processes, {flags}: {said} said, {dict(sent)}")

# Parameters in shares: every layer is gathered forwards and backwards, but the last one, which turns around, once; all gradients leave once.
for n in (2, 4):
    said, rounding = said_of(gpt, n, 8, [SHARED, "--global-batch=8"])
    sent = sent_by(gpt, n, 8, [SHARED])
    parameters = 4 * sum(int(re.sub(",", "", found)) for found in re.findall(r"([\d,]+) parameters,", subprocess.run(
        ["dtrun", "info", gpt.artifact], capture_output=True, text=True).stdout))
    check(all(0.95 * said <= bytes <= said + rounding for bytes in sent.values()), f"{n} processes: {said} said, {dict(sent)}")
    check(all(2 * parameters <= bytes / ((n - 1) / n) <= 3.1 * parameters for bytes in sent.values()), f"{n}: {parameters} of parameters, {dict(sent)}")
    print(f"{n} processes with {SHARED}: {max(sent.values())} bytes a step, {max(sent.values()) / (parameters * (n - 1) / n):.2f} times (P - 1) / P of all "
          "parameters", flush=True)
finish()
