"""dtrun --timeline of several processes: one file, in which each process has its part of the kernels, all have the same exchanges, and clocks agree."""
import collections
import os
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
from timeline import Timeline, check_kernels
from training import FOLDER, check, finish

N, STEPS, REPLICAS = 2, 5, 6
path = FOLDER / "trace.json"
net = layouts.net()
flags = [*net.flags(REPLICAS), "--devices", "cpu:2x1", "--timeline", path]
layouts.mpirun("openmpi", N, "train", net, *flags, "--epochs", 2, "--timeline-steps", STEPS, "--checkpoint-dir", FOLDER / "ck")
trace = Timeline(path)
check(trace.about["processes"] == N and trace.about["steps_kept"] == STEPS and trace.about["steps_run"] > STEPS, trace.about)
check(0 < trace.about["clock_error_microseconds"] < 1e5, trace.about)
check([name.split(",")[0] for _, name in sorted(trace.processes.items())] == [f"rank {p}" for p in range(N)], trace.processes)
check(trace.steps(1) == trace.steps(2) and sum(trace.steps(1).values()) == STEPS, (trace.steps(1), trace.steps(2)))
check_kernels(trace, net.artifact, REPLICAS, 16, 2 * N, N)
for process in range(1, N + 1):
    own = sum(e["pid"] == process for e in trace.of("kernel"))
    check(own > len(trace.of("kernel")) // 4, f"kernels of process {process}: {own}")
check({e["pid"] for e in trace.of("checkpoint")} == {1, 2}, "who writes checkpoints")

# the same exchanges, with the same tags; each ends nowhere before it has begun everywhere
by_process = collections.defaultdict(lambda: collections.defaultdict(list))
for begin, end in trace.exchanges:
    a = begin["args"]
    if a["function"] == "train":
        check(a["tag"] == 0 or a["bytes"] > 0, begin)
        by_process[begin["pid"]][a["tag"], begin["name"], a["step"], a["segment"]].append((begin["began"], end["began"]))
check(len(by_process) == N and by_process[1].keys() == by_process[2].keys(), [sorted(found) for found in by_process.values()])
check(len({key[0] for key in by_process[1]}) >= 3, sorted(by_process[1]))
records = collections.Counter(key[2] for key, times in by_process[1].items() if key[0] == 0 for _ in times)
check(1 in records.values(), f"what is said before a step goes with the one before: {records}")
error = 1000 * 2 * trace.about["clock_error_microseconds"]
for key in by_process[1]:
    for times in zip(*(by_process[p][key] for p in by_process)):
        check(max(began for began, _ in times) <= min(ended for _, ended in times) + error, f"{key}: {times}, error {error} ns")

layouts.mpirun("openmpi", N, "evaluate", net, *flags, "--checkpoint-dir", FOLDER / "ck")
trace = Timeline(path)
check(set(trace.steps(1)) == {"evaluate"} and trace.steps(1) == trace.steps(2), trace.steps(1))
check_kernels(trace, net.artifact, REPLICAS, 16, 2 * N, N)
finish()
