"""--shard-parameters in all layouts, pairwise: processes, devices of each, replicas, programs. A GPT of 400 million parameters takes three steps on four
processes, none of which has room for half of it, with the loss of one process that has room for all; where that has not, it says which layout fits."""
import os
import re
import resource
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["DT_SOURCE"], "tests/support"))
import layouts
import mpi
from sharded import EXAMPLES, SHARED, case, goes_on
from training import check, compile_program, finish

MIB = 1 << 20

# Each pair of a number of processes, of devices and of replicas, and each of them with each program, as far as each device gets a replica.
PROGRAMS = ("clipped", "lamb", "penalty", "loop", "norms", "gpt", "gan", "every", "rows", "twice")
LAYOUTS = ((1, 1, 2), (2, 1, 2), (1, 2, 4), (2, 2, 4), (3, 1, 4), (4, 1, 4), (1, 1, 8), (2, 2, 8), (3, 2, 8), (4, 2, 8))
for replicas in (2, 4, 8):
    for number, name in enumerate(PROGRAMS):
        chosen = [(p, d) for at, (p, d, v) in enumerate(LAYOUTS) if v == replicas and (at + number) % 2 == 0]
        for flags in ((), ("--precision", "bf16")) if name in ("clipped", "gpt") else ((),):
            if chosen:
                layouts.compare("openmpi", case(name, *flags), replicas, chosen, SHARED)
layouts.compare("mpich", case("clipped"), 4, [(2, 1), (3, 1)], SHARED)
goes_on(case("gpt"), 8, [(2, 2, SHARED), (3, 1, SHARED), (1, 2), (4, 2, SHARED), (2, 1)])
goes_on(case("norms"), 4, [(4, 1, SHARED), (2, 1, SHARED), (3, 1)])

# ---- a model that no process has room for ----
gpt = compile_program((EXAMPLES / "gpt.dt").read_text(), "large", "-D", "layers=14", "-D", "width=1536", "-D", "heads=12", "--batch", "1")
FLAGS = ["--data", layouts.DATA, "--devices", "cpu:1x1", "--replicas", 4, "--global-batch", 4, "--max-steps", 3, "--log-every", 1]
if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 16 << 30:
    print("not run: 400 million parameters, for which this machine has no memory", flush=True)
    finish()
    sys.exit()


def losses(text):
    return re.findall(r"^step \d+  loss (\S+)", text, re.M)


one = subprocess.run(["dtrun", "train", gpt, *map(str, FLAGS)], capture_output=True, text=True)
needed = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
check(one.returncode == 0 and len(losses(one.stdout)) == 3, one)
limit = int(0.4 * needed)


def limited(*command):
    return ["bash", "-c", f'ulimit -v {limit // 1024} && exec "$@"', "limited", *command]


four = mpi.run("openmpi", 4, limited("dtrun", "train", gpt, *FLAGS, SHARED))
check(four.returncode == 0 and losses(four.stdout) == losses(one.stdout), f"of {limit / MIB:.0f} MiB each:\n{four.stdout}{four.stderr}\n{one.stdout}")
print(f"one process takes {needed / MIB:.0f} MiB; four of at most {limit / MIB:.0f} MiB have its losses {losses(one.stdout)}", flush=True)
refused = subprocess.run(limited("dtrun", "train", gpt, *map(str, FLAGS)), capture_output=True, text=True)
check(refused.returncode == 1 and re.search(r"the plan needs .* with --shard-parameters over \d processes each needs", refused.stderr), refused)
finish()
